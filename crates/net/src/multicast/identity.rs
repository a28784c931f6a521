use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::partial::{Access, open_in_folder};
use crate::random::random_number;

/// The file in the folder of received files that holds the identity of the receiver.
pub const IDENTITY_FILE: &str = ".layercast-receiver";

/// The identity of the receiver that uses a folder: a random number, made at the first use of the folder and kept in it.
/// Two receivers with one name are told apart by it.
///
/// # Errors
/// The file cannot be made or read, is a symbolic link, or holds something else.
pub fn receiver_identity(folder: &Path) -> io::Result<u64> {
    let path = folder.join(IDENTITY_FILE);
    let file = match open_in_folder(&path, Access::Read) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            make(folder, &path)?;
            open_in_folder(&path, Access::Read)?
        }
        opened => opened?,
    };
    let mut text = String::new();
    file.take(64).read_to_string(&mut text)?;
    u64::from_str_radix(text.trim(), 16).map_err(|_| {
        let what = format!(
            "{}: no identity of a receiver; delete the file to get a new one",
            path.display()
        );
        io::Error::new(io::ErrorKind::InvalidData, what)
    })
}

/// Makes the file; one that another process made meanwhile stays.
fn make(folder: &Path, path: &Path) -> io::Result<()> {
    let new = folder.join(format!("{IDENTITY_FILE}-{:016x}", random_number()));
    let mut file = open_in_folder(&new, Access::Create)?;
    writeln!(file, "{:016x}", random_number())?;
    rustix::fs::fchmod(file.as_fd(), rustix::fs::Mode::from_raw_mode(0o600))?;
    file.sync_all()?;
    match renameat_with(CWD, &new, CWD, path, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::EXIST) => fs::remove_file(&new),
        Err(error) => {
            let _ = fs::remove_file(&new);
            Err(error.into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_made_once_and_kept() {
        let folder =
            std::env::temp_dir().join(format!("layercast-identity-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        let first = receiver_identity(&folder).unwrap();
        assert_eq!(receiver_identity(&folder).unwrap(), first);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        let path = folder.join(IDENTITY_FILE);
        fs::remove_file(&path).unwrap();
        assert_ne!(receiver_identity(&folder).unwrap(), first);
        fs::write(&path, "nonsense").unwrap();
        assert!(receiver_identity(&folder).is_err());
        // Nobody leads the receiver to another file.
        fs::remove_file(&path).unwrap();
        let other = folder.join("other");
        fs::write(&other, "0000000000000001").unwrap();
        std::os::unix::fs::symlink(&other, &path).unwrap();
        assert!(receiver_identity(&folder).is_err());
        fs::remove_dir_all(&folder).unwrap();
    }
}
