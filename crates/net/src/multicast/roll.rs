//! Which receivers a sender admits: each listed host has a place, and no two receivers have one name.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;

use layercast_core::{Span, Time};
use layercast_wire::multicast::{Accept, MemberId};

use crate::names::{check_name, member_of};

/// Members of one address at most, where each host has an address of its own: lives of one receiver without a name.
const MOST_OF_HOST: u32 = 4;
/// The holder of a name is asked this often whether it is there, and this long at least, before another receiver gets
/// the name.
const ASKED: u32 = 2;
const PATIENCE: Span = Span::from_ms(400);

/// The members of a transfer, by their names. A name stays with its holder from session to session.
#[derive(Debug)]
pub struct Roll {
    /// Hosts that are sent to; none: a group, and anybody may take part.
    listed: HashSet<SocketAddr>,
    /// Members at most.
    most: usize,
    members: HashMap<MemberId, Holder>,
    /// Members of this session at each address.
    of_address: HashMap<SocketAddr, u32>,
    /// Members of this session at addresses that are not listed.
    unlisted: usize,
    /// Members of this session.
    there: usize,
}

#[derive(Debug)]
struct Holder {
    address: SocketAddr,
    /// It takes part in this session; if not, it did in an earlier one.
    is_there: bool,
    identity: Option<u64>,
    name: Option<Arc<str>>,
    rival: Option<Rival>,
}

/// Another receiver of the name of a member, or the same one at another address.
#[derive(Clone, Copy, Debug)]
struct Rival {
    address: SocketAddr,
    since: Time,
    asked: u32,
}

/// What becomes of an answer to the announcement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admission {
    /// The sender takes it.
    Take,
    /// It is dropped: there is no place.
    Full,
    /// It waits until the holder of its name, at this address, has been asked whether it is there.
    Ask(SocketAddr),
}

impl Roll {
    /// No member yet; `listed` are the destination hosts, and there are places for `most` members.
    pub fn new(listed: impl IntoIterator<Item = SocketAddr>, most: usize) -> Roll {
        Roll {
            listed: listed.into_iter().collect(),
            most,
            members: HashMap::new(),
            of_address: HashMap::new(),
            unlisted: 0,
            there: 0,
        }
    }

    /// The next session of the transfer begins: it has no member yet, and names keep their holders.
    pub fn begin(&mut self) {
        self.of_address.clear();
        (self.unlisted, self.there) = (0, 0);
        for holder in self.members.values_mut() {
            (holder.is_there, holder.rival) = (false, None);
        }
    }

    /// Members of this session.
    pub fn len(&self) -> usize {
        self.there
    }

    /// Whether the user named this address.
    pub fn is_listed(&self, address: SocketAddr) -> bool {
        self.listed.contains(&address)
    }

    /// What a member is called by its user, if it says so.
    pub fn name(&self, member: MemberId) -> Option<Arc<str>> {
        self.members.get(&member)?.name.clone()
    }

    /// Whether a member is at this address.
    pub fn is_at(&self, address: SocketAddr) -> bool {
        self.of_address.contains_key(&address)
    }

    /// Somebody answers the announcement.
    pub fn admit(&mut self, now: Time, from: SocketAddr, accept: &Accept) -> Admission {
        let Some(holder) = self.members.get_mut(&accept.member) else {
            return self.enter(from, accept);
        };
        if holder.address == from {
            if !holder.is_there {
                return self.enter(from, accept);
            }
            // An address belongs to one process: this one has taken the place of the other.
            (holder.identity, holder.name) = (accept.identity, name_of(accept));
            return Admission::Take;
        }
        let rival = match holder.rival {
            Some(rival) if rival.address == from => rival,
            _ => Rival {
                address: from,
                since: now,
                asked: 0,
            },
        };
        let silent = rival.asked >= ASKED && now.since(rival.since) >= PATIENCE;
        if !silent {
            holder.rival = Some(Rival {
                asked: rival.asked + 1,
                ..rival
            });
            return Admission::Ask(holder.address);
        }
        let (old, was_there) = (holder.address, holder.is_there);
        self.members.remove(&accept.member);
        if was_there {
            self.leave(old);
        }
        self.enter(from, accept)
    }

    fn enter(&mut self, from: SocketAddr, accept: &Accept) -> Admission {
        let is_listed = self.is_listed(from);
        let there = self.of_address.get(&from).copied().unwrap_or(0);
        let kept = self.listed.len();
        let full = match (self.listed.is_empty(), is_listed) {
            (true, _) => self.there >= self.most,
            (false, true) => there >= MOST_OF_HOST,
            (false, false) => there >= MOST_OF_HOST || self.unlisted + kept >= self.most,
        };
        if full {
            return Admission::Full;
        }
        *self.of_address.entry(from).or_default() += 1;
        self.unlisted += usize::from(!is_listed);
        self.there += 1;
        if self.members.len() >= 2 * self.most {
            // Those of earlier sessions have left.
            self.members.retain(|_, it| it.is_there);
        }
        // A rival that answered this session before the holder still waits for a verdict.
        let holder = self.members.get(&accept.member);
        let rival = holder
            .filter(|it| it.address == from)
            .and_then(|it| it.rival);
        self.members.insert(
            accept.member,
            Holder {
                address: from,
                is_there: true,
                identity: accept.identity,
                name: name_of(accept),
                rival,
            },
        );
        debug_assert!(self.unlisted <= self.there && self.there <= self.members.len());
        debug_assert!(self.of_address.len() <= self.there);
        Admission::Take
    }

    fn leave(&mut self, address: SocketAddr) {
        debug_assert!(
            self.of_address.contains_key(&address),
            "the address of a member is counted"
        );
        if let Some(count) = self.of_address.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                self.of_address.remove(&address);
            }
        }
        self.unlisted -= usize::from(!self.is_listed(address));
        self.there -= 1;
    }

    /// An address has answered: its members are there, and those that want their names are refused. Gives these.
    pub fn is_there(&mut self, address: SocketAddr) -> Vec<(MemberId, SocketAddr)> {
        let held = self
            .members
            .iter_mut()
            .filter(|(_, it)| it.address == address);
        held.filter_map(|(&member, holder)| Some((member, holder.rival.take()?.address)))
            .collect()
    }
}

/// The name of a receiver: its member number is the digest of it, so that no receiver has the name of another one.
pub fn name_of(accept: &Accept) -> Option<Arc<str>> {
    let name = str::from_utf8(accept.name.as_ref()?).ok()?;
    let is_own = check_name(name).is_ok() && member_of(name) == accept.member;
    is_own.then(|| name.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    fn accept(member: u64, identity: u64) -> Accept {
        Accept {
            identity: Some(identity),
            ..Accept::alone(MemberId(member))
        }
    }

    fn ms(ms: u64) -> Time {
        Time::ZERO + Span::from_ms(ms)
    }

    #[test]
    fn a_receiver_is_called_by_the_name_whose_digest_its_number_is() {
        let mut roll = Roll::new([], 10);
        let called = |name: &'static str, member| Accept {
            name: Some(name.into()),
            ..Accept::alone(member)
        };
        let (ann, bob) = (member_of("ann"), member_of("bob"));
        roll.admit(Time::ZERO, at(1), &called("ann", ann));
        roll.admit(Time::ZERO, at(2), &called("ann", bob));
        assert_eq!(roll.name(ann).as_deref(), Some("ann"));
        assert_eq!(roll.name(bob), None);
        let odd = "a\x1b[2J";
        roll.admit(Time::ZERO, at(3), &called(odd, member_of(odd)));
        assert_eq!(roll.name(member_of(odd)), None);
    }

    #[test]
    fn a_name_stays_with_its_holder_from_session_to_session() {
        let mut roll = Roll::new([], 10);
        assert_eq!(roll.admit(ms(0), at(1), &accept(7, 1)), Admission::Take);
        roll.begin();
        assert_eq!((roll.len(), roll.is_at(at(1))), (0, false));
        // The other receiver of the name answers first this time.
        assert_eq!(
            roll.admit(ms(10), at(2), &accept(7, 2)),
            Admission::Ask(at(1))
        );
        assert_eq!(roll.is_there(at(1)), [(MemberId(7), at(2))]);
        assert_eq!(roll.admit(ms(20), at(1), &accept(7, 1)), Admission::Take);
        assert!(roll.is_at(at(1)) && !roll.is_at(at(2)) && roll.len() == 1);
        // The holder is gone: after it was asked, the other one gets the name.
        roll.begin();
        for t in [30, 40, 500] {
            roll.admit(ms(t), at(2), &accept(7, 2));
        }
        assert!(roll.is_at(at(2)) && roll.len() == 1);
    }

    #[test]
    fn places_of_listed_hosts_are_kept() {
        let mut roll = Roll::new([at(1), at(2)], 10);
        let mut taken = 0;
        for member in 0..100_000 {
            let port = 1_000 + (member % 50_000) as u16;
            let admitted = roll.admit(ms(0), at(port), &accept(member, 0));
            taken += u32::from(admitted == Admission::Take);
        }
        assert_eq!(taken, 8);
        for port in [1, 2] {
            for member in 0..100 {
                let member = 1 << 40 | u64::from(port) << 20 | member;
                roll.admit(ms(0), at(port), &accept(member, 0));
            }
            assert!(roll.is_at(at(port)));
        }
        assert_eq!(roll.members.len(), 8 + 2 * MOST_OF_HOST as usize);
    }

    #[test]
    fn a_rival_that_answers_a_session_before_the_holder_is_refused_too() {
        let mut roll = Roll::new([at(1), at(2)], 10);
        assert_eq!(roll.admit(ms(0), at(1), &accept(7, 1)), Admission::Take);
        roll.begin();
        let asked = Admission::Ask(at(1));
        assert_eq!(roll.admit(ms(9), at(2), &accept(7, 1)), asked);
        assert_eq!(roll.admit(ms(9), at(1), &accept(7, 1)), Admission::Take);
        assert_eq!(roll.is_there(at(1)), [(MemberId(7), at(2))]);
    }

    #[test]
    fn a_name_in_use_is_refused_and_one_whose_holder_is_gone_is_not() {
        let mut roll = Roll::new([], 10);
        assert_eq!(roll.admit(ms(0), at(1), &accept(7, 1)), Admission::Take);
        // The same life again, and another one at the same address.
        assert_eq!(roll.admit(ms(1), at(1), &accept(7, 1)), Admission::Take);
        assert_eq!(roll.admit(ms(2), at(1), &accept(7, 9)), Admission::Take);
        // A copy with the same identity file, at another address, while the holder answers.
        assert_eq!(
            roll.admit(ms(3), at(2), &accept(7, 9)),
            Admission::Ask(at(1))
        );
        assert_eq!(roll.is_there(at(1)), [(MemberId(7), at(2))]);
        assert_eq!(roll.is_there(at(1)), []);
        // The holder is gone: its name is free once it has been asked twice.
        assert_eq!(
            roll.admit(ms(10), at(3), &accept(7, 2)),
            Admission::Ask(at(1))
        );
        assert_eq!(
            roll.admit(ms(260), at(3), &accept(7, 2)),
            Admission::Ask(at(1))
        );
        assert_eq!(roll.admit(ms(510), at(3), &accept(7, 2)), Admission::Take);
        assert!(roll.is_at(at(3)) && !roll.is_at(at(1)));
    }
}
