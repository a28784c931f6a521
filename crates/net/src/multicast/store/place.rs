//! Where received files get their names: below the folder of the receiver, and nowhere else.
//!
//! Every folder on the way is opened relative to the one before, and none of them may be a symbolic link: a
//! process with write access to a folder cannot lead the receiver out of it, not even while it writes.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use layercast_wire::multicast::manifest::{Kind, Manifest, Modified};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags, Timespec, Timestamps};
use rustix::io::Errno;

use super::open::{named, open_folder, open_own, open_root};
use crate::multicast::name::{harmless_at_top, printable_names};
use crate::multicast::tree::with_number;

/// Numbers that are tried for a file whose name is in use.
const NUMBERS: u32 = 1_000;

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
    let mut at = open_root(root)?;
    for (depth, name) in (1..).zip(names) {
        at = open_folder(&at, name, make).map_err(|error| named(error, &names[..depth]))?;
    }
    Ok(at)
}

/// Checks that a path below `root` can be used as far as its folders are there: none of them is a symbolic link or a file.
pub fn check(root: &Path, path: &[Box<[u8]>]) -> io::Result<()> {
    let (_, folders) = split(path)?;
    match folder(root, folders, false) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        checked => checked.map(drop),
    }
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
    let (file, mode) = open_own(&at, name, flags)?;
    if let Some(mode) = mode {
        // It is open, and need not be readable for others.
        rustix::fs::fchmod(&file, mode)?;
    }
    let file = File::from(file);
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
    Ok(rustix::fs::syncfs(open_root(root)?)?)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::thread;

    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

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
        let error = check(&out, &path(&["link", "a"])).unwrap_err().to_string();
        assert!(error.contains("link is a symbolic link"), "{error}");
        check(&out, &path(&["new", "folder", "a"])).unwrap();
        assert!(!out.join("new").exists());
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

    /// Runs `what` without the right of root to read and search everything.
    fn unprivileged<T: Send>(what: impl FnOnce() -> T + Send) -> T {
        let run = || {
            let mut sets = capabilities(None).unwrap();
            let overrides = CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH;
            sets.effective.remove(overrides);
            // They are the thread's.
            set_capabilities(None, sets).unwrap();
            what()
        };
        thread::scope(|scope| scope.spawn(run).join().unwrap())
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn what_its_owner_may_not_read_is_found_and_keeps_its_permissions() {
        let root = root("unreadable");
        let out = root.join("out");
        fs::create_dir(out.join("d")).unwrap();
        let file = out.join("d/zero");
        fs::write(&file, "content").unwrap();
        set_mode(&file, 0);
        let wanted = path(&["d", "zero"]);
        unprivileged(|| {
            assert!(File::open(&file).is_err(), "it is denied");
            let (mut found, at) = existing(&out, &wanted, 0).unwrap();
            assert_eq!(at, file);
            assert_eq!(io::read_to_string(&mut found).unwrap(), "content");
            assert_eq!(mode(&file), 0);
            // The folder that it is in is opened, too, and stays open for its owner until the transfer is over.
            set_mode(&out.join("d"), 0o050);
            assert!(existing(&out, &wanted, 0).is_ok());
            assert_eq!(mode(&out.join("d")), 0o750);
            // A link is not followed, not even to be made readable.
            set_mode(&file, 0o040);
            symlink(&file, out.join("d/link")).unwrap();
            assert!(existing(&out, &path(&["d", "link"]), 0).is_err());
            assert_eq!(mode(&file), 0o040);
        });
        fs::remove_dir_all(root).unwrap();
    }
}
