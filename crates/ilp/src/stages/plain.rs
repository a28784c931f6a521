//! Stages of a few instructions a word.

use crate::stage::{MAX_RESULT, Stage};

/// Moves the octets.
#[derive(Clone, Copy, Default, Debug)]
pub struct Copy;

impl Stage for Copy {
    const NAME: &'static str = "copy";
    const WORDS: usize = 1;
    const STATE_WORDS: usize = 0;
    const INSTR_PER_WORD: u32 = 0;
    const READS_ONLY: bool = false;

    #[inline(always)]
    fn fwd(&mut self, _: &mut [u32]) {}
}

/// Turns the octets of each word round.
#[derive(Clone, Copy, Default, Debug)]
pub struct ByteSwap;

impl Stage for ByteSwap {
    const NAME: &'static str = "bswap";
    const WORDS: usize = 1;
    const STATE_WORDS: usize = 0;
    const INSTR_PER_WORD: u32 = 1;
    const READS_ONLY: bool = false;

    #[inline(always)]
    fn fwd(&mut self, unit: &mut [u32]) {
        unit[0] = unit[0].swap_bytes();
    }
}

/// Internet checksum (RFC 1071), without a pseudo-header.
#[derive(Clone, Copy, Default, Debug)]
pub struct Checksum {
    /// Whole words are added: 2^16 is 1 modulo 65535, so the carries come out the same.
    sum: u64,
}

impl Stage for Checksum {
    const NAME: &'static str = "checksum";
    const WORDS: usize = 1;
    const STATE_WORDS: usize = 1;
    const INSTR_PER_WORD: u32 = 1;
    const RESULT_WORDS: usize = 1;
    const READS_ONLY: bool = true;

    #[inline(always)]
    fn begin(&mut self, _: u64) {
        self.sum = 0;
    }
    #[inline(always)]
    fn fwd(&mut self, unit: &mut [u32]) {
        self.sum += u64::from(unit[0]);
    }
    fn finish(&mut self) -> [u32; MAX_RESULT] {
        let mut sum = self.sum;
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        [u32::from(!(sum as u16)), 0, 0, 0]
    }
}

/// Exclusive or of all words.
#[derive(Clone, Copy, Default, Debug)]
pub struct Parity {
    word: u32,
}

impl Stage for Parity {
    const NAME: &'static str = "parity";
    const WORDS: usize = 1;
    const STATE_WORDS: usize = 1;
    const INSTR_PER_WORD: u32 = 1;
    const RESULT_WORDS: usize = 1;
    const READS_ONLY: bool = true;

    #[inline(always)]
    fn begin(&mut self, _: u64) {
        self.word = 0;
    }
    #[inline(always)]
    fn fwd(&mut self, unit: &mut [u32]) {
        self.word ^= unit[0];
    }
    #[inline(always)]
    fn finish(&mut self) -> [u32; MAX_RESULT] {
        [self.word, 0, 0, 0]
    }
}

/// A trivial cipher such as the PES of Abbott and Peterson (specs/ilp-hazards.md 6). It protects nothing.
#[derive(Clone, Copy, Debug)]
pub struct Pes {
    key: u32,
    constant: u32,
}

impl Default for Pes {
    fn default() -> Pes {
        Pes {
            key: 0x9e37_79b9,
            constant: 0x7f4a_7c15,
        }
    }
}

impl Stage for Pes {
    const NAME: &'static str = "pes";
    const WORDS: usize = 1;
    const STATE_WORDS: usize = 0;
    const INSTR_PER_WORD: u32 = 3;
    const READS_ONLY: bool = false;

    #[inline(always)]
    fn fwd(&mut self, unit: &mut [u32]) {
        unit[0] = (unit[0] ^ self.key)
            .rotate_left(5)
            .wrapping_add(self.constant);
    }
    #[inline(always)]
    fn inv(&mut self, unit: &mut [u32]) {
        unit[0] = unit[0].wrapping_sub(self.constant).rotate_right(5) ^ self.key;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_of_the_rfc() {
        // RFC 1071, 3: the sum of 0001 f203 f4f5 f6f7 is ddf2.
        let mut stage = Checksum::default();
        for word in [0x0001_f203, 0xf4f5_f6f7] {
            stage.fwd(&mut [word]);
        }
        assert_eq!(stage.finish()[0], u32::from(!0xddf2_u16));
    }

    #[test]
    fn no_carry_is_lost_after_a_mebibyte_of_ones() {
        let mut stage = Checksum::default();
        stage.fwd_run(&mut vec![0xff; 1 << 20]);
        assert_eq!(stage.finish()[0], 0);
        stage.begin(1);
        assert_eq!(stage.finish()[0], 0xffff, "nothing at all");
    }
}
