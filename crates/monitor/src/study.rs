//! The request line and the cost of events on a host of 1996, in virtual time: what the experiments measure (specs/user-to-user-qos.md 4).

use layercast_core::{QosAction, QosEvent, Span, Stream, Time};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::line::{RequestLine, Rule};
use crate::ring::{CAPACITY, Consumer, Producer, ring};
use crate::sync::Arc;

/// Events of a run at most.
const MOST: u64 = 100_000_000;

/// How events arrive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrivals {
    /// At exponentially distributed distances.
    Poisson,
    /// At equal distances.
    Regular,
}

/// Which rule raises the line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LineRule {
    /// See [`Rule::RaceFree`].
    RaceFree,
    /// See [`Rule::Literal`].
    Literal,
}

impl LineRule {
    fn rule(self) -> Rule {
        match self {
            LineRule::RaceFree => Rule::RaceFree,
            LineRule::Literal => Rule::Literal,
        }
    }
}

/// A producer and a monitor that needs `service_ns` for an event.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LineSetting {
    /// How events arrive.
    pub arrivals: Arrivals,
    /// The rule of the line.
    pub rule: LineRule,
    /// Load of the monitor.
    pub rho: f64,
    /// Time for an event.
    pub service_ns: u64,
    /// Events.
    pub events: u64,
    /// Seed.
    pub seed: u64,
}

/// What came of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct LineResult {
    /// Events that were put in.
    pub events: u64,
    /// How often the line was raised.
    pub signals: u64,
    /// Events for which there was no place.
    pub lost: u64,
}

/// Why a setting cannot run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum StudyError {
    /// A load that is none.
    #[error("rho: above 0 and below 1")]
    Load,
    /// Too many events, or none.
    #[error("events: 1 to {MOST}")]
    Events,
    /// A time of zero, or one beyond an hour.
    #[error(
        "service_ns, packet_ns, event_ns, redraw_ns: at most an hour; service_ns at least 1 ns"
    )]
    Time,
}

const HOUR_NS: u64 = 3_600_000_000_000;

impl LineSetting {
    /// Runs it: producer, ring, line and reader are those of a real host, driven in the order of virtual time.
    ///
    /// # Errors
    /// The setting is not possible.
    pub fn run(&self) -> Result<LineResult, StudyError> {
        if !(self.rho > 0.0 && self.rho < 1.0) {
            return Err(StudyError::Load);
        }
        if !(1..=MOST).contains(&self.events) {
            return Err(StudyError::Events);
        }
        if !(1..=HOUR_NS).contains(&self.service_ns) {
            return Err(StudyError::Time);
        }
        let mean = self.service_ns as f64 / self.rho;
        let mut random = Stream::new(self.seed, "monitor/arrivals");
        let mut host = Host::new(self.rule.rule());
        let mut at = 0.0;
        for _ in 0..self.events {
            at += match self.arrivals {
                Arrivals::Poisson => random.exponential(mean),
                Arrivals::Regular => mean,
            };
            let now = at as u64;
            host.serve(now, self.service_ns);
            let event = QosEvent {
                t_ns: now,
                ..QosEvent::new(1, QosAction::Sent, QosEvent::OUT, Time::ZERO)
            };
            host.producer.put_element(&event);
            host.start(now, self.service_ns);
        }
        Ok(LineResult {
            events: self.events,
            signals: host.line.signals(),
            lost: host.producer.events_lost(),
        })
    }
}

/// A ring with a reader that is busy until an instant.
struct Host {
    line: Arc<RequestLine>,
    producer: Producer,
    consumer: Vec<Consumer>,
    /// When the event in service is done; none: the reader waits.
    busy: Option<u64>,
    /// Events that were read, and the time that they took.
    read: u64,
}

impl Host {
    fn new(rule: Rule) -> Host {
        let line = Arc::new(RequestLine::new(rule, || {}));
        let (producer, consumer) = ring(CAPACITY, &line).expect("the capacity is a power of two");
        let consumer = vec![consumer];
        let mut host = Host {
            line,
            producer,
            consumer,
            busy: None,
            read: 0,
        };
        host.wait();
        host
    }

    fn wait(&mut self) {
        self.busy = None;
        let waits = self.line.arm(&self.consumer);
        debug_assert!(waits, "the ring was empty");
    }

    /// Reads what the reader can finish before `now`.
    fn serve(&mut self, now: u64, service: u64) {
        while let Some(done) = self.busy.filter(|done| *done <= now) {
            match self.consumer[0].get_element() {
                Some(_) => {
                    self.read += 1;
                    self.busy = Some(done + service);
                }
                None => self.wait(),
            }
        }
    }

    /// A waiting reader is woken.
    fn start(&mut self, now: u64, service: u64) {
        if self.busy.is_none() && self.consumer[0].get_element().is_some() {
            self.read += 1;
            self.busy = Some(now + service);
        }
    }
}

/// A transfer by a host whose one processor sends packets, handles events and draws a display.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostSetting {
    /// Octets of the transfer.
    pub bytes: u64,
    /// Octets of a packet.
    pub packet: u64,
    /// Time of the host for a packet.
    pub packet_ns: u64,
    /// Events of a packet; 0: no monitor.
    pub events_per_packet: u64,
    /// Time of the host for an event, the change of context included.
    pub event_ns: u64,
    /// Time of the host for drawing the display after an event.
    pub redraw_ns: u64,
}

/// What came of it.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct HostResult {
    /// Packets.
    pub packets: u64,
    /// Events that the monitor read.
    pub events: u64,
    /// How often the monitor was woken.
    pub wakeups: u64,
    /// Length of the transfer.
    pub seconds: f64,
    /// bit/s of the user.
    pub goodput_bps: f64,
}

impl HostSetting {
    /// Runs the transfer: each packet takes its time, then the monitor is woken by each event and takes its own.
    ///
    /// # Errors
    /// The setting is not possible.
    pub fn run(&self) -> Result<HostResult, StudyError> {
        let times = [self.packet_ns, self.event_ns, self.redraw_ns];
        if times.iter().any(|it| *it > HOUR_NS) {
            return Err(StudyError::Time);
        }
        let packets = self.bytes.div_ceil(self.packet.max(1));
        let events = packets.saturating_mul(self.events_per_packet);
        if packets == 0 || events > MOST || packets > MOST {
            return Err(StudyError::Events);
        }
        let mut host = Host::new(Rule::Literal);
        let mut now = Span::ZERO;
        for _ in 0..packets {
            now += Span::from_ns(self.packet_ns);
            for _ in 0..self.events_per_packet {
                let at = Time::ZERO + now;
                let event = QosEvent::new(1, QosAction::Sent, QosEvent::OUT, at);
                host.producer.put_element(&event);
                // One processor: the monitor runs, and the protocol waits.
                while host.consumer[0].get_element().is_some() {
                    host.read += 1;
                    now += Span::from_ns(self.event_ns) + Span::from_ns(self.redraw_ns);
                }
            }
        }
        debug_assert_eq!(events, host.read);
        let seconds = now.as_secs_f64();
        Ok(HostResult {
            packets,
            events: host.read,
            wakeups: host.line.signals(),
            seconds,
            goodput_bps: self.bytes as f64 * 8.0 / seconds,
        })
    }
}
