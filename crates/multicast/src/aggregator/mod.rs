//! The aggregator: answers for many receivers, so that a sender with a hundred aggregators reaches a hundred thousand
//! receivers.

mod collect;
mod config;
mod join;
mod summary;
mod tell;
mod watch;

use std::collections::{BTreeMap, VecDeque};

use layercast_core::{Observer, Span, Time, earliest};
use layercast_wire::multicast::{
    Accept, Body, DataFlags, Eject, MemberId, Open, Packet, Reason, Tally, Terms,
};

use self::collect::Collecting;
pub use self::config::AggregatorConfig;
pub use self::summary::Summary;
use self::watch::Seen;
use crate::{Delivery, Geometry, Outcome, Peer, To, Transmit};

/// Counters of an aggregator.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct AggregatorStats {
    /// Reports received.
    pub reports: u64,
    /// Reports sent.
    pub sent: u64,
    /// Polls sent.
    pub polls: u64,
    /// Packets dropped: from an unknown peer, or in the name of another member.
    pub strangers: u64,
    /// Packets dropped: impossible content.
    pub forged: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Status {
    Joined,
    Complete,
    Failed(Reason),
}

#[derive(Clone, Debug)]
struct Child {
    id: MemberId,
    peer: Peer,
    incarnation: u32,
    status: Status,
    /// Number of its last answer.
    answered: u64,
    levels: (u64, u64),
    buffer: u32,
    loss: u16,
    held: u64,
    corrupt: bool,
    /// `Some` after it reported that it cannot take data: whether that still holds.
    busy: Option<bool>,
}

/// The current session.
#[derive(Clone, Debug)]
struct Session {
    id: u64,
    sender: Peer,
    terms: Terms,
    stamp: u64,
    /// Geometry of the object; `None` for a stream.
    geometry: Option<Geometry>,
    digest: [u8; 32],
    /// When it answers for the receivers that have answered by then.
    accept_at: Option<Time>,
    accepted: bool,
    /// Whether the sender knows that all are complete.
    complete: bool,
}

/// Answers for many receivers, sans-I/O. For the sender it is a member with a weight; its receivers report to it
/// (`report_to`).
///
/// Data, announcements and polls to the group do not pass through it: its receivers get them from the group.
#[derive(Debug)]
pub struct Aggregator {
    config: AggregatorConfig,
    session: Option<Session>,
    children: Vec<Child>,
    index: BTreeMap<MemberId, u32>,
    collecting: Option<Collecting>,
    /// Number of collections so far.
    collections: u64,
    /// Whether the sender knows that busy receivers are waited for.
    busy: bool,
    /// The last measurement of the sender's rate that was forwarded.
    counted: Option<(u16, layercast_wire::multicast::Symbol)>,
    /// Receivers to poll one by one, and when the next poll may be sent.
    polls: VecDeque<u32>,
    next_poll: Time,
    out: VecDeque<Transmit>,
    closed: bool,
    stats: AggregatorStats,
    /// Name for observers, and the state that they know.
    name: Box<str>,
    seen: Seen,
}

impl Aggregator {
    /// Creates an aggregator that waits for a session.
    pub fn new(config: AggregatorConfig) -> Aggregator {
        Aggregator {
            config,
            session: None,
            children: Vec::new(),
            index: BTreeMap::new(),
            collecting: None,
            collections: 0,
            busy: false,
            counted: None,
            polls: VecDeque::new(),
            next_poll: Time::ZERO,
            out: VecDeque::new(),
            closed: false,
            stats: AggregatorStats::default(),
            name: Box::default(),
            seen: Seen::nothing(),
        }
    }

    /// Sets the name for observers, empty by default.
    pub fn set_name(&mut self, name: &str) {
        self.name = name.into();
    }

    /// Processes a packet from the peer `from`, the sender or a receiver.
    pub fn handle<O: Observer>(&mut self, now: Time, from: Peer, packet: &Packet, obs: &mut O) {
        crate::watch::packet(obs, now, self.subject(), packet, false);
        self.hear(now, from, packet);
        self.watch(now, obs);
    }

    fn hear(&mut self, now: Time, from: Peer, packet: &Packet) {
        if let Body::Open(open) = &packet.body {
            return self.on_open(now, from, packet.session, open);
        }
        let session = self.session.as_ref().filter(|it| it.id == packet.session);
        let Some(session) = session else {
            self.stats.strangers += 1;
            return;
        };
        if self.closed {
            return;
        }
        if session.sender == from {
            return self.sender_says(now, packet);
        }
        match &packet.body {
            Body::Accept(accept) => self.on_accept(now, from, accept),
            Body::Report(report) => {
                if !self.index.contains_key(&report.member) {
                    // It takes part; only its answer to the announcement was lost.
                    self.add(now, report.member, from, 0, report.buffer, 0);
                }
                if let Some(at) = self.known(report.member, from) {
                    self.on_report(now, at, report);
                }
            }
            Body::Leave { member, reason } => {
                if let Some(at) = self.known(*member, from) {
                    self.children[at].status = Status::Failed(*reason);
                    self.look(now);
                }
            }
            Body::Count(count) => {
                // One receiver of a subnet reports for all (specs/rmtp-large-scale.md 2.5).
                let measurement = Some((count.round, count.start));
                if self.known(count.member, from).is_some() && self.counted != measurement {
                    self.counted = measurement;
                    let member = self.config.member;
                    let count = layercast_wire::multicast::Count { member, ..*count };
                    self.upstream(Body::Count(count));
                }
            }
            Body::Released { .. } => {}
            _ => self.stats.strangers += 1,
        }
    }

    fn sender_says(&mut self, now: Time, packet: &Packet) {
        match &packet.body {
            Body::Poll(poll) => self.on_poll(now, poll),
            Body::Release { .. } => {
                let session = self.session.as_ref();
                let is_known = session.is_some_and(|it| it.complete || it.geometry.is_none());
                if is_known {
                    if session.is_some_and(|it| it.terms.goodbye) {
                        let member = self.config.member;
                        self.upstream(Body::Released { member });
                    }
                    self.close();
                }
            }
            Body::Abort { .. } => self.close(),
            Body::Eject(eject) if eject.member == self.config.member => {
                let (reason, upto) = (eject.reason, eject.upto);
                self.tell_all(|member| {
                    Body::Eject(Eject {
                        member,
                        reason,
                        upto,
                    })
                });
                self.close();
            }
            Body::Suspend { member } if *member == self.config.member => {
                self.tell_all(|member| Body::Suspend { member });
            }
            // Data is for the receivers, which report the end of a pass.
            Body::Data(data)
                if data.flags.has(DataFlags::LAST) && !data.flags.has(DataFlags::SEPARATE) =>
            {
                self.begin_unheard(now, 0, data.round, 0);
            }
            _ => {}
        }
    }

    /// Executes all expired timers.
    pub fn on_timeout<O: Observer>(&mut self, now: Time, obs: &mut O) {
        self.run_due(now);
        self.watch(now, obs);
    }

    fn run_due(&mut self, now: Time) {
        let session = self.session.as_ref();
        if session.is_some_and(|it| it.accept_at.is_some_and(|at| at <= now)) {
            self.accept_now();
        }
        self.collect_over(now);
    }

    /// Returns the next packet that may be sent now.
    pub fn poll_transmit<O: Observer>(&mut self, now: Time, obs: &mut O) -> Option<Transmit> {
        if self.out.is_empty() && self.next_poll <= now {
            self.poll_child(now);
        }
        let transmit = self.out.pop_front();
        if let Some(transmit) = &transmit {
            crate::watch::packet(obs, now, self.subject(), &transmit.packet, true);
        }
        self.watch(now, obs);
        transmit
    }

    /// When to call [`on_timeout`](Aggregator::on_timeout) and then drain
    /// [`poll_transmit`](Aggregator::poll_transmit).
    pub fn poll_timeout(&self) -> Option<Time> {
        if !self.out.is_empty() {
            return Some(Time::ZERO);
        }
        let poll = (!self.polls.is_empty()).then_some(self.next_poll);
        let accept = self.session.as_ref().and_then(|it| it.accept_at);
        let collect = self.collecting.as_ref().and_then(Collecting::deadline);
        earliest(earliest(poll, accept), collect)
    }

    /// Whether the session has ended.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Counters since the start.
    pub fn stats(&self) -> &AggregatorStats {
        &self.stats
    }

    /// Number of its receivers by state.
    pub fn tally(&self) -> Tally {
        let mut tally = Tally::default();
        for child in &self.children {
            match child.status {
                Status::Joined => tally.alive += 1,
                Status::Complete => {
                    tally.alive += 1;
                    tally.complete += 1;
                }
                Status::Failed(_) => tally.failed += 1,
            }
        }
        tally
    }

    /// State of each receiver.
    pub fn deliveries(&self) -> impl Iterator<Item = Delivery> + '_ {
        self.children.iter().map(|child| Delivery {
            member: child.id,
            peer: Some(child.peer),
            outcome: match child.status {
                Status::Joined => Outcome::Pending,
                Status::Complete => Outcome::Delivered,
                Status::Failed(reason) => Outcome::Failed(reason),
            },
            weight: 1,
            complete: u32::from(child.status == Status::Complete),
            at: child.levels.1,
            round_trip: Span::ZERO,
            loss: child.loss,
        })
    }

    /// How long it may delay its answers beyond their back-off: until it has given up all its receivers.
    pub fn hold(&self) -> Span {
        let tries = u64::from(self.config.tries);
        let asked = tries * (tries + 1) / 2;
        let each = self.config.delta.times(self.tally().alive.into());
        self.config.wait.times(1 + asked) + each.times(asked)
    }

    fn close(&mut self) {
        self.closed = true;
        self.collecting = None;
        self.polls.clear();
        if let Some(session) = &mut self.session {
            session.accept_at = None;
        }
    }

    /// The receiver, if this peer may report for it.
    fn known(&mut self, member: MemberId, from: Peer) -> Option<usize> {
        let found = self.index.get(&member).map(|at| *at as usize);
        let found = found.filter(|&at| self.children[at].peer == from);
        self.stats.strangers += u64::from(found.is_none());
        found
    }

    fn upstream(&mut self, body: Body) {
        if let Some(session) = &self.session {
            let to = To::One(session.sender);
            self.send(to, body);
        }
    }

    fn tell_all(&mut self, body: impl Fn(MemberId) -> Body) {
        for at in 0..self.children.len() {
            let (id, peer) = (self.children[at].id, self.children[at].peer);
            self.send(To::One(peer), body(id));
        }
    }

    fn send(&mut self, to: To, body: Body) {
        let session = self.session.as_ref().map_or(0, |it| it.id);
        let packet = Packet { session, body };
        self.out.push_back(Transmit { to, packet });
    }
}
