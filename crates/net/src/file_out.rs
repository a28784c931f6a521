use std::fs::{File, FileType, OpenOptions, TryLockError};
use std::io::{self, Error, ErrorKind, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::fs::{Access, OFlags, access, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

/// Time between two attempts to open a FIFO that no program reads.
const FIFO_POLL: Duration = Duration::from_millis(50);

/// Opens a FIFO for writing, without waiting for a reader: `None` while no program reads it.
///
/// # Errors
/// It cannot be opened for writing.
pub fn open_fifo(path: &Path) -> io::Result<Option<File>> {
    let nonblock = OFlags::NONBLOCK.bits() as i32;
    let opened = OpenOptions::new()
        .write(true)
        .custom_flags(nonblock)
        .open(path);
    match opened {
        Ok(file) => {
            // Writes wait for a slow reader.
            let flags = fcntl_getfl(&file)?;
            fcntl_setfl(&file, flags - OFlags::NONBLOCK)?;
            Ok(Some(file))
        }
        Err(error) if Errno::from_io_error(&error) == Some(Errno::NXIO) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Checks that `path` can be written, and leaves it as it is.
///
/// # Errors
/// It is a folder or a socket, may not be written, is used by another program of Layercast, or its folder
/// is missing or may not be written.
pub fn check_output(path: &Path) -> io::Result<()> {
    match path.metadata() {
        Ok(meta) if meta.file_type().is_socket() => {
            Err(Error::new(ErrorKind::InvalidInput, "it is a socket"))
        }
        Ok(meta) if meta.is_file() || meta.is_dir() => {
            let file = OpenOptions::new().write(true).open(path)?;
            lock(&file)
        }
        Ok(_) => Ok(access(path, Access::WRITE_OK)?),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let folder = match path.parent() {
                Some(folder) if folder != Path::new("") => folder,
                _ => Path::new("."),
            };
            Ok(access(folder, Access::WRITE_OK | Access::EXEC_OK)?)
        }
        Err(error) => Err(error),
    }
}

/// Locks the file at `path` for another program that writes it, until the returned handle is dropped; it is created if it
/// is missing, and left as it is. `None`: it is no regular file.
///
/// # Errors
/// It cannot be opened for writing, or is used by another program of Layercast.
pub fn lock_output(path: &Path) -> io::Result<Option<File>> {
    match path.metadata() {
        Ok(meta) if !meta.is_file() => Ok(None),
        _ => open_locked(path).map(|(file, _)| Some(file)),
    }
}

/// Opens an output as it is, creates it if it is missing, and locks it.
fn open_locked(path: &Path) -> io::Result<(File, FileType)> {
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)?;
    let kind = file.metadata()?.file_type();
    // Outputs to /dev/null do not disturb each other.
    if !kind.is_char_device() {
        lock(&file)?;
    }
    Ok((file, kind))
}

/// A file that is created, or emptied, when its first bytes are written.
pub(crate) struct FileOut {
    path: PathBuf,
    file: Option<File>,
    /// Set when no more frames come: then a FIFO is not waited for.
    ended: Arc<AtomicBool>,
}

impl FileOut {
    /// The file at `path`, which is left as it is until something is written.
    ///
    /// # Errors
    /// As [`check_output`].
    pub fn new(path: PathBuf, ended: Arc<AtomicBool>) -> io::Result<FileOut> {
        check_output(&path)?;
        Ok(FileOut {
            path,
            file: None,
            ended,
        })
    }

    fn open(&self) -> io::Result<File> {
        let meta = self.path.metadata();
        if meta.is_ok_and(|meta| meta.file_type().is_fifo()) {
            loop {
                if let Some(file) = open_fifo(&self.path)? {
                    return Ok(file);
                }
                if self.ended.load(Ordering::Relaxed) {
                    let what = "no program has opened this FIFO to read it";
                    return Err(Error::new(ErrorKind::BrokenPipe, what));
                }
                thread::sleep(FIFO_POLL);
            }
        }
        let (file, kind) = open_locked(&self.path)?;
        if kind.is_file() {
            file.set_len(0)?;
        }
        Ok(file)
    }
}

/// Locks an output: a server locks the file that it serves, and a receiver the file that it writes.
fn lock(file: &File) -> io::Result<()> {
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => Err(Error::new(
            ErrorKind::ResourceBusy,
            "another layercast command serves or writes this file",
        )),
        // There are file systems without locks.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(()),
    }
}

impl Write for FileOut {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut file = match self.file.take() {
            Some(file) => file,
            None => self.open()?,
        };
        let written = file.write(bytes);
        self.file = Some(file);
        written
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.as_mut().map_or(Ok(()), File::flush)
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, Mode, mknodat};

    use super::*;

    #[test]
    fn a_file_is_emptied_when_its_first_bytes_are_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kept.ts");
        std::fs::write(&path, "valuable").unwrap();
        let mut out = FileOut::new(path.clone(), Arc::default()).unwrap();
        out.flush().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"valuable");
        out.write_all(b"new").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        drop(FileOut::new(folder.path().join("absent.ts"), Arc::default()).unwrap());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_that_another_program_writes_has_one_writer() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("one.webm");
        let one = lock_output(&path).unwrap();
        assert!(one.is_some());
        let busy = |error: Error| assert_eq!(error.kind(), ErrorKind::ResourceBusy);
        busy(lock_output(&path).unwrap_err());
        busy(check_output(&path).unwrap_err());
        drop(one);
        std::fs::write(&path, "valuable").unwrap();
        assert!(lock_output(&path).unwrap().is_some());
        assert_eq!(std::fs::read(&path).unwrap(), b"valuable");
        for _ in 0..2 {
            assert!(lock_output(Path::new("/dev/null")).unwrap().is_none());
        }
    }

    #[test]
    fn a_fifo_without_a_reader_is_not_waited_for_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fifo");
        mknodat(
            CWD,
            &path,
            rustix::fs::FileType::Fifo,
            Mode::RUSR | Mode::WUSR,
            0,
        )
        .unwrap();
        let ended = Arc::new(AtomicBool::new(false));
        let mut out = FileOut::new(path, Arc::clone(&ended)).unwrap();
        ended.store(true, Ordering::Relaxed);
        let error = out.write_all(b"new").unwrap_err().to_string();
        assert!(error.contains("no program has opened"), "{error}");
    }
}
