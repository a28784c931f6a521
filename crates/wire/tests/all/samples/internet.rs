//! IPv4 packets for tests and for the fuzz corpus.

use core::net::Ipv4Addr;

use bytes::Bytes;
use layercast_core::Serial;
use layercast_wire::{
    IpBody, Ipv4Packet, Payload, SackBlocks, TcpFlags, TcpOptions, TcpSegment, Timestamps,
    UdpDatagram,
};

/// The two ends.
pub const ENDS: (Ipv4Addr, Ipv4Addr) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));

/// A packet of each kind.
pub fn packets() -> Vec<(&'static str, Ipv4Packet)> {
    let text = Payload::Bytes(Bytes::from_static(b"the quick brown fox"));
    let stamps = Some(Timestamps { value: 7, echo: 9 });
    let mut sack = SackBlocks::default();
    sack.push(Serial(3_000), Serial(4_000));
    sack.push(Serial(0xffff_fff0), Serial(100));
    let options = TcpOptions {
        timestamps: stamps,
        ..TcpOptions::default()
    };
    let syn = TcpOptions {
        mss: Some(1_460),
        window_scale: Some(7),
        sack_permitted: true,
        ..options
    };
    let udp = |checksum, payload| {
        IpBody::Udp(UdpDatagram {
            src_port: 5_004,
            dst_port: 47_002,
            checksum,
            payload,
        })
    };
    let none = Payload::default();
    let fragment = Ipv4Packet {
        dont_fragment: false,
        more_fragments: true,
        fragment_offset: 185,
        id: 77,
        ..packet(IpBody::Other {
            protocol: 17,
            payload: Payload::Zeros(64),
        })
    };
    vec![
        ("syn", packet(tcp(TcpFlags::SYN, syn, none.clone()))),
        (
            "data",
            packet(tcp(TcpFlags::ACK | TcpFlags::PSH, options, text.clone())),
        ),
        (
            "zeros",
            packet(tcp(
                TcpFlags::ACK,
                TcpOptions::default(),
                Payload::Zeros(512),
            )),
        ),
        (
            "sack",
            packet(tcp(
                TcpFlags::ACK,
                TcpOptions { sack, ..options },
                none.clone(),
            )),
        ),
        (
            "fin",
            packet(tcp(
                TcpFlags::FIN | TcpFlags::ACK,
                TcpOptions::default(),
                none,
            )),
        ),
        ("udp", packet(udp(true, text.clone()))),
        ("udp-unprotected", packet(udp(false, text))),
        ("fragment", fragment),
    ]
}

/// The bytes of a packet.
pub fn bytes(packet: &Ipv4Packet) -> Vec<u8> {
    let mut out = Vec::new();
    packet
        .encode_into(&mut out)
        .expect("a packet of lawful size");
    out
}

fn packet(body: IpBody) -> Ipv4Packet {
    Ipv4Packet::new(ENDS.0, ENDS.1, body)
}

fn tcp(flags: TcpFlags, options: TcpOptions, payload: Payload) -> IpBody {
    IpBody::Tcp(TcpSegment {
        src_port: 49_152,
        dst_port: 80,
        seq: Serial(0xffff_fffe),
        ack: Serial(if flags.has(TcpFlags::ACK) { 1_000 } else { 0 }),
        flags,
        window: 8_192,
        urgent: 0,
        options,
        payload,
    })
}
