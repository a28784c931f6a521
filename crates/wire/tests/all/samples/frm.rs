//! Packets of FRM for tests and for the fuzz corpus: a communication of two receivers of which one is expelled.

use bytes::Bytes;
use layercast_core::Serial;
use layercast_wire::Payload;
use layercast_wire::multicast::frm::{
    FrmBody, FrmCondition, FrmControl, FrmData, FrmEcho, FrmFlags, FrmInit, FrmIntegrity,
    FrmPacket, FrmReply,
};
use layercast_wire::multicast::{MemberId, Reason};

/// A packet with its name and its octets.
pub type Golden = (&'static str, &'static str, FrmPacket);

fn packet(body: FrmBody) -> FrmPacket {
    FrmPacket {
        session: 0xf1,
        body,
    }
}

fn init(integrity: FrmIntegrity, address: &str) -> FrmBody {
    FrmBody::Init(Box::new(FrmInit {
        stamp: 1_000,
        packet_size: 2_000,
        in_order: true,
        min_release: 180_000,
        contingency: 384,
        wait_ms: 100,
        spread_us: 1_000,
        dead_ms: 10_000,
        source: 7,
        parities: 1,
        integrity,
        address: address.parse().expect("an address of a test"),
        name: Bytes::from_static(b"chuff"),
    }))
}

fn data(seq: u32, flags: FrmFlags, code: Option<[u8; 8]>) -> FrmBody {
    FrmBody::Data(FrmData {
        seq: Serial(seq),
        flags,
        code,
        payload: Payload::Bytes(Bytes::from_static(b"data")),
    })
}

fn echo(rseq: u32, dseq: u32, gaps: &[(u32, u32)]) -> FrmBody {
    FrmBody::Echo(Box::new(FrmEcho {
        member: MemberId(8),
        sync: Serial(3),
        stamp: 2_000,
        rseq: Serial(rseq),
        dseq: Serial(dseq),
        buffers: 30,
        rate: 143_000,
        loss: 7,
        gaps: gaps
            .iter()
            .map(|&(from, to)| (Serial(from), Serial(to)))
            .collect(),
    }))
}

/// Every kind.
pub fn golden() -> Vec<Golden> {
    let reply = |refuses| {
        FrmBody::Reply(FrmReply {
            member: MemberId(8),
            incarnation: 2,
            refuses,
            buffer: 32,
            stamp: 1_000,
        })
    };
    let control = |flags, ejected| {
        FrmBody::Control(FrmControl {
            sync: Serial(3),
            stamp: 2_000,
            lseq: Serial(33),
            sent: 40,
            spread_us: 5,
            flags,
            ejected,
        })
    };
    let key = FrmIntegrity {
        any: true,
        conditions: vec![
            FrmCondition::Key(MemberId(8)),
            FrmCondition::Number(5),
            FrmCondition::All,
            FrmCondition::Quorum(50),
        ],
    };
    vec![
        (
            "init",
            "01 01 0040 00000000000000f1 00000000000003e8 07d0 01 000000000002bf20 0180 00000064 000003e8 00002710 0007 0001 \
             00 00 04 0a000001 1b58 05 6368756666",
            packet(init(FrmIntegrity::default(), "10.0.0.1:7000")),
        ),
        (
            "init-v6",
            "01 01 005d 00000000000000f1 00000000000003e8 07d0 01 000000000002bf20 0180 00000064 000003e8 00002710 0007 0001 \
             01 04 00 0000000000000008 01 00000005 02 03 32 \
             06 00000000000000000000000000000001 1b58 05 6368756666",
            packet(init(key, "[::1]:7000")),
        ),
        (
            "reply",
            "01 02 0025 00000000000000f1 0000000000000008 00000002 ff 00000020 00000000000003e8",
            packet(reply(None)),
        ),
        (
            "reply-late",
            "01 02 0025 00000000000000f1 0000000000000008 00000002 09 00000020 00000000000003e8",
            packet(reply(Some(Reason::Late))),
        ),
        (
            "data",
            "01 03 0015 00000000000000f1 00000020 01 64617461",
            packet(data(32, FrmFlags::END, None)),
        ),
        (
            "data-coded",
            "01 03 001d 00000000000000f1 ffffffff 06 0000000100070101 64617461",
            packet(data(
                u32::MAX,
                FrmFlags::AGAIN,
                Some([0, 0, 0, 1, 0, 7, 1, 1]),
            )),
        ),
        (
            "cntl",
            "01 04 0027 00000000000000f1 00000003 00000000000007d0 00000021 00000028 00000005 00 0000",
            packet(control(FrmFlags(0), Vec::new())),
        ),
        (
            "cntl-close",
            "01 04 002f 00000000000000f1 00000003 00000000000007d0 00000021 00000028 00000005 03 0001 0000000000000009",
            packet(control(FrmFlags(3), vec![MemberId(9)])),
        ),
        (
            "echo",
            "01 05 0034 00000000000000f1 0000000000000008 00000003 00000000000007d0 00000021 00000020 \
             0000001e 00022e98 0007 0000",
            packet(echo(33, 32, &[])),
        ),
        (
            "echo-gaps",
            "01 05 0044 00000000000000f1 0000000000000008 00000003 00000000000007d0 fffffffe fffffffe \
             0000001e 00022e98 0007 0002 fffffffe 00000001 00000003 00000004",
            packet(echo(
                u32::MAX - 1,
                u32::MAX - 1,
                &[(u32::MAX - 1, 1), (3, 4)],
            )),
        ),
        (
            "leave",
            "01 06 0015 00000000000000f1 0000000000000008 01",
            packet(FrmBody::Leave {
                member: MemberId(8),
                reason: Reason::User,
            }),
        ),
        (
            "eject",
            "01 07 0019 00000000000000f1 0000000000000008 03 00000010",
            packet(FrmBody::Eject {
                member: MemberId(8),
                reason: Reason::Slow,
                mindseq: Serial(16),
            }),
        ),
        (
            "release",
            "01 08 000d 00000000000000f1 02",
            packet(FrmBody::Release {
                reason: Reason::Integrity,
            }),
        ),
    ]
}

/// The octets of a packet.
pub fn bytes(packet: &FrmPacket) -> Vec<u8> {
    let mut out = Vec::new();
    packet.encode_into(&mut out).expect("short lists");
    out
}
