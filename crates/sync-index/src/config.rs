//! What a train and its estimate are configured with.

use layercast_core::{Rate, Span};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::pdu::{COMPACT, FULL};

/// The shortest and the longest period of a train.
pub const PERIODS: (Span, Span) = (Span::from_ms(1), Span::from_secs(1));
/// Most lags of a window.
pub const MOST_LAGS: u16 = 1_000;
/// Most windows of a percentile.
pub const MOST_WINDOWS: u16 = 256;
/// Octets of the UDP and IPv4 headers of a probe.
const HEADERS: usize = 28;
/// Of the stated capacity of a path, one part in this number may be the train.
const SHARE: u64 = 20;

/// How probes are encoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// 24 octets: number, period and departure.
    Full = 0,
    /// 4 octets: session and number, modulo 2^16 each.
    Compact = 1,
}

/// Which lags are formed (2.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Filter {
    /// Differences of successive arrivals, whatever was lost between them.
    Paper,
    /// The period, and the deviation of the arrivals from the departures.
    Robust,
}

/// Whether blocks of windows overlap (2.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// One estimate for each block of n windows.
    Tumbling,
    /// One estimate for each window, over the last n.
    Rolling,
}

/// A value out of its range.
#[derive(Clone, PartialEq, Debug, Error)]
pub enum ConfigError {
    /// The period of the train.
    #[error("the period of {0} is outside of 1 ms to 1 s: give one of this range, such as 10ms")]
    Period(Span),
    /// Lags of a window.
    #[error("m is {0}: a window has 2 to {MOST_LAGS} lags, 10 is usual")]
    Lags(u16),
    /// Windows of a percentile.
    #[error("n is {0}: a percentile has 1 to {MOST_WINDOWS} windows, 30 is usual")]
    Windows(u16),
    /// The percentile.
    #[error("epsilon is {0}: it is above 0 and below 1, 0.3 is usual")]
    Percentile(f64),
    /// The train would load the path that it measures.
    #[error(
        "the train of {train} is more than 5 % of the path of {path}: it would measure itself; choose a longer period, or \
         the compact format"
    )]
    TooFast {
        /// Rate of the train.
        train: Rate,
        /// Capacity of the path.
        path: Rate,
    },
}

/// How an index is computed from arrivals.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct EstimatorConfig {
    /// Lags of a window, `m`.
    pub lags: u16,
    /// Windows of a percentile, `n`.
    pub windows: u16,
    /// The percentile, epsilon.
    pub percentile: f64,
    /// Whether blocks overlap.
    pub mode: Mode,
    /// Which lags are formed.
    pub filter: Filter,
    /// How finely arrivals are stamped; zero for stamps of the kernel or of a simulator.
    pub resolution: Span,
    /// Index of the idle path, which is subtracted in quadrature.
    pub baseline: Span,
}

impl Default for EstimatorConfig {
    /// The values of the paper, with the robust filter.
    fn default() -> EstimatorConfig {
        EstimatorConfig {
            lags: 10,
            windows: 30,
            percentile: 0.3,
            mode: Mode::Tumbling,
            filter: Filter::Robust,
            resolution: Span::ZERO,
            baseline: Span::ZERO,
        }
    }
}

impl EstimatorConfig {
    /// Whether each value is in its range.
    ///
    /// # Errors
    /// The first one that is not.
    pub fn check(&self) -> Result<(), ConfigError> {
        if !(2..=MOST_LAGS).contains(&self.lags) {
            return Err(ConfigError::Lags(self.lags));
        }
        if !(1..=MOST_WINDOWS).contains(&self.windows) {
            return Err(ConfigError::Windows(self.windows));
        }
        if !(self.percentile > 0.0 && self.percentile < 1.0) {
            return Err(ConfigError::Percentile(self.percentile));
        }
        Ok(())
    }

    /// Lags of a block.
    pub fn block(&self) -> u64 {
        u64::from(self.lags) * u64::from(self.windows)
    }

    /// Duration of a block, `B`.
    pub fn block_time(&self, period: Span) -> Span {
        period.times(self.block())
    }

    /// The least index that an idle path shows for the resolution q of the stamps: two uniform errors differ with a standard
    /// deviation of q/sqrt(6).
    pub fn floor(&self) -> Span {
        Span::from_secs_f64(self.resolution.as_secs_f64() / 6_f64.sqrt())
    }
}

/// Whether a train can have this period.
///
/// # Errors
/// It is out of its range.
pub fn check_period(period: Span) -> Result<(), ConfigError> {
    match (PERIODS.0..=PERIODS.1).contains(&period) {
        true => Ok(()),
        false => Err(ConfigError::Period(period)),
    }
}

/// A train.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ProbeConfig {
    /// Time between two probes, `T`.
    pub period: Span,
    /// Their format.
    pub format: Format,
    /// Session; the driver draws it at random.
    pub session: u32,
    /// What proves that an answer comes from the receiver; the driver draws it at random.
    pub key: u64,
    /// Slots of the train; `None`: until it is stopped.
    pub count: Option<u64>,
    /// Capacity of the path, if it is known: the train is at most 5 % of it.
    pub capacity: Option<Rate>,
}

impl ProbeConfig {
    /// A train of full probes each 10 ms.
    pub fn new(session: u32, key: u64) -> ProbeConfig {
        ProbeConfig {
            period: Span::from_ms(10),
            format: Format::Full,
            session,
            key,
            count: None,
            capacity: None,
        }
    }

    /// Rate of the train, with UDP and IPv4 headers.
    pub fn rate(&self) -> Rate {
        let payload = match self.format {
            Format::Full => FULL,
            Format::Compact => COMPACT,
        };
        let bits = 8 * (payload + HEADERS) as u64;
        Rate::from_bps((bits as f64 / self.period.as_secs_f64()).ceil() as u64)
    }

    /// Whether each value is in its range.
    ///
    /// # Errors
    /// The first one that is not.
    pub fn check(&self) -> Result<(), ConfigError> {
        check_period(self.period)?;
        match self.capacity {
            Some(path) if self.rate().as_bps().saturating_mul(SHARE) > path.as_bps() => {
                let train = self.rate();
                Err(ConfigError::TooFast { train, path })
            }
            _ => Ok(()),
        }
    }
}
