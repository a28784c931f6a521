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
pub const PATIENCE: Span = Span::from_secs(60);

/// The files of the senders that were heard.
#[derive(Debug, Default)]
pub struct Sets {
    all: BTreeMap<SocketAddr, Set>,
}

/// The files of one sender.
#[derive(Debug)]
struct Set {
    count: u32,
    /// The number of the transfer.
    batch: u64,
    /// Files that are here since an earlier life of this receiver.
    before: u32,
    /// By its number, the digest of each file that was announced, and whether it is over.
    files: BTreeMap<u32, ([u8; 32], bool)>,
    heard: Time,
    /// It has sent data. Anybody can announce something.
    has_sent: bool,
}

impl Set {
    /// Files follow each other: behind the last one none comes.
    fn is_over(&self) -> bool {
        self.files.get(&self.count).is_some_and(|it| it.1)
    }

    /// Whether its sender announced something and did no more.
    fn is_mere_announcement(&self) -> bool {
        !self.has_sent && !self.is_over()
    }

    /// Files that did not come, as far as is known.
    fn missing(&self) -> u32 {
        // The list of files is none of them.
        let over = self.files.range(1..).filter(|it| it.1.1).count();
        self.count
            .saturating_sub(over as u32)
            .saturating_sub(self.before)
    }
}

impl Sets {
    /// A sender begins a file.
    pub fn began(&mut self, now: Time, sender: SocketAddr, name: &FileName, digest: [u8; 32]) {
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
            batch: name.batch,
            before: 0,
            files: BTreeMap::new(),
            heard: now,
            has_sent: false,
        });
        set.heard = now;
        if set.files.len() < MOST_FILES {
            set.files.insert(name.index, (digest, false));
        }
        self.replace_former(sender);
    }

    /// Data of a sender came.
    pub fn has_sent(&mut self, sender: SocketAddr) {
        if let Some(set) = self.all.get_mut(&sender).filter(|set| !set.has_sent) {
            set.has_sent = true;
            self.replace_former(sender);
        }
    }

    /// The newest file of a sender was announced from another address before: that sender has been started again, and
    /// continues from there. What only announces takes no place.
    fn replace_former(&mut self, sender: SocketAddr) {
        let Some(set) = self.all.get(&sender).filter(|set| set.has_sent) else {
            return;
        };
        let Some((&index, &(digest, _))) = set.files.last_key_value() else {
            return;
        };
        let count = set.count;
        self.all.retain(|at, other| {
            let there = other.files.get(&index);
            *at == sender || other.count != count || there.is_none_or(|it| it.0 != digest)
        });
    }

    /// Senders that are silent since `silent` before `now`, in the midst of their files, beside another one of the same host that was heard
    /// later: perhaps the same, started again. With the numbers of their transfers, and of those of the others.
    pub fn replaced(&self, now: Time, silent: Span) -> Vec<(SocketAddr, [u64; 2])> {
        let mut replaced = Vec::new();
        for (at, set) in &self.all {
            if set.is_over() || !set.has_sent || now < set.heard + silent {
                continue;
            }
            let others = self.all.iter().filter(|(other, it)| {
                *other != at && other.ip() == at.ip() && it.has_sent && it.heard > set.heard
            });
            replaced.extend(others.map(|(_, it)| (*at, [set.batch, it.batch])));
        }
        replaced
    }

    /// Nothing of a sender is waited for any more.
    pub fn forget(&mut self, sender: SocketAddr) {
        self.all.remove(&sender);
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

    /// Looks for the files that did not come where an earlier life of this receiver has put them; `is_here` gives which
    /// files of a transfer are there, of those for which a number is missing.
    pub fn look_for_missing(&mut self, is_here: impl Fn(u64, &dyn Fn(u32) -> bool) -> u32) {
        for set in self.all.values_mut() {
            let files = &set.files;
            let did_not_come = |index| files.get(&index).is_none_or(|it| !it.1);
            set.before = match set.missing() {
                0 => set.before,
                _ => is_here(set.batch, &did_not_come),
            };
        }
    }

    /// Files that are here since an earlier life of this receiver, and did not come in this one.
    pub fn before(&self) -> u32 {
        let all = self.all.values().map(|it| it.before);
        all.fold(0, u32::saturating_add)
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
        let is_awaited = |set: &Set| set.has_sent && !set.is_over() && now < set.heard + PATIENCE;
        self.all.values().any(Set::is_over) && !self.all.values().any(is_awaited)
    }

    /// Files that were announced with others and did not come. A mere announcement counts only where there was nothing else.
    pub fn missing(&self) -> u32 {
        let is_alone = self.all.values().all(Set::is_mere_announcement);
        let counted = self.all.values();
        let counted = counted.filter(|set| is_alone || !set.is_mere_announcement());
        counted.map(Set::missing).fold(0, u32::saturating_add)
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
        sets.has_sent(at(1));
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
    fn who_only_announces_is_not_waited_for_and_takes_no_place() {
        let mut sets = Sets::default();
        sets.began(secs(0), at(1), &name(1, 1), [1; 32]);
        assert_eq!(sets.missing(), 1, "nothing else was announced");
        sets.has_sent(at(1));
        // Another content, and the announcement of the same.
        sets.began(secs(0), at(2), &name(1, 9), [2; 32]);
        sets.began(secs(0), at(3), &name(1, 1), [1; 32]);
        assert!(!sets.is_over(secs(1)), "the data come");
        sets.ended(secs(1), at(1), &name(1, 1));
        assert!(sets.is_over(secs(1)));
        assert_eq!(sets.missing(), 0);
    }

    #[test]
    fn a_sender_that_is_started_again_takes_the_place_of_its_former_life() {
        let mut sets = Sets::default();
        sets.began(secs(0), at(1), &name(1, 2), [1; 32]);
        sets.has_sent(at(1));
        sets.ended(secs(1), at(1), &name(1, 2));
        for (index, digest) in [(1, [1; 32]), (2, [2; 32])] {
            sets.began(secs(9), at(2), &name(index, 2), digest);
            sets.has_sent(at(2));
            sets.ended(secs(9), at(2), &name(index, 2));
        }
        assert!(sets.is_over(secs(9)));
        assert_eq!(sets.missing(), 0);
    }

    #[test]
    fn a_sender_that_is_silent_beside_a_later_one_of_its_host_may_have_been_replaced() {
        let mut sets = Sets::default();
        let silent = Span::from_secs(2);
        let begin = |sets: &mut Sets, secs, at, digest| {
            sets.began(secs, at, &name(1, 3), [digest; 32]);
            sets.has_sent(at);
        };
        let elsewhere = SocketAddr::from(([127, 0, 0, 2], 9));
        begin(&mut sets, secs(0), at(1), 1);
        begin(&mut sets, secs(1), elsewhere, 2);
        assert_eq!(sets.replaced(secs(9), silent), []);
        begin(&mut sets, secs(1), at(2), 3);
        assert_eq!(sets.replaced(secs(1), silent), [], "it is not silent");
        assert_eq!(sets.replaced(secs(2), silent), [(at(1), [0, 0])]);
        sets.forget(at(1));
        assert_eq!(sets.replaced(secs(9), silent), []);
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
