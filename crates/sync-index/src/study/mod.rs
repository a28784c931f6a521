//! A train beside other traffic through one FIFO link: the experiments of specs/available-bandwidth.md 4.
//!
//! The link is the bottleneck of the path, with a drop-tail queue; the Ethernets at both ends add a constant delay and the
//! spacing of back-to-back packets.

mod source;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use layercast_core::{Span, Time};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::config::{ConfigError, EstimatorConfig, Filter, Mode};
use crate::estimator::{Arrival, Counters, Estimator, Event, Numbers, Window};
use crate::outcome::Outcome;
use crate::selfsim::{Analysis, rs_pox, rs_prefix, variance_time};

pub use source::Source;
use source::State;

/// Longest run, seconds.
const LONGEST: f64 = 3_600.0;
/// Most sources of a run, each of a superposition counted.
const MOST_SOURCES: usize = 1_000;

/// Why a run is refused.
#[derive(Clone, PartialEq, Debug, Error)]
pub enum StudyError {
    /// A value is out of its range.
    #[error("{field} is {value}: {range}")]
    Range {
        /// The field.
        field: &'static str,
        /// Its value.
        value: f64,
        /// What it may be.
        range: &'static str,
    },
    /// The estimator cannot be configured so.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

/// The bottleneck.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Rate, bit/s.
    pub bps: f64,
    /// Packets of the queue, the one under way included.
    pub packets: usize,
    /// Round trip besides queueing and transmission, seconds.
    pub rtt_s: f64,
    /// Rate of the Ethernets, bit/s.
    pub ethernet_bps: f64,
}

impl Default for Link {
    /// The path of the specification.
    fn default() -> Link {
        Link {
            bps: 1.536e6,
            packets: 40,
            rtt_s: 0.004,
            ethernet_bps: 10e6,
        }
    }
}

/// A run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setting {
    /// Seed of all sources.
    pub seed: u64,
    /// Probes of the train.
    pub probes: u32,
    /// Its period, milliseconds.
    #[serde(default = "ten")]
    pub period_ms: f64,
    /// Bytes of a probe on the link.
    #[serde(default = "probe_bytes")]
    pub probe_bytes: u32,
    /// The bottleneck.
    #[serde(default)]
    pub link: Link,
    /// Other traffic.
    #[serde(default)]
    pub sources: Vec<Source>,
}

fn ten() -> f64 {
    10.0
}

fn probe_bytes() -> u32 {
    64
}

/// What the receiver of a run saw.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Trace {
    /// Period, milliseconds.
    pub period_ms: f64,
    /// Number, departure and arrival in seconds, of each probe that arrived.
    pub arrivals: Vec<(u32, f64, f64)>,
    /// Probes that the queue refused.
    pub probes_lost: u64,
    /// Part of the time that the link was busy.
    pub utilisation: f64,
    /// Packets of other traffic, and those that the queue refused.
    pub packets: u64,
    /// Those of other traffic that the queue refused.
    pub packets_lost: u64,
    /// Of each frame of video: seconds from its first packet to the arrival of its last one; null: incomplete.
    pub frames: Vec<Option<f64>>,
}

/// How a trace is analysed.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnalysisSetting {
    /// Lags of a window.
    pub m: u16,
    /// Windows of a percentile.
    pub n: u16,
    /// The percentile.
    pub eps: f64,
    /// Whether blocks overlap.
    pub mode: Mode,
    /// Which lags are formed.
    pub filter: Filter,
}

/// What an analysis finds.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Analysed {
    /// Lags with the slots of their packets, milliseconds.
    pub lags: Vec<(u64, f64)>,
    /// Windows.
    pub windows: Vec<Window>,
    /// Results of the blocks.
    pub outcomes: Vec<Outcome>,
    /// Packets.
    pub counters: Counters,
    /// Rescaled range of the lags, from the start.
    pub rs_prefix: Analysis,
    /// Rescaled range of the lags, several starts.
    pub rs_pox: Analysis,
    /// Variance-time of the lags.
    pub variance_time: Analysis,
}

/// A packet of a recorded train.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Packet {
    /// Its number.
    pub seq: u32,
    /// Departure in seconds, if it is known.
    pub sent_s: Option<f64>,
    /// Arrival in seconds.
    pub arrived_s: f64,
    /// Whether it left too late.
    pub late: bool,
    /// Slots before it that the sender left out.
    pub skipped: u32,
}

/// Analyses the packets of a train.
///
/// # Errors
/// A value of the configuration is out of its range.
pub fn analyse(
    period: Span,
    packets: impl IntoIterator<Item = Packet>,
    config: EstimatorConfig,
) -> Result<Analysed, StudyError> {
    let mut estimator = Estimator::new(config, period, Numbers::Long)?;
    let (mut lags, mut windows, mut outcomes) = (Vec::new(), Vec::new(), Vec::new());
    for packet in packets {
        let at = Time::ZERO.saturating_add(Span::from_secs_f64(packet.arrived_s));
        estimator.on_timeout(at);
        estimator.arrive(Arrival {
            at,
            seq: packet.seq,
            sent_ns: packet.sent_s.map(|it| Span::from_secs_f64(it).as_ns()),
            late: packet.late,
            skipped: packet.skipped,
        });
        while let Some(event) = estimator.poll_event() {
            match event {
                Event::Lag { slot, ms } => lags.push((slot, ms)),
                Event::Window(window) => windows.push(window),
                Event::Outcome(outcome) => outcomes.push(outcome),
                Event::Restarted | Event::SelfCongestion => {}
            }
        }
    }
    let series: Vec<f64> = lags.iter().map(|it| it.1).collect();
    Ok(Analysed {
        counters: estimator.counters(),
        rs_prefix: rs_prefix(&series),
        rs_pox: rs_pox(&series),
        variance_time: variance_time(&series),
        lags,
        windows,
        outcomes,
    })
}

impl Trace {
    /// The analysis of the train.
    ///
    /// # Errors
    /// A value of the setting is out of its range.
    pub fn analyse(&self, setting: AnalysisSetting) -> Result<Analysed, StudyError> {
        let config = EstimatorConfig {
            lags: setting.m,
            windows: setting.n,
            percentile: setting.eps,
            mode: setting.mode,
            filter: setting.filter,
            ..EstimatorConfig::default()
        };
        let packets = self.arrivals.iter().map(|&(seq, sent, arrived_s)| Packet {
            seq,
            sent_s: Some(sent),
            arrived_s,
            late: false,
            skipped: 0,
        });
        analyse(Span::from_secs_f64(self.period_ms / 1e3), packets, config)
    }
}

/// Nanoseconds since the start of a run.
type Ns = u64;

fn ns(seconds: f64) -> Ns {
    (seconds * 1e9).round() as Ns
}

/// What happens at an instant: a source wakes, or a packet reaches the bottleneck.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Happening {
    /// A source acts.
    Wake(usize),
    /// A packet of a source, with its bytes and what it is for the source.
    Packet { source: usize, bytes: u32, tag: u64 },
    /// A probe with its number.
    Probe(u32),
}

/// The bottleneck in operation.
struct Fifo {
    bps: f64,
    packets: usize,
    /// When each packet in the queue has left.
    departures: std::collections::VecDeque<Ns>,
    busy_ns: Ns,
}

impl Fifo {
    /// When a packet that comes now has passed the link; `None`: the queue is full.
    fn pass(&mut self, now: Ns, bytes: u32) -> Option<Ns> {
        while self.departures.front().is_some_and(|at| *at <= now) {
            self.departures.pop_front();
        }
        if self.departures.len() >= self.packets {
            return None;
        }
        let takes = ns(8.0 * f64::from(bytes) / self.bps);
        let leaves = self.departures.back().map_or(now, |at| *at) + takes;
        self.busy_ns += takes;
        self.departures.push_back(leaves);
        Some(leaves)
    }
}

/// What sources schedule.
struct Agenda {
    heap: BinaryHeap<Reverse<(Ns, u64, Happening)>>,
    count: u64,
    end: Ns,
}

impl Agenda {
    /// Nothing is scheduled behind the end of the run.
    fn at(&mut self, at: Ns, what: Happening) {
        if at <= self.end {
            self.count += 1;
            self.heap.push(Reverse((at, self.count, what)));
        }
    }
}

impl Setting {
    fn check(&self) -> Result<(), StudyError> {
        let within = |field, value: f64, least: f64, most: f64, range| {
            let ok = (least..=most).contains(&value);
            if ok {
                Ok(())
            } else {
                Err(StudyError::Range {
                    field,
                    value,
                    range,
                })
            }
        };
        within(
            "period_ms",
            self.period_ms,
            1.0,
            1_000.0,
            "give 1 to 1000 ms",
        )?;
        within(
            "probe_bytes",
            self.probe_bytes.into(),
            32.0,
            9_000.0,
            "give 32 to 9000 bytes",
        )?;
        let seconds = f64::from(self.probes) * self.period_ms / 1e3;
        within("probes", seconds, 0.0, LONGEST, "a run has at most 3600 s")?;
        within(
            "link.bps",
            self.link.bps,
            1e3,
            1e12,
            "give 1 kbit/s to 1 Tbit/s",
        )?;
        within(
            "link.ethernet_bps",
            self.link.ethernet_bps,
            1e3,
            1e12,
            "give 1 kbit/s to 1 Tbit/s",
        )?;
        within(
            "link.packets",
            self.link.packets as f64,
            1.0,
            1e6,
            "give 1 to 1000000 packets",
        )?;
        within("link.rtt_s", self.link.rtt_s, 0.0, 10.0, "give 0 to 10 s")?;
        let sources: usize = self.sources.iter().map(Source::count).sum();
        within(
            "sources",
            sources as f64,
            0.0,
            MOST_SOURCES as f64,
            "a run has at most 1000",
        )?;
        self.sources.iter().try_for_each(Source::check)
    }

    /// Runs the train beside the sources.
    ///
    /// # Errors
    /// A value of the setting is out of its range.
    pub fn run(&self) -> Result<Trace, StudyError> {
        self.check()?;
        let end = ns(f64::from(self.probes) * self.period_ms / 1e3);
        let mut agenda = Agenda {
            heap: BinaryHeap::new(),
            count: 0,
            end,
        };
        let mut fifo = Fifo {
            bps: self.link.bps,
            packets: self.link.packets,
            departures: std::collections::VecDeque::new(),
            busy_ns: 0,
        };
        let mut sources: Vec<State> = Vec::new();
        for source in &self.sources {
            for _ in 0..source.count() {
                let state = State::new(source, sources.len(), self);
                agenda.at(state.begins(), Happening::Wake(sources.len()));
                sources.push(state);
            }
        }
        let sent = |seq: u32| f64::from(seq) * self.period_ms / 1e3;
        if self.probes > 0 {
            agenda.at(0, Happening::Probe(0));
        }
        let one_way = ns(self.link.rtt_s / 2.0);
        let mut trace = Trace {
            period_ms: self.period_ms,
            arrivals: Vec::new(),
            probes_lost: 0,
            utilisation: 0.0,
            packets: 0,
            packets_lost: 0,
            frames: Vec::new(),
        };
        while let Some(Reverse((now, _, what))) = agenda.heap.pop() {
            match what {
                Happening::Wake(place) => sources[place].wake(now, &mut agenda),
                Happening::Packet { source, bytes, tag } => {
                    let leaves = fifo.pass(now, bytes);
                    trace.packets += 1;
                    trace.packets_lost += u64::from(leaves.is_none());
                    let arrives = leaves.map(|at| at + one_way);
                    sources[source].passed(now, arrives, tag, &mut agenda);
                }
                Happening::Probe(seq) => {
                    match fifo.pass(now, self.probe_bytes) {
                        Some(at) => {
                            trace
                                .arrivals
                                .push((seq, sent(seq), (at + one_way) as f64 / 1e9))
                        }
                        None => trace.probes_lost += 1,
                    }
                    if seq + 1 < self.probes {
                        agenda.at(ns(sent(seq + 1)), Happening::Probe(seq + 1));
                    }
                }
            }
        }
        trace.utilisation = fifo.busy_ns as f64 / end.max(1) as f64;
        trace.frames = sources.into_iter().flat_map(|it| it.frames(end)).collect();
        Ok(trace)
    }
}
