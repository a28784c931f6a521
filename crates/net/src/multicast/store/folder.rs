use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use layercast_wire::multicast::Object;

use crate::multicast::digest::digest_of;

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
    pub(super) fn room(&self) -> u64 {
        let free = rustix::fs::statvfs(&self.path)
            .map_or(u64::MAX, |it| it.f_bavail.saturating_mul(it.f_frsize));
        self.most.min(free)
    }

    /// The path of a name itself if it is free or may be replaced, or one with a number.
    pub(super) fn free_name(&self, name: &str) -> io::Result<PathBuf> {
        let path = self.path.join(name);
        if self.overwrite || fs::symlink_metadata(&path).is_err() {
            return Ok(path);
        }
        let (stem, end) = match name.rsplit_once('.') {
            Some((stem, end)) => (stem, format!(".{end}")),
            None => (name, String::new()),
        };
        (1..1_000)
            .map(|number| self.path.join(format!("{stem}~{number}{end}")))
            .find(|path| fs::symlink_metadata(path).is_err())
            .ok_or_else(|| io::ErrorKind::AlreadyExists.into())
    }
}

/// Whether a file has the content of an object.
pub(super) fn is_it(path: &Path, object: &Object) -> bool {
    let same = || -> io::Result<bool> {
        let about = fs::symlink_metadata(path)?;
        Ok(about.is_file()
            && about.len() == object.size
            && digest_of(File::open(path)?)? == object.digest)
    };
    same().unwrap_or(false)
}
