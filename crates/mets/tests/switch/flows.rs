//! The flows that a switch knows: how they come, move, end and make room.

use crate::common::bench::{A, B, Bench, UP, bench, idle, member, plain, signals_to};
use crate::common::ends::Source;
use crate::common::{ms, seal};
use layercast_core::{CellRate, FlowId, Level, Machine, Off, PortId, Time};
use layercast_media::FilterRule;
use layercast_mets::switch::{FilterPlace, SwitchConfig, SwitchEvent, SwitchInput, SwitchTransmit};
use layercast_wire::{Carriage, Epoch, FlowInfo, FrameType, LinkPdu, Refusal, Resource, Signal};

const LOCAL: PortId = PortId::LOCAL;
const C: PortId = PortId(3);

fn plain_bench() -> Bench {
    bench(plain(Carriage::Datagrams), SwitchConfig::default())
}

fn flow(id: u32) -> FlowInfo {
    Source::canyon(id, Carriage::Datagrams).info
}

/// The flow of the bench, as its source has changed it.
fn changed(bench: &Bench) -> FlowInfo {
    FlowInfo {
        revision: 1,
        ..bench.info.clone()
    }
}

#[test]
fn signals_that_a_switch_cannot_serve_are_counted_by_cause() {
    let mut bench = plain_bench();
    let nowhere = PortId(9);
    bench.signal(nowhere, Signal::ListFlows);
    bench.give(SwitchInput::PortUp { port: nowhere });
    assert_eq!(bench.switch.stats().rejected_signals.port, 2);
    let message = "no".into();
    bench.signal(A, Signal::Error { message });
    assert_eq!(bench.switch.stats().rejected_signals.foreign, 1);
    // The source of a flow ends it, not another neighbour.
    let (flow, reason) = (bench.info.id, "over".into());
    assert_eq!(bench.signal(B, Signal::Withdraw { flow, reason }), []);
    assert_eq!(bench.switch.stats().rejected_signals.unknown, 1);
    assert_eq!(bench.flows().len(), 1);
}

#[test]
fn the_state_of_an_input_is_passed_on_and_changes_nothing_else() {
    let mut bench = plain_bench();
    bench.join(A, 1);
    let known = bench.flows();
    for (media_ms_per_s, input_damaged, input_failed) in [
        (Some(850), 0, false),
        (Some(700), 0, false),
        (None, 2, false),
        (None, 2, true),
    ] {
        let flow = FlowInfo {
            media_ms_per_s,
            input_damaged,
            input_failed,
            ..bench.info.clone()
        };
        let out = bench.advertise(UP, flow);
        for port in [A, B] {
            let told = signals_to(&out, port);
            let [Signal::Advertise { flow }] = told[..] else {
                panic!("{told:?}");
            };
            assert_eq!(flow.media_ms_per_s, media_ms_per_s);
            assert_eq!(
                (flow.input_damaged, flow.input_failed),
                (input_damaged, input_failed)
            );
        }
        // A join is not asked for again, and no flow begins again.
        assert_eq!(signals_to(&out, UP), Vec::<&Signal>::new());
        assert_eq!(bench.flows(), known);
        // A neighbour that asks gets it, too.
        let out = bench.signal(B, Signal::ListFlows);
        let [Signal::Flows { flows }] = &signals_to(&out, B)[..] else {
            panic!("{out:?}");
        };
        assert_eq!(flows[0].media_ms_per_s, media_ms_per_s);
    }
    // Another neighbour knows nothing of it.
    let flow = FlowInfo {
        media_ms_per_s: Some(500),
        ..bench.info.clone()
    };
    assert_eq!(bench.advertise(B, flow), []);
}

#[test]
fn a_filter_that_a_sealed_flow_cannot_have_is_reported() {
    for (sealed, rule, refused) in [
        (false, FilterRule::LowPass(10), false),
        (true, FilterRule::LowPass(10), true),
        (true, FilterRule::Keep(Level::BASE), false),
    ] {
        let place = FilterPlace {
            flow: plain_bench().info.name,
            to: None,
            rule,
        };
        let config = SwitchConfig {
            filters: vec![place],
            ..SwitchConfig::default()
        };
        let mut bench = idle(plain(Carriage::Datagrams), config);
        if sealed {
            seal(&mut bench.info, 1, false);
        }
        let flow = bench.info.clone();
        bench.advertise(UP, flow);
        bench.join(A, 1);
        let events: Vec<SwitchEvent> = std::iter::from_fn(|| bench.switch.poll_event()).collect();
        let reported = |event: &SwitchEvent| match event {
            SwitchEvent::FilterRefused { rule: it, .. } => *it == rule,
            _ => false,
        };
        assert_eq!(events.iter().any(reported), refused, "{rule}: {events:?}");
    }
}

#[test]
fn what_a_filter_counted_stays_when_its_branch_or_its_flow_is_gone() {
    let place = FilterPlace {
        flow: plain_bench().info.name,
        to: None,
        rule: FilterRule::LowPass(10),
    };
    let config = SwitchConfig {
        filters: vec![place],
        ..SwitchConfig::default()
    };
    let mut bench = bench(plain(Carriage::Datagrams), config);
    let play = |bench: &mut Bench| {
        for _ in 0..24 {
            let due = bench.source.next_frame().unwrap();
            bench.run(due);
            for (_, pdu) in bench.source.emit(due) {
                bench.give(SwitchInput::Pdu { port: UP, pdu });
            }
        }
    };
    let counted = |bench: &Bench| -> Vec<u64> {
        let filters = bench.switch.stats().filters;
        filters.values().map(|it| it.filter.frames).collect()
    };
    let leave = |bench: &mut Bench| {
        let (flow, member) = (bench.info.id, member(1));
        bench.signal(A, Signal::Leave { flow, member });
    };
    let mut before = 0;
    for end in [leave, |bench: &mut Bench| {
        let flow = FlowInfo {
            epoch: Epoch(9),
            ..bench.info.clone()
        };
        bench.advertise(UP, flow);
    }] {
        bench.join(A, 1);
        play(&mut bench);
        let during = counted(&bench);
        assert!(during[0] > before, "{before} {during:?}");
        end(&mut bench);
        assert_eq!(bench.switch.branches_on(A), 0);
        assert_eq!(counted(&bench), during);
        before = during[0];
    }
}

#[test]
fn a_flow_that_comes_back_changed_over_the_same_channel_stays() {
    let mut bench = plain_bench();
    bench.reconnect(UP);
    let flow = changed(&bench);
    bench.advertise(UP, flow);
    bench.run(ms(10_000));
    assert_eq!(bench.flows().len(), 1);
}

#[test]
fn a_join_refused_for_an_unknown_flow_is_sent_again_when_the_flow_is_advertised() {
    let mut bench = plain_bench();
    bench.join(A, 1);
    bench.reconnect(UP);
    let flow = bench.info.id;
    let refusal = Refusal {
        node: "up".into(),
        resource: Resource::UnknownFlow,
        needed: 0,
        available: 0,
        measured: None,
    };
    assert_eq!(bench.signal(UP, Signal::JoinNak { flow, refusal }), []);
    let flow = bench.info.clone();
    let out = bench.advertise(UP, flow);
    assert!(
        matches!(signals_to(&out, UP)[..], [Signal::Join { .. }]),
        "{out:?}"
    );
}

#[test]
fn a_change_of_what_layers_are_to_each_other_is_not_passed_on() {
    let mut bench = plain_bench();
    bench.join(A, 1);
    let mut flow = changed(&bench);
    flow.spec.composition = layercast_core::Composition::Alternative;
    let (flow, change) = (Box::new(flow), 7);
    let end = Signal::ChangeEnd {
        flow: flow.clone(),
        change,
        from: Some(layercast_core::Serial(9)),
    };
    assert_eq!(bench.signal(UP, Signal::Change { flow, change }), []);
    assert_eq!(bench.signal(UP, end), []);
    assert_eq!(bench.switch.stats().rejected_signals.unknown, 2);
}

#[test]
fn a_member_whose_channel_is_lost_holds_up_no_change() {
    let mut bench = plain_bench();
    for (port, id) in [(A, 1), (B, 2)] {
        bench.join(port, id);
    }
    let (flow, change) = (Box::new(changed(&bench)), 7);
    let out = bench.signal(UP, Signal::Change { flow, change });
    assert_eq!(signals_to(&out, UP), [] as [&Signal; 0]);
    let flow = bench.info.id;
    let agrees = |id| Signal::ChangeAck {
        flow,
        member: member(id),
        change,
    };
    assert_eq!(bench.give(SwitchInput::PortDown { port: A }), []);
    // The other one is still asked.
    let out = bench.signal(B, agrees(2));
    assert_eq!(
        signals_to(&out, UP),
        [&agrees(1)],
        "in the name of the first"
    );
}

/// A switch with three ports of datagrams and C, of cells; flow 1 from UP is joined at A, B and here.
fn spread() -> Bench {
    let mut bench = plain_bench();
    bench.switch.add_port(C, plain(Carriage::Cells));
    bench.give(SwitchInput::PortUp { port: C });
    for (port, id) in [(A, 1), (B, 2), (LOCAL, 3)] {
        bench.join(port, id);
    }
    let branches = |bench: &Bench| [A, B, LOCAL].map(|port| bench.switch.branches_on(port));
    assert_eq!(branches(&bench), [1, 1, 1]);
    bench.give(SwitchInput::PortDown { port: UP });
    bench
}

#[test]
fn a_flow_that_moves_keeps_the_branches_that_it_can_feed() {
    let mut bench = spread();
    let flow = bench.info.clone();
    let out = bench.advertise(B, flow);
    let branches = |bench: &Bench| [A, B, LOCAL].map(|port| bench.switch.branches_on(port));
    assert_eq!(branches(&bench), [1, 0, 1], "B is upstream now");
    assert!(
        matches!(
            signals_to(&out, B)[..],
            [Signal::Withdraw { .. }, Signal::Join { .. }]
        ),
        "{out:?}"
    );
    assert!(matches!(
        signals_to(&out, A)[..],
        [Signal::Advertise { .. }]
    ));
    // It is confirmed there.
    bench.run(ms(10_000));
    assert_eq!(bench.flows().len(), 1);
}

#[test]
fn a_flow_that_moves_to_another_carriage_tells_the_branches_that_it_cannot_feed() {
    let mut bench = spread();
    let flow = bench.info.clone();
    let out = bench.advertise(C, flow.clone());
    let branches = [A, B, LOCAL].map(|port| bench.switch.branches_on(port));
    assert_eq!(branches, [0, 0, 1]);
    for port in [A, B] {
        assert!(
            matches!(
                signals_to(&out, port)[..],
                [Signal::Withdraw { .. }, Signal::Advertise { .. }]
            ),
            "{out:?}"
        );
    }
    assert_eq!(bench.refusals(), [Resource::Carriage; 2]);
    // Those behind them ask again, and hear why not.
    let join = bench.join_of(Epoch::default());
    let out = bench.signal(A, join);
    assert!(matches!(
        signals_to(&out, A)[..],
        [Signal::JoinNak { refusal, .. }] if refusal.resource == Resource::Carriage
    ));
}

/// The ports on which a flow was withdrawn.
fn withdrawn(out: &[SwitchTransmit], id: u32) -> Vec<PortId> {
    let withdrawn = out.iter().filter_map(|out| match out {
        SwitchTransmit::Signal {
            port,
            signal: Signal::Withdraw { flow, .. },
        } if flow.0 == id => Some(*port),
        _ => None,
    });
    withdrawn.collect()
}

#[test]
fn each_flow_that_ends_is_said_farewell_once_and_forgotten_three_eras_later() {
    let mut bench = plain_bench();
    bench.advertise(UP, flow(2));
    let withdraw = |bench: &mut Bench, id: u32| {
        let (flow, reason) = (FlowId(id), "over".into());
        bench.signal(UP, Signal::Withdraw { flow, reason })
    };
    let out = withdraw(&mut bench, 1);
    assert_eq!(withdrawn(&out, 1), [LOCAL, A, B]);
    let mut later = bench.run(ms(1_000));
    let out = withdraw(&mut bench, 2);
    assert_eq!(withdrawn(&out, 2), [LOCAL, A, B]);
    later.extend(out);
    let mut gone = Vec::new();
    for at in [2_999, 3_000, 3_999, 4_000] {
        later.extend(bench.run(ms(at)));
        let events = std::iter::from_fn(|| bench.switch.poll_event());
        gone.extend(events.filter_map(|event| match event {
            SwitchEvent::FlowGone { flow } => Some((at, flow.0)),
            _ => None,
        }));
    }
    assert_eq!(gone, [(3_000, 1), (4_000, 2)]);
    assert_eq!(withdrawn(&later, 1), []);
    assert_eq!(withdrawn(&later, 2), [LOCAL, A, B]);
    bench.run(ms(5_000));
    assert_eq!(bench.switch.next_timeout(), None);
}

#[test]
fn a_flow_that_is_given_up_is_withdrawn_where_it_was_advertised_and_not_upstream() {
    let mut bench = plain_bench();
    bench.reconnect(UP);
    let out = bench.run(ms(3_600));
    assert_eq!(withdrawn(&out, 1), [LOCAL, A, B]);
}

#[test]
fn a_switch_that_is_stopped_leaves_the_flows_of_others_and_withdraws_them() {
    let reason = |out: &[SwitchTransmit], port| {
        let signals = signals_to(out, port).into_iter();
        let mut withdrawn = signals.filter_map(|signal| match signal {
            Signal::Withdraw { reason, .. } => Some(reason.clone()),
            _ => None,
        });
        withdrawn.next().expect("a farewell")
    };
    let mut bench = plain_bench();
    bench.advertise(LOCAL, flow(2));
    bench.join(A, 1);
    bench.join_flow((FlowId(2), LOCAL), B, 2);
    let out = bench.give(SwitchInput::Stop);
    let left = Signal::Leave {
        flow: FlowId(1),
        member: member(1),
    };
    assert_eq!(signals_to(&out, UP), [&left]);
    assert_eq!(withdrawn(&out, 1), [LOCAL, A, B]);
    assert!(reason(&out, A).contains("was stopped"));
    // Its own flow is ended by its source.
    assert_eq!(withdrawn(&out, 2), []);
    assert_eq!(bench.flows(), [(FlowId(2), Epoch::default())]);
    assert_eq!(bench.switch.reserved_on(A), CellRate(0));
    // The last words of the source, and those that wait for the data before them, are passed on.
    let mut bench = plain_bench();
    bench.join(A, 1);
    let closing = Signal::Close {
        flow: FlowId(1),
        undelivered: 0,
        last: None,
    };
    for (_, pdu) in bench.source.emit(Time::ZERO) {
        bench
            .switch
            .handle(bench.now, SwitchInput::Pdu { port: UP, pdu }, &mut Off);
    }
    let (flow, why) = (FlowId(1), "the film is over");
    for signal in [
        closing.clone(),
        Signal::Withdraw {
            flow,
            reason: why.into(),
        },
    ] {
        let signal = SwitchInput::Signal { port: UP, signal };
        bench.switch.handle(bench.now, signal, &mut Off);
    }
    bench.switch.handle(bench.now, SwitchInput::Stop, &mut Off);
    let out = bench.drain();
    assert!(signals_to(&out, A).contains(&&closing));
    assert_eq!(
        (withdrawn(&out, 1), reason(&out, A)),
        (vec![LOCAL, A, B], why.into())
    );
}

#[test]
fn what_was_strange_in_a_flow_stays_counted_when_the_flow_is_gone() {
    let end = |bench: &mut Bench| {
        let (flow, reason) = (bench.info.id, "over".into());
        bench.signal(UP, Signal::Withdraw { flow, reason });
        bench.run(ms(20_000));
        assert_eq!(bench.flows(), []);
    };
    let mut bench = plain_bench();
    bench.join(A, 1);
    let LinkPdu::Mets(mut packet) = bench.source.emit(Time::ZERO).remove(0).1 else {
        panic!("not a datagram");
    };
    packet.header.kind = FrameType(77);
    let pdu = LinkPdu::Mets(packet);
    bench.give(SwitchInput::Pdu { port: UP, pdu });
    end(&mut bench);
    assert_eq!(bench.switch.stats().unknown_types, 1);
    // A second frame starts where the first has not ended.
    let mut bench = self::bench(plain(Carriage::Cells), SwitchConfig::default());
    bench.join(A, 1);
    for cells in [3, 1] {
        let due = bench.source.next_frame().unwrap();
        for (_, pdu) in bench.source.emit(due).into_iter().take(cells) {
            bench.give(SwitchInput::Pdu { port: UP, pdu });
        }
    }
    end(&mut bench);
    assert_eq!(bench.switch.stats().resyncs, 1);
}
