use std::ops::Range;

use bytes::{Buf, Bytes};

/// The media bytes of a packet, shared rather than copied.
///
/// Two payloads are equal when their bytes are: `Zeros` is only a cheaper way to say it.
#[derive(Clone, Debug)]
pub enum Payload {
    /// This number of zero bytes, which occupy no memory: synthetic media in the simulator.
    Zeros(u32),
    /// Real bytes.
    Bytes(Bytes),
}

impl Payload {
    /// Bytes in the payload.
    #[inline]
    pub fn len(&self) -> usize {
        match self {
            Payload::Zeros(len) => *len as usize,
            Payload::Bytes(bytes) => bytes.len(),
        }
    }

    /// Whether there are no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes in `range` without copying; bytes beyond the end are omitted.
    #[inline]
    pub fn slice(&self, range: Range<usize>) -> Payload {
        let end = range.end.min(self.len());
        let start = range.start.min(end);
        match self {
            Payload::Zeros(_) => Payload::Zeros((end - start) as u32),
            Payload::Bytes(bytes) => Payload::Bytes(bytes.slice(start..end)),
        }
    }

    /// Drops the first `count` bytes, at most all.
    #[inline]
    pub fn advance(&mut self, count: usize) {
        match self {
            Payload::Zeros(len) => *len -= count.min(*len as usize) as u32,
            Payload::Bytes(bytes) => bytes.advance(count.min(bytes.len())),
        }
    }

    /// Copies the first bytes into `out`, as many as both have; gives their number.
    pub fn copy_to(&self, out: &mut [u8]) -> usize {
        self.copy_from(0, out)
    }

    /// Copies the bytes from `offset` on into `out`, as many as there are; gives their number.
    pub(crate) fn copy_from(&self, offset: usize, out: &mut [u8]) -> usize {
        let count = self.len().saturating_sub(offset).min(out.len());
        match self {
            _ if count == 0 => {}
            Payload::Zeros(_) => out[..count].fill(0),
            Payload::Bytes(bytes) => out[..count].copy_from_slice(&bytes[offset..offset + count]),
        }
        count
    }

    /// Appends the bytes to `out`.
    pub fn append_to(&self, out: &mut Vec<u8>) {
        match self {
            Payload::Zeros(len) => out.resize(out.len() + *len as usize, 0),
            Payload::Bytes(bytes) => out.extend_from_slice(bytes),
        }
    }
}

impl Default for Payload {
    fn default() -> Payload {
        Payload::Zeros(0)
    }
}

impl From<Bytes> for Payload {
    fn from(bytes: Bytes) -> Payload {
        Payload::Bytes(bytes)
    }
}

impl PartialEq for Payload {
    fn eq(&self, other: &Payload) -> bool {
        match (self, other) {
            (Payload::Zeros(a), Payload::Zeros(b)) => a == b,
            (Payload::Bytes(a), Payload::Bytes(b)) => a == b,
            (Payload::Zeros(len), Payload::Bytes(bytes))
            | (Payload::Bytes(bytes), Payload::Zeros(len)) => {
                bytes.len() == *len as usize && bytes.iter().all(|&byte| byte == 0)
            }
        }
    }
}

impl Eq for Payload {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_stop_at_the_end() {
        let real = Payload::Bytes(Bytes::from_static(b"abcdef"));
        assert_eq!(real.slice(2..4), Bytes::from_static(b"cd").into());
        assert_eq!(real.slice(4..99), Bytes::from_static(b"ef").into());
        assert!(real.slice(9..12).is_empty());
        assert_eq!(Payload::Zeros(5).slice(3..9), Payload::Zeros(2));
        let mut both = [real, Payload::Zeros(6)];
        for (count, left) in [(0, 6), (2, 4), (9, 0), (1, 0)] {
            both.iter_mut().for_each(|it| it.advance(count));
            assert_eq!((both[0].len(), both[1].len()), (left, left));
        }
    }

    #[test]
    fn virtual_zeros_equal_real_ones() {
        assert_eq!(Payload::Zeros(3), Bytes::from_static(&[0; 3]).into());
        assert_ne!(Payload::Zeros(3), Bytes::from_static(&[0, 1, 0]).into());
        assert_ne!(Payload::Zeros(3), Bytes::from_static(&[0; 4]).into());
    }

    #[test]
    fn copies_overwrite_only_what_they_have() {
        let mut out = [7; 4];
        assert_eq!(Payload::Zeros(2).copy_to(&mut out), 2);
        assert_eq!(out, [0, 0, 7, 7]);
        let real = Payload::Bytes(Bytes::from_static(b"abcdef"));
        assert_eq!(real.copy_to(&mut out), 4);
        assert_eq!(&out, b"abcd");
    }
}
