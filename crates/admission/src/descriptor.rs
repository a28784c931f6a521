//! What a call declares, and equivalent token buckets of ON/OFF sources.

use layercast_core::{Rate, Span};
use serde::{Deserialize, Serialize};

/// The traffic that a call declares: at most `rate`·t + `depth` bits in any time t.
///
/// A call that declares its peak rate only has no bucket to test: its depth is zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TSpec {
    peak: Rate,
    rate: Rate,
    depth: u64,
}

/// A declaration without a meaning.
#[derive(Clone, Copy, PartialEq, Debug, thiserror::Error)]
pub enum TSpecError {
    /// The peak rate is not a positive number of at most 2^63 bit/s.
    #[error("the peak rate is {0} bit/s: declare a positive, finite rate")]
    Peak(f64),
    /// The token rate is not positive, or above the peak rate.
    #[error("the token rate is {0} bit/s: declare a positive rate of at most the peak rate")]
    TokenRate(f64),
    /// The bucket depth is negative or not finite.
    #[error("the bucket depth is {0} bits: declare zero or more")]
    Depth(f64),
}

/// Largest number that a declaration may have: sums of as many flows as a table holds stay far below 2^128.
const MOST: f64 = (1u64 << 63) as f64;

impl TSpec {
    /// A call that declares its peak rate.
    ///
    /// # Errors
    ///
    /// [`TSpecError::Peak`] for a rate of zero, or above 2^63 bit/s.
    pub fn peak(peak: Rate) -> Result<TSpec, TSpecError> {
        TSpec::from_bits(peak.as_bps() as f64, None, None)
    }

    /// From bit/s and bits, as other programs have them; fractions of a bit are rounded up.
    ///
    /// # Errors
    ///
    /// [`TSpecError`] names the first number that is not positive, not finite, or out of order.
    pub fn from_bits(
        peak: f64,
        rate: Option<f64>,
        depth: Option<f64>,
    ) -> Result<TSpec, TSpecError> {
        if !(peak > 0.0 && peak <= MOST) {
            return Err(TSpecError::Peak(peak));
        }
        let rate = rate.unwrap_or(peak);
        if !(rate > 0.0 && rate <= peak) {
            return Err(TSpecError::TokenRate(rate));
        }
        let depth = depth.unwrap_or(0.0);
        if !(0.0..=MOST).contains(&depth) {
            return Err(TSpecError::Depth(depth));
        }
        Ok(TSpec {
            peak: Rate::from_bps(peak.ceil() as u64),
            rate: Rate::from_bps(rate.ceil() as u64),
            depth: depth.ceil() as u64,
        })
    }

    /// The peak rate.
    pub fn peak_rate(&self) -> Rate {
        self.peak
    }

    /// The token rate; the peak rate if none was declared.
    pub fn token_rate(&self) -> Rate {
        self.rate
    }

    /// The bucket depth, bits.
    pub fn depth(&self) -> u64 {
        self.depth
    }
}

/// An ON/OFF fluid source: it sends at its peak rate while ON; both times are exponential.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OnOff {
    /// Rate while ON.
    pub peak: Rate,
    /// Mean time ON.
    pub on: Span,
    /// Mean time OFF.
    pub off: Span,
}

/// Halvings until the token rate is exact to far below a bit/s.
const HALVINGS: u32 = 80;

impl OnOff {
    /// Rates at which ON and OFF end, 1/s.
    fn exits(&self) -> (f64, f64) {
        (1.0 / self.on.as_secs_f64(), 1.0 / self.off.as_secs_f64())
    }

    /// Mean rate, bit/s.
    pub fn mean(&self) -> f64 {
        let (alpha, beta) = self.exits();
        self.peak.as_bps() as f64 * beta / (alpha + beta)
    }

    /// Share of the fluid that a leaky bucket without a buffer discards: depth in bits, token rate in bit/s
    /// between the mean and the peak (Elwalid, Mitra 1991; specs/admission-control.md 2.2).
    pub fn loss(&self, rate: f64, depth: f64) -> f64 {
        let (alpha, beta) = self.exits();
        let peak = self.peak.as_bps() as f64;
        let above = peak - rate;
        let z = alpha / above - beta / rate;
        // (exp(z depth) - 1) / z, whose limit at z = 0 is the depth.
        let grown = if (z * depth).abs() < 1e-12 {
            depth
        } else {
            libm::expm1(z * depth) / z
        };
        (above / peak) / (1.0 + alpha * grown / above)
    }

    /// The depth in bits at which the bucket loses this share (equation 3).
    pub fn depth(&self, rate: f64, loss: f64) -> f64 {
        let (alpha, beta) = self.exits();
        let peak = self.peak.as_bps() as f64;
        let above = peak - rate;
        let z = alpha / above - beta / rate;
        let excess = above / (loss * peak) - 1.0;
        let scale = z * above / alpha;
        if (scale * excess).abs() < 1e-12 {
            return above / alpha * excess;
        }
        libm::log1p(scale * excess) / z
    }

    /// The token rate with which a bucket of this depth in bits loses this share; the mean rate if that is
    /// enough.
    pub fn token_rate(&self, depth: f64, loss: f64) -> f64 {
        let (mut low, mut high) = (self.mean(), self.peak.as_bps() as f64);
        // At the mean itself the bucket is critically loaded, so the loss is read just above.
        let step = (high - low) * 1e-9;
        if self.loss(low + step, depth) <= loss {
            return low;
        }
        for _ in 0..HALVINGS {
            let middle = 0.5 * (low + high);
            match self.loss(middle, depth) > loss {
                true => low = middle,
                false => high = middle,
            }
        }
        high
    }
}
