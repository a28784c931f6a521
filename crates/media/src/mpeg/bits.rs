/// Reads bits, most significant first: past the end there are zeros to look at, and nothing to take.
#[derive(Clone, Debug)]
pub(crate) struct BitReader<'a> {
    data: &'a [u8],
    at: usize,
}

impl<'a> BitReader<'a> {
    /// A reader that stands `at` this bit of `data`.
    pub fn new(data: &'a [u8], at: usize) -> BitReader<'a> {
        BitReader { data, at }
    }

    /// The number of the next bit.
    pub fn at(&self) -> usize {
        self.at
    }

    /// The next 32 bits.
    pub fn peek(&self) -> u32 {
        let rest = self.data.get(self.at / 8..).unwrap_or_default();
        let word = match rest.first_chunk() {
            Some(bytes) => u64::from_be_bytes(*bytes),
            None => {
                let mut bytes = [0; 8];
                bytes[..rest.len()].copy_from_slice(rest);
                u64::from_be_bytes(bytes)
            }
        };
        (word << (self.at % 8) >> 32) as u32
    }

    /// The next `n` bits, at most 32; `None` if there are not as many.
    pub fn take(&mut self, n: u32) -> Option<u32> {
        let value = u64::from(self.peek()) >> (32 - n);
        self.skip(n)?;
        Some(value as u32)
    }

    /// The next bit.
    pub fn flag(&mut self) -> Option<bool> {
        Some(self.take(1)? == 1)
    }

    /// The next Exp-Golomb code, `ue(v)` of H.265 (9.2) and `uvlc()` of AV1 (4.10.3); `None` if it is above 32 bits.
    pub fn exp_golomb(&mut self) -> Option<u32> {
        let zeros = self.peek().leading_zeros();
        if zeros > 31 {
            return None;
        }
        self.skip(zeros + 1)?;
        Some((1 << zeros) - 1 + self.take(zeros)?)
    }

    /// Passes over `n` bits; `None` if there are not as many.
    pub fn skip(&mut self, n: u32) -> Option<()> {
        let at = self.at + n as usize;
        if at > self.data.len() * 8 {
            return None;
        }
        self.at = at;
        Some(())
    }
}

/// Where bits go, most significant first.
pub(crate) trait BitSink {
    /// The last `bits` bits of `value`, at most 32.
    fn put(&mut self, value: u32, bits: u32);

    /// Zeros up to the next byte.
    fn align(&mut self);

    /// The bits `from..to` of `data`.
    fn copy(&mut self, data: &[u8], from: usize, to: usize);
}

/// Counts bits.
#[derive(Default, Debug)]
pub(crate) struct BitCounter(pub usize);

impl BitSink for BitCounter {
    fn put(&mut self, _: u32, bits: u32) {
        self.0 += bits as usize;
    }

    fn align(&mut self) {
        self.0 = self.0.next_multiple_of(8);
    }

    fn copy(&mut self, _: &[u8], from: usize, to: usize) {
        self.0 += to - from;
    }
}

/// Keeps bits.
#[derive(Default, Debug)]
pub(crate) struct BitWriter {
    bytes: Vec<u8>,
    /// The last `waiting` bits of it are not yet in `bytes`; fewer than 8.
    pending: u64,
    waiting: u32,
}

impl BitSink for BitWriter {
    fn put(&mut self, value: u32, bits: u32) {
        let mask = (1 << bits) - 1;
        self.pending = self.pending << bits | u64::from(value) & mask;
        self.waiting += bits;
        while self.waiting >= 8 {
            self.waiting -= 8;
            self.bytes.push((self.pending >> self.waiting) as u8);
        }
    }

    fn align(&mut self) {
        self.put(0, (8 - self.waiting) % 8);
    }

    fn copy(&mut self, data: &[u8], from: usize, to: usize) {
        let mut reader = BitReader::new(data, from);
        while reader.at() < to {
            let bits = (to - reader.at()).min(32) as u32;
            match reader.take(bits) {
                Some(value) => self.put(value, bits),
                None => return,
            }
        }
    }
}

impl BitWriter {
    /// A start code, behind zeros up to the next byte.
    pub fn start_code(&mut self, code: u8) {
        self.align();
        self.bytes.extend([0, 0, 1, code]);
    }

    /// All that was written, with zeros up to the next byte.
    pub fn finish(mut self) -> Vec<u8> {
        self.align();
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let mut writer = BitWriter::default();
        let fields: Vec<(u32, u32)> = (0..200u32)
            .map(|i| (i.wrapping_mul(0x9E37_79B9), i % 33))
            .collect();
        for &(value, bits) in &fields {
            writer.put(value, bits);
        }
        let bytes = writer.finish();
        let mut reader = BitReader::new(&bytes, 0);
        for &(value, bits) in &fields {
            let expected = (u64::from(value) & ((1 << bits) - 1)) as u32;
            assert_eq!(reader.take(bits), Some(expected));
        }
        assert!(reader.take(8).is_none() && reader.peek() == 0);
    }
}
