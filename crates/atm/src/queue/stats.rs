use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::RINGS;
use crate::level::LEVELS;

/// Reason why a cell was dropped.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DropCause {
    /// Its circuit has reached its limit.
    VcLimit,
    /// The shared buffer is full.
    PortLimit,
    /// It has CLP = 1, and the shared buffer is above the limit for such cells.
    Low,
    /// Its frame has already lost a cell.
    Ppd,
    /// Its frame was refused at its first cell.
    Epd,
    /// Its contract would delay it beyond the horizon.
    Regulator,
    /// Its circuit is not open.
    UnknownVc,
}

/// A dropped cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("cell dropped: {cause:?}")]
pub struct Dropped {
    /// The cause.
    pub cause: DropCause,
}

/// Cells dropped, by cause.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct Drops {
    /// Cells dropped because their circuit had its limit of cells in the queue.
    pub vc_limit: u64,
    /// Cells dropped because the port had its limit of cells in the queue.
    pub port_limit: u64,
    /// Cells with CLP = 1 dropped because the queue was above the threshold for them.
    pub low: u64,
    /// Cells dropped because a cell of their frame was dropped before (partial packet discard).
    pub ppd: u64,
    /// Cells of frames refused as a whole because the queue was above the threshold (early packet discard).
    pub epd: u64,
    /// Cells dropped because their regulator was full.
    pub regulator: u64,
    /// Cells of a circuit that the port does not know.
    pub unknown_vc: u64,
}

impl Drops {
    /// Sum over all causes.
    pub fn total(&self) -> u64 {
        let Drops {
            vc_limit,
            port_limit,
            low,
            ppd,
            epd,
            regulator,
            unknown_vc,
        } = self;
        vc_limit + port_limit + low + ppd + epd + regulator + unknown_vc
    }

    pub(super) fn count(&mut self, cause: DropCause) {
        let counter = match cause {
            DropCause::VcLimit => &mut self.vc_limit,
            DropCause::PortLimit => &mut self.port_limit,
            DropCause::Low => &mut self.low,
            DropCause::Ppd => &mut self.ppd,
            DropCause::Epd => &mut self.epd,
            DropCause::Regulator => &mut self.regulator,
            DropCause::UnknownVc => &mut self.unknown_vc,
        };
        *counter += 1;
    }
}

/// Counters of one class.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct ClassStats {
    /// Cells received.
    pub received: u64,
    /// Cells sent.
    pub sent: u64,
    /// Cells dropped.
    pub dropped: u64,
}

/// Counters of a queue; always received = sent + dropped + held.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct QueueStats {
    /// Cells received.
    pub received: u64,
    /// Cells sent.
    pub sent: u64,
    /// Cells dropped.
    pub dropped: Drops,
    /// Largest number of cells held.
    pub max_len: u32,
    /// By class of service here: the four levels, signalling, best effort. Cells of unknown circuits belong to none.
    pub classes: [ClassStats; RINGS],
}

impl QueueStats {
    /// The sum of the four levels.
    pub fn levels(&self) -> ClassStats {
        let mut sum = ClassStats::default();
        for class in &self.classes[..LEVELS] {
            sum.received += class.received;
            sum.sent += class.sent;
            sum.dropped += class.dropped;
        }
        sum
    }
}
