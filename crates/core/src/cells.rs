/// Bytes of an ATM cell on the wire: 5 of header, 48 of payload (ITU-T I.361).
pub const CELL_SIZE: usize = 53;
/// Payload bytes of an ATM cell.
pub const CELL_PAYLOAD: usize = 48;
/// Bits of a cell on the wire.
pub const CELL_BITS: u64 = 424;
/// Bytes of the AAL5 trailer: UU, CPI, length, CRC-32 (ITU-T I.363.5).
pub const AAL5_TRAILER: usize = 8;

/// How many cells an AAL5 frame of `bytes` payload bytes takes, trailer and padding included.
pub const fn aal5_cells(bytes: usize) -> u32 {
    (bytes + AAL5_TRAILER).div_ceil(CELL_PAYLOAD) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trailer_fits_or_adds_a_cell() {
        assert_eq!(aal5_cells(40), 1);
        assert_eq!(aal5_cells(41), 2);
        assert_eq!(aal5_cells(32_768 + 24), 684);
    }
}
