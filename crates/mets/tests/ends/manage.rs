//! The management interface of source and sink (specs/mets.md 2.2, 2.9, 7): one answer for each request,
//! and nothing changed after a Nak.

use crate::common::{World, ms, sink_config, source_config};
use layercast_core::{
    AdaptMode, Alarm, AlarmOp, Composition, FilterKind, FlowSpec, FrameRate, GroupState, Layer,
    LeaveReason, Level, Machine, Metric, Off, QosOption, QosPolicy, RequestId, Span, Status,
};
use layercast_mets::{
    AppFrame, Sink, SinkConfig, SinkEvent, Source, SourceConfig, SourceEvent, SourceTransmit,
    SubmitError,
};
use layercast_wire::{Carriage, FrameType, LinkPdu, Payload, Signal};

const CARRIAGE: Carriage = Carriage::Datagrams;

/// Codes of the answers the client got, in order.
fn client_codes(world: &World) -> Vec<&'static str> {
    let code = |event: &SinkEvent| match event {
        SinkEvent::Answer { status, .. } => Some(status.code()),
        _ => None,
    };
    world.events.iter().filter_map(|(_, it)| code(it)).collect()
}

fn server_codes(world: &World) -> Vec<&'static str> {
    let code = |event: &SourceEvent| match event {
        SourceEvent::Answer { status, .. } => Some(status.code()),
        _ => None,
    };
    let events = world.source_events.iter();
    events.filter_map(|(_, it)| code(it)).collect()
}

fn spec(change: impl FnOnce(&mut FlowSpec)) -> QosOption {
    let mut spec = source_config(CARRIAGE, 300).flow.spec;
    change(&mut spec);
    QosOption::FlowSpec(spec)
}

fn ask_client(world: &mut World, option: QosOption) {
    let now = world.now;
    world.sink.request(now, RequestId(1), option);
    world.run_until(now);
}

fn ask_server(world: &mut World, option: QosOption) {
    let now = world.now;
    world.source.request(now, RequestId(2), option);
    world.run_until(now);
}

/// How many of the upcalls of the client since `from` are meant.
fn upcalls(world: &World, from: u64, meant: impl Fn(&SinkEvent) -> bool) -> usize {
    let since = world.events.iter().filter(|(at, _)| *at >= ms(from));
    since.filter(|(_, event)| meant(event)).count()
}

fn is_signal(event: &SinkEvent) -> bool {
    matches!(event, SinkEvent::Metric(_))
}

#[test]
fn nothing_is_served_before_the_sockets_are_registered() {
    let mut source = Source::new(SourceConfig {
        registered: false,
        ..source_config(CARRIAGE, 300)
    })
    .unwrap();
    let frame = AppFrame {
        layer: Layer::Base,
        gop_start: true,
        sound: false,
        payload: Payload::Zeros(99),
        time: None,
    };
    let refused = source.submit(ms(0), frame.clone()).unwrap_err();
    assert_eq!(refused, SubmitError::NotRegistered);
    source.request(ms(0), RequestId(7), QosOption::Maint);
    let answer = SourceEvent::Answer {
        id: RequestId(7),
        status: Status::NotRegistered,
    };
    assert_eq!(source.poll_event(), Some(answer));
    assert_eq!(source.poll_event(), None);
    source.register();
    assert!(matches!(source.poll_event(), Some(SourceEvent::NeedFrames(room)) if room > 0));
    assert_eq!(source.submit(ms(0), frame), Ok(()));

    let unregistered = SinkConfig {
        registered: false,
        ..sink_config(CARRIAGE)
    };
    let mut world = World::new(source_config(CARRIAGE, 300), unregistered, 8);
    world.run_until(ms(500));
    ask_client(&mut world, QosOption::Maint);
    assert_eq!(client_codes(&world), ["ENOTREG"]);
    assert_eq!((world.sink.joined(), world.events.len()), (false, 1));
    world.sink.register(ms(500));
    world.run_until(ms(3_000));
    assert!(world.sink.stats().played.base > 0);
}

#[test]
fn the_state_of_an_input_is_advertised_once_and_no_change_of_the_flow() {
    let mut source = Source::new(source_config(CARRIAGE, 300)).unwrap();
    let advertised = |source: &mut Source, (pace, damaged)| {
        source.set_input(pace, damaged);
        let mut all = Vec::new();
        while let Some(out) = source.poll_transmit(ms(0), &mut Off) {
            if let SourceTransmit::Signal(Signal::Advertise { flow }) = out {
                all.push(flow);
            }
        }
        all
    };
    let first = advertised(&mut source, (None, 3));
    for state in [(Some(850), 3), (None, 3), (None, 4)] {
        let [flow] = &advertised(&mut source, state)[..] else {
            panic!("{state:?}");
        };
        assert_eq!((flow.media_ms_per_s, flow.input_damaged), state);
        assert!(flow.is_same(&first[0]) && !flow.succeeds(&first[0]));
        assert_eq!(advertised(&mut source, state), []);
    }
    source.fail_input();
    let [flow] = &advertised(&mut source, (None, 4))[..] else {
        panic!("a failure is advertised");
    };
    assert!(flow.input_failed && flow.is_same(&first[0]));
}

#[test]
fn layers_of_a_flow_stay_what_they_are_to_each_other() {
    let mut world = World::perfect(CARRIAGE, 8);
    world.run_until(ms(1_000));
    let before = (world.source.flow().clone(), world.sink.group_info());
    let alternative = |spec: &mut FlowSpec| spec.composition = Composition::Alternative;
    ask_server(&mut world, spec(alternative));
    ask_client(&mut world, spec(alternative));
    world.run_until(ms(3_000));
    let answers = world.source_events.iter().filter_map(|it| match &it.1 {
        SourceEvent::Answer { status, .. } => Some(status.to_string()),
        _ => None,
    });
    let text = "composition is alternative and cannot follow additive: close the flow and open one with alternative layers";
    assert_eq!(answers.collect::<Vec<_>>(), [text]);
    let client = world.events.iter().filter_map(|it| match &it.1 {
        SinkEvent::Answer { status, .. } => Some(status.clone()),
        _ => None,
    });
    let refused =
        |status: &Status| matches!(status, Status::Policy { field, .. } if field == "composition");
    assert!(client.map(|it| refused(&it)).eq([true]));
    assert_eq!(
        before,
        (world.source.flow().clone(), world.sink.group_info())
    );
}

#[test]
fn alternative_layers_have_the_jitter_filter_and_no_other() {
    let config = |change: fn(&mut QosPolicy)| {
        let mut config = source_config(CARRIAGE, 300);
        config.flow.spec.composition = Composition::Alternative;
        change(&mut config.flow.policy);
        config
    };
    assert!(
        Source::new(config(|policy| policy
            .filters
            .push(FilterKind::PictureDrop)))
        .is_err()
    );
    assert!(Source::new(config(|policy| policy.adapt = AdaptMode::Continuous)).is_err());
    let config = config(|_| ());
    assert_eq!(config.flow.policy.filters, [FilterKind::Jitter]);
    let mut source = Source::new(config).unwrap();
    let drop = QosOption::Filter(vec![FilterKind::PictureDrop]);
    let wishes = [QosOption::Adapt(AdaptMode::Continuous), drop];
    for (id, wish) in (1..).zip(wishes) {
        source.request(ms(0), RequestId(id), wish);
    }
    let answers = std::iter::from_fn(|| source.poll_event()).filter_map(|event| match event {
        SourceEvent::Answer { status, .. } => Some(status.code()),
        _ => None,
    });
    assert_eq!(answers.collect::<Vec<_>>(), ["EINVAL", "ENOFILTER"]);
}

/// Late frames, and pictures of the highest rendition that are lost and that were played, where sound takes 55 ms less than pictures.
fn overtaken(filters: &[FilterKind]) -> (u64, u64, u64) {
    let mut source = source_config(CARRIAGE, 300);
    source.flow.spec.composition = Composition::Alternative;
    source.flow.policy.filters = filters.to_vec();
    let mut sink = sink_config(CARRIAGE);
    sink.policy.filters = filters.to_vec();
    sink.playout.delay = Some(Span::from_ms(300));
    let mut world = World::new(source, sink, 0);
    world.media = Box::new((0..24 * 5 * 4).map(|n: u64| AppFrame {
        layer: *Layer::ALL.get(n as usize % 4).unwrap_or(&Layer::Base),
        gop_start: (n / 4).is_multiple_of(12) && n % 4 < 3,
        sound: n % 4 == 3,
        time: Some(Span::from_secs(1).mul_div(n / 4, 24)),
        payload: Payload::Zeros(400),
    }));
    world.down = Box::new(|_, pdu| match pdu {
        LinkPdu::Mets(packet) if packet.header.kind != FrameType::COMMON => {
            vec![Span::from_ms(60)]
        }
        _ => vec![Span::from_ms(5)],
    });
    world.run_until(ms(7_000));
    let stats = world.sink.stats();
    (stats.late.total(), stats.lost.e2, stats.played.e2)
}

#[test]
fn pictures_of_a_rendition_that_sound_overtakes_are_in_time_with_the_jitter_filter() {
    let (late, lost, played) = overtaken(&[FilterKind::Jitter]);
    assert_eq!((late, lost), (0, 0));
    assert!(played > 24 * 3, "{played}");
    // Without it frames are handed over as they come.
    let (late, ..) = overtaken(&[]);
    assert!(late > 24, "{late}");
}

#[test]
fn a_structure_that_contradicts_itself_is_refused_with_its_field_and_changes_nothing() {
    let mut world = World::perfect(CARRIAGE, 8);
    world.run_until(ms(1_000));
    let before = (world.source.flow().clone(), world.sink.group_info());
    type Spoil = fn(&mut FlowSpec);
    let nonsense: [(Spoil, &str); 5] = [
        (|s| s.frame_rate.num = 0, "frame_rate"),
        (|s| s.layers.e1.peak.0 = 1, "layers"),
        (|s| s.layers.e1.mean.0 = 0, "layers"),
        (|s| s.max_frame = 0, "max_frame"),
        (|s| s.max_frame = 1 << 24, "max_frame"),
    ];
    for (change, field) in nonsense {
        ask_client(&mut world, spec(change));
        ask_server(&mut world, spec(change));
        let named =
            |status: &Status| matches!(status, Status::Invalid { field: it, .. } if it == field);
        let client = world.events.last().map(|(_, event)| event);
        assert!(matches!(client, Some(SinkEvent::Answer { status, .. }) if named(status)));
        let server = world.source_events.last().map(|(_, event)| event);
        assert!(matches!(server, Some(SourceEvent::Answer { status, .. }) if named(status)));
    }
    let alarm = QosOption::Event(Alarm {
        metric: Metric::Loss,
        op: AlarmOp::Above,
        threshold: f64::NAN,
        window_ms: 100,
        hysteresis: 0.0,
        oneshot: false,
    });
    ask_client(&mut world, alarm);
    assert_eq!(client_codes(&world), ["EINVAL"; 6]);
    assert_eq!(
        before,
        (world.source.flow().clone(), world.sink.group_info())
    );
}

#[test]
fn the_modes_say_who_maintains_and_who_signals() {
    let mut world = World::perfect(CARRIAGE, 40);
    world.run_until(ms(4_500));
    assert!(upcalls(&world, 0, is_signal) > 0);
    ask_client(&mut world, QosOption::Maint);
    ask_server(&mut world, QosOption::Maint);
    world.run_until(ms(8_500));
    assert_eq!(upcalls(&world, 4_500, is_signal), 0);
    let metrics = |world: &World, from: u64| {
        let since = world.source_events.iter().filter(|(at, _)| *at > ms(from));
        since
            .filter(|(_, event)| matches!(event, SourceEvent::Metric(_)))
            .count()
    };
    assert_eq!((metrics(&world, 0), metrics(&world, 4_500)), (4, 0));
    ask_client(&mut world, QosOption::Signal);
    ask_server(&mut world, QosOption::Signal);
    world.run_until(ms(12_500));
    assert!(upcalls(&world, 8_500, is_signal) > 0);
    assert_eq!(metrics(&world, 8_500), 4);
    assert_eq!(client_codes(&world), ["OK", "OK"]);
    assert_eq!(server_codes(&world), ["OK", "OK"]);
}

#[test]
fn without_the_jitter_filter_frames_are_played_as_they_come() {
    let mut world = World::perfect(CARRIAGE, 16);
    world.run_until(ms(3_000));
    ask_client(&mut world, QosOption::Filter(Vec::new()));
    let changed = |event: &SinkEvent| matches!(event, SinkEvent::FilterChanged(_));
    assert!(upcalls(&world, 3_000, changed) > 0);
    world.run_until(ms(20_000));
    let waits = |from: u64, to: u64| -> Vec<u64> {
        let during = world
            .events
            .iter()
            .filter(|(at, _)| (ms(from)..ms(to)).contains(at));
        let frames = during.filter_map(|(_, event)| match event {
            SinkEvent::Frame(frame) => Some(frame.deadline.since(frame.arrived).as_ms()),
            _ => None,
        });
        frames.collect()
    };
    assert!(waits(2_000, 3_000).iter().all(|&wait| wait > 0));
    let later = waits(4_500, 7_000);
    assert!(later.len() > 40 && later.iter().all(|&wait| wait == 0));
    ask_client(&mut world, QosOption::Filter(vec![FilterKind::LowPass(9)]));
    assert_eq!(client_codes(&world), ["OK", "ECLOSED"]);
}

#[test]
fn alarms_come_and_go_at_run_time() {
    let mut world = World::perfect(CARRIAGE, 40);
    world.run_until(ms(3_000));
    let rate = Alarm {
        metric: Metric::Rate,
        op: AlarmOp::Above,
        threshold: 1.0,
        window_ms: 500,
        hysteresis: 0.0,
        oneshot: false,
    };
    ask_client(&mut world, QosOption::Event(rate));
    ask_server(&mut world, QosOption::Event(rate));
    world.run_until(ms(6_000));
    // Once per crossing, and the rate stays above.
    let fired =
        |event: &SinkEvent| matches!(event, SinkEvent::Alarm(raised) if raised.alarm == rate);
    assert_eq!(upcalls(&world, 3_000, fired), 1);
    let alarms = world.source_events.iter();
    let alarms = alarms.filter(|(_, event)| matches!(event, SourceEvent::Alarm(_)));
    assert_eq!(alarms.count(), 1);
    ask_client(
        &mut world,
        QosOption::Event(Alarm {
            window_ms: 0,
            ..rate
        }),
    );
    ask_client(&mut world, QosOption::QosPolicy(QosPolicy::default()));
    world.run_until(ms(9_000));
    assert_eq!(upcalls(&world, 6_001, fired), 0);
    assert_eq!(client_codes(&world), ["OK", "OK", "OK"]);
}

#[test]
fn a_server_changes_the_frame_rate_at_a_gop_start_and_nothing_is_lost() {
    for carriage in [Carriage::Datagrams, Carriage::Cells] {
        let mut world = World::perfect(carriage, 30);
        world.run_until(ms(4_000));
        let faster = FrameRate { num: 48, den: 1 };
        ask_server(&mut world, spec(|spec| spec.frame_rate = faster));
        world.run_until(ms(30_000));
        assert_eq!(server_codes(&world), ["OK"]);
        let changed = world.events.iter().find_map(|(_, event)| match event {
            SinkEvent::Renegotiated { flow } => Some((flow.spec.frame_rate, flow.revision)),
            _ => None,
        });
        assert_eq!(changed, Some((faster, 1)));
        let frames = world.events.iter().filter_map(|(_, event)| match event {
            SinkEvent::Frame(frame) => Some((frame.emitted.as_us(), frame.gop_start)),
            _ => None,
        });
        let frames: Vec<_> = frames.collect();
        let steps: Vec<u64> = frames
            .windows(2)
            .map(|pair| pair[1].0 - pair[0].0)
            .collect();
        let first = steps.iter().position(|&step| step < 30_000).unwrap();
        assert!(frames[first].1, "the new rate counts from a GOP start");
        assert!(
            steps[first..]
                .iter()
                .all(|&step| (20_832..20_835).contains(&step))
        );
        let stats = world.sink.stats();
        assert_eq!((stats.lost, stats.late), Default::default());
        assert_eq!(stats.played.base, 30);
    }
}

#[test]
fn a_source_that_holds_a_frame_back_gets_more_as_soon_as_it_is_granted() {
    // Declared from black pictures, while key frames take 240 cells twice a second.
    let mut config = source_config(CARRIAGE, 300);
    let declared = &mut config.flow.spec;
    declared.max_frame = 240 * 48 - 40;
    for layer in Layer::ALL {
        declared.layers[layer].mean.0 = 12;
    }
    let mut world = World::new(config, sink_config(CARRIAGE), 30);
    world.run_until(ms(2_000));
    assert!(world.source.stats().sent.base < 4, "frames are held back");
    ask_server(&mut world, spec(|_| {}));
    world.run_until(ms(12_000));
    assert_eq!(server_codes(&world), ["OK"]);
    let granted = world
        .source_events
        .iter()
        .find_map(|(at, event)| matches!(event, SourceEvent::Renegotiated { .. }).then_some(*at));
    // The question and the answer take 1 ms each. The next GOP start would leave seconds later.
    assert_eq!(granted, Some(ms(2_002)));
    // What waited has left, and 15 s of media are sent in 12 s from then on.
    assert_eq!(world.source.stats().dropped.base, 0);
    assert!(
        world.source.stats().sent.base >= 20,
        "{:?}",
        world.source.stats().sent
    );
}

#[test]
fn a_host_that_cannot_take_more_refuses_for_all() {
    let weak = SinkConfig {
        local_limit: Some(layercast_core::CellRate(600)),
        ..sink_config(CARRIAGE)
    };
    let mut world = World::new(source_config(CARRIAGE, 300), weak, 16);
    world.run_until(ms(2_000));
    ask_server(&mut world, spec(|spec| spec.layers.base.mean.0 = 700));
    world.run_until(ms(4_000));
    let answer = world
        .source_events
        .iter()
        .find_map(|(_, event)| match event {
            SourceEvent::Answer { status, .. } => Some(status.to_string()),
            _ => None,
        });
    let expected = "dwp: not enough receiver capacity: needs 296.8 kbit/s (700 cells/s), has 254.4 kbit/s \
                    (600 cells/s), 42.4 kbit/s short";
    assert_eq!(answer.as_deref(), Some(expected));
    assert_eq!(world.source.flow().revision, 0);
    assert_eq!(world.source.group_info().spec.layers.base.mean.0, 480);
}

#[test]
fn an_upcall_queue_that_nobody_empties_merges_signals_and_keeps_events() {
    let mut source = Source::new(source_config(CARRIAGE, 300)).unwrap();
    for second in 1..=1_500 {
        source.on_timeout(ms(1_000 * second), &mut Off);
        source.request(ms(1_000 * second), RequestId(0), QosOption::Monitor);
    }
    assert!(source.stats().merged_signals > 900);
    let events: Vec<_> = std::iter::from_fn(|| source.poll_event()).collect();
    let answers = events
        .iter()
        .filter(|event| matches!(event, SourceEvent::Answer { .. }));
    assert_eq!(answers.count(), 1_500);
    let signals = events
        .iter()
        .filter(|event| matches!(event, SourceEvent::Metric(_)));
    assert!(signals.count() <= 600);
}

#[test]
fn a_group_tells_what_it_is_and_ends_with_its_grace_time() {
    let mut world = World::perfect(CARRIAGE, 40);
    world.run_until(ms(2_000));
    let info = world.source.group_info();
    assert_eq!(
        (info.state, info.members, info.layers.len()),
        (GroupState::Open, 1, 3)
    );
    assert_eq!((info.server.as_str(), info.svc), ("atc", None));
    let stats = world.source.member_stats(ms(2_000));
    assert_eq!(stats[0].member.name, "dwp");
    assert_eq!(
        (stats[0].wanted, stats[0].level),
        (Level::FULL, Level::FULL)
    );
    world.source.end_within(ms(2_000), Span::from_ms(100));
    ask_server(&mut world, QosOption::Maint);
    assert_eq!(server_codes(&world), ["ECLOSED"]);
    assert_eq!(world.source.group_info().state, GroupState::Draining);
    world.run_until(ms(9_000));
    assert_eq!(world.source.group_info().state, GroupState::Closed);
    let closed = world.events.iter().find_map(|(_, event)| match event {
        SinkEvent::Closed { undelivered } => Some(*undelivered > 0),
        _ => None,
    });
    assert_eq!(closed, Some(true));
}

#[test]
fn a_client_that_leaves_is_closed_and_a_wish_of_its_own_is_kept_when_it_joins() {
    let mut wish = source_config(CARRIAGE, 300).flow.spec;
    wish.layers.e2 = Default::default();
    let modest = SinkConfig {
        spec: Some(wish.clone()),
        ..sink_config(CARRIAGE)
    };
    let mut world = World::new(source_config(CARRIAGE, 300), modest, 20);
    world.run_until(ms(5_000));
    assert_eq!(world.sink.level(), Level::E1);
    world.sink.leave(LeaveReason::User);
    assert_eq!(world.sink.left(), Some(LeaveReason::User));
    world.run_until(ms(6_000));
    ask_client(&mut world, QosOption::Maint);
    assert_eq!(client_codes(&world), ["ECLOSED"]);
    assert_eq!(world.source.stats().members, 0);

    wish.gop_n = 24;
    let stubborn = SinkConfig {
        spec: Some(wish),
        ..sink_config(CARRIAGE)
    };
    let mut world = World::new(source_config(CARRIAGE, 300), stubborn, 4);
    world.run_until(ms(1_000));
    let refused = |event: &SinkEvent| matches!(event, SinkEvent::Refused(_));
    assert!(upcalls(&world, 0, refused) > 0);
    let fresh = Sink::new(sink_config(CARRIAGE));
    assert_eq!(fresh.group_info(), None);
}
