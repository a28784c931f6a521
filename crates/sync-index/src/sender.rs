//! The end of a train that sends it (specs/available-bandwidth.md 2.2).

use std::collections::VecDeque;

use bytes::Bytes;
use layercast_core::{Machine, Observer, Span, Time};

use crate::config::{ConfigError, Format, ProbeConfig};
use crate::outcome::Outcome;
use crate::pdu::{Control, FullPart, MOST_SKIPPED, Pdu, Probe, ProbeError, Reason};

/// Calls before the receiver counts as absent, and time between two.
pub const TRIES: u32 = 3;
/// Time between two calls.
pub const CALL_EVERY: Span = Span::from_secs(1);
/// A receiver that is silent for this long stops the train.
pub const SILENCE: Span = Span::from_secs(10);
/// Time after the last slot for the result of the last block, which the receiver does not take for silence.
const LINGER: Span = Span::from_ms(500);
/// Copies of the last message, since one may be lost.
pub(crate) const LAST_WORDS: u32 = 3;
/// What the last result may take beyond a round trip: the path had that of the call, and may be slower now.
const LAST_RESULT: Span = Span::from_ms(100);
/// A round trip counts as at most this.
const LONGEST_TRIP: Span = Span::from_secs(2);

/// What a sender tells.
#[derive(Clone, PartialEq, Debug)]
pub enum SenderEvent {
    /// The receiver takes the train.
    Started,
    /// A result of the receiver.
    Report {
        /// Its number.
        number: u32,
        /// Its age.
        age: Span,
        /// The result.
        outcome: Outcome,
    },
    /// The train is over: all slots were sent, or the user stopped it.
    Finished,
    /// The receiver refuses or ends the train.
    Refused(Reason),
    /// No answer to any call.
    NoAnswer,
    /// The receiver went silent.
    Silent,
}

/// What a sender did.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, serde::Serialize)]
pub struct SenderStats {
    /// Probes sent.
    pub sent: u64,
    /// Slots left out because this host was too late.
    pub skipped: u64,
    /// Probes that left later than a tenth of the period.
    pub late: u64,
    /// Datagrams that were no answer of the receiver.
    pub bad_pdu: u64,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// Waits for an answer to the call.
    Calling {
        tries: u32,
        token: u64,
        next: Time,
    },
    /// Sends slot `slot` at `start + slot * period`.
    Sending {
        start: Time,
        slot: u64,
        heard: Time,
    },
    /// All slots were sent and the receiver knows it: waits for its last result.
    Ending {
        until: Time,
    },
    Over,
}

/// Calls a receiver and sends it a train. Sends nothing but calls before the receiver has answered.
#[derive(Clone, Debug)]
pub struct ProbeSender {
    config: ProbeConfig,
    state: State,
    out: VecDeque<Bytes>,
    events: VecDeque<SenderEvent>,
    number: u32,
    /// When the last call left, and the time until it was accepted.
    called: Time,
    trip: Span,
    stats: SenderStats,
}

impl ProbeSender {
    /// Calls the receiver at `now`.
    ///
    /// # Errors
    /// A value of the configuration is out of its range.
    pub fn new(config: ProbeConfig, now: Time) -> Result<ProbeSender, ConfigError> {
        config.check()?;
        Ok(ProbeSender {
            config,
            state: State::Calling {
                tries: 0,
                token: 0,
                next: now,
            },
            out: VecDeque::new(),
            events: VecDeque::new(),
            number: 0,
            called: now,
            trip: Span::ZERO,
            stats: SenderStats::default(),
        })
    }

    /// Whether it has nothing more to send and to hear.
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Over) && self.out.is_empty()
    }

    /// What it did.
    pub fn stats(&self) -> SenderStats {
        self.stats
    }

    /// When the next slot is due, or the train ends.
    fn due(&self, start: Time, slot: u64) -> Time {
        let at = start.saturating_add(self.config.period.times(slot));
        match self.config.count {
            Some(count) if slot >= count => at.saturating_add(LINGER),
            _ => at,
        }
    }

    /// Takes a datagram from the receiver.
    ///
    /// # Errors
    /// It is no answer of the receiver; it is counted, and changes nothing.
    pub fn handle_datagram(&mut self, now: Time, datagram: &[u8]) -> Result<(), ProbeError> {
        let taken = self.take(now, datagram);
        self.stats.bad_pdu += u64::from(taken.is_err());
        taken
    }

    fn take(&mut self, now: Time, datagram: &[u8]) -> Result<(), ProbeError> {
        let Pdu::Control(control) = Pdu::decode(datagram)? else {
            return Err(ProbeError::Session);
        };
        let ours =
            |session: u32, key: u64| (session, key) == (self.config.session, self.config.key);
        match (control, &mut self.state) {
            (
                Control::Ok {
                    session,
                    key,
                    token,
                    accepted,
                },
                state,
            ) if ours(session, key) => match state {
                State::Calling { .. } if accepted => {
                    self.trip = now.since(self.called).min(LONGEST_TRIP);
                    self.state = State::Sending {
                        start: now,
                        slot: 0,
                        heard: now,
                    };
                    self.events.push_back(SenderEvent::Started);
                }
                State::Calling {
                    tries,
                    token: known,
                    next,
                } if *known != token => {
                    // The token is new: return it immediately.
                    (*tries, *known, *next) = (0, token, now);
                }
                State::Sending { heard, .. } => *heard = now,
                _ => {}
            },
            (
                Control::Stop {
                    session,
                    key,
                    reason,
                },
                state,
            ) if ours(session, key) => {
                if !matches!(state, State::Over) {
                    self.state = State::Over;
                    self.events.push_back(SenderEvent::Refused(reason));
                }
            }
            (
                Control::Report {
                    session,
                    key,
                    number,
                    age_ms,
                    outcome,
                },
                state @ (State::Sending { .. } | State::Ending { .. }),
            ) if ours(session, key) => {
                if let State::Sending { heard, .. } = state {
                    *heard = now;
                }
                if let Some(outcome) = outcome.filter(|_| number > self.number) {
                    self.number = number;
                    let age = Span::from_ms(age_ms.into());
                    self.events.push_back(SenderEvent::Report {
                        number,
                        age,
                        outcome,
                    });
                }
            }
            (Control::Report { session, key, .. }, _) if ours(session, key) => {}
            _ => return Err(ProbeError::Session),
        }
        Ok(())
    }

    fn say_end(&mut self) {
        let (session, key) = (self.config.session, self.config.key);
        for _ in 0..LAST_WORDS {
            self.out.push_back(Control::Fin { session, key }.encode());
        }
    }

    /// Ends the train immediately and tells the receiver.
    pub fn stop(&mut self) {
        if let State::Sending { .. } = self.state {
            self.say_end();
        }
        if !matches!(self.state, State::Over) {
            self.state = State::Over;
            self.events.push_back(SenderEvent::Finished);
        }
    }

    /// Calls again, gives up, or stops.
    pub fn on_timeout(&mut self, now: Time) {
        match &mut self.state {
            State::Calling { tries, next, .. } if *next <= now && *tries == TRIES => {
                self.state = State::Over;
                self.events.push_back(SenderEvent::NoAnswer);
            }
            State::Sending { heard, .. } if now.since(*heard) >= SILENCE => {
                self.state = State::Over;
                self.events.push_back(SenderEvent::Silent);
            }
            State::Ending { until } if *until <= now => self.stop(),
            _ => {}
        }
    }

    /// The next datagram that may leave at `now`.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Bytes> {
        if let Some(control) = self.out.pop_front() {
            return Some(control);
        }
        let config = self.config;
        match &mut self.state {
            State::Calling { tries, token, next } if *next <= now && *tries < TRIES => {
                *tries += 1;
                *next = now.saturating_add(CALL_EVERY);
                self.called = now;
                let hello = Control::Hello {
                    session: config.session,
                    key: config.key,
                    token: *token,
                    period_us: config.period.as_us() as u32,
                    format: config.format,
                };
                Some(hello.encode())
            }
            &mut State::Sending { start, slot, heard } => self.probe(now, start, slot, heard),
            _ => None,
        }
    }

    /// The probe of the slot that is due at `now`; behind the last slot, the end of the train.
    fn probe(&mut self, now: Time, start: Time, slot: u64, heard: Time) -> Option<Bytes> {
        let config = self.config;
        let is_behind = |slot: u64| config.count.is_some_and(|count| slot >= count);
        let due = self.due(start, slot);
        if due > now {
            return None;
        }
        if is_behind(slot) {
            self.say_end();
            // Its answer to the end has the result of the last block.
            let until = now.saturating_add(self.trip.mul_div(3, 2) + LAST_RESULT);
            self.state = State::Ending { until };
            return self.out.pop_front();
        }
        let late = now.since(due);
        // Several slots are due: a burst of them would read as asynchronicity of the path.
        let skipped = late.as_ps() / config.period.as_ps();
        let slot = slot + skipped;
        let is_over = is_behind(slot);
        self.state = State::Sending {
            start,
            slot: if is_over { slot } else { slot + 1 },
            heard,
        };
        if is_over {
            return None;
        }
        let is_late = late > config.period.mul_div(1, 10);
        self.stats.sent += 1;
        self.stats.skipped += skipped;
        self.stats.late += u64::from(is_late);
        let full = (config.format == Format::Full).then(|| FullPart {
            late: is_late,
            fin: false,
            skipped: skipped.min(MOST_SKIPPED.into()) as u32,
            period_us: config.period.as_us() as u32,
            sent_ns: now.as_ps() / 1_000,
        });
        let (session, seq) = (config.session, slot as u32);
        Some(Probe { session, seq, full }.encode())
    }

    /// The next thing to tell the user.
    pub fn poll_event(&mut self) -> Option<SenderEvent> {
        self.events.pop_front()
    }

    /// When [`on_timeout`](Self::on_timeout) and [`poll_transmit`](Self::poll_transmit) want to be called.
    pub fn next_timeout(&self) -> Option<Time> {
        match self.state {
            State::Calling { next, .. } => Some(next),
            State::Sending { start, slot, heard } => {
                let due = self.due(start, slot);
                Some(due.min(heard.saturating_add(SILENCE)))
            }
            State::Ending { until } => Some(until),
            State::Over => None,
        }
    }
}

impl Machine for ProbeSender {
    type Input = Bytes;
    type Transmit = Bytes;
    type Event = SenderEvent;

    fn handle<O: Observer>(&mut self, now: Time, input: Bytes, _: &mut O) {
        // A bad datagram is counted.
        let _ = self.handle_datagram(now, &input);
    }

    fn on_timeout<O: Observer>(&mut self, now: Time, _: &mut O) {
        self.on_timeout(now);
    }

    fn poll_transmit<O: Observer>(&mut self, now: Time, _: &mut O) -> Option<Bytes> {
        self.poll_transmit(now)
    }

    fn poll_event(&mut self) -> Option<SenderEvent> {
        self.poll_event()
    }

    fn next_timeout(&self) -> Option<Time> {
        self.next_timeout()
    }
}
