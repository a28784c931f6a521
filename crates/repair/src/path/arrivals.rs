use std::collections::VecDeque;
use std::ops::RangeInclusive;

use layercast_core::{Serial, Span, Time};

use super::steps::{Seen, Steps};
use crate::estimate::LeastOf;
use crate::hearing::one_way;
use crate::message::{Arrival, Feedback, MAX_ARRIVALS};

/// For how long the least delay holds; after that the drift of the clocks shows.
const BASE: Span = Span::from_secs(10);
/// Datagrams this much older than the newest one say nothing about the queue of now.
const NEWEST: Span = Span::from_ms(60);
/// A queue from which on the path is busy: datagrams arrive as fast as it carries them.
const BUSY: i64 = 9_000;
/// Over how long the rate of a busy path is measured at least and at most.
const RUN: (u64, u64) = (50_000, 300_000);
const MAX_RUN: usize = 64;
/// Delays are compared among datagrams of at least this share of the longest: the shorter, the less time a line takes.
const LONG_ONES: (u64, u64) = (3, 4);
/// A delay this far from the least one is that of another clock.
const JUMP: u64 = 60_000_000;

/// A report, with what is known of the datagrams that it speaks of.
pub(crate) struct Report<'a> {
    pub feedback: &'a Feedback,
    /// The newest counter that it knows of.
    pub hi: u64,
    /// The smoothed round trip.
    pub rtt: Span,
    /// When a datagram left exactly, its octets, and the octets of all up to and including it.
    pub sent: &'a dyn Fn(u64) -> Option<Left>,
    /// Whether the path does not carry a datagram of this number of octets.
    pub too_long: &'a dyn Fn(u32) -> bool,
}

/// A datagram that left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Left {
    /// `None`: not known to within some milliseconds.
    pub at: Option<Time>,
    pub octets: u32,
    pub total: u64,
    /// Octets of its longest part.
    pub part: u32,
}

/// What a report says of the path.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Arrived {
    /// Octets that arrived since the last report.
    pub octets: u64,
    /// Datagrams sent in that time, and those of them that did not arrive, without those that were too long.
    pub datagrams: u32,
    pub lost: u32,
    /// How much later than the fastest the newest datagrams came; `None`: no datagram is fit to say.
    pub delay: Option<Span>,
    /// When the newest of them left.
    pub left: Option<Time>,
    /// The path has become longer, by this.
    pub longer: Option<Span>,
}

/// What arrived, by the clock of the other end.
#[derive(Debug)]
pub(crate) struct Arrivals {
    /// Zero of delays.
    zero: Option<Serial>,
    /// Least delay of long datagrams, and the length of the longest, negative.
    base: LeastOf,
    longest: LeastOf,
    /// The newest datagram that has arrived: its counter, and its arrival in microseconds from an arbitrary zero.
    newest: Option<(u64, i64)>,
    /// Octets that arrived.
    total: u64,
    /// Arrivals while the path is busy, and the octets up to them.
    run: VecDeque<(i64, u64)>,
    /// Delay that is no queue, in microseconds, and jitter.
    foreign: i64,
    jitter: Span,
    steps: Steps,
}

impl Arrivals {
    pub fn new() -> Arrivals {
        Arrivals {
            zero: None,
            base: LeastOf::default(),
            longest: LeastOf::default(),
            newest: None,
            total: 0,
            run: VecDeque::with_capacity(MAX_RUN),
            foreign: 0,
            jitter: Span::ZERO,
            steps: Steps::default(),
        }
    }

    /// This delay is no queue of what is sent here: a datagram that waited no longer saw no busy path. Delays vary by `jitter`.
    pub fn set_foreign(&mut self, delay: Span, jitter: Span) {
        self.foreign = delay.as_us() as i64;
        self.jitter = jitter;
    }

    /// The delay has become longer at one moment, and it is not known yet whether the path has.
    pub fn is_in_doubt(&self) -> bool {
        self.steps.is_open()
    }

    /// Takes a report; `None` if no datagram arrived since the last one.
    pub fn take(&mut self, now: Time, report: &Report<'_>) -> Option<Arrived> {
        let (counter, ago) = first_arrival(report)?;
        let arrived = self.unwrap(report.feedback, ago);
        let sent = (report.sent)(counter)?;
        let before = self.newest;
        if before.is_some_and(|(last, _)| counter <= last) {
            return None;
        }
        self.newest = Some((counter, arrived));
        let (last, at) = before?;
        let octets = (report.sent)(last).and_then(|it| sent.total.checked_sub(it.total));
        let Some(octets) = octets.filter(|_| at <= arrived) else {
            // Nothing has been heard for longer than what was sent is remembered, or the clock of the other end jumped.
            self.run.clear();
            return None;
        };
        let (lost, lost_octets) = missing(report, last + 1..=counter);
        let too_long = if lost == 0 {
            0
        } else {
            too_long(report, last + 1..=counter)
        };
        let octets = octets.saturating_sub(lost_octets);
        self.total += octets;
        let (delay, longer) = self.delay(now, report, last);
        Some(Arrived {
            octets,
            datagrams: u32::try_from(counter - last)
                .unwrap_or(u32::MAX)
                .saturating_sub(too_long),
            lost: lost.saturating_sub(too_long),
            delay,
            left: sent.at,
            longer,
        })
    }

    /// The rate of arrivals while the path is busy, in bit/s.
    pub fn capacity(&self) -> Option<f64> {
        let (first, last) = (self.run.front()?, self.run.back()?);
        let span = last.0.abs_diff(first.0);
        (span >= RUN.0).then(|| (last.1 - first.1) as f64 * 8e6 / span as f64)
    }

    fn unwrap(&self, feedback: &Feedback, ago_us: u32) -> i64 {
        let at = Serial(feedback.tx_us.0.wrapping_sub(ago_us));
        match self.newest {
            Some((_, newest)) => newest + i64::from(at.diff(Serial(newest as u32))),
            None => i64::from(at.0),
        }
    }

    /// Notes the delays of the datagrams of a report, the last of the former one among them; gives that of the newest beyond the least, and
    /// by how much the path has become longer.
    fn delay(&mut self, now: Time, report: &Report<'_>, last: u64) -> (Option<Span>, Option<Span>) {
        let newest = self.newest;
        let Some(((newest, newest_at), sum)) =
            newest.and_then(|it| Some((it, (report.sent)(it.0)?.total)))
        else {
            return (None, None);
        };
        let mut seen = [None; MAX_ARRIVALS];
        let mut least: Option<i64> = None;
        // The oldest datagram since which all, up to the newest, saw a busy path.
        let mut busy_from: Option<(i64, u64)> = None;
        let mut is_busy = true;
        for (arrival, seen) in report.feedback.arrivals.iter().zip(&mut seen) {
            let Some(counter) = report.hi.checked_sub(arrival.back.into()) else {
                continue;
            };
            let Some(sent) = (report.sent)(counter) else {
                continue;
            };
            let Some(delay) = self.waited(now, report.feedback, arrival, sent) else {
                continue;
            };
            let at = self.unwrap(report.feedback, arrival.ago_us);
            if newest_at.saturating_sub(at) <= NEWEST.as_us() as i64 {
                least = Some(least.map_or(delay, |it| it.min(delay)));
            }
            is_busy &= delay - self.foreign > BUSY;
            if is_busy {
                let (_, lost) = missing(report, counter + 1..=newest);
                let after = sum.saturating_sub(sent.total).saturating_sub(lost);
                busy_from = Some((at, self.total.saturating_sub(after)));
            }
            if counter <= last {
                break;
            }
            let total = sent.total;
            *seen = Some(Seen { at, delay, total });
        }
        let mut longer = None;
        for seen in seen.into_iter().rev().flatten() {
            longer = self.steps.saw(seen, self.jitter).or(longer);
        }
        match busy_from {
            Some(from) => self.extend(from, is_busy, newest_at),
            None if least.is_some() => self.run.clear(),
            None => {}
        }
        (least.map(|us| Span::from_us(us.max(0) as u64)), longer)
    }

    /// How much later than the fastest a datagram came, in microseconds; `None` if it is not fit to say.
    fn waited(
        &mut self,
        now: Time,
        feedback: &Feedback,
        arrival: &Arrival,
        sent: Left,
    ) -> Option<i64> {
        self.longest.add(now, -i64::from(sent.octets), BASE);
        let longest = self.longest.get().map_or(0, i64::unsigned_abs);
        let is_long = u64::from(sent.octets) * LONG_ONES.1 >= longest * LONG_ONES.0;
        let left = sent.at.filter(|_| is_long)?;
        let delay = one_way(feedback, arrival, left);
        let mut delay = i64::from(delay.diff(*self.zero.get_or_insert(delay)));
        if self
            .base
            .get()
            .is_some_and(|base| delay.abs_diff(base) > JUMP)
        {
            (self.base, self.zero, delay) = (LeastOf::default(), None, 0);
        }
        self.base.add(now, delay, BASE);
        Some(delay - self.base.get().unwrap_or(delay))
    }

    /// The path is busy from an arrival up to the newest one; `goes_on`: and was before, as far as the report says.
    fn extend(&mut self, from: (i64, u64), goes_on: bool, newest: i64) {
        if !goes_on {
            self.run.clear();
        }
        if self.run.is_empty() {
            self.run.push_back(from);
        }
        if self.run.len() == MAX_RUN {
            self.run.pop_front();
        }
        self.run.push_back((newest, self.total));
        while self
            .run
            .get(1)
            .is_some_and(|(at, _)| newest.abs_diff(*at) >= RUN.1)
        {
            self.run.pop_front();
        }
    }
}

/// The newest datagram that a report says has arrived, and how long before the report.
fn first_arrival(report: &Report<'_>) -> Option<(u64, u32)> {
    let of = |back: u16| report.hi.checked_sub(back.into());
    let arrivals = report.feedback.arrivals.iter();
    let known = arrivals.filter_map(|it| Some((of(it.back)?, it.ago_us)));
    known.max_by_key(|(counter, _)| *counter)
}

/// How many of these counters a report lacks, and their octets.
fn missing(report: &Report<'_>, counters: RangeInclusive<u64>) -> (u32, u64) {
    let (from, to) = (*counters.start(), *counters.end());
    let mut count = 0;
    let mut octets = 0;
    for range in &report.feedback.missing {
        let Some(first) = report.hi.checked_sub(range.back.into()) else {
            continue;
        };
        let (first, end) = (first.max(from), (first + u64::from(range.len)).min(to + 1));
        if first < end {
            count += end - first;
            let total = |counter: u64| (report.sent)(counter).map(|it| it.total);
            if let (Some(to), Some(at)) = (total(end - 1), (report.sent)(first)) {
                octets += to - at.total + u64::from(at.octets);
            }
        }
    }
    (u32::try_from(count).unwrap_or(u32::MAX), octets)
}

/// How many of these counters a report lacks because their datagrams were too long for the path.
fn too_long(report: &Report<'_>, counters: RangeInclusive<u64>) -> u32 {
    let is_too_long =
        |counter: &u64| (report.sent)(*counter).is_some_and(|it| (report.too_long)(it.part));
    let lacks = |counter: &u64| {
        let back = report.hi.checked_sub(*counter);
        report.feedback.missing.iter().any(|range| {
            // From the oldest counter of the range on, `back` falls.
            let oldest = u64::from(range.back);
            back.is_some_and(|back| back <= oldest && oldest - back < u64::from(range.len))
        })
    };
    counters.filter(|it| is_too_long(it) && lacks(it)).count() as u32
}
