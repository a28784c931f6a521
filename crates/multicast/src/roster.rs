use std::collections::BTreeMap;

use layercast_core::{RangeSet, Span};
use layercast_wire::multicast::{Accept, MemberId, Reason};

use crate::{Completion, ConfigError, Delivery, Members, Outcome, Peer};

/// State of a receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Status {
    /// Listed; it has not answered the announcement.
    Invited,
    /// Takes part.
    Joined,
    /// Cannot take data at present, by its own report.
    Busy,
    /// Will be served after the others.
    Postponed,
    /// Complete.
    Done,
    /// Complete, and informed of the end.
    Released,
    /// Failed.
    Failed(Reason),
    /// Refused to take part.
    Refused(Reason),
    /// Never answered the announcement.
    Never,
}

/// The sender's record of a receiver, small since there are many.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub id: MemberId,
    /// Objects: missing ranges of its last report. Streams: unused.
    pub missing: Option<Box<RangeSet>>,
    /// Objects: number of missing packets. Streams: 1 + the highest number received in order.
    pub received: u64,
    /// Streams: 1 + the last number delivered.
    pub delivered: u64,
    /// `delivered` at the beginning of the ejection interval.
    pub mark: u64,
    pub peer: Option<Peer>,
    pub status: Status,
    pub incarnation: u32,
    /// The last poll that it answered.
    pub answered: u32,
    /// Total number of unanswered polls.
    pub silent: u32,
    /// Successive rounds in which no receiver was slower.
    pub slowest: u32,
    pub rtt_us: u32,
    pub buffer: u32,
    pub weight: u32,
    /// Receivers that have not yet answered the aggregator.
    pub absent: u32,
    /// How long it may delay its answers.
    pub hold_us: u32,
    pub complete: u32,
    /// Share of packets lost between the last two polls, in 1/65535.
    pub loss: u16,
    /// Data packets of the session when it joined or last reported; and since it joined: those that were sent to it, and
    /// those that it lost.
    pub counted: u32,
    pub sent: u32,
    pub lost: u32,
    /// Objects: successive passes of which nothing reached it, and their packets.
    pub barren: (u16, u64),
    /// Objects: missing packets before the current pass.
    pub lacked: u64,
    pub mandatory: bool,
    /// Whether it already reported a corrupt object.
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
            counted: 0,
            sent: 0,
            lost: 0,
            barren: (0, 0),
            lacked: 0,
            mandatory: false,
            corrupt: false,
        }
    }

    /// Takes over what it reports about its receivers.
    pub fn says(&mut self, accept: &Accept) {
        (self.weight, self.absent) = (accept.weight, accept.absent);
        self.hold_us = accept.hold_us;
    }

    /// It joins again after `data` packets of the session: what was sent to it before no longer counts.
    pub fn joins_again(&mut self, data: u64) {
        (self.counted, self.sent, self.lost, self.loss) = (data as u32, 0, 0, 0);
    }

    /// Takes the share of packets that it lost lately, in 1/65535, after `data` packets of the session.
    pub fn lately_lost(&mut self, share: u16, data: u64) {
        self.loss = share;
        let data = data as u32;
        let lost = |sent: u32| (u64::from(sent) * u64::from(share) / 65_535) as u32;
        let sent = data.wrapping_sub(self.counted);
        if sent == 0 || sent > u32::MAX / 2 {
            // Nothing was sent to it since it joined, so the share is that of packets before.
            if self.sent == 0 {
                self.loss = 0;
            }
            return;
        }
        self.lost += match self.sent {
            // Its first report counts from the first packet of the session, which may have been sent before it joined.
            0 => lost(data).saturating_sub(self.counted).min(sent),
            _ => lost(sent),
        };
        self.sent = self.sent.saturating_add(sent);
        self.counted = data;
    }

    /// Share of the packets sent to it that it lost, in 1/65535.
    fn share_lost(&self) -> u16 {
        match self.sent {
            0 => self.loss,
            sent => (u64::from(self.lost) * 65_535 / u64::from(sent)).min(65_535) as u16,
        }
    }

    /// The delivery state for the user.
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
            loss: self.share_lost(),
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
    /// The list before any answer; members named by `completion` are mandatory.
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
        let other = self.index.insert(id, at as u32);
        debug_assert!(other.is_none(), "a member has one record");
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

    /// Receivers in matching states, including all behind aggregators.
    pub fn weigh(&self, wanted: impl Fn(Status) -> bool) -> u32 {
        let chosen = self.iter().filter(|record| wanted(record.status));
        chosen.fold(0, |sum, record| {
            sum.saturating_add(match record.status {
                Status::Done | Status::Released => record.complete,
                _ => record.weight,
            })
        })
    }

    /// Whether the group satisfies the condition; complete receivers count as present.
    pub fn satisfies(&self, rule: &Completion) -> bool {
        let there = |status| {
            matches!(
                status,
                Status::Joined | Status::Busy | Status::Postponed | Status::Done | Status::Released
            )
        };
        self.check(rule, &there)
    }

    /// Whether enough receivers are complete.
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
        assert!(size_of::<Record>() <= 144, "{}", size_of::<Record>());
    }

    #[test]
    fn loss_is_that_of_all_packets_sent_to_a_receiver() {
        let share = |permille: u32| (permille * 65_535 / 1_000) as u16;
        let mut record = Record::new(MemberId(1), None, Status::Joined);
        // A first pass of 1000 packets at 30 % loss, then a repair of 20 without loss, reported twice.
        record.lately_lost(share(300), 1_000);
        record.lately_lost(0, 1_020);
        record.lately_lost(0, 1_020);
        let loss = f64::from(record.delivery().loss) / 65_535.0;
        assert!((loss - 300.0 / 1_020.0).abs() < 0.002, "{loss}");
        // One that joined after 600 of 1000 packets and lost 100 of the others.
        let mut late = Record::new(MemberId(2), None, Status::Joined);
        late.counted = 600;
        late.lately_lost(share(700), 1_000);
        let loss = f64::from(late.delivery().loss) / 65_535.0;
        assert!((loss - 0.25).abs() < 0.01, "{loss}");
        // One that has everything and was started again after the last packet, or before a repair that it received.
        for (packets, share) in [(0, u16::MAX), (0, share(999)), (100, share(909))] {
            let mut again = Record::new(MemberId(3), None, Status::Joined);
            again.lately_lost(0, 1_000);
            again.joins_again(1_000);
            again.lately_lost(share, 1_000 + packets);
            let loss = f64::from(again.delivery().loss) / 65_535.0;
            assert!(loss < 0.02, "{packets}: {loss}");
        }
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
