//! Faults and bad input: docs/src/specs/user-to-user-qos.md, section 7.

use layercast_core::{QosAction, QosEvent, Span};
use layercast_monitor::{Direction, Monitor, MonitorConfig, MonitorConfigError, Zone};

use crate::given::*;

#[test]
fn an_id_that_opens_again_closes_the_old_record() {
    let mut monitor = monitor(MonitorConfig::default());
    give(
        &mut monitor,
        &[
            sent(10, 100, 100),
            event(QosAction::Open, QosEvent::OUT, 20),
        ],
    );
    let old = monitor.poll_report().unwrap();
    assert_eq!(
        (old.closed, old.direction(Direction::Out).bits),
        (true, 800)
    );
    let new = monitor.snapshot(at(20), CONN).unwrap();
    assert_eq!(
        (new.counts.events, new.direction(Direction::Out).bits),
        (1, 0)
    );
    assert_eq!((monitor.counts().opened, monitor.counts().reopened), (2, 1));
}

#[test]
fn unknown_connections_have_few_places() {
    let config = MonitorConfig {
        implicit: 2,
        connections: 3,
        ..MonitorConfig::default()
    };
    let mut monitor = Monitor::new(config).unwrap();
    let of = |conn, action| QosEvent::new(conn, action, QosEvent::OUT, at(1));
    give(
        &mut monitor,
        &[1, 2, 3, 4].map(|conn| of(conn, QosAction::Sent)),
    );
    assert_eq!(monitor.connections().collect::<Vec<_>>(), [1, 2]);
    assert_eq!(monitor.counts().unknown, 2);
    give(
        &mut monitor,
        &[
            of(9, QosAction::Close),
            of(1, QosAction::Close),
            of(5, QosAction::Sent),
        ],
    );
    assert_eq!(
        (
            monitor.counts().unknown,
            monitor.connections().collect::<Vec<_>>()
        ),
        (3, vec![2, 5])
    );
    give(&mut monitor, &[6, 7].map(|conn| of(conn, QosAction::Open)));
    assert_eq!(
        (monitor.connections().count(), monitor.counts().refused),
        (3, 1)
    );
    assert_eq!(monitor.counts().unknown, 4, "the opening that was refused");
}

#[test]
fn stamps_that_run_back_or_ahead_are_clamped() {
    let mut monitor = monitor(MonitorConfig::default());
    give(&mut monitor, &[sent(100, 125, 125)]);
    monitor.handle_event(at(110), &sent(50, 125, 250));
    // One beyond the clock of the monitor must not stop all that follow.
    monitor.handle_event(
        at(120),
        &QosEvent {
            t_ns: u64::MAX,
            ..sent(0, 125, 375)
        },
    );
    monitor.handle_event(at(130), &sent(130, 125, 500));
    let report = monitor.snapshot(at(130), CONN).unwrap();
    assert_eq!((report.counts.clamped, report.t_ns), (2, 130_000_000));
    assert_eq!(
        report.direction(Direction::Out).windows[1].throughput_bps,
        Some(4_000.0)
    );
}

#[test]
fn impossible_configurations_name_their_field() {
    let with = |change: fn(&mut MonitorConfig)| {
        let mut config = MonitorConfig::default();
        change(&mut config);
        Monitor::new(config).unwrap_err()
    };
    assert_eq!(
        with(|it| it.compare = Span::ZERO),
        MonitorConfigError::Window("compare")
    );
    assert_eq!(
        with(|it| it.compare = Span::from_secs(3_601)),
        MonitorConfigError::Window("compare")
    );
    assert_eq!(
        with(|it| it.windows[0] = Span::ZERO),
        MonitorConfigError::Window("windows")
    );
    assert_eq!(
        with(|it| it.windows[2] = Span::MAX),
        MonitorConfigError::Window("windows")
    );
    assert_eq!(
        with(|it| it.windows[1] = Span::from_ms(100)),
        MonitorConfigError::Order
    );
    assert_eq!(
        with(|it| it.stale = Span::ZERO),
        MonitorConfigError::Window("stale")
    );
    assert_eq!(
        with(|it| it.report = Some(Span::from_ms(99))),
        MonitorConfigError::Report
    );
    for rule in [(0, 1), (2, 1), (1, 17)] {
        let config = MonitorConfig {
            rule,
            ..MonitorConfig::default()
        };
        assert_eq!(Monitor::new(config).unwrap_err(), MonitorConfigError::Rule);
    }
}

#[test]
fn lost_events_flag_the_window_and_sums_heal_it() {
    let mut monitor = monitor(MonitorConfig::default());
    let lost = event(QosAction::EventsLost, 0, 30).with(layercast_core::QosInfo::None, 3, 0);
    give(
        &mut monitor,
        &[sent(10, 100, 100), lost, sent(40, 100, 500)],
    );
    let report = monitor.snapshot(at(100), CONN).unwrap();
    let out = report.direction(Direction::Out);
    assert_eq!(
        (report.counts.events_lost, monitor.counts().events_lost),
        (3, 3)
    );
    assert_eq!((out.bits, out.packets), (4_000, 2));
    assert!(out.windows[1].gap);
    assert!(
        !monitor
            .snapshot(at(1_100), CONN)
            .unwrap()
            .direction(Direction::Out)
            .windows[1]
            .gap
    );
    // Also losses without a report.
    give(&mut monitor, &[sent(1_200, 100, 700)]);
    let out = monitor.snapshot(at(1_200), CONN).unwrap();
    assert!(out.direction(Direction::Out).windows[0].gap);
    // A sum that runs back is another one.
    give(
        &mut monitor,
        &[sent(1_300, 100, 100), sent(1_400, 100, 200)],
    );
    let report = monitor.snapshot(at(1_400), CONN).unwrap();
    assert_eq!(
        (
            report.counts.bad_totals,
            report.direction(Direction::Out).bits
        ),
        (1, 7_200)
    );
}

#[test]
fn a_monitor_that_begins_late_does_not_count_the_past() {
    let mut monitor = Monitor::new(MonitorConfig::default()).unwrap();
    give(
        &mut monitor,
        &[sent(5_000, 100, 1_000_000), sent(5_100, 100, 1_000_100)],
    );
    let report = monitor.snapshot(at(5_100), CONN).unwrap();
    assert_eq!(
        (report.direction(Direction::Out).bits, report.transport),
        (1_600, None)
    );
}

#[test]
fn silence_is_stale_and_a_sign_of_life_makes_zero_real() {
    let config = MonitorConfig::default();
    let mut silent = monitor(config);
    rate(&mut silent, 0, 1e6);
    silent.on_timeout(at(5_000));
    assert_eq!(silent.poll_signal(), None);
    let report = silent.snapshot(at(5_000), CONN).unwrap();
    assert_eq!((report.stale, report.zone), (true, Zone::Grey));
    assert_eq!(
        report.direction(Direction::Out).windows[1].throughput_bps,
        None
    );
    let mut alive = monitor(config);
    rate(&mut alive, 0, 1e6);
    give(&mut alive, &[event(QosAction::Received, QosEvent::IN, 500)]);
    alive.on_timeout(at(1_001));
    assert_eq!(
        alive.poll_signal().map(|it| (it.zone_to, it.measured)),
        Some((Zone::Red, 0.0))
    );
    let report = alive.snapshot(at(1_001), CONN).unwrap();
    assert_eq!(
        report.direction(Direction::Out).windows[1].throughput_bps,
        Some(0.0)
    );
    assert!(!report.stale);
}

#[test]
fn reports_come_at_most_ten_times_a_second_and_once_more_at_the_end() {
    let config = MonitorConfig {
        report: Some(Span::from_ms(100)),
        ..MonitorConfig::default()
    };
    let mut monitor = monitor(config);
    let mut reports = 0;
    for ms in 1..=1_000 {
        give(&mut monitor, &[sent(ms, 1, ms)]);
        monitor.on_timeout(at(ms));
        reports += std::iter::from_fn(|| monitor.poll_report()).count();
    }
    assert_eq!(reports, 10);
    give(
        &mut monitor,
        &[event(QosAction::Close, QosEvent::OUT, 1_001)],
    );
    let last = monitor.poll_report().unwrap();
    assert!(last.closed);
    assert_eq!(
        (
            monitor.connections().count(),
            monitor.snapshot(at(1_001), CONN)
        ),
        (0, None)
    );
}

#[test]
fn absent_values_are_null_in_json() {
    let mut monitor = monitor(MonitorConfig::default());
    let report = serde_json::to_value(monitor.snapshot(at(1), CONN).unwrap()).unwrap();
    let out = &report["directions"][1];
    assert!(out["delay"].is_null() && out["jitter_ns"].is_null());
    assert!(out["windows"][0]["error_rate"].is_null());
    assert_eq!(
        (&report["transport"], &report["zone"]),
        (&"xtp".into(), &"grey".into())
    );
}
