use core::net::SocketAddr;
use std::collections::{BTreeMap, VecDeque};

use layercast_core::Serial;
use layercast_wire::XtpKey;

use crate::XtpRate;

/// The identity of a receiver: its address, and the key it has chosen.
pub(crate) type Who = (SocketAddr, XtpKey);

/// A message for a single receiver.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Reply {
    /// Status, that it asked for.
    Status,
    /// That it is let in.
    Admission,
}

/// A receiver of a multicast association, as its transmitter knows it (specs/xtp.md 2.13).
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    /// It has echoed a value sent only to it, and counts.
    pub(super) active: bool,
    /// Everything before it has arrived there, or is not owed to it.
    pub(super) rseq: u64,
    pub(super) alloc: u64,
    /// How many questions it has answered, counted as [`Group`](super::transmitter::Group) does.
    pub(super) echo: u64,
    /// Handshakes that it did not answer, in a row.
    pub(super) misses: u32,
    /// Claims that cannot be, in a row.
    pub(super) violations: u32,
    /// What it takes at most.
    pub(super) limit: XtpRate,
    /// A receiver that echoes this value is reachable.
    pub(super) proof: Serial,
    /// The highest synchronizing value that it asked with.
    pub(super) asked: Serial,
    /// The first byte it gets.
    pub(super) start: u64,
    /// The number of skips announced to the group when it was admitted.
    pub(super) skips: u64,
    due: Option<Reply>,
}

impl Member {
    /// One that asks to be let in and has proved nothing.
    pub(super) fn new(start: u64, alloc: u64, limit: XtpRate, asked: Serial) -> Member {
        Member {
            active: false,
            rseq: start,
            alloc,
            echo: 0,
            misses: 0,
            violations: 0,
            limit,
            proof: Serial(0),
            asked,
            start,
            skips: 0,
            due: None,
        }
    }
}

/// How often each value occurs, to know the least without a search.
#[derive(Debug, Default)]
struct Least(BTreeMap<u64, u32>);

impl Least {
    fn insert(&mut self, value: u64) {
        *self.0.entry(value).or_default() += 1;
    }

    fn remove(&mut self, value: u64) {
        if let Some(count) = self.0.get_mut(&value) {
            *count -= 1;
            if *count == 0 {
                self.0.remove(&value);
            }
        }
    }

    fn get(&self) -> Option<u64> {
        self.0.first_key_value().map(|(&value, _)| value)
    }
}

/// The receivers of a transmitter, and the least of what the active ones say.
#[derive(Debug, Default)]
pub(super) struct Members {
    all: BTreeMap<Who, Member>,
    active: usize,
    rseq: Least,
    alloc: Least,
    echo: Least,
    /// Receivers with a pending individual message.
    line: VecDeque<Who>,
}

impl Members {
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// How many count.
    pub(super) fn active(&self) -> usize {
        self.active
    }

    pub(super) fn get(&self, who: &Who) -> Option<&Member> {
        self.all.get(who)
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = Who> + '_ {
        self.all.keys().copied()
    }

    /// Those that count.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Who, &Member)> {
        self.all.iter().filter(|(_, it)| it.active)
    }

    /// Everything before it has arrived at all that count.
    pub(super) fn rseq(&self) -> Option<u64> {
        self.rseq.get()
    }

    /// All that count take bytes before it.
    pub(super) fn alloc(&self) -> Option<u64> {
        self.alloc.get()
    }

    /// All counted receivers have answered this number of requests.
    pub(super) fn echo(&self) -> Option<u64> {
        self.echo.get()
    }

    /// Enters a receiver; what was known of it is forgotten.
    pub(super) fn insert(&mut self, who: Who, member: Member) {
        self.remove(&who);
        self.count(&member, true);
        self.all.insert(who, member);
    }

    /// Changes what is known of a receiver; whether there is one.
    pub(super) fn update(&mut self, who: &Who, change: impl FnOnce(&mut Member)) -> bool {
        let Some(mut member) = self.all.get(who).copied() else {
            return false;
        };
        self.count(&member, false);
        change(&mut member);
        self.count(&member, true);
        self.all.insert(*who, member);
        true
    }

    pub(super) fn remove(&mut self, who: &Who) -> Option<Member> {
        let member = self.all.remove(who)?;
        self.count(&member, false);
        if member.due.is_some() {
            self.line.retain(|it| it != who);
        }
        Some(member)
    }

    /// One that was let in and has proved nothing.
    pub(super) fn unproved(&self) -> Option<Who> {
        let unproved = self.all.iter().find(|(_, it)| !it.active);
        unproved.map(|(who, _)| *who)
    }

    /// Queues an individual message for a receiver; the more important one is kept.
    pub(super) fn tell(&mut self, who: &Who, reply: Reply) {
        let Some(member) = self.all.get_mut(who) else {
            return;
        };
        if member.due.is_none() {
            self.line.push_back(*who);
        }
        member.due = member.due.max(Some(reply));
    }

    /// Whether an individual message is pending.
    pub(super) fn has_replies(&self) -> bool {
        !self.line.is_empty()
    }

    /// The next individual message, with its receiver.
    pub(super) fn next_reply(&mut self) -> Option<(Who, Reply)> {
        loop {
            let who = self.line.pop_front()?;
            if let Some(reply) = self.all.get_mut(&who).and_then(|it| it.due.take()) {
                return Some((who, reply));
            }
        }
    }

    /// Bytes of memory.
    pub(super) fn memory(&self) -> usize {
        // Each counts in three maps; those of a tree are two thirds full.
        self.all.len() * (2 * size_of::<(Who, Member)>() + 3 * 24)
            + self.line.capacity() * size_of::<Who>()
    }

    /// Counts what an active receiver says, or no longer.
    fn count(&mut self, member: &Member, here: bool) {
        if !member.active {
            return;
        }
        let values = [member.rseq, member.alloc, member.echo];
        let all = [&mut self.rseq, &mut self.alloc, &mut self.echo];
        for (least, value) in all.into_iter().zip(values) {
            match here {
                true => least.insert(value),
                false => least.remove(value),
            }
        }
        match here {
            true => self.active += 1,
            false => self.active -= 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use core::net::Ipv4Addr;

    use layercast_core::Stream;

    use super::*;

    fn who(n: u8) -> Who {
        let net = SocketAddr::new(Ipv4Addr::new(10, 0, 0, n).into(), 0);
        (net, XtpKey(n.into()))
    }

    #[test]
    fn the_least_is_that_of_those_who_count() {
        let mut random = Stream::new(1, "members");
        let mut members = Members::default();
        for _ in 0..20_000 {
            let who = who(random.below(20) as u8);
            match random.below(4) {
                0 => {
                    let start = random.below(100);
                    let member = Member::new(start, 9, XtpRate::UNLIMITED, Serial(0));
                    members.insert(who, member);
                }
                1 => drop(members.remove(&who)),
                2 => drop(members.update(&who, |it| it.active = true)),
                _ => drop(members.update(&who, |it| it.rseq += random.below(50))),
            }
            let least = members.iter().map(|(_, it)| it.rseq).min();
            assert_eq!(members.rseq(), least);
            assert_eq!(members.active(), members.iter().count());
        }
    }

    #[test]
    fn each_is_told_once_and_the_more_important() {
        let mut members = Members::default();
        for n in 1..=3 {
            let member = Member::new(0, 0, XtpRate::UNLIMITED, Serial(0));
            members.insert(who(n), member);
            members.tell(&who(n), Reply::Admission);
            members.tell(&who(n), Reply::Status);
        }
        members.remove(&who(2));
        assert_eq!(members.next_reply(), Some((who(1), Reply::Admission)));
        assert_eq!(members.next_reply(), Some((who(3), Reply::Admission)));
        assert!(members.next_reply().is_none() && !members.has_replies());
    }
}
