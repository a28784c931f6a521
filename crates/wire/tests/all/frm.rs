//! FRM: golden octets, what is encoded decodes to itself, damage is seen, sizes of the module's table.

use bytes::Bytes;
use core::net::{IpAddr, SocketAddr};
use layercast_core::Serial;
use layercast_wire::Payload;
use layercast_wire::multicast::frm::{
    FRM_HEADER, FrmBody, FrmCondition, FrmControl, FrmData, FrmEcho, FrmError, FrmFlags, FrmInit,
    FrmIntegrity, FrmPacket, FrmReply,
};
use layercast_wire::multicast::{MemberId, Reason};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::multicast_checks as checks;
use crate::samples::{frm as samples, hex};

#[test]
fn the_golden_vectors() {
    for (name, text, packet) in samples::golden() {
        let golden = hex(text);
        assert_eq!(samples::bytes(&packet), golden, "{name}");
        assert_eq!(FrmPacket::decode(golden.into()), Ok(packet), "{name}");
    }
}

#[test]
fn only_the_sender_says_what_a_sender_says() {
    for (name, _, packet) in samples::golden() {
        let receivers = ["reply", "echo", "leave"];
        let from_receiver = receivers.iter().any(|it| name.starts_with(it));
        assert_eq!(packet.body.from_sender(), !from_receiver, "{name}");
    }
}

/// A packet of this kind whose length is right.
fn forged(kind: u8, body: &str) -> Result<FrmPacket, FrmError> {
    let body = hex(body);
    let len = (FRM_HEADER + body.len()) as u16;
    let head = [&[1, kind][..], &len.to_be_bytes(), &[0; 8]].concat();
    FrmPacket::decode([head, body].concat().into())
}

#[test]
fn what_contradicts_itself_is_refused() {
    let init = |size, factor, rest: &str| {
        let text = format!(
            "{:016x} {size:04x} 00 {:016x} {factor:04x} {:024x} 0000 0000",
            0, 0, 0
        );
        forged(1, &format!("{text} {rest}"))
    };
    let good = "00 00 04 7f000001 0001 00";
    let value = |what| Err(FrmError::Value(what));
    assert!(init(1, 257, good).is_ok());
    assert_eq!(init(0, 257, good), value("packet size"));
    assert_eq!(init(1, 256, good), value("contingency factor"));
    assert_eq!(
        init(1, 257, "02 00 04 7f000001 0001 00"),
        value("integrity")
    );
    assert_eq!(init(1, 257, "00 01 04"), value("condition"));
    assert_eq!(init(1, 257, "00 01 03 65"), value("quorum"));
    assert_eq!(init(1, 257, "00 00 05"), value("address family"));
    assert_eq!(
        init(1, 257, "00 00 04 7f000001 0001 01"),
        Err(FrmError::Short)
    );
    let reply = |answer| {
        forged(
            2,
            &format!("{:016x} 00000000 {answer} 00000000 {:016x}", 0, 0),
        )
    };
    assert!(reply("ff").is_ok() && reply("0e").is_ok());
    assert_eq!(reply("0f"), value("reason"));
    assert_eq!(forged(3, "00000000 08"), value("flags"));
    assert_eq!(
        forged(3, "00000000 04 00000000000000"),
        Err(FrmError::Short)
    );
    assert_eq!(
        forged(
            4,
            "00000000 0000000000000000 00000000 00000000 00000000 04 0000"
        ),
        value("flags")
    );
    // The packet announces more members than it contains: no memory is allocated for them.
    assert_eq!(
        forged(
            4,
            "00000000 0000000000000000 00000000 00000000 00000000 00 ffff"
        ),
        Err(FrmError::Short)
    );
    let echo = |rseq: u32, dseq: u32, gaps: &str| {
        let rest = format!("{rseq:08x} {dseq:08x} 00000000 00000000 0000 {gaps}");
        forged(5, &format!("{:016x} 00000000 {:016x} {rest}", 0, 0))
    };
    assert!(echo(5, 5, "0001 00000005 00000006").is_ok());
    assert_eq!(echo(5, 6, "0000"), value("dseq"));
    for gaps in [
        "0001 00000004 00000006",
        "0001 00000006 00000006",
        "0001 00000007 00000006",
        "0002 00000006 00000008 00000008 00000009",
        "0002 00000006 00000008 00000007 00000009",
    ] {
        assert_eq!(echo(5, 5, gaps), Err(FrmError::Gaps), "{gaps}");
    }
    assert_eq!(forged(8, "0f"), value("reason"));
    assert_eq!(forged(9, ""), Err(FrmError::Kind(9)));
    assert_eq!(forged(0, ""), Err(FrmError::Kind(0)));
    let too_long = forged(8, "00 00");
    assert_eq!(
        too_long,
        Err(FrmError::Length {
            said: 14,
            there: 14
        })
    );
    let mut bytes = samples::bytes(&samples::golden()[4].2);
    bytes[0] = 2;
    assert_eq!(FrmPacket::decode(bytes.into()), Err(FrmError::Version(2)));
}

#[test]
fn what_does_not_fit_is_not_encoded() {
    let mut out = vec![7];
    let mut put = |body| FrmPacket { session: 1, body }.encode_into(&mut out);
    let data = |len| {
        FrmBody::Data(FrmData {
            seq: Serial(0),
            flags: FrmFlags(0),
            code: None,
            payload: Payload::Zeros(len),
        })
    };
    assert_eq!(put(data(65_519)), Err(FrmError::Long(65_536)));
    let FrmBody::Init(init) = samples::golden()[0].2.body.clone() else {
        panic!("the first is INIT");
    };
    let named = FrmInit {
        name: Bytes::from(vec![b'n'; 256]),
        ..*init
    };
    assert_eq!(
        put(FrmBody::Init(Box::new(named))),
        Err(FrmError::Many(256, "name"))
    );
    assert_eq!(put(data(65_518)), Ok(()));
    assert_eq!(out.len(), 1 + 65_535);
}

fn member() -> impl Strategy<Value = MemberId> {
    any::<u64>().prop_map(MemberId)
}

fn reason() -> impl Strategy<Value = Reason> {
    (0..Reason::ALL.len()).prop_map(|number| Reason::ALL[number])
}

fn integrity() -> impl Strategy<Value = FrmIntegrity> {
    let condition = prop_oneof![
        member().prop_map(FrmCondition::Key),
        any::<u32>().prop_map(FrmCondition::Number),
        Just(FrmCondition::All),
        (0..=100u8).prop_map(FrmCondition::Quorum),
    ];
    (any::<bool>(), vec(condition, 0..9))
        .prop_map(|(any, conditions)| FrmIntegrity { any, conditions })
}

fn init() -> impl Strategy<Value = FrmBody> {
    let ip = prop_oneof![
        any::<[u8; 4]>().prop_map(IpAddr::from),
        any::<[u8; 16]>().prop_map(IpAddr::from),
    ];
    let numbers = any::<(u64, u64, [u32; 3], u16, u16, bool)>();
    let rest = (1u16.., 257u16.., vec(any::<u8>(), 0..=255));
    (numbers, rest, integrity(), (ip, any::<u16>())).prop_map(
        |(numbers, (packet_size, contingency, name), integrity, address)| {
            let (stamp, min_release, times, source, parities, in_order) = numbers;
            let [wait_ms, spread_us, dead_ms] = times;
            FrmBody::Init(Box::new(FrmInit {
                stamp,
                packet_size,
                in_order,
                min_release,
                contingency,
                wait_ms,
                spread_us,
                dead_ms,
                source,
                parities,
                integrity,
                address: SocketAddr::from(address),
                name: name.into(),
            }))
        },
    )
}

fn echo() -> impl Strategy<Value = FrmBody> {
    let numbers = any::<(u32, u64, u32, u32, u32, u16)>();
    let gaps = vec((1..9u32, 1..9u32), 0..40);
    (member(), numbers, 0..99u32, gaps).prop_map(|(member, numbers, behind, steps)| {
        let (sync, stamp, rseq, buffers, rate, loss) = numbers;
        let mut end = Serial(rseq);
        let gaps = steps.into_iter().map(|(skip, len)| {
            let from = end.plus(skip);
            end = from.plus(len);
            (from, end)
        });
        FrmBody::Echo(Box::new(FrmEcho {
            member,
            sync: Serial(sync),
            stamp,
            rseq: Serial(rseq),
            dseq: Serial(rseq.wrapping_sub(behind)),
            buffers,
            rate,
            loss,
            gaps: gaps.collect(),
        }))
    })
}

fn bodies() -> impl Strategy<Value = FrmBody> {
    let reply = (
        member(),
        any::<(u32, u32, u64)>(),
        proptest::option::of(reason()),
    )
        .prop_map(|(member, (incarnation, buffer, stamp), refuses)| {
            FrmBody::Reply(FrmReply {
                member,
                incarnation,
                refuses,
                buffer,
                stamp,
            })
        });
    let data = (
        any::<u32>(),
        0..4u8,
        any::<Option<[u8; 8]>>(),
        vec(any::<u8>(), 0..1_400),
    )
        .prop_map(|(seq, flags, code, payload)| {
            FrmBody::Data(FrmData {
                seq: Serial(seq),
                flags: FrmFlags(flags),
                code,
                payload: Payload::Bytes(payload.into()),
            })
        });
    let control = (
        any::<(u32, u64, u32, u32, u32)>(),
        0..4u8,
        vec(member(), 0..20),
    )
        .prop_map(|((sync, stamp, lseq, sent, spread_us), flags, ejected)| {
            FrmBody::Control(FrmControl {
                sync: Serial(sync),
                stamp,
                lseq: Serial(lseq),
                sent,
                spread_us,
                flags: FrmFlags(flags),
                ejected,
            })
        });
    prop_oneof![
        init(),
        reply,
        data,
        control,
        echo(),
        (member(), reason()).prop_map(|(member, reason)| FrmBody::Leave { member, reason }),
        (member(), reason(), any::<u32>()).prop_map(|(member, reason, mindseq)| FrmBody::Eject {
            member,
            reason,
            mindseq: Serial(mindseq),
        }),
        reason().prop_map(|reason| FrmBody::Release { reason }),
    ]
}

proptest! {
    #[test]
    fn packets_come_back_as_they_were(session: u64, body in bodies()) {
        let packet = FrmPacket { session, body };
        let bytes = samples::bytes(&packet);
        prop_assert_eq!(FrmPacket::decode(bytes.into()), Ok(packet));
    }

    #[test]
    fn shortened_and_lengthened_packets_are_refused(
        body in bodies(), cut in any::<prop::sample::Index>(), more in 1..9usize,
    ) {
        let bytes = samples::bytes(&FrmPacket { session: 1, body });
        let short = Bytes::copy_from_slice(&bytes[..cut.index(bytes.len())]);
        prop_assert!(FrmPacket::decode(short).is_err());
        let long = [&bytes[..], &vec![0; more]].concat();
        prop_assert!(FrmPacket::decode(long.into()).is_err());
    }

    #[test]
    fn damaged_packets_are_decoded_without_harm(
        body in bodies(), at in any::<prop::sample::Index>(), flip in 1..=255u8,
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = samples::bytes(&FrmPacket { session: 1, body });
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        checks::frm(&bytes);
        bytes.truncate(cut.index(bytes.len()));
        checks::frm(&bytes);
    }

    #[test]
    fn any_bytes_are_decoded_without_harm(kind in 0..10u8, body in vec(any::<u8>(), 0..90)) {
        checks::frm(&[&[1, kind][..], &body].concat());
    }
}
