use super::*;
use layercast_core::{FlowSpec, Layer, NodeId, Off};
use layercast_wire::{Carriage, FrameType, MetsHeader, Passing, Payload, Sound, Waited};

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
            sound: Sound::default(),
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

#[test]
fn a_source_that_takes_the_place_of_a_slow_one_is_no_jump_of_its_timeline() {
    let mut receiver = receiver();
    let config = SinkConfig::new("dwp", NodeId(1), "bunny", Carriage::Datagrams);
    let live = |from: u64, flow: u32, late: i64, receiver: &mut Receiver| {
        for k in 0..6u32 {
            let mut packet = whole(12 * k, Layer::Base, true);
            let due = 5_000_000_000_000u64;
            packet.header.flow = FlowId(flow);
            packet.header.timestamp_us = 500_000 * k;
            packet.header.waited =
                Waited::new(due.saturating_add_signed(late * 1_000_000_000), due);
            let now = Time::ZERO + Span::from_ms(from + 500 * u64::from(k));
            receiver.on_packet(now, packet, Level::FULL, &mut Off);
            receiver.play(now, &mut Off);
        }
        receiver.stats()
    };
    let slow = live(1_000, 1, 800, &mut receiver);
    assert!(slow.source_late_ms.unwrap() > 790.0, "{slow:?}");
    // The lateness is no part of the delays that are reported.
    let now = Time::ZERO + Span::from_ms(5_000);
    let delays = receiver.recent_delays(now).expect("frames");
    let parts = [delays.ingest, delays.queue, delays.path, delays.playout];
    assert!(parts.iter().all(|part| *part >= 0.0), "{delays:?}");
    let sum: f64 = parts.iter().sum();
    assert!((sum - delays.mean).abs() < 1e-6, "{delays:?}");
    let flow = FlowInfo {
        spec: FlowSpec {
            delay_max_ms: 1_000,
            ..FlowSpec::default()
        },
        ..FlowInfo::new(FlowId(2), "bunny", "atc")
    };
    receiver.begin_life(&config, &flow, &flow.spec);
    let stats = live(10_000, 2, 0, &mut receiver);
    assert_eq!(stats.packets, 12);
    assert_eq!(
        (stats.source_late_ms, stats.source_skipped_ms),
        (Some(0.0), 0.0)
    );
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

/// Events of missing frames, and of what came.
#[derive(Default)]
struct Told {
    missing: u32,
    came: u32,
}

impl Observer for Told {
    fn record(&mut self, _: &layercast_core::Record<'_>) {}

    fn measure(&mut self, _: Subject<'_>, event: &QosEvent) {
        match QosAction::of(event.action) {
            Some(QosAction::Dropped) => self.missing += event.aux,
            Some(QosAction::Received) => self.came += 1,
            _ => {}
        }
    }

    fn measures(&self) -> bool {
        true
    }
}

#[test]
fn a_monitor_hears_at_once_of_gops_that_never_start_and_of_each_frame_once() {
    let (mut receiver, mut told) = (receiver(), Told::default());
    let mut arrive = |receiver: &mut Receiver, packet| {
        receiver.on_packet(Time::ZERO, packet, Level::FULL, &mut told)
    };
    for gop in 0..6 {
        arrive(&mut receiver, gop_start(gop, false));
        let frame = whole(12 * u32::from(gop) + 1, Layer::E1, false);
        arrive(&mut receiver, frame);
    }
    arrive(&mut receiver, gop_start(6, true));
    // Five GOPs of twelve frames were reported as they passed, and the sixth with the first one that is whole.
    let in_time = Time::ZERO + Span::from_secs(1);
    receiver.play(in_time, &mut told);
    assert_eq!(told.missing, 6 * 12);
    // From when it was a loss: two frames behind starts that were cut, and the start that is whole.
    assert_eq!(told.came, 3);
    // One that never starts.
    let (mut receiver, mut told) = (self::receiver(), Told::default());
    for gop in 0..6 {
        receiver.on_packet(Time::ZERO, gop_start(gop, false), Level::FULL, &mut told);
    }
    assert_eq!(told.missing, 5 * 12);
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

/// A receiver of live media, whose playout delay is the smallest that frames keep to.
fn live() -> Receiver {
    let flow = FlowInfo {
        spec: FlowSpec {
            delay_max_ms: 1_000,
            ..FlowSpec::default()
        },
        clock: "test".into(),
        ..FlowInfo::new(FlowId(1), "bunny", "atc")
    };
    let mut config = SinkConfig::new("dwp", NodeId(1), "bunny", Carriage::Datagrams);
    config.playout = super::super::PlayoutConfig::live();
    Receiver::new(Time::ZERO, &config, &flow, &flow.spec)
}

fn at(ms: u64) -> Time {
    Time::ZERO + Span::from_ms(ms)
}

/// Frames 40 ms apart from second 1 on: `I` starts a GOP, `S` is sound, `A` a picture of the base layer, `P` is in E1 and `B` in E2.
fn film(layers: &str) -> Vec<MetsPacket> {
    let (mut e1, mut e2, mut sound) = (0, 0, 0);
    let frames = layers.bytes().enumerate().map(|(n, letter)| {
        let layer = match letter {
            b'P' => Layer::E1,
            b'B' => Layer::E2,
            _ => Layer::Base,
        };
        e1 += u8::from(layer == Layer::E1);
        e2 += u8::from(layer == Layer::E2);
        sound += u8::from(letter == b'S');
        let mut packet = whole(n as u32, layer, letter == b'I');
        packet.header.timestamp_us = 1_000_000 + 40_000 * n as u32;
        (packet.header.e1_count, packet.header.e2_count) = (e1, e2);
        packet.header.sound = Sound::new(letter == b'S', sound);
        packet.header.passing = Passing::of(Level::FULL);
        packet
    });
    frames.collect()
}

/// Takes each packet 20 ms after its emission, and those of `late` that much after it, or never; gives what was handed
/// over, and when after its emission in milliseconds.
fn watch(
    receiver: &mut Receiver,
    frames: &[MetsPacket],
    late: &[(u32, Option<u64>)],
) -> Vec<(u32, u64)> {
    let emitted = |packet: &MetsPacket| u64::from(packet.header.timestamp_us) / 1_000;
    let mut arrivals = Vec::new();
    for packet in frames {
        let seq = packet.header.seq.0;
        let other = late.iter().find(|(of, _)| *of == seq);
        if let Some(delay) = other.map_or(Some(20), |(_, delay)| *delay) {
            arrivals.push((emitted(packet) + delay, packet.clone()));
        }
    }
    arrivals.sort_by_key(|(ms, _)| *ms);
    take(receiver, arrivals)
        .into_iter()
        .map(|(seq, ms)| (seq, ms - 1_000 - 40 * u64::from(seq)))
        .collect()
}

/// Takes each packet at its time; gives what was handed over, and when.
fn take(receiver: &mut Receiver, arrivals: Vec<(u64, MetsPacket)>) -> Vec<(u32, u64)> {
    let mut played = Vec::new();
    let mut play = |receiver: &mut Receiver, now: Time| {
        receiver.play(now, &mut Off);
        while let Some(event) = receiver.events.pop_front() {
            if let SinkEvent::Frame(frame) = event {
                played.push((frame.seq.0, now.since(Time::ZERO).as_ms()));
            }
        }
        assert!(receiver.next_timeout().is_none_or(|next| next > now));
    };
    for (ms, packet) in arrivals {
        while let Some(due) = receiver.next_timeout().filter(|due| *due <= at(ms)) {
            play(receiver, due);
        }
        receiver.on_packet(at(ms), packet, Level::FULL, &mut Off);
        play(receiver, at(ms));
    }
    while let Some(due) = receiver.next_timeout() {
        play(receiver, due);
    }
    played
}

/// What the playout delay and what the order held frame `seq`.
fn waits(receiver: &Receiver, seq: u32) -> (Span, Span) {
    match receiver.explanations.of(Serial(seq)).map(|it| it.fate) {
        Some(super::super::Fate::Played { playout, order, .. }) => (playout, order),
        other => panic!("{seq}: {other:?}"),
    }
}

/// How long the order held frame `seq`, and for which frames.
fn explained(receiver: &Receiver, seq: u32) -> (Span, Option<super::super::Awaited>) {
    match receiver.explanations.of(Serial(seq)).map(|it| it.fate) {
        Some(super::super::Fate::Played { order, awaited, .. }) => (order, awaited),
        other => panic!("{seq}: {other:?}"),
    }
}

/// Whether pictures and sound are each in order.
fn in_order(played: &[(u32, u64)], frames: &[MetsPacket]) -> bool {
    [false, true].into_iter().all(|sound| {
        let of = |it: &&(u32, u64)| frames[it.0 as usize].header.sound.is_sound() == sound;
        let chain = played.iter().filter(of);
        chain.is_sorted_by(|a, b| a.0 < b.0)
    })
}

fn lost_or_late(receiver: &Receiver) -> (u64, u64) {
    let sum = |counts: layercast_core::PerLayer<u64>| counts.base + counts.e1 + counts.e2;
    (sum(receiver.stats.lost), sum(receiver.stats.late))
}

#[test]
fn a_missing_enhancement_frame_delays_neither_sound_nor_the_base_layer() {
    // Each enhancement frame in turn is lost: every frame of the base layer is on time all the same.
    let frames = film("ISPBBSPBBSPBBSIS");
    for lost in [2, 3, 4, 6, 11, 12] {
        let mut receiver = live();
        let played = watch(&mut receiver, &frames, &[(lost, None)]);
        assert_eq!(played.len(), 15, "without {lost}: {played:?}");
        for (seq, after) in played {
            let base = [0, 1, 5, 9, 13, 14, 15].contains(&seq);
            let (playout, order) = waits(&receiver, seq);
            // Pictures that may refer to it wait as long as sound may be ahead of them.
            let most = if base { 0 } else { 90 };
            assert!(
                order <= Span::from_ms(most),
                "without {lost}: {seq} after {after} ms"
            );
            assert_eq!(Span::from_ms(after), Span::from_ms(20) + playout + order);
        }
        assert_eq!(lost_or_late(&receiver), (1, 0));
    }
}

#[test]
fn an_enhancement_frame_waits_for_those_it_may_refer_to_and_for_no_others() {
    // P of number 2 comes 60 ms late: the B pictures behind it wait. B of number 3 comes 60 ms late: P behind it does not
    // wait, and B is late.
    let frames = film("ISPBBPBBISPB");
    let mut receiver = live();
    let played = watch(&mut receiver, &frames, &[(2, Some(80))]);
    assert_eq!(lost_or_late(&receiver), (0, 0));
    assert_eq!(played.len(), 12);
    let mut receiver = live();
    let frames = film("ISPBPPISPB");
    let played = watch(&mut receiver, &frames, &[(3, Some(80))]);
    let after = |seq| played.iter().find(|it| it.0 == seq).map(|it| it.1);
    assert_eq!((after(4), after(3)), (Some(30), None));
    assert_eq!(lost_or_late(&receiver), (0, 1));
}

#[test]
fn sound_overtakes_pictures_that_wait_and_a_repair_behind_it_is_no_late_one() {
    // P of number 2 is repaired 60 ms after it was due, which is 20 ms after sound behind it was due.
    let frames = film("ISPSBSPSBSIS");
    let mut receiver = live();
    let played = watch(&mut receiver, &frames, &[(2, Some(90))]);
    let numbers: Vec<u32> = played.iter().map(|it| it.0).collect();
    assert_eq!(numbers, [0, 1, 3, 2, 4, 5, 6, 7, 8, 9, 10, 11]);
    assert_eq!((played[2].1, played[3].1), (30, 90));
    assert_eq!(lost_or_late(&receiver), (0, 0));
    assert_eq!(waits(&receiver, 3).1, Span::ZERO);
    // It never arrives: B waits until sound is ahead of it by 90 ms.
    let mut receiver = live();
    let played = watch(&mut receiver, &frames, &[(2, None)]);
    let numbers: Vec<u32> = played.iter().map(|it| it.0).collect();
    assert_eq!(numbers, [0, 1, 3, 5, 4, 6, 7, 8, 9, 10, 11]);
    assert_eq!(waits(&receiver, 4).1, Span::from_ms(90));
    assert_eq!(lost_or_late(&receiver), (1, 0));
}

#[test]
fn sound_is_ahead_of_a_missing_base_picture_by_the_bound_of_lip_synchronism_and_waits_then() {
    let frames = film("ISASASASASASI");
    let mut receiver = live();
    let played = watch(&mut receiver, &frames, &[(2, Some(250))]);
    assert_eq!(lost_or_late(&receiver), (0, 0));
    assert!(in_order(&played, &frames), "{played:?}");
    let after = |seq| played.iter().find(|it| it.0 == seq).unwrap().1;
    // The picture behind the missing one, of number 4, was due 30 ms after its emission. Sound is on time for 90 ms more.
    assert_eq!([3, 5].map(after), [30, 30]);
    // Then it waits for the repair, 250 ms after the emission of the missing picture.
    assert_eq!([2, 4, 7].map(after), [250, 170, 50]);
    let Some(awaited) = explained(&receiver, 7).1 else {
        panic!("sound waits for nothing");
    };
    assert_eq!((awaited.first, awaited.frames.base), (Serial(2), 1));
}

#[test]
fn pictures_do_not_wait_for_sound_nor_sound_for_sound_of_other_frames() {
    let frames = film("ISASASASASASI");
    let mut receiver = live();
    let played = watch(&mut receiver, &frames, &[(3, Some(100))]);
    assert_eq!(lost_or_late(&receiver), (0, 0));
    let numbers: Vec<u32> = played.iter().map(|it| it.0).collect();
    assert_eq!(numbers, [0, 1, 2, 4, 3, 5, 6, 7, 8, 9, 10, 11, 12]);
    assert_eq!(waits(&receiver, 4).1, Span::ZERO);
    // Lost for good: what is missing is said of the chain in which it is missing.
    let mut receiver = live();
    let missing = |receiver: &mut Receiver, frames: &[MetsPacket], lost| {
        let mut missing = Vec::new();
        for packet in frames.iter().filter(|it| it.header.seq.0 != lost) {
            let now = at(u64::from(packet.header.timestamp_us) / 1_000 + 20);
            receiver.on_packet(now, packet.clone(), Level::FULL, &mut Off);
        }
        receiver.play(at(9_000), &mut Off);
        for event in receiver.events.drain(..) {
            if let SinkEvent::Frame(frame) = event
                && frame.missing.base > 0
            {
                missing.push((frame.seq.0, frame.sound, frame.missing.base));
            }
        }
        missing
    };
    assert_eq!(missing(&mut receiver, &frames, 3), [(5, true, 1)]);
    assert_eq!(receiver.stats.lost.base, 1);
    let mut receiver = live();
    assert_eq!(missing(&mut receiver, &frames, 4), [(6, false, 1)]);
    assert_eq!(receiver.stats.lost.base, 1);
}

#[test]
fn a_missing_base_frame_is_waited_for_as_long_as_repairs_take() {
    let frames = film("IAPBBAPBBAPBBAIAPBBAPBBAPBBA");
    // It is repaired: none is lost, whatever the delay of the repair, and the delay follows it.
    let mut receiver = live();
    let played = watch(&mut receiver, &frames, &[(5, Some(130))]);
    assert_eq!((played.len(), lost_or_late(&receiver)), (28, (0, 0)));
    assert!(played.iter().map(|it| it.0).eq(0..28), "in order");
    let (held, awaited) = explained(&receiver, 6);
    let awaited = awaited.expect("frame 6 waits for frame 5");
    // Frame 6 was due 30 ms after its emission, which is 70 ms after that of frame 5.
    assert_eq!(held, Span::from_ms(60));
    assert_eq!((awaited.first, awaited.last), (Serial(5), Serial(5)));
    assert_eq!((awaited.frames.base, awaited.frames.e1), (1, 0));
    // The first repair that takes longer than any before is late, the next one is not.
    let mut receiver = live();
    let late = [(5, Some(400)), (19, Some(400))];
    watch(&mut receiver, &frames, &late);
    assert_eq!(lost_or_late(&receiver), (0, 1));
    // No repairs: the picture stands once, for 250 ms, and the playout delay grows by 110 ms.
    let long = film(&"IAPBBAPBBAPBBA".repeat(6));
    let mut receiver = live();
    let lost = [5, 19, 33, 47, 61];
    let never = lost.map(|seq| (seq, None));
    let played = watch(&mut receiver, &long, &never);
    assert_eq!(lost_or_late(&receiver), (5, 0));
    let after = |seq| played.iter().find(|it| it.0 == seq).map(|it| it.1);
    let waits = lost.map(|seq| after(seq + 1).unwrap());
    assert_eq!(waits, [270, 145, 140, 140, 140]);
}

#[test]
fn what_became_of_any_frame_is_explained() {
    use super::super::Fate;
    let frames = film("ISPBBSPBBSIS");
    let mut receiver = live();
    watch(&mut receiver, &frames, &[(4, None), (7, Some(300))]);
    let fate = |seq| receiver.explanations.of(Serial(seq)).unwrap().fate;
    let Fate::Played {
        playout,
        order,
        awaited: None,
        ..
    } = fate(1)
    else {
        panic!("{:?}", fate(1));
    };
    assert_eq!((playout, order), (Span::from_ms(10), Span::ZERO));
    let Fate::Missing { lost, withheld } = fate(4) else {
        panic!("{:?}", fate(4));
    };
    assert_eq!((lost.e2, withheld.e2), (1, 0));
    assert!(matches!(
        fate(7),
        Fate::Late {
            layer: Layer::E2,
            ..
        }
    ));
    let (all, next) = receiver.explanations.since(0);
    // Eleven played or late, and two gaps, of which one was filled too late.
    assert_eq!((all.count() as u64, next), (13, 13));
    assert_eq!(receiver.explanations.since(12).0.count(), 1);
}

/// The frames of a fast start that are 1 ms apart, and live ones behind them.
fn caught_up(receiver: &mut Receiver, late: &[(u32, u64)]) -> Vec<(u32, u64)> {
    let film = film(&format!("I{}", "SPBB".repeat(15)));
    let arrivals = film.into_iter().map(|mut packet| {
        let seq = packet.header.seq.0;
        // Caught up at frame 40: that of 2.6 s.
        let usual = match seq < 40 {
            true => {
                packet.header.passing = packet.header.passing.again();
                2_580 + u64::from(seq)
            }
            false => 1_020 + 40 * u64::from(seq),
        };
        let delay = late.iter().find(|(of, _)| *of == seq).map_or(0, |it| it.1);
        (usual + delay, packet)
    });
    let mut arrivals: Vec<_> = arrivals.collect();
    arrivals.sort_by_key(|(ms, _)| *ms);
    take(receiver, arrivals)
}

#[test]
fn a_fast_start_waits_for_every_frame_and_the_playout_delay_allows_for_its_repairs() {
    for late in [1, 2, 3, 20, 38, 39, 40] {
        let mut receiver = live();
        let played = caught_up(&mut receiver, &[(late, 400)]);
        assert!(played.iter().map(|it| it.0).eq(0..61), "{late}: {played:?}");
        assert_eq!(lost_or_late(&receiver), (0, 0), "{late}");
    }
    // Frames that play to time behind it are repaired as late as those of the fast start were.
    let mut receiver = live();
    let played = caught_up(&mut receiver, &[(3, 300), (45, 250)]);
    let frames = film(&format!("I{}", "SPBB".repeat(15)));
    assert!(in_order(&played, &frames), "{played:?}");
    assert_eq!((played.len(), lost_or_late(&receiver)), (61, (0, 0)));
    let delays = played
        .iter()
        .filter(|it| it.0 > 48)
        .map(|it| it.1 - 1_000 - 40 * u64::from(it.0));
    assert!(
        delays.clone().all(|delay| (300..460).contains(&delay)),
        "{:?}",
        delays.collect::<Vec<_>>()
    );
    // What never comes is given up after 600 ms.
    let mut receiver = live();
    let played = caught_up(&mut receiver, &[(3, 9_000)]);
    let fourth = played.iter().find(|it| it.0 == 4).unwrap();
    assert_eq!(fourth.1, 2_584 + 600);
}

/// How a frame crosses the path: its delay in milliseconds, or never, and whether it arrives twice.
fn fate() -> impl proptest::strategy::Strategy<Value = (Option<u64>, bool)> {
    use proptest::prelude::*;
    let delay = prop_oneof![
        7 => (20..60_u64).prop_map(Some),
        2 => (60..900_u64).prop_map(Some),
        1 => Just(None),
    ];
    (delay, prop::bool::weighted(0.1))
}

proptest::proptest! {
    #[test]
    fn each_frame_is_handed_over_once_or_counted_lost_or_late(
        layers in "[SAPB]{10,90}I",
        fates in proptest::collection::vec(fate(), 91),
        fast in 0..60_u32,
        is_live in proptest::prelude::any::<bool>(),
    ) {
        let mut receiver = if is_live { live() } else { receiver() };
        let frames = film(&format!("I{layers}"));
        let count = frames.len();
        let mut arrivals = Vec::new();
        for (n, mut packet) in frames.into_iter().enumerate() {
            let (delay, twice) = match n.checked_sub(1) {
                // The first one opens the count, and the last one closes all gaps.
                None => (Some(0), false),
                Some(n) if n + 2 == count => (Some(20), fates[n].1),
                Some(n) => fates[n],
            };
            if packet.header.seq.0 < fast {
                packet.header.passing = packet.header.passing.again();
            }
            let sent = 1_000 + 40 * n as u64;
            arrivals.extend(delay.map(|delay| (sent + delay, packet.clone())));
            arrivals.extend(delay.filter(|_| twice).map(|delay| (sent + 2 * delay + 1, packet)));
        }
        arrivals.sort_by_key(|(ms, _)| *ms);
        let played = take(&mut receiver, arrivals);
        // Nothing is waited for any more.
        receiver.play(at(1_000_000), &mut Off);
        let frames = film(&format!("I{layers}"));
        proptest::prop_assert!(in_order(&played, &frames), "{played:?}");
        let (lost, late) = lost_or_late(&receiver);
        let SinkStats { overflow, withheld, .. } = &receiver.stats;
        let overflow = overflow.base + overflow.e1 + overflow.e2;
        // A fast start may have ended before frames in front of the next GOP: then these were not sent.
        let unsent = withheld.base + withheld.e1 + withheld.e2;
        let all = played.len() as u64 + lost + late + overflow + unsent;
        proptest::prop_assert_eq!(all, count as u64);
        for seq in 0..count as u32 {
            proptest::prop_assert!(receiver.explanations.of(Serial(seq)).is_some(), "{}", seq);
        }
    }

    #[test]
    fn no_frame_of_the_base_layer_waits_for_one_of_an_enhancement_layer(
        layers in "[SAPB]{10,90}I",
        fates in proptest::collection::vec(fate(), 92),
    ) {
        let mut receiver = live();
        let frames = film(&format!("I{layers}"));
        let mut late = Vec::new();
        for (packet, (delay, _)) in frames.iter().zip(fates) {
            if packet.header.kind != FrameType::BL {
                late.push((packet.header.seq.0, delay));
            }
        }
        watch(&mut receiver, &frames, &late);
        for packet in &frames {
            let seq = packet.header.seq.0;
            if packet.header.kind == FrameType::BL {
                proptest::prop_assert_eq!(waits(&receiver, seq).1, Span::ZERO, "{}", seq);
            }
        }
    }
}

#[test]
fn frames_that_arrived_while_the_host_was_stopped_are_late_for_that_reason() {
    let flow = FlowInfo {
        spec: FlowSpec {
            delay_max_ms: 1_000,
            ..FlowSpec::default()
        },
        clock: "test".into(),
        ..FlowInfo::new(FlowId(1), "bunny", "atc")
    };
    let mut config = SinkConfig::new("dwp", NodeId(1), "bunny", Carriage::Datagrams);
    config.playout.smallest = true;
    let at = |ms| Time::ZERO + Span::from_ms(ms);
    // Each frame starts a GOP, every 40 ms for 30 s; from 8 s on the host is stopped for 2.
    let run = |is_told: bool| {
        let mut receiver = Receiver::new(Time::ZERO, &config, &flow, &flow.spec);
        let (mut causes, mut last) = (Vec::new(), SignedSpan::ZERO);
        for k in 0..750u32 {
            let sent = 1_000 + 40 * u64::from(k);
            let mut packet = whole(k, Layer::Base, true);
            packet.header.timestamp_us = 1_000 * sent as u32;
            let is_held = (8_000..10_000).contains(&(sent + 5));
            if is_told && is_held {
                receiver.on_stop(at(8_000), at(10_000));
            }
            let now = if is_held { at(10_000) } else { at(sent + 5) };
            receiver.on_packet(now, packet, Level::FULL, &mut Off);
            receiver.play(now, &mut Off);
            for event in receiver.events.drain(..) {
                if let SinkEvent::Playout { from, to, cause } = event {
                    causes.extend((to > from).then_some(cause));
                    last = to;
                }
            }
        }
        let stats = receiver.stats();
        (stats.late.base, stats.late_stopped, causes, last)
    };
    let (late, stopped, causes, last) = run(true);
    // What is more than 1 s late is not played.
    assert!((20..30).contains(&late), "{late}");
    assert_eq!(stopped, late);
    assert!(
        !causes.is_empty() && causes.iter().all(|it| *it == MoveCause::Stopped),
        "{causes:?}"
    );
    assert!(last < SignedSpan::from(Span::from_ms(100)), "{last}");
    let (late, stopped, causes, _) = run(false);
    assert!(late > 20 && stopped == 0, "{late} {stopped}");
    assert!(causes.iter().all(|it| *it == MoveCause::Late));
}
