use bytes::Bytes;

use crate::IpError;
use crate::checksum::Checksum;

/// Bytes of an ICMP message before its data.
pub const ICMP_HEADER: usize = 8;
/// The protocol number of ICMP.
pub const PROTOCOL_ICMP: u8 = 1;

/// An ICMP message (RFC 792).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IcmpMessage {
    /// Such as [`IcmpMessage::ECHO`].
    pub kind: u8,
    /// What the kind leaves open.
    pub code: u8,
    /// Four bytes whose meaning depends on the kind: identifier and sequence number of an echo, the MTU of a
    /// link (RFC 1191).
    pub rest: [u8; 4],
    /// The data of an echo, or the packet that an error is about.
    pub data: Bytes,
}

impl IcmpMessage {
    /// An answer to an echo.
    pub const ECHO_REPLY: u8 = 0;
    /// The destination of a packet cannot be reached.
    pub const UNREACHABLE: u8 = 3;
    /// Asks for an echo.
    pub const ECHO: u8 = 8;
    /// A packet has made all hops it may.
    pub const TIME_EXCEEDED: u8 = 11;

    /// Whether it reports an error; such a message is never answered with another (RFC 1122, section 3.2.2).
    pub fn is_error(&self) -> bool {
        matches!(self.kind, 3 | 4 | 5 | 11 | 12)
    }

    /// Appends the message.
    pub fn encode_into(&self, out: &mut Vec<u8>) {
        let mut head = [0; ICMP_HEADER];
        (head[0], head[1]) = (self.kind, self.code);
        head[4..].copy_from_slice(&self.rest);
        let sum = Checksum::default().bytes(&head).bytes(&self.data).finish();
        head[2..4].copy_from_slice(&sum.to_be_bytes());
        out.extend_from_slice(&head);
        out.extend_from_slice(&self.data);
    }

    /// Decodes what an IP packet carries; the data share its memory.
    pub fn decode(bytes: Bytes) -> Result<IcmpMessage, IpError> {
        let Some(&[kind, code, _, _, a, b, c, d]) = bytes.first_chunk::<ICMP_HEADER>() else {
            return Err(IpError::Short(bytes.len()));
        };
        if Checksum::default().bytes(&bytes).finish() != 0 {
            return Err(IpError::Checksum("ICMP"));
        }
        Ok(IcmpMessage {
            kind,
            code,
            rest: [a, b, c, d],
            data: bytes.slice(ICMP_HEADER..),
        })
    }
}
