use layercast_core::{Rate, Span, Time};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Octets of a cell on the line.
const CELL_OCTETS: u64 = 53;

/// Service discipline of a port (specs/insane-study.md 2.2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug, Serialize, Deserialize)]
pub enum Discipline {
    /// All data is best effort; only signalling has priority (the thesis' `noqos`).
    #[default]
    #[serde(rename = "fcfs")]
    Fcfs,
    /// Static priority without regulation and admission.
    #[serde(rename = "sp")]
    Sp,
    /// Rate-controlled static priority that sends ineligible cells when nothing else waits.
    #[serde(rename = "wc")]
    RcspWc,
    /// Rate-controlled static priority with rate-jitter control: ineligible cells are held.
    #[serde(rename = "nwc")]
    RcspNwc,
    /// Deficit round robin: each circuit sends one cell in its turn, or [`QueueConfig::drr_weight`] cells if it has a
    /// delay level; without regulation and admission. A circuit may hold as many cells as the shared buffer has free
    /// places, so that long queues leave room for short ones (Choudhury and Hahne, IEEE/ACM Trans. Networking 6(2),
    /// 1998).
    #[serde(rename = "drr")]
    Drr,
    /// Earliest deadline first, without regulation and admission. The deadline of a cell is its arrival plus the
    /// bound of its delay level; for best effort twice the bound of the slowest level.
    #[serde(rename = "edf")]
    Edf,
}

impl Discipline {
    /// Whether contracts are regulated.
    pub const fn regulates(self) -> bool {
        matches!(self, Discipline::RcspWc | Discipline::RcspNwc)
    }

    /// Whether delay levels need no contract.
    pub const fn trusts(self) -> bool {
        matches!(self, Discipline::Sp | Discipline::Drr | Discipline::Edf)
    }
}

/// What happens to the frame of a cell that finds no room (specs/insane-simulator.md 2.4).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Discard {
    /// The remaining cells are queued.
    None,
    /// The remaining cells are discarded (partial packet discard), except the last, which delimits the next frame.
    #[default]
    Ppd,
    /// As [`Discard::Ppd`]; in addition, new frames are refused while more than `threshold` cells wait (early packet
    /// discard).
    Epd {
        /// Threshold in cells of the shared buffer.
        threshold: u32,
    },
}

/// Configuration of the buffer and the scheduler of a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueConfig {
    /// The service discipline.
    pub discipline: Discipline,
    /// What happens to a frame that lost a cell.
    pub discard: Discard,
    /// Largest number of cells of one circuit in the shared buffer.
    pub per_vc_limit: u32,
    /// Size of the shared buffer in cells.
    pub port_limit: u32,
    /// Number of cells in the shared buffer above which cells with CLP = 1 are dropped.
    pub low_limit: u32,
    /// Transmission time of a cell.
    pub cell_time: Span,
    /// Longest time that a regulator may delay a cell.
    pub horizon: Span,
    /// Interval at which regulators release cells, in cell times.
    pub grid_cells: u32,
    /// Number of circuits of a port; their numbers are below it.
    pub max_vcs: u16,
    /// Cells in a turn of a circuit with a delay level under [`Discipline::Drr`]; other circuits send one.
    pub drr_weight: u32,
    /// Whether cells begin to leave at multiples of the cell time only, counted from time zero.
    pub slots: bool,
}

/// Reason why a configuration is invalid.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum QueueConfigError {
    /// A value is zero.
    #[error("{0} must be more than zero")]
    Zero(&'static str),
    /// The grid of the regulators is too long.
    #[error("a grid of {cells} times {cell_time} is too long")]
    Grid {
        /// The grid in cell times.
        cells: u32,
        /// Transmission time of a cell.
        cell_time: Span,
    },
}

impl QueueConfig {
    /// First come, first served, with the buffers of specs/insane-simulator.md 3, for a link of this rate.
    pub fn new(rate: Rate) -> QueueConfig {
        QueueConfig {
            discipline: Discipline::default(),
            discard: Discard::default(),
            per_vc_limit: 170,
            port_limit: 800,
            low_limit: u32::MAX,
            cell_time: rate.time_for(CELL_OCTETS),
            horizon: Span::from_secs(2),
            grid_cells: 8,
            max_vcs: 8_192,
            drr_weight: 8,
            slots: false,
        }
    }

    /// Checks that a queue can work with the configuration.
    pub fn validate(&self) -> Result<(), QueueConfigError> {
        let zero = [
            ("per_vc_limit", self.per_vc_limit == 0),
            ("port_limit", self.port_limit == 0),
            ("low_limit", self.low_limit == 0),
            ("cell_time", self.cell_time == Span::ZERO),
            ("horizon", self.horizon == Span::ZERO),
            ("grid_cells", self.grid_cells == 0),
            ("max_vcs", self.max_vcs == 0),
            ("drr_weight", self.drr_weight == 0),
        ];
        if let Some((field, _)) = zero.into_iter().find(|(_, zero)| *zero) {
            return Err(QueueConfigError::Zero(field));
        }
        if self.grid() == Span::MAX {
            return Err(QueueConfigError::Grid {
                cells: self.grid_cells,
                cell_time: self.cell_time,
            });
        }
        Ok(())
    }

    /// When a cell can begin to leave an idle link at the earliest that is there at a time.
    #[inline]
    pub fn ready(&self, at: Time) -> Time {
        match self.slots {
            true => at.next_multiple_of(self.cell_time),
            false => at,
        }
    }

    /// Interval at which regulators release cells.
    pub fn grid(&self) -> Span {
        self.cell_time.times(u64::from(self.grid_cells))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_t1_cell_takes_276_us_and_the_grid_is_2_2_ms() {
        let config = QueueConfig::new(Rate::from_bps(1_536_000));
        assert_eq!(config.cell_time, Span::from_ps(276_041_666));
        assert_eq!(config.grid().as_us(), 2_208);
        assert_eq!(config.validate(), Ok(()));
    }

    #[test]
    fn invalid_values_are_named() {
        let good = QueueConfig::new(Rate::from_bps(1_536_000));
        let error = |config: QueueConfig| config.validate().unwrap_err();
        let port_limit = QueueConfig {
            port_limit: 0,
            ..good
        };
        assert_eq!(error(port_limit), QueueConfigError::Zero("port_limit"));
        let dead = QueueConfig::new(Rate::from_bps(0));
        assert!(matches!(error(dead), QueueConfigError::Grid { .. }));
        let instant = QueueConfig::new(Rate::from_bps(u64::MAX));
        assert_eq!(error(instant), QueueConfigError::Zero("cell_time"));
    }
}
