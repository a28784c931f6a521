//! What a command says when it cannot continue: one clear line and what to do.

use std::fmt;
use std::io;
use std::path::Path;

use crate::signals;

/// Why a command ended without success.
#[derive(Debug)]
pub enum Failure {
    /// It failed: one line, and what to do about it.
    Failed {
        /// What went wrong, in one line.
        what: String,
        /// What the user can do, if we know.
        hint: Option<String>,
    },
    /// It was used in a wrong way (exit code 2).
    Usage(String),
    /// It was used in a wrong way (exit code 2), and there is a better one.
    WrongUse {
        /// What is wrong, in one line.
        what: String,
        /// What the user can do instead.
        hint: Option<String>,
    },
    /// A signal stopped it (exit code 130 after SIGINT, 143 after SIGTERM).
    Interrupted,
    /// The reader of our output has closed it: no message is printed.
    BrokenPipe,
    /// The command ran and already said that the result is bad.
    Unsatisfied,
    /// The command ran and already said that a part of the result is missing (exit code 3).
    Partial,
}

/// What commands give back.
pub type Outcome = Result<(), Failure>;

impl Failure {
    /// A failure without advice.
    pub fn new(what: impl fmt::Display) -> Failure {
        Failure::Failed {
            what: one_line(&what.to_string()),
            hint: None,
        }
    }

    /// A wrong use without advice.
    pub fn wrong_use(what: impl fmt::Display) -> Failure {
        Failure::WrongUse {
            what: one_line(&what.to_string()),
            hint: None,
        }
    }

    /// The same failure with advice.
    pub fn hint(self, advice: impl Into<String>) -> Failure {
        match self {
            Failure::Failed { what, .. } => Failure::Failed {
                what,
                hint: Some(advice.into()),
            },
            Failure::WrongUse { what, .. } => Failure::WrongUse {
                what,
                hint: Some(advice.into()),
            },
            other => other,
        }
    }

    /// `path` could not be read or written.
    pub fn file(path: &Path, verb: &str, error: &io::Error) -> Failure {
        let failure = Failure::new(format!("cannot {verb} {}: {error}", path.display()));
        match error.kind() {
            io::ErrorKind::NotFound if verb == "read" => failure.hint("check the path"),
            io::ErrorKind::NotFound => failure.hint("create the folder first"),
            io::ErrorKind::IsADirectory => failure.hint("give the path of a file, not of a folder"),
            io::ErrorKind::PermissionDenied => failure.hint("check the permissions"),
            io::ErrorKind::StorageFull => failure.hint("free some space on the disk"),
            _ => failure,
        }
    }

    /// What is wrong with the file at `path`, or what it says.
    pub fn of(path: &Path, what: impl fmt::Display) -> Failure {
        Failure::new(format!("{}: {what}", path.display()))
    }

    /// The exit code of the process.
    pub fn code(&self) -> u8 {
        match self {
            Failure::Failed { .. } | Failure::Unsatisfied => 1,
            Failure::Usage(_) | Failure::WrongUse { .. } => 2,
            Failure::Partial => 3,
            Failure::Interrupted => signals::code(),
            Failure::BrokenPipe => 0,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Failed { what, hint: None } | Failure::WrongUse { what, hint: None } => {
                write!(f, "layercast: {what}")
            }
            Failure::Failed {
                what,
                hint: Some(hint),
            }
            | Failure::WrongUse {
                what,
                hint: Some(hint),
            } => write!(f, "layercast: {what}\n  {hint}"),
            Failure::Usage(what) => write!(f, "layercast: {what}\n  see layercast --help"),
            Failure::Interrupted
            | Failure::BrokenPipe
            | Failure::Unsatisfied
            | Failure::Partial => Ok(()),
        }
    }
}

/// Errors of write calls on our own output.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::BrokenPipe,
            _ => Failure::new(format!("cannot write the output: {error}")),
        }
    }
}

/// Some parsers explain themselves over several lines; the first line of ours holds it all.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_one_line_and_a_hint() {
        let failure = Failure::new("first\n  second").hint("do this");
        assert_eq!(failure.to_string(), "layercast: first second\n  do this");
        assert_eq!(failure.code(), 1);
    }

    #[test]
    fn a_reader_that_left_is_no_failure() {
        let failure = Failure::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert_eq!((failure.code(), failure.to_string()), (0, String::new()));
    }
}
