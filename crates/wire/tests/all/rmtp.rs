//! RMTP: golden octets, the sizes that the paper prints, what is encoded decodes to itself, damage is seen.

use bytes::Bytes;
use layercast_wire::Payload;
use layercast_wire::multicast::rmtp::{
    RmtpBody, RmtpConnect, RmtpData, RmtpError, RmtpFlags, RmtpForm, RmtpList, RmtpOption,
    RmtpPacket,
};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::multicast_checks as checks;
use crate::samples::{hex, rmtp as samples};

fn decode(form: RmtpForm, text: &str) -> Result<RmtpPacket, RmtpError> {
    RmtpPacket::decode(form, hex(text).into())
}

#[test]
fn the_golden_vectors() {
    for (name, text, packet) in samples::golden() {
        let golden = hex(text);
        assert_eq!(samples::bytes(RmtpForm::V2, &packet), golden, "{name}");
        assert_eq!(packet.encoded_len(RmtpForm::V2), golden.len(), "{name}");
        assert_eq!(decode(RmtpForm::V2, text), Ok(packet), "{name}");
    }
}

#[test]
fn every_seed_of_the_corpus_is_a_packet() {
    for (name, seed) in samples::seeds() {
        let form = RmtpForm::ALL[usize::from(seed[0])];
        let bytes = Bytes::copy_from_slice(&seed[1..]);
        assert!(RmtpPacket::decode(form, bytes).is_ok(), "{name}");
    }
}

#[test]
fn the_other_forms_have_more_or_less_of_it() {
    let bytes_of = |name, form| {
        let all = samples::golden();
        let (_, _, packet) = all.into_iter().find(|it| it.0 == name).unwrap();
        samples::bytes(form, &packet)
    };
    let none = "";
    for (name, paper, first, parts) in [
        (
            "conn",
            "0008 000e 00 00 00000012 0005 0004",
            "0008 0010 0007 01 00 00000012 0005 0004",
            "0008 0010 0007 02 00 00000012 0005 0004",
        ),
        (
            "dt-flags",
            "0001 000c fffe c0 ff 6e657773",
            "0001 000e 0007 fffe c0 ff 6e657773",
            "0001 0010 0007 fffe c3 ff 0000 6e657773",
        ),
        (
            "nack",
            "0003 000e 00 00 0003 0002 ffff 0004",
            "0003 000e 0007 00 00 0002 ffff 0004",
            "0003 000e 0007 00 00 0002 ffff 0004",
        ),
        (
            "cack-no",
            "0009 0006 0001",
            "0009 0008 0007 0001",
            "0009 0017 0007 0001 0030 0005 6368756666 0031 0002 aabb",
        ),
        ("frepo", none, none, "000c 000e 0007 0001 0064 00000062"),
        ("susp", none, none, "000e 0006 0007"),
    ] {
        assert_eq!(bytes_of(name, RmtpForm::Paper96), hex(paper), "{name}");
        assert_eq!(bytes_of(name, RmtpForm::V1), hex(first), "{name}");
        assert_eq!(bytes_of(name, RmtpForm::V2Parts), hex(parts), "{name}");
    }
}

/// Section 3.2.2 of the paper (ACK, CACK, RACK, NACK of 1 % of 2000 packets), and the drafts.
#[test]
fn the_sizes_that_are_printed() {
    let list = RmtpList::of((1..=20).map(|n| (100 * n, 100 * n))).unwrap();
    let bodies = [
        RmtpBody::Ack { round: 0 },
        RmtpBody::Accept {
            yes: true,
            options: Vec::new(),
        },
        RmtpBody::Released,
        RmtpBody::Nack {
            round: 0,
            more: false,
            missing: RmtpList::default(),
        },
        RmtpBody::Nack {
            round: 0,
            more: false,
            missing: list,
        },
    ];
    for (form, sizes) in [
        (RmtpForm::Paper96, [5, 6, 4, 8, 48]),
        (RmtpForm::V1, [7, 8, 6, 8, 48]),
        (RmtpForm::V2, [7, 8, 6, 8, 48]),
    ] {
        for (body, size) in bodies.clone().into_iter().zip(sizes) {
            let packet = RmtpPacket {
                connection: 0,
                body,
            };
            assert_eq!(packet.encoded_len(form), size, "{form:?} {packet:?}");
        }
    }
}

#[test]
fn lists_are_put_in_order_and_said_shortly() {
    let list = RmtpList::of([(9, 12), (3, 3), (4, 4), (10, 20), (22, 22)]).unwrap();
    let ranges: Vec<_> = list.iter().collect();
    assert_eq!(ranges, [(3, 4), (9, 20), (22, 22)]);
    assert_eq!((list.count(), list.symbols(), list.highest()), (15, 6, 22));
    assert_eq!(RmtpList::of([]).unwrap().highest(), 0);
    let said = decode(
        RmtpForm::V1,
        "0003 0014 0007 00 00 0016 0009 ffff 0014 0003 0004",
    );
    let body = said.unwrap().body;
    assert!(matches!(body, RmtpBody::Nack { missing, .. } if missing == list));
}

#[test]
fn bad_lists_are_refused() {
    for (list, error) in [
        ("0000", RmtpError::Range(0, 0)),
        ("ffff", RmtpError::Range(0xffff, 0xffff)),
        ("ffff 0004", RmtpError::Range(0xffff, 0xffff)),
        ("0001 ffff", RmtpError::Range(1, 0xffff)),
        ("0004 ffff 0003", RmtpError::Range(4, 3)),
        ("0004 ffff 0000", RmtpError::Range(4, 0)),
        ("0001 ffff ffff", RmtpError::Range(1, 0xffff)),
        ("0001 ffff 0003 ffff", RmtpError::Range(0xffff, 0xffff)),
        ("0001 00", RmtpError::Odd(3)),
        ("", RmtpError::Nothing),
    ] {
        let len = 8 + hex(list).len();
        let text = format!("0003 {len:04x} 0007 00 00 {list}");
        let refused = decode(RmtpForm::V1, &text).unwrap_err();
        // What cannot begin a range is looked at as one that it is.
        let same = match (refused, error) {
            (RmtpError::Range(..), RmtpError::Range(..)) => true,
            (refused, error) => refused == error,
        };
        assert!(same, "{list}: {refused}");
    }
    let miscounted = decode(RmtpForm::Paper96, "0003 000a 00 00 0002 0005");
    assert_eq!(miscounted, Err(RmtpError::Symbols { said: 2, there: 1 }));
}

#[test]
fn what_contradicts_itself_is_refused() {
    let (v1, v2) = (RmtpForm::V1, RmtpForm::V2);
    let sizes = |size, blocks, block| RmtpError::Sizes {
        size,
        blocks,
        block,
    };
    let body = |kind, there| RmtpError::Body { kind, there };
    for (form, text, error) in [
        (v1, "0004 0006", RmtpError::Short(4)),
        (
            v1,
            "0004 0007 0007",
            RmtpError::Length { said: 7, there: 6 },
        ),
        (v1, "0000 0006 0007", RmtpError::Kind(0)),
        (v2, "000d 0006 0007", RmtpError::Kind(13)),
        (v2, "000f 0006 0007", RmtpError::Kind(15)),
        (v1, "000c 000e 0007 0001 0064 00000062", RmtpError::Kind(12)),
        (v1, "000e 0006 0007", RmtpError::Kind(14)),
        (v1, "0001 0009 0007 0001 00", body(1, 3)),
        (v1, "0001 000a 0007 0001 00 00", RmtpError::Empty),
        (v1, "0001 000b 0007 0000 00 00 61", RmtpError::Seq(0)),
        (v1, "0001 000b 0007 ffff 00 00 61", RmtpError::Seq(0xffff)),
        (v1, "0002 0006 0007", body(2, 0)),
        (v1, "0002 0008 0007 0000", body(2, 2)),
        (v1, "0003 0007 0007 00", body(3, 1)),
        (v1, "0004 0007 0007 00", body(4, 1)),
        (v1, "0009 0007 0007 00", body(9, 1)),
        (v1, "0009 0008 0007 0002", RmtpError::Response(2)),
        (v1, "0009 000c 0007 0000 0030 0000", body(9, 6)),
        (v2, "0009 0009 0007 0000 00", RmtpError::Option(0, 1)),
        (
            v2,
            "0009 000d 0007 0000 0030 0002 61",
            RmtpError::Option(48, 2),
        ),
        (v2, "000c 000e 0007 0000 0064 00000062", RmtpError::Seq(0)),
        (v1, "0008 000f 0007 01 00 00000012 0005 00", body(8, 9)),
        (
            v1,
            "0008 0010 0007 02 00 00000012 0005 0004",
            RmtpError::Version(2),
        ),
        (
            v1,
            "0008 0010 0007 01 00 00000012 0004 0004",
            sizes(18, 4, 4),
        ),
        (
            v1,
            "0008 0010 0007 01 00 00000000 0000 0004",
            sizes(0, 0, 4),
        ),
        (
            v1,
            "0008 0010 0007 01 00 00000012 0005 0000",
            sizes(18, 5, 0),
        ),
        (
            v1,
            "0008 0010 0007 01 00 ffffffff ffff 0001",
            sizes(u32::MAX, 65_535, 1),
        ),
        (
            v1,
            "0008 0015 0007 01 00 00000012 0005 0004 0003 0001 00",
            RmtpError::Option(3, 1),
        ),
    ] {
        assert_eq!(decode(form, text), Err(error), "{text}");
    }
    assert_eq!(RmtpConnect::new(65_535, 1), Err(sizes(65_535, 65_535, 1)));
    assert_eq!(RmtpConnect::new(65_534, 1).unwrap().blocks, 65_534);
    let long = Bytes::from(vec![b'n'; 257]);
    assert_eq!(RmtpOption::new(1, long), Err(RmtpError::Option(1, 257)));
    let name = Bytes::from(vec![b'n'; 33]);
    assert_eq!(RmtpOption::new(48, name), Err(RmtpError::Option(48, 33)));
}

#[test]
fn what_does_not_fit_into_a_form_is_not_encoded() {
    let mut out = Vec::new();
    let mut packet = RmtpPacket {
        connection: 1,
        body: RmtpBody::Suspend,
    };
    let refused = packet.encode_into(RmtpForm::V1, &mut out);
    assert_eq!(refused, Err(RmtpError::Kind(14)));
    packet.body = RmtpBody::Data(RmtpData {
        seq: 1,
        flags: RmtpFlags(0),
        round: 0,
        part: 0,
        payload: Payload::Zeros(65_526),
    });
    let refused = packet.encode_into(RmtpForm::V1, &mut out);
    assert_eq!(refused, Err(RmtpError::Long(65_536)));
    assert!(out.is_empty());
    assert_eq!(packet.encode_into(RmtpForm::Paper96, &mut out), Ok(()));
}

fn lists() -> impl Strategy<Value = RmtpList> {
    let range = (1..65_535u16, prop_oneof![0..4u16, any::<u16>()])
        .prop_map(|(first, more)| (first, first.saturating_add(more).min(65_534)));
    vec(range, 0..60).prop_map(|ranges| RmtpList::of(ranges).unwrap())
}

fn options() -> impl Strategy<Value = Vec<RmtpOption>> {
    let codes = prop_oneof![0..4u16, 16..19u16, 32..35u16, 48..50u16, any::<u16>()];
    let sizes = prop_oneof![Just(2usize), Just(4), Just(8), 0..32usize];
    let values = sizes.prop_flat_map(|size| vec(any::<u8>(), size));
    let option = (codes, values).prop_filter_map("a value of its length", |(code, value)| {
        RmtpOption::new(code, value.into()).ok()
    });
    vec(option, 0..6)
}

fn bodies() -> impl Strategy<Value = RmtpBody> {
    let seq = || 1..65_535u16;
    let data = (seq(), any::<(u8, u8, u16)>(), vec(any::<u8>(), 1..1_400)).prop_map(
        |(seq, (flags, round, part), payload)| {
            RmtpBody::Data(RmtpData {
                seq,
                flags: RmtpFlags(flags & 0xc3),
                round,
                part,
                payload: Payload::Bytes(payload.into()),
            })
        },
    );
    let nack = (any::<u8>(), any::<bool>(), lists(), seq()).prop_map(|(round, more, list, one)| {
        RmtpBody::Nack {
            round,
            more,
            missing: RmtpList::of(list.iter().chain([(one, one)])).unwrap(),
        }
    });
    let connect = (1..60_000u32, 1..=1_024u16, options()).prop_map(|(size, block, options)| {
        let connect = RmtpConnect::new(size, block).unwrap();
        RmtpBody::Connect(RmtpConnect { options, ..connect })
    });
    prop_oneof![
        4 => data,
        1 => any::<u8>().prop_map(|round| RmtpBody::Ack { round }),
        4 => nack,
        1 => Just(RmtpBody::Busy),
        2 => lists().prop_map(RmtpBody::Ready),
        1 => Just(RmtpBody::Abort),
        1 => Just(RmtpBody::Poll),
        3 => connect,
        2 => (any::<bool>(), options()).prop_map(|(yes, options)| RmtpBody::Accept { yes, options }),
        1 => Just(RmtpBody::Release),
        1 => Just(RmtpBody::Released),
        1 => (seq(), seq(), any::<u32>())
            .prop_map(|(start, stop, received)| RmtpBody::Count { start, stop, received }),
        1 => Just(RmtpBody::Suspend),
    ]
}

fn packets() -> impl Strategy<Value = RmtpPacket> {
    (any::<u16>(), bodies()).prop_map(|(connection, body)| RmtpPacket { connection, body })
}

/// What `form` can say of `packet`; nothing if it does not know the kind.
fn seen_in(form: RmtpForm, mut packet: RmtpPacket) -> Option<RmtpPacket> {
    if form == RmtpForm::Paper96 {
        packet.connection = 0;
    }
    match &mut packet.body {
        RmtpBody::Data(data) => {
            data.flags.0 &= if form.is_v2() { 0xc3 } else { 0xc0 };
            data.part = if form.has_parts() { data.part } else { 0 };
        }
        RmtpBody::Accept { options, .. } if !form.is_v2() => options.clear(),
        RmtpBody::Count { .. } | RmtpBody::Suspend if !form.is_v2() => return None,
        _ => {}
    }
    Some(packet)
}

proptest! {
    #[test]
    fn packets_come_back_as_they_were(packet in packets(), form in 0..4usize) {
        let form = RmtpForm::ALL[form];
        let mut bytes = Vec::new();
        let encoded = packet.encode_into(form, &mut bytes);
        match seen_in(form, packet.clone()) {
            Some(seen) => {
                prop_assert_eq!(encoded, Ok(()));
                prop_assert_eq!(bytes.len(), packet.encoded_len(form));
                prop_assert_eq!(RmtpPacket::decode(form, bytes.into()), Ok(seen));
            }
            None => prop_assert!(encoded.is_err() && bytes.is_empty()),
        }
    }

    #[test]
    fn shortened_and_lengthened_packets_are_refused(
        packet in packets(), cut in any::<prop::sample::Index>(), more in 1..9usize,
    ) {
        let bytes = samples::bytes(RmtpForm::V2, &packet);
        let short = Bytes::copy_from_slice(&bytes[..cut.index(bytes.len())]);
        prop_assert!(RmtpPacket::decode(RmtpForm::V2, short).is_err());
        let long = [&bytes[..], &vec![0; more]].concat();
        prop_assert!(RmtpPacket::decode(RmtpForm::V2, long.into()).is_err());
    }

    #[test]
    fn damaged_packets_are_decoded_without_harm(
        packet in packets(), form in 0..4u8, at in any::<prop::sample::Index>(), flip in 1..=255u8,
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = vec![form];
        bytes.extend(samples::bytes(RmtpForm::ALL[usize::from(form)], &packet));
        let at = at.index(bytes.len());
        if at > 0 {
            bytes[at] ^= flip;
        }
        checks::rmtp(&bytes);
        bytes.truncate(1 + cut.index(bytes.len()));
        checks::rmtp(&bytes);
    }

    #[test]
    fn any_bytes_are_decoded_without_harm(
        form in 0..4u8, kind in 0..16u8, body in vec(any::<u8>(), 0..60),
    ) {
        checks::rmtp(&[&[form, 0, kind, 0, 0], &body[..]].concat());
    }
}
