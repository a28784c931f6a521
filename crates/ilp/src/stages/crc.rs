//! Cyclic redundancy checks.

use crc::{CRC_32_BZIP2, CRC_32_ISCSI, Crc, Table};

use crate::stage::{MAX_RESULT, Stage};

/// Table `k` of each has the effect of an octet with `k` octets after it: a word takes the first four.
static AAL5: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&CRC_32_BZIP2);
static CRC32C: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&CRC_32_ISCSI);

/// The octets of a word, the one that the polynomial divides first in front, through the tables.
#[inline(always)]
fn divide(crc: &Crc<u32, Table<16>>, [a, b, c, d]: [u8; 4]) -> u32 {
    let tables = crc.table();
    tables[3][usize::from(a)]
        ^ tables[2][usize::from(b)]
        ^ tables[1][usize::from(c)]
        ^ tables[0][usize::from(d)]
}

/// CRC-32 of AAL5: the most significant bit first.
#[derive(Clone, Copy, Debug)]
pub struct Crc32Aal5 {
    state: u32,
}

impl Default for Crc32Aal5 {
    fn default() -> Crc32Aal5 {
        Crc32Aal5 { state: !0 }
    }
}

impl Stage for Crc32Aal5 {
    const NAME: &'static str = "crc32-aal5";
    const WORDS: usize = 1;
    const STATE_WORDS: usize = 1;
    const INSTR_PER_WORD: u32 = 12;
    const RESULT_WORDS: usize = 1;
    const READS_ONLY: bool = true;
    const LIBRARY_LOOP: bool = true;

    #[inline(always)]
    fn begin(&mut self, _: u64) {
        self.state = !0;
    }
    #[inline(always)]
    fn fwd(&mut self, unit: &mut [u32]) {
        self.state = divide(&AAL5, (self.state ^ unit[0]).to_be_bytes());
    }
    fn finish(&mut self) -> [u32; MAX_RESULT] {
        [!self.state, 0, 0, 0]
    }
    fn fwd_run(&mut self, octets: &mut [u8]) {
        // The library takes the start as reflected bits would have it, and gives the end inverted.
        let mut digest = AAL5.digest_with_initial(self.state);
        digest.update(octets);
        self.state = !digest.finalize();
    }
    fn inv_run(&mut self, octets: &mut [u8]) {
        self.fwd_run(octets);
    }
}

/// CRC-32C, the least significant bit first.
#[derive(Clone, Copy, Debug)]
pub struct Crc32c {
    state: u32,
}

impl Default for Crc32c {
    fn default() -> Crc32c {
        Crc32c { state: !0 }
    }
}

impl Stage for Crc32c {
    const NAME: &'static str = "crc32c";
    const WORDS: usize = 1;
    const STATE_WORDS: usize = 1;
    const INSTR_PER_WORD: u32 = 13;
    const RESULT_WORDS: usize = 1;
    const READS_ONLY: bool = true;
    const LIBRARY_LOOP: bool = true;

    #[inline(always)]
    fn begin(&mut self, _: u64) {
        self.state = !0;
    }
    #[inline(always)]
    fn fwd(&mut self, unit: &mut [u32]) {
        self.state = divide(&CRC32C, (self.state ^ unit[0].swap_bytes()).to_le_bytes());
    }
    fn finish(&mut self) -> [u32; MAX_RESULT] {
        [!self.state, 0, 0, 0]
    }
    fn fwd_run(&mut self, octets: &mut [u8]) {
        self.state = !crc32c::crc32c_append(!self.state, octets);
    }
    fn inv_run(&mut self, octets: &mut [u8]) {
        self.fwd_run(octets);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::each_unit;

    /// By units and by the library.
    fn both<S: Stage + Clone>(stage: &S, octets: &[u8]) -> [u32; 2] {
        let (mut words, mut run) = (stage.clone(), stage.clone());
        let mut octets = octets.to_vec();
        each_unit(&mut octets, 1, true, |unit| words.fwd(unit));
        run.fwd_run(&mut octets);
        [words.finish()[0], run.finish()[0]]
    }

    #[test]
    fn crc32c_of_the_rfc() {
        // RFC 3720, B.4, as values: the octets of the examples are in little-endian order.
        let vectors = [([0; 32], 0x8a91_36aa), ([0xff; 32], 0x62a8_ab43)];
        for (octets, crc) in vectors {
            assert_eq!(both(&Crc32c::default(), &octets), [crc; 2]);
        }
        let rising: [u8; 32] = std::array::from_fn(|at| at as u8);
        assert_eq!(both(&Crc32c::default(), &rising), [0x46dd_794e; 2]);
    }

    #[test]
    fn crc32_of_aal5_by_bits() {
        let octets: Vec<u8> = (0..480_u32).map(|at| ((at * at) >> 3) as u8).collect();
        let mut crc = !0_u32;
        for octet in &octets {
            crc ^= u32::from(*octet) << 24;
            for _ in 0..8 {
                crc = (crc << 1) ^ (if crc >> 31 == 1 { 0x04c1_1db7 } else { 0 });
            }
        }
        assert_eq!(both(&Crc32Aal5::default(), &octets), [!crc; 2]);
        // A frame with its CRC behind has the residue of I.363.5, C704DD7B.
        let mut stage = Crc32Aal5::default();
        let mut octets = octets;
        octets.extend((!crc).to_be_bytes());
        stage.fwd_run(&mut octets[..240]);
        stage.fwd_run(&mut octets[240..]);
        assert_eq!(!stage.finish()[0], 0xc704_dd7b);
    }
}
