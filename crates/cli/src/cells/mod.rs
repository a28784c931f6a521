//! Files of cells: `layercast prepacketize`, `layercast play-cells`, `layercast receive-cells`.

pub mod args;
pub mod play;
pub mod prepare;
pub mod receive;

use std::path::Path;

use layercast_core::Span;
use layercast_picture::{CELL_FILE_HEADER, CellFileError, CellFileHeader, MarkedCell};
use serde::Serialize;

use crate::failure::{Failure, Outcome};
use crate::output::{Lines, complain, count as count_of, print, print_json};

/// Classes as reports name them.
const CLASSES: &str = "S, I, P and B";

/// What is in a file of cells.
struct CellFile {
    header: CellFileHeader,
    /// Each with its time.
    cells: Vec<(Span, MarkedCell)>,
    /// What is missing at its end.
    missing: Option<String>,
}

/// Reads a file of cells.
fn read(path: &Path) -> Result<CellFile, Failure> {
    let data = crate::input::read(path, true)?;
    let failed = |error| Failure::of(path, error);
    let header = CellFileHeader::decode(&data).map_err(failed)?;
    let (mut cells, mut missing) = (Vec::new(), None);
    for cell in CellFileHeader::cells(&data[CELL_FILE_HEADER..]) {
        match cell {
            Ok(cell) => cells.push(cell),
            Err(error @ CellFileError::Cut(_)) => missing = Some(error.to_string()),
            Err(error) => return Err(failed(error)),
        }
    }
    let there = cells.len() as u64;
    if let Some(count) = CellFileHeader::count(&data).filter(|&it| it != there) {
        missing = Some(match count > there {
            true => format!(
                "the file was cut: {there} of {} are there",
                count_of(count, "cell")
            ),
            false => format!("the file has {there} cells, and its header says {count}"),
        });
    }
    Ok(CellFile {
        header,
        cells,
        missing,
    })
}

/// Prints a report, on standard error if standard output has data.
fn tell(outputs: &[&Path], is_json: bool, report: &impl Serialize, text: &str) -> Outcome {
    let is_free = !outputs.contains(&Path::new("-"));
    match (is_json, is_free) {
        (true, true) => print_json(report),
        (true, false) => Lines::Stderr.write(report),
        (false, true) => print(text),
        (false, false) => {
            let written = Lines::Stderr.text(text);
            written.map_err(|error| Lines::Stderr.failure(&error))
        }
    }
}

/// Ends a command: with 3 after saying what is missing.
fn partial(missing: &[String]) -> Outcome {
    for what in missing {
        complain(&format!("layercast: {what}"));
    }
    match missing.is_empty() {
        true => Ok(()),
        false => Err(Failure::Partial),
    }
}

/// Counts of the four classes in words.
fn classes(counts: [u64; 4]) -> String {
    let [s, i, p, b] = counts;
    format!("{s}, {i}, {p} and {b} of {CLASSES}")
}
