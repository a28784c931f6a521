use core::net::Ipv4Addr;

use crate::Payload;

/// The Internet checksum (RFC 1071) of pieces of even length; only the last piece may be odd.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Checksum(u64);

impl Checksum {
    /// With the pseudo-header of TCP and UDP (RFC 9293 3.1, RFC 768); `len` counts header and data.
    pub(crate) fn pseudo(src: Ipv4Addr, dst: Ipv4Addr, protocol: u8, len: usize) -> Checksum {
        let (src, dst) = (u64::from(src.to_bits()), u64::from(dst.to_bits()));
        Checksum(src + dst + u64::from(protocol) + len as u64)
    }

    /// Adds bytes.
    pub(crate) fn bytes(self, bytes: &[u8]) -> Checksum {
        let (words, rest) = bytes.as_chunks::<4>();
        // 2^32 words of 32 bits fit: no datagram is that long. The sum does not depend on the order of bytes
        // (RFC 1071 2B), and that of the machine is three times as fast as another.
        let sum = words
            .iter()
            .map(|&word| u64::from(u32::from_ne_bytes(word)));
        let mut last = [0; 4];
        last[..rest.len()].copy_from_slice(rest);
        let sum = sum.sum::<u64>() + u64::from(u32::from_ne_bytes(last));
        Checksum(self.0 + u64::from(u16::from_be(folded(sum))))
    }

    /// Adds a payload; virtual zeros cost nothing.
    pub(crate) fn payload(self, payload: &Payload) -> Checksum {
        match payload {
            Payload::Zeros(_) => self,
            Payload::Bytes(bytes) => self.bytes(bytes),
        }
    }

    /// The value of the checksum field: the complement of the folded sum; 0 over data that is intact.
    pub(crate) fn finish(self) -> u16 {
        !folded(self.0)
    }
}

/// The sum in 16 bits, with every carry added again.
fn folded(mut sum: u64) -> u16 {
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_rfc() {
        // RFC 1071 section 3: 00 01 f2 03 f4 f5 f6 f7 sums to ddf2.
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(Checksum::default().bytes(&bytes).finish(), !0xddf2);
        let pieces = Checksum::default().bytes(&bytes[..2]).bytes(&bytes[2..]);
        assert_eq!(pieces.finish(), !0xddf2);
    }

    #[test]
    fn an_odd_byte_is_the_upper_half_of_a_word() {
        assert_eq!(Checksum::default().bytes(&[0x12]).finish(), !0x1200);
        assert_eq!(
            Checksum::default().bytes(&[0, 0, 0, 0, 0x12]).finish(),
            !0x1200
        );
    }
}
