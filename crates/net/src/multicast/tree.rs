//! What a sender is about to send: files and folders, looked at before the first octet leaves.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use layercast_wire::multicast::manifest::{
    Entry, Kind, MODE_BITS, Manifest, ManifestBuilder, ManifestError, Modified, check_name,
};
use rustix::fs::OFlags;

use super::name::{harmless, harmless_at_top, printable_names, shorten};
use crate::random::random_number;

/// How a tree is read.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct TreeOptions {
    /// Symbolic links inside folders are followed; if not, they are left out and listed as skipped.
    pub follow: bool,
    /// Names inside folders that a receiver would refuse get `_` for what is wrong with them; if not, they are faults.
    pub rename: bool,
}

/// A file or folder that cannot be sent, and why.
#[derive(Debug)]
pub struct InputFault {
    /// As the user gave it, or below that.
    pub path: PathBuf,
    /// What is wrong, and what to do about it.
    pub why: String,
}

/// Files and folders that can be sent, all of them looked at.
#[derive(Clone, Debug)]
pub struct SendPlan {
    pub(super) manifest: Manifest,
    /// Where the files of the manifest are, in its order.
    pub(super) sources: Vec<PathBuf>,
    /// Names that receivers get instead of others.
    pub renamed: Vec<(PathBuf, String)>,
    /// Symbolic links inside folders, which are not sent.
    pub skipped: Vec<PathBuf>,
}

impl SendPlan {
    /// Looks at all inputs: folders with everything in them, and files. Reads no content.
    ///
    /// # Errors
    /// All inputs that are missing, cannot be read or cannot be sent, not only the first.
    pub fn of(inputs: &[PathBuf], options: TreeOptions) -> Result<SendPlan, Vec<InputFault>> {
        let mut walk = Walk {
            options,
            list: ManifestBuilder::new(random_number().max(1)),
            plan: Vec::new(),
            renamed: Vec::new(),
            skipped: Vec::new(),
            faults: Vec::new(),
            given: BTreeSet::new(),
            above: Vec::new(),
        };
        for input in inputs {
            walk.input(input);
        }
        match walk.faults.is_empty() {
            true => Ok(SendPlan {
                manifest: walk.list.build(),
                sources: walk.plan,
                renamed: walk.renamed,
                skipped: walk.skipped,
            }),
            false => Err(walk.faults),
        }
    }

    /// Files.
    pub fn files(&self) -> u32 {
        self.sources.len() as u32
    }

    /// Folders.
    pub fn folders(&self) -> u32 {
        self.manifest.entries().len() as u32 - self.files()
    }

    /// Octets of all files together.
    pub fn octets(&self) -> u64 {
        self.manifest.octets()
    }

    /// Octets of each file.
    pub fn sizes(&self) -> impl Iterator<Item = u64> + '_ {
        self.manifest.files().map(|(_, entry)| match entry.kind {
            Kind::File { size } | Kind::Withdrawn { size, .. } => size,
            Kind::Folder => 0,
        })
    }

    /// Octets of the manifest itself.
    pub fn manifest_octets(&self) -> u64 {
        self.manifest.encode().len() as u64
    }
}

struct Walk {
    options: TreeOptions,
    list: ManifestBuilder,
    plan: Vec<PathBuf>,
    renamed: Vec<(PathBuf, String)>,
    skipped: Vec<PathBuf>,
    faults: Vec<InputFault>,
    /// Device and inode of what was given by the user: the same twice is sent once.
    given: BTreeSet<(u64, u64)>,
    /// Device and inode of the folders that lead to where the walk is.
    above: Vec<(u64, u64)>,
}

impl Walk {
    fn fault(&mut self, path: &Path, why: impl ToString) {
        self.faults.push(InputFault {
            path: path.to_owned(),
            why: why.to_string(),
        });
    }

    /// What the user gave: a symbolic link is followed here.
    fn input(&mut self, path: &Path) {
        let found = fs::canonicalize(path).and_then(|real| Ok((fs::metadata(&real)?, real)));
        let (about, real) = match found {
            Ok(found) => found,
            Err(error) => return self.fault(path, said(&error)),
        };
        if !self.given.insert((about.dev(), about.ino())) {
            return;
        }
        // `.` and `..` have a name, and a symbolic link keeps its own.
        let name = path.file_name().or(real.file_name());
        let Some(name) = name.map(OsStr::as_bytes) else {
            return self.fault(path, "the root has no name: send the folders in it");
        };
        let safe = self.free_at_top(harmless_at_top(name));
        if safe != name {
            let printable = printable_names(&[&*safe]);
            self.renamed.push((path.to_owned(), printable));
        }
        self.entry((path, &real), None, safe, &about);
    }

    /// The name, or one with a number if another input has it.
    fn free_at_top(&self, name: Vec<u8>) -> Vec<u8> {
        let numbered = (1u32..).map(|number| with_number(&name, number));
        let mut candidates = std::iter::once(name.clone()).chain(numbered);
        let free = candidates.find(|it| !self.list.has(None, it));
        free.unwrap_or(name)
    }

    /// One file or folder; `shown` is its path for the user, `real` one without symbolic links.
    fn entry(
        &mut self,
        (shown, real): (&Path, &Path),
        parent: Option<u32>,
        name: Vec<u8>,
        about: &Metadata,
    ) {
        let kind = match Self::kind(real, about) {
            Ok(kind) => kind,
            Err(why) => return self.fault(shown, why),
        };
        let entry = Entry {
            parent,
            name: name.into(),
            kind,
            mode: about.mode() as u16 & MODE_BITS,
            modified: modified(about),
        };
        let at = match self.list.push(entry) {
            Ok(at) => at,
            Err(ManifestError::Name(_, fault)) => {
                return self.fault(
                    shown,
                    format!("receivers refuse its name: {fault}; rename it, or add --rename"),
                );
            }
            Err(error) => return self.fault(shown, error),
        };
        match kind {
            Kind::Folder => self.folder((shown, real), at, about),
            _ => self.plan.push(real.to_owned()),
        }
    }

    fn kind(real: &Path, about: &Metadata) -> Result<Kind, String> {
        let kind = about.file_type();
        if kind.is_dir() {
            return Ok(Kind::Folder);
        }
        let refused = |what: &str| Err(format!("it is {what}, not a file or folder"));
        if kind.is_fifo() {
            return refused("a named pipe");
        }
        if kind.is_socket() {
            return refused("a socket");
        }
        if kind.is_block_device() || kind.is_char_device() {
            return refused("a device");
        }
        let mut file = open(real).map_err(|error| said(&error))?;
        if about.len() == 0 && matches!(file.read(&mut [0]), Ok(1..)) {
            return Err(
                "its size is not known before it is read, as in /proc: send a copy of it".into(),
            );
        }
        Ok(Kind::File { size: about.len() })
    }

    fn folder(&mut self, (shown, real): (&Path, &Path), at: u32, about: &Metadata) {
        let id = (about.dev(), about.ino());
        if self.above.contains(&id) {
            return self.fault(
                shown,
                "a symbolic link leads back to a folder that it is in",
            );
        }
        let names = fs::read_dir(real).and_then(|all| {
            let names: io::Result<Vec<_>> = all.map(|it| Ok(it?.file_name())).collect();
            names
        });
        let mut names = match names {
            Ok(names) => names,
            Err(error) => return self.fault(shown, said(&error)),
        };
        names.sort_unstable();
        self.above.push(id);
        for name in &names {
            self.inside((&shown.join(name), &real.join(name)), at, (name, &names));
        }
        self.above.pop();
    }

    /// What is in a folder, under one of the names `all` that it has.
    fn inside(
        &mut self,
        (shown, real): (&Path, &Path),
        parent: u32,
        (name, all): (&OsStr, &[OsString]),
    ) {
        let about = match fs::symlink_metadata(real) {
            Ok(about) => about,
            Err(error) => return self.fault(shown, said(&error)),
        };
        let mut name = name.as_bytes().to_vec();
        if self.options.rename && check_name(&name).is_err() {
            name = harmless(&name);
            // Also by a file that comes later and keeps its name.
            let taken = |name: &[u8]| {
                let of_another = all.binary_search_by(|it| it.as_bytes().cmp(name)).is_ok();
                of_another || self.list.has(Some(parent), name)
            };
            if taken(&name) {
                let numbered = (1u32..).map(|number| with_number(&name, number));
                name = numbered
                    .into_iter()
                    .find(|it| !taken(it))
                    .unwrap_or(name.clone());
            }
            self.renamed
                .push((shown.to_owned(), printable_names(&[&*name])));
        }
        if !about.is_symlink() {
            return self.entry((shown, real), Some(parent), name, &about);
        }
        if !self.options.follow {
            return self.skipped.push(shown.to_owned());
        }
        match fs::canonicalize(real).and_then(|real| Ok((fs::metadata(&real)?, real))) {
            Ok((about, real)) => self.entry((shown, &real), Some(parent), name, &about),
            Err(error) => self.fault(shown, said(&error)),
        }
    }
}

/// A name with a number before its extension.
pub fn with_number(name: &[u8], number: u32) -> Vec<u8> {
    let dot = name.iter().rposition(|&it| it == b'.').filter(|&at| at > 0);
    let (stem, end) = name.split_at(dot.unwrap_or(name.len()));
    let number = format!("~{number}");
    let mut numbered = stem.to_vec();
    let room = layercast_wire::multicast::manifest::MAX_FILE_NAME;
    shorten(&mut numbered, room.saturating_sub(number.len() + end.len()));
    numbered.extend_from_slice(number.as_bytes());
    numbered.extend_from_slice(end);
    shorten(&mut numbered, room);
    numbered
}

/// Opens a file to be sent; neither a named pipe nor a symbolic link in its place is waited for or followed.
pub fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let mut options = File::options();
    options.read(true).custom_flags(flags.bits() as i32);
    options.open(path)
}

/// When a file was modified last.
pub fn modified(about: &Metadata) -> Modified {
    Modified {
        seconds: about.mtime(),
        nanoseconds: about.mtime_nsec().clamp(0, 999_999_999) as u32,
    }
}

/// What the system said, in words that say what to do.
fn said(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "no such file or folder".into(),
        io::ErrorKind::PermissionDenied => {
            "permission denied: the user that runs layercast may not read it".into()
        }
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests;
