//! Printing: tables, JSON, standard output that may go away at any time.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::failure::{Failure, Outcome};
use crate::{secret, signals};

pub use crate::table::{Table, terminal_width};

/// Time until the command says that a FIFO has no reader, and between two attempts to open it.
const NOTE_AFTER: Duration = Duration::from_secs(2);
const FIFO_POLL: Duration = Duration::from_millis(50);

/// A number of things in words: `1 file`, `2 files`, `3 passes`.
pub fn count(number: impl TryInto<u64>, thing: &str) -> String {
    let number = number.try_into().unwrap_or(u64::MAX);
    let ending = match number {
        1 => "",
        _ if thing.ends_with("ch") || thing.ends_with('s') => "es",
        _ => "s",
    };
    format!("{number} {thing}{ending}")
}

/// The verb that goes with [`count`].
pub fn are(number: impl TryInto<u64>) -> &'static str {
    match number.try_into().unwrap_or(u64::MAX) {
        1 => "is",
        _ => "are",
    }
}

/// Prints to standard output and flushes, so that a reader sees it immediately.
pub fn print(text: &str) -> Outcome {
    let written = Lines::Stdout.text(text);
    written.map_err(|error| Lines::Stdout.failure(&error))
}

/// Refuses output files, each with its option, of which two are the same, or one is the input.
///
/// # Errors
/// The two, by whatever names.
pub fn check_distinct(input: &Path, outputs: &[(&str, &Path)]) -> Result<(), Failure> {
    let mut files = Files::new(identity(input));
    for (option, path) in outputs {
        // A device, a pipe or a folder takes several.
        let is_other = path.metadata().is_ok_and(|meta| !meta.is_file());
        let own = if is_other { None } else { identity(path) };
        let what = match files.add(own) {
            Some(Same::Output(other)) => {
                format!("{} and {option} name the same file", outputs[other].0)
            }
            Some(Same::Input) => format!("{option} names the input"),
            None => continue,
        };
        return Err(Failure::Usage(format!(
            "{what}, {}: give {option} another one",
            path.display()
        )));
    }
    Ok(())
}

/// Creates the file `path`. A FIFO is opened when a program reads it; a signal ends the wait.
///
/// # Errors
/// The file cannot be created or opened for writing.
pub fn create(path: &Path) -> Result<File, Failure> {
    let failed = |error: io::Error| Failure::file(path, "write", &error);
    let is_fifo = path.metadata().is_ok_and(|meta| meta.file_type().is_fifo());
    if !is_fifo {
        return File::create(path).map_err(failed);
    }
    let begun = Instant::now();
    let mut is_told = false;
    loop {
        match layercast_net::open_fifo(path) {
            Ok(Some(file)) => return Ok(file),
            Ok(None) if signals::is_received() => return Err(Failure::Interrupted),
            Ok(None) => {
                if !is_told && begun.elapsed() > NOTE_AFTER {
                    is_told = true;
                    eprintln!(
                        "{}: waits for a program that reads this FIFO",
                        path.display()
                    );
                }
                sleep(FIFO_POLL);
            }
            Err(error) => return Err(failed(error)),
        }
    }
}

/// Opens an output once its first octets are there: a regular file is locked and emptied, `-` is standard output.
///
/// # Errors
/// It cannot be opened, or another command of Layercast serves or writes it.
pub fn open(path: &Path) -> Result<Box<dyn Write>, Failure> {
    if path == Path::new("-") {
        return Ok(Box::new(io::stdout().lock()));
    }
    let failed = |error: io::Error| Failure::file(path, "write", &error);
    match layercast_net::lock_output(path).map_err(failed)? {
        Some(file) => {
            file.set_len(0).map_err(failed)?;
            Ok(Box::new(file))
        }
        None => Ok(Box::new(create(path)?)),
    }
}

/// What an output is called.
pub fn name(path: &Path) -> String {
    match path == Path::new("-") {
        true => "standard output".to_owned(),
        false => path.display().to_string(),
    }
}

/// An output that failed.
pub fn unwritten(path: &Path, error: &io::Error) -> Failure {
    match path == Path::new("-") {
        true => Failure::output(&name(path), error),
        false => Failure::file(path, "write", error),
    }
}

/// Checks that outputs can be written, and that each is another file than the input and the other outputs, by whatever name.
/// They are left as they are.
///
/// # Errors
/// One cannot be written, or is given twice.
pub fn check(input: Option<&Path>, outputs: &[&Path]) -> Outcome {
    let standard = |path, standard| match path == Path::new("-") {
        true => identity(Path::new(standard)),
        false => identity(path),
    };
    let mut files = Files::new(input.and_then(|it| standard(it, "/dev/stdin")));
    for &path in outputs {
        let name = path.display();
        match files.add(standard(path, "/dev/stdout")) {
            Some(Same::Input) => {
                let what = format!("{name}: this is the input, too: give another output");
                return Err(Failure::Usage(what));
            }
            Some(Same::Output(other)) => {
                let other = outputs[other].display();
                let what = format!("{name} and {other} are one file: give each output its own");
                return Err(Failure::Usage(what));
            }
            None => {}
        }
        if path != Path::new("-") {
            layercast_net::check_output(path)
                .map_err(|error| Failure::file(path, "write", &error))?;
        }
    }
    Ok(())
}

/// The input and the outputs of a command so far.
struct Files {
    input: Option<Identity>,
    outputs: Vec<Option<Identity>>,
}

/// Which file an output is, too.
enum Same {
    /// The input.
    Input,
    /// The output of this number.
    Output(usize),
}

impl Files {
    fn new(input: Option<Identity>) -> Files {
        Files {
            input,
            outputs: Vec::new(),
        }
    }

    /// Adds an output. What has no identity is no other file.
    fn add(&mut self, output: Option<Identity>) -> Option<Same> {
        let same = |it: &Option<Identity>| output.is_some() && *it == output;
        let found = match same(&self.input) {
            true => Some(Same::Input),
            false => self.outputs.iter().position(same).map(Same::Output),
        };
        self.outputs.push(output);
        found
    }
}

/// What two names of one file have in common.
#[derive(PartialEq, Eq)]
enum Identity {
    /// Device and inode.
    File(u64, u64),
    /// The whole path of a file that is still to be made.
    New(PathBuf),
}

/// The identity of the file at `path`. `None` of a device, a socket, or a file whose folder cannot be read.
fn identity(path: &Path) -> Option<Identity> {
    match path.metadata() {
        // All may write to /dev/null and to a terminal; a socket goes two ways.
        Ok(meta) if meta.file_type().is_char_device() || meta.file_type().is_socket() => None,
        Ok(meta) => Some(Identity::File(meta.dev(), meta.ino())),
        Err(_) => {
            // A link may lead to a file that is not there yet.
            let path = path.read_link().map_or_else(
                |_| path.to_owned(),
                |to| path.parent().map_or(to.clone(), |it| it.join(to)),
            );
            let folder = match path.parent() {
                Some(folder) if folder != Path::new("") => folder,
                _ => Path::new("."),
            };
            let folder = folder.canonicalize().ok()?;
            Some(Identity::New(folder.join(path.file_name()?)))
        }
    }
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
    /// Writes one value as one line, and waits for its reader.
    pub fn write(self, value: &impl Serialize) -> Outcome {
        let mut text = serde_json::to_string(value).map_err(Failure::new)?;
        text.push('\n');
        self.text(&text).map_err(|error| self.failure(&error))
    }

    /// It cannot be written.
    pub fn failure(self, error: &io::Error) -> Failure {
        Failure::output(self.name(), error)
    }

    /// Writes a text, and waits for its reader.
    pub fn text(self, text: &str) -> io::Result<()> {
        match self {
            Lines::Stdout => {
                let mut out = io::stdout().lock();
                out.write_all(text.as_bytes())?;
                out.flush()
            }
            Lines::Stderr => io::stderr().lock().write_all(text.as_bytes()),
        }
    }

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Lines::Stdout => "standard output",
            Lines::Stderr => "standard error",
        }
    }
}

/// Time that a reader of standard error which has stalled gets for a last message.
const COMPLAINT_WITHIN: Duration = Duration::from_secs(1);

/// Writes a message to standard error; a reader that has stalled does not keep the command. Control characters, which
/// a message may have from an argument or a file, are escaped, and passwords in URLs are hidden.
pub fn complain(text: &str) {
    let text = escaped(&secret::hidden(text)) + "\n";
    let (done, written) = sync_channel::<()>(1);
    let writer = thread::Builder::new().name("complaint".into());
    let spawned = writer.spawn(move || {
        let _ = Lines::Stderr.text(&text);
        drop(done);
    });
    if spawned.is_ok() {
        let _ = written.recv_timeout(COMPLAINT_WITHIN);
    }
}

/// A text whose control characters do nothing to a terminal.
pub fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c.is_control() && !matches!(c, '\n' | '\t') {
            true => safe.extend(c.escape_default()),
            false => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thing_is_no_plural() {
        let words = |n: u64| format!("{} {}", count(n, "file"), are(n));
        assert_eq!(words(0), "0 files are");
        assert_eq!(words(1), "1 file is");
        assert_eq!(words(2), "2 files are");
        assert_eq!(count(2_u32, "branch"), "2 branches");
        assert_eq!(count(3_u8, "pass"), "3 passes");
        assert_eq!(count(1_u8, "GOP"), "1 GOP");
    }

    #[test]
    fn outputs_are_different_files_by_whatever_names() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        let (new, again, other) = (path("new"), path("./new"), path("other"));
        let input = path("input");
        std::fs::write(&input, "").expect("written");
        let of = |series: &Path, pcap: &Path| {
            let outputs = [("--series", series), ("--pcap", pcap)];
            check_distinct(&input, &outputs).map_err(|it| it.to_string())
        };
        assert_eq!(of(&new, &other), Ok(()));
        assert_eq!(of(Path::new("/dev/null"), Path::new("/dev/null")), Ok(()));
        let error = of(&new, &again).expect_err("one file");
        assert!(
            error.contains("--series and --pcap name the same file"),
            "{error}"
        );
        let error = of(&input, &other).expect_err("the input");
        assert!(error.contains("--series names the input"), "{error}");
    }
}
