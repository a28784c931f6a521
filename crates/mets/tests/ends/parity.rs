//! Parities of the base layer: what they recover, what they cost, and that they do no harm.

use std::cell::RefCell;

use crate::common::*;
use bytes::{Bytes, BytesMut};
use layercast_core::{FrameRate, Layer, PerLayer, Serial, Span, Stream};
use layercast_fec::{Header, Scheme, Shape};
use layercast_mets::{
    AppFrame, ParityConfig, Redundancy, SinkInput, Source, SourceConfig, SourceError,
};
use layercast_wire::{
    Carriage, Flags, FrameType, LinkPdu, MetsHeader, MetsPacket, ParityTable, Passing, Payload,
    Run, Signal, Sound, Waited,
};
use proptest::prelude::*;

fn parities(text: &str) -> Option<ParityConfig> {
    Some(text.parse().unwrap())
}

fn protected(text: &str, carriage: Carriage) -> SourceConfig {
    let mut config = SourceConfig {
        parities: parities(text),
        ..source_config(carriage, 300)
    };
    if carriage == Carriage::Cells {
        // A frame in one packet has nothing to share parities with.
        config.mtu_payload = 1_500;
    }
    config
}

fn world<'a>(text: &str, gops: usize) -> World<'a> {
    let source = protected(text, Carriage::Datagrams);
    World::new(source, sink_config(Carriage::Datagrams), gops)
}

/// Loses media and parities with this probability.
fn lossy<'a>(seed: u64, loss: f64) -> Fate<'a> {
    let mut draw = Stream::new(seed, "loss");
    Box::new(move |_, pdu| match pdu {
        LinkPdu::Adapter(_) => vec![Span::from_ms(5)],
        _ if draw.unit() < loss => vec![],
        _ => vec![Span::from_ms(5)],
    })
}

fn is_parity(pdu: &LinkPdu) -> bool {
    matches!(pdu, LinkPdu::Mets(packet) if packet.header.kind == FrameType::PARITY)
}

fn is_base(pdu: &LinkPdu) -> bool {
    matches!(pdu, LinkPdu::Mets(packet) if packet.header.kind == FrameType::BL)
}

fn check_content(world: &World) {
    for frame in world.played() {
        let expected = content(frame.seq.0 as usize, frame.payload.len());
        assert_eq!(frame.payload, Bytes::from(expected).into());
    }
}

#[test]
fn configurations_are_read_as_they_are_written() {
    for text in ["6+2", "auto", "reed-solomon:20+4", "raptorq:auto", "254+1"] {
        let config: ParityConfig = text.parse().unwrap();
        assert_eq!(config.to_string(), text);
    }
    let config: ParityConfig = "7+1".parse().unwrap();
    let fixed = Redundancy::Fixed { n: 7, m: 1 };
    assert_eq!(
        (config.scheme, config.redundancy),
        (Scheme::XorShift, fixed)
    );
    for text in [
        "",
        "6",
        "0+1",
        "6+0",
        "200+56",
        "6+2+1",
        "turbo:6+2",
        "256+1",
        "Auto",
    ] {
        assert!(text.parse::<ParityConfig>().is_err(), "{text}");
    }
}

#[test]
fn any_two_of_each_block_may_be_lost() {
    for (scheme, name) in [
        ("6+2", "xor"),
        ("reed-solomon:6+2", "rs"),
        ("raptorq:6+4", "rq"),
    ] {
        let mut world = world(scheme, 10);
        let mut draw = Stream::new(4, name);
        // Packets of each block on their way: eight, but the rest of a frame has fewer.
        let (mut seen, mut frame, mut lost) = (0, None, [0, 0]);
        world.down = Box::new(move |_, pdu| {
            let LinkPdu::Mets(packet) = pdu else {
                return vec![Span::from_ms(5)];
            };
            let base = is_base(pdu);
            if base && frame.replace(packet.header.seq) != Some(packet.header.seq) {
                seen = 0;
                lost = [draw.below(6), draw.below(6)];
            }
            let block_of = seen / 6;
            seen += u64::from(base);
            let dies = base && lost.contains(&(seen - 1 - (seen - 1) / 6 * 6)) && block_of < 2;
            if dies { vec![] } else { vec![Span::from_ms(5)] }
        });
        world.run_until(ms(8_000));
        let stats = world.sink.stats();
        assert_eq!((stats.played.base, stats.lost.base), (10, 0), "{scheme}");
        let repair = stats.repair.unwrap();
        assert!(repair.recovered >= 20, "{scheme}: {repair:?}");
        assert_eq!(
            (repair.unrecoverable, repair.malformed, repair.corrupt),
            (0, 0, 0)
        );
        check_content(&world);
    }
}

#[test]
fn at_three_per_cent_few_base_frames_stay_lost() {
    let lost = |text: Option<&str>| {
        let source = SourceConfig {
            parities: text.and_then(parities),
            ..source_config(Carriage::Datagrams, 300)
        };
        let mut world = World::new(source, sink_config(Carriage::Datagrams), 600);
        world.down = lossy(7, 0.03);
        world.run_until(ms(310_000));
        check_content(&world);
        let stats = world.sink.stats();
        assert_eq!(stats.late.base, 0);
        assert_eq!(stats.played.base + stats.lost.base, 600);
        stats.lost.base
    };
    // A frame of 10 or 11 packets: 26 and 28 % are hit.
    let (off, one, two) = (lost(None), lost(Some("7+1")), lost(Some("6+2")));
    assert!((130..200).contains(&off), "{off}");
    // After decoding 0.5 % (7+1) and 0.06 % (6+2) of the packets are lost, by 2.3.
    assert!((5..40).contains(&one), "{one}");
    assert!(two <= 7, "{two}");
}

#[test]
fn cells_carry_parities_too() {
    let source = protected("6+2", Carriage::Cells);
    let mut world = World::new(source, sink_config(Carriage::Cells), 200);
    // A lost cell takes its packet of 32 cells along.
    world.down = lossy(1, 0.000_5);
    world.run_until(ms(105_000));
    check_content(&world);
    let stats = world.sink.stats();
    let repair = stats.repair.unwrap();
    assert!(repair.recovered > 10, "{repair:?}");
    assert_eq!((stats.lost.base, repair.malformed), (0, 0));
    assert!(stats.lost.e2 > 0, "the loss was real");
}

#[test]
fn sealed_media_are_recovered_sealed() {
    let source = SourceConfig {
        parities: parities("6+2"),
        ..sealed_source(Carriage::Datagrams, false)
    };
    let mut world = World::new(source, sealed_sink(Carriage::Datagrams, None), 100);
    world.down = lossy(3, 0.03);
    world.run_until(ms(55_000));
    check_content(&world);
    let stats = world.sink.stats();
    assert!(stats.repair.unwrap().recovered > 20);
    assert_eq!(
        (stats.dropped.forged, stats.played.base + stats.lost.base),
        (0, 100)
    );
    assert!(stats.lost.base <= 2, "{}", stats.lost.base);
}

#[test]
fn whoever_knows_nothing_of_parities_loses_nothing_by_them() {
    let mut world = world("6+2", 10);
    world.cut = true;
    let mut flow = world.source.flow().clone();
    flow.parities = None;
    world.run_until(ms(0));
    world.cut = false;
    world.input(SinkInput::Signal(Signal::Advertise { flow: flow.into() }));
    world.run_until(ms(8_000));
    let stats = world.sink.stats();
    assert_eq!((stats.played.base, stats.lost.base), (10, 0));
    assert_eq!(stats.repair, None);
    let sent = world.source.stats().parities.unwrap().parities;
    assert_eq!(stats.dropped.unknown, sent);
}

#[test]
fn what_parities_take_is_reserved_and_not_much_more() {
    for text in ["6+2", "7+1", "20+4", "reed-solomon:20+4", "auto"] {
        let sent = RefCell::new(0u64);
        let mut world = world(text, 60);
        world.down = Box::new(|_, pdu| {
            if is_base(pdu) || is_parity(pdu) {
                *sent.borrow_mut() += u64::from(pdu.cells());
            }
            vec![Span::from_ms(5)]
        });
        let reserved = world.source.flow().spec.layers.base.mean.0;
        world.run_until(ms(32_000));
        drop(world);
        let rate = *sent.borrow() as f64 / 30.0;
        assert!(rate <= f64::from(reserved), "{text}: {rate} of {reserved}");
        // Auto reserves what it may come to.
        let spare = if text == "auto" { 2.0 } else { 1.5 };
        assert!(
            rate * spare > f64::from(reserved),
            "{text}: {rate} of {reserved}"
        );
    }
}

#[test]
fn auto_follows_the_loss() {
    let shape = |world: &World| {
        let stats = world.source.stats().parities.unwrap();
        (stats.n, stats.m)
    };
    let mut world = world("auto", 400);
    world.run_until(ms(30_000));
    let (n, m) = shape(&world);
    assert_eq!(m, 1, "without loss, as few as there can be");
    assert!(n >= 11, "{n}");
    world.down = lossy(5, 0.05);
    world.run_until(ms(90_000));
    let before = world.sink.stats();
    let (n, m) = shape(&world);
    assert!(m >= 3 && n <= 12, "{n}+{m}");
    world.run_until(ms(190_000));
    let after = world.sink.stats();
    let lost = after.lost.base - before.lost.base;
    assert!(lost <= 2, "{lost} of 200 frames");
    world.down = Box::new(|_, _| vec![Span::from_ms(5)]);
    world.run_until(ms(205_000));
    // The loss that is smoothed out takes its time to be forgotten, but goes.
    assert!(shape(&world).1 <= m);
}

#[test]
fn small_frames_share_blocks_and_no_parity_comes_too_late() {
    let mut config = protected("6+2", Carriage::Datagrams);
    let spec = &mut config.flow.spec;
    spec.frame_rate = FrameRate { num: 50, den: 1 };
    (spec.gop_n, spec.gop_m) = (1, 1);
    spec.layers = PerLayer {
        base: spec.layers.base,
        ..PerLayer::default()
    };
    let mut world = World::new(config, sink_config(Carriage::Datagrams), 0);
    let longest = RefCell::new((Span::ZERO, 0));
    let first = RefCell::new(None);
    world.down = Box::new(|now, pdu| {
        if is_parity(pdu) {
            let since = first.borrow_mut().take();
            let mut longest = longest.borrow_mut();
            let waited = since.map_or(Span::ZERO, |since| now.since(since));
            *longest = (longest.0.max(waited), longest.1 + 1);
        } else if is_base(pdu) {
            first.borrow_mut().get_or_insert(now);
        }
        vec![Span::from_ms(5)]
    });
    world.media = Box::new((0..100).map(|n| AppFrame {
        layer: Layer::Base,
        gop_start: true,
        sound: false,
        time: None,
        payload: Payload::Zeros(100 + n),
    }));
    world.run_until(ms(2_400));
    drop(world);
    let (longest, count) = *longest.borrow();
    // Of a bound of 300 ms 100 are spent on waiting; a shaper tick comes on top.
    assert!(longest <= Span::from_ms(110), "{longest:?}");
    // Six frames of 20 ms take 100 ms, so blocks fill just about or end with five.
    assert!((30..=42).contains(&count), "{count}");
}

#[test]
fn packets_out_of_order_and_twice_are_repaired_all_the_same() {
    let mut world = world("6+2", 100);
    let mut draw = Stream::new(9, "order");
    world.down = Box::new(move |_, pdu| match pdu {
        LinkPdu::Adapter(_) => vec![Span::from_ms(5)],
        _ => match draw.below(100) {
            0..3 => vec![],
            3..13 => vec![Span::from_ms(5 + draw.below(20))],
            13..23 => vec![Span::from_ms(5), Span::from_ms(5 + draw.below(40))],
            _ => vec![Span::from_ms(5)],
        },
    });
    world.run_until(ms(55_000));
    check_content(&world);
    let stats = world.sink.stats();
    assert!(stats.lost.base <= 2, "{}", stats.lost.base);
    let repair = stats.repair.unwrap();
    assert_eq!((repair.malformed, repair.corrupt), (0, 0));
    assert!(repair.packets.received <= repair.packets.expected);
}

#[test]
fn what_does_not_fit_is_refused_by_name() {
    let field = |change: &dyn Fn(&mut SourceConfig)| {
        let mut config = protected("6+2", Carriage::Datagrams);
        change(&mut config);
        match Source::new(config).map(drop) {
            Err(SourceError::Field { field, .. }) => field,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(field(&|it| it.mtu_payload = 60), "parities");
    assert_eq!(
        field(&|it| {
            it.carriage = Carriage::Cells;
            it.aal5_mark = layercast_wire::Mark::First;
            it.mtu_payload = layercast_wire::MAX_CELL_PAYLOAD as u32;
        }),
        "parities"
    );
}

/// A parity that anybody could have made.
fn forged() -> impl Strategy<Value = LinkPdu> {
    let run = (0u32..200, 0u32..12, 1u8..8);
    let runs = proptest::collection::vec(run, 1..4);
    let shape = (
        any::<u8>(),
        any::<u8>(),
        any::<u8>(),
        0u32..40,
        any::<bool>(),
    );
    (runs, shape, 0usize..1_300).prop_map(|(runs, (index, m, scheme, block, agrees), len)| {
        let pitch = 1_083;
        let runs: Vec<Run> = runs
            .into_iter()
            .map(|(seq, at, count)| Run {
                seq: Serial(seq),
                offset: at * u32::from(pitch),
                count,
            })
            .collect();
        let n = runs.iter().map(|it| it.count).sum::<u8>();
        let mut out = BytesMut::new();
        ParityTable::put(pitch, &runs, &mut out);
        let header = Header {
            block: Serial(block),
            index: if agrees { n + index % 2 } else { index },
            shape: Some(Shape {
                n: if agrees { n } else { index },
                m: if agrees { 2 } else { m },
                scheme: Scheme::from_number(scheme % 5),
            }),
        };
        out.extend_from_slice(&header.encode());
        out.extend((0..len).map(|i| (i * 7) as u8));
        LinkPdu::Mets(MetsPacket {
            header: MetsHeader {
                kind: FrameType::PARITY,
                flags: Flags::FIRST | Flags::LAST,
                flow: layercast_core::FlowId(7),
                seq: Serial(block * 3),
                timestamp_us: 0,
                e1_count: 0,
                e2_count: 0,
                alf_len: out.len() as u32,
                offset: 0,
                waited: Waited::default(),
                sound: Sound::default(),
                passing: Passing::default(),
            },
            payload: out.freeze().into(),
            congestion: false,
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn forged_parities_spoil_no_sealed_frame(
        pdus in proptest::collection::vec((0usize..400, forged()), 0..200),
    ) {
        let source = SourceConfig {
            parities: parities("6+2"),
            ..sealed_source(Carriage::Datagrams, false)
        };
        let mut world = World::new(source, sealed_sink(Carriage::Datagrams, None), 8);
        let mut packets = 0;
        for (_, pdu) in pdus {
            let now = world.now;
            world.input(SinkInput::Pdu(pdu));
            world.run_until(now + Span::from_ms(25));
            packets += 1;
        }
        world.run_until(ms(9_000));
        check_content(&world);
        let stats = world.sink.stats();
        prop_assert_eq!((stats.played.base, stats.lost.base), (8, 0));
        let repair = stats.repair.unwrap();
        prop_assert!(repair.parities + repair.unused + repair.malformed >= packets);
    }
}
