use thiserror::Error;

use super::{HEADER, RTP, Recovery, SmpteStream};

/// The payload type of parity packets.
const PAYLOAD_TYPE: u8 = 96;

/// Which packets a parity packet protects (SMPTE 2022-1, 8): `count` of them, `offset` apart, from `base` on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SmpteHeader {
    /// Columns or rows.
    pub stream: SmpteStream,
    /// Sequence number of the first media packet.
    pub base: u16,
    /// From one to the next: L for a column, 1 for a row.
    pub offset: u8,
    /// How many (NA): D for a column, L for a row.
    pub count: u8,
}

/// Reason why a datagram is no parity packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum SmpteHeaderError {
    /// It is no RTP packet.
    #[error(
        "{0} octets that are no RTP packet: the ports 2 and 4 above the media take parity packets alone"
    )]
    NoRtp(usize),
    /// It is too short.
    #[error("an RTP packet of {0} octets: a parity packet has at least 28")]
    Short(usize),
    /// Its code is not XOR.
    #[error("a parity packet of type {0}: XOR (0) is supported, as SMPTE 2022-1 has it")]
    Type(u8),
    /// It protects nothing.
    #[error(
        "a parity packet of {count} media packets that are {offset} apart: both are at least 1, and 1 apart in a row"
    )]
    Nothing {
        /// Offset.
        offset: u8,
        /// NA.
        count: u8,
    },
}

impl SmpteHeader {
    /// Reads a parity packet: its header, and what it recovers.
    pub(super) fn read(
        packet: &[u8],
        recovery: &mut Recovery,
    ) -> Result<SmpteHeader, SmpteHeaderError> {
        let len = packet.len();
        let first = *packet.first().ok_or(SmpteHeaderError::NoRtp(len))?;
        if first >> 6 != 2 || super::sequence(packet).is_none() {
            return Err(SmpteHeaderError::NoRtp(len));
        }
        // P, X and CC belong to the media: the packet itself has neither padding, extension nor sources.
        let (rtp, rest) = packet
            .split_first_chunk::<RTP>()
            .ok_or(SmpteHeaderError::Short(len))?;
        let (head, body) = rest
            .split_first_chunk::<HEADER>()
            .ok_or(SmpteHeaderError::Short(len))?;
        let stream = match head[12] & 0x40 {
            0 => SmpteStream::Columns,
            _ => SmpteStream::Rows,
        };
        let kind = head[12] >> 3 & 7;
        if kind != 0 {
            return Err(SmpteHeaderError::Type(kind));
        }
        let (offset, count) = (head[13], head[14]);
        let is_row = stream == SmpteStream::Rows;
        if offset == 0 || count == 0 || is_row && offset != 1 {
            return Err(SmpteHeaderError::Nothing { offset, count });
        }
        recovery.flags = [first & 0x3F, rtp[1] & 0x80 | head[4] & 0x7F];
        recovery.length = u16::from_be_bytes([head[2], head[3]]);
        recovery.timestamp = u32::from_be_bytes([head[8], head[9], head[10], head[11]]);
        recovery.body.clear();
        recovery.body.extend_from_slice(body);
        Ok(SmpteHeader {
            stream,
            base: u16::from_be_bytes([head[0], head[1]]),
            offset,
            count,
        })
    }

    /// Writes a parity packet.
    pub(super) fn write(&self, seq: u16, timestamp: u32, recovery: &Recovery, out: &mut Vec<u8>) {
        let is_row = self.stream == SmpteStream::Rows;
        out.clear();
        out.extend_from_slice(&[
            0x80 | recovery.flags[0] & 0x3F,
            recovery.flags[1] & 0x80 | PAYLOAD_TYPE,
        ]);
        out.extend_from_slice(&seq.to_be_bytes());
        out.extend_from_slice(&timestamp.to_be_bytes());
        // SSRC 0 (SMPTE 2022-1, 8.3).
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&self.base.to_be_bytes());
        out.extend_from_slice(&recovery.length.to_be_bytes());
        // E is 1: the header is the extended one. The mask is not used.
        out.extend_from_slice(&[0x80 | recovery.flags[1] & 0x7F, 0, 0, 0]);
        out.extend_from_slice(&recovery.timestamp.to_be_bytes());
        out.extend_from_slice(&[if is_row { 0x40 } else { 0 }, self.offset, self.count, 0]);
        out.extend_from_slice(&recovery.body);
    }
}
