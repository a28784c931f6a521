//! Files of cells: `layercast prepacketize`, `layercast play-cells`, `layercast receive-cells`.

pub mod args;
pub mod play;
pub mod prepare;
pub mod receive;

use std::io::{self, Write};
use std::path::Path;

use layercast_core::Span;
use layercast_picture::{CELL_FILE_HEADER, CellFileHeader, MarkedCell};
use serde::Serialize;

use crate::failure::{Failure, Outcome};
use crate::output::{self, Lines, print, print_json};

/// Classes as reports name them.
const CLASSES: &str = "S, I, P and B";

/// The cells of a file, each with its time.
fn read(path: &Path) -> Result<(CellFileHeader, Vec<(Span, MarkedCell)>), Failure> {
    let data = crate::input::read(path, true)?;
    let failed = |error| Failure::of(path, error);
    let header = CellFileHeader::decode(&data).map_err(failed)?;
    let cells = CellFileHeader::cells(&data[CELL_FILE_HEADER..]);
    let cells: Vec<_> = cells.collect::<Result<_, _>>().map_err(failed)?;
    Ok((header, cells))
}

/// Opens an output; `-` is standard output.
fn create(path: &Path) -> Result<Box<dyn Write>, Failure> {
    Ok(match path == Path::new("-") {
        true => Box::new(io::stdout().lock()),
        false => Box::new(output::create(path)?),
    })
}

/// An output that failed.
fn unwritten(path: &Path, error: &io::Error) -> Failure {
    match path == Path::new("-") {
        true => Failure::output("standard output", error),
        false => Failure::file(path, "write", error),
    }
}

/// Prints a report, on standard error if standard output has the data.
fn tell(out: Option<&Path>, is_json: bool, report: &impl Serialize, text: &str) -> Outcome {
    let is_free = out != Some(Path::new("-"));
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

/// Counts of the four classes in words.
fn classes(counts: [u64; 4]) -> String {
    let [s, i, p, b] = counts;
    format!("{s}, {i}, {p} and {b} of {CLASSES}")
}
