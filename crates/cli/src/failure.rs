//! What a command says when it cannot continue: one clear line and what to do.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::path::Path;

use layercast_net::{IdentityError, NetError};

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
        failure.hint(Failure::remedy(path, verb, error))
    }

    /// The text file at `path` could not be read; `kind` says what file is expected there.
    pub fn text(path: &Path, kind: &str, error: &io::Error) -> Failure {
        let failure = Failure::file(path, "read", error);
        match error.kind() {
            io::ErrorKind::FileTooLarge | io::ErrorKind::InvalidData => {
                failure.hint(format!("{kind}: check that this is the file that you mean"))
            }
            _ => failure,
        }
    }

    /// What to do if `path` could not be read or written.
    pub fn remedy(path: &Path, verb: &str, error: &io::Error) -> String {
        let folder = match path.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        match error.kind() {
            io::ErrorKind::NotFound if verb == "read" => "check the path".to_owned(),
            io::ErrorKind::NotFound if folder.is_dir() => {
                format!("{} takes no new files: give another path", folder.display())
            }
            io::ErrorKind::NotFound => {
                format!("create the folder first: mkdir -p {}", folder.display())
            }
            io::ErrorKind::NotADirectory => {
                "check the path: a part of it is a file, not a folder".to_owned()
            }
            io::ErrorKind::IsADirectory => "give the path of a file, not of a folder".to_owned(),
            io::ErrorKind::PermissionDenied => {
                format!(
                    "check the permissions (ls -ld {})",
                    path_that_exists(path).display()
                )
            }
            io::ErrorKind::StorageFull => "free some space on the disk".to_owned(),
            io::ErrorKind::QuotaExceeded => {
                "free some space: the quota of this user is used up".to_owned()
            }
            io::ErrorKind::ReadOnlyFilesystem => {
                "give a path on a file system that can be written".to_owned()
            }
            io::ErrorKind::ResourceBusy => {
                "give another file, or stop the other command first".to_owned()
            }
            io::ErrorKind::Unsupported => "give the output another name".to_owned(),
            io::ErrorKind::TimedOut => {
                "let the program at its other end read, or write into a file".to_owned()
            }
            io::ErrorKind::FileTooLarge if verb == "read" => {
                format!("give a part of it: head -c 100M {} > PART", path.display())
            }
            _ => format!("check {}, or give another path", path.display()),
        }
    }

    /// An output of ours, such as `standard output`, could not be written.
    pub fn output(name: &str, error: &io::Error) -> Failure {
        let failure = Failure::new(format!("cannot write {name}: {error}"));
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::BrokenPipe,
            io::ErrorKind::StorageFull => failure.hint(format!(
                "free some space on the disk, or redirect {name} to a file on another"
            )),
            io::ErrorKind::TimedOut => failure
                .hint("let the program at the other end of the pipe read, or write into a file"),
            _ => failure.hint(format!("check the file or program that takes {name}")),
        }
    }

    /// An error of the socket runtime, with its remedy.
    pub fn net(error: NetError) -> Failure {
        if let NetError::Identity(error) = error {
            return Failure::identity(error);
        }
        let hint = match &error {
            NetError::Output { path, source } => return Failure::file(path, "write", source),
            NetError::Input { path, source } => return Failure::file(path, "read", source),
            NetError::PortInUse { addr } => format!(
                "--listen {}:PORT chooses another port; port 0 selects a free one",
                match addr.ip() {
                    IpAddr::V4(ip) => ip.to_string(),
                    IpAddr::V6(ip) => format!("[{ip}]"),
                }
            ),
            NetError::OwnUpstream { .. } => {
                "--upstream takes the URL that the server, or another switch, printed; --listen is where this one is called"
                    .to_owned()
            }
            NetError::Group { .. } => {
                "a group is 224.0.0.0 to 239.255.255.255, and --interface takes an address of this host (ip address)"
                    .to_owned()
            }
            NetError::Name { .. } => "give another name".to_owned(),
            NetError::TurnedAway { .. } => {
                "use the URL that the node printed when it started".to_owned()
            }
            NetError::Untrusted { .. } => {
                "a node without --identity FILE has a new certificate and URL each time it starts: use the URL that it \
                 printed last"
                    .to_owned()
            }
            NetError::System { .. } => {
                "close other programs, or raise the limits of the shell (ulimit -n, ulimit -u)".to_owned()
            }
            _ => return Failure::new(error),
        };
        Failure::new(error).hint(hint)
    }

    /// A certificate or key that cannot be used, with its remedy.
    pub fn identity(error: IdentityError) -> Failure {
        match error {
            IdentityError::File { verb, path, source } => Failure::file(&path, verb, &source),
            IdentityError::Mismatch(_) => Failure::new(error)
                .hint("give the key with which the certificate was made (--cert and --key)"),
            error => Failure::new(error),
        }
    }

    /// What is wrong with the file at `path`, or what it says.
    pub fn of(path: &Path, what: impl fmt::Display) -> Failure {
        Failure::new(format!("{}: {what}", path.display()))
    }

    /// What the command `called` prints, such as `layercast serve`: its help explains what it was used wrongly for.
    pub fn told_by(&self, called: &str) -> String {
        match self {
            Failure::Usage(_) => format!("{self}\n  see {called} --help"),
            _ => self.to_string(),
        }
    }

    /// Whether there is nothing to print of it, or all of it was printed.
    pub fn is_told(&self) -> bool {
        matches!(
            self,
            Failure::Interrupted | Failure::BrokenPipe | Failure::Unsatisfied | Failure::Partial
        )
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
            Failure::Usage(what) => write!(f, "layercast: {what}"),
            Failure::Interrupted
            | Failure::BrokenPipe
            | Failure::Unsatisfied
            | Failure::Partial => Ok(()),
        }
    }
}

/// The longest beginning of a path that exists: what has to be looked at.
fn path_that_exists(path: &Path) -> &Path {
    let exists = |it: &&Path| it.symlink_metadata().is_ok();
    match path.ancestors().find(exists) {
        Some(found) => found,
        None => Path::new("."),
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
    fn a_wrong_use_leads_to_the_help_of_its_command() {
        let wrong = Failure::Usage("--a is for --b".to_owned());
        assert_eq!(
            wrong.told_by("layercast fec edge"),
            "layercast: --a is for --b\n  see layercast fec edge --help"
        );
        let failure = Failure::new("no").hint("yes");
        assert_eq!(failure.told_by("layercast serve"), "layercast: no\n  yes");
    }

    #[test]
    fn each_error_of_a_path_or_a_port_has_a_remedy() {
        use io::ErrorKind as Kind;
        for (kind, remedy) in [
            (Kind::NotFound, "mkdir -p missing/folder"),
            (Kind::NotADirectory, "a part of it is a file"),
            (Kind::IsADirectory, "not of a folder"),
            (Kind::PermissionDenied, "permissions (ls -ld .)"),
            (Kind::ReadOnlyFilesystem, "can be written"),
            (Kind::StorageFull, "free some space on the disk"),
            (Kind::QuotaExceeded, "the quota of this user"),
            (Kind::ResourceBusy, "give another file"),
            (Kind::InvalidInput, "give another path"),
        ] {
            let path = Path::new("missing/folder/x.ts").to_owned();
            let source = io::Error::from(kind);
            let said = Failure::net(NetError::Output { path, source }).to_string();
            assert!(said.contains("cannot write missing/folder/x.ts"), "{said}");
            assert!(said.contains(remedy), "{kind:?}: {said}");
        }
        let addr = "[::1]:7400".parse().unwrap();
        let said = Failure::net(NetError::PortInUse { addr }).to_string();
        assert!(
            said.contains("[::1]:7400 is in use") && said.contains("--listen [::1]:PORT"),
            "{said}"
        );
    }

    #[test]
    fn a_folder_that_exists_is_not_to_be_created() {
        let error = io::Error::from(io::ErrorKind::NotFound);
        let said = Failure::file(Path::new("/proc/x"), "write", &error).to_string();
        assert!(!said.contains("mkdir"), "{said}");
        assert!(said.contains("/proc takes no new files"), "{said}");
    }

    #[test]
    fn a_reader_that_left_is_no_failure() {
        let failure = Failure::output("standard output", &io::ErrorKind::BrokenPipe.into());
        assert_eq!((failure.code(), failure.to_string()), (0, String::new()));
        let failure = Failure::output("standard output", &io::ErrorKind::StorageFull.into());
        assert_eq!(failure.code(), 1);
        let said = failure.to_string();
        assert!(
            said.contains("cannot write standard output") && said.contains("free some space"),
            "{said}"
        );
    }
}
