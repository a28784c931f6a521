//! How much later than due things happen.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Later than this is counted apart.
pub const LATE: Duration = Duration::from_millis(1);

/// Buckets of a power of two.
const STEPS: u32 = 16;

/// Counts of latenesses: 16 buckets for each power of two of nanoseconds, so that a quantile is at most 1/16 too high.
#[derive(Debug)]
pub struct Lateness {
    buckets: Vec<u64>,
    count: u64,
    late: u64,
    max: Duration,
}

/// Lateness, in microseconds.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct LatenessReport {
    /// Number of measurements.
    pub count: u64,
    /// Median lateness.
    pub p50_us: f64,
    /// 99th percentile of the lateness.
    pub p99_us: f64,
    /// Largest lateness.
    pub max_us: f64,
    /// Measurements above 1 ms.
    pub above_1ms: u64,
}

impl Lateness {
    /// Nothing has happened yet.
    pub fn new() -> Lateness {
        Lateness {
            buckets: vec![0; (STEPS * 64) as usize],
            count: 0,
            late: 0,
            max: Duration::ZERO,
        }
    }

    /// `count` events happened this late.
    pub fn add(&mut self, lateness: Duration, count: u64) {
        let ns = u64::try_from(lateness.as_nanos()).unwrap_or(u64::MAX);
        self.buckets[bucket(ns)] += count;
        self.count += count;
        if lateness > LATE {
            self.late += count;
        }
        self.max = self.max.max(lateness);
    }

    /// Its reported values.
    pub fn report(&self) -> LatenessReport {
        LatenessReport {
            count: self.count,
            p50_us: self.quantile(0.5),
            p99_us: self.quantile(0.99),
            max_us: self.max.as_nanos() as f64 / 1e3,
            above_1ms: self.late,
        }
    }

    fn quantile(&self, share: f64) -> f64 {
        let rank = (self.count as f64 * share).ceil() as u64;
        let mut seen = 0;
        let found = self.buckets.iter().position(|count| {
            seen += count;
            seen >= rank && seen > 0
        });
        let top = found.map_or(0, |bucket| end(bucket as u32));
        (top as f64 / 1e3).min(self.max.as_nanos() as f64 / 1e3)
    }
}

fn bucket(ns: u64) -> usize {
    let power = ns.checked_ilog2().unwrap_or(0);
    match power.checked_sub(STEPS.ilog2()) {
        // Small numbers have buckets of their own.
        None => ns as usize,
        Some(shift) => (shift * STEPS) as usize + (ns >> shift) as usize,
    }
}

/// The first number after those of a bucket.
fn end(bucket: u32) -> u64 {
    match bucket.checked_sub(2 * STEPS) {
        None => u64::from(bucket) + 1,
        Some(above) => {
            let (shift, step) = (above / STEPS + 1, above % STEPS);
            u64::from(STEPS + step + 1).saturating_mul(1 << shift)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_in_the_bucket_that_ends_after_it() {
        let numbers = (0..5_000).chain((0..64).flat_map(|p| [1 << p, (1 << p) - 1, (1 << p) + 1]));
        for ns in numbers {
            let bucket = bucket(ns);
            let below = bucket.checked_sub(1).map_or(0, |it| end(it as u32));
            assert!((below..=end(bucket as u32)).contains(&ns), "{ns}");
            assert!(end(bucket as u32) - below <= 1 + ns / 16, "{ns}");
        }
        assert!(bucket(u64::MAX) < (STEPS * 64) as usize);
    }

    #[test]
    fn quantiles_are_those_of_what_was_added() {
        let mut lateness = Lateness::new();
        assert_eq!(lateness.report(), LatenessReport::default());
        for us in 1..=100 {
            lateness.add(Duration::from_micros(us), 10);
        }
        lateness.add(Duration::from_millis(3), 1);
        let report = lateness.report();
        assert!((50.0..=54.0).contains(&report.p50_us), "{report:?}");
        assert!((99.0..=106.0).contains(&report.p99_us), "{report:?}");
        assert_eq!(
            (report.count, report.max_us, report.above_1ms),
            (1_001, 3_000.0, 1)
        );
    }
}
