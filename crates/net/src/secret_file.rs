//! Files with secrets: written whole or not at all, for their owner only.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, OFlags, RenameFlags, linkat, renameat_with};
use rustix::io::Errno;

use crate::random::random_number;

/// Most octets of a file with a secret.
pub const MAX_SECRET_FILE: u64 = 1 << 20;
/// Read and written by the owner only.
const OWNER_ONLY: u32 = 0o600;
/// Age of a temporary file that no process writes any more.
const LEFT_AFTER: Duration = Duration::from_secs(60);
/// Permissions of group and others.
const OTHERS: u32 = 0o077;

/// A file with a secret that was read.
#[derive(Debug)]
pub struct SecretFile {
    /// What is in it.
    pub octets: Vec<u8>,
    /// Its permissions, if others than its owner have some.
    pub exposed: Option<u32>,
}

/// Reads the file `path`, which holds a secret. Symbolic links are followed: secrets are mounted as such.
///
/// # Errors
/// It cannot be read, is no regular file, or has more than [`MAX_SECRET_FILE`] octets.
pub fn read_secret(path: &Path) -> io::Result<SecretFile> {
    // Without waiting for the writer of a pipe.
    let nonblock = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(nonblock)
        .open(path)?;
    let metadata = file.metadata()?;
    let invalid = |what| io::Error::new(io::ErrorKind::InvalidData, what);
    if !metadata.is_file() {
        return Err(invalid("it is not a regular file"));
    }
    let mut octets = Vec::new();
    file.take(MAX_SECRET_FILE + 1).read_to_end(&mut octets)?;
    if octets.len() as u64 > MAX_SECRET_FILE {
        return Err(invalid("it is larger than 1 MiB"));
    }
    let mode = metadata.mode() & 0o777;
    Ok(SecretFile {
        octets,
        exposed: (mode & OTHERS != 0).then_some(mode),
    })
}

/// Writes `octets` to the new file `path`, readable by its owner only. A reader sees the whole file or none, also
/// after a crash or on a full disk: the content goes to a file without a name, which gets it when the disk has all
/// of it. Where the file system knows no such files it is a temporary file beside it; one that a crash left is
/// removed by a later call, once it is older than a minute.
///
/// # Errors
/// [`io::ErrorKind::AlreadyExists`] if there is such a file, which is left as it is; or the system refuses it,
/// and nothing is left behind.
pub fn create_secret(path: &Path, octets: &[u8]) -> io::Result<()> {
    create_with(path, |file| file.write_all(octets))
}

fn create_with(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    remove_left(folder, path);
    match unnamed(folder) {
        Some(mut file) => {
            write(&mut file)?;
            file.sync_all()?;
            name(&file, path)?;
        }
        None => create_beside(folder, path, write)?,
    }
    // Best effort: not every file system syncs directories.
    let _ = File::open(folder).and_then(|folder| folder.sync_all());
    Ok(())
}

/// A file without a name, which is gone with the process unless it gets one; `None`: the system cannot name it later.
fn unnamed(folder: &Path) -> Option<File> {
    let file = OpenOptions::new()
        .write(true)
        .mode(OWNER_ONLY)
        .custom_flags(OFlags::TMPFILE.bits().cast_signed())
        .open(folder)
        .ok()?;
    // Without /proc it has no path to be linked from.
    open_path(&file).exists().then_some(file)
}

fn open_path(file: &File) -> PathBuf {
    Path::new("/proc/self/fd").join(file.as_raw_fd().to_string())
}

/// Gives a file without a name its name, unless there is one of that name.
fn name(file: &File, path: &Path) -> io::Result<()> {
    let flags = AtFlags::SYMLINK_FOLLOW;
    Ok(linkat(CWD, open_path(file), CWD, path, flags)?)
}

/// Writes a temporary file beside `path` and renames it.
fn create_beside(
    folder: &Path,
    path: &Path,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    let temporary = temporary(folder, path)?;
    // An unguessable name, which must be new and no link.
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(OWNER_ONLY)
        .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
        .open(&temporary)?;
    let written = write(&mut file)
        .and_then(|()| file.sync_all())
        .and_then(|()| rename_new(&temporary, path));
    if written.is_err() {
        // It is not there any more if the system says so.
        let _ = fs::remove_file(&temporary);
    }
    written
}

/// Removes temporary files of `path` whose process was killed. A young one may be written at this moment.
fn remove_left(folder: &Path, path: &Path) {
    let (Some(file), Ok(entries)) = (path.file_name(), fs::read_dir(folder)) else {
        return;
    };
    let file = file.to_string_lossy();
    for entry in entries.flatten() {
        let is_ours = is_temporary(&entry.file_name().to_string_lossy(), &file);
        // Of a link it is the link that is looked at.
        let metadata = entry.metadata().ok().filter(|it| is_ours && it.is_file());
        let age = metadata.and_then(|it| it.modified().ok()?.elapsed().ok());
        if age.is_some_and(|age| age > LEFT_AFTER) {
            // Best effort: it disturbs nothing.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Whether `found` is the name of a temporary file of `file`.
fn is_temporary(found: &str, file: &str) -> bool {
    let rest = found.strip_prefix('.').and_then(|it| it.strip_prefix(file));
    let number = rest.and_then(|it| it.strip_prefix('.')?.strip_suffix(".new"));
    number.is_some_and(|it| it.len() == 16 && it.bytes().all(|it| it.is_ascii_hexdigit()))
}

/// Gives a file its name, unless there is one of that name.
fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // File systems without it: a hard link does not replace anything either.
        Err(Errno::INVAL | Errno::NOSYS) => {
            fs::hard_link(from, to)?;
            fs::remove_file(from)
        }
        renamed => Ok(renamed?),
    }
}

fn temporary(folder: &Path, path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name();
    let name = name.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "no file name"))?;
    let name = format!(".{}.{:016x}.new", name.to_string_lossy(), random_number());
    Ok(folder.join(name))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::time::SystemTime;

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let name = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string();
        entries.map(|entry| name(entry).unwrap()).collect()
    }

    #[test]
    fn a_secret_is_for_its_owner_and_replaces_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        create_secret(&path, b"one").unwrap();
        let read = read_secret(&path).unwrap();
        assert_eq!((&read.octets[..], read.exposed), (&b"one"[..], None));
        let again = create_secret(&path, b"two").unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(read_secret(&path).unwrap().octets, b"one");
        assert_eq!(names(folder.path()), ["key"]);
    }

    #[test]
    fn a_full_disk_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let fill = |file: &mut File| {
            file.write_all(b"half of")?;
            Err(io::ErrorKind::StorageFull.into())
        };
        for full in [
            create_with(&path, fill),
            create_beside(folder.path(), &path, fill),
        ] {
            assert_eq!(full.unwrap_err().kind(), io::ErrorKind::StorageFull);
            assert!(names(folder.path()).is_empty());
        }
    }

    #[test]
    fn what_is_half_written_has_no_name() {
        let folder = tempfile::tempdir().unwrap();
        if unnamed(folder.path()).is_none() {
            println!("left out: the file system has no files without a name");
            return;
        }
        let path = folder.path().join("key");
        create_with(&path, |file| {
            file.write_all(b"half of")?;
            // What a process that is killed here leaves.
            assert!(names(folder.path()).is_empty());
            Ok(())
        })
        .unwrap();
        assert_eq!(names(folder.path()), ["key"]);
    }

    #[test]
    fn what_a_killed_process_left_is_removed_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let old = SystemTime::now() - 2 * LEFT_AFTER;
        let make = |name: &str, at| {
            let file = File::create(folder.path().join(name)).unwrap();
            file.set_modified(at).unwrap();
        };
        make("..id.0123456789abcdef.new", old);
        make("..id.fedcba9876543210.new", SystemTime::now());
        make("..id.short.new", old);
        make("..other.0123456789abcdef.new", old);
        create_secret(&folder.path().join(".id"), b"one").unwrap();
        let mut left = names(folder.path());
        left.sort();
        let others = ["..id.short.new", "..other.0123456789abcdef.new", ".id"];
        assert_eq!(left, [&["..id.fedcba9876543210.new"], &others[..]].concat());
    }

    #[test]
    fn without_files_without_a_name_it_is_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        create_beside(folder.path(), &path, |file| file.write_all(b"one")).unwrap();
        let again = create_beside(folder.path(), &path, |file| file.write_all(b"two"));
        assert_eq!(again.unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        let read = read_secret(&path).unwrap();
        assert_eq!((&read.octets[..], read.exposed), (&b"one"[..], None));
        assert_eq!(names(folder.path()), ["key"]);
    }

    #[test]
    fn a_link_in_the_way_is_not_written_through() {
        let folder = tempfile::tempdir().unwrap();
        let (path, target) = (folder.path().join("key"), folder.path().join("target"));
        symlink(&target, &path).unwrap();
        let error = create_secret(&path, b"secret").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(names(folder.path()), ["key"]);
    }

    #[test]
    fn what_is_exposed_or_no_file_is_told() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        create_secret(&path, b"one").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert_eq!(read_secret(&path).unwrap().exposed, Some(0o640));
        assert!(read_secret(folder.path()).is_err());
        let large = folder.path().join("large");
        File::create(&large)
            .unwrap()
            .set_len(MAX_SECRET_FILE + 1)
            .unwrap();
        assert_eq!(
            read_secret(&large).unwrap_err().kind(),
            io::ErrorKind::InvalidData
        );
    }
}
