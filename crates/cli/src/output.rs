//! Printing: tables, JSON, standard output that may go away at any time.

use std::io::{self, Write};

use serde::Serialize;

use crate::failure::{Failure, Outcome};

/// Prints to standard output and flushes, so that a reader sees it at once.
pub fn print(text: &str) -> Outcome {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// Prints one JSON value over several lines.
pub fn print_json(value: &impl Serialize) -> Outcome {
    let text = serde_json::to_string_pretty(value).map_err(Failure::new)?;
    print(&format!("{text}\n"))
}

/// Where JSON lines go: standard error when standard output carries the stream itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lines {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl Lines {
    /// Writes one value as one line.
    pub fn write(self, value: &impl Serialize) -> Outcome {
        let mut text = serde_json::to_string(value).map_err(Failure::new)?;
        text.push('\n');
        match self {
            Lines::Stdout => print(&text),
            Lines::Stderr => Ok(io::stderr().lock().write_all(text.as_bytes())?),
        }
    }
}

/// A table of left-aligned first column and right-aligned rest, without lines or colours.
#[derive(Debug, Default)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with this head.
    pub fn new(head: &[&str]) -> Table {
        Table {
            rows: vec![head.iter().map(|cell| (*cell).to_owned()).collect()],
        }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// The table as text, indented by two.
    pub fn render(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::from("  ");
            for (column, cell) in row.iter().enumerate() {
                let pad = widths[column] - cell.chars().count();
                let (before, after) = if column == 0 { (0, pad) } else { (pad, 0) };
                line.push_str(&" ".repeat(before));
                line.push_str(cell);
                line.push_str(&" ".repeat(after + 2));
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(&["layer", "frames"]);
        table.row(["BL".to_owned(), "12".to_owned()]);
        table.row(["E1+E2".to_owned(), "1234567".to_owned()]);
        let expected = "  layer   frames\n  BL          12\n  E1+E2  1234567\n";
        assert_eq!(table.render(), expected);
    }
}
