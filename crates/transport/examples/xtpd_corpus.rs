//! Writes the seeds of the fuzz corpus for the daemon of XTP: what clients say, and each with one thing wrong.
//!
//! `cargo run -p layercast-transport --example xtpd_corpus -- fuzz/corpus`

use std::fs;
use std::io;
use std::path::PathBuf;

#[path = "../tests/xtp/remote/samples.rs"]
mod samples;

fn main() -> io::Result<()> {
    let Some(root) = std::env::args_os().nth(1).map(PathBuf::from) else {
        return Err(io::Error::other("usage: xtpd_corpus DIRECTORY"));
    };
    let folder = root.join("xtpd");
    fs::create_dir_all(&folder)?;
    for (name, bytes) in samples::conversations() {
        fs::write(folder.join(name), &bytes)?;
        fs::write(
            folder.join(format!("{name}-short")),
            &bytes[..bytes.len() - 1],
        )?;
        let mut wrong = bytes;
        let middle = wrong.len() / 2;
        wrong[middle] ^= 0x81;
        fs::write(folder.join(format!("{name}-wrong")), &wrong)?;
    }
    Ok(())
}
