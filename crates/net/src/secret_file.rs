//! Files with secrets: written whole or not at all, for their owner only.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, OFlags, RenameFlags, renameat_with};
use rustix::io::Errno;

use crate::random::random_number;

/// Most octets of a file with a secret.
pub const MAX_SECRET_FILE: u64 = 1 << 20;
/// Read and written by the owner only.
const OWNER_ONLY: u32 = 0o600;
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
/// after a crash or on a full disk: the content goes to a temporary file beside it, which is renamed when the
/// disk has it.
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
        return written;
    }
    // Best effort: not every file system syncs directories.
    let _ = File::open(folder).and_then(|folder| folder.sync_all());
    Ok(())
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
        let full = create_with(&path, |file| {
            file.write_all(b"half of")?;
            Err(io::ErrorKind::StorageFull.into())
        });
        assert_eq!(full.unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert!(names(folder.path()).is_empty());
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
