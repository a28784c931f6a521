//! Tables for people: as wide as they are in a file or a pipe, and within the width of a terminal.

use std::collections::BTreeSet;
use std::os::fd::AsFd;

/// The shortest that a name is cut to.
const SHORTEST: usize = 10;
/// The text of a cell whose sentence is below the table.
const BELOW: &str = "see below";

/// Columns of the terminal behind a file descriptor; none: it is no terminal.
pub fn terminal_width(fd: impl AsFd) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(fd).ok()?;
    (size.ws_col > 0).then_some(size.ws_col.into())
}

/// A table for people, without lines or colours: columns that line up, the first to the left, the others to the right.
#[derive(Debug)]
pub struct Table {
    rows: Vec<Vec<String>>,
    /// The first columns have names.
    names: usize,
    /// The last column has sentences.
    has_sentences: bool,
}

impl Table {
    /// A table with this head.
    pub fn new(head: &[&str]) -> Table {
        Table {
            rows: vec![head.iter().map(|cell| (*cell).to_owned()).collect()],
            names: 1,
            has_sentences: false,
        }
    }

    /// The first `columns` have names, which are shortened where the table would be too wide.
    pub fn with_names(mut self, columns: usize) -> Table {
        self.names = columns;
        self
    }

    /// The last column has sentences, which are below the table where it would be too wide.
    pub fn with_sentences(mut self) -> Table {
        self.has_sentences = true;
        self
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// The table as text, indented by two.
    pub fn render(&self) -> String {
        render(&self.rows, self.sentences())
    }

    /// The head of the column that has sentences, if there is one.
    fn sentences(&self) -> Option<&str> {
        let head = self.rows[0].last().filter(|_| self.has_sentences);
        head.map(String::as_str)
    }

    /// The same in this width, if it is limited: without columns that say nothing, with sentences below it, with names
    /// shortened in the middle, and in several tables, as far as each of that is necessary.
    pub fn fit(&self, width: Option<usize>) -> String {
        let Some(width) = width.filter(|&width| total(&self.rows) > width) else {
            return self.render();
        };
        let mut rows = self.rows.clone();
        let columns = widths(&rows).len();
        for column in (self.names..columns).rev() {
            let cells = rows.iter().skip(1);
            if { cells }.all(|row| row.get(column).is_none_or(|cell| says_nothing(cell))) {
                rows.iter_mut()
                    .filter(|row| row.len() > column)
                    .for_each(|row| {
                        row.remove(column);
                    });
            }
        }
        let is_kept = rows[0].last() == self.rows[0].last();
        let sentences = match self.has_sentences && is_kept {
            true => take_sentences(&mut rows, width),
            false => Vec::new(),
        };
        shorten(&mut rows, self.names, width);
        let parts: Vec<String> = parts(&rows, width)
            .iter()
            .map(|it| render(it, self.sentences()))
            .collect();
        let mut text = parts.join("\n");
        for sentence in sentences {
            text.push_str(&wrapped(&sentence, width));
        }
        text
    }
}

/// Characters of each column.
fn widths(rows: &[Vec<String>]) -> Vec<usize> {
    let mut widths = Vec::new();
    for row in rows {
        widths.resize(widths.len().max(row.len()), 0);
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    widths
}

/// Characters of the longest line.
fn total(rows: &[Vec<String>]) -> usize {
    widths(rows).iter().map(|width| width + 2).sum()
}

/// The table, or several ones that have the first column and some of the others each.
fn parts(rows: &[Vec<String>], width: usize) -> Vec<Vec<Vec<String>>> {
    let widths = widths(rows);
    let mut groups = vec![vec![0]];
    let mut used = widths[0] + 2;
    for (column, wide) in widths.iter().enumerate().skip(1) {
        if used + wide + 2 > width && used > widths[0] + 2 {
            groups.push(vec![0]);
            used = widths[0] + 2;
        }
        used += wide + 2;
        if let Some(group) = groups.last_mut() {
            group.push(column);
        }
    }
    let part = |columns: &Vec<usize>| {
        let cells = |row: &Vec<String>| {
            let cells = columns.iter().filter_map(|&column| row.get(column));
            cells.cloned().collect()
        };
        rows.iter().map(cells).collect()
    };
    groups.iter().map(part).collect()
}

/// The table as text; the column with the head `sentences` is to the left, as the first one is.
fn render(rows: &[Vec<String>], sentences: Option<&str>) -> String {
    let widths = widths(rows);
    let mut text = String::new();
    for row in rows {
        let mut line = String::from("  ");
        for (column, cell) in row.iter().enumerate() {
            let pad = widths[column] - cell.chars().count();
            let (before, after) =
                match column == 0 || rows[0].get(column).map(String::as_str) == sentences {
                    true => (0, pad),
                    false => (pad, 0),
                };
            line.push_str(&" ".repeat(before));
            line.push_str(cell);
            line.push_str(&" ".repeat(after + 2));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Whether a cell is empty, or has the number 0.
fn says_nothing(cell: &str) -> bool {
    cell.chars()
        .all(|c| matches!(c, '0' | '.' | '/' | '%' | '-' | ' '))
}

/// Takes the sentences of the last column out that do not fit, each with the names of its rows.
fn take_sentences(rows: &mut [Vec<String>], width: usize) -> Vec<String> {
    let widths = widths(rows);
    let last = widths.len() - 1;
    let others: usize = widths[..last].iter().map(|width| width + 2).sum();
    let room = width.saturating_sub(others + 2).max(BELOW.len());
    let head = rows[0][last].clone();
    let mut sentences: Vec<(String, Vec<String>)> = Vec::new();
    for row in rows.iter_mut().skip(1).filter(|row| row.len() > last) {
        if row[last].chars().count() <= room {
            continue;
        }
        let sentence = std::mem::replace(&mut row[last], BELOW.into());
        let name = row[0].clone();
        match sentences.iter_mut().find(|(known, _)| *known == sentence) {
            Some((_, names)) => names.push(name),
            None => sentences.push((sentence, vec![name])),
        }
    }
    let lines = sentences.into_iter();
    lines
        .map(|(sentence, names)| format!("{}: {head}: {sentence}", names.join(", ")))
        .collect()
}

/// Shortens names, the longest first, until the table fits or they are as short as they may be.
fn shorten(rows: &mut [Vec<String>], names: usize, width: usize) {
    while let over @ 1.. = total(rows).saturating_sub(width) {
        let widths = widths(rows);
        let longest = (0..names.min(widths.len())).max_by_key(|&column| widths[column]);
        let Some(column) = longest.filter(|&column| widths[column] > SHORTEST) else {
            return;
        };
        // One column is not shortened much below the next one.
        let others = (0..names.min(widths.len())).filter(|&other| other != column);
        let next = others.map(|other| widths[other]).max().unwrap_or(SHORTEST);
        let least = next.min(widths[column] - 1).max(SHORTEST);
        let to = widths[column].saturating_sub(over).max(least);
        let names = rows.iter().skip(1).filter_map(|row| row.get(column));
        let names: BTreeSet<&str> = names.map(String::as_str).collect();
        let short: BTreeSet<String> = names.iter().map(|name| cut(name, to)).collect();
        let (differ, from) = (short.len() == names.len(), alike(&names));
        for row in rows.iter_mut().skip(1) {
            if let Some(cell) = row.get_mut(column) {
                *cell = match differ {
                    true => cut(cell, to),
                    false => around(cell, from, to),
                };
            }
        }
        if widths[column] <= rows[0][column].chars().count() {
            return;
        }
    }
}

/// Characters that all names begin with.
fn alike(names: &BTreeSet<&str>) -> usize {
    // In their order, the first and the last differ earliest.
    let (Some(first), Some(last)) = (names.first(), names.last()) else {
        return 0;
    };
    let same = first.chars().zip(last.chars());
    same.take_while(|(one, other)| one == other).count()
}

/// The name in this number of characters: those where names begin to differ.
fn around(name: &str, from: usize, to: usize) -> String {
    let all = name.chars().count();
    if all <= to {
        return name.to_owned();
    }
    let from = from.saturating_sub(2).clamp(1, all + 1 - to);
    let rest = name.chars().skip(from);
    match all - from < to {
        true => ['…'].into_iter().chain(rest).collect(),
        false => ['…']
            .into_iter()
            .chain(rest.take(to - 2))
            .chain(['…'])
            .collect(),
    }
}

/// The name in this number of characters: its beginning and its end.
pub fn cut(name: &str, to: usize) -> String {
    let all = name.chars().count();
    if all <= to {
        return name.to_owned();
    }
    let end = (to - 1) / 2;
    let begin = to - 1 - end;
    let chars = || name.chars();
    chars()
        .take(begin)
        .chain(['…'])
        .chain(chars().skip(all - end))
        .collect()
}

/// A sentence in lines of this width, indented.
fn wrapped(sentence: &str, width: usize) -> String {
    let mut text = String::new();
    let mut line = String::from("  ");
    for word in sentence.split_whitespace() {
        let is_empty = line.trim().is_empty();
        if !is_empty && line.chars().count() + 1 + word.chars().count() > width {
            text.push_str(&line);
            text.push('\n');
            line = format!("    {word}");
            continue;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
    }
    text.push_str(&line);
    text.push('\n');
    text
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
        assert_eq!(table.fit(Some(80)), expected);
    }

    #[test]
    fn sentences_are_to_the_left_and_their_head_is_not_padded() {
        let mut table = Table::new(&["member", "late", "why no more"]).with_sentences();
        table.row(["ann".into(), "7".into(), "the link carries no more".into()]);
        table.row(["bob".into(), "12".into(), String::new()]);
        let expected = "  member  late  why no more\n  ann        7  the link carries no more\n  bob       12\n";
        assert_eq!(table.render(), expected);
        assert_eq!(table.fit(Some(80)), expected);
    }

    #[test]
    fn a_wide_table_fits_and_in_a_file_it_is_whole() {
        let mut table =
            Table::new(&["receiver", "files", "lost", "none", "missing"]).with_sentences();
        let name =
            |n: u32| format!("a-receiver-with-a-long-name-{n}.in.a.far.away.building.example.org");
        for n in 0..60 {
            let missing = match n {
                7 => "2 files: it does not answer, and somebody should look whether it runs",
                _ => "nothing",
            };
            table.row([
                name(n),
                "12".into(),
                "0".into(),
                String::new(),
                missing.into(),
            ]);
        }
        assert!(table.fit(None).contains(&name(59)));
        for width in [80, 100] {
            let text = table.fit(Some(width));
            let longest = text.lines().map(|line| line.chars().count()).max();
            assert!(longest <= Some(width), "{longest:?} of {width}:\n{text}");
            assert!(!text.contains("lost") && !text.contains("none"), "{text}");
            assert_eq!(
                text.lines().filter(|line| line.contains("nothing")).count(),
                59
            );
            // The sentence is whole, with the whole name.
            let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
            let said = format!("{}: missing: 2 files: it does not answer, and", name(7));
            assert!(words.contains(&said), "{text}");
            let names = text
                .lines()
                .skip(1)
                .take(60)
                .filter_map(|line| line.split("  ").nth(1));
            let names: BTreeSet<&str> = names.collect();
            assert_eq!(names.len(), 60, "{text}");
            assert_eq!(text.contains('…'), width == 80, "{text}");
        }
    }

    #[test]
    fn a_table_of_many_large_numbers_is_divided() {
        let mut table = Table::new(&["link to", "sent", "lost", "repairs"]);
        let number = || "1234567/1234567/1234567".to_owned();
        table.row(["switch".into(), number(), number(), number()]);
        let text = table.fit(Some(60));
        assert!(
            text.lines().all(|line| line.chars().count() <= 60),
            "{text}"
        );
        assert_eq!(text.matches("switch").count(), 2, "{text}");
        assert_eq!(text.matches("1234567/").count(), 6, "{text}");
    }

    #[test]
    fn the_longest_of_several_names_is_shortened_first() {
        let mut table = Table::new(&["member", "at", "played"]).with_names(2);
        table.row(["m".repeat(60), "switch".into(), "1000".into()]);
        let text = table.fit(Some(40));
        assert!(
            text.contains("  switch") && text.lines().all(|it| it.chars().count() <= 40),
            "{text}"
        );
        assert_eq!(cut("abcdefghij", 5), "ab…ij");
        assert_eq!(around("abcdefghij", 5, 6), "…defg…");
        assert_eq!(around("abcdefghij", 9, 6), "…fghij");
        assert_eq!(around("abcdefghij", 0, 6), "…bcde…");
    }
}
