//! The folders of a manifest: made before its files, and given their permissions and times behind them.

use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::path::Path;

use layercast_wire::multicast::manifest::{Kind, Manifest};
use rustix::fs::Mode;

use super::open::{named, open_folder, open_root};
use super::place::{Listed, set_times_and_mode};
use crate::multicast::name::harmless_at_top;

/// A walk through the folders of a manifest. The folders on the way to the last one stay open, at most
/// [`MAX_DEPTH`](layercast_wire::multicast::manifest::MAX_DEPTH): each is opened once if those inside a folder follow it.
struct Walk<'a> {
    manifest: &'a Manifest,
    root: OwnedFd,
    /// Positions in the manifest, each in the folder before.
    open: Vec<(u32, OwnedFd)>,
    /// Folders that were opened.
    #[cfg(test)]
    opened: usize,
}

impl Walk<'_> {
    fn new<'a>(root: &Path, manifest: &'a Manifest) -> io::Result<Walk<'a>> {
        Ok(Walk {
            manifest,
            root: open_root(root)?,
            open: Vec::new(),
            #[cfg(test)]
            opened: 0,
        })
    }

    /// Opens the folder at a position in the manifest; makes what is missing, or fails.
    fn to(&mut self, at: u32, make: bool) -> io::Result<&OwnedFd> {
        let mut way = Vec::new();
        let mut next = Some(at);
        while let Some(at) = next {
            // Folders come before what is in them: what is behind this one does not lead to it.
            let not_behind = self.open.partition_point(|(open, _)| *open <= at);
            self.open.truncate(not_behind);
            if self.open.last().is_some_and(|(open, _)| *open == at) {
                break;
            }
            way.push(at);
            next = self.manifest.entries()[at as usize].parent;
        }
        if next.is_none() {
            self.open.clear();
        }
        while let Some(at) = way.pop() {
            let entry = &self.manifest.entries()[at as usize];
            let above = self.open.last().map_or(&self.root, |(_, above)| above);
            let opened = match entry.parent {
                None => open_folder(above, &harmless_at_top(&entry.name), make),
                Some(_) => open_folder(above, &entry.name, make),
            };
            let opened = opened.map_err(|error| named(error, &self.manifest.path(at)))?;
            self.open.push((at, opened));
            #[cfg(test)]
            {
                self.opened += 1;
            }
        }
        Ok(self.open.last().map_or(&self.root, |(_, opened)| opened))
    }

    /// Makes folders; where one cannot be made, and why.
    fn make(&mut self, entries: Range<u32>) -> Result<(), (u32, io::Error)> {
        for at in folders(self.manifest, entries) {
            let mode = self.manifest.entries()[at as usize].mode;
            let folder = self.to(at, true).map_err(|error| (at, error))?;
            // One of an earlier transfer may have been made read-only; that comes again at the end.
            let _ = rustix::fs::fchmod(folder, Mode::from_raw_mode(u32::from(mode) | 0o700));
        }
        Ok(())
    }

    /// Gives all folders their permissions and times, those inside others first.
    fn settle(&mut self) {
        let all = 0..self.manifest.entries().len() as u32;
        for at in folders(self.manifest, all).rev() {
            let entry = &self.manifest.entries()[at as usize];
            let (mode, modified) = (entry.mode, entry.modified);
            if let Ok(folder) = self.to(at, false) {
                let _ = set_times_and_mode(folder, mode, modified);
            }
        }
    }
}

/// Positions of the folders among some entries of a manifest.
fn folders(
    manifest: &Manifest,
    entries: Range<u32>,
) -> impl DoubleEndedIterator<Item = u32> + use<'_> {
    let end = entries.end.min(manifest.entries().len() as u32);
    let is_folder = |at: &u32| manifest.entries()[*at as usize].kind == Kind::Folder;
    (entries.start..end).filter(is_folder)
}

/// Makes the folders of a manifest; the first error, if there is one.
pub fn make_folders(root: &Path, manifest: &Manifest, entries: Range<u32>) -> io::Result<()> {
    let made = Walk::new(root, manifest)?.make(entries);
    made.map_err(|(at, error)| {
        let path = Listed::of(manifest, at).map_or_else(String::new, |it| it.name());
        let path = root.join(path);
        io::Error::new(error.kind(), format!("{}: {error}", path.display()))
    })
}

/// Gives the folders of a manifest their permissions and times, those inside others first. What cannot be set stays as
/// it is: the content is there.
pub fn settle_folders(root: &Path, manifest: &Manifest) {
    if let Ok(mut walk) = Walk::new(root, manifest) {
        walk.settle();
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use layercast_wire::multicast::manifest::{Entry, ManifestBuilder, Modified};

    use super::*;

    const TIME: Modified = Modified {
        seconds: 1_000_000_000,
        nanoseconds: 0,
    };

    fn push(list: &mut ManifestBuilder, parent: Option<u32>, name: &str, mode: u16) -> u32 {
        let entry = Entry {
            parent,
            name: name.as_bytes().into(),
            kind: Kind::Folder,
            mode,
            modified: TIME,
        };
        list.push(entry).unwrap()
    }

    /// Opening each path from the root would take 60 times as long.
    #[test]
    fn each_folder_of_a_deep_tree_is_opened_once() {
        let own = format!("layercast-walk-{}", std::process::id());
        let root = std::env::temp_dir().join(own);
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(&root).unwrap();
        let mut list = ManifestBuilder::new(1);
        let mut last = None;
        for _ in 0..30 {
            last = Some(push(&mut list, last, "d", 0o700));
        }
        let middle = last;
        for branch in 0..10 {
            let name = format!("b{branch}");
            let mut at = push(&mut list, middle, &name, 0o700);
            for _ in 0..28 {
                at = push(&mut list, Some(at), "d", 0o500);
            }
            for leaf in 0..20 {
                push(&mut list, Some(at), &format!("l{leaf}"), 0o750);
            }
        }
        push(&mut list, None, ".top", 0o700);
        let manifest = list.build();
        let all = manifest.entries().len();
        let mut walk = Walk::new(&root, &manifest).unwrap();
        walk.make(0..all as u32).unwrap();
        assert_eq!(walk.opened, all);
        let mut walk = Walk::new(&root, &manifest).unwrap();
        walk.settle();
        assert_eq!(walk.opened, all);
        let deep = root.join(vec!["d"; 30].join("/"));
        let leaf = deep.join("b9").join(vec!["d"; 28].join("/")).join("l19");
        let about = fs::metadata(&leaf).unwrap();
        assert_eq!(about.permissions().mode() & 0o777, 0o750);
        assert_eq!(crate::multicast::tree::modified(&about), TIME);
        assert!(root.join("_top").is_dir(), "it is not hidden");
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_named() {
        let own = format!("layercast-walk-file-{}", std::process::id());
        let root = std::env::temp_dir().join(own);
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(&root).unwrap();
        fs::write(root.join("a"), "a file").unwrap();
        let mut list = ManifestBuilder::new(1);
        let a = push(&mut list, None, "a", 0o700);
        push(&mut list, Some(a), "b", 0o700);
        let manifest = list.build();
        let error = make_folders(&root, &manifest, 0..256).unwrap_err();
        let said = error.to_string();
        assert!(said.contains("a is a symbolic link or a file"), "{said}");
        assert!(said.contains(&*root.to_string_lossy()), "{said}");
        fs::remove_dir_all(&root).unwrap();
    }
}
