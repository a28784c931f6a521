//! XTP: decoding anything gives a packet or an error, and a packet comes back as it was.

use bytes::Bytes;
use layercast_wire::{XTP_HEADER, XtpPacket};

/// Bytes as they are, and with version, length and checksum put right: what a hostile sender can send.
pub fn xtp(data: &[u8]) {
    survives(data);
    survives(&corrected(data));
}

fn survives(data: &[u8]) {
    let Ok(packet) = XtpPacket::decode(Bytes::copy_from_slice(data)) else {
        return;
    };
    let mut out = Vec::new();
    packet.encode_into(&mut out);
    assert_eq!((out.len(), out.len()), (data.len(), packet.encoded_len()));
    assert_eq!(XtpPacket::decode(out.into()), Ok(packet));
}

/// `data` with the version, length and checksum of a packet, whatever else it is.
fn corrected(data: &[u8]) -> Vec<u8> {
    let mut bytes = data.to_vec();
    if bytes.len() < XTP_HEADER {
        return bytes;
    }
    bytes[11] = bytes[11] & 0x1f | 0x20;
    let len = (bytes.len() - XTP_HEADER) as u32;
    bytes[12..16].copy_from_slice(&len.to_be_bytes());
    bytes[16..18].fill(0);
    // NOCHECK: the header only.
    let protected = match bytes[8] & 0x40 {
        0 => bytes.len(),
        _ => XTP_HEADER,
    };
    let pairs = bytes[..protected].chunks(2);
    let mut sum: u64 = pairs
        .map(|pair| u64::from(pair[0]) << 8 | pair.get(1).map_or(0, |&low| u64::from(low)))
        .sum();
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    bytes[16..18].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    bytes
}
