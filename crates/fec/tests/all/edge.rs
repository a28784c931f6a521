//! Two edges and a path between them that loses, reorders and duplicates.

use std::collections::BTreeMap;

use bytes::Bytes;
use layercast_core::{Span, Stream, Time};
use layercast_fec::model::residual;
use layercast_fec::{ConfigError, FecEdge, FecEdgeConfig, Header, Scheme};
use proptest::prelude::*;

const CONFIG: FecEdgeConfig = FecEdgeConfig {
    scheme: Scheme::XorShift,
    code: Some((6, 2)),
    mtu: 1_472,
    flush: Span::from_ms(20),
    interleave: 1,
    order: Span::from_ms(100),
    session: 7,
};
/// Octets in front of the FEC header.
const ENVELOPE: usize = 4;
/// Octets of the tunnel's number in front of a packet.
const NUMBER: usize = 4;

fn edge(config: FecEdgeConfig) -> FecEdge {
    FecEdge::new(config).expect("a configuration")
}

fn at(ms: u64) -> Time {
    Time::ZERO + Span::from_ms(ms)
}

/// A packet with its number and an individual length.
fn packet(number: u32, octets: usize) -> Bytes {
    let mut packet = number.to_be_bytes().to_vec();
    packet.resize(4 + octets, number as u8);
    packet.into()
}

fn number(packet: &Bytes) -> u32 {
    u32::from_be_bytes(packet[..4].try_into().expect("four octets"))
}

fn datagrams(edge: &mut FecEdge) -> Vec<Bytes> {
    let mut out = Vec::new();
    let next = || {
        edge.poll_transmit(&mut out)
            .then(|| Bytes::copy_from_slice(&out))
    };
    std::iter::from_fn(next).collect()
}

fn packets(edge: &mut FecEdge) -> Vec<Bytes> {
    std::iter::from_fn(|| edge.poll_packet()).collect()
}

/// The datagrams of these packets, one packet per millisecond.
fn sent(edge: &mut FecEdge, packets: &[Bytes]) -> Vec<Bytes> {
    let mut all = Vec::new();
    for (ms, packet) in packets.iter().enumerate() {
        edge.on_timeout(at(ms as u64));
        edge.send(at(ms as u64), packet);
        all.append(&mut datagrams(edge));
    }
    edge.on_timeout(at(packets.len() as u64 + 20));
    all.append(&mut datagrams(edge));
    all
}

/// Treatment of a datagram by the path: lost, number of copies, number of datagrams that overtake it.
type Fate = (bool, usize, u32);

proptest! {
    #[test]
    fn an_edge_returns_the_original_packets_once_each_and_repairs_blocks(
        lengths in prop::collection::vec(0_usize..1_400, 1..120),
        (n, m) in (1_u8..12, 0_u8..5),
        interleave in 1_u8..6,
        fates in prop::collection::vec((prop::bool::weighted(0.2), 1_usize..3, 0_u32..40), 720),
        scheme in prop::sample::select(Scheme::ALL.to_vec()),
    ) {
        let config = FecEdgeConfig { scheme, code: Some((n, m)), interleave, order: Span::from_secs(2), ..CONFIG };
        let (mut near, mut far) = (edge(config), edge(config));
        let given: Vec<Bytes> = (0..).zip(&lengths).map(|(it, &len)| packet(it, len)).collect();
        let all = sent(&mut near, &given);
        prop_assert_eq!(near.stats().sent.packets, given.len() as u64);
        // For each block its sources, and the number of lost packets.
        let mut blocks: BTreeMap<u32, (Vec<u32>, usize)> = BTreeMap::new();
        let mut arriving = Vec::new();
        for (place, datagram) in (0..).zip(&all) {
            let header = Header::decode(&datagram[ENVELOPE..]).expect("a header");
            let block = blocks.entry(header.block.0).or_default();
            if header.parity().is_none() {
                block.0.push(number(&datagram.slice(ENVELOPE + Header::SIZE + NUMBER..)));
            }
            let (lost, copies, late): Fate = fates[place as usize];
            block.1 += usize::from(lost);
            if !lost {
                arriving.extend((0..copies as u32).map(|copy| (place + late * (copy + 1), datagram)));
            }
        }
        arriving.sort_by_key(|it| it.0);
        for (ms, datagram) in arriving {
            far.on_timeout(at(ms.into()));
            far.receive(at(ms.into()), datagram);
        }
        far.on_timeout(at(10_000));
        let got: Vec<Bytes> = packets(&mut far);
        for pair in got.windows(2) {
            let (one, next) = (number(&pair[0]), number(&pair[1]));
            prop_assert!(one < next, "{next} came after {one}");
        }
        for it in &got {
            prop_assert_eq!(it, &given[number(it) as usize]);
        }
        for (sources, lost) in blocks.values() {
            // For RaptorQ any N + 2 packets suffice, except for one block in millions.
            let spare = usize::from(m).saturating_sub(if scheme == Scheme::RaptorQ { 2 } else { 0 });
            if *lost <= spare {
                let whole = sources.iter().all(|it| got.binary_search_by_key(it, number).is_ok());
                prop_assert!(whole, "{lost} lost of {sources:?} with {m} parities");
            }
        }
    }

    #[test]
    fn whatever_comes_is_counted_and_harms_nothing(
        noise in prop::collection::vec(
            (prop::sample::select(vec![0_u8, 0xe4, 0xe5, 0xe3]), prop::collection::vec(any::<u8>(), 0..60)), 0..60),
    ) {
        let mut far = edge(CONFIG);
        for (ms, (kind, rest)) in (0..).zip(noise) {
            far.receive(at(ms), &[&[kind][..], &rest].concat().into());
            far.on_timeout(at(ms));
        }
        far.on_timeout(at(1_000));
        datagrams(&mut far);
        packets(&mut far);
        let mut near = edge(CONFIG);
        let given: Vec<Bytes> = (0..6).map(|it| packet(it, 100)).collect();
        // A restart after all that.
        let all = sent(&mut near, &given);
        all[1..].iter().for_each(|it| far.receive(at(1_000), it));
        prop_assert_eq!(packets(&mut far).len(), 6);
    }
}

#[test]
fn at_three_percent_loss_as_much_stays_lost_as_the_formula_says() {
    let (mut near, mut far) = (edge(CONFIG), edge(CONFIG));
    let mut path = Stream::new(1, "path");
    let count = 1_200_000_u32;
    let lost = |edge: &FecEdge| edge.stats().received.lost;
    // Losses of a block are correlated: the variance is that of blocks.
    let (mut squares, mut before) = (0_u64, 0);
    let mut out = Vec::new();
    for it in 0..count {
        let now = at(it.into());
        near.send(now, &packet(it, 8));
        while near.poll_transmit(&mut out) {
            if !path.chance(0.03) {
                far.receive(now, &Bytes::copy_from_slice(&out));
            }
        }
        far.on_timeout(now);
        while far.poll_packet().is_some() {}
        squares += (lost(&far) - before).pow(2);
        before = lost(&far);
    }
    far.on_timeout(at(u64::from(count) + 3_000));
    packets(&mut far);
    let stats = far.stats().received;
    let stayed = u64::from(count) - stats.packets;
    let wanted = residual(6, 2, 0.03) * f64::from(count);
    let spread = (squares as f64).sqrt();
    let off = stayed as f64 - wanted;
    assert!(
        off.abs() < 3.0 * spread && spread < 0.1 * wanted,
        "{off} of {wanted}, {spread}"
    );
    // If a block lost its last packet and both parities, its last packet is unknown.
    let unseen = stayed - stats.lost;
    assert!(unseen < stayed / 50, "{unseen} of {stayed}");
    assert!((stats.raw_loss.unwrap() - 0.03).abs() < 5e-4, "{stats:?}");
    // The parities of a block follow its packets, at most five packets later.
    assert!(
        stats.added_ms > 1.0 && stats.most_added_ms <= 6.0,
        "{stats:?}"
    );
    let sent = near.stats().sent;
    assert_eq!(sent.parities, u64::from(count) / 3);
}

#[test]
fn a_lonely_packet_is_recovered_when_its_block_is_flushed() {
    let (mut near, mut far) = (edge(CONFIG), edge(CONFIG));
    near.send(at(0), &packet(1, 10));
    assert_eq!(datagrams(&mut near).len(), 1);
    assert_eq!(near.next_timeout(), Some(at(20)));
    near.on_timeout(at(20));
    let parities = datagrams(&mut near);
    assert_eq!(parities.len(), 2);
    far.receive(at(30), &parities[1]);
    assert_eq!(packets(&mut far), [packet(1, 10)]);
}

#[test]
fn long_packets_go_without_protection_longer_ones_not_at_all() {
    let (mut near, mut far) = (edge(CONFIG), edge(CONFIG));
    let most = CONFIG.mtu - ENVELOPE - NUMBER;
    // Envelope, header, length, and the shift of the second parity.
    let protected = most - Header::SIZE - 2 - 5;
    for octets in [protected, protected + 1, most, most + 1, 65_000] {
        near.send(at(0), &packet(0, octets - 4));
    }
    near.on_timeout(at(20));
    for datagram in datagrams(&mut near) {
        assert!(datagram.len() <= CONFIG.mtu);
        far.receive(at(20), &datagram);
    }
    let lengths: Vec<usize> = packets(&mut far).iter().map(Bytes::len).collect();
    assert_eq!(lengths, [protected, protected + 1, most]);
    let sent = near.stats().sent;
    assert_eq!((sent.packets, sent.unprotected, sent.refused), (1, 2, 2));
    let refused = FecEdge::new(FecEdgeConfig { mtu: 15, ..CONFIG }).unwrap_err();
    assert_eq!(
        refused,
        ConfigError::Mtu {
            mtu: 15,
            needed: 19
        }
    );
}

#[test]
fn a_peer_that_begins_anew_is_heard_from_its_second_packet_on_and_loses_none() {
    let mut far = edge(CONFIG);
    let given: Vec<Bytes> = (0..60).map(|it| packet(it, 10)).collect();
    let first = sent(&mut edge(CONFIG), &given);
    let anew = FecEdgeConfig {
        session: 8,
        ..CONFIG
    };
    let second = sent(&mut edge(anew), &given);
    first.iter().for_each(|it| far.receive(at(0), it));
    // Its first packet is lost, and one of the former session is late.
    second[1..].iter().for_each(|it| far.receive(at(200), it));
    far.receive(at(201), &first[0]);
    far.on_timeout(at(310));
    assert_eq!(packets(&mut far).len(), 120);
    let stats = far.stats().received;
    assert_eq!(
        (stats.restarts, stats.recovered, stats.malformed),
        (1, 1, 1)
    );
}

#[test]
fn forged_sessions_take_nothing_from_a_peer_that_sends() {
    let mut far = edge(CONFIG);
    let given: Vec<Bytes> = (0..600).map(|it| packet(it, 10)).collect();
    let all = sent(&mut edge(CONFIG), &given);
    // Between any two datagrams come two of an invented session, each time another, or the same one.
    for (ms, datagram) in (0..).zip(&all) {
        far.receive(at(ms), datagram);
        for session in [ms as u8, 0xee] {
            let forged: Bytes = vec![0xe5, session, 1, 1, 0, 0, 0, 0, b'x'].into();
            far.receive(at(ms), &forged);
            far.receive(at(ms), &forged);
        }
        far.on_timeout(at(ms));
    }
    assert_eq!(packets(&mut far), given);
    assert_eq!(far.stats().received.restarts, 0);
}

#[test]
fn an_overloaded_edge_bypasses_decoding_and_resumes_later() {
    let (mut near, mut far) = (edge(CONFIG), edge(CONFIG));
    let given: Vec<Bytes> = (0..60).map(|it| packet(it, 10)).collect();
    let all = sent(&mut near, &given);
    // Ten blocks of eight datagrams; the second of each is lost.
    for (place, datagram) in all.iter().enumerate() {
        match place {
            20 => far.set_bypass(true),
            44 => far.set_bypass(false),
            _ => {}
        }
        if place % 8 != 1 {
            far.receive(at(0), datagram);
        }
    }
    far.on_timeout(at(100));
    let mut numbers: Vec<u32> = packets(&mut far).iter().map(number).collect();
    numbers.sort_unstable();
    // From the third block on nothing is recovered; the sixth is not decoded completely either, because some of it
    // was passed on undecoded.
    let lost: Vec<u32> = (0..60)
        .filter(|it| numbers.binary_search(it).is_err())
        .collect();
    assert_eq!(lost, [13, 19, 25, 31]);
    numbers.dedup();
    assert_eq!(numbers.len(), 56);
    let stats = far.stats().received;
    assert_eq!((stats.recovered, stats.bypassed), (6, 25));
}

/// The code after `seconds` of a thousand packets each, with this loss both ways.
fn followed(loss: f64, seconds: u64) -> ((u8, u8), FecEdge) {
    let auto = FecEdgeConfig {
        code: None,
        ..CONFIG
    };
    let (mut near, mut far) = (edge(auto), edge(auto));
    let mut path = Stream::new(1, "path");
    for ms in 0..1_000 * seconds {
        near.on_timeout(at(ms));
        near.send(at(ms), &packet(ms as u32, 8));
        for datagram in datagrams(&mut near) {
            if !path.chance(loss) {
                far.receive(at(ms), &datagram);
            }
        }
        far.on_timeout(at(ms));
        packets(&mut far);
        for report in datagrams(&mut far) {
            if !path.chance(loss) {
                near.receive(at(ms), &report);
            }
        }
    }
    let reported = near.stats().sent.peer_loss.expect("reports");
    assert!((reported - loss).abs() < 0.01, "{reported}");
    (near.stats().sent.code, far)
}

#[test]
fn the_code_follows_what_the_peer_reports() {
    let (quiet, _) = followed(0.0, 30);
    assert_eq!(quiet, (19, 1));
    let ((n, m), far) = followed(0.03, 60);
    let left = residual(n.into(), m.into(), 0.03);
    assert!(m > 1 && left < 1.1e-3, "{n}+{m}");
    let stats = far.stats().received;
    assert!(stats.residual_loss.unwrap() < 2e-3, "{stats:?}");
}

/// The packets that an end delivers, with the time of each. One packet is sent each millisecond; `lost` selects the
/// datagrams that the path loses, by the count of packets so far and the number of the parity.
fn delivered(
    config: FecEdgeConfig,
    given: &[Bytes],
    lost: impl Fn(u32, Option<usize>) -> bool,
) -> (Vec<(u64, Bytes)>, FecEdge) {
    let (mut near, mut far) = (edge(config), edge(config));
    let (mut got, mut sent) = (Vec::new(), 0);
    for ms in 0..given.len() as u64 + 300 {
        near.on_timeout(at(ms));
        if let Some(packet) = given.get(ms as usize) {
            near.send(at(ms), packet);
        }
        for datagram in datagrams(&mut near) {
            let parity = match datagram[0] {
                0xe4 => Header::decode(&datagram[ENVELOPE..])
                    .expect("a header")
                    .parity(),
                _ => None,
            };
            if !lost(sent, parity) {
                far.receive(at(ms), &datagram);
            }
            sent += u32::from(parity.is_none());
        }
        if far.next_timeout().is_some_and(|it| it <= at(ms)) {
            far.on_timeout(at(ms));
        }
        got.extend(packets(&mut far).into_iter().map(|it| (ms, it)));
    }
    (got, far)
}

#[test]
fn packets_come_out_in_the_order_in_which_they_went_in() {
    // Every ninth packet is too long for parities.
    let octets = |it: u32| if it % 9 == 8 { CONFIG.mtu - 20 } else { 100 };
    let given: Vec<Bytes> = (0..300).map(|it| packet(it, octets(it) - 4)).collect();
    for interleave in [1, 2, 5] {
        let config = FecEdgeConfig {
            interleave,
            ..CONFIG
        };
        // The first datagram is among them.
        let one_of_block = |it: u32, parity: Option<usize>| {
            parity.is_none() && it.is_multiple_of(6 * u32::from(interleave)) && it % 9 != 8
        };
        let (got, far) = delivered(config, &given, one_of_block);
        let numbers: Vec<u32> = got.iter().map(|it| number(&it.1)).collect();
        let wanted: Vec<u32> = (0..300).collect();
        assert_eq!(numbers, wanted, "interleaved {interleave} times");
        assert!(far.stats().received.recovered > 9, "{:?}", far.stats());
        assert_eq!(far.stats().received.out_of_order, 0);
    }
}

/// A block of `n` packets of which `m` or fewer have passed before the far end starts is whole, whatever the datagram is that
/// comes first.
#[test]
fn an_end_that_starts_anywhere_in_a_block_recovers_what_the_code_allows() {
    let given: Vec<Bytes> = (0..300).map(|it| packet(it, 100)).collect();
    for interleave in [1, 2, 4] {
        let config = FecEdgeConfig {
            interleave,
            flush: Span::from_ms(50),
            ..CONFIG
        };
        for missed in 0..6 * 2 * u32::from(interleave) {
            let (got, far) = delivered(config, &given, |it, _| it < missed);
            let round = 6 * u32::from(interleave);
            let (whole, into) = (missed / round * round, missed % round);
            // Each block of the round has passed by as much as there are packets of its lane.
            let is_recovered = |it: u32| {
                let lane = it % u32::from(interleave);
                let passed = (into + u32::from(interleave) - 1 - lane) / u32::from(interleave);
                it >= missed || it >= whole && passed <= 2
            };
            let wanted: Vec<u32> = (0..300).filter(|&it| is_recovered(it)).collect();
            let numbers: Vec<u32> = got.iter().map(|it| number(&it.1)).collect();
            assert_eq!(
                numbers, wanted,
                "{missed} missed, interleaved {interleave} times"
            );
            let received = far.stats().received;
            assert_eq!((received.late, received.duplicate), (0, 0), "{received:?}");
        }
    }
}

#[test]
fn a_packet_waits_no_longer_than_the_configured_time_for_one_before_it() {
    let given: Vec<Bytes> = (0..200).map(|it| packet(it, 100)).collect();
    // Two packets of a block and a parity: not to be recovered.
    let beyond = |it: u32, parity: Option<usize>| match parity {
        None => matches!(it, 26 | 27),
        Some(parity) => parity == 0,
    };
    for wait in [0, 7, 60] {
        let config = FecEdgeConfig {
            order: Span::from_ms(wait),
            ..CONFIG
        };
        let (got, _) = delivered(config, &given, beyond);
        let numbers: Vec<u32> = got.iter().map(|it| number(&it.1)).collect();
        assert!(
            numbers
                .iter()
                .copied()
                .eq((0..200).filter(|it| !matches!(it, 26 | 27)))
        );
        // The one behind the gap waits as long as configured, those after it until then.
        for (ms, it) in got {
            let sent = u64::from(number(&it));
            let wanted = if (28..=28 + wait).contains(&sent) {
                28 + wait
            } else {
                sent
            };
            assert_eq!(ms, wanted, "{sent} with {wait} ms");
        }
    }
}

#[test]
fn a_packet_that_comes_too_late_for_its_place_is_delivered_after_later_ones_and_once() {
    let config = FecEdgeConfig {
        order: Span::from_ms(10),
        code: Some((2, 0)),
        ..CONFIG
    };
    let mut far = edge(config);
    let given: Vec<Bytes> = (0..6).map(|it| packet(it, CONFIG.mtu - 14)).collect();
    // All are unprotected.
    let all = sent(&mut edge(CONFIG), &given);
    for (ms, place) in [
        (0, 0),
        (1, 2),
        (2, 2),
        (3, 3),
        (11, 4),
        (12, 1),
        (13, 1),
        (14, 5),
    ] {
        far.on_timeout(at(ms));
        far.receive(at(ms), &all[place]);
    }
    let numbers: Vec<u32> = packets(&mut far).iter().map(number).collect();
    assert_eq!(numbers, [0, 2, 3, 4, 1, 5]);
    let stats = far.stats().received;
    assert_eq!((stats.out_of_order, stats.duplicate), (1, 2));
}

#[test]
fn waiting_packets_are_bounded_by_their_number_and_their_octets() {
    for octets in [0_usize, 1_300] {
        let config = FecEdgeConfig {
            order: Span::from_secs(3_600),
            code: Some((1, 0)),
            ..CONFIG
        };
        let (mut near, mut far) = (edge(config), edge(config));
        let (mut came, mut out) = (0, Vec::new());
        for it in 0..40_000 {
            near.send(at(0), &packet(it, octets));
            while near.poll_transmit(&mut out) {
                // The path loses one of ten thousand.
                if it % 10_000 != 5 {
                    far.receive(at(0), &Bytes::copy_from_slice(&out));
                }
            }
            for packet in packets(&mut far) {
                came += u32::from(number(&packet) % 10_000 == 5) + 1;
            }
            let waiting = (it + 1 - came) as usize;
            assert!(waiting <= 8_200, "{waiting} wait");
            assert!(waiting * octets <= 8 << 20, "{waiting} of {octets} wait");
        }
        assert!(came > 30_000, "{came}");
        assert_eq!(far.stats().received.malformed, 0);
    }
}

#[test]
fn a_number_far_away_disturbs_nothing_and_a_long_outage_ends() {
    let mut near = edge(CONFIG);
    let mut far = edge(CONFIG);
    let given: Vec<Bytes> = (0..40_000).map(|it| packet(it, 10)).collect();
    let all: Vec<Bytes> = sent(&mut near, &given);
    let forged: Bytes = [&[0xe5, 0, 0, 7, 0x40, 0, 0, 0][..], &packet(7, 7)]
        .concat()
        .into();
    all[..80].iter().for_each(|it| far.receive(at(0), it));
    far.receive(at(0), &forged);
    far.receive(at(0), &forged);
    all[80..160].iter().for_each(|it| far.receive(at(0), it));
    assert_eq!(packets(&mut far), given[..120]);
    assert_eq!(far.stats().received.malformed, 1);
    // Three quarters of the packets are lost at a time, more than wait.
    all[40_000..].iter().for_each(|it| far.receive(at(1), it));
    far.on_timeout(at(200));
    let got = packets(&mut far);
    let numbers: Vec<u32> = got.iter().map(number).collect();
    assert!(numbers.into_iter().eq(30_000..40_000));
}
