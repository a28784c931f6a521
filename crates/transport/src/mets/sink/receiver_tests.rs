use super::*;
use layercast_core::{FlowSpec, Layer, NodeId, Off};
use layercast_wire::{Carriage, FrameType, MetsHeader, Passing, Payload, Waited};

fn receiver() -> Receiver {
    let flow = FlowInfo {
        spec: FlowSpec {
            delay_max_ms: 1_000,
            ..FlowSpec::default()
        },
        clock: "test".into(),
        ..FlowInfo::new(FlowId(1), "bunny", "atc")
    };
    let config = SinkConfig::new("dwp", NodeId(1), "bunny", Carriage::Datagrams);
    Receiver::new(Time::ZERO, &config, &flow, &flow.spec)
}

fn whole(seq: u32, layer: Layer, gop_start: bool) -> MetsPacket {
    MetsPacket {
        header: MetsHeader {
            kind: FrameType::from_layer(layer),
            flags: Flags(6 | u8::from(gop_start)),
            flow: FlowId(1),
            seq: Serial(seq),
            timestamp_us: 0,
            e1_count: 0,
            e2_count: 0,
            alf_len: 9,
            offset: 0,
            waited: Waited::default(),
            passing: Passing::default(),
        },
        payload: Payload::Zeros(9),
        congestion: false,
    }
}

fn push(receiver: &mut Receiver, packet: MetsPacket) {
    receiver.on_packet(Time::ZERO, packet, Level::FULL, &mut Off);
}

#[test]
fn a_flood_of_frames_stays_within_the_playout_buffer_and_spares_the_base_layer() {
    let mut receiver = receiver();
    push(&mut receiver, whole(0, Layer::Base, true));
    for seq in 1..=9_000u32 {
        push(&mut receiver, whole(seq, Layer::E2, false));
    }
    let held = |receiver: &Receiver| receiver.buffer.iter().filter(|s| s.frame.is_some()).count();
    // 1 s at 24 frames/s and a GOP of 12, twice.
    assert_eq!(held(&receiver), 72);
    assert_eq!(receiver.buffer.len(), MAX_SLOTS);
    assert_eq!(receiver.stats.overflow.e2, 9_001 - 72);
    let front = receiver.buffer.front().and_then(|slot| slot.frame.as_ref());
    assert_eq!(front.map(|frame| frame.layer), Some(Layer::Base));
    receiver.play(Time::ZERO + Span::from_secs(1), &mut Off);
    assert_eq!(receiver.stats.played.base, 1);
    assert!(receiver.is_empty());
}

#[test]
fn one_forged_number_far_off_is_dropped_and_two_open_a_new_count() {
    let mut receiver = receiver();
    push(&mut receiver, whole(0, Layer::Base, true));
    push(&mut receiver, whole(1 << 30, Layer::Base, true));
    push(&mut receiver, whole(1, Layer::E1, false));
    push(&mut receiver, whole(1 << 29, Layer::Base, true));
    assert_eq!(
        (receiver.stats.dropped.stray, receiver.buffer.len()),
        (2, 2)
    );
    push(&mut receiver, whole((1 << 29) + 12, Layer::Base, true));
    assert_eq!(receiver.buffer.len(), 3);
    receiver.play(Time::ZERO + Span::from_secs(1), &mut Off);
    assert_eq!(receiver.stats.played.base, 2);
    assert_eq!(receiver.stats.lost.base, 0);
}

/// The start of GOP number `gop`; only its first half unless it is `complete`.
fn gop_start(gop: u8, complete: bool) -> MetsPacket {
    let mut packet = whole(12 * u32::from(gop), Layer::Base, true);
    (packet.header.e1_count, packet.header.e2_count) = (3 * gop, 8 * gop);
    if !complete {
        packet.header.flags = Flags(3);
        packet.header.alf_len = 18;
    }
    packet
}

#[test]
fn frames_of_gops_whose_starts_never_come_whole_are_lost() {
    let gops = |n: u64| layercast_core::PerLayer {
        base: n,
        e1: 3 * n,
        e2: 8 * n,
    };
    let mut receiver = receiver();
    for gop in 0..6 {
        push(&mut receiver, gop_start(gop, false));
        push(
            &mut receiver,
            whole(12 * u32::from(gop) + 1, Layer::E1, false),
        );
        // The newest may still come whole; the first ones may be cut by the join.
        let lost = if gop < 4 { 0 } else { gop };
        assert_eq!(receiver.stats().lost, gops(lost.into()));
    }
    assert_eq!(receiver.stats.before_start, 6);
    push(&mut receiver, gop_start(6, true));
    receiver.play(Time::ZERO + Span::from_secs(1), &mut Off);
    assert_eq!(
        (receiver.stats.played.base, receiver.stats().lost),
        (1, gops(6))
    );
    let told = |receiver: &Receiver| {
        let mut told = layercast_core::PerLayer::<u64>::default();
        for event in &receiver.events {
            if let SinkEvent::Lost { layer, count } = event {
                told[*layer] += u64::from(*count);
            }
        }
        told
    };
    assert_eq!(told(&receiver), gops(6));
    // One that leaves before a start comes.
    let mut receiver = self::receiver();
    for gop in 0..6 {
        push(&mut receiver, gop_start(gop, false));
    }
    receiver.settle();
    assert_eq!((told(&receiver), receiver.stats().lost), (gops(5), gops(5)));
}

#[test]
fn starts_that_come_in_part_show_the_loss_of_the_path() {
    let mut receiver = receiver();
    for gop in 0..3 {
        push(&mut receiver, gop_start(gop, false));
    }
    // Half of each came; the newest may still come whole.
    let cut = receiver.stats().cut_starts;
    assert_eq!((cut.starts, cut.bytes, cut.came), (2, 36, 18));
    assert_eq!(cut.lost_percent(), Some(50));
    assert_eq!(receiver.stats().lost, layercast_core::PerLayer::default());
    // GOPs of 8 s: after 5 s what does not come whole is lost, though the starts are few.
    receiver.on_packet(
        Time::ZERO + Span::from_secs(8),
        gop_start(3, false),
        Level::FULL,
        &mut Off,
    );
    assert_eq!(receiver.stats().lost.base, 3);
    receiver.settle();
    assert_eq!(receiver.stats().cut_starts.starts, 4);
}

#[test]
fn losses_of_long_gops_with_sound_are_exact_before_the_first_whole_start() {
    // 100 pictures a GOP, with as many frames of sound in the base layer.
    let spec = FlowSpec {
        frame_rate: layercast_core::FrameRate { num: 50, den: 1 },
        picture_rate: Some(layercast_core::FrameRate { num: 25, den: 1 }),
        gop_n: 200,
        gop_m: 6,
        ..FlowSpec::default()
    };
    let mut receiver = receiver();
    receiver.gaps.set_spec(&spec);
    for gop in 0..8u32 {
        let mut packet = gop_start(0, false);
        packet.header.seq = Serial(200 * gop);
        packet.header.e1_count = (33 * gop) as u8;
        packet.header.e2_count = (66 * gop) as u8;
        push(&mut receiver, packet);
    }
    let lost = receiver.stats().lost;
    assert_eq!((lost.base, lost.e1, lost.e2), (7 * 101, 7 * 33, 7 * 66));
}

#[test]
fn late_frames_tell_by_how_much() {
    let mut receiver = receiver();
    push(&mut receiver, whole(0, Layer::Base, true));
    assert_eq!(receiver.stats().late_ms, None);
    // The delay bound of 1 s is the playout delay.
    receiver.on_packet(
        Time::ZERO + Span::from_ms(1_300),
        whole(1, Layer::E1, false),
        Level::FULL,
        &mut Off,
    );
    let late = receiver.stats().late_ms.expect("a late frame");
    assert!((290.0..310.0).contains(&late.p50), "{late:?}");
}

#[test]
fn frames_behind_a_gop_start_that_a_repair_completes_are_played() {
    let mut receiver = receiver();
    let at = |ms| Time::ZERO + Span::from_ms(ms);
    let mut arrive = |ms, packet| receiver.on_packet(at(ms), packet, Level::FULL, &mut Off);
    arrive(0, gop_start(1, false));
    for n in 1..=3_u8 {
        let mut frame = whole(12 + u32::from(n), Layer::E1, false);
        (frame.header.e1_count, frame.header.e2_count) = (3 + n, 8);
        frame.header.timestamp_us = u32::from(n) * 40_000;
        arrive(u64::from(n) * 10, frame);
    }
    let mut rest = gop_start(1, false);
    rest.header.flags = Flags(5);
    rest.header.offset = 9;
    arrive(100, rest);
    receiver.play(at(5_000), &mut Off);
    let stats = receiver.stats();
    assert_eq!((stats.played.base, stats.played.e1), (1, 3));
    assert_eq!((stats.before_start, stats.lost.e1), (0, 0));
    let arrived = receiver.events.iter().filter_map(|event| match event {
        SinkEvent::Frame(frame) => Some(frame.arrived),
        _ => None,
    });
    assert!(arrived.eq([100, 10, 20, 30].map(at)));
}
