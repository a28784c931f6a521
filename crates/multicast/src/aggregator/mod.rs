//! The aggregator: speaks for many receivers with one voice, so that a sender of a hundred of them reaches a hundred
//! thousand.

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

/// What an aggregator counted.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct AggregatorStats {
    /// Reports taken.
    pub reports: u64,
    /// Reports sent.
    pub sent: u64,
    /// Polls sent.
    pub polls: u64,
    /// Dropped: from somebody unknown, or in another's name.
    pub strangers: u64,
    /// Dropped: what cannot be so.
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
    /// What it answered last.
    answered: u64,
    levels: (u64, u64),
    buffer: u32,
    loss: u16,
    held: u64,
    corrupt: bool,
    /// It could not take data: whether it cannot still.
    busy: Option<bool>,
}

/// The session it takes part in.
#[derive(Clone, Debug)]
struct Session {
    id: u64,
    sender: Peer,
    terms: Terms,
    stamp: u64,
    /// The object's; none: a stream.
    geometry: Option<Geometry>,
    digest: [u8; 32],
    /// When it speaks for those that have answered by then.
    accept_at: Option<Time>,
    accepted: bool,
    /// The sender has been told that all are complete.
    complete: bool,
}

/// Speaks for many receivers with one voice, sans-I/O: towards the sender it is a member of some weight, towards
/// its receivers whom they report to (`report_to`).
///
/// Data, announcements and polls to the group do not pass through it: its receivers hear them from the group.
#[derive(Debug)]
pub struct Aggregator {
    config: AggregatorConfig,
    session: Option<Session>,
    children: Vec<Child>,
    index: BTreeMap<MemberId, u32>,
    collecting: Option<Collecting>,
    /// Collections so far.
    collections: u64,
    /// The sender was told that it waits for receivers that are busy.
    busy: bool,
    /// Last measurement of the sender's rate that was passed on.
    counted: Option<(u16, layercast_wire::multicast::Symbol)>,
    /// Children to be asked one by one, and when the next may be.
    polls: VecDeque<u32>,
    next_poll: Time,
    out: VecDeque<Transmit>,
    closed: bool,
    stats: AggregatorStats,
    /// Its name to observers, and what they have seen.
    name: Box<str>,
    seen: Seen,
}

impl Aggregator {
    /// Waits for a session.
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

    /// Is called so in what observers are told; nothing otherwise.
    pub fn set_name(&mut self, name: &str) {
        self.name = name.into();
    }

    /// Takes a packet that came from `from`: the sender or a receiver.
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
                    // It takes part: only its answer to the announcement was lost.
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
                // One of a subnet speaks for it (specs/rmtp-large-scale.md 2.5).
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
                let told = session.is_some_and(|it| it.complete || it.geometry.is_none());
                if told {
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
            // Data are for the receivers; they say when a pass ends.
            Body::Data(data)
                if data.flags.has(DataFlags::LAST) && !data.flags.has(DataFlags::SEPARATE) =>
            {
                self.begin_unheard(now, 0, data.round, 0);
            }
            _ => {}
        }
    }

    /// Runs what is due.
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

    /// The next packet that may leave now.
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

    /// When to come back: then call [`on_timeout`](Aggregator::on_timeout) and drain
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

    /// Whether the session is over.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// What was counted.
    pub fn stats(&self) -> &AggregatorStats {
        &self.stats
    }

    /// Receivers it speaks for.
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

    /// What is known of each receiver.
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

    /// How long it may hold its answers beyond their back-off: as long as it takes to give up all its receivers.
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

    /// The receiver, if it is this peer who may speak for it.
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
