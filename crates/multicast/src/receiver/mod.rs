//! The receiver: keeps what arrives, and answers when it is asked or when a pass ends.

mod answer;
mod object;
mod session;
mod stream;
mod watch;

use std::collections::VecDeque;

use layercast_core::{Observer, Span, Stream, Time, earliest};
use layercast_wire::multicast::{
    Accept, Body, Data, MemberId, Open, Packet, Poll, Reason, State, Symbol, Terms,
};

use self::answer::Answer;
use self::object::ObjectState;
use self::stream::StreamState;
use self::watch::Seen;
use crate::receipt::{announcement_key, is_believed, member_key};
use crate::{Bits, Geometry, Peer, ReceiverEvent, ReceiverStats, Store, To, Transmit};

/// What a receiver is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReceiverConfig {
    /// Its name.
    pub member: MemberId,
    /// Distinguishes lives of one member: another number after each restart.
    pub incarnation: u32,
    /// Tells receivers of one name apart: random, and the same in each life.
    pub identity: Option<u64>,
    /// Streams: packets that it holds until its user takes them.
    pub buffer: u32,
    /// To whom it reports, if not to the sender: an aggregator.
    pub report_to: Option<Peer>,
    /// Key of its receipts ([`member_key`](crate::member_key)).
    pub receipt_key: Option<[u8; 32]>,
    /// Key of announcements ([`announcement_key`](crate::announcement_key)): others are not believed.
    pub announcement_key: Option<[u8; 32]>,
    /// Seed of its back-off.
    pub seed: u64,
    /// What it takes at most: larger objects are refused before anything is allocated for them.
    pub limits: Limits,
}

/// The largest object that a receiver takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Source packets of an object at most.
    pub packets: u64,
    /// Blocks of an object with an erasure code at most.
    pub blocks: u32,
    /// Octets of a full packet at least, if the object has several.
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
    /// A receiver of this name, first life, 32 packets of buffer.
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

    /// With the master key that it shares with senders, if it does: of its receipts, and of the announcements that it
    /// believes.
    pub fn with_key(self, master: Option<&[u8; 32]>) -> ReceiverConfig {
        ReceiverConfig {
            receipt_key: master.map(|key| member_key(key, self.member)),
            announcement_key: master.map(announcement_key),
            ..self
        }
    }

    /// Whether an announcement comes from who has the key; without a key anybody may announce.
    pub fn believes(&self, session: u64, open: &Open) -> bool {
        is_believed(self.announcement_key.as_ref(), session, open)
    }
}

/// Where it stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// No session.
    Idle,
    /// Taking part.
    Joined,
    /// Has all of the object.
    Complete,
    /// Over.
    Closed,
}

/// A measurement of the sender's rate that runs.
#[derive(Clone, Copy, Debug)]
struct Counting {
    round: u16,
    start: Symbol,
    received: u32,
}

/// The session it takes part in.
#[derive(Clone, Debug)]
struct Session {
    id: u64,
    sender: Peer,
    terms: Terms,
    /// When the sender was heard last.
    heard: Time,
    /// Data packets that came, and at the last poll: as said by the sender, as counted here.
    came: u32,
    at_poll: Option<(u32, u32)>,
    loss: u16,
}

/// The receiver of one session, sans-I/O; see the crate's page for how it is driven.
#[derive(Debug)]
pub struct Receiver<T> {
    config: ReceiverConfig,
    phase: Phase,
    session: Option<Session>,
    store: T,
    object: ObjectState,
    stream: Option<Box<StreamState>>,
    packet_size: u16,
    /// What the last poll said was sent.
    upto: u64,
    /// It cannot take data now.
    busy: bool,
    /// It could not, and the sender has not shown that it knows better.
    was_busy: bool,
    postponed: bool,
    answer: Option<Answer>,
    /// The good-bye, after its back-off.
    goodbye: Option<Time>,
    /// When it reports unasked because nothing comes.
    data_wait: Option<Time>,
    /// Packets since the monitor bit that started counting.
    counting: Option<Counting>,
    random: Stream,
    out: VecDeque<Transmit>,
    events: VecDeque<ReceiverEvent>,
    stats: ReceiverStats,
    /// Its name to observers, and what they have seen, if there are any: simulators have many receivers.
    name: Box<str>,
    seen: Option<Box<Seen>>,
}

impl<T: Store> Receiver<T> {
    /// Waits for a session; what arrives goes into `store`.
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
        }
    }

    /// Is called so in what observers are told; nothing otherwise.
    pub fn set_name(&mut self, name: &str) {
        self.name = name.into();
    }

    /// Takes a packet that came from `from`.
    pub fn handle<O: Observer>(&mut self, now: Time, from: Peer, packet: &Packet, obs: &mut O) {
        crate::watch::packet(obs, now, self.subject(), packet, false);
        self.hear(now, from, packet);
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

    /// Runs what is due.
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

    /// The next packet to be sent.
    pub fn poll_transmit<O: Observer>(&mut self, now: Time, obs: &mut O) -> Option<Transmit> {
        let transmit = self.out.pop_front();
        if let Some(transmit) = &transmit {
            crate::watch::packet(obs, now, self.subject(), &transmit.packet, true);
        }
        self.watch(now, obs);
        transmit
    }

    /// The next thing to tell the user.
    pub fn poll_event(&mut self) -> Option<ReceiverEvent> {
        if let Some(seen) = &mut self.seen {
            seen.taken();
        }
        self.events.pop_front()
    }

    /// When to come back: then call [`on_timeout`](Receiver::on_timeout) and drain
    /// [`poll_transmit`](Receiver::poll_transmit).
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
            // Who is not known to take part cannot leave.
            self.accept_now();
            let member = self.config.member;
            self.send(Body::Leave { member, reason });
            self.closed(reason);
        }
    }

    /// Whether the object is there, whole, with the right digest.
    pub fn is_complete(&self) -> bool {
        self.object.verified
    }

    /// Whether it takes part and is served after the others: what is for it may come by a second multicast address.
    pub fn is_postponed(&self) -> bool {
        self.postponed && self.phase == Phase::Joined
    }

    /// Whether the session is over.
    pub fn is_closed(&self) -> bool {
        self.phase == Phase::Closed
    }

    /// What was counted.
    pub fn stats(&self) -> &ReceiverStats {
        &self.stats
    }

    /// Source packets of the object that are there, and of how many.
    pub fn progress(&self) -> (u64, u64) {
        (self.object.held.count(), self.object.held.len())
    }

    /// Where the object is kept.
    pub fn store(&self) -> &T {
        &self.store
    }

    /// Where the object is kept, to work on it between packets: hash, save.
    pub fn store_mut(&mut self) -> &mut T {
        &mut self.store
    }

    /// Where the object is kept, and which of its source packets are there: to save both.
    pub fn store_and_held(&mut self) -> (&mut T, &Bits) {
        (&mut self.store, &self.object.held)
    }

    /// Gives the store back, for another life or session.
    pub fn into_store(self) -> T {
        self.store
    }

    /// Uniform in a range of so many microseconds.
    fn uniform(&mut self, range_us: u32) -> Span {
        let range = Span::from_us(range_us.into());
        Span::from_ps(self.random.below(range.as_ps()))
    }

    fn sender_lost(&self) -> Option<Time> {
        let session = self.session.as_ref()?;
        let on = matches!(self.phase, Phase::Joined | Phase::Complete);
        let wait = Span::from_ms(session.terms.sender_wait_ms.into());
        // Who has said that all is there waits for a good-bye only, which may have been lost.
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

    /// Sends to whom it reports.
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
