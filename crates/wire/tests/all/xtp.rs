//! XTP: the bytes of specs/xtp.md appendix A, what is encoded decodes to itself, damage is seen, tshark agrees.

use core::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4};

use bytes::Bytes;
use layercast_core::{Serial, Time};
use layercast_wire::{
    Carriage, Interface, IpBody, Ipv4Packet, PROTOCOL_XTP, Payload, PcapNg, XTP_HEADER, XtpAddress,
    XtpBody, XtpControl, XtpDiagCode, XtpDiagValue, XtpError, XtpKey, XtpOptions, XtpPacket,
    XtpService, XtpTraffic, XtpTrafficSpec,
};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::samples::internet::ENDS;
use crate::samples::{hex, xtp as samples};
use crate::tshark;
use crate::xtp_checks as checks;

#[test]
fn the_golden_vectors() {
    for (name, text, packet) in samples::golden() {
        let golden = hex(text);
        assert_eq!(samples::bytes(&packet), golden, "{name}");
        assert_eq!(packet.encoded_len(), golden.len());
        assert_eq!(XtpPacket::decode(golden.into()), Ok(packet), "{name}");
    }
    let tagged = &samples::golden()[8].2;
    assert_eq!(tagged.tag(), Some(*b"FRAME001"));
    assert_eq!(samples::golden()[0].2.tag(), None);
}

#[test]
fn every_kind_comes_back_as_it_was() {
    let (clear, rest) = samples::packets();
    for (name, packet) in clear.iter().chain(&rest) {
        let bytes = samples::bytes(packet);
        assert_eq!(
            XtpPacket::decode(bytes.into()).as_ref(),
            Ok(packet),
            "{name}"
        );
    }
}

#[test]
fn lengths_are_held_against_what_is_there() {
    for (name, packet) in samples::packets().0 {
        let good = samples::bytes(&packet);
        for len in 0..good.len() {
            let error = XtpPacket::decode(Bytes::copy_from_slice(&good[..len])).unwrap_err();
            match len < XTP_HEADER {
                true => assert_eq!(error, XtpError::Short(len), "{name}"),
                false => assert!(matches!(error, XtpError::Length { .. }), "{name}"),
            }
        }
        let padded = [&good[..], &[0]].concat();
        let error = XtpPacket::decode(padded.into()).unwrap_err();
        assert!(matches!(error, XtpError::Length { .. }), "{name}");
    }
}

/// A packet of this format, with this body, and a good checksum.
fn forged(format: u8, options: XtpOptions, body: &[u8]) -> Result<XtpPacket, XtpError> {
    let mut packet = samples::golden()[2].2.clone();
    packet.options = options;
    packet.body = XtpBody::Join(Bytes::copy_from_slice(body));
    let mut bytes = samples::bytes(&packet);
    bytes[11] = 0x20 | format;
    // The format is the lower half of a word of the sum.
    let sum = i32::from(!u16::from_be_bytes([bytes[16], bytes[17]])) + i32::from(format) - 6;
    let sum = sum.rem_euclid(0xffff) as u16;
    bytes[16..18].copy_from_slice(&(!sum).to_be_bytes());
    XtpPacket::decode(bytes.into())
}

#[test]
fn a_body_that_is_none_of_its_format_is_refused() {
    let none = XtpOptions::NONE;
    assert!(matches!(
        forged(6, none, b"4.0").unwrap().body,
        XtpBody::Join(_)
    ));
    for format in [4, 9, 31] {
        assert_eq!(forged(format, none, &[]), Err(XtpError::Format(format)));
    }
    let body = |format, there| Err(XtpError::Body { format, there });
    for there in [0, 19, 21] {
        assert_eq!(forged(1, none, &vec![0; there]), body(1, there));
    }
    assert_eq!(forged(3, none, &[0; 23]), body(3, 23));
    // The packet announces more spans than it contains: no memory is allocated for them.
    let mut spans = [0; 24 + 16];
    for count in [0, 2, u32::MAX] {
        spans[20..24].copy_from_slice(&count.to_be_bytes());
        assert_eq!(forged(3, none, &spans), body(3, 40));
    }
    assert_eq!(forged(5, none, &[0; 31]), body(5, 31));
    assert_eq!(forged(8, none, &[0; 7]), body(8, 7));
    assert_eq!(forged(0, XtpOptions::BTAG, &[0; 7]), Err(XtpError::Tag(7)));
    let segment = |what, said, there| Err(XtpError::Segment { what, said, there });
    assert_eq!(forged(2, none, &[0, 8, 0]), segment("address", 4, 3));
    assert_eq!(forged(2, none, &[0, 3, 0, 0]), segment("address", 3, 4));
    assert_eq!(forged(2, none, &[0, 9, 0, 0]), segment("address", 9, 4));
    let null = [0, 8, 0, 0, 0, 0, 0, 0];
    assert_eq!(forged(2, none, &null), segment("traffic", 4, 0));
    assert_eq!(
        forged(5, none, &[[0; 32].as_slice(), &null, &[1]].concat()),
        body(5, 41)
    );
}

#[test]
fn known_formats_of_another_length_are_malformed() {
    let first = |body: &[u8]| match forged(2, XtpOptions::NONE, body).unwrap().body {
        XtpBody::First {
            address, traffic, ..
        } => (address, traffic),
        body => panic!("{body:?}"),
    };
    let (address, traffic) = first(&[0, 5, 0, 1, 9, 0, 4, 4, 1]);
    assert!(address.is_malformed() && traffic.is_malformed());
    assert_eq!(
        (address.format(), traffic.service()),
        (1, XtpService::STREAM)
    );
    let (address, traffic) = first(&[0, 5, 0, 77, 9, 0, 4, 4, 77]);
    assert!(!address.is_malformed() && !traffic.is_malformed());
    assert_eq!(traffic.spec(), XtpTrafficSpec::default());
}

#[test]
fn reserved_bits_are_sent_as_zero() {
    let mut packet = samples::golden()[1].2.clone();
    let clean = samples::bytes(&packet);
    packet.options.0 |= 0x80_00ff;
    assert_eq!(samples::bytes(&packet), clean);
}

fn payloads() -> impl Strategy<Value = Payload> {
    prop_oneof![
        (8..2_000u32).prop_map(Payload::Zeros),
        vec(any::<u8>(), 8..2_000).prop_map(|bytes| Payload::Bytes(bytes.into())),
    ]
}

fn short() -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 0..40).prop_map(Bytes::from)
}

fn addresses() -> impl Strategy<Value = XtpAddress> {
    let ports = any::<(u16, u16)>();
    prop_oneof![
        Just(XtpAddress::Null),
        (any::<(u32, u32)>(), ports).prop_map(|((a, b), (dst, src))| XtpAddress::Ipv4 {
            dst: SocketAddrV4::new(Ipv4Addr::from_bits(a), dst),
            src: SocketAddrV4::new(Ipv4Addr::from_bits(b), src),
        }),
        (any::<(u128, u128)>(), ports).prop_map(|((a, b), (dst, src))| XtpAddress::Ipv6 {
            dst: (Ipv6Addr::from_bits(a), dst),
            src: (Ipv6Addr::from_bits(b), src),
        }),
        ports.prop_map(|(dst, src)| XtpAddress::Ports { dst, src }),
        (7..129u8, short()).prop_map(|(format, bytes)| XtpAddress::Other { format, bytes }),
    ]
}

fn traffics() -> impl Strategy<Value = XtpTraffic> {
    let service = || any::<u8>().prop_map(XtpService);
    prop_oneof![
        service().prop_map(XtpTraffic::Unspecified),
        (service(), any::<[u32; 5]>()).prop_map(|(service, it)| {
            let [max_data, in_rate, in_burst, out_rate, out_burst] = it;
            let spec = XtpTrafficSpec {
                max_data,
                in_rate,
                in_burst,
                out_rate,
                out_burst,
            };
            XtpTraffic::Spec(service, spec)
        }),
        (service(), 2..=255u8, short()).prop_map(|(service, format, bytes)| XtpTraffic::Other {
            service,
            format,
            bytes,
        }),
    ]
}

fn controls() -> impl Strategy<Value = XtpControl> {
    any::<(u64, u64, u32)>().prop_map(|(rseq, alloc, echo)| XtpControl {
        rseq,
        alloc,
        echo: Serial(echo),
    })
}

fn bodies() -> impl Strategy<Value = XtpBody> {
    let keys = || any::<u64>().prop_map(XtpKey);
    prop_oneof![
        payloads().prop_map(XtpBody::Data),
        controls().prop_map(XtpBody::Cntl),
        (addresses(), traffics(), payloads()).prop_map(|(address, traffic, data)| {
            XtpBody::First {
                address,
                traffic,
                data,
            }
        }),
        (controls(), vec(any::<(u64, u64)>(), 0..70))
            .prop_map(|(control, spans)| XtpBody::Ecntl { control, spans }),
        (controls(), keys(), traffics()).prop_map(|(control, xkey, traffic)| XtpBody::Tcntl {
            control,
            xkey,
            traffic,
        }),
        short().prop_map(XtpBody::Join),
        (controls(), keys(), addresses(), traffics()).prop_map(
            |(control, xkey, address, traffic)| XtpBody::Jcntl {
                control,
                xkey,
                address,
                traffic,
            }
        ),
        (any::<(u32, u32)>(), short()).prop_map(|((code, value), message)| XtpBody::Diag {
            code: XtpDiagCode(code),
            value: XtpDiagValue(value),
            message,
        }),
    ]
}

fn packets() -> impl Strategy<Value = XtpPacket> {
    let fields = any::<(u64, u32, u16, u32, u64)>();
    (fields, bodies()).prop_map(|((key, options, sort, sync, seq), body)| XtpPacket {
        key: XtpKey(key),
        options: XtpOptions(options & XtpOptions::ALL.0),
        sort,
        sync: Serial(sync),
        seq,
        body,
    })
}

proptest! {
    #[test]
    fn packets_come_back_as_they_were(packet in packets()) {
        let bytes = samples::bytes(&packet);
        prop_assert_eq!(bytes.len(), packet.encoded_len());
        prop_assert_eq!(XtpPacket::decode(bytes.into()), Ok(packet));
    }

    #[test]
    fn a_damaged_bit_is_seen(packet in packets(), bit in any::<prop::sample::Index>()) {
        let mut bytes = samples::bytes(&packet);
        // The bit that says what is protected may only be lost where it changes nothing.
        let all = !packet.options.has(XtpOptions::NOCHECK);
        let protected = if all { bytes.len() } else { XTP_HEADER };
        let bit = bit.index(protected * 8);
        bytes[bit / 8] ^= 0x80 >> (bit % 8);
        let decoded = XtpPacket::decode(bytes.into());
        prop_assert!(decoded.is_err() || bit == 65, "{decoded:?}");
    }

    #[test]
    fn any_bytes_are_decoded_without_harm(bytes in vec(any::<u8>(), 0..200)) {
        checks::xtp(&bytes);
    }

    #[test]
    fn any_body_is_decoded_without_harm(format in 0..9u8, body in vec(0..60u8, 0..120)) {
        // Small bytes make lengths that fit now and then.
        let mut bytes = vec![0; XTP_HEADER];
        bytes[11] = format;
        bytes.extend(body);
        checks::xtp(&bytes);
    }
}

#[test]
fn tshark_dissects_every_kind_without_a_complaint() {
    let mut pcap = PcapNg::new(Vec::new()).unwrap();
    let face = pcap
        .add_interface(Interface {
            name: "chuff/0".into(),
            description: "chuff -> rook".into(),
            carriage: Carriage::Datagrams,
            source: SocketAddrV4::new(ENDS.0, 0),
            destination: SocketAddrV4::new(ENDS.1, 0),
            snap_len: 0,
        })
        .unwrap();
    let (packets, _) = samples::packets();
    for (n, (_, packet)) in packets.iter().enumerate() {
        let body = IpBody::Other {
            protocol: PROTOCOL_XTP,
            payload: Bytes::from(samples::bytes(packet)).into(),
        };
        let now = Time::from_ps(n as u64 * 1_000_000_000);
        pcap.write_ip(face, now, &Ipv4Packet::new(ENDS.0, ENDS.1, body))
            .unwrap();
    }
    let pcap = pcap.finish().unwrap();
    let fields = [
        "xtp.checksum.status",
        "_ws.expert.message",
        "xtp.seq",
        "xtp.cmd.ptype.pformat",
    ];
    let Some(lines) = tshark::fields("xtp", &pcap, &fields) else {
        return;
    };
    let expected: Vec<Vec<String>> = packets
        .iter()
        .map(|(_, it)| (it.seq.to_string(), it.body.format().to_string()))
        .map(|(seq, format)| vec!["1".to_owned(), String::new(), seq, format])
        .collect();
    assert_eq!(lines, expected);
    tshark::no_complaint_of_xtp("xtp", &pcap);
}
