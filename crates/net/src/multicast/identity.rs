use std::io::{self, Read};
use std::path::Path;

use rustix::io::Errno;

use super::partial::{Access, open_in_folder};
use crate::random::random_number;
use crate::secret_file::create_secret;

/// The file in the folder of received files that holds the identity of the receiver.
pub const IDENTITY_FILE: &str = ".layercast-receiver";

/// The identity of the receiver that uses a folder: a random number, made at the first use of the folder and kept in it.
/// Two receivers with one name are distinguished by it.
///
/// # Errors
/// The file cannot be made or read, is a symbolic link, or holds something else.
pub fn receiver_identity(folder: &Path) -> io::Result<u64> {
    let path = folder.join(IDENTITY_FILE);
    let file = match open_in_folder(&path, Access::Read) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            make(&path)?;
            open_in_folder(&path, Access::Read)?
        }
        Err(error) if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => {
            return Err(unusable(&error));
        }
        opened => opened?,
    };
    let mut octets = Vec::new();
    file.take(64).read_to_end(&mut octets)?;
    let text = std::str::from_utf8(&octets).ok();
    let number = text.and_then(|text| u64::from_str_radix(text.trim(), 16).ok());
    number.ok_or_else(|| {
        let what = "no identity of a receiver";
        unusable(&io::Error::new(io::ErrorKind::InvalidData, what))
    })
}

/// The file is none of ours because of `error`.
fn unusable(error: &io::Error) -> io::Error {
    let what = format!("{error}; delete it to get a new identity");
    io::Error::new(error.kind(), what)
}

/// Makes the file; one that another process made meanwhile stays. On an error, such as a full disk, nothing is left.
fn make(path: &Path) -> io::Result<()> {
    match create_secret(path, format!("{:016x}\n", random_number()).as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

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
        let refused = |why: &str| {
            let said = receiver_identity(&folder).unwrap_err().to_string();
            assert!(said.contains("delete it"), "{said}");
            assert!(said.contains(why), "{said}");
        };
        for nonsense in [&b"nonsense"[..], &[0xff, 0xfe]] {
            fs::write(&path, nonsense).unwrap();
            refused("no identity");
        }
        // A link cannot lead the receiver to another file.
        fs::remove_file(&path).unwrap();
        let other = folder.join("other");
        fs::write(&other, "0000000000000001").unwrap();
        std::os::unix::fs::symlink(&other, &path).unwrap();
        refused("symbolic links");
        fs::remove_dir_all(&folder).unwrap();
    }
}
