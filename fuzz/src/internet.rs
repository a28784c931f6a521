//! IPv4, TCP, UDP and ICMP: decoding anything gives a value or an error, and a value comes back as it was.

use core::net::Ipv4Addr;

use bytes::Bytes;
use layercast_wire::{IcmpMessage, Ipv4Packet, TcpSegment, UdpDatagram};

/// An IPv4 packet with its TCP segment or UDP datagram: the same value after another round.
pub fn ip(data: &[u8]) {
    if let Ok(packet) = Ipv4Packet::decode(Bytes::copy_from_slice(data)) {
        let mut out = Vec::new();
        packet.encode_into(&mut out).expect("it came from a packet");
        assert_eq!(out.len(), packet.encoded_len());
        assert_eq!(Ipv4Packet::decode(out.into()).as_ref(), Ok(&packet));
    }
}

/// Bytes after an IP header, as TCP, UDP and ICMP, with the checksum put right: what a hostile
/// sender can send.
pub fn segment(data: &[u8]) {
    let (src, dst) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
    if let Ok(segment) = TcpSegment::decode(src, dst, summed(data, pseudo(src, dst, 6, data), 16)) {
        let mut out = Vec::new();
        segment.encode_into(src, dst, &mut out);
        assert_eq!(out.len(), segment.encoded_len());
        let again = TcpSegment::decode(src, dst, out.into()).expect("our own segment");
        assert_eq!(again, segment);
    }
    if let Ok(datagram) = UdpDatagram::decode(src, dst, summed(data, pseudo(src, dst, 17, data), 6))
    {
        let mut out = Vec::new();
        let encoded = datagram.encode_into(src, dst, &mut out);
        encoded.expect("it came from a datagram");
        assert_eq!(out.len(), datagram.encoded_len());
        let again = UdpDatagram::decode(src, dst, out.into()).expect("our own datagram");
        assert_eq!(again, datagram);
    }
    if let Ok(message) = IcmpMessage::decode(summed(data, 0, 2)) {
        let mut out = Vec::new();
        message.encode_into(&mut out);
        assert_eq!(IcmpMessage::decode(out.into()), Ok(message));
    }
}

/// What the pseudo-header adds to a checksum.
fn pseudo(src: Ipv4Addr, dst: Ipv4Addr, protocol: u8, data: &[u8]) -> u64 {
    u64::from(src.to_bits()) + u64::from(dst.to_bits()) + u64::from(protocol) + data.len() as u64
}

/// `data` with the checksum at `at` that makes it sum up with `sum`.
fn summed(data: &[u8], mut sum: u64, at: usize) -> Bytes {
    let mut bytes = data.to_vec();
    if let Some(field) = bytes.get_mut(at..at + 2) {
        field.fill(0);
        for pair in bytes.chunks(2) {
            sum += u64::from(pair[0]) << 8 | pair.get(1).map_or(0, |&low| u64::from(low));
        }
        while sum >> 16 != 0 {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        bytes[at..at + 2].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    }
    bytes.into()
}
