use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;

use layercast_wire::multicast::Object;

use super::place::{self, Listed};
use crate::multicast::digest::TreeDigest;

/// Where received files go.
#[derive(Clone, Debug)]
pub struct Folder {
    /// The folder.
    pub path: PathBuf,
    /// A file of the same name and other content is replaced; if not, the new one gets a number.
    pub overwrite: bool,
    /// Larger files are refused, octets.
    pub most: u64,
}

impl Folder {
    /// Whether a plain file is at the place that a list gives, or at one with a number, with the size and the time of
    /// modification that the list gives: a receiver sets the time once the digest is right.
    pub(crate) fn has(&self, listed: &Listed) -> bool {
        let most = if self.overwrite { 1 } else { COPIES };
        let is_it = |file: &File| {
            file.metadata().is_ok_and(|it| {
                let modified = (it.mtime(), it.mtime_nsec());
                it.len() == listed.size
                    && modified == (listed.modified.seconds, listed.modified.nanoseconds.into())
            })
        };
        (0..most)
            .map(|number| place::existing(&self.path, &listed.path, number))
            // Numbers have no gaps.
            .take_while(|it| !matches!(it, Err(error) if error.kind() == io::ErrorKind::NotFound))
            .flatten()
            .any(|(file, _)| is_it(&file))
    }

    /// Octets that are free on its disk.
    pub(crate) fn free(&self) -> u64 {
        rustix::fs::statvfs(&self.path)
            .map_or(u64::MAX, |it| it.f_bavail.saturating_mul(it.f_frsize))
    }
}

/// Files with the name of an object, with and without a number, that are compared with it.
const COPIES: u32 = 16;

/// A file that may have the content of an object: it is read piece by piece, so that a receiver with a large file does
/// something else meanwhile.
#[derive(Debug)]
pub(super) struct Existing {
    folder: Folder,
    names: Vec<Box<[u8]>>,
    number: u32,
    path: PathBuf,
    file: File,
    size: u64,
    tree: TreeDigest,
    next: u64,
    digest: [u8; 32],
}

impl Existing {
    /// The plain file at a path below the folder, if it has the size of the object; or the first one that was given a
    /// number, because an earlier file has the name.
    pub fn open(folder: &Folder, names: &[Box<[u8]>], object: &Object) -> Option<Existing> {
        Existing::find(folder, names, 0, (object.size, object.digest))
    }

    /// The next candidate, if this one has another content.
    pub fn next(self) -> Option<Existing> {
        let content = (self.size, self.digest);
        Existing::find(&self.folder, &self.names, self.number + 1, content)
    }

    fn find(
        folder: &Folder,
        names: &[Box<[u8]>],
        from: u32,
        (size, digest): (u64, [u8; 32]),
    ) -> Option<Existing> {
        // What may be replaced has the name itself.
        let most = if folder.overwrite { 1 } else { COPIES };
        for number in from..most {
            let (file, path) = match place::existing(&folder.path, names, number) {
                Ok(found) => found,
                // Numbers have no gaps.
                Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
                // It is somebody else's, or no file.
                Err(_) => continue,
            };
            if file.metadata().ok()?.len() == size {
                return Some(Existing {
                    folder: folder.clone(),
                    names: names.to_vec(),
                    number,
                    path,
                    file,
                    size,
                    tree: TreeDigest::new(size),
                    next: 0,
                    digest,
                });
            }
        }
        None
    }

    /// Reads the next piece; once all are read, whether the content is the same. A file that cannot be read is another.
    pub fn read_one(&mut self) -> Option<bool> {
        if let Some(digest) = self.tree.digest() {
            return Some(digest == self.digest);
        }
        let (from, to) = self.tree.range(self.next);
        let mut octets = vec![0; (to - from) as usize];
        if self.file.read_exact_at(&mut octets, from).is_err() {
            return Some(false);
        }
        self.tree.put(self.next, &octets);
        self.next += 1;
        None
    }

    /// Where it is.
    pub fn into_path(self) -> PathBuf {
        self.path
    }
}
