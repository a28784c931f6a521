use crc::{CRC_8_I_432_1, Crc, Table};
use layercast_core::{CELL_PAYLOAD, CELL_SIZE};
use thiserror::Error;

/// The VCI of RES and ADAPT on every link (specs/mets.md 2.11).
pub const ADAPTER_VCI: u16 = 34;

/// Header error control: x^8 + x^2 + x + 1 over four octets, XOR 0x55 (ITU-T I.432.1).
static HEC: Crc<u8, Table<1>> = Crc::<u8, Table<1>>::new(&CRC_8_I_432_1);

/// Payload type indicator, 3 bits (ITU-T I.361).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Pti(u8);

/// An ATM cell at the user-network interface; the generic flow control field is zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cell {
    /// Virtual path.
    pub vpi: u8,
    /// Virtual channel.
    pub vci: u16,
    /// Payload type.
    pub pti: Pti,
    /// Cell loss priority: may be discarded first.
    pub clp: bool,
    /// 48 bytes.
    pub payload: [u8; CELL_PAYLOAD],
}

/// Why bytes are not a cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum CellError {
    /// Not 53 bytes.
    #[error("cell of {0} bytes instead of 53")]
    Length(usize),
    /// The header is damaged.
    #[error("cell header check: HEC is {found:#04x}, should be {expected:#04x}")]
    Hec {
        /// What the header says.
        found: u8,
        /// What it should say.
        expected: u8,
    },
    /// Generic flow control is in use.
    #[error("cell with generic flow control {0}, which must be zero")]
    Gfc(u8),
}

impl Pti {
    /// A code from 0 to 7; higher bits are cut off.
    pub const fn new(code: u8) -> Pti {
        Pti(code & 7)
    }

    /// The code of a user data cell.
    pub const fn data(congestion: bool, auu: bool) -> Pti {
        Pti((congestion as u8) << 1 | auu as u8)
    }

    /// The code, 0 to 7.
    pub const fn code(self) -> u8 {
        self.0
    }

    /// Whether the cell carries user data, not management (OAM) or resource management.
    pub const fn is_data(self) -> bool {
        self.0 & 4 == 0
    }

    /// Congestion experienced (EFCI) in a user data cell.
    pub const fn congestion(self) -> bool {
        self.0 & 6 == 2
    }

    /// ATM-user-to-ATM-user indication of a user data cell: delimits AAL5 frames.
    pub const fn auu(self) -> bool {
        self.0 & 5 == 1
    }

    /// The same with EFCI set, if it is user data.
    pub const fn with_congestion(self) -> Pti {
        if self.is_data() {
            Pti(self.0 | 2)
        } else {
            self
        }
    }
}

impl Cell {
    /// The 53 bytes on the link.
    pub fn encode(&self) -> [u8; CELL_SIZE] {
        let mut out = [0; CELL_SIZE];
        let head = u32::from(self.vpi) << 20
            | u32::from(self.vci) << 4
            | u32::from(self.pti.code()) << 1
            | u32::from(self.clp);
        out[..4].copy_from_slice(&head.to_be_bytes());
        out[4] = HEC.checksum(&out[..4]);
        out[5..].copy_from_slice(&self.payload);
        out
    }

    /// Decodes exactly 53 bytes; a header in error is refused, not corrected.
    pub fn decode(bytes: &[u8]) -> Result<Cell, CellError> {
        let b = Cell::check(bytes)?;
        let head = u32::from_be_bytes([b[0], b[1], b[2], b[3]]);
        let mut payload = [0; CELL_PAYLOAD];
        payload.copy_from_slice(&b[5..]);
        Ok(Cell {
            vpi: (head >> 20) as u8,
            vci: (head >> 4) as u16,
            pti: Pti::new((head >> 1) as u8),
            clp: head & 1 != 0,
            payload,
        })
    }

    /// Whether these are the bytes of a cell.
    pub(crate) fn check(bytes: &[u8]) -> Result<&[u8; CELL_SIZE], CellError> {
        let cell: &[u8; CELL_SIZE] = bytes
            .try_into()
            .map_err(|_| CellError::Length(bytes.len()))?;
        let (found, expected) = (cell[4], HEC.checksum(&cell[..4]));
        if found != expected {
            return Err(CellError::Hec { found, expected });
        }
        if cell[0] >> 4 != 0 {
            return Err(CellError::Gfc(cell[0] >> 4));
        }
        Ok(cell)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_cell_has_the_standard_header() {
        // ITU-T I.432.1: idle cells are 00 00 00 01, HEC 52.
        let idle = Cell {
            vpi: 0,
            vci: 0,
            pti: Pti::default(),
            clp: true,
            payload: [0x6a; 48],
        };
        assert_eq!(idle.encode()[..5], [0, 0, 0, 1, 0x52]);
    }

    #[test]
    fn every_single_bit_error_of_the_header_is_seen() {
        let cell = Cell {
            vpi: 3,
            vci: 40_001,
            pti: Pti::data(true, true),
            clp: false,
            payload: [9; 48],
        };
        let good = cell.encode();
        assert_eq!(Cell::decode(&good), Ok(cell));
        for bit in 0..40 {
            let mut bad = good;
            bad[bit / 8] ^= 0x80 >> (bit % 8);
            assert!(matches!(Cell::decode(&bad), Err(CellError::Hec { .. })));
        }
        assert_eq!(Cell::decode(&good[..52]), Err(CellError::Length(52)));
    }

    #[test]
    fn only_user_data_has_efci_and_auu() {
        let congested: Vec<u8> = (0..8).filter(|&c| Pti::new(c).congestion()).collect();
        let marked: Vec<u8> = (0..8).filter(|&c| Pti::new(c).auu()).collect();
        assert_eq!(congested, [2, 3]);
        assert_eq!(marked, [1, 3]);
        assert_eq!(Pti::new(1).with_congestion(), Pti::data(true, true));
        assert_eq!(Pti::new(5).with_congestion(), Pti::new(5));
    }
}
