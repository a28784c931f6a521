//! Throughput, delay, jitter and errors.

use layercast_core::{QosAction, QosEvent, QosInfo};
use layercast_monitor::{Contract, Direction, Method, Monitor, MonitorConfig, Term};

use crate::given::*;

fn snapshot(monitor: &mut Monitor, ms: u64) -> layercast_monitor::ConnectionReport {
    monitor.snapshot(at(ms), CONN).unwrap()
}

#[test]
fn throughput_is_that_of_three_windows() {
    let mut monitor = monitor(MonitorConfig::default());
    // 125 octets each 10 ms: 100 kbit/s.
    for n in 1..=100 {
        give(&mut monitor, &[sent(10 * n, 125, 125 * n)]);
    }
    let report = snapshot(&mut monitor, 1_000);
    let [short, second, long] = report.direction(Direction::Out).windows;
    assert_eq!((short.packets, short.throughput_bps), (10, Some(100_000.0)));
    assert_eq!(
        (second.packets, second.throughput_bps),
        (100, Some(100_000.0))
    );
    assert_eq!(long.throughput_bps, Some(10_000.0));
    assert!(
        !second.low_confidence && long.low_confidence,
        "the connection is younger than 10 s"
    );
    // 10 packets within 90 ms.
    assert_eq!(short.burst_bps, Some(10_000.0 / 0.09));
    assert_eq!(report.direction(Direction::In).packets, 0);
}

#[test]
fn few_packets_are_flagged() {
    let mut monitor = monitor(MonitorConfig::default());
    for n in 1..=3 {
        give(&mut monitor, &[sent(1_000 + n, 125, 125 * n)]);
    }
    let window = snapshot(&mut monitor, 1_050)
        .direction(Direction::Out)
        .windows[0];
    assert!(window.low_confidence);
    give(&mut monitor, &[sent(1_060, 125, 500)]);
    let window = snapshot(&mut monitor, 1_060)
        .direction(Direction::Out)
        .windows[0];
    assert!(!window.low_confidence);
    assert_eq!(
        snapshot(&mut monitor, 1_500)
            .direction(Direction::Out)
            .windows[0]
            .burst_bps,
        None
    );
}

#[test]
fn what_is_sent_again_is_no_goodput() {
    let mut monitor = monitor(MonitorConfig::default());
    let again = event(QosAction::Sent, QosEvent::OUT, 20)
        .packet(125, 100, 250)
        .flag(QosEvent::AGAIN, true);
    let first = event(QosAction::Sent, QosEvent::OUT, 10).packet(125, 100, 125);
    give(&mut monitor, &[first, again]);
    let report = snapshot(&mut monitor, 100);
    let out = report.direction(Direction::Out);
    assert_eq!((out.bits, out.user_bits), (2_000, 800));
    assert_eq!(out.windows[1].throughput_bps, Some(2_000.0));
    assert_eq!(out.windows[1].goodput_bps, Some(800.0));
}

#[test]
fn delay_is_half_the_round_trip_both_ways() {
    let mut monitor = monitor(MonitorConfig::default());
    let probe = |action, ms, token| event(action, QosEvent::OUT, ms).with(QosInfo::Rtt, token, 0);
    give(
        &mut monitor,
        &[
            probe(QosAction::ProbeStart, 10, 1),
            probe(QosAction::ProbeStart, 20, 2),
        ],
    );
    give(
        &mut monitor,
        &[
            probe(QosAction::ProbeEnd, 60, 1),
            probe(QosAction::ProbeEnd, 80, 2),
        ],
    );
    let report = snapshot(&mut monitor, 90);
    for dir in Direction::ALL {
        let delay = report.direction(dir).delay.unwrap();
        assert_eq!((delay.current_ns, delay.max_ns), (30_000_000, 30_000_000));
        assert_eq!((delay.method, delay.samples), (Method::HalfRtt, 2));
        assert_eq!(report.direction(dir).jitter_ns, None, "no contract has it");
    }
}

#[test]
fn a_lost_answer_counts_as_lost_and_not_as_a_delay() {
    let mut monitor = monitor(MonitorConfig::default());
    let probe = |action, ms, token| event(action, QosEvent::OUT, ms).with(QosInfo::Rtt, token, 0);
    give(
        &mut monitor,
        &[
            probe(QosAction::ProbeStart, 0, 1),
            probe(QosAction::ProbeEnd, 10, 1),
        ],
    );
    give(
        &mut monitor,
        &[probe(QosAction::ProbeStart, 20, 2), sent(200, 1, 1)],
    );
    let report = snapshot(&mut monitor, 200);
    assert_eq!(report.counts.probes_lost, 1);
    assert_eq!(report.direction(Direction::Out).delay.unwrap().samples, 1);
}

#[test]
fn clocks_in_common_give_the_true_delay_and_others_only_jitter() {
    let mut monitor = monitor(MonitorConfig::default());
    let contract = Contract {
        jitter: Some(Term::agreed(0.01)),
        ..Contract::default()
    };
    monitor
        .set_contract(at(0), CONN, Direction::In, contract)
        .unwrap();
    let delivered = |ms, ns: i64| {
        event(QosAction::Delivered, QosEvent::IN, ms).with(QosInfo::Time, ns as u64, 0)
    };
    give(
        &mut monitor,
        &[delivered(10, -5_000_000), delivered(20, 11_000_000)],
    );
    let report = snapshot(&mut monitor, 20);
    let inward = report.direction(Direction::In);
    assert_eq!((inward.delay, inward.jitter_ns), (None, Some(1_000_000.0)));
    assert_eq!(
        (inward.max_jitter_ns, inward.spread_ns),
        (Some(1_000_000.0), Some(16_000_000))
    );
    give(
        &mut monitor,
        &[delivered(30, 7_000_000).flag(QosEvent::CLOCKS, true)],
    );
    let delay = snapshot(&mut monitor, 30)
        .direction(Direction::In)
        .delay
        .unwrap();
    assert_eq!(
        (delay.current_ns, delay.method),
        (7_000_000, Method::OneWay)
    );
}

#[test]
fn spans_tell_missing_bits_once() {
    let mut monitor = monitor(MonitorConfig::default());
    let head = |ms| {
        event(QosAction::ErrReport, QosEvent::OUT, ms)
            .with(QosInfo::SpansHead, 10_000, 4_000)
            .aux(2)
    };
    let span = |ms, left, right| {
        event(QosAction::ErrReport, QosEvent::OUT, ms).with(QosInfo::Span, left, right)
    };
    for ms in [10, 20] {
        give(
            &mut monitor,
            &[head(ms), span(ms, 5_000, 7_000), span(ms, 8_000, 10_000)],
        );
    }
    let report = snapshot(&mut monitor, 20);
    let out = report.direction(Direction::Out);
    assert_eq!((out.error_bits, out.error_bits_literal), (16_000, 32_000));
    assert_eq!(out.windows[1].error_rate, Some(0.2));
    assert_eq!(
        report.direction(Direction::In).windows[1].error_rate,
        None,
        "nothing is known"
    );
}

#[test]
fn drops_are_told_apart_from_damage_where_the_transport_knows() {
    let mut monitor = Monitor::new(MonitorConfig::default()).unwrap();
    let open =
        event(QosAction::Open, QosEvent::IN, 0).aux(layercast_monitor::Descriptor::METS.number());
    let received = event(QosAction::Received, QosEvent::IN, 10).packet(100, 100, 100);
    let lost = event(QosAction::Dropped, QosEvent::IN, 20).aux(2);
    let damaged = event(QosAction::Dropped, QosEvent::IN, 30)
        .flag(QosEvent::CHECKSUM, true)
        .with(QosInfo::Size, 800, 0);
    let late = event(QosAction::DeadlineMiss, QosEvent::IN, 40).with(QosInfo::Size, 800, 0);
    give(&mut monitor, &[open, received, lost, damaged, late]);
    let report = snapshot(&mut monitor, 40);
    let inward = report.direction(Direction::In);
    assert_eq!(
        (
            inward.gaps,
            inward.checksum_failures,
            inward.deadlines_missed
        ),
        (2, 1, 1)
    );
    // Lost ones have the size of those that came; what came too late was offered once.
    assert_eq!(
        (inward.error_bits, inward.windows[1].error_rate),
        (3_200, Some(1.0))
    );
}
