//! IPv4, TCP and UDP: what is encoded decodes to itself, damage is seen, tshark agrees.

use core::net::{Ipv4Addr, SocketAddrV4};

use bytes::Bytes;
use layercast_core::{Serial, Time};
use layercast_wire::{
    Carriage, Interface, IpBody, IpError, Ipv4Packet, Payload, PcapNg, SackBlocks, TcpFlags,
    TcpOptions, TcpSegment, Timestamps, UdpDatagram,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use crate::internet_checks as checks;
use crate::samples::internet as samples;
use crate::tshark;

fn payloads() -> impl Strategy<Value = Payload> {
    prop_oneof![
        (0..2_000u32).prop_map(Payload::Zeros),
        vec(any::<u8>(), 0..2_000).prop_map(|bytes| Payload::Bytes(bytes.into())),
    ]
}

/// Options of a segment with SYN, or of one without, which alone has SACK blocks.
fn options() -> impl Strategy<Value = TcpOptions> {
    let stamps = option::of(any::<(u32, u32)>());
    let syn = option::of((
        option::of(any::<u16>()),
        option::of(any::<u8>()),
        any::<bool>(),
    ));
    (stamps, syn, vec(any::<(u32, u32)>(), 0..=3)).prop_map(|(stamps, syn, blocks)| {
        let mut sack = SackBlocks::default();
        if syn.is_none() {
            for (from, to) in blocks {
                sack.push(Serial(from), Serial(to));
            }
        }
        let (mss, window_scale, sack_permitted) = syn.unwrap_or_default();
        TcpOptions {
            mss,
            window_scale,
            sack_permitted,
            timestamps: stamps.map(|(value, echo)| Timestamps { value, echo }),
            sack,
        }
    })
}

fn bodies() -> impl Strategy<Value = IpBody> {
    let ports = any::<(u16, u16)>();
    let numbers = (any::<(u32, u32)>(), any::<(u16, u16)>(), any::<u8>());
    let tcp = (ports, numbers, options(), payloads()).prop_map(
        |((src_port, dst_port), ((seq, ack), (window, urgent), flags), options, payload)| {
            IpBody::Tcp(TcpSegment {
                src_port,
                dst_port,
                seq: Serial(seq),
                ack: Serial(ack),
                flags: TcpFlags(flags),
                window,
                urgent,
                options,
                payload,
            })
        },
    );
    let udp = (any::<(u16, u16)>(), any::<bool>(), payloads()).prop_map(
        |((src_port, dst_port), checksum, payload)| {
            IpBody::Udp(UdpDatagram {
                src_port,
                dst_port,
                checksum,
                payload,
            })
        },
    );
    let other = (18..=255u8, payloads())
        .prop_map(|(protocol, payload)| IpBody::Other { protocol, payload });
    prop_oneof![4 => tcp, 2 => udp, 1 => other]
}

fn packets() -> impl Strategy<Value = Ipv4Packet> {
    let fields = (any::<(u32, u32)>(), any::<(u8, u16, u8)>(), any::<bool>());
    (fields, bodies()).prop_map(
        |(((src, dst), (tos, id, ttl), dont_fragment), body)| Ipv4Packet {
            tos,
            id,
            ttl,
            dont_fragment,
            ..Ipv4Packet::new(Ipv4Addr::from_bits(src), Ipv4Addr::from_bits(dst), body)
        },
    )
}

proptest! {
    #[test]
    fn packets_come_back_as_they_were(packet in packets()) {
        let bytes = samples::bytes(&packet);
        prop_assert_eq!(bytes.len(), packet.encoded_len());
        prop_assert_eq!(Ipv4Packet::decode(bytes.into()), Ok(packet));
    }

    #[test]
    fn a_damaged_bit_is_seen(packet in packets(), bit in any::<prop::sample::Index>()) {
        // Other protocols and UDP without a checksum have their headers protected only.
        let good = samples::bytes(&packet);
        let protected = match &packet.body {
            IpBody::Tcp(_) => good.len(),
            IpBody::Udp(datagram) if datagram.checksum => good.len(),
            _ => 20,
        };
        let bit = bit.index(protected * 8);
        let mut bad = good;
        bad[bit / 8] ^= 0x80 >> (bit % 8);
        // The checksum field of UDP may turn into "none".
        let decoded = Ipv4Packet::decode(bad.into());
        let off = |packet: &Ipv4Packet| matches!(&packet.body, IpBody::Udp(udp) if !udp.checksum);
        prop_assert!(decoded.as_ref().map_or(true, off), "{decoded:?}");
    }

    #[test]
    fn any_bytes_are_decoded_without_harm(bytes in vec(any::<u8>(), 0..200)) {
        checks::ip(&bytes);
        checks::segment(&bytes);
    }

    #[test]
    fn any_options_are_decoded_without_harm(options in vec(any::<u8>(), 0..=10)) {
        // A header whose length field says how many words of options there are.
        let mut bytes = vec![0; 20];
        bytes.extend(options.iter().flat_map(|&kind| [kind % 10, 2 + kind / 16, 0, kind]));
        bytes[12] = ((bytes.len() / 4) as u8) << 4;
        checks::segment(&bytes);
    }
}

#[test]
fn lengths_are_held_against_what_is_there() {
    let (_, packet) = &samples::packets()[1];
    let good = samples::bytes(packet);
    let padded = [&good[..], &[0; 6]].concat();
    assert_eq!(Ipv4Packet::decode(padded.into()).as_ref(), Ok(packet));
    for len in 0..good.len() {
        let error = Ipv4Packet::decode(Bytes::copy_from_slice(&good[..len])).unwrap_err();
        assert!(matches!(error, IpError::Short(_) | IpError::Length { .. }));
    }
    let long = Payload::Zeros(65_516);
    let body = IpBody::Other {
        protocol: 99,
        payload: long,
    };
    let huge = Ipv4Packet::new(samples::ENDS.0, samples::ENDS.1, body);
    let mut out = vec![1];
    assert_eq!(huge.encode_into(&mut out), Err(IpError::TooLong(65_536)));
    assert_eq!(out, [1]);
}

#[test]
fn fragments_stay_what_they_are() {
    let (name, fragment) = samples::packets().pop().unwrap();
    assert_eq!(name, "fragment");
    assert!(fragment.is_fragment());
    let bytes = samples::bytes(&fragment);
    assert_eq!(Ipv4Packet::decode(bytes.into()), Ok(fragment));
}

#[test]
fn tshark_finds_every_checksum_right() {
    let mut pcap = PcapNg::new(Vec::new()).unwrap();
    let face = pcap
        .add_interface(Interface {
            name: "chuff/0".into(),
            description: "chuff -> rook".into(),
            carriage: Carriage::Datagrams,
            source: SocketAddrV4::new(samples::ENDS.0, 0),
            destination: SocketAddrV4::new(samples::ENDS.1, 0),
            snap_len: 0,
        })
        .unwrap();
    // A lone fragment is no complaint, but tshark reassembles it with nothing.
    let packets: Vec<_> = samples::packets()
        .into_iter()
        .filter(|(_, p)| !p.is_fragment())
        .collect();
    for (n, (_, packet)) in packets.iter().enumerate() {
        let now = Time::from_ps(n as u64 * 1_000_000_000);
        pcap.write_ip(face, now, packet).unwrap();
    }
    let fields = [
        "ip.checksum.status",
        "tcp.checksum.status",
        "udp.checksum.status",
        "_ws.malformed",
    ];
    let Some(lines) = tshark::fields("internet", &pcap.finish().unwrap(), &fields) else {
        return;
    };
    // 1 is "good"; 3 is "not present".
    let tcp = ["1", "1", "", ""];
    let udp = |status| ["1", "", status, ""];
    assert_eq!(lines, [tcp, tcp, tcp, tcp, tcp, udp("1"), udp("3")]);
}
