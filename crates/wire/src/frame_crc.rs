//! The CRC-32 of AAL5 frames (ITU-T I.363.5): polynomial 0x04c11db7, not reflected, ones in and out.
//!
//! Cells are a multiple of the 16 octets of a step of the table. The octets in front of a CRC are not: the last twelve
//! of them would be taken one by one, which is half of the time of a one-cell frame. So nothing here takes a part of a cell.

use crc::{CRC_32_BZIP2, Crc, Table};
use layercast_core::CELL_PAYLOAD;

static CRC32: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&CRC_32_BZIP2);

/// Octets of the last cell in front of the CRC.
pub(crate) const BEFORE_CRC: usize = CELL_PAYLOAD - 4;
/// What is ones behind four zeros.
const BEFORE_ZEROS: u32 = 0x46af_6449;
/// The CRC of a frame with its own: it does not depend on the frame.
const RESIDUE: u32 = 0x38fb_2284;

/// The CRC of a frame that is made cell by cell.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameCrc(u32);

impl FrameCrc {
    /// Of no cells.
    pub const fn new() -> FrameCrc {
        FrameCrc(u32::MAX)
    }

    /// Takes a cell that is not the last one.
    pub fn update(&mut self, cell: &[u8; CELL_PAYLOAD]) {
        self.0 = advance(self.0, cell);
    }

    /// The CRC behind the last octets.
    pub fn finish(self, last: &[u8; BEFORE_CRC]) -> u32 {
        // What was before is the same as a difference in the first four octets, and zeros in front of them change nothing.
        let mut block = [0; CELL_PAYLOAD];
        block[4..].copy_from_slice(last);
        for (octet, state) in block[4..8].iter_mut().zip(self.0.to_be_bytes()) {
            *octet ^= state;
        }
        !advance(0, &block)
    }
}

fn advance(state: u32, cells: &[u8]) -> u32 {
    let mut digest = CRC32.digest_with_initial(state);
    digest.update(cells);
    !digest.finalize()
}

/// The CRC of the octets of a frame of one cell, with four zeros in front of them.
pub(crate) fn of_one_cell(padded: &[u8; CELL_PAYLOAD]) -> u32 {
    debug_assert_eq!(padded[..4], [0; 4]);
    !advance(BEFORE_ZEROS, padded)
}

/// Whether whole cells end with their CRC.
pub(crate) fn is_whole(cells: &[u8]) -> bool {
    CRC32.checksum(cells) == RESIDUE
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn cells_have_the_crc_of_their_octets(octets in prop::collection::vec(any::<u8>(), 44..=44 + 48 * 5), place in any::<usize>()) {
            let cells = (octets.len() - BEFORE_CRC) / CELL_PAYLOAD;
            let (front, _) = octets.as_chunks::<CELL_PAYLOAD>();
            let last: [u8; BEFORE_CRC] = std::array::from_fn(|at| octets[cells * CELL_PAYLOAD + at]);
            let mut crc = FrameCrc::new();
            front[..cells].iter().for_each(|cell| crc.update(cell));
            let mut frame = octets[..cells * CELL_PAYLOAD + BEFORE_CRC].to_vec();
            let found = crc.finish(&last);
            prop_assert_eq!(found, CRC32.checksum(&frame));
            frame.extend_from_slice(&found.to_be_bytes());
            prop_assert!(is_whole(&frame));
            let mut padded = [0; CELL_PAYLOAD];
            padded[4..].copy_from_slice(&last);
            prop_assert_eq!(of_one_cell(&padded), CRC32.checksum(&last));
            let place = place % (frame.len() * 8);
            frame[place / 8] ^= 1 << (place % 8);
            prop_assert!(!is_whole(&frame));
        }
    }
}
