//! The end of a train that measures it: handshake, sessions, reports (specs/available-bandwidth.md 2.1, 2.2, 2.8, 7).

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use layercast_core::{AddressBudgets, Rate, Span, Time, earliest};

use crate::config::{ConfigError, EstimatorConfig, Format, ProbeConfig, check_period};
use crate::estimator::{Arrival, Counters, Estimator, Event, Numbers};
use crate::outcome::Outcome;
use crate::pdu::{Control, Pdu, Probe, ProbeError, Reason};
use crate::sender::{LAST_WORDS, SILENCE};

/// Senders that are measured at the same time.
pub const MOST_SENDERS: usize = 16;
/// Addresses whose budget is kept.
const MOST_ADDRESSES: usize = 1_024;
/// A report is due that often; each result is reported immediately, too.
const REPORT_EVERY: Span = Span::from_secs(1);
/// The shortest time between two reports.
const REPORT_GAP: Span = Span::from_ms(100);
/// Events and answers that wait for the driver; the oldest give way.
const MOST_WAITING: usize = 8_192;

/// What a receiver tells of a sender.
#[derive(Clone, PartialEq, Debug)]
pub enum ReceiverEvent {
    /// A train may start.
    Opened {
        /// Session.
        session: u32,
        /// Period.
        period: Span,
        /// Format.
        format: Format,
    },
    /// A packet of the train, before the filter.
    Packet(Arrival),
    /// Of its estimator.
    Of(Event),
    /// The train is over.
    Closed {
        /// Session.
        session: u32,
        /// Why; `None`: the sender ended it.
        why: Option<CloseCause>,
        /// What arrived.
        counters: Counters,
    },
}

/// Why a train is over without a word of its sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CloseCause {
    /// Nothing came for ten seconds.
    Silent,
    /// It loads the path.
    SelfCongestion,
    /// The sender began another one.
    Restarted,
}

/// Datagrams that changed nothing.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, serde::Serialize)]
pub struct Ignored {
    /// Damaged, or of another protocol.
    pub bad: u64,
    /// Of another session.
    pub session: u64,
    /// Of senders that have not proved their address.
    pub unproved: u64,
    /// Answers withheld because they would be longer than three times what came.
    pub withheld: u64,
}

#[derive(Clone, Debug)]
struct Peer {
    session: u32,
    key: u64,
    format: Format,
    estimator: Estimator,
    last: Option<(Time, Outcome)>,
    number: u32,
    heard: Time,
    report_at: Time,
    reported: Time,
}

impl Peer {
    /// The last result.
    fn report(&self, now: Time) -> Control {
        let age = self.last.map_or(Span::ZERO, |(at, _)| now.since(at));
        Control::Report {
            session: self.session,
            key: self.key,
            number: self.number,
            age_ms: age.as_ms().min(u32::MAX.into()) as u32,
            outcome: self.last.map(|it| it.1),
        }
    }
}

/// Measures the trains of several senders, each known by its address `A`. Sans-I/O.
///
/// A stranger gets a token, as long as its call; a sender that has returned it is measured. Tokens are made by the driver:
/// a keyed hash of the address.
#[derive(Clone, Debug)]
pub struct ProbeReceiver<A> {
    config: EstimatorConfig,
    capacity: Option<Rate>,
    peers: BTreeMap<A, Peer>,
    budgets: AddressBudgets<A>,
    out: VecDeque<(A, Bytes)>,
    events: VecDeque<(A, ReceiverEvent)>,
    ignored: Ignored,
}

impl<A: Copy + Ord> ProbeReceiver<A> {
    /// A receiver that measures by this configuration; with a capacity of the path, it refuses trains of more than 5 %.
    ///
    /// # Errors
    /// A value of the configuration is out of its range.
    pub fn new(
        config: EstimatorConfig,
        capacity: Option<Rate>,
    ) -> Result<ProbeReceiver<A>, ConfigError> {
        config.check()?;
        Ok(ProbeReceiver {
            config,
            capacity,
            peers: BTreeMap::new(),
            budgets: AddressBudgets::new(MOST_ADDRESSES),
            out: VecDeque::new(),
            events: VecDeque::new(),
            ignored: Ignored::default(),
        })
    }

    /// How finely arrivals are stamped; for trains that begin afterwards.
    pub fn set_resolution(&mut self, resolution: Span) {
        self.config.resolution = resolution;
    }

    /// Datagrams that changed nothing.
    pub fn ignored(&self) -> Ignored {
        Ignored {
            withheld: self.budgets.refused(),
            ..self.ignored
        }
    }

    /// The estimator of a sender.
    pub fn estimator(&self, from: &A) -> Option<&Estimator> {
        self.peers.get(from).map(|peer| &peer.estimator)
    }

    /// Takes a datagram that arrived at `at`; `token` is that of its sender.
    ///
    /// # Errors
    /// It changes nothing; it is counted.
    pub fn handle(
        &mut self,
        at: Time,
        from: A,
        token: u64,
        datagram: &[u8],
    ) -> Result<(), ProbeError> {
        let taken = self.take(at, from, token, datagram);
        match taken {
            Ok(()) => {}
            Err(ProbeError::Session) => self.ignored.session += 1,
            Err(ProbeError::Unproved) => self.ignored.unproved += 1,
            Err(_) => self.ignored.bad += 1,
        }
        self.drain(at, from);
        taken
    }

    fn take(&mut self, at: Time, from: A, token: u64, datagram: &[u8]) -> Result<(), ProbeError> {
        match Pdu::decode(datagram)? {
            Pdu::Probe(probe) => self.probe(at, from, probe),
            Pdu::Control(Control::Hello {
                session,
                key,
                token: returned,
                period_us,
                format,
            }) => {
                self.budgets.receive(from, datagram.len());
                let period = Span::from_us(period_us.into());
                self.hello(
                    at,
                    from,
                    (session, key),
                    (token, returned),
                    (period, format),
                )
            }
            Pdu::Control(Control::Fin { session, key }) => {
                let is_known = |peer: &Peer| (peer.session, peer.key) == (session, key);
                let report = match self.peers.get(&from).filter(|it| is_known(it)) {
                    Some(peer) => peer.report(at),
                    None => return Err(ProbeError::Session),
                };
                // The last one of a train, with the result of the last block; the sender leaves after it.
                for _ in 0..LAST_WORDS {
                    self.answer(from, &report);
                }
                self.close(from, None);
                Ok(())
            }
            Pdu::Control(_) => Err(ProbeError::Session),
        }
    }

    fn hello(
        &mut self,
        at: Time,
        from: A,
        (session, key): (u32, u64),
        (token, returned): (u64, u64),
        (period, format): (Span, Format),
    ) -> Result<(), ProbeError> {
        let answer = |accepted| Control::Ok {
            session,
            key,
            token,
            accepted,
        };
        if returned != token {
            self.answer(from, &answer(false));
            return match returned {
                0 => Ok(()),
                _ => Err(ProbeError::Unproved),
            };
        }
        self.budgets.validate(from);
        if self
            .peers
            .get(&from)
            .is_some_and(|it| (it.session, it.key) == (session, key))
        {
            // The answer to the first one was lost.
            self.answer(from, &answer(true));
            return Ok(());
        }
        if let Some(reason) = self.refusal(from, period, format) {
            self.answer(
                from,
                &Control::Stop {
                    session,
                    key,
                    reason,
                },
            );
            return Ok(());
        }
        if self.peers.contains_key(&from) {
            self.close(from, Some(CloseCause::Restarted));
        }
        let numbers = match format {
            Format::Full => Numbers::Long,
            Format::Compact => Numbers::Short,
        };
        let Ok(estimator) = Estimator::new(self.config, period, numbers) else {
            return Ok(());
        };
        let peer = Peer {
            session,
            key,
            format,
            estimator,
            last: None,
            number: 0,
            heard: at,
            report_at: at.saturating_add(REPORT_EVERY),
            reported: at,
        };
        self.peers.insert(from, peer);
        self.tell(
            from,
            ReceiverEvent::Opened {
                session,
                period,
                format,
            },
        );
        self.answer(from, &answer(true));
        Ok(())
    }

    /// Why a train may not start.
    fn refusal(&self, from: A, period: Span, format: Format) -> Option<Reason> {
        if check_period(period).is_err() {
            return Some(Reason::Period);
        }
        let mut train = ProbeConfig::new(0, 0);
        (train.period, train.format, train.capacity) = (period, format, self.capacity);
        if train.check().is_err() {
            return Some(Reason::SelfCongestion);
        }
        let is_full = self.peers.len() >= MOST_SENDERS && !self.peers.contains_key(&from);
        is_full.then_some(Reason::Busy)
    }

    fn probe(&mut self, at: Time, from: A, probe: Probe) -> Result<(), ProbeError> {
        let peer = self.peers.get_mut(&from).ok_or(ProbeError::Session)?;
        let is_known = match (probe.full, peer.format) {
            (Some(_), Format::Full) => probe.session == peer.session,
            (None, Format::Compact) => probe.session == peer.session & 0xffff,
            _ => false,
        };
        if !is_known {
            return Err(ProbeError::Session);
        }
        peer.heard = at;
        let full = probe.full;
        let arrival = Arrival {
            at,
            seq: probe.seq,
            sent_ns: full.map(|it| it.sent_ns),
            late: full.is_some_and(|it| it.late),
            skipped: full.map_or(0, |it| it.skipped),
        };
        peer.estimator.arrive(arrival);
        self.tell(from, ReceiverEvent::Packet(arrival));
        self.drain(at, from);
        if full.is_some_and(|it| it.fin) {
            self.close(from, None);
        }
        Ok(())
    }

    /// Takes over what an estimator tells.
    fn drain(&mut self, now: Time, from: A) {
        let Some(peer) = self.peers.get_mut(&from) else {
            return;
        };
        let mut told = Vec::new();
        while let Some(event) = peer.estimator.poll_event() {
            if let Event::Outcome(outcome) = event {
                peer.last = Some((now, outcome));
                peer.number += 1;
                peer.report_at = peer.report_at.min(peer.reported.saturating_add(REPORT_GAP));
            }
            told.push(event);
        }
        let congested = told.contains(&Event::SelfCongestion);
        let (session, key) = (peer.session, peer.key);
        for event in told {
            self.tell(from, ReceiverEvent::Of(event));
        }
        if congested {
            let reason = Reason::SelfCongestion;
            self.answer(
                from,
                &Control::Stop {
                    session,
                    key,
                    reason,
                },
            );
            self.close(from, Some(CloseCause::SelfCongestion));
        }
    }

    fn close(&mut self, from: A, why: Option<CloseCause>) {
        if let Some(peer) = self.peers.remove(&from) {
            let event = ReceiverEvent::Closed {
                session: peer.session,
                why,
                counters: peer.estimator.counters(),
            };
            self.tell(from, event);
        }
    }

    /// Tells all senders that the receiver ends.
    pub fn stop(&mut self) {
        let peers: Vec<_> = self
            .peers
            .iter()
            .map(|(from, it)| (*from, it.session, it.key))
            .collect();
        for (from, session, key) in peers {
            let reason = Reason::Ended;
            self.answer(
                from,
                &Control::Stop {
                    session,
                    key,
                    reason,
                },
            );
            self.close(from, None);
        }
    }

    /// Ends signals and trains that went silent, and reports.
    pub fn on_timeout(&mut self, now: Time) {
        let peers: Vec<A> = self.peers.keys().copied().collect();
        for from in peers {
            if let Some(peer) = self.peers.get_mut(&from) {
                peer.estimator.on_timeout(now);
            }
            self.drain(now, from);
            let Some(peer) = self.peers.get_mut(&from) else {
                continue;
            };
            if now.since(peer.heard) >= SILENCE {
                self.close(from, Some(CloseCause::Silent));
            } else if peer.report_at <= now {
                peer.report_at = now.saturating_add(REPORT_EVERY);
                peer.reported = now;
                let report = peer.report(now);
                self.answer(from, &report);
            }
        }
    }

    /// When [`on_timeout`](Self::on_timeout) wants to be called.
    pub fn next_timeout(&self) -> Option<Time> {
        self.peers.values().fold(None, |next, peer| {
            let own = peer.report_at.min(peer.heard.saturating_add(SILENCE));
            earliest(next, earliest(Some(own), peer.estimator.next_timeout()))
        })
    }

    /// The next datagram and its destination.
    pub fn poll_transmit(&mut self) -> Option<(A, Bytes)> {
        self.out.pop_front()
    }

    /// The next event, and the sender it is about.
    pub fn poll_event(&mut self) -> Option<(A, ReceiverEvent)> {
        self.events.pop_front()
    }

    fn answer(&mut self, to: A, control: &Control) {
        let datagram = control.encode();
        if self.budgets.send(to, datagram.len()) {
            push(&mut self.out, (to, datagram));
        }
    }

    fn tell(&mut self, from: A, event: ReceiverEvent) {
        push(&mut self.events, (from, event));
    }
}

fn push<T>(queue: &mut VecDeque<T>, it: T) {
    if queue.len() == MOST_WAITING {
        queue.pop_front();
    }
    queue.push_back(it);
}
