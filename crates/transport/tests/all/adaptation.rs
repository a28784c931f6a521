//! The two ends of the QoS adapter, and the session between them.

use crate::common::*;
use layercast_core::{CellRate, Layer, Level, NodeId, Span, Time};
use layercast_transport::mets::{
    FlowLog, LevelReason, SinkEvent, SinkInput, Source, SourceEvent, SourceInput,
};
use layercast_wire::{Carriage, LinkPdu, Member, MemberReport, Refusal, Resource, Signal};

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
        member: members(),
        level: Level::E1,
        proof: None,
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
        report: MemberReport::default(),
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

fn ask(world: &mut World<'_>, signal: Signal) -> Vec<Signal> {
    use layercast_core::{Machine, Off};
    use layercast_transport::mets::SourceTransmit;
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
    // After 20 s the old numbers are not yet far away, and nobody tells the sink.
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
