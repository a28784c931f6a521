//! The two ends of the QoS adapter, and the session between them.

use crate::common::*;
use layercast_core::{CellRate, FlowId, Layer, Level, NodeId, PerLayer, Span, Time};
use layercast_mets::{
    FlowLog, LevelReason, SinkEvent, SinkInput, Source, SourceEvent, SourceInput,
};
use layercast_wire::{Carriage, Epoch, LinkPdu, Member, MemberReport, Refusal, Resource, Signal};

#[test]
fn the_preferred_level_is_asked_for_at_once_and_granted_at_a_gop_start() {
    let mut world = World::perfect(Carriage::Datagrams, 20);
    world.run_until(ms(9_000));
    let levels = world.levels();
    assert_eq!(levels.len(), 1);
    assert_eq!(levels[0].1, Level::FULL);
    assert!(levels[0].0 < ms(1_100), "within the first era: {levels:?}");
    let rates: Vec<_> = world
        .source_events
        .iter()
        .filter_map(|(_, event)| match event {
            SourceEvent::RateChanged { from, to, rate } => Some((*from, *to, *rate)),
            _ => None,
        })
        .collect();
    assert_eq!(rates, [(Level::BASE, Level::FULL, CellRate(3_360))]);

    let mut log = FlowLog::new("dwp", "wide", Time::ZERO);
    for (at, event) in &world.events {
        log.on_event(*at, event);
    }
    let summary = log.finish();
    assert_eq!(summary.off_boundary, 0);
    let received: Vec<_> = summary.received.iter().map(|entry| entry.1).collect();
    assert_eq!(received, [Level::BASE, Level::FULL]);
    assert_eq!(summary.series.len(), 9);
    assert!(summary.adapter.iter().any(|entry| entry.kind == "RES"));
}

#[test]
fn who_asks_at_once_gets_its_level_with_the_first_gop() {
    let mut source = source_config(Carriage::Datagrams, 300);
    source.start = ms(30);
    let mut sink = sink_config(Carriage::Datagrams);
    sink.asks_at_once = true;
    let mut world = World::new(source, sink, 4);
    world.run_until(ms(60_000));
    let stats = world.sink.stats();
    assert_eq!(stats.played, world.source.stats().sent);
    assert_eq!(
        (stats.played.base, stats.played.e1, stats.played.e2),
        (4, 12, 32)
    );
    // One immediately, then one an era.
    assert!((3..=4).contains(&stats.res), "{}", stats.res);
}

#[test]
fn a_receiver_of_a_lower_level_gets_only_its_layers() {
    let mut sink = sink_config(Carriage::Cells);
    sink.level = Level::E1;
    let mut world = World::new(source_config(Carriage::Cells, 300), sink, 20);
    world.run_until(ms(20_000));
    let stats = world.sink.stats();
    assert!(stats.played.e1 > 40);
    assert_eq!((stats.played.e2, stats.lost.e2), (0, 0));
    assert!(stats.withheld.e2 > 140);
}

#[test]
fn without_adapt_a_sink_falls_to_the_base_level_and_says_so() {
    let mut world = World::perfect(Carriage::Datagrams, 40);
    world.down = Box::new(|now, pdu| match pdu {
        LinkPdu::Adapter(_) if now > ms(4_000) => vec![],
        _ => vec![Span::from_ms(5)],
    });
    world.run_until(ms(10_000));
    let levels = world.levels();
    assert_eq!(levels.last().unwrap().1, Level::BASE);
    let reason = world
        .events
        .iter()
        .rev()
        .find_map(|(at, event)| match event {
            SinkEvent::Level { reason, .. } => Some((*at, *reason)),
            _ => None,
        });
    let (at, reason) = reason.unwrap();
    assert_eq!(reason, LevelReason::Silent);
    assert!(at > ms(6_000) && at <= ms(7_010), "{at}");
    assert_eq!(world.count(|event| *event == SinkEvent::AdapterSilent), 1);
    assert_eq!(world.sink.stats().lost, Default::default());
}

#[test]
fn without_res_a_source_falls_to_the_base_level_in_three_eras() {
    let mut world = World::perfect(Carriage::Datagrams, 40);
    world.up = Box::new(|now, _| {
        if now > ms(4_000) {
            return vec![];
        }
        vec![Span::from_ms(5)]
    });
    world.run_until(ms(10_000));
    let silent = world
        .source_events
        .iter()
        .find(|(_, event)| *event == SourceEvent::AdapterSilent);
    let at = silent.unwrap().0;
    assert!(at > ms(6_000) && at <= ms(7_010), "{at}");
    let levels = world.levels();
    assert_eq!(levels.last().unwrap().1, Level::BASE);
    assert_eq!(world.sink.stats().lost, Default::default());
}

#[test]
fn an_adapt_of_an_older_era_is_ignored() {
    let mut world = World::perfect(Carriage::Datagrams, 4);
    world.up = Box::new(|_, _| vec![]);
    world.run_until(ms(500));
    world.input(adapt(u32::MAX, Level::E1));
    world.input(adapt(2, Level::FULL));
    world.input(adapt(u32::MAX - 1, Level::BASE));
    let levels: Vec<_> = world.levels().into_iter().map(|entry| entry.1).collect();
    assert_eq!(levels, [Level::E1, Level::FULL]);
    assert_eq!(world.sink.stats().adapt_stale, 1);
}

#[test]
fn forged_adapts_of_a_far_era_lower_nothing_and_keep_none_of_the_source_out() {
    let mut world = World::perfect(Carriage::Datagrams, 4);
    world.up = Box::new(|_, _| vec![]);
    world.run_until(ms(500));
    world.input(adapt(5, Level::FULL));
    for _ in 0..20 {
        world.input(adapt(1 << 30, Level::BASE));
    }
    world.input(adapt(6, Level::E1));
    // Some that count on are believed, as a source that started again would be, and then the source is.
    world.input(adapt(1 << 29, Level::BASE));
    world.input(adapt(1 << 29 | 1, Level::BASE));
    world.input(adapt(7, Level::FULL));
    world.input(adapt(8, Level::FULL));
    let levels: Vec<_> = world.levels().into_iter().map(|entry| entry.1).collect();
    assert_eq!(levels, [Level::FULL, Level::E1, Level::BASE, Level::FULL]);
    assert_eq!(world.sink.stats().adapt_stale, 22);
}

#[test]
fn congestion_lowers_the_wish_and_the_level() {
    let mut world = World::perfect(Carriage::Datagrams, 40);
    world.run_until(ms(5_000));
    let LinkPdu::Mets(mut packet) = any_packet() else {
        unreachable!()
    };
    packet.congestion = true;
    world.input(SinkInput::Pdu(LinkPdu::Mets(packet)));
    world.run_until(ms(7_500));
    let levels: Vec<_> = world.levels().into_iter().map(|entry| entry.1).collect();
    assert_eq!(levels[..2], [Level::FULL, Level::E1]);
    assert!(world.count(|event| *event == SinkEvent::Congestion(true)) == 1);
}

#[test]
fn a_source_never_gives_more_than_its_host_can_send() {
    let mut config = source_config(Carriage::Datagrams, 300);
    config.local_limit = Some(CellRate(1_440));
    let mut world = World::new(config, sink_config(Carriage::Datagrams), 20);
    world.run_until(ms(5_000));
    assert_eq!(world.sink.level(), Level::E1);

    let mut config = source_config(Carriage::Datagrams, 300);
    config.local_limit = Some(CellRate(479));
    let mut world = World::new(config, sink_config(Carriage::Datagrams), 20);
    world.run_until(ms(5_000));
    let refusals: Vec<&Refusal> = world
        .events
        .iter()
        .filter_map(|(_, event)| match event {
            SinkEvent::Refused(refusal) => Some(refusal),
            _ => None,
        })
        .collect();
    assert_eq!(refusals.len(), 1, "refused once, not retried");
    assert_eq!((refusals[0].needed, refusals[0].available), (480, 479));
    assert_eq!(world.sink.stats().joins, 1);
    world.input(SinkInput::Rejoin);
    assert_eq!(world.sink.stats().joins, 2);
}

#[test]
fn members_are_counted_reported_and_limited() {
    let mut config = source_config(Carriage::Datagrams, 300);
    config.max_members = 1;
    let mut world = World::new(config, sink_config(Carriage::Datagrams), 40);
    world.run_until(ms(5_000));
    let members = || Member {
        name: "mr-little".into(),
        id: NodeId(5),
    };
    let join = Signal::Join {
        flow: world.source.flow().id,
        epoch: layercast_wire::Epoch::default(),
        member: members(),
        level: Level::E1,
        proof: None,
        again: false,
        answer: None,
    };
    let answer = ask(&mut world, join);
    let [Signal::JoinNak { refusal, .. }] = &answer[..] else {
        panic!("{answer:?}");
    };
    assert_eq!(refusal.resource, Resource::TooManyMembers);

    let answer = ask(&mut world, Signal::GetStats { flow: None });
    let [Signal::Stats { members }] = &answer[..] else {
        panic!("{answer:?}");
    };
    assert_eq!(members.len(), 1);
    assert_eq!(members[0].level, Level::FULL);
    let report = members[0].report.unwrap();
    assert!(
        report.frames.base >= 7 && report.playout_ms == 300.0,
        "{report:?}"
    );

    world.input(SinkInput::Leave);
    world.run_until(ms(5_100));
    assert!(matches!(
        world.source_events.last(),
        Some((_, SourceEvent::MemberLeft(_)))
    ));
    assert!(matches!(
        world.events.last(),
        Some((_, SinkEvent::Closed { undelivered: 0 }))
    ));
    assert_eq!(world.source.stats().members, 0);
}

#[test]
fn a_member_that_stops_reporting_is_stale_and_one_that_only_reports_is_known() {
    let mut world = World::perfect(Carriage::Datagrams, 40);
    world.cut = true;
    world.run_until(ms(1_000));
    let report = Signal::Report {
        flow: world.source.flow().id,
        member: Member {
            name: "behind a switch".into(),
            id: NodeId(8),
        },
        report: Box::new(MemberReport::default()),
    };
    world.send_to_source(SourceInput::Signal(report));
    world.run_until(ms(6_000));
    let kinds: Vec<_> = world
        .source_events
        .iter()
        .filter(|(_, event)| !matches!(event, SourceEvent::NeedFrames(_) | SourceEvent::Metric(_)))
        .map(|(at, event)| {
            (
                at.as_us() / 1_000,
                matches!(event, SourceEvent::MemberStale(_)),
            )
        })
        .collect();
    assert_eq!(kinds, [(1_000, false), (4_000, true)]);
}

#[test]
fn a_join_that_is_not_answered_is_sent_again() {
    let mut world = World::perfect(Carriage::Datagrams, 4);
    world.cut = true;
    world.advertise();
    world.run_until(ms(12_000));
    assert_eq!(world.sink.stats().joins, 3);
}

#[test]
fn a_source_that_starts_anew_is_played_from_its_first_gop_on() {
    let mut world = World::perfect(Carriage::Datagrams, 200);
    world.run_until(ms(60_000));
    let before = world.sink.stats().played.base;
    let mut config = source_config(Carriage::Datagrams, 300);
    config.start = world.now;
    world.source = Source::new(config).unwrap();
    world.input(SinkInput::LinkDown);
    world.input(SinkInput::LinkUp);
    world.run_until(ms(70_000));
    let stats = world.sink.stats();
    assert!(stats.played.base >= before + 18, "{stats:?}");
    assert_eq!(stats.lost[Layer::Base], 0);
    assert_eq!(world.sink.level(), Level::FULL);
}

/// The same source in another life.
fn life(epoch: u64, world: &World<'_>) -> Source {
    let mut config = source_config(Carriage::Datagrams, 300);
    config.flow.epoch = Epoch(epoch << 16);
    config.start = world.now;
    Source::new(config).unwrap()
}

#[test]
fn another_life_of_a_flow_is_joined_anew_and_played_behind_the_first() {
    let mut world = World::perfect(Carriage::Datagrams, 20);
    world.run_until(ms(4_600));
    assert_eq!(world.sink.level(), Level::FULL);
    let before = world.sink.stats();
    // It is advertised while the first is joined: nothing between noticed the restart.
    let source = life(5, &world);
    world.replace_source(source, 20);
    world.run_until(ms(4_610));
    assert_eq!(world.sink.level(), Level::BASE, "nothing is granted yet");
    world.run_until(ms(9_000));
    let stats = world.sink.stats();
    assert_eq!(stats.joins, before.joins + 1);
    assert!(stats.played.base >= before.played.base + 7, "{stats:?}");
    assert_eq!(stats.lost, PerLayer::default());
    assert_eq!(stats.outage, PerLayer::default());
    assert_eq!(world.sink.level(), Level::FULL);
    let numbers: Vec<_> = world.played().map(|it| (it.count, it.seq.0)).collect();
    assert!(numbers.is_sorted(), "{numbers:?}");
    let (first, second) = (numbers[0], numbers[numbers.len() - 1]);
    assert_eq!((first.0, second.0), (0, 1));
    let restarted = |event: &SinkEvent| matches!(event, SinkEvent::Level { reason: LevelReason::Restarted, to, .. } if *to == Level::BASE);
    assert_eq!(world.count(restarted), 1);
}

#[test]
fn another_flow_of_the_same_name_is_played_behind_the_first_with_another_count() {
    let mut world = World::perfect(Carriage::Datagrams, 20);
    world.run_until(ms(4_600));
    world.input(SinkInput::LinkDown);
    let mut config = source_config(Carriage::Datagrams, 300);
    config.flow.id = FlowId(config.flow.id.0 ^ 1);
    config.start = world.now;
    world.replace_source(Source::new(config).unwrap(), 20);
    world.input(SinkInput::LinkUp);
    world.run_until(ms(9_000));
    let numbers: Vec<_> = world.played().map(|it| (it.count, it.seq.0)).collect();
    assert!(numbers.is_sorted(), "{numbers:?}");
    assert_eq!((numbers[0].0, numbers[numbers.len() - 1].0), (0, 1));
}

#[test]
fn a_silence_before_another_flow_of_the_name_is_an_outage_and_counts_continue() {
    let mut world = World::perfect(Carriage::Datagrams, 20);
    world.run_until(ms(4_600));
    let before = world.sink.stats();
    // The server is killed, and the next one has another identity.
    world.input(SinkInput::LinkDown);
    world.cut = true;
    let mut config = source_config(Carriage::Datagrams, 300);
    config.flow.id = FlowId(config.flow.id.0 ^ 1);
    config.start = ms(12_000);
    world.replace_source(Source::new(config).unwrap(), 20);
    world.run_until(ms(12_000));
    world.cut = false;
    world.advertise();
    world.run_until(ms(16_000));
    let stats = world.sink.stats();
    let last = world.played().filter(|it| it.count == 0).last().unwrap();
    let next = world.played().find(|it| it.count == 1).unwrap();
    let dark = next.deadline.since(last.deadline).as_ms();
    assert!(dark > 7_000, "{dark}");
    assert!(stats.outage_ms.abs_diff(dark) < 100, "{dark}: {stats:?}");
    assert!(stats.played.base > before.played.base, "{stats:?}");
    assert!(stats.packets > before.packets, "{stats:?}");
    assert_eq!(stats.played.total(), world.played().count() as u64);
    let members = world.source.member_stats(world.now);
    let report = members[0].report;
    let report = report.unwrap();
    assert_eq!(report.outage_ms, stats.outage_ms);
    assert!(report.frames.base > before.played.base, "{report:?}");
}

#[test]
fn media_of_a_life_that_is_over_are_counted_and_not_played() {
    let mut world = World::perfect(Carriage::Datagrams, 20);
    world.run_until(ms(3_000));
    let source = life(5, &world);
    world.replace_source(source, 20);
    world.run_until(ms(6_000));
    let played = world.played().count();
    world.input(SinkInput::Pdu(any_packet()));
    assert_eq!(world.sink.stats().dropped.life, 1);
    assert_eq!(world.played().count(), played);
}

#[test]
fn a_join_for_another_life_is_not_answered() {
    let mut world = World::perfect(Carriage::Datagrams, 2);
    let join = |epoch| Signal::Join {
        flow: world.source.flow().id,
        epoch,
        member: Member {
            name: "late".into(),
            id: NodeId(9),
        },
        level: Level::FULL,
        proof: None,
        again: false,
        answer: None,
    };
    let [other, ours] = [join(Epoch(7)), join(Epoch(0))];
    let answer = ask(&mut world, other);
    assert!(
        matches!(answer[..], [Signal::Advertise { .. }]),
        "{answer:?}"
    );
    assert_eq!(world.source.stats().rejected, 1);
    let answer = ask(&mut world, ours);
    assert!(matches!(answer[..], [Signal::JoinAck { .. }]), "{answer:?}");
}

#[test]
fn a_second_flow_of_the_name_is_joined_when_the_first_is_withdrawn() {
    let mut world = World::perfect(Carriage::Datagrams, 20);
    world.run_until(ms(2_000));
    let first = world.source.flow().clone();
    let mut second = first.clone();
    second.id = FlowId(8);
    world.input(SinkInput::Signal(Signal::Advertise {
        flow: Box::new(second),
    }));
    assert!(world.sink.joined());
    let reason = "gone".to_owned();
    let flow = first.id;
    world.input(SinkInput::Signal(Signal::Withdraw { flow, reason }));
    let joins = world.sink.stats().joins;
    assert_eq!(joins, 2, "it asks for the second immediately");
}

fn ask(world: &mut World<'_>, signal: Signal) -> Vec<Signal> {
    use layercast_core::{Machine, Off};
    use layercast_mets::SourceTransmit;
    let now = world.now;
    world
        .source
        .handle(now, SourceInput::Signal(signal), &mut Off);
    std::iter::from_fn(|| world.source.poll_transmit(now, &mut Off))
        .filter_map(|transmit| match transmit {
            SourceTransmit::Signal(signal) => Some(signal),
            SourceTransmit::Pdu(_) => None,
        })
        .collect()
}

#[test]
fn a_source_that_starts_anew_behind_a_switch_is_found_by_its_timestamps() {
    // After 20 s the old numbers are not yet far away, and the sink is not notified.
    let mut world = World::perfect(Carriage::Datagrams, 200);
    world.run_until(ms(20_000));
    let before = world.sink.stats();
    let mut config = source_config(Carriage::Datagrams, 300);
    config.start = world.now;
    world.source = Source::new(config).unwrap();
    world.run_until(ms(30_000));
    let stats = world.sink.stats();
    assert!(stats.played.base >= before.played.base + 18, "{stats:?}");
    assert_eq!(stats.lost[Layer::Base], 0);
}
