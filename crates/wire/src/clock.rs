use layercast_core::Serial;
use serde::{Deserialize, Serialize};

/// Most drift of two clocks that is believed, in parts per 10^9: CLOCK_MONOTONIC is steered by 500 ppm at most, and paths have
/// several nodes.
const MAX_DRIFT: i32 = 10_000_000;

/// What the clock of a source shows by the clock of a node that receives from it, over any number of hops.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ClockReading {
    /// When the clock of the node shows this, in microseconds modulo 2^32, the clock of the source shows `source_us`.
    pub here_us: u32,
    /// In microseconds modulo 2^32.
    pub source_us: u32,
    /// By how much the clock of the source gains on that of the node, in parts per 10^9.
    pub drift_ppb: i32,
    /// Most error if the clocks run evenly: half of the least delay there and back, and 1 ms, of each hop.
    pub bound_us: u32,
    /// Age of the oldest measurement that it follows from, in milliseconds.
    pub age_ms: u32,
    /// Hops that were measured; those between nodes with one clock do not count.
    pub hops: u8,
}

/// What a node knows of the clock of a neighbour, and the delays by both clocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ClockReport {
    /// By how much the clock of the neighbour is ahead, in microseconds: modulo 2^32, nearest to 0.
    pub ahead_us: i32,
    /// By how much it gains, in parts per 10^9.
    pub drift_ppb: i32,
    /// Most error if the clocks run evenly, in microseconds.
    pub bound_us: u64,
    /// How long ago the neighbour was last heard, in milliseconds.
    pub age_ms: u64,
    /// One-way delay of datagrams to the neighbour in microseconds: mean of the quickest ones of the last second.
    pub delay_us: u64,
    /// The same of the reports of the neighbour.
    pub delay_back_us: u64,
}

/// What a receiver knows of the clock of the source of its flow, where it is another one than its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SourceClockReport {
    /// By how much the clock of the source is ahead, in microseconds: modulo 2^32, nearest to 0.
    pub ahead_us: i32,
    /// By how much it gains, in parts per 10^9.
    pub drift_ppb: i32,
    /// Most error if the clocks run evenly, in microseconds: half of the least delay there and back, and 1 ms, of each hop. Delays and, with
    /// `join --sync`, playout are off by at most this.
    pub bound_us: u32,
    /// Age of the oldest measurement that it follows from, in milliseconds.
    pub age_ms: u32,
    /// Hops that were measured; those between nodes with one clock do not count.
    pub hops: u8,
}

impl From<ClockReading> for SourceClockReport {
    fn from(reading: ClockReading) -> SourceClockReport {
        SourceClockReport {
            ahead_us: Serial(reading.source_us).diff(Serial(reading.here_us)),
            drift_ppb: reading.drift_ppb,
            bound_us: reading.bound_us,
            age_ms: reading.age_ms,
            hops: reading.hops,
        }
    }
}

impl ClockReading {
    /// The clock of the source is that of the node, which shows `us`.
    pub fn own(us: u32) -> ClockReading {
        ClockReading {
            here_us: us,
            source_us: us,
            drift_ppb: 0,
            bound_us: 0,
            age_ms: 0,
            hops: 0,
        }
    }

    /// What the clock of the source shows when that of the node shows `here_us`.
    pub fn source_at(&self, here_us: u32) -> u32 {
        let passed = Serial(here_us).diff(Serial(self.here_us));
        let gained = self.gained(passed);
        (self.source_us.wrapping_add(passed as u32)).wrapping_add(gained as u32)
    }

    /// What the clock of the node shows when that of the source shows `source_us`.
    pub fn here_at(&self, source_us: u32) -> u32 {
        let passed = Serial(source_us).diff(Serial(self.source_us));
        let gained = self.gained(passed);
        (self.here_us.wrapping_add(passed as u32)).wrapping_sub(gained as u32)
    }

    /// The same for a neighbour whose clock shows `there_us` when that of the node shows `here_us`, and gains `drift_ppb` on it.
    /// What was measured of the neighbour has an error of `bound_us` at most and is `age_ms` old; `None`: it has the same clock.
    pub fn for_neighbour(&self, here_us: u32, hop: Option<ClockHop>) -> ClockReading {
        let since = Serial(here_us).diff(Serial(self.here_us)).max(0) as u32 / 1_000;
        let mut reading = ClockReading {
            here_us,
            source_us: self.source_at(here_us),
            age_ms: self.age_ms.saturating_add(since),
            drift_ppb: self.drift(),
            ..*self
        };
        if let Some(hop) = hop {
            reading.here_us = hop.there_us;
            reading.drift_ppb = reading.drift_ppb.saturating_sub(hop.drift_ppb);
            reading.bound_us = reading.bound_us.saturating_add(hop.bound_us);
            reading.age_ms = reading.age_ms.max(hop.age_ms);
            reading.hops = reading.hops.saturating_add(1);
        }
        reading
    }

    fn drift(&self) -> i32 {
        self.drift_ppb.clamp(-MAX_DRIFT, MAX_DRIFT)
    }

    /// By how much the source gains in `passed` microseconds.
    fn gained(&self, passed: i32) -> i32 {
        (i64::from(passed) * i64::from(self.drift()) / 1_000_000_000) as i32
    }
}

/// The clock of a neighbour.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClockHop {
    /// What it shows now, in microseconds modulo 2^32.
    pub there_us: u32,
    /// By how much it gains on that of the node, in parts per 10^9.
    pub drift_ppb: i32,
    /// Most error.
    pub bound_us: u32,
    /// Age of the measurement.
    pub age_ms: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_of_three_hops_add_up() {
        // Ahead of the source by, and gaining on it.
        let clocks = [
            (0_i64, 0_i64),
            (3_600_000_000, 200),
            (-7_000_000, -150),
            (42, 90),
        ];
        let shows = |clock: usize, true_us: i64| {
            let (ahead, ppm) = clocks[clock];
            (true_us + ahead + true_us * ppm / 1_000_000) as u32
        };
        let mut now = 5_000_000_000;
        let mut reading = ClockReading::own(shows(0, now));
        for node in 0..3 {
            now += 700_000;
            let hop = ClockHop {
                there_us: shows(node + 1, now),
                drift_ppb: (clocks[node + 1].1 - clocks[node].1) as i32 * 1_000,
                bound_us: 5_000,
                age_ms: 40,
            };
            reading = reading.for_neighbour(shows(node, now), Some(hop));
        }
        assert_eq!((reading.hops, reading.bound_us), (3, 15_000));
        assert!((1_400..2_200).contains(&reading.age_ms), "{reading:?}");
        for later in [0, 1_000_000, 60_000_000] {
            let (here, source) = (shows(3, now + later), shows(0, now + later));
            let off = Serial(reading.source_at(here)).diff(Serial(source));
            assert!(off.abs() <= 5, "{later}: {off} us");
            let off = Serial(reading.here_at(source)).diff(Serial(here));
            assert!(off.abs() <= 5, "{later}: {off} us");
        }
        let same = reading.for_neighbour(shows(3, now), None);
        assert_eq!((same.hops, same.source_us), (3, reading.source_us));
    }

    #[test]
    fn no_reading_of_a_neighbour_overflows() {
        let edges = [0, 1, i32::MAX as u32, 1 << 31, u32::MAX];
        for here_us in edges {
            for drift_ppb in [i32::MIN, -1, 0, i32::MAX] {
                let reading = ClockReading {
                    here_us,
                    source_us: !here_us,
                    drift_ppb,
                    bound_us: u32::MAX,
                    age_ms: u32::MAX,
                    hops: u8::MAX,
                };
                for us in edges {
                    let hop = ClockHop {
                        there_us: us,
                        drift_ppb,
                        bound_us: u32::MAX,
                        age_ms: u32::MAX,
                    };
                    let next = reading.for_neighbour(us, Some(hop));
                    let off = Serial(next.here_at(next.source_at(us))).diff(Serial(us));
                    assert!(off.unsigned_abs() < 1 << 19, "{next:?}: {off} us");
                }
            }
        }
    }
}
