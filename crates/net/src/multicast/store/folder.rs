use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use layercast_wire::multicast::Object;

use super::place;
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
    /// Octets that there is room for.
    pub(crate) fn room(&self) -> u64 {
        let free = rustix::fs::statvfs(&self.path)
            .map_or(u64::MAX, |it| it.f_bavail.saturating_mul(it.f_frsize));
        self.most.min(free)
    }
}

/// A file that may have the content of an object: it is read piece by piece, so that a receiver with a large file does
/// something else meanwhile.
#[derive(Debug)]
pub(super) struct Existing {
    path: PathBuf,
    file: File,
    tree: TreeDigest,
    next: u64,
    digest: [u8; 32],
}

impl Existing {
    /// The plain file at a path below the folder, if it has the size of the object.
    pub fn open(folder: &Folder, path: &[Box<[u8]>], object: &Object) -> Option<Existing> {
        let (file, path) = place::existing(&folder.path, path).ok()?;
        let is_as_large = file.metadata().ok()?.len() == object.size;
        is_as_large.then(|| Existing {
            path,
            file,
            tree: TreeDigest::new(object.size),
            next: 0,
            digest: object.digest,
        })
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
