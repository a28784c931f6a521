use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::RINGS;
use crate::level::LEVELS;

/// Why a cell did not get into a queue.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DropCause {
    /// Its circuit has as many cells in the queue as it may.
    VcLimit,
    /// The shared buffer is full.
    PortLimit,
    /// It may be discarded first (CLP = 1), and the shared buffer has more than is for such.
    Low,
    /// Its frame has lost a cell before.
    Ppd,
    /// Its frame was refused at its first cell.
    Epd,
    /// Its contract would have it sent only after the horizon.
    Regulator,
    /// Its circuit is not open here.
    UnknownVc,
}

/// A cell that did not get into a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("cell dropped: {cause:?}")]
pub struct Dropped {
    /// Why.
    pub cause: DropCause,
}

/// Cells dropped, by cause.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct Drops {
    /// [`DropCause::VcLimit`].
    pub vc_limit: u64,
    /// [`DropCause::PortLimit`].
    pub port_limit: u64,
    /// [`DropCause::Low`].
    pub low: u64,
    /// [`DropCause::Ppd`].
    pub ppd: u64,
    /// [`DropCause::Epd`].
    pub epd: u64,
    /// [`DropCause::Regulator`].
    pub regulator: u64,
    /// [`DropCause::UnknownVc`].
    pub unknown_vc: u64,
}

impl Drops {
    /// Of all causes.
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

/// The cells of one class.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct ClassStats {
    /// Cells that came.
    pub received: u64,
    /// Cells that left for the link.
    pub sent: u64,
    /// Cells that found no room.
    pub dropped: u64,
}

/// What a queue has seen: received = sent + dropped + held, always.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct QueueStats {
    /// Cells that came.
    pub received: u64,
    /// Cells that left for the link.
    pub sent: u64,
    /// Cells that found no room.
    pub dropped: Drops,
    /// Most cells held at a time.
    pub max_len: u32,
    /// By class as served here: the four levels, signalling, best effort. Cells of unknown circuits have none.
    pub classes: [ClassStats; RINGS],
}

impl QueueStats {
    /// The cells of the four levels together.
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
