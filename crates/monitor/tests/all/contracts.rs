//! Zones and signals.

use layercast_core::{QosAction, QosEvent, QosInfo, QosTransport};
use layercast_monitor::{
    Comparison, Contract, Direction, Monitor, MonitorConfig, Parameter, Signal, Term, Zone,
};

use crate::given::*;

/// Seconds in which this many of a thousand packets of 125 octets leave: 1 Mbit/s is all.
fn seconds(monitor: &mut Monitor, from_s: u64, packets: &[u64]) -> Vec<Signal> {
    let mut found = Vec::new();
    for (second, &count) in packets.iter().enumerate() {
        for n in 1..=count {
            let ms = 1_000 * (from_s + second as u64) + n * 1_000 / count;
            monitor.handle_event(
                at(ms),
                &event(QosAction::Sent, QosEvent::OUT, ms).packet(125, 125, 0),
            );
        }
        monitor.on_timeout(at(1_000 * (from_s + second as u64 + 1) + 1));
        found.extend(std::iter::from_fn(|| monitor.poll_signal()));
    }
    found
}

#[test]
fn zones_follow_the_limits_of_the_paper() {
    use Zone::{Green, Red, Yellow};
    for (share, zone) in [
        (1_000, Green),
        (960, Green),
        (950, Yellow),
        (900, Yellow),
        (850, Yellow),
        (840, Red),
    ] {
        let mut monitor = monitor(MonitorConfig::default());
        rate(&mut monitor, 0, 1e6);
        let signals = seconds(&mut monitor, 0, &[share]);
        let report = monitor.snapshot(at(1_001), CONN).unwrap();
        assert_eq!(report.zone, zone, "{share}");
        let compared = report.direction(Direction::Out).compared[0].unwrap();
        assert_eq!(
            (compared.measured, compared.zone),
            (share as f64 * 1_000.0, zone)
        );
        assert_eq!(signals.len(), usize::from(zone != Green));
    }
}

#[test]
fn red_is_signalled_once_and_so_is_the_return() {
    let mut monitor = monitor(MonitorConfig::default());
    rate(&mut monitor, 0, 1e6);
    let signals = seconds(&mut monitor, 0, &[1_000, 500, 500, 1_000, 1_000]);
    let told: Vec<_> = signals
        .iter()
        .map(|it| (it.zone_from, it.zone_to, it.t_ns))
        .collect();
    assert_eq!(
        told,
        [
            (Zone::Green, Zone::Red, 2_000_000_000),
            (Zone::Red, Zone::Green, 4_000_000_000)
        ]
    );
    let red = signals[0];
    assert_eq!(
        (red.parameter, red.contract, red.measured, red.deviation),
        (Parameter::Throughput, 1e6, 5e5, 0.5)
    );
    assert_eq!(
        (red.conn, red.dir, red.window_ns, red.suppressed),
        (CONN, Direction::Out, 1_000_000_000, 0)
    );
}

#[test]
fn hysteresis_holds_single_windows_back() {
    let mut monitor = monitor(MonitorConfig {
        rule: (2, 3),
        ..MonitorConfig::default()
    });
    rate(&mut monitor, 0, 1e6);
    let signals = seconds(
        &mut monitor,
        0,
        &[1_000, 1_000, 500, 1_000, 500, 500, 1_000, 1_000],
    );
    let told: Vec<_> = signals
        .iter()
        .map(|it| (it.zone_to, it.t_ns / 1_000_000_000))
        .collect();
    assert_eq!(told, [(Zone::Red, 5), (Zone::Green, 8)]);
}

#[test]
fn literal_minds_too_much_as_well() {
    let config = MonitorConfig {
        comparison: Comparison::Literal,
        ..MonitorConfig::default()
    };
    for (config, zone) in [(config, Zone::Red), (MonitorConfig::default(), Zone::Green)] {
        let mut monitor = monitor(config);
        rate(&mut monitor, 0, 5e5);
        seconds(&mut monitor, 0, &[1_000]);
        assert_eq!(monitor.snapshot(at(1_001), CONN).unwrap().zone, zone);
    }
}

#[test]
fn without_a_contract_all_is_grey_and_silent() {
    let mut monitor = monitor(MonitorConfig::default());
    assert_eq!(seconds(&mut monitor, 0, &[10, 0, 1_000]), []);
    let report = monitor.snapshot(at(3_001), CONN).unwrap();
    assert_eq!(report.zone, Zone::Grey);
    assert!(
        report.direction(Direction::Out).windows[1]
            .throughput_bps
            .unwrap()
            > 0.0
    );
}

#[test]
fn a_contract_that_changes_holds_for_its_part_of_the_window() {
    let mut monitor = monitor(MonitorConfig::default());
    rate(&mut monitor, 0, 1e6);
    // 1 Mbit/s for half a second, then half of it for a second under a contract of half.
    for ms in 1..=500 {
        give(
            &mut monitor,
            &[event(QosAction::Sent, QosEvent::OUT, ms).packet(125, 125, 0)],
        );
    }
    rate(&mut monitor, 500, 5e5);
    for n in 1..=500 {
        give(
            &mut monitor,
            &[event(QosAction::Sent, QosEvent::OUT, 500 + 2 * n).packet(125, 125, 0)],
        );
    }
    monitor.on_timeout(at(1_501));
    assert_eq!(monitor.poll_signal(), None, "each part kept its contract");
    let compared = monitor
        .snapshot(at(1_501), CONN)
        .unwrap()
        .direction(Direction::Out)
        .compared[0]
        .unwrap();
    assert_eq!((compared.measured, compared.contract), (5e5, 5e5));
    // The first part is judged by the old contract also if it breaks it.
    rate(&mut monitor, 1_501, 1e6);
    give(
        &mut monitor,
        &[event(QosAction::Sent, QosEvent::OUT, 1_600).packet(125, 125, 0)],
    );
    rate(&mut monitor, 1_801, 1e3);
    let signal = monitor.poll_signal().unwrap();
    assert_eq!(
        (signal.zone_to, signal.contract, signal.window_ns),
        (Zone::Red, 1e6, 300_000_000)
    );
}

#[test]
fn contracts_also_come_as_events_and_bad_ones_are_counted() {
    let mut monitor = monitor(MonitorConfig::default());
    let set = |number: u32, value: f64| {
        event(QosAction::ContractSet, QosEvent::OUT, 0)
            .with(QosInfo::Contract, value.to_bits(), 0)
            .aux(number)
    };
    give(
        &mut monitor,
        &[
            set(1, 1e6),
            set(2, f64::NAN),
            set(4, -1.0),
            set(4, 2.0),
            set(9, 1.0),
        ],
    );
    let report = monitor.snapshot(at(0), CONN).unwrap();
    assert_eq!(
        (report.counts.bad_contracts, report.counts.malformed),
        (3, 1)
    );
    let contract = report.direction(Direction::Out).contract;
    assert_eq!(
        contract,
        Contract {
            throughput: Some(Term::agreed(1e6)),
            ..Contract::default()
        }
    );
    give(&mut monitor, &[set(0, 0.0)]);
    assert!(
        monitor
            .snapshot(at(0), CONN)
            .unwrap()
            .direction(Direction::Out)
            .contract
            .is_empty()
    );
}

#[test]
fn the_worst_parameter_is_the_zone_of_the_connection() {
    let mut monitor = monitor(MonitorConfig::default());
    let contract = Contract {
        throughput: Some(Term::agreed(1e6)),
        delay: Some(Term::agreed(0.010)),
        ..Contract::default()
    };
    monitor
        .set_contract(at(0), CONN, Direction::Out, contract)
        .unwrap();
    let probe = |action, ms| event(action, QosEvent::OUT, ms).with(QosInfo::Rtt, 1, 0);
    give(
        &mut monitor,
        &[
            probe(QosAction::ProbeStart, 0),
            probe(QosAction::ProbeEnd, 22),
        ],
    );
    let signals = seconds(&mut monitor, 0, &[1_000]);
    let report = monitor.snapshot(at(1_001), CONN).unwrap();
    let zones = report
        .direction(Direction::Out)
        .compared
        .map(|it| it.map(|it| it.zone));
    assert_eq!(zones, [Some(Zone::Green), Some(Zone::Yellow), None, None]);
    assert_eq!((report.zone, signals.len()), (Zone::Yellow, 1));
    assert_eq!(signals[0].parameter, Parameter::Delay);
}

#[test]
fn signals_do_not_flood() {
    let config = MonitorConfig {
        compare: layercast_core::Span::from_ms(10),
        ..MonitorConfig::default()
    };
    let mut monitor = monitor(config);
    rate(&mut monitor, 0, 1e6);
    // Red and green in turn, a hundred times in a second; the last window of the second is a red one.
    let mut signals = Vec::new();
    for ms in 1..=1_200 {
        let bytes = if (ms - 1) / 10 % 2 == 0 { 125 } else { 12 };
        monitor.handle_event(
            at(ms),
            &event(QosAction::Sent, QosEvent::OUT, ms).packet(bytes, 0, 0),
        );
        signals.extend(std::iter::from_fn(|| monitor.poll_signal()));
    }
    let first: Vec<_> = signals
        .iter()
        .filter(|it| it.t_ns <= 1_000_000_000)
        .collect();
    assert_eq!(first.len(), 10);
    assert!(first.iter().all(|it| it.suppressed == 0));
    let next = signals[10];
    assert!(next.suppressed > 80, "{next:?}");
    assert_eq!(
        monitor.snapshot(at(1_200), CONN).unwrap().counts.signals,
        signals.len() as u64
    );
}

/// What is reported of the errors of seconds, in each of which 36 packets come and some are missing.
fn errors(agreed: f64, missing: &[u32]) -> Vec<(Zone, f64)> {
    let mut monitor = monitor(MonitorConfig {
        rule: (2, 3),
        ..MonitorConfig::default()
    });
    let open = event(QosAction::Open, QosEvent::IN, 0).aux(QosTransport::Mets as u32);
    give(&mut monitor, &[open]);
    let contract = Contract {
        error_rate: Some(Term::agreed(agreed)),
        ..Contract::default()
    };
    monitor
        .set_contract(at(0), CONN, Direction::In, contract)
        .unwrap();
    let mut told = Vec::new();
    for (second, &missing) in (0u64..).zip(missing) {
        for n in 1..=36 {
            let ms = 1_000 * second + 27 * n;
            let here = event(QosAction::Received, QosEvent::IN, ms).packet(125, 125, 0);
            give(&mut monitor, &[here]);
        }
        if missing > 0 {
            let ms = 1_000 * second + 980;
            let gone = event(QosAction::Dropped, QosEvent::IN, ms).aux(missing);
            give(&mut monitor, &[gone]);
        }
        monitor.on_timeout(at(1_000 * (second + 1) + 1));
        let report = monitor.snapshot(at(1_000 * (second + 1) + 1), CONN);
        let quality = report.unwrap().quality(Direction::In).unwrap();
        let errors = quality.error_rate.unwrap();
        told.push((errors.zone, errors.measured));
    }
    told
}

#[test]
fn a_lasting_breach_of_a_small_loss_is_red_all_the_time() {
    // One packet every three seconds: of 0.1 % that are agreed, 0.9 % are lost.
    let seconds: Vec<u32> = (0..40).map(|n| u32::from(n % 3 == 0)).collect();
    let told = errors(0.001, &seconds);
    assert!(told[1..].iter().all(|it| it.0 == Zone::Red), "{told:?}");
    // 3 or 4 of 363 in ten seconds: of three windows that follow one another, two have 0.83 % at most.
    let told = errors(0.0078, &seconds);
    assert!(told[20..].iter().all(|it| it.0 == Zone::Yellow), "{told:?}");
    // It ends with the window.
    let mut once = [0; 15];
    once[0] = 1;
    let told = errors(0.001, &once);
    assert_eq!((told[9].0, told[14]), (Zone::Red, (Zone::Green, 0.0)));
}

#[test]
fn the_value_that_is_told_is_the_one_that_makes_the_zone() {
    let mut monitor = monitor(MonitorConfig {
        rule: (2, 3),
        ..MonitorConfig::default()
    });
    rate(&mut monitor, 0, 1e6);
    // Red holds against the last window, which has what was agreed; then two windows are yellow or worse.
    let signals = seconds(&mut monitor, 0, &[500, 500, 1_000]);
    let compared = |monitor: &mut Monitor, ms| {
        let report = monitor.snapshot(at(ms), CONN).unwrap();
        let it = report.direction(Direction::Out).compared[0].unwrap();
        (it.zone, it.measured)
    };
    assert_eq!(compared(&mut monitor, 3_001), (Zone::Red, 5e5));
    assert_eq!((signals.len(), signals[0].measured), (1, 5e5));
    let signals = seconds(&mut monitor, 3, &[900]);
    assert_eq!(compared(&mut monitor, 4_001), (Zone::Yellow, 9e5));
    assert_eq!(
        (signals[0].zone_to, signals[0].measured),
        (Zone::Yellow, 9e5)
    );
}

#[test]
fn what_is_lost_before_anything_came_is_red() {
    let mut monitor = monitor(MonitorConfig::default());
    let contract = Contract {
        error_rate: Some(Term::agreed(0.01)),
        ..Contract::default()
    };
    monitor
        .set_contract(at(0), CONN, Direction::In, contract)
        .unwrap();
    give(
        &mut monitor,
        &[event(QosAction::Dropped, QosEvent::IN, 500).aux(24)],
    );
    monitor.on_timeout(at(1_001));
    let quality = monitor.snapshot(at(1_001), CONN).unwrap();
    let errors = quality.quality(Direction::In).unwrap().error_rate.unwrap();
    assert_eq!((errors.zone, errors.measured), (Zone::Red, 1.0));
}
