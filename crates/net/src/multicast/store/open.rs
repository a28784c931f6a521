//! Opening one name after the other, never through a symbolic link.

use std::borrow::Borrow;
use std::fs::Permissions;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::multicast::name::printable_names;

/// Permissions of folders before the manifest says others, less what the umask takes.
const FOLDER: Mode = Mode::from_bits_retain(0o777);

/// Opens the folder that the user named.
pub fn open_root(root: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(root, flags, Mode::empty())?)
}

/// Opens a folder in another one; makes it if it is missing and may be made.
pub fn open_folder(at: impl AsFd, name: &[u8], make: bool) -> Result<OwnedFd, Errno> {
    if make {
        match rustix::fs::mkdirat(&at, name, FOLDER) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error),
        }
    }
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    Ok(open_own(at, name, flags)?.0)
}

/// Says which folder of a path cannot be opened, if it is none.
pub fn named(error: Errno, names: &[impl Borrow<[u8]>]) -> io::Error {
    match error {
        Errno::LOOP | Errno::NOTDIR => {
            let what = printable_names(names);
            let what = format!("{what} is a symbolic link or a file, not a folder");
            io::Error::new(io::ErrorKind::NotADirectory, what)
        }
        error => error.into(),
    }
}

/// Opens a name in a folder. What an earlier transfer made, with permissions that take it from its owner too, is opened
/// nevertheless: then its owner may read it, and its former permissions are given.
pub fn open_own(
    at: impl AsFd,
    name: &[u8],
    flags: OFlags,
) -> Result<(OwnedFd, Option<Mode>), Errno> {
    let denied = match rustix::fs::openat(&at, name, flags, Mode::empty()) {
        Ok(opened) => return Ok((opened, None)),
        Err(Errno::ACCESS) => Errno::ACCESS,
        Err(error) => return Err(error),
    };
    let path = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let found = rustix::fs::openat(&at, name, path, Mode::empty())?;
    let about = rustix::fs::fstat(&found)?;
    let granted = match FileType::from_raw_mode(about.st_mode) {
        FileType::RegularFile => 0o400,
        FileType::Directory => 0o700,
        _ => return Err(denied),
    };
    let former = Mode::from_raw_mode(about.st_mode);
    let readable = Permissions::from_mode(former.as_raw_mode() | granted);
    // A descriptor that only names the file leads to this very one, whatever has its name meanwhile.
    let this = PathBuf::from(format!("/proc/self/fd/{}", found.as_raw_fd()));
    std::fs::set_permissions(&this, readable).map_err(|_| denied)?;
    let opened = rustix::fs::openat(&at, name, flags, Mode::empty())?;
    Ok((opened, Some(former)))
}
