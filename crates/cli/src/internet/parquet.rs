//! Tables as Parquet files: flat, plain, uncompressed, one page a column chunk.
//!
//! The crate `parquet` costs a minute and a half of processor time in a clean build; what these files need of
//! the format is here (parquet.apache.org: file format, Thrift compact protocol).

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::failure::{Failure, Outcome};

/// A value of a row.
#[derive(Clone, Copy, Debug)]
pub enum Cell<'a> {
    /// Text.
    Text(&'a str),
    /// A number, or none.
    Real(Option<f64>),
    /// A count, or none.
    Whole(Option<u64>),
}

/// What a column holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Text.
    Text,
    /// Numbers.
    Real,
    /// Counts.
    Whole,
}

impl Kind {
    /// The `Type` of parquet.thrift.
    fn physical(self) -> i32 {
        match self {
            Kind::Whole => 2,
            Kind::Real => 5,
            Kind::Text => 6,
        }
    }
}

/// A column, and its values that are not written yet.
struct Column {
    name: String,
    kind: Kind,
    /// Of each row, whether there is a value.
    there: Vec<bool>,
    /// The values in the format of a page.
    plain: Vec<u8>,
}

/// Where a chunk of a column is.
struct Chunk {
    offset: u64,
    length: u64,
}

/// Rows that were written together.
struct Group {
    rows: usize,
    chunks: Vec<Chunk>,
}

/// Rows that are held before they are written.
const GROUP: usize = 1 << 16;
const MAGIC: &[u8] = b"PAR1";

/// A table being written. After a failure nothing more is written; [`Sheet::finish`] tells of it.
pub struct Sheet {
    path: PathBuf,
    out: BufWriter<File>,
    offset: u64,
    columns: Vec<Column>,
    rows: usize,
    groups: Vec<Group>,
    failed: Outcome,
}

impl Sheet {
    /// Creates the file; the columns come in this order.
    pub fn create(path: PathBuf, columns: &[(&str, Kind)]) -> Result<Sheet, Failure> {
        let file = File::create(&path).map_err(|error| failed(&path, &error))?;
        let column = |&(name, kind): &(&str, Kind)| Column {
            name: name.to_owned(),
            kind,
            there: Vec::new(),
            plain: Vec::new(),
        };
        let mut sheet = Sheet {
            columns: columns.iter().map(column).collect(),
            out: BufWriter::new(file),
            offset: 0,
            rows: 0,
            groups: Vec::new(),
            failed: Ok(()),
            path,
        };
        sheet.put(MAGIC)?;
        Ok(sheet)
    }

    fn put(&mut self, bytes: &[u8]) -> Outcome {
        self.offset += bytes.len() as u64;
        let written = self.out.write_all(bytes);
        written.map_err(|error| failed(&self.path, &error))
    }

    /// Adds a row: for each column a value of its kind, or nothing if it is of another.
    pub fn row<const N: usize>(&mut self, row: [Cell<'_>; N]) {
        if self.is_failed() {
            return;
        }
        for (column, cell) in self.columns.iter_mut().zip(row) {
            column.push(cell);
        }
        self.rows += 1;
        if self.rows >= GROUP {
            self.failed = self.flush();
        }
    }

    /// Whether it cannot be written.
    pub fn is_failed(&self) -> bool {
        self.failed.is_err()
    }

    fn flush(&mut self) -> Outcome {
        let rows = std::mem::take(&mut self.rows);
        let pages = self.columns.iter_mut().map(|column| column.page(rows));
        let pages: Vec<Vec<u8>> = pages.collect();
        let mut chunks = Vec::new();
        for page in pages {
            let (offset, length) = (self.offset, page.len() as u64);
            self.put(&page)?;
            chunks.push(Chunk { offset, length });
        }
        self.groups.push(Group { rows, chunks });
        Ok(())
    }

    /// Writes the rest.
    pub fn finish(mut self) -> Outcome {
        std::mem::replace(&mut self.failed, Ok(()))?;
        if self.rows > 0 {
            self.flush()?;
        }
        let footer = self.footer();
        self.put(&footer)?;
        self.put(&(footer.len() as u32).to_le_bytes())?;
        self.put(MAGIC)?;
        self.out.flush().map_err(|error| failed(&self.path, &error))
    }

    /// `FileMetaData`.
    fn footer(&self) -> Vec<u8> {
        let mut to = Thrift::default();
        to.i32(1, 1);
        to.list(2, STRUCT, self.columns.len() + 1);
        to.begin();
        to.text(4, "table");
        to.i32(5, self.columns.len() as i32);
        to.end();
        for column in &self.columns {
            to.begin();
            to.i32(1, column.kind.physical());
            to.i32(3, i32::from(column.kind != Kind::Text));
            to.text(4, &column.name);
            if column.kind == Kind::Text {
                to.i32(6, 0);
            }
            to.end();
        }
        let rows: usize = self.groups.iter().map(|group| group.rows).sum();
        to.i64(3, rows as u64);
        to.list(4, STRUCT, self.groups.len());
        for group in &self.groups {
            self.group(&mut to, group);
        }
        to.text(6, "layercast");
        to.end();
        to.bytes
    }

    /// `RowGroup`.
    fn group(&self, to: &mut Thrift, group: &Group) {
        to.begin();
        to.list(1, STRUCT, group.chunks.len());
        for (column, chunk) in self.columns.iter().zip(&group.chunks) {
            to.begin();
            to.i64(2, chunk.offset);
            to.field(3, STRUCT);
            to.begin();
            to.i32(1, column.kind.physical());
            to.list(2, I32, 2);
            to.number(PLAIN);
            to.number(RLE);
            to.list(3, BINARY, 1);
            to.string(&column.name);
            to.i32(4, 0);
            to.i64(5, group.rows as u64);
            to.i64(6, chunk.length);
            to.i64(7, chunk.length);
            to.i64(9, chunk.offset);
            to.end();
            to.end();
        }
        to.i64(2, group.chunks.iter().map(|chunk| chunk.length).sum());
        to.i64(3, group.rows as u64);
        to.end();
    }
}

impl Column {
    fn push(&mut self, cell: Cell<'_>) {
        let value = match (self.kind, cell) {
            (Kind::Text, cell) => {
                let text = match cell {
                    Cell::Text(text) => text,
                    Cell::Real(_) | Cell::Whole(_) => "",
                };
                self.plain.extend((text.len() as u32).to_le_bytes());
                self.plain.extend(text.as_bytes());
                return;
            }
            (Kind::Real, Cell::Real(value)) => value.map(f64::to_le_bytes),
            (Kind::Whole, Cell::Whole(value)) => value.map(u64::to_le_bytes),
            (Kind::Real | Kind::Whole, _) => None,
        };
        self.there.push(value.is_some());
        self.plain.extend(value.into_iter().flatten());
    }

    /// The rows so far as a page with its header; the column is empty then.
    fn page(&mut self, rows: usize) -> Vec<u8> {
        let mut data = Vec::new();
        if self.kind != Kind::Text {
            let levels = levels(&self.there);
            data.extend((levels.len() as u32).to_le_bytes());
            data.extend(levels);
        }
        data.append(&mut self.plain);
        self.there.clear();
        let mut to = Thrift::default();
        to.i32(1, 0);
        to.i32(2, data.len() as i32);
        to.i32(3, data.len() as i32);
        to.field(5, STRUCT);
        to.begin();
        to.i32(1, rows as i32);
        to.i32(2, PLAIN as i32);
        to.i32(3, RLE as i32);
        to.i32(4, RLE as i32);
        to.end();
        to.end();
        to.bytes.append(&mut data);
        to.bytes
    }
}

/// Definition levels of one bit: one bit-packed run.
fn levels(there: &[bool]) -> Vec<u8> {
    let mut to = Thrift::default();
    to.varint((there.len().div_ceil(8) as u64) << 1 | 1);
    let packed = there.chunks(8).map(|eight| {
        let bits = eight.iter().enumerate();
        bits.fold(0, |byte, (i, &bit)| byte | u8::from(bit) << i)
    });
    to.bytes.extend(packed);
    to.bytes
}

/// Encodings of parquet.thrift.
const PLAIN: u64 = 0;
const RLE: u64 = 3;
/// Types of the compact protocol.
const I32: u8 = 5;
const I64: u8 = 6;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const STRUCT: u8 = 12;

/// The compact protocol of Thrift, which writes what is new of the number of a field.
#[derive(Default)]
struct Thrift {
    bytes: Vec<u8>,
    /// The last field of the struct being written.
    last: u8,
    /// Those of the structs around it.
    outer: Vec<u8>,
}

impl Thrift {
    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }

    /// A number that is not negative, in zigzag.
    fn number(&mut self, number: u64) {
        self.varint(number << 1);
    }

    fn string(&mut self, text: &str) {
        self.varint(text.len() as u64);
        self.bytes.extend(text.as_bytes());
    }

    fn field(&mut self, id: u8, kind: u8) {
        self.bytes.push((id - self.last) << 4 | kind);
        self.last = id;
    }

    fn i32(&mut self, id: u8, number: i32) {
        self.field(id, I32);
        self.number(number as u64);
    }

    fn i64(&mut self, id: u8, number: u64) {
        self.field(id, I64);
        self.number(number);
    }

    fn text(&mut self, id: u8, text: &str) {
        self.field(id, BINARY);
        self.string(text);
    }

    /// The head of a list of structs, numbers or texts.
    fn list(&mut self, id: u8, kind: u8, length: usize) {
        self.field(id, LIST);
        match length {
            0..=14 => self.bytes.push((length as u8) << 4 | kind),
            _ => {
                self.bytes.push(0xf0 | kind);
                self.varint(length as u64);
            }
        }
    }

    /// Begins a struct in a field or list.
    fn begin(&mut self) {
        self.outer.push(std::mem::take(&mut self.last));
    }

    /// Ends a struct, or all.
    fn end(&mut self) {
        self.bytes.push(0);
        self.last = self.outer.pop().unwrap_or(0);
    }
}

fn failed(path: &Path, error: &io::Error) -> Failure {
    Failure::file(path, "write", error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_bits_from_the_lowest() {
        let there = [true, false, true, true, false, false, false, false, true];
        assert_eq!(levels(&there), [2 << 1 | 1, 0b1101, 1]);
        assert_eq!(levels(&[]), [1]);
    }

    #[test]
    fn numbers_of_thrift_are_as_its_specification_says() {
        let mut to = Thrift::default();
        to.i32(1, 1);
        to.i64(4, 300);
        to.list(5, I32, 20);
        to.end();
        let expected = [0x15, 2, 0x36, 0xd8, 0x04, 0x19, 0xf5, 20, 0];
        assert_eq!(to.bytes, expected);
    }
}
