use super::bits::{BitReader, BitSink};

/// Most zeros before the first one of a code.
const LEADING: usize = 12;
/// Bits looked at behind the first one.
const BEHIND: usize = 7;

/// A variable length code, read with one look: by the zeros before its first one, and the seven bits
/// behind that one.
pub(crate) struct Vlc {
    /// Value and length; length 0 where no code is.
    entries: [(u16, u8); LEADING << BEHIND],
}

impl Vlc {
    /// A table as the standard prints it: each code as text, spaces for the eye, and its value.
    pub const fn new(codes: &[(&str, u16)]) -> Vlc {
        let mut vlc = Vlc {
            entries: [(0, 0); LEADING << BEHIND],
        };
        let mut i = 0;
        while i < codes.len() {
            vlc = vlc.with(codes[i].0, codes[i].1);
            i += 1;
        }
        vlc
    }

    /// The same with one more code.
    pub const fn with(mut self, text: &str, value: u16) -> Vlc {
        let (code, len) = parse(text);
        let leading = code.leading_zeros() - (32 - len);
        let behind = len - leading - 1;
        let free = BEHIND - behind as usize;
        let tail = code as usize & ((1 << behind) - 1);
        let mut entry = ((leading as usize) << BEHIND) + (tail << free);
        let end = entry + (1 << free);
        while entry < end {
            assert!(self.entries[entry].1 == 0, "two codes begin alike");
            self.entries[entry] = (value, len as u8);
            entry += 1;
        }
        self
    }

    /// Value and length of the code that begins `peek`.
    pub fn look(&self, peek: u32) -> Option<(u16, u32)> {
        let leading = peek.leading_zeros();
        if leading >= LEADING as u32 {
            return None;
        }
        let behind = (peek << leading << 1) >> (32 - BEHIND);
        let (value, len) = self.entries[((leading as usize) << BEHIND) + behind as usize];
        (len != 0).then_some((value, u32::from(len)))
    }

    /// Takes a code.
    pub fn take(&self, bits: &mut BitReader) -> Option<u16> {
        let (value, len) = self.look(bits.peek())?;
        bits.skip(len)?;
        Some(value)
    }
}

/// A code printed as zeros and ones: its bits and how many they are.
const fn parse(text: &str) -> (u32, u32) {
    let text = text.as_bytes();
    let (mut code, mut len, mut i) = (0, 0, 0);
    while i < text.len() {
        if text[i] != b' ' {
            code = code << 1 | (text[i] - b'0') as u32;
            len += 1;
        }
        i += 1;
    }
    (code, len)
}

/// Codes by value, to write them.
struct Codes<const N: usize>([(u16, u8); N]);

impl<const N: usize> Codes<N> {
    const fn new(codes: &[(&str, u16)]) -> Codes<N> {
        let mut all = [(0, 0); N];
        let mut i = 0;
        while i < codes.len() {
            let (code, len) = parse(codes[i].0);
            all[codes[i].1 as usize] = (code as u16, len as u8);
            i += 1;
        }
        Codes(all)
    }

    fn put(&self, value: usize, sink: &mut impl BitSink) {
        let (code, len) = self.0[value];
        debug_assert_ne!(len, 0, "no code for {value}");
        sink.put(u32::from(code), u32::from(len));
    }
}

const INCREMENT_ESCAPE: u16 = 34;
const INCREMENT_STUFFING: u16 = 35;

/// `macroblock_address_increment` (ISO/IEC 13818-2 table B.1; stuffing is of 11172-2 alone).
const INCREMENTS: &[(&str, u16)] = &[
    ("1", 1),
    ("011", 2),
    ("010", 3),
    ("0011", 4),
    ("0010", 5),
    ("0001 1", 6),
    ("0001 0", 7),
    ("0000 111", 8),
    ("0000 110", 9),
    ("0000 1011", 10),
    ("0000 1010", 11),
    ("0000 1001", 12),
    ("0000 1000", 13),
    ("0000 0111", 14),
    ("0000 0110", 15),
    ("0000 0101 11", 16),
    ("0000 0101 10", 17),
    ("0000 0101 01", 18),
    ("0000 0101 00", 19),
    ("0000 0100 11", 20),
    ("0000 0100 10", 21),
    ("0000 0100 011", 22),
    ("0000 0100 010", 23),
    ("0000 0100 001", 24),
    ("0000 0100 000", 25),
    ("0000 0011 111", 26),
    ("0000 0011 110", 27),
    ("0000 0011 101", 28),
    ("0000 0011 100", 29),
    ("0000 0011 011", 30),
    ("0000 0011 010", 31),
    ("0000 0011 001", 32),
    ("0000 0011 000", 33),
    ("0000 0001 000", INCREMENT_ESCAPE),
    ("0000 0001 111", INCREMENT_STUFFING),
];
static INCREMENT: Vlc = Vlc::new(INCREMENTS);
static INCREMENT_CODES: Codes<36> = Codes::new(INCREMENTS);

/// Takes a macroblock address increment, with escapes and stuffing before it.
pub(crate) fn take_increment(bits: &mut BitReader) -> Option<u32> {
    let mut increment = 0u32;
    loop {
        match INCREMENT.take(bits)? {
            INCREMENT_ESCAPE => increment = increment.saturating_add(33),
            INCREMENT_STUFFING => (),
            last => return Some(increment.saturating_add(u32::from(last))),
        }
    }
}

/// Puts a macroblock address increment.
pub(crate) fn put_increment(sink: &mut impl BitSink, mut increment: u32) {
    while increment > 33 {
        INCREMENT_CODES.put(usize::from(INCREMENT_ESCAPE), sink);
        increment -= 33;
    }
    INCREMENT_CODES.put(increment.max(1) as usize, sink);
}

/// What `macroblock_type` says (ISO/IEC 13818-2, 6.3.17.1), as bits.
pub(crate) mod mb {
    pub const INTRA: u8 = 1;
    pub const PATTERN: u8 = 2;
    pub const BACKWARD: u8 = 4;
    pub const FORWARD: u8 = 8;
    pub const QUANT: u8 = 16;
}

const I: u16 = mb::INTRA as u16;
const P: u16 = mb::PATTERN as u16;
const B: u16 = mb::BACKWARD as u16;
const F: u16 = mb::FORWARD as u16;
const Q: u16 = mb::QUANT as u16;

/// `macroblock_type` in I pictures (table B.2).
const TYPES_I: &[(&str, u16)] = &[("1", I), ("01", Q | I)];
/// `macroblock_type` in P pictures (table B.3).
const TYPES_P: &[(&str, u16)] = &[
    ("1", F | P),
    ("01", P),
    ("001", F),
    ("0001 1", I),
    ("0001 0", Q | F | P),
    ("0000 1", Q | P),
    ("0000 01", Q | I),
];
/// `macroblock_type` in B pictures (table B.4).
const TYPES_B: &[(&str, u16)] = &[
    ("10", F | B),
    ("11", F | B | P),
    ("010", B),
    ("011", B | P),
    ("0010", F),
    ("0011", F | P),
    ("0001 1", I),
    ("0001 0", Q | F | B | P),
    ("0000 11", Q | F | P),
    ("0000 10", Q | B | P),
    ("0000 01", Q | I),
];
static TYPE: [Vlc; 3] = [Vlc::new(TYPES_I), Vlc::new(TYPES_P), Vlc::new(TYPES_B)];
static TYPE_CODES: [Codes<32>; 3] = [
    Codes::new(TYPES_I),
    Codes::new(TYPES_P),
    Codes::new(TYPES_B),
];

/// Takes a macroblock type: a sum of [`mb`] bits.
pub(crate) fn take_type(bits: &mut BitReader, picture: crate::Picture) -> Option<u8> {
    Some(TYPE[picture as usize].take(bits)? as u8)
}

/// Puts a macroblock type, one that such pictures have.
pub(crate) fn put_type(sink: &mut impl BitSink, picture: crate::Picture, flags: u8) {
    TYPE_CODES[picture as usize].put(usize::from(flags & 31), sink);
}

/// `coded_block_pattern` of 4:2:0 video (table B.9), first block in the highest bit.
const PATTERNS: &[(&str, u16)] = &[
    ("111", 60),
    ("1101", 4),
    ("1100", 8),
    ("1011", 16),
    ("1010", 32),
    ("1001 1", 12),
    ("1001 0", 48),
    ("1000 1", 20),
    ("1000 0", 40),
    ("0111 1", 28),
    ("0111 0", 44),
    ("0110 1", 52),
    ("0110 0", 56),
    ("0101 1", 1),
    ("0101 0", 61),
    ("0100 1", 2),
    ("0100 0", 62),
    ("0011 11", 24),
    ("0011 10", 36),
    ("0011 01", 3),
    ("0011 00", 63),
    ("0010 111", 5),
    ("0010 110", 9),
    ("0010 101", 17),
    ("0010 100", 33),
    ("0010 011", 6),
    ("0010 010", 10),
    ("0010 001", 18),
    ("0010 000", 34),
    ("0001 1111", 7),
    ("0001 1110", 11),
    ("0001 1101", 19),
    ("0001 1100", 35),
    ("0001 1011", 13),
    ("0001 1010", 49),
    ("0001 1001", 21),
    ("0001 1000", 41),
    ("0001 0111", 14),
    ("0001 0110", 50),
    ("0001 0101", 22),
    ("0001 0100", 42),
    ("0001 0011", 15),
    ("0001 0010", 51),
    ("0001 0001", 23),
    ("0001 0000", 43),
    ("0000 1111", 25),
    ("0000 1110", 37),
    ("0000 1101", 26),
    ("0000 1100", 38),
    ("0000 1011", 29),
    ("0000 1010", 45),
    ("0000 1001", 53),
    ("0000 1000", 57),
    ("0000 0111", 30),
    ("0000 0110", 46),
    ("0000 0101", 54),
    ("0000 0100", 58),
    ("0000 0011 1", 31),
    ("0000 0011 0", 47),
    ("0000 0010 1", 55),
    ("0000 0010 0", 59),
    ("0000 0001 1", 27),
    ("0000 0001 0", 39),
];
static PATTERN: Vlc = Vlc::new(PATTERNS);
static PATTERN_CODES: Codes<64> = Codes::new(PATTERNS);

/// Takes a coded block pattern.
pub(crate) fn take_pattern(bits: &mut BitReader) -> Option<u8> {
    Some(PATTERN.take(bits)? as u8)
}

/// Puts a coded block pattern, not zero.
pub(crate) fn put_pattern(sink: &mut impl BitSink, pattern: u8) {
    PATTERN_CODES.put(usize::from(pattern & 63), sink);
}

/// The magnitude of `motion_code` (table B.10); behind it, unless zero, stands its sign.
const MOTIONS: &[(&str, u16)] = &[
    ("1", 0),
    ("01", 1),
    ("001", 2),
    ("0001", 3),
    ("0000 11", 4),
    ("0000 101", 5),
    ("0000 100", 6),
    ("0000 011", 7),
    ("0000 0101 1", 8),
    ("0000 0101 0", 9),
    ("0000 0100 1", 10),
    ("0000 0100 01", 11),
    ("0000 0100 00", 12),
    ("0000 0011 11", 13),
    ("0000 0011 10", 14),
    ("0000 0011 01", 15),
    ("0000 0011 00", 16),
];
static MOTION: Vlc = Vlc::new(MOTIONS);
static MOTION_CODES: Codes<17> = Codes::new(MOTIONS);

/// Takes `motion_code` and `motion_residual`: how much a vector component differs from its predictor.
pub(crate) fn take_motion(bits: &mut BitReader, r_size: u32) -> Option<i32> {
    let code = i32::from(MOTION.take(bits)?);
    if code == 0 {
        return Some(0);
    }
    let negative = bits.take(1)? == 1;
    let residual = bits.take(r_size)? as i32;
    let magnitude = ((code - 1) << r_size) + residual + 1;
    Some(if negative { -magnitude } else { magnitude })
}

/// Puts the difference of a vector component, of at most 16 << `r_size`.
pub(crate) fn put_motion(sink: &mut impl BitSink, r_size: u32, difference: i32) {
    if difference == 0 {
        return MOTION_CODES.put(0, sink);
    }
    let magnitude = difference.unsigned_abs() - 1;
    MOTION_CODES.put((magnitude >> r_size) as usize + 1, sink);
    sink.put(u32::from(difference < 0), 1);
    sink.put(magnitude, r_size);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Picture;
    use crate::mpeg::bits::BitWriter;

    fn written(put: impl FnOnce(&mut BitWriter)) -> Vec<u8> {
        let mut writer = BitWriter::default();
        put(&mut writer);
        writer.put(1, 1);
        writer.finish()
    }

    #[test]
    fn address_increments_are_those_of_table_b_1() {
        for (n, code) in [
            (1, "1"),
            (5, "0010"),
            (10, "00001011"),
            (21, "0000010010"),
            (33, "00000011000"),
            (34, "000000010001"),
            (67, "00000001000000000010001"),
        ] {
            let bits: String = written(|bits| put_increment(bits, n))
                .iter()
                .map(|byte| format!("{byte:08b}"))
                .collect();
            assert!(bits.starts_with(&format!("{code}1")), "{n}: {bits}");
        }
    }

    #[test]
    fn what_is_put_is_taken_again() {
        for n in 1..200 {
            let bytes = written(|bits| put_increment(bits, n));
            assert_eq!(take_increment(&mut BitReader::new(&bytes, 0)), Some(n));
        }
        for n in 1..64 {
            let bytes = written(|bits| put_pattern(bits, n));
            assert_eq!(take_pattern(&mut BitReader::new(&bytes, 0)), Some(n));
        }
        for r_size in 0..9 {
            for n in -(16 << r_size)..=(16 << r_size) {
                let bytes = written(|bits| put_motion(bits, r_size, n));
                assert_eq!(take_motion(&mut BitReader::new(&bytes, 0), r_size), Some(n));
            }
        }
        for (picture, table) in [Picture::I, Picture::P, Picture::B]
            .into_iter()
            .zip([TYPES_I, TYPES_P, TYPES_B])
        {
            for &(_, flags) in table {
                let bytes = written(|bits| put_type(bits, picture, flags as u8));
                let taken = take_type(&mut BitReader::new(&bytes, 0), picture);
                assert_eq!(taken, Some(flags as u8));
            }
        }
    }

    #[test]
    fn twenty_three_zeros_begin_no_code() {
        let mut bits = BitReader::new(&[0, 0, 1, 1], 0);
        assert_eq!(take_increment(&mut bits), None);
        assert_eq!(take_pattern(&mut bits), None);
    }
}
