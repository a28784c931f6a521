//! Base layers that a port admits by their measured rate.

use crate::common::bench::{A, Bench, UP, idle, member, plain, signals_to};
use crate::common::ends::Source;
use crate::common::join_ack;
use layercast_core::{CellRate, FlowId, Level, Machine, Off, PortId, Rate, Span, Time};
use layercast_link::{LatePromise, MeasuredStats};
use layercast_mets::switch::{PortConfig, SwitchConfig, SwitchEvent, SwitchInput};
use layercast_wire::{Carriage, Epoch, FlowInfo, Refusal, Resource, Signal};

/// 2358 cells/s: room for four base layers of 480 cells/s each, by declaration and by measurement.
const LINE: Rate = Rate::from_bps(1_000_000);

fn flow(id: u32) -> FlowInfo {
    Source::canyon(id, Carriage::Datagrams).info
}

fn measured() -> Bench {
    let port = PortConfig {
        rate: Some(LINE),
        measured: Some(LatePromise {
            period: Span::from_secs(10),
            ..LatePromise::default()
        }),
        ..plain(Carriage::Datagrams)
    };
    let mut bench = idle(port, SwitchConfig::default());
    for id in 1..=9 {
        bench.advertise(UP, flow(id));
    }
    bench
}

fn at_ms(ms: u64) -> Time {
    Time::ZERO + Span::from_ms(ms)
}

fn join(id: u32, again: bool) -> Signal {
    Signal::Join {
        flow: FlowId(id),
        epoch: Epoch::default(),
        member: member(id),
        level: Level::FULL,
        proof: None,
        again,
        answer: None,
    }
}

/// A receiver joins; the node upstream agrees. Its refusal, if there is one.
fn admit(bench: &mut Bench, id: u32, again: bool) -> Option<Refusal> {
    let out = bench.signal(A, join(id, again));
    let refusal = signals_to(&out, A)
        .into_iter()
        .find_map(|signal| match signal {
            Signal::JoinNak { refusal, .. } => Some(refusal.clone()),
            _ => None,
        });
    let (flow, vci, level) = (FlowId(id), 100 + id as u16, Level::BASE);
    bench.signal(UP, join_ack(flow, vci, level));
    refusal
}

fn stats(bench: &Bench) -> MeasuredStats {
    bench.switch.stats().admission["1"].clone()
}

fn events(bench: &mut Bench) -> Vec<SwitchEvent> {
    std::iter::from_fn(|| bench.switch.poll_event()).collect()
}

#[test]
fn more_is_admitted_than_was_declared_once_it_has_been_measured() {
    let mut bench = measured();
    for id in 1..=4 {
        assert_eq!(admit(&mut bench, id, false), None);
    }
    let refusal = admit(&mut bench, 5, false).unwrap();
    assert_eq!((refusal.resource, refusal.needed), (Resource::Link, 480));
    assert_eq!(refusal.available, 2_358 - 4 * 480);
    let state = refusal.measured.unwrap();
    assert_eq!((state.window_ms, state.late_ppm), (1_000, 0));
    assert!(state.is_kept());
    let text = refusal.to_string();
    assert!(
        text.ends_with(
            "measured over 1.0 s, trigger 899.8 kbit/s; 0.0000 % late of 0.1 % promised: kept"
        ),
        "{text}"
    );
    // Nothing was sent for a window: all of the link is free, whatever was declared.
    bench.run(at_ms(1_300));
    assert_eq!(stats(&bench).estimate, Rate::default());
    for id in 5..=8 {
        assert_eq!(admit(&mut bench, id, false), None);
    }
    assert!(admit(&mut bench, 9, false).is_some());
    let stats = stats(&bench);
    assert_eq!(stats.declared, CellRate(8 * 480).rate());
    assert_eq!((stats.flows, stats.admitted, stats.refused), (8, 8, 2));
    assert_eq!(bench.switch.reserved_on(A), CellRate(8 * 480));
}

#[test]
fn a_refusal_upstream_gives_back_what_the_flow_added() {
    let mut bench = measured();
    bench.signal(A, join(1, false));
    assert_eq!(stats(&bench).estimate, CellRate(480).rate());
    let refusal = Refusal {
        node: "root".into(),
        resource: Resource::Link,
        needed: 480,
        available: 0,
        measured: None,
    };
    let flow = FlowId(1);
    bench.signal(UP, Signal::JoinNak { flow, refusal });
    let stats = stats(&bench);
    assert_eq!((stats.estimate, stats.flows), (Rate::default(), 0));
    // The refusal of another node is none of this port.
    assert_eq!((stats.rolled_back, stats.refused), (1, 0));
}

#[test]
fn a_flow_that_leaves_counts_until_a_window_has_measured_without_it() {
    let mut bench = measured();
    assert_eq!(admit(&mut bench, 1, false), None);
    let (flow, leaving) = (FlowId(1), member(1));
    bench.signal(
        A,
        Signal::Leave {
            flow,
            member: leaving,
        },
    );
    assert_eq!(stats(&bench).estimate, CellRate(480).rate());
    assert_eq!(stats(&bench).rolled_back, 0);
    assert_eq!(admit(&mut bench, 2, false), None);
    bench.run(at_ms(1_300));
    assert_eq!(stats(&bench).estimate, Rate::default());
}

#[test]
fn flows_that_survived_a_restart_of_the_switch_are_admitted_again() {
    let mut bench = measured();
    for id in 1..=8 {
        assert_eq!(admit(&mut bench, id, true), None, "flow {id}");
    }
    let found = stats(&bench);
    assert_eq!((found.flows, found.survived), (8, 4));
    // What is declared beyond the link counts as the whole link.
    assert!(found.estimate > CellRate(2_300).rate() && found.estimate <= LINE);
    assert!(admit(&mut bench, 9, false).is_some());
    // Later a flow that says so is tested as all others are.
    let mut bench = measured();
    for id in 1..=4 {
        assert_eq!(admit(&mut bench, id, false), None);
    }
    bench.now = at_ms(3_000);
    let full = (1..=4).map(|id| admit(&mut bench, id + 4, true));
    assert!(full.last().unwrap().is_none());
    assert!(admit(&mut bench, 9, true).is_some());
}

#[test]
fn a_flow_that_grows_is_tested_with_what_it_needs_more() {
    let mut bench = measured();
    for id in 1..=4 {
        assert_eq!(admit(&mut bench, id, false), None);
    }
    let mut grown = flow(1);
    grown.revision = 1;
    let mut propose = |cells| {
        grown.spec.layers.base.mean = CellRate(cells);
        let change = cells;
        let flow = Box::new(grown.clone());
        let out = bench.signal(UP, Signal::Change { flow, change });
        let signals = signals_to(&out, UP);
        let refused = |signal: &&Signal| matches!(signal, Signal::ChangeNak { .. });
        signals.into_iter().any(|signal| refused(&signal))
    };
    // 438 cells/s are left.
    assert!(propose(480 + 439));
    assert!(!propose(480 + 438));
    assert_eq!(stats(&bench).declared, CellRate(4 * 480 + 438).rate());
    // The change is called off.
    let (flow, change) = (Box::new(flow(1)), 918);
    let end = Signal::ChangeEnd {
        flow,
        change,
        from: None,
    };
    bench.signal(UP, end);
    assert_eq!(stats(&bench).declared, CellRate(4 * 480).rate());
}

#[test]
fn a_line_with_less_rate_ends_no_flow_and_says_what_is_too_much() {
    let mut bench = measured();
    for id in 1..=4 {
        assert_eq!(admit(&mut bench, id, false), None);
    }
    events(&mut bench);
    let rate = Rate::from_bps(500_000);
    bench.give(SwitchInput::PortRate { port: A, rate });
    let excess = events(&mut bench)
        .into_iter()
        .find_map(|event| match event {
            SwitchEvent::Overcommitted { port: A, excess } => Some(excess),
            _ => None,
        });
    let over = CellRate(4 * 480).rate().as_bps() - CellRate(1_179).rate().as_bps();
    assert_eq!(excess, Some(Rate::from_bps(over)));
    assert_eq!(stats(&bench).flows, 4);
    assert!(admit(&mut bench, 5, false).is_some());
}

#[test]
fn a_period_ends_with_the_outcome_of_its_promise() {
    let mut bench = measured();
    assert_eq!(admit(&mut bench, 1, false), None);
    // Nothing renews the member of a bench for longer than a branch lives, so the port is asked directly.
    while bench.now < at_ms(10_500) {
        bench.now += Span::from_ms(500);
        let now = bench.now;
        bench.switch.on_timeout(now, &mut Off);
        bench.signal(A, join(1, true));
    }
    let ended: Vec<SwitchEvent> = events(&mut bench)
        .into_iter()
        .filter(|event| matches!(event, SwitchEvent::PromiseEnded { .. }))
        .collect();
    let expected = SwitchEvent::PromiseEnded {
        port: A,
        late_ppm: 0,
        target_ppm: 1_000,
        kept: true,
    };
    assert_eq!(ended, [expected]);
    assert_eq!(stats(&bench).periods_kept, 1);
}

#[test]
fn a_port_without_a_rate_admits_as_declared() {
    let port = PortConfig {
        rate: None,
        measured: Some(LatePromise::default()),
        ..PortConfig::default()
    };
    let mut bench = idle(port, SwitchConfig::default());
    bench.advertise(UP, flow(1));
    assert_eq!(admit(&mut bench, 1, false), None);
    assert!(bench.switch.stats().admission.is_empty());
    assert_eq!(bench.switch.branches_on(PortId(1)), 1);
}

#[test]
fn promises_that_cannot_be_meant_are_refused_by_name() {
    let promise = LatePromise::default();
    let cases = [
        (
            "late",
            LatePromise {
                late_ppm: 0,
                ..promise
            },
        ),
        (
            "late",
            LatePromise {
                late_ppm: 1_000_000,
                ..promise
            },
        ),
        (
            "within",
            LatePromise {
                within: Span::ZERO,
                ..promise
            },
        ),
        (
            "period",
            LatePromise {
                period: Span::from_secs(9),
                ..promise
            },
        ),
    ];
    for (field, promise) in cases {
        let port = PortConfig {
            measured: Some(promise),
            ..PortConfig::default()
        };
        assert_eq!(port.validate().unwrap_err().field, field);
    }
}
