//! Secrets that a user gives in a file or in the environment rather than as an argument, which every user of the
//! host sees in the list of processes.

use std::env;
use std::path::Path;

use layercast_net::{SecretFile, read_secret};

use crate::failure::Failure;

/// The octets of a file with a secret; warns if others than its owner can read it.
///
/// # Errors
/// It cannot be read, or is empty.
pub fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let SecretFile { octets, exposed } =
        read_secret(path).map_err(|error| Failure::file(path, "read", &error))?;
    if octets.is_empty() {
        let failure = Failure::of(path, "the file is empty");
        return Err(failure.hint("write the secret into it, for its owner only (chmod 600)"));
    }
    if let Some(mode) = exposed {
        let path = path.display();
        eprintln!(
            "warning: the secret in {path} can be read by others (mode {mode:04o}): chmod 600 {path}"
        );
    }
    Ok(octets)
}

/// A secret text: of `file` if there is one, else of the environment variable `variable`, if that is set and not
/// empty. Space around it does not count.
///
/// # Errors
/// The file cannot be read, or what there is is no text.
pub fn text(file: Option<&Path>, variable: &str) -> Result<Option<String>, Failure> {
    let text = match (file, env::var_os(variable)) {
        (Some(path), _) => String::from_utf8(read(path)?)
            .map_err(|_| Failure::of(path, "the secret is not text (UTF-8)"))?,
        (None, Some(value)) => value
            .into_string()
            .map_err(|_| Failure::new(format!("{variable} is not text (UTF-8)")))?,
        (None, None) => return Ok(None),
    };
    let text = text.trim();
    match (text.is_empty(), file) {
        (false, _) => Ok(Some(text.to_owned())),
        (true, Some(path)) => Err(Failure::of(path, "there is nothing but space in the file")),
        (true, None) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const UNSET: &str = "LAYERCAST_TEST_THAT_IS_NEVER_SET";

    #[test]
    fn a_secret_in_a_file_is_trimmed_and_must_be_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        assert_eq!(text(None, UNSET).unwrap(), None);
        assert!(text(Some(&path), UNSET).is_err());
        fs::write(&path, "  abc\n").unwrap();
        assert_eq!(text(Some(&path), UNSET).unwrap().as_deref(), Some("abc"));
        for (bad, why) in [("", "is empty"), (" \n", "nothing but space")] {
            fs::write(&path, bad).unwrap();
            let error = text(Some(&path), UNSET).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
        fs::write(&path, [0xFF, 0xFE]).unwrap();
        assert!(text(Some(&path), UNSET).is_err());
    }
}
