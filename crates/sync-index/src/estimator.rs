//! Arrivals to lags, windows and indices (specs/available-bandwidth.md 2.3 to 2.5, 2.8).

use std::collections::VecDeque;

use layercast_core::{Span, Time};
use serde::Serialize;

use crate::config::{ConfigError, EstimatorConfig, Filter, Mode, check_period};
use crate::outcome::{Estimate, NO_SIGNAL, Outcome};
use crate::queue::QueueLevel;
use crate::seen::{MEMORY, Seen};

/// Queueing delays that a window keeps.
const KEPT: u64 = 8;
/// Events that wait for the user; the oldest give way.
const MOST_EVENTS: usize = 4_096;
/// Departures farther apart than their numbers by more than that are wrong.
const IMPLAUSIBLE_NS: i128 = 60_000_000_000;
/// A window whose lags are longer than the period by more than that, in each of a block: the train loads the path.
const OVERLOAD: f64 = 1.05;

/// How many bits the numbers of a train have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Numbers {
    /// 16, as in compact probes and RTP.
    Short,
    /// 32.
    Long,
}

/// A packet of a train that arrived.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Arrival {
    /// When.
    pub at: Time,
    /// Its number.
    pub seq: u32,
    /// Departure by the clock of the sender, nanoseconds; without it the packet is taken to have left in its slot.
    pub sent_ns: Option<u64>,
    /// Whether it left too late.
    pub late: bool,
    /// Slots before it that the sender left out.
    pub skipped: u32,
}

impl Arrival {
    /// A packet with its number and nothing else.
    pub fn new(at: Time, seq: u32) -> Arrival {
        Arrival {
            at,
            seq,
            sent_ns: None,
            late: false,
            skipped: 0,
        }
    }
}

/// What an estimator tells.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The difference of two arrivals, by the filter, milliseconds.
    Lag {
        /// Slot of the later packet.
        slot: u64,
        /// The lag.
        ms: f64,
    },
    /// A window is full.
    Window(Window),
    /// A block is full, or the signal is gone.
    Outcome(Outcome),
    /// The numbers began again: windows and block are flushed.
    Restarted,
    /// The train loads the path: each window of a block had lags above 1.05 periods.
    SelfCongestion,
}

/// A window of lags.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Window {
    /// Number since the start, or since the last flush.
    pub index: u64,
    /// Lags in it.
    pub lags: u32,
    /// Probes lost in it.
    pub lost: u32,
    /// Mean of the lags, milliseconds.
    pub mean_ms: f64,
    /// Standard deviation with the divisor m - 1, milliseconds; null for fewer than two lags.
    pub sd_ms: Option<f64>,
}

/// What arrived since the start.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct Counters {
    /// Packets in the order of their numbers.
    pub in_order: u64,
    /// Packets behind a later one; not used.
    pub reordered: u64,
    /// Packets received before; not used.
    pub duplicates: u64,
    /// Packets too far behind to tell; not used.
    pub stale: u64,
    /// Probes that did not arrive.
    pub lost: u64,
    /// Slots that the sender left out.
    pub skipped: u64,
    /// Packets that left too late.
    pub late: u64,
    /// Arrivals before their predecessor, and departures that cannot be.
    pub clock_anomalies: u64,
    /// Slots from the first packet of each run of numbers to its highest one.
    pub slots: u64,
}

/// The last packet in order.
#[derive(Clone, Copy, Debug)]
struct Last {
    at: Time,
    sent_ns: Option<u64>,
}

/// Sums of the window under way.
#[derive(Clone, Debug, Default)]
struct Sums {
    lags: u32,
    mean: f64,
    squares: f64,
    /// Lost probes, for windows of counted lags.
    lost: u32,
    reordered: u32,
    late: u32,
    queue: Vec<f64>,
}

/// A window in a block.
#[derive(Clone, Debug)]
struct Closed {
    window: Window,
    skipped: u32,
    late: u32,
    queue: Vec<f64>,
}

/// Computes the index of a train from its arrivals. Sans-I/O; a constant amount of memory.
#[derive(Clone, Debug)]
pub struct Estimator {
    config: EstimatorConfig,
    period: Span,
    numbers: Numbers,
    seen: Option<Seen>,
    /// First slot of this run of numbers.
    first: u64,
    last: Option<Last>,
    /// The slot after which the grid of windows begins; `None`: at the next packet.
    grid: Option<u64>,
    window: u64,
    sums: Sums,
    skipped: u32,
    block: VecDeque<Closed>,
    queue: QueueLevel,
    /// Origin of the arrivals and departures that the level of the queue is computed from.
    origin: Option<(Time, u64)>,
    /// The number that would confirm a restart.
    restart: Option<u32>,
    silent_at: Option<Time>,
    counters: Counters,
    events: VecDeque<Event>,
}

impl Estimator {
    /// An estimator of a train of this period.
    ///
    /// # Errors
    /// A value of the configuration is out of its range.
    pub fn new(
        config: EstimatorConfig,
        period: Span,
        numbers: Numbers,
    ) -> Result<Estimator, ConfigError> {
        config.check()?;
        check_period(period)?;
        Ok(Estimator {
            config,
            period,
            numbers,
            seen: None,
            first: 0,
            last: None,
            grid: None,
            window: 0,
            sums: Sums::default(),
            skipped: 0,
            block: VecDeque::new(),
            queue: QueueLevel::default(),
            origin: None,
            restart: None,
            silent_at: None,
            counters: Counters::default(),
            events: VecDeque::new(),
        })
    }

    /// The configuration.
    pub fn config(&self) -> &EstimatorConfig {
        &self.config
    }

    /// Period of the train.
    pub fn period(&self) -> Span {
        self.period
    }

    /// What arrived since the start.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Without a packet for this long there is no signal.
    pub fn silence(&self) -> Span {
        self.period.times(10).max(Span::from_secs(1))
    }

    /// Takes a packet of the train.
    pub fn arrive(&mut self, it: Arrival) {
        self.silent_at = Some(it.at.saturating_add(self.silence()));
        let Some(seen) = &mut self.seen else {
            self.begin(it);
            return;
        };
        let highest = seen.highest();
        let ahead = match self.numbers {
            Numbers::Short => i64::from((it.seq as u16).wrapping_sub(highest as u16) as i16),
            Numbers::Long => i64::from(it.seq.wrapping_sub(highest as u32) as i32),
        };
        if ahead > 0 {
            self.restart = None;
            seen.advance(highest + ahead as u64);
            self.in_order(it, ahead as u64);
            return;
        }
        let slot = highest.saturating_add_signed(ahead);
        if ahead <= -(MEMORY as i64) {
            self.far_behind(it);
        } else if slot < self.first {
            self.counters.stale += 1;
        } else if seen.set(slot) {
            self.counters.reordered += 1;
            self.sums.reordered += 1;
            match self.counters.lost {
                0 => self.counters.skipped = self.counters.skipped.saturating_sub(1),
                _ => self.counters.lost -= 1,
            }
        } else {
            self.counters.duplicates += 1;
        }
    }

    /// The first packet of a run of numbers.
    fn begin(&mut self, it: Arrival) {
        // Slots before it have numbers, too.
        let number = match self.numbers {
            Numbers::Short => u64::from(it.seq as u16),
            Numbers::Long => u64::from(it.seq),
        };
        self.first = (1 << 32) + number;
        self.seen = Some(Seen::new(self.first));
        self.counters.slots += 1;
        self.counters.in_order += 1;
        self.counters.late += u64::from(it.late);
        self.queue = QueueLevel::default();
        self.align(it);
    }

    /// Two successive packets that are far behind the others: the sender has restarted. One alone is an old packet
    /// (RFC 3550, A.1).
    fn far_behind(&mut self, it: Arrival) {
        if self.restart != Some(it.seq) {
            self.counters.stale += 1;
            self.restart = Some(match self.numbers {
                Numbers::Short => u32::from((it.seq as u16).wrapping_add(1)),
                Numbers::Long => it.seq.wrapping_add(1),
            });
            return;
        }
        self.restart = None;
        self.flush();
        self.tell(Event::Restarted);
        self.begin(it);
    }

    /// The windows begin behind this packet.
    fn align(&mut self, it: Arrival) {
        self.grid = self.seen.as_ref().map(Seen::highest);
        self.last = Some(Last {
            at: it.at,
            sent_ns: it.sent_ns,
        });
        self.origin = Some((it.at, self.departure(&it)));
    }

    /// When a packet left, nanoseconds; without a stamp, in its slot.
    fn departure(&self, it: &Arrival) -> u64 {
        let slot = self.seen.as_ref().map_or(0, Seen::highest) - self.first;
        let in_slot = self.period.as_ns().saturating_mul(slot);
        it.sent_ns.unwrap_or(in_slot)
    }

    /// Discards the windows under way.
    fn flush(&mut self) {
        self.grid = None;
        self.window = 0;
        self.sums = Sums::default();
        self.skipped = 0;
        self.block.clear();
    }

    /// A packet with a number above all others, by `gap` slots.
    fn in_order(&mut self, it: Arrival, gap: u64) {
        let skipped = u64::from(it.skipped).min(gap - 1);
        let lost = gap - 1 - skipped;
        self.counters.in_order += 1;
        self.counters.slots += gap;
        self.counters.skipped += skipped;
        self.counters.lost += lost;
        self.counters.late += u64::from(it.late);
        if gap > self.config.block() && self.grid.is_some() {
            self.flush();
            let loss_ppm = ppm(lost, gap);
            self.tell(Event::Outcome(Outcome::NoSignal { loss_ppm }));
        }
        let (Some(grid), Some(last)) = (self.grid, self.last) else {
            self.align(it);
            return;
        };
        let slot = grid.max(self.seen.as_ref().map_or(grid, Seen::highest));
        self.skipped += skipped as u32;
        let lag = self.lag(&it, last, gap);
        let level = self.level(&it);
        self.last = Some(Last {
            at: it.at,
            sent_ns: it.sent_ns,
        });
        self.tell(Event::Lag {
            slot: slot - self.first,
            ms: lag,
        });
        let m = u64::from(self.config.lags);
        if self.config.filter == Filter::Robust {
            while self.window < (slot - grid - 1) / m {
                self.close();
            }
        }
        self.add(lag, level, it.late);
        self.sums.lost += lost as u32;
        let full = match self.config.filter {
            Filter::Robust => (slot - grid).is_multiple_of(m),
            Filter::Paper => u64::from(self.sums.lags) == m,
        };
        if full {
            self.close();
        }
    }

    /// The lag of a packet behind the one before, milliseconds.
    fn lag(&mut self, it: &Arrival, last: Last, gap: u64) -> f64 {
        if it.at < last.at {
            self.counters.clock_anomalies += 1;
        }
        let arrivals = it.at.since(last.at).as_ms_f64();
        if self.config.filter == Filter::Paper {
            return arrivals;
        }
        let slots_ns = i128::from(self.period.as_ns()) * i128::from(gap);
        let mut departures_ns = slots_ns;
        if let (Some(now), Some(before)) = (it.sent_ns, last.sent_ns) {
            let stamped = i128::from(now) - i128::from(before);
            match (0..=slots_ns + IMPLAUSIBLE_NS).contains(&stamped) {
                true => departures_ns = stamped,
                false => self.counters.clock_anomalies += 1,
            }
        }
        self.period.as_ms_f64() + arrivals - departures_ns as f64 / 1e6
    }

    /// The queueing delay of a packet, milliseconds.
    fn level(&mut self, it: &Arrival) -> f64 {
        let (at0, sent0) = self.origin.unwrap_or((it.at, 0));
        let at = it.at.since(at0).as_secs_f64();
        let sent = (i128::from(self.departure(it)) - i128::from(sent0)) as f64 / 1e9;
        1e3 * self.queue.push(at, at - sent)
    }

    fn add(&mut self, lag: f64, level: f64, late: bool) {
        let sums = &mut self.sums;
        sums.lags += 1;
        let off = lag - sums.mean;
        sums.mean += off / f64::from(sums.lags);
        sums.squares += off * (lag - sums.mean);
        sums.late += u32::from(late);
        if u64::from(sums.lags).is_multiple_of(u64::from(self.config.lags).div_ceil(KEPT)) {
            sums.queue.push(level);
        }
    }

    /// Ends the window under way.
    fn close(&mut self) {
        let sums = std::mem::take(&mut self.sums);
        let (skipped, missing) = match self.config.filter {
            Filter::Robust => {
                let missing = u32::from(self.config.lags).saturating_sub(sums.lags);
                let skipped = self.skipped.min(missing);
                (skipped, missing - skipped)
            }
            Filter::Paper => (self.skipped, sums.lost),
        };
        self.skipped -= skipped;
        let window = Window {
            index: self.window,
            lags: sums.lags,
            lost: missing.saturating_sub(sums.reordered),
            mean_ms: sums.mean,
            sd_ms: (sums.lags >= 2)
                .then(|| (sums.squares.max(0.0) / f64::from(sums.lags - 1)).sqrt()),
        };
        self.window += 1;
        self.tell(Event::Window(window));
        self.block.push_back(Closed {
            window,
            skipped,
            late: sums.late,
            queue: sums.queue,
        });
        let n = usize::from(self.config.windows);
        if self.block.len() > n {
            self.block.pop_front();
        }
        if self.block.len() < n {
            return;
        }
        let outcome = self.judge();
        self.tell(Event::Outcome(outcome));
        let limit = OVERLOAD * self.period.as_ms_f64();
        if self.block.iter().all(|it| it.window.mean_ms > limit) {
            self.tell(Event::SelfCongestion);
        }
        if self.config.mode == Mode::Tumbling {
            self.block.clear();
        }
    }

    /// What the block gives.
    fn judge(&self) -> Outcome {
        let config = &self.config;
        let sum = |of: fn(&Closed) -> u32| self.block.iter().map(|it| u64::from(of(it))).sum();
        let lags: u64 = sum(|it| it.window.lags);
        let lost: u64 = sum(|it| it.window.lost);
        let skipped: u64 = sum(|it| it.skipped);
        let late: u64 = sum(|it| it.late);
        let loss_ppm = ppm(lost, lags + lost);
        if loss_ppm >= NO_SIGNAL {
            return Outcome::NoSignal { loss_ppm };
        }
        let mut sds: Vec<f64> = self.block.iter().filter_map(|it| it.window.sd_ms).collect();
        let slots = lags + lost + skipped;
        if sds.is_empty() || 2 * lags < slots.max(config.block()) {
            return Outcome::Insufficient { loss_ppm };
        }
        let (sd, base) = (
            rank(&mut sds, config.percentile),
            config.baseline.as_ms_f64(),
        );
        let xi_ms = (sd * sd - base * base).max(0.0).sqrt();
        let total: f64 = self
            .block
            .iter()
            .map(|it| it.window.mean_ms * f64::from(it.window.lags))
            .sum();
        let mut queue: Vec<f64> = self
            .block
            .iter()
            .flat_map(|it| it.queue.iter().copied())
            .collect();
        Outcome::Estimate(Estimate {
            xi_ms,
            xi_over_period: xi_ms / self.period.as_ms_f64(),
            mean_ms: total / lags as f64,
            queue_ms: (!queue.is_empty()).then(|| rank(&mut queue, 0.95)),
            loss_ppm,
            floor_ms: config.floor().as_ms_f64(),
            reordered: self.counters.reordered,
            lost: self.counters.lost,
            n: config.windows,
            m: config.lags,
            eps: config.percentile,
            period_us: self.period.as_us() as u32,
            coarse_clock: config.resolution > Span::ZERO,
            sender_unreliable: config.filter == Filter::Paper && 10 * late > lags,
        })
    }

    /// Ends the signal if none came for too long.
    pub fn on_timeout(&mut self, now: Time) {
        if self.silent_at.is_some_and(|at| at <= now) {
            self.silent_at = None;
            self.flush();
            let loss_ppm = 1_000_000;
            self.tell(Event::Outcome(Outcome::NoSignal { loss_ppm }));
        }
    }

    /// When [`on_timeout`](Self::on_timeout) wants to be called.
    pub fn next_timeout(&self) -> Option<Time> {
        self.silent_at
    }

    /// The next thing to tell the user.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn tell(&mut self, event: Event) {
        if self.events.len() == MOST_EVENTS {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }
}

fn ppm(part: u64, of: u64) -> u32 {
    (u128::from(part) * 1_000_000 / u128::from(of.max(1))) as u32
}

/// The nearest-rank percentile; sorts the values, of which there must be one.
pub(crate) fn rank(values: &mut [f64], part: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    // A product such as 0.1 * 30 must not reach the next rank by rounding.
    let rank = (part * values.len() as f64 - 1e-9).ceil() as usize;
    values[rank.clamp(1, values.len()) - 1]
}
