use std::collections::BTreeMap;

use layercast_core::{RangeSet, Span};
use layercast_wire::multicast::{Accept, MemberId, Reason};

use crate::{Completion, ConfigError, Delivery, Members, Outcome, Peer};

/// Where a receiver stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Status {
    /// Listed, has not answered the announcement.
    Invited,
    /// Takes part.
    Joined,
    /// Cannot take data now; its own word.
    Busy,
    /// To be served after the others.
    Postponed,
    /// Has everything.
    Done,
    /// Has everything and has heard of the end.
    Released,
    /// Is out.
    Failed(Reason),
    /// Did not want to.
    Refused(Reason),
    /// Never answered the announcement.
    Never,
}

/// What the sender keeps of a receiver: small, since there are many.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub id: MemberId,
    /// Objects: what it lacks, by its last report. Streams: unused.
    pub missing: Option<Box<RangeSet>>,
    /// Objects: how much it lacks. Streams: 1 + the highest number received in order.
    pub received: u64,
    /// Streams: 1 + the number delivered last.
    pub delivered: u64,
    /// `delivered` when the interval of ejection began.
    pub mark: u64,
    pub peer: Option<Peer>,
    pub status: Status,
    pub incarnation: u32,
    /// Poll that it answered last.
    pub answered: u32,
    /// Polls it left unanswered in all.
    pub silent: u32,
    /// Rounds in a row in which nobody was slower.
    pub slowest: u32,
    pub rtt_us: u32,
    pub buffer: u32,
    pub weight: u32,
    /// Receivers that have not answered the aggregator yet.
    pub absent: u32,
    /// How long it may hold its answers.
    pub hold_us: u32,
    pub complete: u32,
    pub loss: u16,
    /// Objects: passes in a row in which nothing reached it, and the packets of them.
    pub barren: (u16, u64),
    /// Objects: what it lacked before the pass that runs.
    pub lacked: u64,
    pub mandatory: bool,
    /// It has been told once that its object is corrupt.
    pub corrupt: bool,
}

impl Record {
    fn new(id: MemberId, peer: Option<Peer>, status: Status) -> Record {
        Record {
            id,
            missing: None,
            received: 0,
            delivered: 0,
            mark: 0,
            peer,
            status,
            incarnation: 0,
            answered: 0,
            silent: 0,
            slowest: 0,
            rtt_us: 0,
            buffer: 0,
            weight: 1,
            absent: 0,
            hold_us: 0,
            complete: 0,
            loss: 0,
            barren: (0, 0),
            lacked: 0,
            mandatory: false,
            corrupt: false,
        }
    }

    /// What it says of the receivers it speaks for.
    pub fn says(&mut self, accept: &Accept) {
        (self.weight, self.absent) = (accept.weight, accept.absent);
        self.hold_us = accept.hold_us;
    }

    /// What the user is told of it.
    pub fn delivery(&self) -> Delivery {
        Delivery {
            member: self.id,
            peer: self.peer,
            outcome: match self.status {
                Status::Done | Status::Released => Outcome::Delivered,
                Status::Failed(reason) | Status::Refused(reason) => Outcome::Failed(reason),
                Status::Never => Outcome::NeverConnected,
                _ => Outcome::Pending,
            },
            weight: self.weight,
            complete: self.complete,
            at: self.delivered.max(self.received),
            round_trip: Span::from_us(self.rtt_us.into()),
            loss: self.loss,
        }
    }
}

/// All receivers of a session.
#[derive(Clone, Default, Debug)]
pub(crate) struct Roster {
    records: Vec<Record>,
    index: BTreeMap<MemberId, u32>,
}

impl Roster {
    /// The list before anybody answered; whom `completion` names is mandatory.
    pub fn invited(members: &Members, completion: &Completion) -> Result<Roster, ConfigError> {
        let mut roster = Roster::default();
        if let Members::Listed(list) = members {
            if list.is_empty() {
                return Err(ConfigError::NoMembers);
            }
            for &(id, peer) in list {
                if roster.find(id).is_some() {
                    return Err(ConfigError::Twice(id));
                }
                let at = roster.add(id, peer, Status::Invited);
                roster.get_mut(at).mandatory = completion.names(id);
            }
        }
        Ok(roster)
    }

    pub fn add(&mut self, id: MemberId, peer: Option<Peer>, status: Status) -> usize {
        let at = self.records.len();
        self.records.push(Record::new(id, peer, status));
        self.index.insert(id, at as u32);
        at
    }

    pub fn find(&self, id: MemberId) -> Option<usize> {
        self.index.get(&id).map(|&at| at as usize)
    }

    pub fn get(&self, at: usize) -> &Record {
        &self.records[at]
    }

    pub fn get_mut(&mut self, at: usize) -> &mut Record {
        &mut self.records[at]
    }

    pub fn len(&self) -> usize {
        self.records.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Record> {
        self.records.iter()
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Record> {
        self.records.iter_mut()
    }

    /// Receivers in a status, aggregators with all they speak for.
    pub fn weigh(&self, wanted: impl Fn(Status) -> bool) -> u32 {
        let chosen = self.iter().filter(|record| wanted(record.status));
        chosen.fold(0, |sum, record| {
            sum.saturating_add(match record.status {
                Status::Done | Status::Released => record.complete,
                _ => record.weight,
            })
        })
    }

    /// Whether the group is what it must be; those who have everything count as there.
    pub fn satisfies(&self, rule: &Completion) -> bool {
        let there = |status| {
            matches!(
                status,
                Status::Joined | Status::Busy | Status::Postponed | Status::Done | Status::Released
            )
        };
        self.check(rule, &there)
    }

    /// Whether enough have everything.
    pub fn delivered_to(&self, rule: &Completion) -> bool {
        self.check(rule, &|status| {
            matches!(status, Status::Done | Status::Released)
        })
    }

    fn check(&self, rule: &Completion, counts: &impl Fn(Status) -> bool) -> bool {
        let took_part =
            |status| !matches!(status, Status::Invited | Status::Refused(_) | Status::Never);
        match rule {
            Completion::All => self.iter().all(|record| counts(record.status)),
            Completion::AtLeast(least) => self.weigh(counts) >= *least,
            Completion::Quorum(permille) => {
                let all = u64::from(self.weigh(took_part));
                u64::from(self.weigh(counts)) * 1_000 >= all * u64::from(*permille)
            }
            Completion::Key(members) => members.iter().all(|id| {
                let found = self.find(*id);
                found.is_some_and(|at| counts(self.get(at).status))
            }),
            Completion::Both(both) => self.check(&both.0, counts) && self.check(&both.1, counts),
            Completion::Either(both) => self.check(&both.0, counts) || self.check(&both.1, counts),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_small() {
        assert!(size_of::<Record>() <= 136, "{}", size_of::<Record>());
    }

    #[test]
    fn rules_of_integrity() {
        let mut roster = Roster::default();
        for id in 0..4 {
            roster.add(MemberId(id), None, Status::Joined);
        }
        roster.get_mut(3).status = Status::Failed(Reason::Silent);
        let rule = |rule: Completion| roster.satisfies(&rule);
        assert!(!rule(Completion::All));
        assert!(rule(Completion::AtLeast(3)) && !rule(Completion::AtLeast(4)));
        assert!(rule(Completion::Quorum(750)) && !rule(Completion::Quorum(751)));
        let key = |id| Completion::Key(vec![MemberId(id)]);
        assert!(rule(key(2)) && !rule(key(3)) && !rule(key(9)));
        assert!(!rule(Completion::Both(Box::new((key(2), key(3))))));
        assert!(rule(Completion::Either(Box::new((key(2), key(3))))));
        assert!(!roster.delivered_to(&Completion::AtLeast(1)));
    }
}
