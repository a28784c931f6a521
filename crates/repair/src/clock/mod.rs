//! The clock of the other end of a link.

mod line;

use std::collections::VecDeque;

use layercast_core::{Serial, Span, Time};

use crate::message::Feedback;
use line::{Line, Point};

/// Over how long one pair of least delays is looked for.
const BUCKET: i64 = 1_000_000;
/// How many of these pairs the line is laid through, and for how long each counts.
const BUCKETS: usize = 90;
const KEEP: i64 = 150_000_000;
/// A datagram that arrived longer before its report says nothing of the clocks of now.
const FRESH: u32 = 1_000_000;
/// To what extent times are exact: drivers read the clock once for all datagrams that they find.
const EXACT: Span = Span::from_ms(1);
/// Reports in a row that contradict the line until the clock is known to have been set, and by how much they have to.
const CONTRADICTIONS: u32 = 3;
const CONTRADICTION: i64 = 300;
/// A clock that was set by less shows when both directions move by the same amount, opposite, in two pairs in a row. The
/// amount is at least this, and this multiple of what the pairs usually vary by; this many pairs tell that.
const SMALL_STEP: f64 = 500.0;
const VARIES: f64 = 5.0;
const USUAL: usize = 20;
/// The line is that of this many pairs ago: those after the clock was set may have moved it since.
const LINES: usize = 6;

/// What the sending end of a link knows of the clock of the receiving end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HopClock {
    /// What the clock of the receiving end shows now, in microseconds modulo 2^32.
    pub there: Serial,
    /// By how much it gains on the clock of this end, in parts per 10^9.
    pub drift_ppb: i32,
    /// The error is at most this if the clocks run evenly: half of the least delay there and back, and 1 ms, to which drivers tell
    /// times. Half of what the least delays of the two directions differ by is the error that a fixed difference leaves.
    pub bound: Span,
    /// How long ago the newest feedback came that it follows from.
    pub age: Span,
    /// Mean one-way delay of the newest datagrams there, by these clocks: of the quickest one of each report.
    pub delay: Span,
    /// The same of the feedback back.
    pub delay_back: Span,
}

/// Finds offset and drift of the clock of the receiving end from its feedback.
///
/// A datagram that leaves at t1 and arrives at t2 by the clock there shows that the clock is ahead by t2 - t1 at most; feedback
/// that leaves at t3 by the clock there and arrives at t4 shows that it is by t3 - t4 at least. The nearest of each second keep
/// both within a band, and the line in the middle of the widest straight band is the clock.
///
/// State is bounded: [`BUCKETS`] pairs. Feedback that lies by less than the delays makes a wrong clock, and nothing else; what cannot be
/// true is left out until several reports in a row say it.
#[derive(Debug, Default)]
pub(crate) struct ClockEstimator {
    /// The newest difference of the clocks that was believed, unwrapped.
    newest: Option<i64>,
    running: Option<Pair>,
    /// The newest last.
    pairs: VecDeque<Pair>,
    line: Option<Line>,
    /// The lines after the last pairs, the newest last, and by how much the pairs vary around each.
    lines: VecDeque<(Line, f64)>,
    contradictions: u32,
    /// Datagrams that left before may have arrived before the clock was set.
    since: i64,
    /// The last pair, if both directions moved as after a step.
    moved: Option<f64>,
    heard: Option<Time>,
    /// Means of the delays in the last pair, there and back.
    delays: (i64, i64),
}

/// The nearest differences of a second.
#[derive(Clone, Copy, Debug)]
struct Pair {
    begun: i64,
    /// The clock is ahead by this at most, and by that at least.
    most: Option<Point>,
    least: Option<Point>,
    /// Sums of the differences, and their numbers.
    sums: [(i64, i64); 2],
}

impl ClockEstimator {
    /// Takes feedback that comes `now` and speaks of counters up to `hi`; `left` tells when a datagram was handed to the line.
    pub fn hear(
        &mut self,
        now: Time,
        hi: u64,
        feedback: &Feedback,
        left: impl Fn(u64) -> Option<Time>,
    ) {
        let here = now.as_us() as i64;
        let back = self.unwrap(here, feedback.tx_us.0.wrapping_sub(here as u32));
        let back = Point::new(here, back);
        let mut there: Option<Point> = None;
        for arrival in &feedback.arrivals {
            let counter = hi.checked_sub(arrival.back.into());
            let Some(left) = counter.and_then(&left).filter(|_| arrival.ago_us < FRESH) else {
                continue;
            };
            let left = left.as_us() as i64;
            if left < self.since {
                continue;
            }
            let arrived = feedback.tx_us.0.wrapping_sub(arrival.ago_us);
            let ahead = self.unwrap(here, arrived.wrapping_sub(left as u32));
            if there.is_none_or(|it| ahead < it.value) {
                there = Some(Point::new(left, ahead));
            }
        }
        if self.contradicts(there, back) {
            self.forget();
            self.newest = Some(back.value);
            (self.since, there) = (here, None);
        } else if self.is_impossible(there, back) {
            return;
        }
        self.heard = Some(now);
        self.newest = Some(back.value);
        self.note(here, there, back);
    }

    /// The clock of the other end; `None` before it is known.
    pub fn get(&self, now: Time) -> Option<HopClock> {
        let (line, heard) = self.line.zip(self.heard)?;
        let here = now.as_us() as i64;
        let ahead = line.at(here).round() as i64;
        let delay = |us: i64| Span::from_us(us.max(0) as u64);
        Some(HopClock {
            there: Serial((here as u32).wrapping_add(ahead as u32)),
            drift_ppb: (line.drift * 1e3).round() as i32,
            bound: Span::from_us(line.half_width.ceil().max(0.0) as u64) + EXACT,
            age: now.since(heard),
            delay: delay(self.delays.0),
            delay_back: delay(self.delays.1),
        })
    }

    /// A difference near the line, or near the newest one.
    fn unwrap(&self, here: i64, difference: u32) -> i64 {
        let line = self.line.map(|line| line.at(here).round() as i64);
        let near = line.or(self.newest).unwrap_or(i64::from(difference));
        let ahead = Serial(difference).diff(Serial(near as u32));
        near.saturating_add(ahead.into())
    }

    /// Whether a report shows that the clock is ahead by less than the least, or by more than the most, that others show: it is forged
    /// or damaged, unless more of them say so.
    fn is_impossible(&self, there: Option<Point>, back: Point) -> bool {
        let Some(line) = self.line else { return false };
        let beyond = line.half_width.max(0.0) + CONTRADICTION as f64;
        line.excludes(there, back, beyond)
    }

    /// Whether several reports in a row cannot come from a clock on the line.
    fn contradicts(&mut self, there: Option<Point>, back: Point) -> bool {
        let Some(line) = self.line else { return false };
        self.contradictions = match line.excludes(there, back, CONTRADICTION as f64) {
            true => self.contradictions + 1,
            false => 0,
        };
        self.contradictions >= CONTRADICTIONS
    }

    /// The clock was set: what came before says nothing.
    fn forget(&mut self) {
        self.pairs.clear();
        self.running = None;
        self.line = None;
        self.lines.clear();
        self.contradictions = 0;
        self.moved = None;
    }

    fn note(&mut self, here: i64, there: Option<Point>, back: Point) {
        if let Some(pair) = self.running
            && here.saturating_sub(pair.begun) >= BUCKET
            && pair.is_whole()
        {
            self.running = None;
            self.take(pair, here);
        }
        let pair = self.running.get_or_insert(Pair::new(here));
        pair.note(there, back);
        if self.pairs.is_empty() && pair.is_whole() {
            // A first idea, until there are several pairs.
            self.line = Line::through(pair.points().into_iter(), here);
            self.delays = self.line.map_or((0, 0), |line| pair.mean_delays(&line));
        }
    }

    /// Takes a pair that is complete.
    fn take(&mut self, pair: Pair, here: i64) {
        if self.is_step(&pair) {
            let before = self.pairs.pop_back();
            self.forget();
            self.pairs.extend(before);
        }
        if self.pairs.len() == BUCKETS {
            self.pairs.pop_front();
        }
        self.pairs.push_back(pair);
        while self
            .pairs
            .front()
            .is_some_and(|it| here.saturating_sub(it.begun) > KEEP)
        {
            self.pairs.pop_front();
        }
        self.line = Line::through(self.pairs.iter().filter_map(Pair::points), here);
        let Some(line) = self.line else { return };
        let mut varies = 0.0;
        for (most, least) in self.pairs.iter().filter_map(Pair::points) {
            let (above, below) = line.beyond(most, least);
            varies += (above.abs() + below.abs()) / 2.0;
        }
        if self.lines.len() == LINES {
            self.lines.pop_front();
        }
        let varies = varies / self.pairs.len() as f64;
        self.lines.push_back((line, varies));
        self.delays = pair.mean_delays(&line);
    }

    /// Whether both directions moved by the same amount as in the pair before, where the clock was set.
    fn is_step(&mut self, pair: &Pair) -> bool {
        let before = self.moved.take();
        let Some(((line, varies), (most, least))) = self.lines.front().zip(pair.points()) else {
            return false;
        };
        if self.pairs.len() < USUAL {
            return false;
        }
        let (above, below) = line.beyond(most, least);
        let (above, below) = (above, -below);
        let same = above * below > 0.0 && (above - below).abs() < above.abs().min(below.abs());
        let moved = above.abs().min(below.abs());
        if !same || moved < SMALL_STEP.max(VARIES * varies) {
            return false;
        }
        let moved = moved.copysign(above);
        self.moved = Some(moved);
        before.is_some_and(|before| (before - moved).abs() < moved.abs() / 2.0)
    }
}

impl Pair {
    fn new(begun: i64) -> Pair {
        Pair {
            begun,
            most: None,
            least: None,
            sums: [(0, 0); 2],
        }
    }

    fn is_whole(&self) -> bool {
        self.points().is_some()
    }

    fn points(&self) -> Option<(Point, Point)> {
        self.most.zip(self.least)
    }

    fn note(&mut self, there: Option<Point>, back: Point) {
        let add = |(sum, count): &mut (i64, i64), point: Point| {
            *sum = sum.saturating_add(point.value);
            *count += 1;
        };
        if let Some(there) = there {
            add(&mut self.sums[0], there);
            if self.most.is_none_or(|it| there.value < it.value) {
                self.most = Some(there);
            }
        }
        add(&mut self.sums[1], back);
        if self.least.is_none_or(|it| back.value > it.value) {
            self.least = Some(back);
        }
    }

    /// Mean delay there and back, in microseconds.
    fn mean_delays(&self, line: &Line) -> (i64, i64) {
        let [there, back] = self.sums.map(|(sum, count)| sum / count.max(1));
        let ahead = line.at(self.begun.saturating_add(BUCKET / 2)).round() as i64;
        (there.saturating_sub(ahead), ahead.saturating_sub(back))
    }
}

#[cfg(test)]
mod tests {
    use layercast_core::Serial;

    use super::*;
    use crate::message::Arrival;

    /// A report that says that the clock there is ahead by `ahead_us`, over delays of 20 ms.
    fn hear(clock: &mut ClockEstimator, at_ms: u64, ahead_us: i64) {
        let now = Time::ZERO + Span::from_ms(at_ms);
        let left = now.saturating_sub(Span::from_ms(45));
        let there = |time: Time| (time.as_us() as i64 + ahead_us) as u32;
        let feedback = Feedback {
            session: 0,
            tx_us: Serial(there(now.saturating_sub(Span::from_ms(20)))),
            hi: Serial(1),
            known: 1,
            window_us: 0,
            budget_ms: None,
            next_ms: 50,
            missing: Vec::new(),
            arrivals: vec![Arrival {
                back: 0,
                ago_us: 5_000,
            }],
        };
        clock.hear(now, 1, &feedback, |_| Some(left));
    }

    fn error(clock: &ClockEstimator, at_ms: u64, ahead_us: i64) -> i32 {
        let now = Time::ZERO + Span::from_ms(at_ms);
        let there = clock.get(now).expect("known").there;
        there.diff(Serial((now.as_us() as i64 + ahead_us) as u32))
    }

    #[test]
    fn reports_that_cannot_be_true_move_nothing_and_a_clock_that_is_set_is_believed() {
        let mut clock = ClockEstimator::default();
        let true_us = 3_600_000_000;
        for turn in 0..400 {
            let ms = 1_000 + turn * 50;
            hear(&mut clock, ms, true_us);
            // Each fifth report is followed by a forged one, or by two.
            if turn % 5 == 4 {
                for forged in 0..1 + turn % 2 {
                    let lie =
                        [1 << 31, -(1 << 31), 60_000, -70_000, 1 << 30][turn as usize / 5 % 5];
                    hear(&mut clock, ms + 1 + forged, true_us + lie);
                }
            }
            let off = error(&clock, ms + 10, true_us);
            assert!(off.abs() <= 300, "turn {turn}: {off} us");
        }
        for turn in 0..4 {
            hear(&mut clock, 30_000 + turn * 50, true_us + 7_000_000);
        }
        let off = error(&clock, 30_200, true_us + 7_000_000);
        assert!(off.abs() <= 300, "{off} us");
    }
}
