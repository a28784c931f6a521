//! What a block of windows gives.

use serde::{Deserialize, Serialize};

/// Loss of a block from which the level of a service is one lower, parts per million.
pub const LOSSY: u32 = 50_000;
/// Loss of a block from which there is no signal, parts per million.
pub const NO_SIGNAL: u32 = 200_000;

/// The index of a block, and what belongs to it.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Estimate {
    /// The index: a low percentile of the standard deviations of the windows, milliseconds.
    pub xi_ms: f64,
    /// The same in periods.
    pub xi_over_period: f64,
    /// Mean of the lags, milliseconds.
    pub mean_ms: f64,
    /// 95th percentile of the queueing delay above the least one of the last minute, milliseconds; null without departures.
    pub queue_ms: Option<f64>,
    /// Probes lost in the block, parts per million.
    pub loss_ppm: u32,
    /// Least index that the clock of the receiver can show, milliseconds.
    pub floor_ms: f64,
    /// Probes that arrived out of order since the start.
    pub reordered: u64,
    /// Probes lost since the start.
    pub lost: u64,
    /// Windows of the percentile.
    pub n: u16,
    /// Lags of a window.
    pub m: u16,
    /// The percentile.
    pub eps: f64,
    /// Period of the train, microseconds.
    pub period_us: u32,
    /// Whether arrivals are stamped by the process, not by the kernel.
    pub coarse_clock: bool,
    /// Whether more than a tenth of the probes left too late and the filter does not correct it.
    pub sender_unreliable: bool,
}

/// What a block gives.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// An index.
    Estimate(Estimate),
    /// Fewer than half of the lags: the sender left slots out.
    Insufficient {
        /// Probes lost in the block, parts per million.
        loss_ppm: u32,
    },
    /// A fifth of the probes or more is lost, or none arrives.
    NoSignal {
        /// Probes lost in the block, parts per million.
        loss_ppm: u32,
    },
}

/// The kind of an [`Outcome`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutcomeKind {
    /// An index.
    Estimate,
    /// Fewer than half of the lags.
    Insufficient,
    /// A fifth of the probes or more is lost, or none arrives.
    NoSignal,
}

impl Outcome {
    /// Its kind.
    pub fn kind(&self) -> OutcomeKind {
        match self {
            Outcome::Estimate(_) => OutcomeKind::Estimate,
            Outcome::Insufficient { .. } => OutcomeKind::Insufficient,
            Outcome::NoSignal { .. } => OutcomeKind::NoSignal,
        }
    }

    /// Probes lost in the block, parts per million.
    pub fn loss_ppm(&self) -> u32 {
        match self {
            Outcome::Estimate(it) => it.loss_ppm,
            Outcome::Insufficient { loss_ppm } | Outcome::NoSignal { loss_ppm } => *loss_ppm,
        }
    }

    /// The estimate, if it is one.
    pub fn estimate(&self) -> Option<&Estimate> {
        match self {
            Outcome::Estimate(estimate) => Some(estimate),
            _ => None,
        }
    }
}
