use layercast_core::{AAL5_TRAILER, CELL_PAYLOAD};

use crate::frame_crc;
use crate::{Cell, Pti, ReassemblyError};

/// Octets that an AAL5 frame of one full cell carries: those of a cell without the trailer.
pub const ONE_CELL: usize = 40;

/// An AAL5 frame that is one full cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OneCell {
    /// What it carries.
    pub octets: [u8; ONE_CELL],
    /// CPCS user-to-user octet.
    pub uu: u8,
    /// Common part indicator.
    pub cpi: u8,
}

impl OneCell {
    /// The cell on the circuit (`vpi`, `vci`).
    pub fn to_cell(&self, vpi: u8, vci: u16) -> Cell {
        let trailer = [self.uu, self.cpi, 0, ONE_CELL as u8];
        let mut padded = [0; CELL_PAYLOAD];
        padded[4..44].copy_from_slice(&self.octets);
        padded[44..].copy_from_slice(&trailer);
        let crc = frame_crc::of_one_cell(&padded);
        let mut payload = [0; CELL_PAYLOAD];
        payload[..ONE_CELL].copy_from_slice(&self.octets);
        payload[40..44].copy_from_slice(&trailer);
        payload[44..].copy_from_slice(&crc.to_be_bytes());
        Cell {
            vpi,
            vci,
            pti: Pti::data(false, true),
            clp: false,
            payload,
        }
    }

    /// The frame in the payload of a cell.
    ///
    /// # Errors
    /// Its length is another one, or the CRC-32 is wrong.
    pub fn read(payload: &[u8; CELL_PAYLOAD]) -> Result<OneCell, ReassemblyError> {
        let Some(&[uu, cpi, high, low, ..]) = payload.last_chunk::<AAL5_TRAILER>() else {
            return Err(ReassemblyError::Length);
        };
        if usize::from(u16::from_be_bytes([high, low])) != ONE_CELL {
            return Err(ReassemblyError::Length);
        }
        if !frame_crc::is_whole(payload) {
            return Err(ReassemblyError::Crc);
        }
        let mut octets = [0; ONE_CELL];
        octets.copy_from_slice(&payload[..ONE_CELL]);
        Ok(OneCell { octets, uu, cpi })
    }
}
