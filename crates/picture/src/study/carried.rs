use layercast_core::{Span, Time};
use serde::{Deserialize, Serialize};

use super::SettingError;
use super::loss::Losing;
use crate::{
    Aal5PlusError, CellFileHeader, MarkedCell, ParityStats, ReceiverConfig, ReceiverStats,
    cell_bursts,
};

/// A file of cells in datagrams of which some are lost (Q12).
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CarriedSetting {
    /// Mean share of the datagrams that is lost.
    pub rate: f64,
    /// Mean number of datagrams that are lost in a row (Gilbert); 1: each for itself.
    pub burst: f64,
    /// Seed.
    pub seed: u64,
}

/// What was received.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct CarriedRun {
    /// Datagrams that were sent.
    pub datagrams: u64,
    /// Numbers of those that were lost, from 0.
    pub lost: Vec<u64>,
    /// The receiver.
    pub stream: ReceiverStats,
    /// Its parities.
    pub parity: Option<ParityStats>,
}

impl CarriedSetting {
    /// Sends the cells of a file, as `layercast play-cells` does; gives the packets that come out, too.
    ///
    /// # Errors
    /// A value is out of range, or the header of the file is damaged.
    pub fn run(
        &self,
        header: &CellFileHeader,
        cells: &[(Span, MarkedCell)],
    ) -> Result<(CarriedRun, Vec<[u8; 188]>), SettingError> {
        let mut losing = Losing::new(self.rate, self.burst, self.seed)?;
        let receiver = header.receiver(ReceiverConfig::default());
        let mut receiver = receiver.map_err(Aal5PlusError::from)?;
        let (mut lost, mut datagrams, mut packets) = (Vec::new(), 0, Vec::new());
        for burst in cell_bursts(cells) {
            let now = Time::ZERO + burst.at;
            receiver.on_timeout(now);
            match losing.next() {
                true => lost.push(datagrams),
                false => {
                    let came = &cells[burst.first..][..burst.count];
                    came.iter()
                        .for_each(|(_, cell)| receiver.on_cell(now, cell));
                }
            }
            datagrams += 1;
            packets.extend(std::iter::from_fn(|| receiver.poll_packet()));
        }
        receiver.finish();
        packets.extend(std::iter::from_fn(|| receiver.poll_packet()));
        let run = CarriedRun {
            datagrams,
            lost,
            stream: receiver.stats(),
            parity: receiver.parity_stats(),
        };
        Ok((run, packets))
    }
}
