use layercast_core::Span;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Priority class of a circuit, in the order of service (specs/insane-study.md 2.2).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// A delay level; 0 is served first.
    Level(u8),
    /// Circuits between signalling controllers.
    Signalling,
    /// All other circuits.
    BestEffort,
}

/// Traffic specification of a circuit, as in the Tenet suite (specs/insane-simulator.md 2.4).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct TrafficSpec {
    /// Least time between two cells.
    pub x_min: Span,
    /// Mean time between two cells over any `interval`.
    pub x_ave: Span,
    /// Averaging interval.
    pub interval: Span,
}

/// Contract of a circuit with each switch: its traffic, and its delay bound there.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Contract {
    /// The traffic.
    pub traffic: TrafficSpec,
    /// Delay bound in each switch, not end to end.
    pub delay: Span,
}

/// Reason why a contract is invalid.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum ContractError {
    /// A time is zero.
    #[error("{0} must be more than zero")]
    Zero(&'static str),
    /// The mean rate exceeds the peak rate.
    #[error("x_ave {x_ave} is below x_min {x_min}: the mean rate cannot exceed the peak")]
    Mean {
        /// Mean time between cells.
        x_ave: Span,
        /// Least time between cells.
        x_min: Span,
    },
    /// The averaging interval is shorter than the mean interval between cells.
    #[error("interval {interval} is shorter than x_ave {x_ave}")]
    Interval {
        /// Averaging interval.
        interval: Span,
        /// Mean time between cells.
        x_ave: Span,
    },
}

impl TrafficSpec {
    /// Checks that the three times are consistent.
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

    /// Number of cells allowed in an interval: floor(I / X_ave).
    pub fn cells_per_interval(&self) -> u64 {
        self.interval.as_ps() / self.x_ave.as_ps().max(1)
    }
}
