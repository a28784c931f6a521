//! Files that are read as a whole: regular ones, of a bounded size.

use std::fs::{File, FileType};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::string::FromUtf8Error;

/// Largest text file that is read: a scenario, a tree, a workload, addresses of nodes. In bytes.
/// Read, a list of numbers takes a hundred times that.
pub const MAX_TEXT_FILE: u64 = 8 << 20;
/// Largest trace of frame sizes, list of samples or summary that is read, in bytes.
pub const MAX_DATA_FILE: u64 = 1 << 30;
/// Largest clip of a simulated flow, in bytes.
pub const MAX_CLIP_FILE: u64 = 1 << 30;
/// What may stand before a text.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// Reads all of a regular file of at most `most` bytes.
///
/// # Errors
/// It cannot be opened or read; it is a folder (`IsADirectory`), a FIFO, socket or device (`InvalidInput`), whose data
/// may have no end; it is larger (`FileTooLarge`).
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    // Before the file is opened: a FIFO without a writer would block.
    check(path.metadata()?.file_type())?;
    let file = File::open(path)?;
    let meta = file.metadata()?;
    check(meta.file_type())?;
    let too_large = || {
        let what = format!("it is larger than {}", size(most));
        io::Error::new(ErrorKind::FileTooLarge, what)
    };
    if meta.len() > most {
        return Err(too_large());
    }
    // Files of /proc have no size, and others may grow.
    let mut bytes = Vec::with_capacity(meta.len() as usize + 1);
    file.take(most + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > most {
        true => Err(too_large()),
        false => Ok(bytes),
    }
}

/// Reads all of a regular text file of at most `most` bytes.
///
/// # Errors
/// As [`read`]; it is not UTF-8 (`InvalidData`).
pub fn read_text(path: &Path, most: u64) -> io::Result<String> {
    text(read(path, most)?)
        .map_err(|_| io::Error::new(ErrorKind::InvalidData, "it is not text (UTF-8)"))
}

/// The text of `bytes`, without the byte order mark that some editors put before it: no reader of a scenario, of
/// numbers or of JSON takes it.
///
/// # Errors
/// They are not UTF-8.
pub fn text(bytes: Vec<u8>) -> Result<String, FromUtf8Error> {
    let mut text = String::from_utf8(bytes)?;
    if text.starts_with(BYTE_ORDER_MARK) {
        text.drain(..BYTE_ORDER_MARK.len_utf8());
    }
    Ok(text)
}

fn check(kind: FileType) -> io::Result<()> {
    let (what, kind) = match kind {
        kind if kind.is_file() => return Ok(()),
        kind if kind.is_dir() => ("folder", ErrorKind::IsADirectory),
        kind if kind.is_fifo() => ("FIFO", ErrorKind::InvalidInput),
        kind if kind.is_socket() => ("socket", ErrorKind::InvalidInput),
        _ => ("device", ErrorKind::InvalidInput),
    };
    Err(io::Error::new(
        kind,
        format!("it is a {what}; give a regular file"),
    ))
}

fn size(bytes: u64) -> String {
    match bytes >> 30 {
        0 => format!("{} MiB", bytes >> 20),
        gib => format!("{gib} GiB"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_of_a_bounded_size_are_read() {
        let folder = std::env::temp_dir().join(format!("bounded-files-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("file");
        std::fs::write(&file, "abc").unwrap();
        assert_eq!(read(&file, 3).unwrap(), b"abc");
        assert_eq!(read_text(&file, 3).unwrap(), "abc");
        std::fs::write(&file, "\u{feff}a\u{feff}b").unwrap();
        assert_eq!(read_text(&file, 8).unwrap(), "a\u{feff}b");
        std::fs::write(&file, "abc").unwrap();
        let said = |path: &Path, most| {
            let error = read(path, most).unwrap_err();
            (error.kind(), error.to_string())
        };
        let large = (
            ErrorKind::FileTooLarge,
            "it is larger than 0 MiB".to_owned(),
        );
        assert_eq!(said(&file, 2), large);
        // A sparse file of 10 GB costs neither time nor memory.
        File::create(&file).unwrap().set_len(10 << 30).unwrap();
        let (kind, what) = said(&file, MAX_CLIP_FILE);
        assert_eq!(kind, ErrorKind::FileTooLarge);
        assert!(what.contains("larger than 1 GiB"), "{what}");
        for (path, kind, what) in [
            (folder.as_path(), ErrorKind::IsADirectory, "folder"),
            (Path::new("/dev/zero"), ErrorKind::InvalidInput, "device"),
        ] {
            let (found, said) = said(path, 100);
            assert!(found == kind && said.contains(what), "{said}");
        }
        // A file without a size has an end all the same.
        assert!(read(Path::new("/proc/self/status"), 1 << 20).unwrap().len() > 100);
        assert_eq!(
            said(Path::new("/proc/self/status"), 10).0,
            ErrorKind::FileTooLarge
        );
        std::fs::write(&file, [0xFF, 0xFE]).unwrap();
        let error = read_text(&file, 10).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
