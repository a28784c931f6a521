//! Packets of XTP for tests and for the fuzz corpus: those of specs/xtp.md appendix A, and the kinds it leaves out.

use core::net::SocketAddrV4;

use bytes::Bytes;
use layercast_core::Serial;
use layercast_wire::{
    Payload, XtpAddress, XtpBody, XtpControl, XtpDiagCode, XtpDiagValue, XtpKey, XtpOptions,
    XtpPacket, XtpService, XtpTraffic, XtpTrafficSpec,
};

use super::internet::ENDS;

/// Packets with their names.
pub type Named = Vec<(&'static str, XtpPacket)>;

const INITIATOR: XtpKey = XtpKey(0x0000_0001_0000_0007);
const RESPONDER: XtpKey = XtpKey(0x0000_0002_0000_0009);

fn address() -> XtpAddress {
    XtpAddress::Ipv4 {
        dst: SocketAddrV4::new(ENDS.1, 7_000),
        src: SocketAddrV4::new(ENDS.0, 6_000),
    }
}

fn traffic() -> XtpTraffic {
    let spec = XtpTrafficSpec {
        max_data: 1_142,
        in_rate: 6_250_000,
        in_burst: 1_142,
        out_rate: 6_250_000,
        out_burst: 1_142,
    };
    XtpTraffic::Spec(XtpService::STREAM, spec)
}

fn control(rseq: u64, alloc: u64, echo: u32) -> XtpControl {
    XtpControl {
        rseq,
        alloc,
        echo: Serial(echo),
    }
}

fn packet(key: XtpKey, options: XtpOptions, sync: u32, seq: u64, body: XtpBody) -> XtpPacket {
    XtpPacket {
        key,
        options,
        sort: 0,
        sync: Serial(sync),
        seq,
        body,
    }
}

fn text(bytes: &'static [u8]) -> Payload {
    Payload::Bytes(Bytes::from_static(bytes))
}

/// The packets V1 to V10 of appendix A and their bytes.
pub fn golden() -> Vec<(&'static str, &'static str, XtpPacket)> {
    use XtpOptions as O;
    let back = INITIATOR.returned();
    let many = XtpKey(0x0000_0003_0000_0001);
    vec![
        (
            "v1-first",
            "0000000100000007 00440022 0000002d a65b 0000 00000001 0000000000000000 \
             001000010a0000020a0000011b581770 0018040100000476005f5e1000000476005f5e1000000476 68656c6c6f",
            packet(
                INITIATOR,
                O::SREQ | O::EOM,
                1,
                0,
                XtpBody::First {
                    address: address(),
                    traffic: traffic(),
                    data: text(b"hello"),
                },
            ),
        ),
        (
            "v2-data",
            "0000000100000007 01c00020 00000008 6c73 0000 00000002 0000000000000005 6162636465666768",
            packet(
                INITIATOR,
                O::NOFLOW | O::FASTNAK | O::SREQ,
                2,
                5,
                XtpBody::Data(text(b"abcdefgh")),
            ),
        ),
        (
            "v3-cntl",
            "8000000100000007 00000021 00000014 7fa5 0000 00000000 0000000000000000 \
             000000000000000d 000000000001000d 00000002",
            packet(back, O::NONE, 0, 0, XtpBody::Cntl(control(13, 65_549, 2))),
        ),
        (
            "v4-ecntl",
            "8000000100000007 00000023 00000038 7ef7 0000 00000000 0000000000000000 \
             000000000000000d 000000000001000d 00000004 00000002 \
             0000000000000015 000000000000001d 0000000000000025 000000000000002d",
            packet(
                back,
                O::NONE,
                0,
                0,
                XtpBody::Ecntl {
                    control: control(13, 65_549, 4),
                    spans: vec![(21, 29), (37, 45)],
                },
            ),
        ),
        (
            "v5-tcntl",
            "8000000100000007 00400025 00000038 b0e8 0000 00000001 0000000000000000 \
             0000000000000005 0000000000010005 00000001 00000000 0000000200000009 \
             00180401 00000476 005f5e10 00000476 005f5e10 00000476",
            packet(
                back,
                O::SREQ,
                1,
                0,
                XtpBody::Tcntl {
                    control: control(5, 65_541, 1),
                    xkey: RESPONDER,
                    traffic: traffic(),
                },
            ),
        ),
        (
            "v6-jcntl",
            "0000000300000001 08000027 00000048 e251 0000 00000000 0000000000000000 \
             0000000000000000 0000000000010000 00000000 00000000 0000000300000001 \
             00100001 0a000002 0a000001 1b581770 00180401 00000476 005f5e10 00000476 005f5e10 00000476",
            packet(
                many,
                O::MULTI,
                0,
                0,
                XtpBody::Jcntl {
                    control: control(0, 65_536, 0),
                    xkey: many,
                    address: address(),
                    traffic: traffic(),
                },
            ),
        ),
        (
            "v7-diag",
            "8000000100000007 00000028 00000020 57a1 0000 00000000 0000000000000000 \
             00000001 00000001 6e6f206c697374656e6572206f6e20706f72742037303030",
            packet(
                back,
                O::NONE,
                0,
                0,
                XtpBody::Diag {
                    code: XtpDiagCode::REFUSED,
                    value: XtpDiagValue::NO_LISTENER,
                    message: Bytes::from_static(b"no listener on port 7000"),
                },
            ),
        ),
        (
            "v8-handshake",
            "0000000100000007 00400021 00000014 ff4f 0000 00000005 000000000000002d \
             0000000000000000 0000000000010000 00000000",
            packet(
                INITIATOR,
                O::SREQ,
                5,
                45,
                XtpBody::Cntl(control(0, 65_536, 0)),
            ),
        ),
        (
            "v9-tagged",
            "0000000100000007 424d0020 0000000b bd42 000a 00000006 000000000000002d \
             4652414d45303031 78797a",
            XtpPacket {
                sort: 10,
                ..packet(
                    INITIATOR,
                    O::NOCHECK | O::SORT | O::SREQ | O::WCLOSE | O::EOM | O::BTAG,
                    6,
                    45,
                    XtpBody::Data(text(b"FRAME001xyz")),
                )
            },
        ),
        (
            "v10-end",
            "8000000100000007 001a0021 00000014 7f31 0000 00000000 0000000000000000 \
             0000000000000038 0000000000010038 00000006",
            packet(
                back,
                O::RCLOSE | O::WCLOSE | O::END,
                0,
                0,
                XtpBody::Cntl(control(56, 65_592, 6)),
            ),
        ),
    ]
}

/// Every kind of packet and segment, those that tshark reads without a complaint first.
pub fn packets() -> (Named, Named) {
    use XtpOptions as O;
    let first = |address, traffic, data| XtpBody::First {
        address,
        traffic,
        data,
    };
    let send = |body| packet(INITIATOR, O::NONE, 0, 0, body);
    let mut clear: Vec<_> = golden()
        .into_iter()
        .map(|(name, _, it)| (name, it))
        .collect();
    let ports = XtpAddress::Ports {
        dst: 7_000,
        src: 6_000,
    };
    let odd = Payload::Bytes(Bytes::from_static(b"odd"));
    clear.extend([
        (
            "first-ports",
            send(first(
                ports,
                XtpTraffic::Unspecified(XtpService::DATAGRAM),
                odd.clone(),
            )),
        ),
        ("data-empty", send(XtpBody::Data(Payload::default()))),
        (
            "data-unprotected",
            packet(
                INITIATOR,
                O::NOCHECK | O::NOERR | O::EDGE | O::RES,
                0,
                7,
                XtpBody::Data(odd.clone()),
            ),
        ),
        (
            "ecntl-empty",
            send(XtpBody::Ecntl {
                control: control(1, 2, 3),
                spans: Vec::new(),
            }),
        ),
    ]);
    let unknown = XtpAddress::Other {
        format: 2,
        bytes: Bytes::from_static(b"clnp!"),
    };
    let strange = XtpTraffic::Other {
        service: XtpService(9),
        format: 7,
        bytes: Bytes::new(),
    };
    let v6 = XtpAddress::Ipv6 {
        dst: (core::net::Ipv6Addr::LOCALHOST, 7_000),
        src: (core::net::Ipv6Addr::UNSPECIFIED, 6_000),
    };
    let rest = vec![
        (
            "first-null",
            send(first(XtpAddress::Null, traffic(), odd.clone())),
        ),
        ("first-v6", send(first(v6, traffic(), odd.clone()))),
        ("first-unknown", send(first(unknown, strange, odd))),
        ("join", send(XtpBody::Join(Bytes::from_static(b"4.0")))),
    ];
    (clear, rest)
}

/// The bytes of a packet.
pub fn bytes(packet: &XtpPacket) -> Vec<u8> {
    let mut out = Vec::new();
    packet.encode_into(&mut out);
    out
}
