//! ffmpeg as a child process: what it opens becomes an input, what it writes an output.
//!
//! [`Ffmpeg`] is the program and what it can do, [`input`] says how it is called for an input, and [`Feed`] reads what
//! it makes of that, over its restarts. Arguments go to the program as they are; no shell reads them.

mod complaint;
mod drain;
mod feed;
pub mod file;
pub mod input;

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::child::{Child, OnDeath};
use crate::failure::Failure;

pub use drain::{Drain, Target, bare_video};
pub use feed::{Control, Feed, Plan};

/// Options before all others: no questions, and each complaint with its weight.
const QUIET: [&str; 5] = [
    "-nostdin",
    "-hide_banner",
    "-nostats",
    "-loglevel",
    "level+warning",
];

/// A program of ffmpeg that was found.
#[derive(Clone, Debug)]
pub struct Ffmpeg {
    program: PathBuf,
}

impl Ffmpeg {
    /// Finds ffmpeg; `purpose` is what needs it, such as `serve any.mp4`.
    ///
    /// # Errors
    /// There is none in `PATH`.
    pub fn find(purpose: &str) -> Result<Ffmpeg, Failure> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let found = std::env::split_paths(&path)
            .map(|folder| folder.join("ffmpeg"))
            .find(|program| is_program(program));
        match found {
            Some(program) => Ok(Ffmpeg { program }),
            None => Err(Failure::new(format!(
                "{purpose} needs ffmpeg, and no folder of PATH has a program of this name"
            ))
            .hint("install it (Debian, Ubuntu: apt install ffmpeg), or add its folder to PATH")),
        }
    }

    /// Starts it with `args`; it is killed with this process. See [`Child::start`].
    ///
    /// # Errors
    /// The system refuses.
    pub fn start(
        &self,
        args: impl IntoIterator<Item: AsRef<OsStr>>,
        streams: (Stdio, Stdio),
    ) -> Result<Child, Failure> {
        self.start_with(args, streams, OnDeath::Killed)
    }

    /// Starts it with `args`, with what ends it when this process dies.
    ///
    /// # Errors
    /// The system refuses.
    pub fn start_with(
        &self,
        args: impl IntoIterator<Item: AsRef<OsStr>>,
        streams: (Stdio, Stdio),
        on_death: OnDeath,
    ) -> Result<Child, Failure> {
        let quiet = QUIET.iter().map(OsString::from);
        let args = quiet.chain(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        Child::start(&self.program, args, streams, on_death).map_err(|error| self.unstarted(&error))
    }

    fn unstarted(&self, error: &io::Error) -> Failure {
        Failure::new(format!(
            "{} cannot be started: {error}",
            self.program.display()
        ))
        .hint("check that it runs: ffmpeg -version")
    }

    /// Its version in words, such as `ffmpeg 5.1.6`.
    pub fn version(&self) -> String {
        let output = Command::new(&self.program)
            .arg("-version")
            .stdin(Stdio::null())
            .output();
        let said = output.map_or_else(|_| Vec::new(), |output| output.stdout);
        let said = String::from_utf8_lossy(&said);
        let number = said.split_whitespace().nth(2).unwrap_or("of no version");
        format!("ffmpeg {number}")
    }
}

fn is_program(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_needs_ffmpeg_is_told_that_there_is_none() {
        assert!(is_program(Path::new("/proc/self/exe")) && !is_program(Path::new("/proc")));
        match Ffmpeg::find("serve x.mp4") {
            Ok(ffmpeg) => assert!(ffmpeg.version().starts_with("ffmpeg ")),
            Err(failure) => assert!(failure.to_string().contains("serve x.mp4 needs ffmpeg")),
        }
    }
}
