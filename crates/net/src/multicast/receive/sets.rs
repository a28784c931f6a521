//! Which files the senders have announced, and which of them are over: each sender by itself.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use layercast_core::{Span, Time};

use crate::multicast::name::FileName;

/// Senders whose files are remembered.
const MOST: usize = 64;
/// Files of a sender that are remembered.
const MOST_FILES: usize = 1 << 16;
/// How long the next file of a sender is waited for when another sender is done: it may read a large file for its digest.
const PATIENCE: Span = Span::from_secs(60);

/// The files of the senders that were heard.
#[derive(Debug, Default)]
pub struct Sets {
    all: BTreeMap<SocketAddr, Set>,
}

/// The files of one sender.
#[derive(Debug)]
struct Set {
    count: u32,
    /// By its number, the digest of each file that was announced, and whether it is over.
    files: BTreeMap<u32, ([u8; 32], bool)>,
    heard: Time,
}

impl Set {
    /// Files follow each other: behind the last one none comes.
    fn is_over(&self) -> bool {
        self.files.get(&self.count).is_some_and(|it| it.1)
    }

    /// Files that did not come, as far as is known.
    fn missing(&self) -> u32 {
        // The list of files is none of them.
        let over = self.files.range(1..).filter(|it| it.1.1).count();
        self.count.saturating_sub(over as u32)
    }
}

impl Sets {
    /// A sender begins a file.
    pub fn began(&mut self, now: Time, sender: SocketAddr, name: &FileName, digest: [u8; 32]) {
        // The same files from another address: that sender has been started again, and continues from there.
        let same = |set: &Set| {
            let there = set.files.get(&name.index);
            set.count == name.count && there.is_some_and(|it| it.0 == digest)
        };
        let old: Vec<SocketAddr> = self
            .all
            .iter()
            .filter(|(at, _)| **at != sender)
            .filter(|(_, set)| same(set))
            .map(|(at, _)| *at)
            .collect();
        for old in old {
            self.all.remove(&old);
        }
        if self
            .all
            .get(&sender)
            .is_some_and(|set| set.count != name.count || set.is_over())
        {
            self.all.remove(&sender);
        }
        if self.all.len() >= MOST && !self.all.contains_key(&sender) {
            let oldest = self.all.iter().min_by_key(|(_, set)| set.heard);
            if let Some(oldest) = oldest.map(|(at, _)| *at) {
                self.all.remove(&oldest);
            }
        }
        let set = self.all.entry(sender).or_insert_with(|| Set {
            count: name.count,
            files: BTreeMap::new(),
            heard: now,
        });
        set.heard = now;
        if set.files.len() < MOST_FILES {
            set.files.insert(name.index, (digest, false));
        }
    }

    /// A file of a sender is over: here, or not to be had.
    pub fn ended(&mut self, now: Time, sender: SocketAddr, name: &FileName) {
        if let Some(set) = self.all.get_mut(&sender) {
            set.heard = now;
            if let Some(file) = set.files.get_mut(&name.index) {
                file.1 = true;
            }
        }
    }

    /// Whether a file of a sender is over.
    pub fn has_ended(&self, sender: SocketAddr, index: u32) -> bool {
        let set = self.all.get(&sender);
        set.and_then(|set| set.files.get(&index))
            .is_some_and(|it| it.1)
    }

    /// Whether all files of a sender are over.
    pub fn is_done(&self, sender: SocketAddr) -> bool {
        self.all.get(&sender).is_some_and(Set::is_over)
    }

    /// Whether the files of some sender are over, and none of another are waited for.
    pub fn is_over(&self, now: Time) -> bool {
        let mut all = self.all.values();
        all.clone().any(Set::is_over) && all.all(|set| set.is_over() || set.heard + PATIENCE <= now)
    }

    /// Files that were announced with others and did not come.
    pub fn missing(&self) -> u32 {
        let missing = self.all.values().map(Set::missing);
        missing.fold(0, u32::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    fn name(index: u32, count: u32) -> FileName {
        FileName::from_object(format!("{index}/{count}/x").as_bytes())
    }

    fn secs(secs: u64) -> Time {
        Time::ZERO + Span::from_secs(secs)
    }

    #[test]
    fn files_are_counted_for_each_sender() {
        let mut sets = Sets::default();
        sets.began(secs(0), at(1), &name(1, 2), [1; 32]);
        sets.began(secs(0), at(2), &name(1, 1), [9; 32]);
        sets.ended(secs(1), at(1), &name(1, 2));
        sets.ended(secs(1), at(2), &name(1, 1));
        assert!(
            !sets.is_over(secs(2)),
            "the second file of the first is to come"
        );
        assert!(sets.is_over(secs(62)), "but not forever");
        assert_eq!(sets.missing(), 1);
        sets.began(secs(3), at(1), &name(2, 2), [2; 32]);
        assert!(!sets.is_over(secs(4)));
        sets.ended(secs(5), at(1), &name(2, 2));
        assert!(sets.is_over(secs(5)));
        assert_eq!(sets.missing(), 0);
    }

    #[test]
    fn a_sender_that_is_started_again_takes_the_place_of_its_former_life() {
        let mut sets = Sets::default();
        sets.began(secs(0), at(1), &name(1, 2), [1; 32]);
        sets.ended(secs(1), at(1), &name(1, 2));
        for (index, digest) in [(1, [1; 32]), (2, [2; 32])] {
            sets.began(secs(9), at(2), &name(index, 2), digest);
            sets.ended(secs(9), at(2), &name(index, 2));
        }
        assert!(sets.is_over(secs(9)));
        assert_eq!(sets.missing(), 0);
    }

    #[test]
    fn who_comes_late_does_not_claim_the_first_file() {
        let mut sets = Sets::default();
        sets.began(secs(0), at(1), &name(2, 2), [1; 32]);
        sets.ended(secs(1), at(1), &name(2, 2));
        assert!(sets.is_over(secs(1)));
        assert_eq!(sets.missing(), 1);
    }

    #[test]
    fn strangers_fill_no_memory() {
        let mut sets = Sets::default();
        for port in 0..10_000 {
            sets.began(secs(0), at(port), &name(1, 2), [(port % 251) as u8; 32]);
        }
        assert!(sets.all.len() <= MOST);
    }
}
