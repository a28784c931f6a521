//! One ON/OFF source at a leaky bucket without a buffer: what equation 3 says, seen.

use layercast_core::{Span, Stream};
use serde::Deserialize;

use super::setting::StudyError;

/// A policed source.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policing {
    /// Peak rate, bit/s.
    pub peak_bps: f64,
    /// Mean time ON, seconds.
    pub on_s: f64,
    /// Mean time OFF, seconds.
    pub off_s: f64,
    /// Token rate, bit/s.
    pub rate_bps: f64,
    /// Depth, bits.
    pub depth: f64,
    /// Times ON that are run.
    pub bursts: u64,
    /// Seed.
    pub seed: u64,
}

/// Most times ON of a run.
const MAX_BURSTS: u64 = 100_000_000;

impl Policing {
    /// The share of the fluid that the bucket discards.
    ///
    /// # Errors
    ///
    /// [`StudyError::Bounds`] if a number is out of its bounds.
    pub fn run(&self) -> Result<f64, StudyError> {
        let good = self.rate_bps > 0.0
            && self.peak_bps > self.rate_bps
            && self.peak_bps.is_finite()
            && self.depth >= 0.0
            && Span::from_secs_f64(self.on_s.min(self.off_s)) > Span::ZERO;
        if !good {
            let text = "times and rates are above 0, the token rate is below the peak rate";
            return Err(StudyError::Bounds(text));
        }
        if !(1..=MAX_BURSTS).contains(&self.bursts) {
            return Err(StudyError::Bounds("bursts is 1 to 100000000"));
        }
        let mut stream = Stream::new(self.seed, "admission/policing");
        let above = self.peak_bps - self.rate_bps;
        let (mut tokens, mut sent, mut lost) = (self.depth, 0.0, 0.0);
        for _ in 0..self.bursts {
            let (on, off) = (
                stream.exponential(self.on_s),
                stream.exponential(self.off_s),
            );
            sent += self.peak_bps * on;
            let need = above * on;
            lost += (need - tokens).max(0.0);
            tokens = (tokens - need).max(0.0);
            tokens = (tokens + self.rate_bps * off).min(self.depth);
        }
        Ok(lost / sent)
    }
}
