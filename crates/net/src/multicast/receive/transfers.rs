//! The manifests of transfers that are received.

use std::collections::{BTreeSet, VecDeque};
use std::path::Path;

use layercast_wire::multicast::manifest::{Kind, Manifest, Withdrawal};

use crate::multicast::name::FileName;
use crate::multicast::store::{Listed, lists};

/// Manifests that are kept; the one that came first goes first.
const MOST: usize = 4;

/// What senders have said that they are going to send.
#[derive(Debug, Default)]
pub struct Transfers {
    all: VecDeque<Transfer>,
}

/// One call of a sender.
#[derive(Debug)]
pub struct Transfer {
    /// What it sends.
    pub manifest: Manifest,
    /// Positions of the files in the manifest.
    files: Vec<u32>,
    /// Octets of files that are over.
    over: u64,
}

impl Transfer {
    /// What the manifest says of a file, by its number.
    fn listed(&self, index: u32) -> Option<Listed> {
        let at = self.files.get(index.checked_sub(1)? as usize)?;
        Listed::of(&self.manifest, *at)
    }

    /// How many files it lists.
    pub fn count(&self) -> u32 {
        self.files.len() as u32
    }

    /// Files that the sender sends, by their numbers.
    pub fn sent(&self) -> impl Iterator<Item = (u32, Listed)> + '_ {
        let numbered = (1..).zip(&self.files);
        numbered.filter_map(
            |(index, &at)| match self.manifest.entries()[at as usize].kind {
                Kind::File { .. } => Some((index, Listed::of(&self.manifest, at)?)),
                _ => None,
            },
        )
    }

    /// Files that are sent here and are not listed in a `newer` transfer that lists others of the same paths; `None` if it lists none of
    /// them, and so is another transfer.
    pub fn gone_in(&self, newer: &Transfer) -> Option<Vec<(u32, Listed)>> {
        let listed = newer.files.iter();
        let listed = listed.filter_map(|&at| Some(Listed::of(&newer.manifest, at)?.path));
        let listed: BTreeSet<_> = listed.collect();
        let all = self.sent();
        let (there, gone): (Vec<_>, Vec<_>) = all.partition(|(_, it)| listed.contains(&it.path));
        (!there.is_empty()).then_some(gone)
    }

    /// Files that the sender does not send after all, by their numbers.
    pub fn withdrawn(&self) -> impl Iterator<Item = (u32, Listed, u64, Withdrawal)> + '_ {
        let numbered = (1..).zip(&self.files);
        numbered.filter_map(|(index, &at)| {
            let Kind::Withdrawn { size, cause } = self.manifest.entries()[at as usize].kind else {
                return None;
            };
            Some((index, Listed::of(&self.manifest, at)?, size, cause))
        })
    }
}

impl Transfers {
    /// A manifest came; it takes the place of an earlier one of the same transfer. The folder `root` keeps it for another
    /// life of the receiver.
    pub fn put(&mut self, root: &Path, manifest: Manifest) -> &Transfer {
        // Another life of a receiver of one file has its announcement.
        if manifest.files().nth(1).is_some() {
            // What cannot be kept is missing after a crash only.
            let _ = lists::keep(root, &manifest);
        }
        self.take(root, manifest)
    }

    /// Takes the manifest of a transfer that an earlier life of the receiver kept in `root`, if none has come in this one.
    pub fn find(&mut self, root: &Path, batch: u64) -> Option<&Transfer> {
        if self.get(batch).is_some() {
            return None;
        }
        let manifest = lists::kept(root, batch)?;
        Some(self.take(root, manifest))
    }

    /// All files of the transfers are over: what was kept of them in `root` goes.
    pub fn forget(&self, root: &Path) {
        for transfer in &self.all {
            lists::forget(root, transfer.manifest.batch());
        }
    }

    fn take(&mut self, root: &Path, manifest: Manifest) -> &Transfer {
        let batch = manifest.batch();
        let old = self.all.iter().position(|it| it.manifest.batch() == batch);
        let over = old
            .and_then(|at| self.all.remove(at))
            .map_or(0, |it| it.over);
        if self.all.len() >= MOST
            && let Some(oldest) = self.all.pop_front()
        {
            lists::forget(root, oldest.manifest.batch());
        }
        let files = manifest.files().map(|(at, _)| at).collect();
        self.all.push_back(Transfer {
            manifest,
            files,
            over,
        });
        &self.all[self.all.len() - 1]
    }

    /// The transfer with this number.
    pub fn get(&self, batch: u64) -> Option<&Transfer> {
        self.all.iter().find(|it| it.manifest.batch() == batch)
    }

    /// What the manifest says of a file.
    pub fn listed(&self, name: &FileName) -> Option<Listed> {
        self.get(name.batch)?.listed(name.index)
    }

    /// A file of `octets` octets is over.
    pub fn ended(&mut self, batch: u64, octets: u64) {
        let transfer = self.all.iter_mut().find(|it| it.manifest.batch() == batch);
        if let Some(transfer) = transfer {
            transfer.over = transfer.over.saturating_add(octets);
        }
    }

    /// Octets of a transfer that are there, `more` of a file that is not over among them, and all.
    pub fn progress(&self, batch: u64, more: u64) -> Option<(u64, u64)> {
        let transfer = self.get(batch)?;
        let all = transfer.manifest.octets();
        Some((transfer.over.saturating_add(more).min(all), all))
    }
}
