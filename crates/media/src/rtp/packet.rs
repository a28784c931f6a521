/// Bytes of an RTP header without contributing sources.
pub(crate) const RTP_HEADER: usize = 12;

/// An RTP data packet (RFC 3550, 5.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RtpPacket<'a> {
    /// Ends a picture.
    pub marker: bool,
    /// Payload type, 7 bits.
    pub payload_type: u8,
    /// Sequence number.
    pub seq: u16,
    /// Media time, ticks of 90 kHz for all we speak.
    pub timestamp: u32,
    /// The sender.
    pub ssrc: u32,
    /// Behind header, extension and contributing sources, before padding.
    pub payload: &'a [u8],
}

impl<'a> RtpPacket<'a> {
    /// Reads a packet; `None` if it is none, of another version, or RTCP (RFC 5761, 4).
    pub fn parse(data: &'a [u8]) -> Option<RtpPacket<'a>> {
        let header: &[u8; RTP_HEADER] = data.first_chunk()?;
        let (first, second) = (header[0], header[1]);
        if first >> 6 != 2 || (192..=223).contains(&second) {
            return None;
        }
        let mut start = RTP_HEADER + 4 * usize::from(first & 15);
        if first & 0x10 != 0 {
            let words: &[u8; 4] = data.get(start..)?.first_chunk()?;
            start += 4 + 4 * usize::from(u16::from_be_bytes([words[2], words[3]]));
        }
        let padding = match first & 0x20 {
            0 => 0,
            // The count includes itself (RFC 3550, 5.1): zero is none.
            _ => usize::from(*data.last().filter(|count| **count > 0)?),
        };
        let end = data.len().checked_sub(padding)?;
        Some(RtpPacket {
            marker: second & 0x80 != 0,
            payload_type: second & 0x7F,
            seq: u16::from_be_bytes([header[2], header[3]]),
            timestamp: u32::from_be_bytes([header[4], header[5], header[6], header[7]]),
            ssrc: u32::from_be_bytes([header[8], header[9], header[10], header[11]]),
            payload: data.get(start..end)?,
        })
    }

    /// Appends the packet to `out`.
    pub fn encode_into(&self, out: &mut Vec<u8>) {
        let marker = if self.marker { 0x80 } else { 0 };
        out.extend_from_slice(&[0x80, marker | self.payload_type & 0x7F]);
        out.extend_from_slice(&self.seq.to_be_bytes());
        out.extend_from_slice(&self.timestamp.to_be_bytes());
        out.extend_from_slice(&self.ssrc.to_be_bytes());
        out.extend_from_slice(self.payload);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn packets_read_as_they_were_written(
            marker in any::<bool>(),
            payload_type in (0u8..64).prop_union(96..128),
            seq in any::<u16>(),
            timestamp in any::<u32>(),
            ssrc in any::<u32>(),
            payload in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            let packet = RtpPacket { marker, payload_type, seq, timestamp, ssrc, payload: &payload };
            let mut out = Vec::new();
            packet.encode_into(&mut out);
            prop_assert_eq!(RtpPacket::parse(&out), Some(packet));
        }

        #[test]
        fn any_bytes_are_a_packet_or_not(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            if let Some(packet) = RtpPacket::parse(&bytes) {
                prop_assert!(packet.payload.len() + RTP_HEADER <= bytes.len());
            }
        }
    }

    #[test]
    fn sources_extension_and_padding_are_passed_over() {
        let mut data = vec![0x80 | 0x20 | 0x10 | 1, 33];
        data.extend_from_slice(&[0, 7, 0, 0, 0, 9, 0, 0, 0, 1, 9, 9, 9, 9]);
        data.extend_from_slice(&[0xBE, 0xDE, 0, 1, 1, 2, 3, 4]);
        data.extend_from_slice(b"media\0\0\x03");
        let packet = RtpPacket::parse(&data).expect("a packet");
        assert_eq!((packet.payload, packet.seq), (&b"media"[..], 7));
    }
}
