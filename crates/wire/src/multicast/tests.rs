use bytes::Bytes;
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

use super::*;
use crate::Payload;

fn spans() -> impl Strategy<Value = Spans> {
    vec((0u64..1 << 40, 1u64..1 << 33), 0..2 * MAX_LIST).prop_map(|mut list| {
        list.sort_unstable();
        let mut spans = Spans::new();
        for (from, len) in list {
            spans.push(from, from + len);
        }
        spans
    })
}

fn needs() -> impl Strategy<Value = Needs> {
    btree_map(any::<u32>(), any::<u16>(), 0..2 * MAX_LIST).prop_map(|blocks| Needs::of(blocks).0)
}

fn symbol() -> impl Strategy<Value = Symbol> {
    prop_oneof![
        any::<u64>().prop_map(Symbol::Source),
        any::<(u32, u32)>().prop_map(|(block, index)| Symbol::Parity { block, index }),
    ]
}

fn reason() -> impl Strategy<Value = Reason> {
    (0..Reason::ALL.len()).prop_map(|number| Reason::ALL[number])
}

fn member() -> impl Strategy<Value = MemberId> {
    any::<u64>().prop_map(MemberId)
}

fn object() -> impl Strategy<Value = Object> {
    let name = vec(any::<u8>(), 0..=MAX_NAME);
    (any::<u64>(), 1u16.., any::<u8>(), any::<[u8; 32]>(), name).prop_map(
        |(size, block, scheme, digest, name)| Object {
            size,
            block,
            scheme,
            digest,
            name: name.into(),
        },
    )
}

fn open() -> impl Strategy<Value = Body> {
    let content = prop_oneof![
        Just(Content::Levels),
        Just(Content::Ranges),
        Just(Content::Counts)
    ];
    let terms =
        (content, any::<(bool, bool, bool, u32, u32, u32, u16)>()).prop_map(|(content, it)| {
            let (in_order, unasked, goodbye, spread_us, data_wait_ms, sender_wait_ms, counters) =
                it;
            Terms {
                content,
                in_order,
                unasked,
                goodbye,
                spread_us,
                data_wait_ms,
                sender_wait_ms,
                counters,
            }
        });
    let object = proptest::option::of(object());
    let proof = any::<Option<[u8; 16]>>();
    (any::<u64>(), 1u16.., any::<u64>(), terms, object, proof).prop_map(
        |(stamp, packet_size, min_release, terms, object, proof)| {
            Body::Open(Box::new(Open {
                stamp,
                packet_size,
                min_release,
                terms,
                object,
                proof,
            }))
        },
    )
}

fn poll() -> impl Strategy<Value = Body> {
    let lists = (vec(member(), 0..=MAX_LIST), needs());
    let numbers = any::<(u32, u16, u64, u64, u32, u32, u32)>();
    (numbers, any::<(bool, bool, bool, bool)>(), lists).prop_map(
        |(numbers, flags, (ejected, heard))| {
            let (sync, round, stamp, upto, sent, spread_us, group) = numbers;
            Body::Poll(Box::new(Poll {
                sync,
                round,
                stamp,
                upto,
                sent,
                ask: if flags.0 { Ask::Needy } else { Ask::Everyone },
                spread_us,
                group,
                handshake: flags.1,
                closing: flags.2,
                separate: flags.3,
                ejected,
                heard,
            }))
        },
    )
}

fn report() -> impl Strategy<Value = Body> {
    let state = prop_oneof![
        (any::<(u64, u64)>(), spans()).prop_map(|((received, delivered), gaps)| State::Levels {
            received,
            delivered,
            gaps
        }),
        any::<[u8; 16]>().prop_map(|receipt| State::Complete { receipt }),
        spans().prop_map(State::Missing),
        needs().prop_map(State::Need),
        Just(State::Busy),
        spans().prop_map(State::Ready),
        Just(State::Corrupt),
    ];
    let numbers = any::<(u32, u16, (u64, u32), u16, u32, bool)>();
    let tally = any::<(u32, u32, u32)>().prop_map(|(alive, complete, failed)| Tally {
        alive,
        complete,
        failed,
    });
    (member(), numbers, tally, state).prop_map(|(member, numbers, tally, state)| {
        let (sync, round, (stamp, held_us), loss, buffer, more) = numbers;
        Body::Report(Box::new(Report {
            member,
            sync,
            round,
            stamp,
            held_us,
            loss,
            buffer,
            more,
            tally,
            state,
        }))
    })
}

fn accept() -> impl Strategy<Value = Body> {
    let refuses = proptest::option::of(reason());
    let numbers = any::<(u32, u32, u64, u32, u32, u32, u64)>();
    let identity = any::<Option<u64>>();
    let name = proptest::option::of(vec(any::<u8>(), 0..=MAX_NAME));
    let of = (member(), refuses, numbers, identity, name);
    of.prop_map(|(member, refuses, numbers, identity, name)| {
        let (incarnation, buffer, held, weight, absent, hold_us, stamp) = numbers;
        Body::Accept(Accept {
            member,
            incarnation,
            refuses,
            buffer,
            held,
            weight,
            absent,
            hold_us,
            stamp,
            identity,
            name: name.map(Into::into),
        })
    })
}

fn data() -> impl Strategy<Value = Body> {
    let flags = (0..=DataFlags::ALL.0).prop_map(DataFlags);
    let payload = vec(any::<u8>(), 0..100);
    (any::<u16>(), flags, symbol(), payload).prop_map(|(round, flags, symbol, payload)| {
        Body::Data(Data {
            round,
            flags,
            symbol,
            payload: Payload::Bytes(payload.into()),
        })
    })
}

fn body() -> impl Strategy<Value = Body> {
    let eject = (member(), reason(), any::<u64>()).prop_map(|(member, reason, upto)| Eject {
        member,
        reason,
        upto,
    });
    let count = (member(), any::<(u16, u32)>(), symbol(), symbol()).prop_map(
        |(member, (round, received), start, stop)| Count {
            member,
            round,
            start,
            stop,
            received,
        },
    );
    prop_oneof![
        open(),
        accept(),
        data(),
        poll(),
        report(),
        count.prop_map(Body::Count),
        any::<u16>().prop_map(|round| Body::Release { round }),
        member().prop_map(|member| Body::Released { member }),
        eject.prop_map(Body::Eject),
        member().prop_map(|member| Body::Suspend { member }),
        (member(), reason()).prop_map(|(member, reason)| Body::Leave { member, reason }),
        reason().prop_map(|reason| Body::Abort { reason }),
    ]
}

fn encoded(packet: &Packet) -> Vec<u8> {
    let mut bytes = Vec::new();
    packet.encode_into(&mut bytes);
    bytes
}

/// With the right checksum, so that what follows is looked at.
fn mended(mut bytes: Vec<u8>) -> Bytes {
    if bytes.len() >= PACKET_HEADER {
        bytes[4..8].fill(0);
        let sum = crc32fast::hash(&bytes);
        bytes[4..8].copy_from_slice(&sum.to_be_bytes());
    }
    bytes.into()
}

proptest! {
    #[test]
    fn packets_come_back_as_they_were(session: u64, body in body()) {
        let packet = Packet { session, body };
        let bytes = encoded(&packet);
        prop_assert_eq!(bytes.len(), packet.encoded_len());
        prop_assert!(bytes.len() < 1_500);
        prop_assert_eq!(Packet::decode(&bytes.into()), Ok(packet));
    }

    #[test]
    fn damage_is_noticed(body in body(), at: proptest::sample::Index, bit in 0u8..8) {
        let mut bytes = encoded(&Packet { session: 7, body });
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        prop_assert!(Packet::decode(&bytes.into()).is_err());
    }

    #[test]
    fn any_bytes_give_a_packet_or_an_error(
        body in body(),
        changes in vec((any::<proptest::sample::Index>(), any::<u8>()), 0..6),
        cut: proptest::sample::Index,
        longer in vec(any::<u8>(), 0..3),
    ) {
        let mut bytes = encoded(&Packet { session: 7, body });
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        bytes.truncate(bytes.len() - cut.index(bytes.len()) % 5);
        bytes.extend(longer);
        let bytes = mended(bytes);
        if let Ok(packet) = Packet::decode(&bytes) {
            prop_assert_eq!(encoded(&packet), &bytes[..]);
        }
    }
}

#[test]
fn lists_are_bounded_and_in_order() {
    let mut spans = Spans::new();
    assert!(spans.push(3, 5) && spans.push(5, 6));
    assert!(!spans.push(5, 9) && !spans.push(9, 9) && !spans.push(10, 1 << 40));
    assert_eq!((spans.count(), spans.end(), spans.len()), (3, 6, 2));
    let (many, all) = Spans::of((0..200).map(|n| (2 * n, 2 * n + 1)));
    assert_eq!((many.len(), all), (MAX_LIST, false));
    let (needs, all) = Needs::of([(1, 4), (9, 1), (9, 2)]);
    assert_eq!((needs.len(), all), (2, false));
    assert_eq!([1, 2, 9].map(|block| needs.of_block(block)), [4, 0, 1]);
}

#[test]
fn control_with_full_lists_fits_into_the_least_mtu() {
    let full = Spans::of((0..MAX_LIST as u64).map(|n| (2 * n, 2 * n + 1))).0;
    let needs = Needs::of((0..MAX_LIST as u32).map(|n| (n, 1))).0;
    let poll = Body::Poll(Box::new(Poll {
        sync: 1,
        round: 1,
        stamp: 1,
        upto: 1,
        sent: 1,
        ask: Ask::Needy,
        spread_us: 1,
        group: 1,
        handshake: false,
        closing: false,
        separate: false,
        ejected: vec![MemberId(1); MAX_LIST],
        heard: needs,
    }));
    let levels = State::Levels {
        received: 1,
        delivered: 1,
        gaps: full,
    };
    let report = Body::Report(Box::new(Report::alone(MemberId(1), levels)));
    for body in [poll, report] {
        let octets = Packet { session: 1, body }.encoded_len();
        // IPv6 and UDP come before it.
        assert!(octets + 48 <= 1_280, "{octets}");
    }
}

#[test]
fn what_a_data_packet_looks_like() {
    let packet = Packet {
        session: 0x0102,
        body: Body::Data(Data {
            round: 1,
            flags: DataFlags::LAST,
            symbol: Symbol::Parity { block: 2, index: 3 },
            payload: Bytes::from_static(b"ab").into(),
        }),
    };
    let bytes = encoded(&packet);
    assert_eq!(bytes[..4], [PACKET_VERSION, 3, 0, 1]);
    assert_eq!(
        bytes[8..],
        [
            0, 0, 0, 0, 0, 0, 1, 2, 0, 1, 1, 0, 0, 0, 2, 0, 0, 0, 3, b'a', b'b'
        ]
    );
}

#[test]
fn seeds_of_the_corpus_are_packets_and_too_short_ones_are_not() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/group");
    let mut seeds = 0;
    for entry in std::fs::read_dir(folder).expect("the corpus") {
        let path = entry.expect("an entry").path();
        let name = path.display().to_string();
        let decoded = Packet::decode(&std::fs::read(&path).expect("a seed").into());
        assert_eq!(
            decoded.is_err(),
            name.ends_with("-short"),
            "{name}: {decoded:?}"
        );
        seeds += 1;
    }
    assert!(seeds >= 42, "{seeds} seeds");
}
