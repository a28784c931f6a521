use core::net::Ipv4Addr;
use std::fmt;
use std::ops::{BitOr, BitOrAssign};

use bytes::Bytes;
use layercast_core::Serial;

use crate::checksum::Checksum;
use crate::tcp_options::MAX_OPTIONS;
use crate::{IpError, Payload, TcpOptions};

/// Bytes of a TCP header without options.
pub const TCP_HEADER: usize = 20;
/// The protocol number of TCP.
pub const PROTOCOL_TCP: u8 = 6;

/// Control bits of a TCP segment (RFC 9293 3.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct TcpFlags(pub u8);

impl TcpFlags {
    /// No more data from the sender.
    pub const FIN: TcpFlags = TcpFlags(1);
    /// Synchronize sequence numbers.
    pub const SYN: TcpFlags = TcpFlags(2);
    /// Reset the connection.
    pub const RST: TcpFlags = TcpFlags(4);
    /// Push.
    pub const PSH: TcpFlags = TcpFlags(8);
    /// The acknowledgement field counts.
    pub const ACK: TcpFlags = TcpFlags(16);
    /// The urgent pointer counts.
    pub const URG: TcpFlags = TcpFlags(32);
    /// ECN echo (RFC 3168).
    pub const ECE: TcpFlags = TcpFlags(64);
    /// Congestion window reduced (RFC 3168).
    pub const CWR: TcpFlags = TcpFlags(128);

    /// Whether all of `flags` are set.
    pub const fn has(self, flags: TcpFlags) -> bool {
        self.0 & flags.0 == flags.0
    }
}

impl BitOr for TcpFlags {
    type Output = TcpFlags;
    fn bitor(self, other: TcpFlags) -> TcpFlags {
        TcpFlags(self.0 | other.0)
    }
}

impl BitOrAssign for TcpFlags {
    fn bitor_assign(&mut self, other: TcpFlags) {
        self.0 |= other.0;
    }
}

impl fmt::Debug for TcpFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // As tcpdump writes them.
        for (bit, letter) in "FSRP.UEW".chars().enumerate() {
            if self.0 & 1 << bit != 0 {
                write!(f, "{letter}")?;
            }
        }
        Ok(())
    }
}

/// A TCP segment (RFC 9293 3.1).
///
/// A decoder ignores the reserved bits and options it does not know (RFC 9293, MUST-6), so a
/// segment that came from bytes encodes to the same segment, not always to the same bytes.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct TcpSegment {
    /// Port of the sender.
    pub src_port: u16,
    /// Port of the receiver.
    pub dst_port: u16,
    /// Number of the first byte of the data, or of SYN.
    pub seq: Serial,
    /// Number of the next byte the sender waits for, if ACK is set.
    pub ack: Serial,
    /// Control bits.
    pub flags: TcpFlags,
    /// Bytes the sender accepts from `ack` on, before scaling (RFC 7323 2).
    pub window: u16,
    /// Urgent pointer.
    pub urgent: u16,
    /// Options.
    pub options: TcpOptions,
    /// The data.
    pub payload: Payload,
}

impl TcpSegment {
    /// Bytes of header and options.
    #[inline]
    pub fn header_len(&self) -> usize {
        TCP_HEADER + self.options.encoded_len()
    }

    /// Bytes that [`encode_into`](Self::encode_into) appends.
    #[inline]
    pub fn encoded_len(&self) -> usize {
        self.header_len() + self.payload.len()
    }

    /// What it takes of the sequence space: data, SYN and FIN.
    #[inline]
    pub fn seq_len(&self) -> u32 {
        let marks = self.flags.0 & TcpFlags::SYN.0 != 0;
        let end = self.flags.0 & TcpFlags::FIN.0 != 0;
        self.payload.len() as u32 + u32::from(marks) + u32::from(end)
    }

    /// Appends header, options and data; the addresses go into the checksum.
    pub fn encode_into(&self, src: Ipv4Addr, dst: Ipv4Addr, out: &mut Vec<u8>) {
        let mut head = [0; TCP_HEADER + MAX_OPTIONS];
        let len = TCP_HEADER + self.options.encode(&mut head[TCP_HEADER..]);
        debug_assert_eq!(len, self.header_len());
        let head = &mut head[..len];
        head[0..2].copy_from_slice(&self.src_port.to_be_bytes());
        head[2..4].copy_from_slice(&self.dst_port.to_be_bytes());
        head[4..8].copy_from_slice(&self.seq.0.to_be_bytes());
        head[8..12].copy_from_slice(&self.ack.0.to_be_bytes());
        head[12] = (len as u8 / 4) << 4;
        head[13] = self.flags.0;
        head[14..16].copy_from_slice(&self.window.to_be_bytes());
        head[18..20].copy_from_slice(&self.urgent.to_be_bytes());
        let sum = Checksum::pseudo(src, dst, PROTOCOL_TCP, len + self.payload.len())
            .bytes(head)
            .payload(&self.payload);
        head[16..18].copy_from_slice(&sum.finish().to_be_bytes());
        out.extend_from_slice(head);
        self.payload.append_to(out);
    }

    /// Decodes a segment that fills `bytes`; the data share their memory.
    pub fn decode(src: Ipv4Addr, dst: Ipv4Addr, bytes: Bytes) -> Result<TcpSegment, IpError> {
        let Some(head) = bytes.first_chunk::<TCP_HEADER>() else {
            return Err(IpError::Short(bytes.len()));
        };
        let len = usize::from(head[12] >> 4) * 4;
        if !(TCP_HEADER..=bytes.len()).contains(&len) {
            return Err(IpError::Length {
                said: len,
                there: bytes.len(),
            });
        }
        let sum = Checksum::pseudo(src, dst, PROTOCOL_TCP, bytes.len()).bytes(&bytes);
        if sum.finish() != 0 {
            return Err(IpError::Checksum("TCP"));
        }
        let short = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
        let long =
            |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        Ok(TcpSegment {
            src_port: short(0),
            dst_port: short(2),
            seq: Serial(long(4)),
            ack: Serial(long(8)),
            flags: TcpFlags(head[13]),
            window: short(14),
            urgent: short(18),
            options: TcpOptions::decode(&bytes[TCP_HEADER..len])?,
            payload: bytes.slice(len..).into(),
        })
    }
}
