//! What reaches a receiver of files first: announcements, data and polls of anybody, through the decoder, its limits and
//! the machine that takes them.

use bytes::Bytes;
use layercast_core::{Off, Span, Time};
use layercast_multicast::{Limits, MemoryStore, Peer, Receiver, ReceiverConfig};
use layercast_wire::multicast::{
    Datagram, MemberId, PACKET_HEADER, PACKET_VERSION, Packet, SealedHead,
};

/// Octets that the store takes: an announcement of more is refused.
const ROOM: u64 = 1 << 20;
/// Packets of the machine after one that came: an answer in parts, and what waited before.
const MOST_OUT: usize = 1_100;
/// The session of all packets.
const SESSION: u64 = 7;

/// Datagrams, each behind its length in two octets. They are put right as far as a stranger can: version, checksum and
/// session.
pub fn receive(data: &[u8]) {
    let config = ReceiverConfig {
        limits: Limits {
            packets: 1 << 14,
            blocks: 1 << 10,
            packet_size: 64,
        },
        ..ReceiverConfig::new(MemberId(1), 1)
    };
    let mut machine = Receiver::new(config, MemoryStore::new(ROOM));
    let mut now = Time::ZERO + Span::from_secs(1);
    let mut rest = data;
    while let Some((len, behind)) = rest.split_first_chunk::<2>() {
        let len = usize::from(u16::from_be_bytes(*len)).min(behind.len());
        let (datagram, behind) = behind.split_at(len);
        rest = behind;
        sealed_survives(datagram);
        now += Span::from_ms(1);
        if let Some(packet) = put_right(datagram) {
            machine.handle(now, Peer(0), &packet, &mut Off);
        }
        while machine.take().is_some() {}
        if machine.poll_timeout().is_some_and(|at| at <= now) {
            machine.on_timeout(now, &mut Off);
        }
        let mut out = 0;
        while machine.poll_transmit(now, &mut Off).is_some() {
            out += 1;
        }
        assert!(out <= MOST_OUT, "{out} packets for one");
        while machine.poll_event().is_some() {}
        let (held, all) = machine.progress();
        assert!(held <= all && all <= 1 << 14, "{held} of {all}");
    }
}

fn sealed_survives(datagram: &[u8]) {
    if let Ok(head) = SealedHead::decode(datagram) {
        let mut out = Vec::new();
        head.encode_into(&mut out);
        assert_eq!(out, datagram[..head.encoded_len()]);
    }
}

fn put_right(datagram: &[u8]) -> Option<Packet> {
    let mut bytes = datagram.to_vec();
    if bytes.len() >= PACKET_HEADER && bytes[0] != 0xE0 {
        bytes[0] = PACKET_VERSION;
        bytes[4..8].fill(0);
        bytes[8..16].copy_from_slice(&SESSION.to_be_bytes());
        let sum = crc32fast::hash(&bytes);
        bytes[4..8].copy_from_slice(&sum.to_be_bytes());
    }
    match Datagram::decode(&Bytes::from(bytes)) {
        Ok(Datagram::Packet(packet)) => Some(packet),
        Ok(Datagram::Path(check)) => {
            let mut out = Vec::new();
            check.encode_into(&mut out);
            assert_eq!(out, datagram);
            None
        }
        Err(_) => None,
    }
}
