//! What a sink plays of what a source sends, over good and bad pipes.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use crate::common::*;
use bytes::Bytes;
use layercast_core::{Layer, Level, Machine, Off, PerLayer, Span, Stream, Time};
use layercast_mets::{
    AppFrame, DropStats, FlowLog, Shaping, SinkConfig, SinkEvent, SinkInput, SinkStats, Source,
    SourceConfig, SourceEvent, SubmitError,
};
use layercast_wire::{ADAPTER_VCI, Carriage, ClockReading, LinkPdu, Mark, Payload, Signal};

const CARRIAGES: [Carriage; 2] = [Carriage::Cells, Carriage::Datagrams];

fn is_data(pdu: &LinkPdu) -> bool {
    match pdu {
        LinkPdu::Cell(cell) => cell.vci != ADAPTER_VCI,
        LinkPdu::Mets(_) => true,
        LinkPdu::Adapter(_) => false,
    }
}

#[test]
fn every_frame_arrives_whole_and_is_played_at_its_deadline() {
    for carriage in CARRIAGES {
        let mut world = World::perfect(carriage, 40);
        world.run_until(ms(30_000));
        let stats = world.sink.stats();
        assert_eq!(stats.lost, PerLayer::default(), "{carriage:?}");
        assert_eq!(stats.late, PerLayer::default());
        let sent = world.source.stats().sent;
        assert_eq!(stats.played, sent);
        assert_eq!(sent.base, 40);
        assert!(sent.e2 > 250, "{sent:?}");
        for (at, event) in &world.events {
            let SinkEvent::Frame(frame) = event else {
                continue;
            };
            assert_eq!(*at, frame.deadline);
            // delay_max is the playout delay, to the microsecond of the timestamp.
            let due = frame.deadline.since(frame.emitted);
            assert_eq!(due, Span::from_ms(300));
            let bytes = frame.payload.len();
            let expected = content(frame.seq.0 as usize, bytes);
            assert_eq!(frame.payload, bytes::Bytes::from(expected).into());
        }
    }
}

/// The answer to the join takes 60 ms, media take 5 ms and begin in between.
fn overtaken(source: SourceConfig, sink: SinkConfig) -> SinkStats {
    let start = ms(70);
    let mut world = World::new(SourceConfig { start, ..source }, sink, 2);
    world.signal_delay = Span::from_ms(60);
    world.run_until(ms(60_000));
    let stats = world.sink.stats();
    assert_eq!(stats.played, world.source.stats().sent, "{stats:#?}");
    assert_eq!(stats.played.base, 2);
    assert_eq!((stats.before_start, stats.lost), (0, PerLayer::default()));
    assert_eq!(world.played().next().unwrap().seq.0, 0);
    stats
}

#[test]
fn media_that_overtake_the_answer_to_a_join_wait_for_it() {
    for carriage in CARRIAGES {
        let stats = overtaken(source_config(carriage, 300), sink_config(carriage));
        assert_eq!(stats.dropped, DropStats::default(), "{carriage:?}");
    }
}

#[test]
fn what_waits_for_an_answer_is_bounded_and_the_rest_counted() {
    let mut world = World::perfect(Carriage::Datagrams, 2);
    world.cut = true;
    world.advertise();
    let packet = |number: u32| {
        let LinkPdu::Mets(mut packet) = any_packet() else {
            unreachable!()
        };
        packet.header.seq.0 = number;
        LinkPdu::Mets(packet)
    };
    for number in 0..5_000 {
        world.input(SinkInput::Pdu(packet(number)));
    }
    assert_eq!(world.sink.stats().dropped.unknown, 5_000 - 4_096);
    let refusal = layercast_wire::Refusal {
        node: "rook".into(),
        resource: layercast_wire::Resource::Link,
        needed: 2,
        available: 1,
        measured: None,
    };
    let flow = world.source.flow().id;
    world.input(SinkInput::Signal(Signal::JoinNak { flow, refusal }));
    assert_eq!(world.sink.stats().dropped.unknown, 5_000);
}

#[test]
fn the_first_cell_may_be_the_marked_one() {
    let mut source = source_config(Carriage::Cells, 300);
    source.aal5_mark = Mark::First;
    let mut sink = sink_config(Carriage::Cells);
    sink.aal5_mark = Mark::First;
    let mut world = World::new(source, sink, 10);
    world.run_until(ms(10_000));
    assert_eq!(world.sink.stats().played, world.source.stats().sent);
}

#[test]
fn one_lost_cell_loses_exactly_its_frame() {
    for layer in Layer::ALL {
        let (armed, dropped) = (Cell::new(false), Cell::new(false));
        let mut world = World::perfect(Carriage::Cells, 20);
        // The second cell of the first frame of the layer after 5 s.
        world.down = Box::new(|now, pdu| {
            let LinkPdu::Cell(cell) = pdu else { panic!() };
            let first = cell.payload[..2] == [0, layer as u8 + 1] && cell.payload[3] == 1;
            if is_data(pdu) && armed.get() && !dropped.replace(true) {
                return vec![];
            }
            if now > ms(5_000) && first && !dropped.get() {
                armed.set(true);
            }
            vec![Span::from_ms(5)]
        });
        world.run_until(ms(20_000));
        let stats = world.sink.stats();
        let mut expected = PerLayer::default();
        expected[layer] = 1;
        assert_eq!(stats.lost, expected);
        assert_eq!(stats.dropped.length + stats.dropped.crc, 1);
        let sent = world.source.stats().sent;
        let total = |of: PerLayer<u64>| of.base + of.e1 + of.e2;
        assert_eq!(total(stats.played) + 1, total(sent));
    }
}

#[test]
fn losses_and_layers_withheld_are_told_apart() {
    // The source follows RES of changing height; the pipe loses 3 % of the enhancement packets.
    let mut random = Stream::new(5, "loss");
    let lost = RefCell::new(BTreeSet::new());
    let mut world = World::perfect(Carriage::Datagrams, 60);
    world.down = Box::new(|_, pdu| {
        if let LinkPdu::Mets(packet) = pdu {
            let layer = packet.header.kind.layer().unwrap();
            if layer != Layer::Base && random.chance(0.03) {
                lost.borrow_mut().insert((packet.header.seq.0, layer));
                return vec![];
            }
        }
        vec![Span::from_ms(5)]
    });
    // RES of the sink itself does not arrive.
    world.up = Box::new(|_, _| vec![]);
    let mut wishes = Stream::new(6, "wishes");
    for step in 0..60 {
        world.run_until(ms(u64::from(step) * 500 + 100));
        world.send_to_source(res(step, Level::new(wishes.below(3) as u8).unwrap()));
    }
    world.run_until(ms(40_000));
    let (stats, source) = (world.sink.stats(), world.source.stats());
    for layer in Layer::ALL {
        let count = lost
            .borrow()
            .iter()
            .filter(|frame| frame.1 == layer)
            .count() as u64;
        assert_eq!(stats.lost[layer], count, "{layer}");
        assert_eq!(stats.played[layer] + count, source.sent[layer], "{layer}");
        assert_eq!(stats.withheld[layer], source.masked[layer], "{layer}");
    }
    assert!(stats.lost.e2 > 10 && stats.withheld.e2 > 50, "{stats:?}");
    let levels: BTreeSet<_> = world.levels().into_iter().map(|(_, level)| level).collect();
    assert_eq!(levels.len(), 3);
}

#[test]
fn frames_missing_at_the_very_end_are_counted_by_layer() {
    for carriage in CARRIAGES {
        // Of 20 GOPs of 500 ms: the last frames, the last GOP start, two GOP starts.
        for (from, base) in [(9_700, 0), (9_400, 1), (8_900, 2)] {
            let mut world = World::perfect(carriage, 20);
            world.down = Box::new(move |now, pdu| match is_data(pdu) && now > ms(from) {
                true => vec![],
                false => vec![Span::from_ms(5)],
            });
            world.run_until(ms(20_000));
            assert_eq!(world.count(|e| matches!(e, SinkEvent::Closed { .. })), 1);
            let (stats, sent) = (world.sink.stats(), world.source.stats().sent);
            assert_eq!(stats.lost.base, base, "{carriage:?} {from}");
            assert!(stats.lost.e2 > 0);
            for layer in Layer::ALL {
                assert_eq!(stats.played[layer] + stats.lost[layer], sent[layer]);
            }
            let last = world.events.last().map(|(_, event)| event);
            assert_eq!(last, Some(&SinkEvent::Closed { undelivered: 0 }));
            let mut log = FlowLog::new("dwp", "wide", Time::ZERO);
            for (at, event) in &world.events {
                log.on_event(*at, event);
            }
            assert_eq!(log.finish().lost, stats.lost);
        }
    }
}

#[test]
fn reordering_and_duplicates_do_no_harm_before_the_deadline() {
    for carriage in CARRIAGES {
        let mut random = Stream::new(1, "pipe");
        let mut world = World::perfect(carriage, 30);
        let cells = carriage == Carriage::Cells;
        world.down = Box::new(move |_, _| {
            if cells {
                // Circuits keep the order.
                return vec![Span::from_ms(5)];
            }
            let copies = 1 + usize::from(random.chance(0.3));
            (0..copies)
                .map(|_| Span::from_us(5_000 + random.below(60_000)))
                .collect()
        });
        world.run_until(ms(25_000));
        let stats = world.sink.stats();
        assert_eq!(stats.lost.base + stats.late.base, 0);
        assert_eq!(stats.played.base, 30);
        assert_eq!(stats.late, PerLayer::default());
        let seqs: Vec<u32> = world.played().map(|frame| frame.seq.0).collect();
        assert!(seqs.is_sorted_by(|a, b| a < b), "in order and once each");
        assert_eq!(cells, stats.dropped.duplicate == 0);
    }
}

#[test]
fn late_frames_are_dropped_counted_and_never_played() {
    for slow in [250, 400] {
        let mut world = World::perfect(Carriage::Datagrams, 20);
        // All packets of frame 60, a GOP start, and of frame 75 are slow.
        world.down = Box::new(move |_, pdu| match pdu {
            LinkPdu::Mets(packet) if [60, 75].contains(&packet.header.seq.0) => {
                vec![Span::from_ms(slow)]
            }
            _ => vec![Span::from_ms(5)],
        });
        world.run_until(ms(20_000));
        let stats = world.sink.stats();
        let late = u64::from(slow == 400);
        assert_eq!(stats.late.base, late);
        assert_eq!(stats.late.base + stats.late.e1 + stats.late.e2, 2 * late);
        assert_eq!(stats.lost, PerLayer::default(), "late is not lost");
        assert_eq!(stats.played.base, 20 - late);
        for (at, event) in &world.events {
            if let SinkEvent::Frame(frame) = event {
                assert!(frame.arrived <= frame.deadline && *at == frame.deadline);
            }
        }
        let mut log = FlowLog::new("dwp", "wide", Time::ZERO);
        for (at, event) in &world.events {
            log.on_event(*at, event);
        }
        let summary = log.finish();
        assert_eq!((summary.late, summary.late_base), (2 * late, late));
        assert_eq!(summary.lost, PerLayer::default());
        assert_eq!(summary.frames, stats.played);
        assert_eq!(summary.off_boundary, 0);
    }
}

#[test]
fn a_sink_that_joins_in_a_gop_starts_with_the_next() {
    let mut world = World::perfect(Carriage::Datagrams, 20);
    world.cut = true;
    // Somebody else keeps the full level up.
    for era in 0..4 {
        world.run_until(ms(300 + 250 * u64::from(era)));
        world.send_to_source(res(era, Level::FULL));
    }
    world.run_until(ms(1_800));
    world.cut = false;
    world.advertise();
    world.run_until(ms(3_500));
    assert!(world.sink.stats().before_start > 0);
    let first = world.played().next().unwrap();
    assert!(first.gop_start && first.layer == Layer::Base);
    assert_eq!(first.seq.0, 48);
    assert_eq!(world.sink.stats().lost, PerLayer::default());
}

#[test]
fn the_end_drains_closes_and_is_told() {
    for carriage in CARRIAGES {
        let mut world = World::perfect(carriage, 4);
        world.run_until(ms(60_000));
        let closed: Vec<_> = world
            .events
            .iter()
            .filter(|(_, event)| matches!(event, SinkEvent::Closed { undelivered: 0 }))
            .collect();
        assert_eq!(closed.len(), 1);
        assert_eq!(closed[0].0, world.events.last().unwrap().0);
        assert!(
            world
                .source_events
                .iter()
                .any(|(_, event)| *event == SourceEvent::Finished { undelivered: 0 })
        );
        assert_eq!(world.sink.stats().played.base, 4);
        assert_eq!(world.sink.next_timeout(), None);
        assert_eq!(world.source.next_timeout(), None);
        assert_eq!(world.source.stats().submitted, 48);
    }
}

#[test]
fn frames_that_a_slow_shaper_holds_when_the_grace_time_ends_are_undelivered() {
    for carriage in CARRIAGES {
        let mut source = source_config(carriage, 60_000);
        // 300 of the 480 cells/s of the base layer.
        source.shaping = Shaping::Bucket { b: 3, p: 10 };
        let mut world = World::new(source, sink_config(carriage), 40);
        world.up = Box::new(|_, _| vec![]);
        world.run_until(ms(200_000));
        let undelivered = world
            .source_events
            .iter()
            .find_map(|(_, event)| match event {
                SourceEvent::Finished { undelivered } => Some(u64::from(*undelivered)),
                _ => None,
            });
        let undelivered = undelivered.unwrap();
        assert!(undelivered > 0);
        let (stats, source) = (world.sink.stats(), world.source.stats());
        let masked: u64 = source.masked.iter().map(|(_, n)| n).sum();
        // The frame cut in the middle is both: on its way in part, and not delivered.
        let whole = stats.played.base;
        assert_eq!(whole + undelivered + masked, source.submitted);
        assert_eq!(stats.lost.base, source.sent.base - whole);
        let told = world.events.last().map(|(_, event)| event.clone());
        let undelivered = undelivered as u32;
        assert_eq!(told, Some(SinkEvent::Closed { undelivered }));
    }
}

#[test]
fn enhancement_frames_that_the_shaper_drops_are_told() {
    let mut source = source_config(Carriage::Datagrams, 60_000);
    // 1500 of 3360 cells/s.
    source.shaping = Shaping::Bucket { b: 3, p: 2 };
    let mut world = World::new(source, sink_config(Carriage::Datagrams), 60);
    world.run_until(ms(25_000));
    let mut told = PerLayer::<u64>::default();
    for (_, event) in &world.source_events {
        if let SourceEvent::Dropped { frames } = event {
            frames
                .iter()
                .for_each(|(layer, count)| told[layer] += count);
        }
    }
    assert_eq!(told, world.source.stats().dropped);
    assert!(told.e2 > 50 && told.base == 0, "{told:?}");
}

#[test]
fn timestamps_may_wrap() {
    let start = Time::ZERO + Span::from_us((1 << 32) - 4_000_000);
    for synchronised in [true, false] {
        let mut source = source_config(Carriage::Datagrams, 300);
        source.start = start;
        let mut sink = sink_config(Carriage::Datagrams);
        sink.synchronised = synchronised;
        let mut world = World::new(source, sink, 20);
        world.run_until(start + Span::from_secs(20));
        let stats = world.sink.stats();
        assert_eq!(stats.played, world.source.stats().sent);
        assert_eq!(stats.late, PerLayer::default());
        let last = world.played().last().unwrap();
        assert!(last.emitted > start + Span::from_secs(8));
    }
}

#[test]
fn clocks_that_differ_give_relative_delays() {
    // The pipe keeps the time stamps of a source whose clock is an hour ahead.
    let mut source = source_config(Carriage::Datagrams, 300);
    source.start = ms(1_000);
    let mut sink = sink_config(Carriage::Datagrams);
    sink.synchronised = false;
    let mut world = World::new(source, sink, 1);
    let mut packets = Vec::new();
    world.down = Box::new(|_, _| vec![Span::from_ms(5)]);
    world.run_until(ms(900));
    let mut other = World::perfect(Carriage::Datagrams, 4);
    other.down = Box::new(|now, pdu| {
        packets.push((now, pdu.clone()));
        vec![]
    });
    other.run_until(ms(3_000));
    drop(other);
    for (at, pdu) in packets {
        let LinkPdu::Mets(mut packet) = pdu else {
            continue;
        };
        packet.header.timestamp_us = packet.header.timestamp_us.wrapping_add(3_600_000_000);
        let now = at + Span::from_secs(10);
        world.sink.on_timeout(now, &mut Off);
        world
            .sink
            .handle(now, SinkInput::Pdu(LinkPdu::Mets(packet)), &mut Off);
    }
    world.sink.on_timeout(ms(20_000), &mut Off);
    assert_eq!(world.sink.stats().played.base, 4);
    while let Some(event) = world.sink.poll_event() {
        if let SinkEvent::Frame(frame) = event {
            assert!(frame.delay < Span::from_ms(200), "{:?}", frame.delay);
        }
    }
}

#[test]
fn a_lost_session_channel_does_not_stop_the_media() {
    let mut world = World::perfect(Carriage::Datagrams, 20);
    world.run_until(ms(3_000));
    world.cut = true;
    world.input(SinkInput::LinkDown);
    world.run_until(ms(5_000));
    world.cut = false;
    world.input(SinkInput::LinkUp);
    world.advertise();
    world.run_until(ms(20_000));
    let stats = world.sink.stats();
    assert_eq!(stats.joins, 2);
    assert_eq!((stats.outage, stats.lost.base), Default::default());
    assert_eq!(stats.played.base, 20);
}

#[test]
fn what_passed_by_while_the_channel_was_lost_is_an_outage_not_a_loss() {
    let mut world = World::perfect(Carriage::Datagrams, 20);
    world.down = Box::new(|now, _| {
        if now > ms(3_000) && now < ms(6_000) {
            return vec![];
        }
        vec![Span::from_ms(5)]
    });
    world.run_until(ms(3_000));
    world.cut = true;
    world.input(SinkInput::LinkDown);
    world.run_until(ms(6_000));
    world.cut = false;
    world.input(SinkInput::LinkUp);
    world.advertise();
    world.run_until(ms(20_000));
    let stats = world.sink.stats();
    assert_eq!(stats.lost.base, 0);
    // Six GOPs of 500 ms; what was lost at their edges without base layer is a loss.
    assert_eq!(stats.outage.base, 6);
    assert_eq!(stats.played.base + stats.outage.base, 20);
    assert!((10..=20).contains(&stats.outage.e1), "{:?}", stats.outage);
    assert!((40..=54).contains(&stats.outage.e2), "{:?}", stats.outage);
    let mut log = FlowLog::new("dwp", "wide", Time::ZERO);
    for (at, event) in &world.events {
        log.on_event(*at, event);
    }
    assert_eq!(log.finish().outage, stats.outage);
}

#[test]
fn the_same_seed_gives_the_same_events() {
    let run = |seed| {
        let mut random = Stream::new(seed, "pipe");
        let mut sink = sink_config(Carriage::Datagrams);
        sink.seed = seed;
        let mut world = World::new(source_config(Carriage::Datagrams, 0), sink, 20);
        world.down = Box::new(move |_, _| {
            if random.chance(0.02) {
                return vec![];
            }
            vec![Span::from_us(2_000 + random.below(20_000))]
        });
        world.run_until(ms(20_000));
        format!("{:?}{:?}", world.events, world.source_events)
    };
    assert_eq!(run(3), run(3));
    assert_ne!(run(3), run(4));
}

#[test]
fn a_flow_of_which_no_frame_came_is_missing_to_the_last() {
    // (whether signals pass throughout, which counter then holds the frames)
    for (cut, connected) in [(false, true), (true, false)] {
        let mut world = World::perfect(Carriage::Datagrams, 6);
        world.down = Box::new(|_, _| vec![]);
        world.up = Box::new(|_, _| vec![]);
        world.run_until(ms(1_000));
        if cut {
            world.input(SinkInput::LinkDown);
        }
        world.run_until(ms(30_000));
        let (stats, all) = (world.sink.stats(), world.source.stats());
        let total = |of: PerLayer<u64>| of.base + of.e1 + of.e2;
        assert_eq!(total(stats.played), 0);
        let missing = total(stats.lost) + total(stats.withheld) + total(stats.outage);
        assert_eq!(missing, all.submitted, "connected: {connected}");
        let base = if connected {
            stats.lost.base
        } else {
            stats.outage.base
        };
        assert_eq!(base, all.sent.base);
        assert_eq!(
            world.count(|event| matches!(event, SinkEvent::Closed { .. })),
            1
        );
    }
}

#[test]
fn frames_that_lost_cells_are_played_damaged_where_that_is_wanted() {
    for repair in [true, false] {
        let mut sink = sink_config(Carriage::Cells);
        sink.repair = repair;
        let mut world = World::new(source_config(Carriage::Cells, 300), sink, 4);
        // The tenth cell of every thousand; some are the first or the last of their frame.
        let mut n = 0;
        world.down = Box::new(move |_, _| {
            n += 1;
            match n % 1_000 {
                10 => vec![],
                _ => vec![Span::from_ms(5)],
            }
        });
        world.run_until(ms(10_000));
        let stats = world.sink.stats();
        let damaged = world.played().filter(|frame| frame.damaged).count() as u64;
        assert_eq!(stats.damaged, damaged);
        let lost: u64 = stats.lost.iter().map(|(_, n)| n).sum();
        match repair {
            true => assert!(damaged >= 3 && lost < damaged, "{damaged} {lost}"),
            false => assert!(damaged == 0 && lost >= 3, "{lost}"),
        }
        for frame in world.played().filter(|frame| frame.damaged) {
            let whole = Payload::from(Bytes::from(content(
                frame.seq.0 as usize,
                frame.payload.len(),
            )));
            assert_ne!(frame.payload, whole);
        }
    }
}

#[test]
fn a_frame_above_the_limit_is_refused_counted_and_not_cut() {
    let mut config = source_config(Carriage::Datagrams, 300);
    config.flow.spec.max_frame = 1_000;
    let mut source = Source::new(config).unwrap();
    let frame = |bytes: usize| AppFrame {
        layer: Layer::Base,
        gop_start: true,
        sound: false,
        payload: Payload::Zeros(bytes as u32),
        time: None,
    };
    for bytes in [1_001, 0, 40_000] {
        let refused = source.submit(Time::ZERO, frame(bytes));
        let expected = SubmitError::TooLarge {
            bytes,
            max_frame: 1_000,
        };
        assert_eq!(refused, Err(expected));
    }
    source.submit(Time::ZERO, frame(1_000)).unwrap();
    source.on_timeout(ms(100), &mut Off);
    let stats = source.stats();
    assert_eq!(
        (stats.too_large, stats.submitted, stats.sent.base),
        (3, 1, 1)
    );
}

#[test]
fn without_a_flow_nothing_is_sent_in_an_era() {
    let mut sink = layercast_mets::Sink::new(sink_config(Carriage::Datagrams));
    for era in 0..10 {
        sink.on_timeout(ms(1_000 * era), &mut Off);
        assert_eq!(sink.poll_transmit(ms(1_000 * era), &mut Off), None);
    }
    assert_eq!(sink.next_timeout(), None);
}

/// When each frame is handed over behind a path of this delay and up to 5 ms more, in playout 400 ms behind the source, whose
/// clock becomes known after 2 s to within `error_us`; and the delays that the sink states.
fn shown(delay: Span, error_us: u32, seed: u64) -> (Vec<(u32, Time)>, Vec<Span>) {
    let mut sink = sink_config(Carriage::Datagrams);
    (sink.synchronised, sink.follows_clock) = (false, true);
    sink.playout.delay = Some(Span::from_ms(400));
    let mut world = World::new(source_config(Carriage::Datagrams, 300), sink, 60);
    let mut stream = Stream::new(seed, "jitter");
    let mut last = Time::ZERO;
    world.down = Box::new(move |now, _| {
        let at = now + delay + Span::from_us(stream.below(5_000));
        last = last.max(at);
        vec![last.since(now)]
    });
    for second in 2..25 {
        world.run_until(ms(second * 1_000));
        let here = world.now.as_us() as u32;
        let clock = ClockReading {
            source_us: here.wrapping_add(error_us),
            bound_us: 20_000,
            hops: 1,
            ..ClockReading::own(here)
        };
        let flow = flow(300).id;
        world.input(SinkInput::Signal(Signal::Clock { flow, clock }));
    }
    let steps = world
        .events
        .iter()
        .filter(|(_, event)| matches!(event, SinkEvent::Synchronised { .. }));
    assert_eq!(steps.count(), 1);
    let clock = world.sink.stats().source_clock.expect("known");
    assert_eq!((clock.hops, clock.bound_us), (1, 20_000));
    let frames = world.events.iter().filter_map(|(at, event)| match event {
        SinkEvent::Frame(frame) if *at > ms(5_000) => Some((frame.seq.0, *at, frame.delay)),
        _ => None,
    });
    frames.map(|(seq, at, delay)| ((seq, at), delay)).unzip()
}

#[test]
fn sinks_behind_unlike_paths_that_follow_the_clock_of_the_source_play_a_frame_at_the_same_time() {
    let (near, near_delays) = shown(Span::from_ms(3), 300, 1);
    let (far, far_delays) = shown(Span::from_ms(120), 300_u32.wrapping_neg(), 2);
    assert!(near.len() > 300 && near.len() == far.len());
    for ((seq, at), (other, then)) in near.iter().zip(&far) {
        let apart = at.max(then).since(*at.min(then));
        assert!(
            seq == other && apart < Span::from_ms(5),
            "{seq}: {apart} apart"
        );
    }
    // What they state is the true delay.
    let within = |delays: &[Span], least, most| {
        let (least, most) = (Span::from_ms(least), Span::from_ms(most));
        delays.iter().all(|delay| (least..most).contains(delay))
    };
    assert!(within(&near_delays, 2, 40), "{near_delays:?}");
    assert!(within(&far_delays, 119, 160), "{far_delays:?}");
}

#[test]
fn a_receiver_says_what_it_misses_while_nothing_comes_and_that_is_what_it_counts_as_lost_then() {
    for carriage in CARRIAGES {
        let mut world = World::perfect(carriage, 40);
        world.down =
            Box::new(
                |now, pdu| match is_data(pdu) && now >= ms(6_000) && now < ms(12_000) {
                    true => Vec::new(),
                    false => vec![Span::from_ms(5)],
                },
            );
        let mut silence = |until| {
            world.run_until(ms(until));
            let stats = world.sink.stats();
            let reported = world.source.member_stats(ms(until))[0].report.unwrap();
            (stats.silence, reported.silence, stats.lost.total())
        };
        // Frames come every 42 ms, but it begins to count after 1 s.
        assert_eq!(silence(6_800), (None, None, 0), "{carriage:?}");
        let (early, reported, lost) = silence(8_500);
        let early = early.expect("no packet comes");
        assert!((1_500..=2_600).contains(&early.ms), "{early:?}");
        assert!(reported.is_some_and(|it| it.ms <= early.ms), "{reported:?}");
        assert_eq!(lost, 0, "no frame behind them came");
        let late = silence(11_990).0.expect("no packet comes");
        assert!(late.ms >= 4_900, "{late:?}");
        // 24 frames a second, from the playout time of the first on.
        let due = (late.ms - 300) * 24 / 1_000;
        assert!(late.overdue.total().abs_diff(due) <= 3, "{due}: {late:?}");
        assert!(late.overdue.base * 10 <= late.overdue.e2 * 2, "{late:?}");
        let (now, _, lost) = silence(14_000);
        assert_eq!(now, None);
        assert!((140..=150).contains(&lost), "{lost} of six seconds");
        // The flow is over: nothing is expected.
        assert_eq!(silence(60_000).0, None);
    }
}
