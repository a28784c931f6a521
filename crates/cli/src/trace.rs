//! `--trace`: a file of what machines do.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

use layercast_core::JsonSeq;

use crate::failure::{Failure, Outcome};
use crate::output::{self, complain};

/// Where the events of machines go: a file, or nowhere.
pub struct Trace(Option<JsonSeq<BufWriter<Told>>>);

impl Trace {
    /// Opens the file at `path`, if there is one.
    pub fn open(path: Option<&Path>, title: &str) -> Result<Trace, Failure> {
        let Some(path) = path else {
            return Ok(Trace(None));
        };
        let told = Told {
            file: output::create(path)?,
            path: path.to_owned(),
            complaint: None,
        };
        Ok(Trace(Some(JsonSeq::new(BufWriter::new(told), title))))
    }

    /// What the machines get.
    pub fn observer(&mut self) -> &mut Option<JsonSeq<BufWriter<Told>>> {
        &mut self.0
    }

    /// Makes sure that everything is in the file. What is wrong with it is printed by then.
    pub fn finish(self) -> Outcome {
        let finished = self.0.map_or(Ok(()), |out| out.finish().map(drop));
        finished.map_err(|_| Failure::Unsatisfied)
    }
}

/// A file of a command that continues without it: the first error is printed when it happens.
pub struct Told {
    file: File,
    path: PathBuf,
    /// Prints the error: a reader of standard error that has stalled does not keep the machines.
    complaint: Option<JoinHandle<()>>,
}

impl Told {
    fn tell(&mut self, error: &io::Error) {
        if self.complaint.is_some() {
            return;
        }
        let remedy = Failure::remedy(&self.path, "write", error);
        let failure = Failure::file(&self.path, "write", error);
        let text = failure
            .hint(format!(
                "{remedy}; the trace ends here, and the command continues without it"
            ))
            .to_string();
        let thread = thread::Builder::new().name("trace".into());
        self.complaint = thread.spawn(move || complain(&text)).ok();
    }
}

impl Write for Told {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file
            .write(bytes)
            .inspect_err(|error| match error.kind() {
                // It is tried again.
                io::ErrorKind::Interrupted => {}
                _ => self.tell(error),
            })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        if let Some(complaint) = self.complaint.take() {
            let _ = complaint.join();
        }
    }
}
