//! The manifest of a transfer: every folder and file that a sender is about to send, before the first of them.
//!
//! It is the content of an object of its own, so that it arrives completely, with a digest, as files do.
//!
//! ```text
//! | "LCM1" | batch (u64) | entries (u32) | entry ... |
//! entry: | kind (u8) | parent (u32) | mode (u16) | mtime: seconds (i64), nanoseconds (u32) | length (u8) | name |
//!        file: size (u64)     withdrawn file: size (u64), cause (u8)
//! ```
//!
//! `parent` is 0 for the top, otherwise 1 + the position of a folder earlier in the list.

mod name;
#[cfg(test)]
mod tests;

use std::collections::HashSet;

use thiserror::Error;

pub use name::{NameFault, check_name};

/// Octets of an encoded manifest, at most.
pub const MAX_MANIFEST: usize = 16 << 20;
/// Folders and files of a manifest, at most.
pub const MAX_ENTRIES: u32 = 1 << 18;
/// Folders within folders, at most.
pub const MAX_DEPTH: u8 = 64;
/// Octets of a name, at most: the limit of Linux file systems.
pub const MAX_FILE_NAME: usize = 255;
/// Permission bits that a mode may have; set-user-ID, set-group-ID and the sticky bit are never sent.
pub const MODE_BITS: u16 = 0o777;

const MAGIC: &[u8; 4] = b"LCM1";
/// Magic, batch and the number of entries.
const HEAD: usize = 4 + 8 + 4;
/// Octets of an entry without its name and without what depends on its kind.
const ENTRY: usize = 1 + 4 + 2 + 8 + 4 + 1;

/// A time of the file system, as in POSIX `struct timespec`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct Modified {
    /// Seconds since 1970; negative before.
    pub seconds: i64,
    /// Nanoseconds within the second, below 10^9.
    pub nanoseconds: u32,
}

/// Why a file that the manifest lists is not sent.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Error)]
#[repr(u8)]
pub enum Withdrawal {
    /// Its size, content or identity changed after the start.
    #[error("it changed while it was being sent")]
    Changed = 0,
    /// It was removed after the start.
    #[error("it was removed before its turn")]
    Removed = 1,
    /// The sender may not read it.
    #[error("the sender has no permission to read it")]
    Denied = 2,
    /// The sender's system reports a read error.
    #[error("the sender cannot read it")]
    Unreadable = 3,
    /// The sender stopped before its turn.
    #[error("the sender stopped before its turn")]
    Stopped = 4,
}

impl Withdrawal {
    const ALL: [Withdrawal; 5] = [
        Withdrawal::Changed,
        Withdrawal::Removed,
        Withdrawal::Denied,
        Withdrawal::Unreadable,
        Withdrawal::Stopped,
    ];
}

/// What an entry is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A folder.
    Folder,
    /// A plain file that is sent as an object of this many octets.
    File {
        /// Octets.
        size: u64,
    },
    /// A plain file that is not sent after all.
    Withdrawn {
        /// Octets that were announced.
        size: u64,
        /// Why.
        cause: Withdrawal,
    },
}

/// A folder or a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Position of the folder that it is in, in the list of entries; `None`: at the top.
    pub parent: Option<u32>,
    /// Name without a path; [`check_name`] accepts it.
    pub name: Box<[u8]>,
    /// What it is.
    pub kind: Kind,
    /// Permission bits, within [`MODE_BITS`].
    pub mode: u16,
    /// When its content was modified last.
    pub modified: Modified,
}

/// Why an entry or a manifest is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum ManifestError {
    /// It ends early or has octets behind its end.
    #[error("a manifest of the wrong length")]
    Length,
    /// It is not a manifest.
    #[error("not a manifest")]
    Magic,
    /// It has more than [`MAX_MANIFEST`] octets.
    #[error(
        "a manifest of more than {MAX_MANIFEST} octets: send fewer files at a time, or an archive of them"
    )]
    TooLong,
    /// A kind, cause, mode or time is out of range.
    #[error("a field of entry {0} is out of range")]
    Field(u32),
    /// A parent is not an earlier folder.
    #[error("the parent of entry {0} is not an earlier folder")]
    Parent(u32),
    /// A path has more than [`MAX_DEPTH`] names.
    #[error("entry {0} is more than {MAX_DEPTH} folders deep")]
    Depth(u32),
    /// A name cannot be a file name, or is dangerous.
    #[error("the name of entry {0}: {1}")]
    Name(u32, NameFault),
    /// Two entries of a folder have one name.
    #[error("entry {0} has the name of an earlier one in the same folder")]
    Twice(u32),
    /// The sizes add up to more than 2^64 - 1 octets.
    #[error("the sizes add up to more than 64 bits can count")]
    Total,
}

/// A list of folders and files that is valid as a whole: parents come first, names are safe and differ in each folder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Manifest {
    batch: u64,
    entries: Vec<Entry>,
    octets: u64,
    encoded: usize,
}

impl Manifest {
    /// The number of the transfer.
    pub fn batch(&self) -> u64 {
        self.batch
    }

    /// All entries, parents before what is in them.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Files with their position in the list, withdrawn ones among them. The first has the number 1, and so on: an
    /// object names its file by this number.
    pub fn files(&self) -> impl Iterator<Item = (u32, &Entry)> {
        let all = (0..).zip(&self.entries);
        all.filter(|(_, entry)| entry.kind != Kind::Folder)
    }

    /// Octets of all files together.
    pub fn octets(&self) -> u64 {
        self.octets
    }

    /// Marks the file at a position as one that is not sent; anything else stays as it is.
    pub fn withdraw(&mut self, at: u32, cause: Withdrawal) {
        if let Some(entry) = self.entries.get_mut(at as usize)
            && let Kind::File { size } = entry.kind
        {
            entry.kind = Kind::Withdrawn { size, cause };
            self.encoded += 1;
        }
    }

    /// The names that lead from the top to an entry, its own last.
    pub fn path(&self, at: u32) -> Vec<&[u8]> {
        let mut names = Vec::new();
        let mut next = Some(at);
        while let Some(entry) = next.and_then(|at| self.entries.get(at as usize)) {
            names.push(&*entry.name);
            next = entry.parent;
        }
        names.reverse();
        names
    }

    /// Its octets.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.encoded);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&self.batch.to_be_bytes());
        out.extend_from_slice(&(self.entries.len() as u32).to_be_bytes());
        for entry in &self.entries {
            out.push(match entry.kind {
                Kind::Folder => 0,
                Kind::File { .. } => 1,
                Kind::Withdrawn { .. } => 2,
            });
            out.extend_from_slice(&entry.parent.map_or(0, |at| at + 1).to_be_bytes());
            out.extend_from_slice(&entry.mode.to_be_bytes());
            out.extend_from_slice(&entry.modified.seconds.to_be_bytes());
            out.extend_from_slice(&entry.modified.nanoseconds.to_be_bytes());
            out.push(entry.name.len() as u8);
            out.extend_from_slice(&entry.name);
            match entry.kind {
                Kind::Folder => {}
                Kind::File { size } => out.extend_from_slice(&size.to_be_bytes()),
                Kind::Withdrawn { size, cause } => {
                    out.extend_from_slice(&size.to_be_bytes());
                    out.push(cause as u8);
                }
            }
        }
        debug_assert_eq!(out.len(), self.encoded);
        out
    }

    /// Reads a manifest; any octets give one or an error, and memory stays within a few times their number.
    ///
    /// # Errors
    /// The octets are no valid manifest as a whole.
    pub fn decode(octets: &[u8]) -> Result<Manifest, ManifestError> {
        if octets.len() > MAX_MANIFEST {
            return Err(ManifestError::TooLong);
        }
        let mut rest = octets;
        if take::<4>(&mut rest)? != *MAGIC {
            return Err(ManifestError::Magic);
        }
        let batch = u64::from_be_bytes(take(&mut rest)?);
        let count = u32::from_be_bytes(take(&mut rest)?);
        let mut manifest = ManifestBuilder::new(batch);
        for at in 0..count {
            let [kind] = take(&mut rest)?;
            let parent = u32::from_be_bytes(take(&mut rest)?).checked_sub(1);
            let mode = u16::from_be_bytes(take(&mut rest)?);
            let modified = Modified {
                seconds: i64::from_be_bytes(take(&mut rest)?),
                nanoseconds: u32::from_be_bytes(take(&mut rest)?),
            };
            let [len] = take(&mut rest)?;
            let name = rest.get(..usize::from(len)).ok_or(ManifestError::Length)?;
            rest = &rest[name.len()..];
            let kind = match kind {
                0 => Kind::Folder,
                1 => Kind::File {
                    size: u64::from_be_bytes(take(&mut rest)?),
                },
                2 => {
                    let size = u64::from_be_bytes(take(&mut rest)?);
                    let [cause] = take(&mut rest)?;
                    let cause = Withdrawal::ALL.get(usize::from(cause)).copied();
                    let cause = cause.ok_or(ManifestError::Field(at))?;
                    Kind::Withdrawn { size, cause }
                }
                _ => return Err(ManifestError::Field(at)),
            };
            let name = name.into();
            manifest.push(Entry {
                parent,
                name,
                kind,
                mode,
                modified,
            })?;
        }
        match rest {
            [] => Ok(manifest.build()),
            _ => Err(ManifestError::Length),
        }
    }
}

/// A manifest in the making.
#[derive(Debug)]
pub struct ManifestBuilder {
    manifest: Manifest,
    depths: Vec<u8>,
    names: HashSet<(Option<u32>, Box<[u8]>)>,
}

impl ManifestBuilder {
    /// An empty manifest; `batch` distinguishes the transfers of all senders.
    pub fn new(batch: u64) -> ManifestBuilder {
        ManifestBuilder {
            manifest: Manifest {
                batch,
                entries: Vec::new(),
                octets: 0,
                encoded: HEAD,
            },
            depths: Vec::new(),
            names: HashSet::new(),
        }
    }

    /// The entries so far.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The manifest.
    pub fn build(self) -> Manifest {
        self.manifest
    }

    /// Whether a folder has an entry of this name.
    pub fn has(&self, parent: Option<u32>, name: &[u8]) -> bool {
        self.names.contains(&(parent, name.into()))
    }

    /// Adds an entry at the end and gives its position.
    ///
    /// # Errors
    /// It is not valid there; the list is as it was.
    pub fn push(&mut self, entry: Entry) -> Result<u32, ManifestError> {
        let list = &mut self.manifest;
        let at = list.entries.len() as u32;
        if at >= MAX_ENTRIES {
            return Err(ManifestError::TooLong);
        }
        let in_range = entry.mode & !MODE_BITS == 0 && entry.modified.nanoseconds < 1_000_000_000;
        if !in_range {
            return Err(ManifestError::Field(at));
        }
        check_name(&entry.name).map_err(|fault| ManifestError::Name(at, fault))?;
        let depth = match entry.parent {
            None => 1,
            Some(parent) => {
                let folder = list.entries.get(parent as usize);
                let folder = folder.filter(|it| it.kind == Kind::Folder);
                folder.ok_or(ManifestError::Parent(at))?;
                self.depths[parent as usize] + 1
            }
        };
        if depth > MAX_DEPTH {
            return Err(ManifestError::Depth(at));
        }
        let octets = list.octets.checked_add(size_of(&entry.kind));
        let octets = octets.ok_or(ManifestError::Total)?;
        let encoded = list.encoded + ENTRY + entry.name.len() + tail(&entry.kind);
        if encoded > MAX_MANIFEST {
            return Err(ManifestError::TooLong);
        }
        if !self.names.insert((entry.parent, entry.name.clone())) {
            return Err(ManifestError::Twice(at));
        }
        (list.octets, list.encoded) = (octets, encoded);
        self.depths.push(depth);
        list.entries.push(entry);
        debug_assert_eq!(self.depths.len(), list.entries.len());
        Ok(at)
    }
}

fn size_of(kind: &Kind) -> u64 {
    match *kind {
        Kind::Folder => 0,
        Kind::File { size } | Kind::Withdrawn { size, .. } => size,
    }
}

/// Octets of an entry behind its name.
fn tail(kind: &Kind) -> usize {
    match kind {
        Kind::Folder => 0,
        Kind::File { .. } => 8,
        Kind::Withdrawn { .. } => 9,
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], ManifestError> {
    let (taken, left) = rest.split_first_chunk().ok_or(ManifestError::Length)?;
    *rest = left;
    Ok(*taken)
}
