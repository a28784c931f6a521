use layercast_core::{Stream, Time};
use serde::{Deserialize, Serialize};

use super::SettingError;
use crate::{
    Aal5Plus, Aal5PlusConfig, Aal5PlusError, Aal5PlusReceiver, MarkedCell, Mode, ReceiverConfig,
    SenderStats,
};

/// A transport stream in cells of which some are lost (Q6).
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LossSetting {
    /// Whether headers and data are apart.
    pub mode: Mode,
    /// Packets of a group.
    pub group: u8,
    /// Mean share of the cells that is lost.
    pub rate: f64,
    /// Mean number of cells that are lost in a row (Gilbert); 1: each for itself.
    pub burst: f64,
    /// Seed.
    pub seed: u64,
}

/// What became of the packets.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Losses {
    /// Cells that were sent, by class.
    pub sent: SenderStats,
    /// Cells above those of classical AAL5, in percent.
    pub overhead_percent: f64,
    /// Cells that were lost by class: S, I, P, B.
    pub lost_cells: [u64; 4],
    /// Packets that came whole, that came damaged, and that did not come.
    pub whole_packets: u64,
    /// Packets with the transport error indicator.
    pub damaged_packets: u64,
    /// Packets that did not come.
    pub missing_packets: u64,
}

/// Losses at a mean rate, each for itself or in bursts (Gilbert).
#[derive(Debug)]
pub(super) struct Losing {
    random: Stream,
    begins: f64,
    ends: f64,
    is_losing: bool,
}

impl Losing {
    pub fn new(rate: f64, burst: f64, seed: u64) -> Result<Losing, SettingError> {
        let range = |what, value, range| SettingError::Range { what, value, range };
        if !(0.0..=0.5).contains(&rate) {
            return Err(range("rate", rate, "0 to 0.5"));
        }
        if !(1.0..=1e6).contains(&burst) {
            return Err(range("burst", burst, "1 to 10^6"));
        }
        Ok(Losing {
            random: Stream::new(seed, "loss"),
            begins: rate / (burst * (1.0 - rate)),
            ends: 1.0 / burst,
            is_losing: false,
        })
    }

    /// Whether the next one is lost.
    pub fn next(&mut self) -> bool {
        self.is_losing = match self.is_losing {
            true => !self.random.chance(self.ends),
            false => self.random.chance(self.begins),
        };
        self.is_losing
    }
}

/// A stream as cells.
///
/// # Errors
/// The size of a group is out of range, or a packet does not begin with a sync byte.
pub fn cells_of(
    mode: Mode,
    group: u8,
    packets: &[[u8; 188]],
) -> Result<(Vec<MarkedCell>, SenderStats), Aal5PlusError> {
    let mut sender = Aal5Plus::new(Aal5PlusConfig {
        mode,
        group,
        ..Aal5PlusConfig::default()
    })?;
    let mut cells = Vec::new();
    for packet in packets {
        sender.push(Time::ZERO, packet)?;
        cells.extend(std::iter::from_fn(|| sender.poll_cell()));
    }
    sender.flush();
    cells.extend(std::iter::from_fn(|| sender.poll_cell()));
    Ok((cells, sender.stats()))
}

impl LossSetting {
    /// Sends a stream and loses cells of it.
    ///
    /// # Errors
    /// A value is out of range, or a packet does not begin with a sync byte.
    pub fn run(&self, packets: &[[u8; 188]]) -> Result<Losses, SettingError> {
        let mut losing = Losing::new(self.rate, self.burst, self.seed)?;
        let (cells, sent) = cells_of(self.mode, self.group, packets)?;
        let mut receiver = Aal5PlusReceiver::new(ReceiverConfig {
            mode: self.mode,
            ..ReceiverConfig::default()
        });
        let mut lost_cells = [0; 4];
        for cell in &cells {
            match losing.next() {
                true => lost_cells[cell.class.index()] += 1,
                false => receiver.on_cell(Time::ZERO, cell),
            }
            while receiver.poll_packet().is_some() {}
        }
        receiver.finish();
        let stats = receiver.stats();
        Ok(Losses {
            sent,
            overhead_percent: 100.0 * (cells.len() as f64 / sent.plain_cells.max(1) as f64 - 1.0),
            lost_cells,
            whole_packets: stats.packets,
            damaged_packets: stats.damaged_packets,
            missing_packets: sent.packets - stats.packets - stats.damaged_packets,
        })
    }
}
