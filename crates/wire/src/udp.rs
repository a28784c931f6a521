use core::net::Ipv4Addr;

use bytes::Bytes;

use crate::checksum::Checksum;
use crate::{IpError, Payload};

/// Bytes of a UDP header.
pub const UDP_HEADER: usize = 8;
/// The protocol number of UDP.
pub const PROTOCOL_UDP: u8 = 17;

/// A UDP datagram (RFC 768).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UdpDatagram {
    /// Port of the sender; 0 if it wants no answer.
    pub src_port: u16,
    /// Port of the receiver.
    pub dst_port: u16,
    /// Whether a checksum protects it; one that was received has been verified.
    pub checksum: bool,
    /// The data.
    pub payload: Payload,
}

impl UdpDatagram {
    /// Bytes that [`encode_into`](Self::encode_into) appends.
    pub fn encoded_len(&self) -> usize {
        UDP_HEADER + self.payload.len()
    }

    /// Appends header and data; the addresses go into the checksum.
    ///
    /// Data that 16 bits cannot count are refused, and nothing is appended.
    pub fn encode_into(
        &self,
        src: Ipv4Addr,
        dst: Ipv4Addr,
        out: &mut Vec<u8>,
    ) -> Result<(), IpError> {
        let len = self.encoded_len();
        let Ok(short) = u16::try_from(len) else {
            return Err(IpError::TooLong(len));
        };
        let start = out.len();
        for field in [self.src_port, self.dst_port, short, 0] {
            out.extend_from_slice(&field.to_be_bytes());
        }
        if self.checksum {
            let sum = Checksum::pseudo(src, dst, PROTOCOL_UDP, len)
                .bytes(&out[start..])
                .payload(&self.payload);
            // Zero would say that there is none; all ones is the same number.
            let sum = match sum.finish() {
                0 => 0xffff,
                sum => sum,
            };
            out[start + 6..start + 8].copy_from_slice(&sum.to_be_bytes());
        }
        self.payload.append_to(out);
        debug_assert_eq!(out.len() - start, len);
        Ok(())
    }

    /// Decodes a datagram; bytes beyond its own length are padding.
    pub fn decode(src: Ipv4Addr, dst: Ipv4Addr, bytes: Bytes) -> Result<UdpDatagram, IpError> {
        let Some(header) = bytes.first_chunk::<UDP_HEADER>() else {
            return Err(IpError::Short(bytes.len()));
        };
        let field = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        let len = usize::from(field(4));
        if !(UDP_HEADER..=bytes.len()).contains(&len) {
            return Err(IpError::Length {
                said: len,
                there: bytes.len(),
            });
        }
        let checksum = field(6) != 0;
        let sum = Checksum::pseudo(src, dst, PROTOCOL_UDP, len).bytes(&bytes[..len]);
        if checksum && sum.finish() != 0 {
            return Err(IpError::Checksum("UDP"));
        }
        Ok(UdpDatagram {
            src_port: field(0),
            dst_port: field(2),
            checksum,
            payload: bytes.slice(UDP_HEADER..len).into(),
        })
    }
}
