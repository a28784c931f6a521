//! Writes seeds of the corpus: what a peer says, and the same with one thing wrong; examples of several crates include
//! this file by its path.

use std::fs;
use std::io;
use std::path::PathBuf;

/// Writes each seed of a target below the folder that is the first argument of the program: whole, without its last octet, and
/// with an octet in its middle changed.
///
/// # Errors
/// There is no such argument, or files cannot be written.
pub fn write<N: std::fmt::Display>(
    target: &str,
    seeds: impl IntoIterator<Item = (N, Vec<u8>)>,
) -> io::Result<()> {
    let Some(root) = std::env::args_os().nth(1).map(PathBuf::from) else {
        return Err(io::Error::other("the argument is the folder of the corpus"));
    };
    let folder = root.join(target);
    fs::create_dir_all(&folder)?;
    for (name, mut bytes) in seeds {
        fs::write(folder.join(name.to_string()), &bytes)?;
        fs::write(
            folder.join(format!("{name}-short")),
            &bytes[..bytes.len() - 1],
        )?;
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0x81;
        fs::write(folder.join(format!("{name}-wrong")), &bytes)?;
    }
    Ok(())
}
