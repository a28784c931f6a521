//! The level of the queue ahead of the probes: what the index does not see when a full queue is served smoothly
//! (specs/available-bandwidth.md 8, idea 1).

use std::collections::VecDeque;

/// Seconds over which the least delay is taken.
const SECONDS: usize = 60;
/// Seconds from which the drift of the clocks is estimated.
const ENOUGH: f64 = 10.0;
/// Largest drift between two clocks: a steeper line is a queue, and a queue that fills more slowly is taken for drift.
const DRIFT: f64 = 200e-6;

/// Delay of the probes above the line under all delays of the last minute.
#[derive(Clone, Debug, Default)]
pub(crate) struct QueueLevel {
    /// The least delay of each second: instant and delay, seconds.
    least: VecDeque<(f64, f64)>,
    /// Slope of the line under them.
    slope: f64,
    /// Delay of the line at instant zero.
    offset: f64,
}

impl QueueLevel {
    /// The queueing delay of a probe that arrived at second `at` with this delay; both have any origin.
    pub(crate) fn push(&mut self, at: f64, delay: f64) -> f64 {
        match self.least.back_mut() {
            Some(last) if last.0.floor() == at.floor() => {
                if delay < last.1 {
                    *last = (at, delay);
                }
            }
            _ => {
                if self.least.len() == SECONDS {
                    self.least.pop_front();
                }
                self.least.push_back((at, delay));
                self.fit();
            }
        }
        let above = delay - (self.offset + self.slope * at);
        if above < 0.0 {
            self.offset += above;
        }
        above.max(0.0)
    }

    /// The edge of the lower hull below the middle of the time.
    fn fit(&mut self) {
        let (Some(first), Some(last)) = (self.least.front(), self.least.back()) else {
            return;
        };
        let middle = f64::midpoint(first.0, last.0);
        self.slope = 0.0;
        if last.0 - first.0 >= ENOUGH {
            let mut hull: Vec<(f64, f64)> = Vec::new();
            for &point in &self.least {
                while let [.., a, b] = hull[..] {
                    // b is above the line from a to the point.
                    if (b.1 - a.1) * (point.0 - a.0) < (point.1 - a.1) * (b.0 - a.0) {
                        break;
                    }
                    hull.pop();
                }
                hull.push(point);
            }
            let edge = hull.windows(2).find(|edge| edge[1].0 >= middle);
            let slope = edge.map_or(0.0, |edge| {
                (edge[1].1 - edge[0].1) / (edge[1].0 - edge[0].0)
            });
            if slope.abs() <= DRIFT {
                self.slope = slope;
            }
        }
        let under = |&(at, delay): &(f64, f64)| delay - self.slope * at;
        self.offset = self.least.iter().map(under).fold(f64::INFINITY, f64::min);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drift_of_the_clocks_is_no_queue() {
        let mut level = QueueLevel::default();
        for k in 0..12_000 {
            let at = f64::from(k) / 100.0;
            let queue = if k % 5 == 0 { 0.0 } else { 0.004 };
            let found = level.push(at, 77.0 + 100e-6 * at + queue);
            if at > 30.0 {
                assert!((found - queue).abs() < 0.000_2, "{found} at {at}");
            }
        }
    }

    #[test]
    fn a_standing_queue_is_seen_for_a_minute() {
        let mut level = QueueLevel::default();
        for k in 0..8_000 {
            let at = f64::from(k) / 100.0;
            let queue = if at < 20.0 { 0.0 } else { 0.030 };
            let found = level.push(at, -3.0 + queue);
            if (20.1..70.0).contains(&at) {
                // The slope of at most 200 ppm is the error.
                assert!((found - queue).abs() < 0.012, "{found} at {at}");
            }
        }
    }
}
