//! The sender: poll, collect until a deadline, evaluate the list, act, next round.

mod barren;
mod clock;
mod collect;
mod eject;
mod end;
mod object;
mod opening;
mod pacer;
mod patience;
mod plan;
mod rates;
mod report;
mod round;
mod separate;
mod stream;
mod watch;

pub use self::stream::SendError;

use std::collections::VecDeque;

use layercast_core::{Observer, QosConnection, QosTransport, Rate, Span, Time, earliest};
use layercast_wire::multicast::{
    Ask, Body, Content, Data, DataFlags, MemberId, Needs, Object, Open, Packet, Poll, Reason,
    Symbol, Terms,
};

use self::clock::Clock;
use self::object::ObjectWork;
use self::pacer::Pacer;
use self::patience::Patience;
use self::rates::Measurement;
use self::round::{Phase, Round, Scope};
use self::stream::StreamWork;
use self::watch::Seen;
use crate::roster::{Record, Roster, Status};
use crate::{
    ConfigError, Delivery, Failure, Geometry, Members, Peer, RateControl, Schedule, SenderConfig,
    SenderEvent, SenderStats, Source, To, Transmit, Trigger,
};

/// Interval of announcements in sessions that receivers may join late.
const ANNOUNCED: Span = Span::from_secs(1);

/// The sender of a session, sans-I/O; the crate's page describes how to drive it.
#[derive(Debug)]
pub struct Sender<S> {
    config: SenderConfig,
    session: u64,
    members: Members,
    phase: Phase,
    roster: Roster,
    clock: Clock,
    round: Round,
    pacer: Pacer,
    out: VecDeque<Transmit>,
    /// Members to poll individually, and when the next poll may be sent.
    polls: VecDeque<u32>,
    next_poll: Time,
    /// Time of the next announcement for late receivers.
    next_open: Time,
    /// Receivers that took part when the session opened, then at the last poll of the group.
    group: u32,
    /// Receivers that answered the announcement and do not want the object.
    refused: u32,
    ejected: VecDeque<(MemberId, u32)>,
    events: VecDeque<SenderEvent>,
    stats: SenderStats,
    object: ObjectWork<S>,
    stream: Option<Box<StreamWork>>,
    measurement: Option<Measurement>,
    patience: Patience,
    /// The rate before the path failed.
    well: Option<Rate>,
    /// Name for observers, and the state that they know.
    name: Box<str>,
    seen: Seen,
    measured: QosConnection,
}

impl<S: Source> Sender<S> {
    /// Creates a sender of one object. `session` distinguishes sessions and should be random.
    pub fn object(
        session: u64,
        config: SenderConfig,
        members: Members,
        source: S,
    ) -> Result<Sender<S>, ConfigError> {
        match config.trigger {
            Trigger::Pass => Sender::with(session, config, members, source),
            Trigger::Timer { .. } => Err(ConfigError::Trigger),
        }
    }

    fn with(
        session: u64,
        config: SenderConfig,
        members: Members,
        source: S,
    ) -> Result<Sender<S>, ConfigError> {
        config.validate()?;
        let mut object = source.object();
        object.block = config.block;
        object.scheme = config.scheme;
        let geometry = Geometry::of(&object, config.packet_size)?;
        let roster = Roster::invited(&members, &config.completion)?;
        let monitor = config.rate.monitor();
        let rate = match config.rate {
            RateControl::Fixed(rate) => Some(rate),
            _ => monitor.map(|it| it.start),
        };
        Ok(Sender {
            clock: Clock::new(config.deadline, &config.schedule),
            object: ObjectWork::new(source, object, geometry, &config),
            round: Round::none(),
            config,
            session,
            members,
            phase: Phase::Idle,
            roster,
            pacer: Pacer::new(rate),
            out: VecDeque::new(),
            polls: VecDeque::new(),
            next_poll: Time::ZERO,
            next_open: Time::MAX,
            group: 0,
            refused: 0,
            ejected: VecDeque::new(),
            events: VecDeque::new(),
            stats: SenderStats::default(),
            stream: None,
            measurement: monitor.map(Measurement::new),
            patience: Patience::default(),
            well: None,
            name: "sender".into(),
            seen: Seen::nothing(),
            measured: QosConnection::new(QosTransport::Multicast),
        })
    }

    /// Announces the session.
    pub fn start(&mut self, now: Time) {
        if self.phase == Phase::Idle {
            self.open(now);
        }
    }

    /// Sets the name for observers, `sender` by default.
    pub fn set_name(&mut self, name: &str) {
        self.name = name.into();
    }

    /// Processes a packet from the peer `from`.
    pub fn handle<O: Observer>(&mut self, now: Time, from: Peer, packet: &Packet, obs: &mut O) {
        crate::watch::packet(obs, now, self.subject(), packet, false);
        let before = self.stats.reports;
        self.take(now, from, packet);
        let answers = self.stats.reports > before;
        self.measure_arrival(now, packet, answers, obs);
        self.watch(now, obs);
    }

    fn take(&mut self, now: Time, from: Peer, packet: &Packet) {
        if packet.session != self.session || matches!(self.phase, Phase::Idle | Phase::Closed) {
            self.stats.strangers += 1;
            return;
        }
        match &packet.body {
            Body::Accept(accept) => self.on_accept(now, from, accept),
            Body::Report(report) => self.on_report(now, from, report),
            Body::Released { member } => {
                if let Some(at) = self.known(*member, from) {
                    self.on_released(now, at);
                }
            }
            Body::Leave { member, reason } => {
                if let Some(at) = self.known(*member, from) {
                    self.lose(at, *reason);
                    self.stop_if_nobody_is_left(now);
                    self.after_answer(now);
                }
            }
            Body::Count(count) => {
                if let Some(at) = self.known(count.member, from) {
                    self.on_count(at, count);
                }
            }
            // Own packets, looped back by the network.
            _ => self.stats.strangers += 1,
        }
    }

    /// Executes all expired timers.
    pub fn on_timeout<O: Observer>(&mut self, now: Time, obs: &mut O) {
        self.run_due(now);
        self.watch(now, obs);
    }

    fn run_due(&mut self, now: Time) {
        let measured = self.measurement.as_ref().and_then(Measurement::until);
        if measured.is_some_and(|until| until <= now) {
            self.measured();
        }
        if now < self.round.deadline {
            return;
        }
        match self.phase {
            Phase::Opening => self.opening_over(now),
            Phase::Collecting => self.deadline_over(now),
            Phase::Releasing => self.released_all(now),
            Phase::Waiting => self.busy_over(now),
            Phase::Pausing => {
                let verifying = (0..self.roster.len()).filter(|&at| self.in_scope(at));
                self.charge_all(now, verifying.collect());
                if self.phase == Phase::Closed {
                    return;
                }
                self.begin_round();
                self.solicit(now, Ask::Everyone);
            }
            Phase::Idle | Phase::Sending | Phase::Closed => {}
        }
    }

    /// Returns the next packet that may be sent now.
    pub fn poll_transmit<O: Observer>(&mut self, now: Time, obs: &mut O) -> Option<Transmit> {
        let transmit = self.next_packet(now);
        if let Some(transmit) = &transmit {
            crate::watch::packet(obs, now, self.subject(), &transmit.packet, true);
            self.measure_departure(now, &transmit.packet, obs);
        }
        self.watch(now, obs);
        transmit
    }

    fn next_packet(&mut self, now: Time) -> Option<Transmit> {
        if let Some(transmit) = self.out.pop_front() {
            return Some(transmit);
        }
        if self.next_poll <= now
            && let Some(transmit) = self.poll_one(now)
        {
            return Some(transmit);
        }
        if self.object.next_hint(now)
            && let Some(transmit) = self.hint(now)
        {
            return Some(transmit);
        }
        if self.next_open <= now {
            self.next_open = now + ANNOUNCED;
            self.announce(now, To::Group);
            return self.out.pop_front();
        }
        match self.phase {
            Phase::Sending if self.pacer.ready(now) => self.next_data(now),
            Phase::Collecting if self.stream.is_some() => self.next_of_stream(now),
            _ => None,
        }
    }

    /// Returns the next event for the user.
    pub fn poll_event(&mut self) -> Option<SenderEvent> {
        self.seen.taken();
        self.events.pop_front()
    }

    /// When to call [`on_timeout`](Sender::on_timeout) and then drain [`poll_transmit`](Sender::poll_transmit).
    pub fn poll_timeout(&self) -> Option<Time> {
        if !self.out.is_empty() {
            return Some(Time::ZERO);
        }
        let timer = match self.phase {
            Phase::Idle | Phase::Closed => None,
            Phase::Sending => Some(self.pacer.next()),
            _ => Some(self.round.deadline),
        };
        let poll = (!self.polls.is_empty()).then_some(self.next_poll);
        let open = (self.next_open < Time::MAX).then_some(self.next_open);
        let measured = self.measurement.as_ref().and_then(Measurement::until);
        let data = match &self.stream {
            Some(stream) if stream.has_more() && self.round.tries == 0 => Some(self.pacer.next()),
            _ => None,
        };
        [timer, poll, open, measured, data, self.object.hint_at()]
            .into_iter()
            .fold(None, earliest)
    }

    /// Aborts the session and informs all receivers.
    pub fn abort(&mut self, reason: Reason) {
        if self.phase != Phase::Closed {
            self.give_up(reason, Failure::User);
        }
    }

    /// Whether the session has ended; packets left in [`poll_transmit`](Sender::poll_transmit) must still be sent.
    pub fn is_closed(&self) -> bool {
        self.phase == Phase::Closed
    }

    /// Counters since the start.
    pub fn stats(&self) -> &SenderStats {
        &self.stats
    }

    /// State of each receiver.
    pub fn deliveries(&self) -> impl Iterator<Item = Delivery> + '_ {
        self.roster.iter().map(Record::delivery)
    }

    /// State of one receiver.
    pub fn delivery(&self, member: MemberId) -> Option<Delivery> {
        let at = self.roster.find(member)?;
        Some(self.roster.get(at).delivery())
    }

    /// The sending rate; `None` if unlimited.
    pub fn rate(&self) -> Option<Rate> {
        self.pacer.rate()
    }

    /// Sets the sending rate, until the next decision of the rate control.
    pub fn set_rate(&mut self, rate: Rate) {
        self.well = None;
        self.pacer.set_rate(rate);
    }

    /// Packets of the current pass that are not yet sent.
    pub fn left_of_pass(&self) -> u64 {
        self.object.plan.left()
    }

    /// Number of the current pass.
    pub fn pass(&self) -> u16 {
        self.round.number
    }

    fn send(&mut self, to: To, body: Body) {
        self.out.push_back(Transmit {
            to,
            packet: Packet {
                session: self.session,
                body,
            },
        });
    }

    /// Sends a data packet.
    fn data(&mut self, now: Time, to: To, data: Data) -> Transmit {
        let octets = data.payload.len() as u64;
        self.stats.data += 1;
        self.stats.again += u64::from(data.flags.has(DataFlags::AGAIN));
        self.stats.parities += u64::from(matches!(data.symbol, Symbol::Parity { .. }));
        self.stats.unicast += u64::from(matches!(to, To::One(_)));
        self.stats.octets += octets;
        self.pacer.sent(now, octets);
        Transmit {
            to,
            packet: Packet {
                session: self.session,
                body: Body::Data(data),
            },
        }
    }

    /// The member, if this peer may report for it.
    fn known(&mut self, member: MemberId, from: Peer) -> Option<usize> {
        let found = self.roster.find(member);
        let found = found.filter(|&at| self.roster.get(at).peer == Some(from));
        self.stats.strangers += u64::from(found.is_none());
        found
    }
}
