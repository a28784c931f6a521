//! Where received files get their names: below the folder of the receiver, and nowhere else.
//!
//! Every folder on the way is opened relative to the one before, and none of them may be a symbolic link: a
//! process with write access to a folder cannot lead the receiver out of it, not even while it writes.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use layercast_wire::multicast::manifest::{Kind, Manifest, Modified};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags, Timespec, Timestamps};
use rustix::io::Errno;

use crate::multicast::name::{harmless_at_top, printable_names};
use crate::multicast::tree::with_number;

/// Numbers that are tried for a file whose name is in use.
const NUMBERS: u32 = 1_000;
/// Permissions of folders before the manifest says others, less what the umask takes.
const FOLDER: Mode = Mode::from_bits_retain(0o777);

/// What the manifest says of a file or folder.
#[derive(Clone, Debug)]
pub struct Listed {
    /// The names that lead to it.
    pub path: Vec<Box<[u8]>>,
    /// Octets of a file; 0 for a folder.
    pub size: u64,
    /// Its permission bits.
    pub mode: u16,
    /// When it was modified last.
    pub modified: Modified,
}

impl Listed {
    /// The entry of a manifest at a position.
    pub fn of(manifest: &Manifest, at: u32) -> Option<Listed> {
        let entry = manifest.entries().get(at as usize)?;
        let mut path: Vec<Box<[u8]>> = manifest.path(at).into_iter().map(Into::into).collect();
        // A sender that follows the rules has done so already.
        let first = path.first_mut()?;
        *first = harmless_at_top(first).into();
        let size = match entry.kind {
            Kind::File { size } | Kind::Withdrawn { size, .. } => size,
            _ => 0,
        };
        Some(Listed {
            path,
            size,
            mode: entry.mode,
            modified: entry.modified,
        })
    }

    /// Its path, to be printed.
    pub fn name(&self) -> String {
        printable_names(&self.path)
    }
}

/// The last name of a path and the folders above it.
type Split<'a> = (&'a [u8], &'a [Box<[u8]>]);

/// The last name, and those of the folders before it.
fn split(path: &[Box<[u8]>]) -> io::Result<Split<'_>> {
    let (last, folders) = path.split_last().ok_or(io::ErrorKind::NotFound)?;
    Ok((last, folders))
}

/// Opens a folder below `root`; makes what is missing, or fails.
fn folder(root: &Path, names: &[Box<[u8]>], make: bool) -> io::Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut at = rustix::fs::open(root, flags, Mode::empty())?;
    for (depth, name) in (1..).zip(names) {
        if make {
            match rustix::fs::mkdirat(&at, &**name, FOLDER) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let opened = rustix::fs::openat(&at, &**name, flags | OFlags::NOFOLLOW, Mode::empty());
        at = opened.map_err(|error| match error {
            Errno::LOOP | Errno::NOTDIR => {
                let what = printable_names(&names[..depth]);
                let what = format!("{what} is a symbolic link or a file, not a folder");
                io::Error::new(io::ErrorKind::NotADirectory, what)
            }
            error => error.into(),
        })?;
    }
    Ok(at)
}

fn path_of(root: &Path, folders: &[Box<[u8]>], name: &[u8]) -> PathBuf {
    let mut path = root.to_owned();
    for name in folders.iter().map(|it| &**it).chain([name]) {
        path.push(std::ffi::OsStr::from_bytes(name));
    }
    path
}

/// Opens the plain file at a path below `root`, or the one with a number that [`put`] gave it, to be read.
pub fn existing(root: &Path, path: &[Box<[u8]>], number: u32) -> io::Result<(File, PathBuf)> {
    let (name, folders) = split(path)?;
    let name = &*match number {
        0 => name.to_vec(),
        number => with_number(name, number),
    };
    let at = folder(root, folders, false)?;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::openat(&at, name, flags, Mode::empty())?);
    match file.metadata()?.is_file() {
        true => Ok((file, path_of(root, folders, name))),
        false => Err(io::ErrorKind::InvalidInput.into()),
    }
}

/// Gives the file at `from`, on the same file system, the name at a path below `root`: itself if it is free or may be
/// replaced, or one with a number. Never replaces a file that it may not, not even one that is made meanwhile.
/// Gives the path, and the folder for [`sync`].
pub fn put(
    root: &Path,
    path: &[Box<[u8]>],
    from: &Path,
    overwrite: bool,
) -> io::Result<(PathBuf, OwnedFd)> {
    let (name, folders) = split(path)?;
    let at = folder(root, folders, true)?;
    if overwrite {
        rustix::fs::renameat(CWD, from, &at, name)?;
        return Ok((path_of(root, folders, name), at));
    }
    let numbered = (1..NUMBERS).map(|number| with_number(name, number));
    for name in std::iter::once(name.to_vec()).chain(numbered) {
        match rename_to_free(from, &at, &name) {
            Ok(()) => return Ok((path_of(root, folders, &name), at)),
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let what = format!("{NUMBERS} files of that name are there");
    Err(io::Error::new(io::ErrorKind::AlreadyExists, what))
}

fn rename_to_free(from: &Path, at: &OwnedFd, name: &[u8]) -> Result<(), Errno> {
    match rustix::fs::renameat_with(CWD, from, at, name, RenameFlags::NOREPLACE) {
        // The file system cannot rename so; a second name has the same effect.
        Err(Errno::INVAL | Errno::NOSYS) => {
            rustix::fs::linkat(CWD, from, at, name, AtFlags::empty())?;
            rustix::fs::unlink(from)
        }
        done => done,
    }
}

/// Makes a folder that the manifest lists.
pub fn make(root: &Path, listed: &Listed) -> io::Result<()> {
    let at = folder(root, &listed.path, true)?;
    // One of an earlier transfer may have been made read-only; that comes again at the end.
    let _ = rustix::fs::fchmod(at, Mode::from_raw_mode(u32::from(listed.mode) | 0o700));
    Ok(())
}

/// Gives a folder the permissions and time that the manifest says: once everything is in it.
pub fn settle(root: &Path, listed: &Listed) -> io::Result<()> {
    let at = folder(root, &listed.path, false)?;
    set_times_and_mode(&at, listed.mode, listed.modified)
}

/// Gives an open file or folder its permissions and time.
pub fn set_times_and_mode(file: impl AsFd, mode: u16, modified: Modified) -> io::Result<()> {
    let time = Timespec {
        tv_sec: modified.seconds,
        tv_nsec: modified.nanoseconds.into(),
    };
    let times = Timestamps {
        last_access: time,
        last_modification: time,
    };
    rustix::fs::futimens(&file, &times)?;
    rustix::fs::fchmod(&file, Mode::from_raw_mode(mode.into()))?;
    Ok(())
}

/// Writes everything in the file system of a folder to its disk.
pub fn sync(root: &Path) -> io::Result<()> {
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
    let at = rustix::fs::open(root, flags, Mode::empty())?;
    Ok(rustix::fs::syncfs(at)?)
}

/// Makes the folders of a manifest; the first error, if there is one.
pub fn make_folders(root: &Path, manifest: &Manifest, entries: Range<usize>) -> io::Result<()> {
    folders(manifest, entries).try_for_each(|it| {
        make(root, &it).map_err(|error| {
            let path = root.join(it.name());
            io::Error::new(error.kind(), format!("{}: {error}", path.display()))
        })
    })
}

/// Gives the folders of a manifest their permissions and times, those inside others first. What cannot be set stays as
/// it is: the content is there.
pub fn settle_folders(root: &Path, manifest: &Manifest) {
    let mut all: Vec<Listed> = folders(manifest, 0..manifest.entries().len()).collect();
    all.reverse();
    for listed in &all {
        let _ = settle(root, listed);
    }
}

fn folders(manifest: &Manifest, entries: Range<usize>) -> impl Iterator<Item = Listed> + '_ {
    let all = (0..).zip(manifest.entries());
    let all = all.skip(entries.start).take(entries.len());
    let folders = all.filter(|(_, entry)| entry.kind == Kind::Folder);
    folders.filter_map(|(at, _)| Listed::of(manifest, at))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn root(name: &str) -> PathBuf {
        let own = format!("layercast-place-{name}-{}", std::process::id());
        let root = std::env::temp_dir().join(own);
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(root.join("out")).unwrap();
        root
    }

    fn path(names: &[&str]) -> Vec<Box<[u8]>> {
        names.iter().map(|it| it.as_bytes().into()).collect()
    }

    #[test]
    fn symbolic_links_lead_nowhere() {
        let root = root("links");
        let (out, from) = (root.join("out"), root.join("out/.part"));
        fs::create_dir(root.join("elsewhere")).unwrap();
        symlink(root.join("elsewhere"), out.join("link")).unwrap();
        fs::write(&from, "new").unwrap();
        for overwrite in [false, true] {
            let put = put(&out, &path(&["link", "a"]), &from, overwrite);
            let error = put.unwrap_err().to_string();
            assert!(error.contains("link is a symbolic link"), "{error}");
        }
        assert_eq!(fs::read_dir(root.join("elsewhere")).unwrap().count(), 0);
        fs::write(root.join("elsewhere/a"), "theirs").unwrap();
        assert!(existing(&out, &path(&["link", "a"]), 0).is_err());
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_name_in_use_is_not_taken_unless_allowed() {
        let root = root("use");
        let out = root.join("out");
        let wanted = path(&["d", "a.txt"]);
        for (content, overwrite, name) in [
            ("1", false, "a.txt"),
            ("2", false, "a~1.txt"),
            ("3", true, "a.txt"),
            ("4", false, "a~2.txt"),
        ] {
            let from = out.join(".part");
            fs::write(&from, content).unwrap();
            let (there, _) = put(&out, &wanted, &from, overwrite).unwrap();
            assert_eq!(there, out.join("d").join(name));
            assert_eq!(fs::read_to_string(there).unwrap(), content);
        }
        fs::remove_dir_all(root).unwrap();
    }
}
