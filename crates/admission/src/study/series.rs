//! Values over the time of a run.

use serde::Serialize;

/// Values at an instant.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Point {
    /// Seconds since the start.
    pub at_s: f64,
    /// Late bits since the start, percent.
    pub late: f64,
    /// Late bits since the last point, percent.
    pub late_now: f64,
    /// Utilisation since the last point, percent.
    pub utilisation: f64,
    /// Trigger, Mbit/s.
    pub trigger: f64,
    /// Window, seconds.
    pub window_s: f64,
    /// Calls in progress.
    pub calls: u32,
    /// Those that are ON.
    pub on: u32,
}

/// Mean and variance, added up without loss (Welford 1962).
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Moments {
    count: u64,
    pub mean: f64,
    squares: f64,
}

impl Moments {
    pub fn add(&mut self, value: f64) {
        self.count += 1;
        let off = value - self.mean;
        self.mean += off / self.count as f64;
        self.squares += off * (value - self.mean);
    }

    pub fn variance(&self) -> f64 {
        self.squares / self.count.saturating_sub(1).max(1) as f64
    }
}

/// A fingerprint of everything that happened, in order (FNV-1a).
#[derive(Clone, Copy, Debug)]
pub(super) struct Fingerprint(pub u64);

impl Fingerprint {
    pub fn new() -> Fingerprint {
        Fingerprint(0xcbf2_9ce4_8422_2325)
    }

    pub fn add(&mut self, values: &[u64]) {
        for value in values {
            self.0 = (self.0 ^ value).wrapping_mul(0x0000_0100_0000_01b3);
            self.0 ^= self.0 >> 29;
        }
    }
}
