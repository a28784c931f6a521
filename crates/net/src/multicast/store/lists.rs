//! Lists of files that a receiver keeps on its disk while files of them are to come: a receiver that is killed and started
//! again is not sent the list once more before the last file.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use layercast_wire::multicast::manifest::{MAX_MANIFEST, Manifest};
use rustix::fs::{AtFlags, Mode, OFlags};

use super::open::open_root;

/// Lists that are kept in a folder: those of senders that were killed are of no use any more.
const MOST: usize = 16;
const PREFIX: &str = ".layercast-list-";

/// The name of a list: senders cannot name a file so, since it begins with a dot.
fn name_of(batch: u64) -> String {
    format!("{PREFIX}{batch:016x}")
}

/// Removes the oldest lists, so that there is room for that of a transfer.
fn make_room(root: &Path, batch: u64) -> io::Result<()> {
    let mut lists = Vec::new();
    for entry in std::fs::read_dir(root)? {
        let entry = entry?;
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        let number = number.and_then(|number| u64::from_str_radix(number, 16).ok());
        // The list of this transfer is written again in its place.
        if let Some(other) = number.filter(|&number| number != batch) {
            // Of the entry itself, and not of what a link names.
            lists.push((entry.metadata()?.modified()?, other));
        }
    }
    lists.sort_unstable();
    for (_, batch) in lists.iter().rev().skip(MOST - 1) {
        forget(root, *batch);
    }
    Ok(())
}

/// Keeps a list in the folder of received files.
///
/// # Errors
/// It cannot be written.
pub fn keep(root: &Path, list: &Manifest) -> io::Result<()> {
    make_room(root, list.batch())?;
    let flags =
        OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR;
    let file = rustix::fs::openat(open_root(root)?, name_of(list.batch()), flags, mode)?;
    File::from(file).write_all(&list.encode())
}

/// The list that was kept of a transfer. One that was not written to its end is none.
pub fn kept(root: &Path, batch: u64) -> Option<Manifest> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::openat(open_root(root).ok()?, name_of(batch), flags, Mode::empty());
    let file = File::from(file.ok()?);
    let mut octets = Vec::new();
    file.take(MAX_MANIFEST as u64)
        .read_to_end(&mut octets)
        .ok()?;
    let list = Manifest::decode(&octets).ok()?;
    (list.batch() == batch).then_some(list)
}

/// Removes the list of a transfer, if one was kept.
pub fn forget(root: &Path, batch: u64) {
    if let Ok(at) = open_root(root) {
        let _ = rustix::fs::unlinkat(at, name_of(batch), AtFlags::empty());
    }
}

#[cfg(test)]
mod tests {
    use layercast_wire::multicast::manifest::ManifestBuilder;

    use super::*;

    #[test]
    fn a_list_is_kept_until_it_is_forgotten_and_a_torn_one_is_none() {
        let root = std::env::temp_dir().join(format!("layercast-lists-{}", std::process::id()));
        std::fs::create_dir_all(&root).unwrap();
        let list = ManifestBuilder::new(7).build();
        keep(&root, &list).unwrap();
        assert_eq!(kept(&root, 7).map(|it| it.encode()), Some(list.encode()));
        assert!(kept(&root, 8).is_none());
        std::fs::copy(root.join(name_of(7)), root.join(name_of(8))).unwrap();
        assert!(kept(&root, 8).is_none(), "it is that of another transfer");
        let octets = list.encode();
        std::fs::write(root.join(name_of(7)), &octets[..octets.len() - 1]).unwrap();
        assert!(kept(&root, 7).is_none());
        forget(&root, 7);
        forget(&root, 8);
        std::fs::write(root.join("film.ts"), "not a list").unwrap();
        for batch in 100..140 {
            keep(&root, &ManifestBuilder::new(batch).build()).unwrap();
        }
        let left = std::fs::read_dir(&root).unwrap().count();
        assert_eq!(left, MOST + 1, "the newest, and what is no list");
        assert!(kept(&root, 139).is_some() && root.join("film.ts").exists());
        keep(&root, &ManifestBuilder::new(139).build()).unwrap();
        let again = std::fs::read_dir(&root).unwrap().count();
        assert_eq!(again, MOST + 1, "one that is written again takes no place");
        std::fs::remove_dir_all(&root).unwrap();
    }
}
