use layercast_core::Span;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The priority of a circuit, served in this order (specs/insane-study.md 2.2).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// A delay level, 0 first.
    Level(u8),
    /// The circuits between signalling controllers.
    Signalling,
    /// All the rest.
    BestEffort,
}

/// What a circuit may send, in the way of the Tenet suite (specs/insane-simulator.md 2.4).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct TrafficSpec {
    /// Least time between two cells.
    pub x_min: Span,
    /// Mean time between two cells over any `interval`.
    pub x_ave: Span,
    /// Averaging interval.
    pub interval: Span,
}

/// What a circuit asks of each switch: how much it sends, and how soon that must go on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Contract {
    /// What it sends.
    pub traffic: TrafficSpec,
    /// Bound of the delay in each switch, not end to end.
    pub delay: Span,
}

/// Why a contract is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum ContractError {
    /// A time is zero.
    #[error("{0} must be more than zero")]
    Zero(&'static str),
    /// The mean is faster than the peak.
    #[error("x_ave {x_ave} is below x_min {x_min}: the mean rate cannot exceed the peak")]
    Mean {
        /// Mean time between cells.
        x_ave: Span,
        /// Least time between cells.
        x_min: Span,
    },
    /// The averaging interval is too short for one cell.
    #[error("interval {interval} is shorter than x_ave {x_ave}")]
    Interval {
        /// Averaging interval.
        interval: Span,
        /// Mean time between cells.
        x_ave: Span,
    },
}

impl TrafficSpec {
    /// Whether the three times go together.
    pub fn validate(&self) -> Result<(), ContractError> {
        let TrafficSpec {
            x_min,
            x_ave,
            interval,
        } = *self;
        if x_min == Span::ZERO {
            return Err(ContractError::Zero("x_min"));
        }
        if x_ave < x_min {
            return Err(ContractError::Mean { x_ave, x_min });
        }
        if interval < x_ave {
            return Err(ContractError::Interval { interval, x_ave });
        }
        Ok(())
    }

    /// Cells that may be sent in an interval: floor(I / X_ave).
    pub fn cells_per_interval(&self) -> u64 {
        self.interval.as_ps() / self.x_ave.as_ps().max(1)
    }
}
