//! A sink does what its QoS policy says, and tells what happens.

use crate::common::*;
use layercast_core::{
    Alarm, AlarmOp, CellRate, Layer, Level, Machine, MaintMode, Metric, Off, OnPlenty, OnScarce,
    QosPolicy, Span, Time,
};
use layercast_mets::{SinkConfig, SinkEvent, SinkInput};
use layercast_wire::{Carriage, LinkPdu, Resource};

fn with(policy: QosPolicy) -> SinkConfig {
    assert_eq!(policy.validate(), Ok(()));
    SinkConfig {
        policy,
        ..sink_config(Carriage::Datagrams)
    }
}

fn world<'a>(sink: SinkConfig, gops: usize) -> World<'a> {
    World::new(source_config(Carriage::Datagrams, 300), sink, gops)
}

/// Runs to `end` with the congestion bit seen in every era.
fn run_congested(world: &mut World<'_>, end: Time) {
    while world.now < end {
        let LinkPdu::Mets(mut packet) = any_packet() else {
            unreachable!()
        };
        packet.congestion = true;
        world.input(SinkInput::Pdu(LinkPdu::Mets(packet)));
        world.run_until(world.now + Span::from_ms(500));
    }
}

fn alarms(world: &World<'_>, alarm: Alarm) -> Vec<(u64, f64)> {
    let raised = world.events.iter().filter_map(|(at, event)| match event {
        SinkEvent::Alarm(raised) if raised.alarm == alarm => {
            Some((at.as_us() / 1_000, raised.value))
        }
        _ => None,
    });
    raised.collect()
}

#[test]
fn an_alarm_fires_once_for_each_time_its_threshold_is_crossed() {
    let alarm = Alarm {
        metric: Metric::Loss,
        op: AlarmOp::Above,
        threshold: 200.0,
        window_ms: 500,
        hysteresis: 50.0,
        oneshot: false,
    };
    let once = Alarm {
        oneshot: true,
        ..alarm
    };
    let mut world = world(
        with(QosPolicy {
            events: vec![alarm, once],
            ..QosPolicy::default()
        }),
        60,
    );
    // All E2 frames of 2 s, and of 1 s later on.
    world.down = Box::new(|now, pdu| {
        let bad = (ms(5_000)..ms(7_000)).contains(&now) || (ms(9_000)..ms(10_000)).contains(&now);
        match pdu {
            LinkPdu::Mets(packet) if bad && packet.header.kind.layer() == Some(Layer::E2) => vec![],
            _ => vec![Span::from_ms(5)],
        }
    });
    world.run_until(ms(14_000));
    let fired = alarms(&world, alarm);
    assert_eq!(fired.len(), 2, "{fired:?}");
    // The loss shows when the frame after it is played, 300 ms later.
    assert!((5_300..=6_300).contains(&fired[0].0), "{fired:?}");
    assert!((9_300..=10_300).contains(&fired[1].0), "{fired:?}");
    assert!(
        fired
            .iter()
            .all(|&(_, value)| value > 200.0 && value < 1_000.0)
    );
    assert_eq!(alarms(&world, once).len(), 1);
    // Ten permille is the default bound of a flow specification.
    let bound = world.events.iter().find_map(|(_, event)| match event {
        SinkEvent::Alarm(raised) if raised.alarm.threshold == 10.0 => Some(raised.alarm.metric),
        _ => None,
    });
    assert_eq!(bound, Some(Metric::Loss));
}

#[test]
fn periodic_signals_come_in_their_period_and_only_where_the_mode_has_them() {
    for (mode, count) in [
        (MaintMode::Maint, 0),
        (MaintMode::Monitor, 16),
        (MaintMode::Signal, 16),
    ] {
        let mut world = world(
            with(QosPolicy {
                mode,
                signal_period_ms: 300,
                ..QosPolicy::default()
            }),
            40,
        );
        world.run_until(ms(5_000));
        assert_eq!(
            world.count(|e| matches!(e, SinkEvent::Metric(_))),
            count,
            "{mode:?}"
        );
    }
}

#[test]
fn a_flow_that_is_only_signalled_keeps_its_level_in_congestion() {
    let levels = |mode| {
        let mut world = world(
            with(QosPolicy {
                mode,
                ..QosPolicy::default()
            }),
            60,
        );
        run_congested(&mut world, ms(10_000));
        let degraded = world.count(|e| *e == SinkEvent::Degraded);
        (world.sink.level(), degraded > 3)
    };
    assert_eq!(levels(MaintMode::Monitor), (Level::BASE, false));
    assert_eq!(levels(MaintMode::Maint), (Level::BASE, false));
    assert_eq!(levels(MaintMode::Signal), (Level::FULL, true));
}

#[test]
fn the_level_stays_between_the_bounds_of_the_policy() {
    let mut world = world(
        with(QosPolicy {
            min_level: Level::E1,
            max_level: Level::E1,
            ..QosPolicy::default()
        }),
        60,
    );
    world.run_until(ms(3_000));
    assert_eq!(world.sink.level(), Level::E1);
    run_congested(&mut world, ms(10_000));
    let levels: Vec<_> = world.levels().into_iter().map(|entry| entry.1).collect();
    assert_eq!(levels, [Level::E1]);
}

#[test]
fn a_host_takes_no_more_than_it_can() {
    let limited = |limit| SinkConfig {
        local_limit: Some(CellRate(limit)),
        ..sink_config(Carriage::Datagrams)
    };
    let mut able = world(limited(1_440), 20);
    able.run_until(ms(5_000));
    let levels: Vec<_> = able.levels().into_iter().map(|entry| entry.1).collect();
    assert_eq!(levels, [Level::E1]);
    let mut weak = world(limited(479), 20);
    weak.run_until(ms(5_000));
    let refused = weak.events.iter().find_map(|(_, event)| match event {
        SinkEvent::Refused(refusal) => Some((refusal.resource, refusal.needed, refusal.available)),
        _ => None,
    });
    assert_eq!(refused, Some((Resource::ReceiverRate, 480, 479)));
    assert_eq!(weak.sink.stats().joins, 0);
}

#[test]
fn policies_for_scarcity_and_plenty_are_obeyed() {
    let mut gives_up = world(
        with(QosPolicy {
            on_scarce: OnScarce::Disconnect,
            ..QosPolicy::default()
        }),
        60,
    );
    run_congested(&mut gives_up, ms(3_000));
    assert_eq!(gives_up.count(|e| matches!(e, SinkEvent::Closed { .. })), 1);
    assert_eq!(gives_up.source.stats().members, 0);

    let mut informed = world(
        with(QosPolicy {
            on_scarce: OnScarce::Inform,
            ..QosPolicy::default()
        }),
        60,
    );
    informed.run_until(ms(2_000));
    run_congested(&mut informed, ms(8_000));
    assert_eq!(informed.sink.level(), Level::FULL);
    assert!(informed.count(|e| *e == SinkEvent::Degraded) >= 5);

    let mut asks = world(
        with(QosPolicy {
            on_plenty: OnPlenty::Inform,
            ..QosPolicy::default()
        }),
        100,
    );
    asks.run_until(ms(2_000));
    run_congested(&mut asks, ms(6_000));
    asks.run_until(ms(20_000));
    assert_eq!(asks.sink.level(), Level::BASE);
    assert!(asks.count(|e| *e == SinkEvent::MayRaise(Level::E1)) > 0);
    asks.sink.allow_raise();
    asks.run_until(ms(25_000));
    assert_eq!(asks.sink.level(), Level::E1);
}

#[test]
fn signals_merge_while_nobody_fetches_them_and_events_are_kept() {
    let mut world = world(
        with(QosPolicy {
            signal_period_ms: 10,
            ..QosPolicy::default()
        }),
        4,
    );
    world.run_until(ms(500));
    // The source is silent from here on, and there is no poll.
    let mut timers = 0;
    while let Some(at) = world.sink.next_timeout().filter(|&at| at < ms(60_000)) {
        world.sink.on_timeout(at, &mut Off);
        while world.sink.poll_transmit(at, &mut Off).is_some() {}
        timers += 1;
    }
    assert!(timers > 5_000);
    let merged = world.sink.stats().merged_signals;
    assert!(merged > 4_000, "{merged}");
    let events: Vec<_> = std::iter::from_fn(|| world.sink.poll_event()).collect();
    let metrics = events
        .iter()
        .filter(|e| matches!(e, SinkEvent::Metric(_)))
        .count();
    assert!(metrics <= 1_024);
    assert!(events.contains(&SinkEvent::AdapterSilent));
    // The next signal covers all that was merged.
    let at = world.sink.next_timeout().unwrap();
    world.sink.on_timeout(at, &mut Off);
    let window = std::iter::from_fn(|| world.sink.poll_event()).find_map(|event| match event {
        SinkEvent::Metric(metric) => Some(metric.window),
        _ => None,
    });
    assert!(window.unwrap() > Span::from_secs(40), "{window:?}");
}

#[test]
fn frames_handed_over_late_are_told_in_windows_of_24() {
    let mut world = world(with(QosPolicy::default()), 20);
    world.run_until(ms(2_000));
    assert_eq!(
        world.count(|e| matches!(e, SinkEvent::MissedDeadline { .. })),
        0
    );
    // The machine sleeps half a second: what is due by then is late in the hands of the user.
    let mut woken = Vec::new();
    world.source.on_timeout(ms(2_100), &mut Off);
    for step in 1..=3u64 {
        let now = ms(2_000 + 300 * step);
        world.now = now;
        world.sink.on_timeout(now, &mut Off);
        woken.extend(std::iter::from_fn(|| world.sink.poll_event()));
    }
    world.run_until(ms(5_000));
    let all = woken
        .iter()
        .chain(world.events.iter().map(|(_, event)| event));
    let all: Vec<_> = all.collect();
    let missed: Vec<_> = all
        .iter()
        .filter_map(|event| match event {
            SinkEvent::MissedDeadline { missed, window } => Some((*missed, *window)),
            _ => None,
        })
        .collect();
    assert_eq!(missed.len(), 1, "{missed:?}");
    assert!(missed[0].0 >= 3 && missed[0].1 == 24);
    let mut metrics = all.iter();
    assert!(metrics.any(|e| matches!(e, SinkEvent::Metric(metric) if metric.missed > 0)));
}

#[test]
fn after_silence_an_adapt_that_counts_anew_is_believed() {
    let mut world = World::perfect(Carriage::Datagrams, 40);
    world.up = Box::new(|_, _| vec![]);
    world.run_until(ms(500));
    world.input(adapt(1_000, Level::FULL));
    world.input(adapt(1, Level::E1));
    assert_eq!(world.sink.level(), Level::FULL);
    world.run_until(ms(3_600));
    assert_eq!(world.count(|e| *e == SinkEvent::AdapterSilent), 1);
    world.input(adapt(2, Level::E1));
    assert_eq!(world.sink.level(), Level::E1);
}
