//! Whole inputs: files, and what has no known size (standard input, FIFOs, devices).

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use layercast_media::MediaError;

use crate::failure::Failure;

/// Largest file that is read into memory, in bytes.
const MOST_OF_FILE: u64 = 16 << 30;
/// Most bytes that are read of an input whose size is unknown: it may have no end.
const MOST_OF_STREAM: u64 = 1 << 30;
/// Bytes of an input of unknown size after which it must be a known format.
const RECOGNISED_WITHIN: u64 = 1 << 20;
/// Bytes between two looks at the size of an input.
const PIECE: u64 = 1 << 20;
/// Time until the command says what it waits for, and between two such messages.
const FIRST_NOTE: Duration = Duration::from_secs(2);
const NEXT_NOTE: Duration = Duration::from_secs(10);

/// Whether `path` is standard input, a FIFO or a device: its size is unknown, and its data may come slowly.
pub fn is_stream(path: &Path) -> bool {
    if path == Path::new("-") {
        return true;
    }
    path.metadata()
        .is_ok_and(|meta| !meta.is_file() && !meta.is_dir())
}

/// What an input is called in messages.
pub fn name(path: &Path) -> String {
    match path == Path::new("-") {
        true => "standard input".to_owned(),
        false => path.display().to_string(),
    }
}

/// Opens an input; a FIFO without a writer blocks.
fn open(path: &Path) -> io::Result<Box<dyn Read + Send>> {
    Ok(match path == Path::new("-") {
        true => Box::new(io::stdin()),
        false => Box::new(File::open(path)?),
    })
}

/// Reads all of an input. One of unknown size must look like a known format after its first bytes, unless
/// `is_text`.
///
/// # Errors
/// It cannot be read, is too large, or is not a known format.
pub fn read(path: &Path, is_text: bool) -> Result<Vec<u8>, Failure> {
    let is_stream = is_stream(path);
    let most = match is_stream {
        true => MOST_OF_STREAM,
        false => MOST_OF_FILE,
    };
    let here = path.to_owned();
    watched(path, move |count| {
        let failed = |error: io::Error| Failure::file(&here, "read", &error);
        if !is_stream && here.metadata().is_ok_and(|meta| meta.len() > most) {
            return Err(too_large(&here, most, false));
        }
        let mut input = open(&here).map_err(failed)?;
        let mut bytes = Vec::new();
        loop {
            let piece = (&mut input).take(PIECE).read_to_end(&mut bytes);
            if piece.map_err(failed)? == 0 {
                return Ok(bytes);
            }
            let had = count.swap(bytes.len() as u64, Ordering::Relaxed);
            if bytes.len() as u64 > most {
                return Err(too_large(&here, most, is_stream));
            }
            let is_due = had < RECOGNISED_WITHIN && bytes.len() as u64 >= RECOGNISED_WITHIN;
            if is_stream && !is_text && is_due {
                recognise(&here, &bytes)?;
            }
        }
    })
}

/// Opens an input of unknown size and reads its first bytes, up to `most`.
///
/// # Errors
/// It cannot be opened or read.
pub fn begin(path: &Path, most: u64) -> Result<(Vec<u8>, Box<dyn Read + Send>), Failure> {
    let here = path.to_owned();
    watched(path, move |count| {
        let failed = |error: io::Error| Failure::file(&here, "read", &error);
        let mut input = open(&here).map_err(failed)?;
        let mut first = Vec::new();
        (&mut input)
            .take(most)
            .read_to_end(&mut first)
            .map_err(failed)?;
        count.store(first.len() as u64, Ordering::Relaxed);
        Ok((first, input))
    })
}

/// Reads the rest of an input of which `first` was read.
///
/// # Errors
/// As [`read`].
pub fn rest(
    path: &Path,
    first: Vec<u8>,
    mut input: Box<dyn Read + Send>,
) -> Result<Vec<u8>, Failure> {
    let here = path.to_owned();
    watched(path, move |count| {
        let mut bytes = first;
        if bytes.len() as u64 >= RECOGNISED_WITHIN {
            recognise(&here, &bytes)?;
        }
        loop {
            let had = bytes.len() as u64;
            let piece = (&mut input).take(PIECE).read_to_end(&mut bytes);
            if piece.map_err(|error| Failure::file(&here, "read", &error))? == 0 {
                return Ok(bytes);
            }
            let has = bytes.len() as u64;
            count.store(has, Ordering::Relaxed);
            if has > MOST_OF_STREAM {
                return Err(too_large(&here, MOST_OF_STREAM, true));
            }
            if had < RECOGNISED_WITHIN && has >= RECOGNISED_WITHIN {
                recognise(&here, &bytes)?;
            }
        }
    })
}

/// Reads all that `source` makes of the file at `path`.
///
/// # Errors
/// It cannot be read, or is too large.
pub fn all_of(path: &Path, mut source: Box<dyn Read + Send>) -> Result<Vec<u8>, Failure> {
    let here = path.to_owned();
    watched(path, move |count| {
        let mut bytes = Vec::new();
        loop {
            let piece = (&mut source).take(PIECE).read_to_end(&mut bytes);
            if piece.map_err(|error| Failure::file(&here, "read", &error))? == 0 {
                return Ok(bytes);
            }
            count.store(bytes.len() as u64, Ordering::Relaxed);
            if bytes.len() as u64 > MOST_OF_FILE {
                return Err(too_large(&here, MOST_OF_FILE, false));
            }
        }
    })
}

/// Whether the first bytes of an input are those of a known format.
fn recognise(path: &Path, first: &[u8]) -> Result<(), Failure> {
    match layercast_media::recognise(first) {
        Err(error @ MediaError::Foreign { .. }) => Err(Failure::of(path, error)),
        _ => Ok(()),
    }
}

fn too_large(path: &Path, most: u64, is_stream: bool) -> Failure {
    let (path, most) = (path.display(), most >> 30);
    match is_stream {
        true => Failure::new(format!("{path}: more than {most} GiB came without an end")).hint(
            format!("a clip is read as a whole; give a part of it: head -c 20M {path} > CLIP"),
        ),
        false => Failure::new(format!("{path}: the file is larger than {most} GiB")).hint(format!(
            "a clip is read into memory as a whole; give a part of it: head -c 1G {path} > CLIP"
        )),
    }
}

/// Runs `work`, which counts the bytes that it has read, on a thread of its own, and writes to standard error what it
/// waits for.
fn watched<T: Send + 'static>(
    path: &Path,
    work: impl FnOnce(&AtomicU64) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let count = Arc::new(AtomicU64::new(0));
    let (done, result) = channel();
    let counted = Arc::clone(&count);
    let thread = thread::Builder::new().name("input".into());
    thread
        .spawn(move || drop(done.send(work(&counted))))
        .map_err(|error| Failure::new(format!("cannot start a thread: {error}")))?;
    let begun = Instant::now();
    let mut wait = FIRST_NOTE;
    loop {
        match result.recv_timeout(wait) {
            Ok(result) => return result,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Failure::of(path, "the thread that reads it has failed"));
            }
            Err(RecvTimeoutError::Timeout) => {
                wait = NEXT_NOTE;
                let (path, seconds) = (path.display(), begun.elapsed().as_secs());
                match count.load(Ordering::Relaxed) {
                    0 => eprintln!("{path}: no data yet after {seconds} s (Ctrl-C stops)"),
                    bytes => eprintln!(
                        "{path}: {:.1} MB read in {seconds} s, no end yet (Ctrl-C stops)",
                        bytes as f64 / 1e6
                    ),
                }
            }
        }
    }
}
