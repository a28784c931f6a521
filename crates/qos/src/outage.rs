use std::collections::VecDeque;

use layercast_core::{Span, Time};

use crate::recent::APART;

/// After the first frame everything counts as jitter for this time: nothing is known of the path.
const SETTLED: Span = Span::from_secs(5);
/// Delays that are high for longer are a path that has become longer.
const LONGEST: Span = Span::from_secs(4);
/// Delays that are high again within this time are the same outage.
const TOGETHER: Span = Span::from_secs(1);
/// Outages that are remembered.
const REMEMBERED: usize = 16;

/// Tells single outages of a path from its jitter.
///
/// In an outage the delay rises above the playout delay and falls back to what it was before. The frames that it held up
/// say nothing of the jitter before and after it. Outages of less than half the height are no reason to take it for jitter. What held
/// frames up outside the path is no outage of it.
#[derive(Clone, Default, Debug)]
pub(crate) struct OutageDetector {
    start: Option<Time>,
    /// The ends of earlier outages and their heights in picoseconds; later ones are lower.
    earlier: VecDeque<(Time, i64)>,
    running: Option<Running>,
}

/// Delays are high.
#[derive(Clone, Copy, Debug)]
struct Running {
    began: Time,
    /// The playout delay before, in picoseconds.
    level: i64,
    /// When delays were high last, and by how much at most because of the path.
    last: Time,
    height: i64,
    is_settled: bool,
}

impl OutageDetector {
    /// Whether the frame that came at `now` with `delay`, of which it was `held` outside the path, was held up by a single outage; the
    /// playout delay is `playout` (all in picoseconds).
    pub fn on_arrival(&mut self, now: Time, delay: i64, held: i64, playout: i64) -> bool {
        let start = *self.start.get_or_insert(now);
        let delay = delay.saturating_sub(held);
        let Some(mut running) = self.running else {
            if delay <= playout {
                return false;
            }
            let running = Running {
                began: now,
                level: playout,
                last: now,
                height: delay.saturating_sub(playout),
                is_settled: now.since(start) >= SETTLED,
            };
            self.running = Some(running);
            return self.is_single(now, running);
        };
        let is_high = delay > running.level;
        if now.since(running.began) >= LONGEST || !is_high && now.since(running.last) >= TOGETHER {
            self.end(if is_high { now } else { running.last }, running.height);
            return false;
        }
        if is_high {
            running.last = now;
            running.height = running.height.max(delay.saturating_sub(running.level));
            self.running = Some(running);
        }
        is_high && self.is_single(running.began, running)
    }

    fn is_single(&self, now: Time, running: Running) -> bool {
        let is_like =
            |&(at, height): &(Time, i64)| now.since(at) < APART && height >= running.height / 2;
        running.is_settled && !self.earlier.iter().any(is_like)
    }

    fn end(&mut self, at: Time, height: i64) {
        self.running = None;
        while self.earlier.back().is_some_and(|it| it.1 <= height) {
            self.earlier.pop_back();
        }
        if self.earlier.len() == REMEMBERED {
            self.earlier.pop_front();
        }
        self.earlier.push_back((at, height));
    }

    /// Delays are high because the source is behind: that is no outage.
    pub fn no_outage(&mut self) {
        self.running = None;
    }
}
