//! Whether a frame of VP8 has the parts that its header tells of (RFC 6386, 9.1 to 9.6).

/// Octets of the frame tag, and of that of a key frame with its size.
const TAG: usize = 3;
const KEY_TAG: usize = 10;
/// Octets of the size of a token partition.
const SIZE: usize = 3;

/// Whether a frame has its first partition, the rest of its header, and its token partitions but the last, whose sizes follow it. Of the
/// last one only decoding tells.
pub(crate) fn has_parts(data: &[u8]) -> bool {
    are_whole(data).unwrap_or(false)
}

fn are_whole(data: &[u8]) -> Option<bool> {
    let &[first, second, third] = data.first_chunk()?;
    let is_key = first & 1 == 0;
    let len = u32::from_le_bytes([first, second, third, 0]) >> 5;
    let rest = data.get(if is_key { KEY_TAG } else { TAG }..)?;
    let (header, rest) = rest.split_at_checked(len as usize)?;
    let sizes = SIZE * (partitions(&mut Bools::new(header), is_key) - 1);
    let (sizes, rest) = rest.split_at_checked(sizes)?;
    let sizes = sizes.as_chunks::<SIZE>().0.iter();
    let wanted: usize = sizes
        .map(|&[low, middle, high]| u32::from_le_bytes([low, middle, high, 0]) as usize)
        .sum();
    Some(wanted <= rest.len())
}

/// Reads the header of a frame (9.2) as far as the number of its token partitions.
fn partitions(bools: &mut Bools, is_key: bool) -> usize {
    if is_key {
        bools.literal(2);
    }
    if bools.flag() {
        segmentation(bools);
    }
    // The loop filter, and what it adds for kinds of blocks.
    bools.literal(10);
    if bools.flag() && bools.flag() {
        (0..8).for_each(|_| bools.optional(7));
    }
    1 << bools.literal(2)
}

/// Segments (9.3).
fn segmentation(bools: &mut Bools) {
    let (has_map, has_data) = (bools.flag(), bools.flag());
    if has_data {
        bools.literal(1);
        (0..4).for_each(|_| bools.optional(8));
        (0..4).for_each(|_| bools.optional(7));
    }
    if has_map {
        (0..3).for_each(|_| bools.optional(8));
    }
}

/// The boolean decoder (7.3) for values whose halves are alike. Behind its end it reads zeros, as decoders do.
struct Bools<'a> {
    data: &'a [u8],
    value: u32,
    range: u32,
    shifted: u32,
}

impl<'a> Bools<'a> {
    fn new(data: &'a [u8]) -> Bools<'a> {
        let mut bools = Bools {
            data,
            value: 0,
            range: 255,
            shifted: 0,
        };
        bools.value = bools.octet() << 8 | bools.octet();
        bools
    }

    fn octet(&mut self) -> u32 {
        self.data.split_off_first().map_or(0, |&it| it.into())
    }

    fn flag(&mut self) -> bool {
        let split = 1 + ((self.range - 1) >> 1);
        let is_set = self.value >= split << 8;
        if is_set {
            self.range -= split;
            self.value -= split << 8;
        } else {
            self.range = split;
        }
        while self.range < 128 {
            self.range <<= 1;
            self.value <<= 1;
            self.shifted += 1;
            if self.shifted == 8 {
                self.shifted = 0;
                self.value |= self.octet();
            }
        }
        is_set
    }

    fn literal(&mut self, bits: u32) -> u32 {
        (0..bits).fold(0, |value, _| value << 1 | u32::from(self.flag()))
    }

    /// A value that a flag announces.
    fn optional(&mut self, bits: u32) {
        if self.flag() {
            self.literal(bits);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The boolean encoder of 7.3, for values whose halves are alike.
    struct Encoder {
        out: Vec<u8>,
        range: u32,
        bottom: u32,
        left: u32,
    }

    impl Encoder {
        fn flag(&mut self, is_set: bool) {
            let split = 1 + ((self.range - 1) >> 1);
            if is_set {
                self.bottom = self.add(split);
                self.range -= split;
            } else {
                self.range = split;
            }
            while self.range < 128 {
                self.range <<= 1;
                if self.bottom & 1 << 31 != 0 {
                    self.carry();
                }
                self.bottom <<= 1;
                self.left -= 1;
                if self.left == 0 {
                    self.out.push((self.bottom >> 24) as u8);
                    self.bottom &= (1 << 24) - 1;
                    self.left = 8;
                }
            }
        }

        fn add(&mut self, split: u32) -> u32 {
            self.bottom.wrapping_add(split)
        }

        fn carry(&mut self) {
            for byte in self.out.iter_mut().rev() {
                *byte = byte.wrapping_add(1);
                if *byte != 0 {
                    break;
                }
            }
        }

        fn literal(&mut self, value: u32, bits: u32) {
            (0..bits)
                .rev()
                .for_each(|bit| self.flag(value >> bit & 1 == 1));
        }
    }

    /// A frame with token partitions of these lengths; with `all`, everything that its header may have before their number.
    fn frame(is_key: bool, all: bool, lens: &[usize]) -> Vec<u8> {
        let mut header = Encoder {
            out: Vec::new(),
            range: 255,
            bottom: 0,
            left: 24,
        };
        if is_key {
            header.literal(1, 2);
        }
        header.flag(all);
        if all {
            header.literal(0b111, 3);
            (0..4).for_each(|n| header.literal(1 << 8 | n << 1 | 1, 9));
            (0..4).for_each(|n| header.literal(1 << 7 | n << 1, 8));
            (0..3).for_each(|n| header.literal((1 << 8) | (77 * n), 9));
        }
        header.literal(0b01_1011_0101, 10);
        header.flag(all);
        if all {
            header.flag(true);
            (0..8).for_each(|n| header.literal(1 << 7 | n << 1 | 1, 8));
        }
        header.literal(lens.len().ilog2(), 2);
        header.literal(0xABCD_1234, 32);
        header.literal(0, 32);
        let header = header.out;
        let tag = (header.len() as u32) << 5 | 1 << 4 | u32::from(!is_key);
        let mut out = tag.to_le_bytes()[..TAG].to_vec();
        if is_key {
            out.extend([0x9D, 0x01, 0x2A, 176, 0, 144, 0]);
        }
        out.extend(header);
        let (last, sized) = lens.split_last().expect("a partition");
        for len in sized {
            out.extend(&(*len as u32).to_le_bytes()[..SIZE]);
        }
        out.resize(out.len() + sized.iter().sum::<usize>() + last, 9);
        out
    }

    #[test]
    fn a_frame_that_ends_before_its_last_token_partition_lacks_a_part() {
        for (is_key, all) in [(true, false), (true, true), (false, false), (false, true)] {
            for lens in [&[40][..], &[7, 50], &[300, 2, 0, 50], &[9; 8]] {
                let frame = frame(is_key, all, lens);
                let last = lens.last().expect("a partition");
                assert!(has_parts(&frame), "{is_key} {all} {lens:?}");
                let least = frame.len() - last;
                for len in 0..frame.len() {
                    assert_eq!(has_parts(&frame[..len]), len >= least, "{len} {lens:?}");
                }
            }
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_safe(data in prop::collection::vec(any::<u8>(), 0..60)) {
            has_parts(&data);
        }
    }
}
