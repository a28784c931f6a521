use super::bits::BitReader;
use super::vlc::Vlc;

/// Codes of pairs of run and level; a sign follows.
type Pairs = &'static [(&'static str, u8, u8)];

/// Codes that are only in table B.14 (ISO/IEC 13818-2).
const ZERO: Pairs = &[
    ("11", 0, 1),
    ("011", 1, 1),
    ("0100", 0, 2),
    ("0101", 2, 1),
    ("0010 1", 0, 3),
    ("0011 1", 3, 1),
    ("0011 0", 4, 1),
    ("0001 10", 1, 2),
    ("0001 11", 5, 1),
    ("0001 01", 6, 1),
    ("0001 00", 7, 1),
    ("0000 110", 0, 4),
    ("0000 100", 2, 2),
    ("0000 111", 8, 1),
    ("0000 101", 9, 1),
    ("0010 0110", 0, 5),
    ("0010 0001", 0, 6),
    ("0010 0101", 1, 3),
    ("0010 0100", 3, 2),
    ("0010 0111", 10, 1),
    ("0010 0011", 11, 1),
    ("0010 0010", 12, 1),
    ("0010 0000", 13, 1),
    ("0000 0010 10", 0, 7),
    ("0000 0011 00", 1, 4),
    ("0000 0010 11", 2, 3),
    ("0000 0011 11", 4, 2),
    ("0000 0010 01", 5, 2),
    ("0000 0011 10", 14, 1),
    ("0000 0011 01", 15, 1),
    ("0000 0010 00", 16, 1),
    ("0000 0001 1101", 0, 8),
    ("0000 0001 1000", 0, 9),
    ("0000 0001 0011", 0, 10),
    ("0000 0001 0000", 0, 11),
    ("0000 0001 1011", 1, 5),
    ("0000 0001 0100", 2, 4),
    ("0000 0000 1101 0", 0, 12),
    ("0000 0000 1100 1", 0, 13),
    ("0000 0000 1100 0", 0, 14),
    ("0000 0000 1011 1", 0, 15),
];

/// Codes that are only in table B.15.
const ONE: Pairs = &[
    ("10", 0, 1),
    ("010", 1, 1),
    ("110", 0, 2),
    ("0010 1", 2, 1),
    ("0111", 0, 3),
    ("0011 1", 3, 1),
    ("0001 10", 4, 1),
    ("0011 0", 1, 2),
    ("0001 11", 5, 1),
    ("0000 110", 6, 1),
    ("0000 100", 7, 1),
    ("1110 0", 0, 4),
    ("0000 111", 2, 2),
    ("0000 101", 8, 1),
    ("1111 000", 9, 1),
    ("1110 1", 0, 5),
    ("0001 01", 0, 6),
    ("1111 001", 1, 3),
    ("0010 0110", 3, 2),
    ("1111 010", 10, 1),
    ("0010 0001", 11, 1),
    ("0010 0101", 12, 1),
    ("0010 0100", 13, 1),
    ("0001 00", 0, 7),
    ("0010 0111", 1, 4),
    ("1111 1100", 2, 3),
    ("1111 1101", 4, 2),
    ("0000 0010 0", 5, 2),
    ("0000 0010 1", 14, 1),
    ("0000 0011 1", 15, 1),
    ("0000 0011 01", 16, 1),
    ("1111 011", 0, 8),
    ("1111 100", 0, 9),
    ("0010 0011", 0, 10),
    ("0010 0010", 0, 11),
    ("1111 1010", 0, 12),
    ("1111 1011", 0, 13),
    ("1111 1110", 0, 14),
    ("1111 1111", 0, 15),
    ("0010 0000", 1, 5),
    ("0000 0011 00", 2, 4),
];

/// Codes that both tables have.
const BOTH: Pairs = &[
    ("0000 0001 1100", 3, 3),
    ("0000 0001 0010", 4, 3),
    ("0000 0001 1110", 6, 2),
    ("0000 0001 0101", 7, 2),
    ("0000 0001 0001", 8, 2),
    ("0000 0001 1111", 17, 1),
    ("0000 0001 1010", 18, 1),
    ("0000 0001 1001", 19, 1),
    ("0000 0001 0111", 20, 1),
    ("0000 0001 0110", 21, 1),
    ("0000 0000 1011 0", 1, 6),
    ("0000 0000 1010 1", 1, 7),
    ("0000 0000 1010 0", 2, 5),
    ("0000 0000 1001 1", 3, 4),
    ("0000 0000 1001 0", 5, 3),
    ("0000 0000 1000 1", 9, 2),
    ("0000 0000 1000 0", 10, 2),
    ("0000 0000 1111 1", 22, 1),
    ("0000 0000 1111 0", 23, 1),
    ("0000 0000 1110 1", 24, 1),
    ("0000 0000 1110 0", 25, 1),
    ("0000 0000 1101 1", 26, 1),
    ("0000 0000 0111 11", 0, 16),
    ("0000 0000 0111 10", 0, 17),
    ("0000 0000 0111 01", 0, 18),
    ("0000 0000 0111 00", 0, 19),
    ("0000 0000 0110 11", 0, 20),
    ("0000 0000 0110 10", 0, 21),
    ("0000 0000 0110 01", 0, 22),
    ("0000 0000 0110 00", 0, 23),
    ("0000 0000 0101 11", 0, 24),
    ("0000 0000 0101 10", 0, 25),
    ("0000 0000 0101 01", 0, 26),
    ("0000 0000 0101 00", 0, 27),
    ("0000 0000 0100 11", 0, 28),
    ("0000 0000 0100 10", 0, 29),
    ("0000 0000 0100 01", 0, 30),
    ("0000 0000 0100 00", 0, 31),
    ("0000 0000 0011 000", 0, 32),
    ("0000 0000 0010 111", 0, 33),
    ("0000 0000 0010 110", 0, 34),
    ("0000 0000 0010 101", 0, 35),
    ("0000 0000 0010 100", 0, 36),
    ("0000 0000 0010 011", 0, 37),
    ("0000 0000 0010 010", 0, 38),
    ("0000 0000 0010 001", 0, 39),
    ("0000 0000 0010 000", 0, 40),
    ("0000 0000 0011 111", 1, 8),
    ("0000 0000 0011 110", 1, 9),
    ("0000 0000 0011 101", 1, 10),
    ("0000 0000 0011 100", 1, 11),
    ("0000 0000 0011 011", 1, 12),
    ("0000 0000 0011 010", 1, 13),
    ("0000 0000 0011 001", 1, 14),
    ("0000 0000 0001 0011", 1, 15),
    ("0000 0000 0001 0010", 1, 16),
    ("0000 0000 0001 0001", 1, 17),
    ("0000 0000 0001 0000", 1, 18),
    ("0000 0000 0001 0100", 6, 3),
    ("0000 0000 0001 1010", 11, 2),
    ("0000 0000 0001 1001", 12, 2),
    ("0000 0000 0001 1000", 13, 2),
    ("0000 0000 0001 0111", 14, 2),
    ("0000 0000 0001 0110", 15, 2),
    ("0000 0000 0001 0101", 16, 2),
    ("0000 0000 0001 1111", 27, 1),
    ("0000 0000 0001 1110", 28, 1),
    ("0000 0000 0001 1101", 29, 1),
    ("0000 0000 0001 1100", 30, 1),
    ("0000 0000 0001 1011", 31, 1),
];

// Values of the tables: run and level, or one of these two.
const END: u16 = 0xFFFF;
const ESCAPE: u16 = 0xFFFE;

const fn add(mut vlc: Vlc, pairs: Pairs) -> Vlc {
    let mut i = 0;
    while i < pairs.len() {
        let (code, run, level) = pairs[i];
        vlc = vlc.with(code, (run as u16) << 8 | level as u16);
        i += 1;
    }
    vlc
}

static TABLE_ZERO: Vlc = add(
    add(Vlc::new(&[("10", END), ("0000 01", ESCAPE)]), ZERO),
    BOTH,
);
static TABLE_ONE: Vlc = add(
    add(Vlc::new(&[("0110", END), ("0000 01", ESCAPE)]), ONE),
    BOTH,
);

/// How the coefficients of a block are coded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Coding {
    /// Escapes of ISO/IEC 13818-2, not 11172-2.
    pub mpeg2: bool,
    /// Table B.15, not B.14.
    pub table_one: bool,
}

/// A step in the coefficients of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// A run of zeros, then a level of this magnitude.
    Level { run: u8, magnitude: u16 },
    /// End of block.
    End,
}

impl Coding {
    /// The code of the end of a block: its bits, and how many.
    pub const fn end_of_block(self) -> (u32, u32) {
        if self.table_one {
            (0b0110, 4)
        } else {
            (0b10, 2)
        }
    }

    /// Takes a step; `first` is the first coefficient of a block that is not intra.
    pub fn take(self, bits: &mut BitReader, first: bool) -> Option<Step> {
        let peek = bits.peek();
        if first && peek >> 31 == 1 {
            bits.skip(2)?;
            return Some(Step::Level {
                run: 0,
                magnitude: 1,
            });
        }
        let table = if self.table_one {
            &TABLE_ONE
        } else {
            &TABLE_ZERO
        };
        let (value, len) = table.look(peek)?;
        match value {
            END => {
                bits.skip(len)?;
                Some(Step::End)
            }
            ESCAPE => {
                bits.skip(len)?;
                let run = bits.take(6)? as u8;
                let magnitude = self.escaped_level(bits)?;
                Some(Step::Level { run, magnitude })
            }
            _ => {
                bits.skip(len + 1)?;
                Some(Step::Level {
                    run: (value >> 8) as u8,
                    magnitude: value & 0xFF,
                })
            }
        }
    }

    /// The magnitude of an escaped level; `None` if it is one of those forbidden.
    fn escaped_level(self, bits: &mut BitReader) -> Option<u16> {
        if self.mpeg2 {
            let level = bits.take(12)? as u16;
            return match level {
                0 | 0x800 => None,
                1..=0x7FF => Some(level),
                _ => Some(0x1000 - level),
            };
        }
        let short = bits.take(8)? as u16;
        match short {
            // Longer levels: 128 to 255 behind zeros, -255 to -128 behind a one and seven zeros.
            0 => Some(bits.take(8)? as u16).filter(|&level| level >= 0x80),
            0x80 => {
                let level = bits.take(8)? as u16;
                (1..=0x80).contains(&level).then_some(0x100 - level)
            }
            1..=0x7F => Some(short),
            _ => Some(0x100 - short),
        }
    }
}

/// Takes the DC coefficient of an intra block: `dct_dc_size` (tables B.12, B.13) and the difference.
pub(crate) fn take_dc(bits: &mut BitReader, luminance: bool) -> Option<()> {
    let peek = bits.peek();
    let ones = peek.leading_ones();
    let (size, len) = match (luminance, peek >> 29) {
        (true, 0b000 | 0b001) => (1, 2),
        (true, 0b010 | 0b011) => (2, 2),
        (true, 0b100) => (0, 3),
        (true, 0b101) => (3, 3),
        (true, _) => (ones.min(9) + 2, (ones + 1).min(9)),
        (false, 0b110 | 0b111) => (ones.min(10) + 1, (ones + 1).min(10)),
        (false, two) => (two >> 1, 2),
    };
    bits.skip(len + size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_tables_code_the_same_pairs() {
        let pairs = |head: Pairs| {
            let mut pairs: Vec<_> = head.iter().chain(BOTH).map(|(_, r, l)| (r, l)).collect();
            pairs.sort();
            pairs.dedup();
            pairs
        };
        assert_eq!(pairs(ZERO).len(), 111);
        assert_eq!(pairs(ZERO), pairs(ONE));
    }

    fn step(coding: Coding, first: bool, bits: &str) -> Option<(Step, usize)> {
        let mut bytes = vec![0; 8];
        for (at, bit) in bits.bytes().filter(|bit| *bit != b' ').enumerate() {
            bytes[at / 8] |= (bit - b'0') << (7 - at % 8);
        }
        let mut reader = BitReader::new(&bytes, 0);
        Some((coding.take(&mut reader, first)?, reader.at()))
    }

    #[test]
    fn escapes_differ_between_the_standards() {
        let level = |run, magnitude, bits| Some((Step::Level { run, magnitude }, bits));
        let [one, two] = [false, true].map(|mpeg2| Coding {
            mpeg2,
            table_one: false,
        });
        assert_eq!(step(one, false, "000001 000011 00000101"), level(3, 5, 20));
        assert_eq!(step(one, false, "000001 000011 11111011"), level(3, 5, 20));
        let long = |bits| step(one, false, bits);
        assert_eq!(long("000001 000011 00000000 10000001"), level(3, 129, 28));
        assert_eq!(long("000001 000011 10000000 00000001"), level(3, 255, 28));
        assert_eq!(long("000001 000011 00000000 00000001"), None);
        assert_eq!(long("000001 000011 10000000 00000000"), None);
        assert_eq!(
            step(two, false, "000001 000011 000000000101"),
            level(3, 5, 24)
        );
        assert_eq!(
            step(two, false, "000001 000011 111111111011"),
            level(3, 5, 24)
        );
        assert_eq!(step(two, false, "000001 000011 000000000000"), None);
        assert_eq!(step(two, false, "000001 000011 100000000000"), None);
    }

    #[test]
    fn the_first_coefficient_may_begin_like_the_end_of_a_block() {
        let coding = Coding {
            mpeg2: true,
            table_one: false,
        };
        let (run, magnitude) = (0, 1);
        let one = Step::Level { run, magnitude };
        assert_eq!(step(coding, true, "10"), Some((one, 2)));
        assert_eq!(step(coding, false, "110"), Some((one, 3)));
        assert_eq!(step(coding, false, "10"), Some((Step::End, 2)));
    }

    #[test]
    fn sizes_of_dc_coefficients_are_those_of_tables_b_12_and_b_13() {
        let len = |byte: u16, luminance| {
            let bytes = [byte.to_be_bytes(), [0; 2], [0; 2]].concat();
            let mut bits = BitReader::new(&bytes, 0);
            take_dc(&mut bits, luminance).map(|()| bits.at())
        };
        // Size 0, 1, 2, 3, 4, 10 and 11, each with its code.
        let codes = [
            (true, "100 00 01 101 110 111111110 111111111"),
            (false, "00 01 10 110 1110 1111111110 1111111111"),
        ];
        for (luminance, codes) in codes {
            for (code, size) in codes.split(' ').zip([0, 1, 2, 3, 4, 10, 11]) {
                let bits = u16::from_str_radix(code, 2).unwrap() << (16 - code.len());
                assert_eq!(len(bits, luminance), Some(code.len() + size), "{code}");
            }
        }
    }
}
