//! The receiver: stores packets, and answers polls and the end of passes.

mod answer;
mod object;
mod pass;
mod session;
mod stream;
mod watch;

use std::collections::VecDeque;

use layercast_core::{
    Observer, QosAction, QosConnection, QosTransport, Span, Stream, Time, earliest,
};
use layercast_wire::multicast::{
    Accept, Body, Data, MemberId, Open, Packet, Poll, Reason, State, Symbol, Terms,
};

use self::answer::Answer;
use self::object::ObjectState;
use self::stream::StreamState;
use self::watch::Seen;
use crate::measure;
use crate::receipt::{announcement_key, is_believed, member_key};
use crate::{Bits, Geometry, Peer, ReceiverEvent, ReceiverStats, Store, To, Transmit};

/// Configuration of a receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReceiverConfig {
    /// Its member id.
    pub member: MemberId,
    /// Incarnation number: another one after each restart.
    pub incarnation: u32,
    /// Distinguishes receivers with the same name: random, and constant over restarts.
    pub identity: Option<u64>,
    /// Streams: packets held until the user reads them.
    pub buffer: u32,
    /// The aggregator that it reports to, instead of the sender.
    pub report_to: Option<Peer>,
    /// Key of its receipts ([`member_key`](crate::member_key)).
    pub receipt_key: Option<[u8; 32]>,
    /// Key of announcements ([`announcement_key`](crate::announcement_key)); others are rejected.
    pub announcement_key: Option<[u8; 32]>,
    /// Seed of the back-off.
    pub seed: u64,
    /// Limits: larger objects are refused before any allocation.
    pub limits: Limits,
}

/// Limits of the objects that a receiver accepts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Largest number of source packets.
    pub packets: u64,
    /// Largest number of blocks of an object with an erasure code.
    pub blocks: u32,
    /// Least octets of a full packet, if the object has several.
    pub packet_size: u16,
}

impl Limits {
    /// 2^30 packets, which is 1.5 TB in packets of 1400 octets, 2^24 blocks, and packets of any size.
    pub const ENGINE: Limits = Limits {
        packets: 1 << 30,
        blocks: 1 << 24,
        packet_size: 1,
    };

    /// Whether an object is within the limits.
    fn allow(&self, geometry: &Geometry, coded: bool) -> bool {
        geometry.packets() <= self.packets
            && (!coded || geometry.blocks() <= self.blocks)
            && (geometry.packet_size >= self.packet_size || geometry.packets() <= 1)
    }
}

impl ReceiverConfig {
    /// A receiver in its first incarnation, with a buffer of 32 packets.
    pub fn new(member: MemberId, seed: u64) -> ReceiverConfig {
        ReceiverConfig {
            member,
            incarnation: 1,
            identity: None,
            buffer: 32,
            report_to: None,
            receipt_key: None,
            announcement_key: None,
            seed,
            limits: Limits::ENGINE,
        }
    }

    /// Sets the keys of receipts and announcements from the master key shared with senders, if there is one.
    pub fn with_key(self, master: Option<&[u8; 32]>) -> ReceiverConfig {
        ReceiverConfig {
            receipt_key: master.map(|key| member_key(key, self.member)),
            announcement_key: master.map(announcement_key),
            ..self
        }
    }

    /// Whether an announcement was made with the key; without a key every announcement is accepted.
    pub fn believes(&self, session: u64, open: &Open) -> bool {
        is_believed(self.announcement_key.as_ref(), session, open)
    }
}

/// Phase of a receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// No session.
    Idle,
    /// Takes part in a session.
    Joined,
    /// Has the complete object.
    Complete,
    /// The session has ended.
    Closed,
}

/// A running measurement of the sender's rate.
#[derive(Clone, Copy, Debug)]
struct Counting {
    round: u16,
    start: Symbol,
    received: u32,
}

/// The current session.
#[derive(Clone, Debug)]
struct Session {
    id: u64,
    sender: Peer,
    terms: Terms,
    /// When the sender was last heard.
    heard: Time,
    /// Data packets sent according to the last poll, and those received by then.
    came: u32,
    at_poll: Option<(u32, u32)>,
    loss: u16,
    /// Data packets that were lost, as far as polls tell.
    missing: u64,
}

/// The receiver of one session, sans-I/O; the crate's page describes how to drive it.
#[derive(Debug)]
pub struct Receiver<T> {
    config: ReceiverConfig,
    phase: Phase,
    session: Option<Session>,
    store: T,
    object: ObjectState,
    stream: Option<Box<StreamState>>,
    packet_size: u16,
    /// Number of packets sent, according to the last poll.
    upto: u64,
    /// Whether it cannot take data at present.
    busy: bool,
    /// Whether it was unable to, and the sender may not know that this has ended.
    was_busy: bool,
    postponed: bool,
    answer: Option<Answer>,
    /// When the good-bye is sent, after its back-off.
    goodbye: Option<Time>,
    /// When it reports by itself because no data arrives.
    data_wait: Option<Time>,
    /// Packets since the monitor bit that started the measurement.
    counting: Option<Counting>,
    random: Stream,
    out: VecDeque<Transmit>,
    events: VecDeque<ReceiverEvent>,
    stats: ReceiverStats,
    /// Name for observers, and the state that they know, if there are any: simulations have many receivers.
    name: Box<str>,
    seen: Option<Box<Seen>>,
    measured: QosConnection,
}

impl<T: Store> Receiver<T> {
    /// Creates a receiver that waits for a session and writes to `store`.
    pub fn new(config: ReceiverConfig, store: T) -> Receiver<T> {
        Receiver {
            random: Stream::new(config.seed ^ config.member.0, "multicast/back-off"),
            config,
            phase: Phase::Idle,
            session: None,
            store,
            object: ObjectState::default(),
            stream: None,
            packet_size: 0,
            upto: 0,
            busy: false,
            was_busy: false,
            postponed: false,
            answer: None,
            goodbye: None,
            data_wait: None,
            counting: None,
            out: VecDeque::new(),
            events: VecDeque::new(),
            stats: ReceiverStats::default(),
            name: Box::default(),
            seen: None,
            measured: QosConnection::new(QosTransport::Multicast),
        }
    }

    /// Sets the name for observers, empty by default.
    pub fn set_name(&mut self, name: &str) {
        self.name = name.into();
    }

    /// Processes a packet from the peer `from`.
    pub fn handle<O: Observer>(&mut self, now: Time, from: Peer, packet: &Packet, obs: &mut O) {
        crate::watch::packet(obs, now, self.subject(), packet, false);
        let before = (self.stats.duplicates, self.missing());
        self.hear(now, from, packet);
        self.measure_arrival(now, packet, before, obs);
        self.watch(now, obs);
    }

    fn hear(&mut self, now: Time, from: Peer, packet: &Packet) {
        if let Body::Open(open) = &packet.body {
            return self.on_open(now, from, packet.session, open);
        }
        let Some(session) = &mut self.session else {
            self.stats.strangers += 1;
            return;
        };
        let helper = self.config.report_to == Some(from);
        if session.id != packet.session || !(session.sender == from || helper) {
            self.stats.strangers += 1;
            return;
        }
        if self.phase == Phase::Closed {
            return;
        }
        session.heard = now;
        match &packet.body {
            Body::Data(data) => self.on_data(now, data),
            Body::Poll(poll) => self.on_poll(now, poll),
            Body::Release { .. } => self.on_release(now),
            Body::Suspend { member } if *member == self.config.member => {
                if !self.postponed {
                    self.postponed = true;
                    self.answer = None;
                    self.events.push_back(ReceiverEvent::Postponed);
                }
            }
            Body::Eject(eject) if eject.member == self.config.member => self.closed(eject.reason),
            Body::Abort { reason } => self.closed(*reason),
            _ => self.stats.strangers += 1,
        }
    }

    /// Executes all expired timers.
    pub fn on_timeout<O: Observer>(&mut self, now: Time, obs: &mut O) {
        self.run_due(now);
        self.watch(now, obs);
    }

    fn run_due(&mut self, now: Time) {
        if self.answer.as_ref().is_some_and(|answer| answer.at <= now) {
            self.answer_now(now);
        }
        if self.goodbye.is_some_and(|at| at <= now) {
            self.say_goodbye();
        }
        if self.data_wait.is_some_and(|at| at <= now) {
            self.data_wait = None;
            if self.answer.is_none() {
                self.pass_over(now, Span::ZERO);
                self.object.waited = self.answer.is_some();
            }
        }
        if self.sender_lost().is_some_and(|at| at <= now) {
            self.closed(Reason::Silent);
        }
    }

    /// Returns the next packet to send.
    pub fn poll_transmit<O: Observer>(&mut self, now: Time, obs: &mut O) -> Option<Transmit> {
        let transmit = self.out.pop_front();
        if let Some(transmit) = &transmit {
            crate::watch::packet(obs, now, self.subject(), &transmit.packet, true);
            if obs.measures() {
                let (subject, sent) = (self.subject(), (QosAction::Sent, false));
                measure::packet(self.measured, obs, now, subject, &transmit.packet, sent);
            }
        }
        self.watch(now, obs);
        transmit
    }

    /// Returns the next event for the user.
    pub fn poll_event(&mut self) -> Option<ReceiverEvent> {
        if let Some(seen) = &mut self.seen {
            seen.taken();
        }
        self.events.pop_front()
    }

    /// When to call [`on_timeout`](Receiver::on_timeout) and then drain [`poll_transmit`](Receiver::poll_transmit).
    pub fn poll_timeout(&self) -> Option<Time> {
        if !self.out.is_empty() {
            return Some(Time::ZERO);
        }
        let answer = self.answer.as_ref().map(|answer| answer.at);
        let own = earliest(earliest(answer, self.goodbye), self.data_wait);
        earliest(own, self.sender_lost())
    }

    /// Leaves the session.
    pub fn leave(&mut self, reason: Reason) {
        if matches!(self.phase, Phase::Joined | Phase::Complete) {
            // The sender must know that it takes part before it can leave.
            self.accept_now();
            let member = self.config.member;
            self.send(Body::Leave { member, reason });
            self.closed(reason);
        }
    }

    /// Whether the object is complete, with the right digest.
    pub fn is_complete(&self) -> bool {
        self.object.verified
    }

    /// Whether it takes part and is served after the others: its data may come by a second multicast address.
    pub fn is_postponed(&self) -> bool {
        self.postponed && self.phase == Phase::Joined
    }

    /// Whether the session has ended.
    pub fn is_closed(&self) -> bool {
        self.phase == Phase::Closed
    }

    /// Counters since the start.
    pub fn stats(&self) -> &ReceiverStats {
        &self.stats
    }

    /// Source packets present, and their total number.
    pub fn progress(&self) -> (u64, u64) {
        (self.object.held.count(), self.object.held.len())
    }

    /// The store of the object.
    pub fn store(&self) -> &T {
        &self.store
    }

    /// The store of the object, to work on it between packets: hash, save.
    pub fn store_mut(&mut self) -> &mut T {
        &mut self.store
    }

    /// The store of the object, and which source packets it holds: to save both.
    pub fn store_and_held(&mut self) -> (&mut T, &Bits) {
        (&mut self.store, &self.object.held)
    }

    /// Returns the store, for another session.
    pub fn into_store(self) -> T {
        self.store
    }

    /// A uniform time in a range of microseconds.
    fn uniform(&mut self, range_us: u32) -> Span {
        let range = Span::from_us(range_us.into());
        Span::from_ps(self.random.below(range.as_ps()))
    }

    fn sender_lost(&self) -> Option<Time> {
        let session = self.session.as_ref()?;
        let on = matches!(self.phase, Phase::Joined | Phase::Complete);
        let wait = Span::from_ms(session.terms.sender_wait_ms.into());
        // A complete receiver waits only for a good-bye, which may have been lost.
        let wait = match self.phase == Phase::Complete && self.object.reported {
            true => wait.mul_div(1, 4),
            false => wait,
        };
        (on && wait > Span::ZERO).then(|| session.heard + wait)
    }

    fn closed(&mut self, reason: Reason) {
        self.phase = Phase::Closed;
        self.answer = None;
        self.goodbye = None;
        self.data_wait = None;
        self.events.push_back(ReceiverEvent::Closed {
            complete: match &self.stream {
                Some(stream) => stream.is_whole(),
                None => self.object.verified,
            },
            reason,
        });
    }

    /// Sends to its sender or aggregator.
    fn send(&mut self, body: Body) {
        let Some(session) = &self.session else {
            return;
        };
        let to = self.config.report_to.unwrap_or(session.sender);
        self.out.push_back(Transmit {
            to: To::One(to),
            packet: Packet {
                session: session.id,
                body,
            },
        });
    }
}
