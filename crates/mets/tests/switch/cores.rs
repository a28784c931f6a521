//! How the advertisements of a flow go, with a core switch and without, and when joins follow them.

use crate::common::bench::{A, B, Bench, UP, adverts, bench, idle, member, plain, signals_to};
use crate::common::join_ack;
use layercast_core::{Level, PortId};
use layercast_mets::switch::{SwitchConfig, SwitchTransmit};
use layercast_wire::{Carriage, Epoch, FlowInfo, Signal, Via};

const LOCAL: PortId = PortId::LOCAL;

/// A switch named `switch`, and a flow whose core is `core`.
fn cored(core: Option<&str>) -> (Bench, FlowInfo) {
    let bench = idle(plain(Carriage::Datagrams), SwitchConfig::default());
    let mut flow = bench.info.clone();
    flow.core = core.map(str::to_owned);
    (bench, flow)
}

fn by_way_of(via: Via, flow: &FlowInfo) -> FlowInfo {
    FlowInfo {
        via,
        ..flow.clone()
    }
}

/// Where joins and leaves went, with the number of the member.
fn joins(out: &[SwitchTransmit]) -> Vec<(PortId, &'static str, u32)> {
    let joins = out.iter().filter_map(|out| match out {
        SwitchTransmit::Signal { port, signal } => match signal {
            Signal::Join { member, .. } => Some((*port, "join", member.id.0)),
            Signal::Leave { member, .. } => Some((*port, "leave", member.id.0)),
            _ => None,
        },
        SwitchTransmit::Pdu { .. } => None,
    });
    joins.collect()
}

const NONE: [(PortId, &str, u32); 0] = [];

#[test]
fn a_flow_without_a_core_is_advertised_everywhere_but_where_it_came_from() {
    let (mut bench, flow) = cored(None);
    let away = [(LOCAL, Via::Source), (A, Via::Source), (B, Via::Source)];
    // Again: the node upstream has started again.
    for _ in 0..2 {
        let out = bench.advertise(UP, flow.clone());
        assert_eq!(adverts(&out), away);
        assert_eq!(joins(&out), NONE);
    }
    bench.join(A, 1);
    let out = bench.advertise(UP, flow);
    assert_eq!(adverts(&out), away);
    assert_eq!(joins(&out), NONE, "it is joined already");
}

#[test]
fn the_core_advertises_to_all_and_back_to_the_source() {
    let (mut bench, flow) = cored(Some("switch"));
    let all = [
        (LOCAL, Via::Core),
        (UP, Via::Spine),
        (A, Via::Core),
        (B, Via::Core),
    ];
    // Again: a node on the way to the core has started again, and must hear that it is.
    for _ in 0..2 {
        let out = bench.advertise(UP, flow.clone());
        assert_eq!(adverts(&out), all);
    }
    let join = bench.join_of(Epoch::default());
    let out = bench.signal(A, join);
    assert_eq!(joins(&out), [(UP, "join", 1)]);
    // A core at the source itself has no node on the way to notify.
    let (mut bench, flow) = cored(Some("switch"));
    let out = bench.advertise(LOCAL, flow);
    assert_eq!(
        adverts(&out),
        [(UP, Via::Core), (A, Via::Core), (B, Via::Core)]
    );
}

/// The flow is advertised straight from the source at UP; a member at A waits for its core.
fn waiting() -> (Bench, FlowInfo) {
    let (mut bench, flow) = cored(Some("other"));
    let straight = [(LOCAL, Via::Source), (A, Via::Source), (B, Via::Source)];
    assert_eq!(adverts(&bench.advertise(UP, flow.clone())), straight);
    let join = bench.join_of(Epoch::default());
    assert_eq!(bench.signal(A, join), []);
    // What is said again changes nothing.
    let out = bench.advertise(UP, flow.clone());
    assert_eq!((adverts(&out), joins(&out)), (straight.into(), NONE.into()));
    (bench, flow)
}

/// The flow of `waiting` came by way of its core at B.
fn behind_core() -> (Bench, FlowInfo) {
    let (mut bench, flow) = waiting();
    let mut core = by_way_of(Via::Core, &flow);
    core.path_delay_us = 700;
    let out = bench.advertise(B, core);
    assert_eq!(joins(&out), [(B, "join", 1)]);
    assert_eq!(
        adverts(&out),
        [(LOCAL, Via::Core), (UP, Via::Core), (A, Via::Core)]
    );
    (bench, flow)
}

#[test]
fn joins_wait_until_the_flow_comes_by_way_of_its_core() {
    let (mut bench, flow) = behind_core();
    // A list of the flows does not tell the way they came.
    let out = bench.signal(A, Signal::ListFlows);
    let listed = FlowInfo {
        path_delay_us: 700,
        ..flow
    };
    let flows = vec![listed];
    assert_eq!(signals_to(&out, A), [&Signal::Flows { flows }]);
    let (flow, vci, level) = (bench.info.id, 101, Level::BASE);
    let out = bench.signal(B, join_ack(flow, vci, level));
    assert!(matches!(signals_to(&out, A)[..], [Signal::JoinAck { .. }]));
}

#[test]
fn a_flow_that_comes_by_way_of_its_core_is_joined_immediately() {
    let (mut bench, flow) = cored(Some("other"));
    let core = by_way_of(Via::Core, &flow);
    let away = [(LOCAL, Via::Core), (A, Via::Core), (B, Via::Core)];
    for _ in 0..2 {
        assert_eq!(adverts(&bench.advertise(UP, core.clone())), away);
    }
    let join = bench.join_of(Epoch::default());
    assert_eq!(joins(&bench.signal(A, join)), [(UP, "join", 1)]);
}

#[test]
fn a_node_between_source_and_core_joins_towards_the_source() {
    // The core looks for its way to the source through this node before anything else came from it ...
    let (mut bench, flow) = waiting();
    let out = bench.advertise(B, by_way_of(Via::Spine, &flow));
    assert_eq!(joins(&out), [(UP, "join", 1)]);
    let on_the_way = [(LOCAL, Via::Core), (UP, Via::Spine), (A, Via::Core)];
    assert_eq!(adverts(&out), on_the_way);
    // ... or when it took itself for one behind the core.
    let (mut bench, flow) = behind_core();
    let out = bench.advertise(B, by_way_of(Via::Spine, &flow));
    assert_eq!(joins(&out), [(B, "leave", 1), (UP, "join", 1)]);
    assert_eq!(adverts(&out), on_the_way);
    assert_eq!(bench.advertise(B, by_way_of(Via::Spine, &flow)), []);
}

#[test]
fn a_core_that_looks_for_the_way_to_an_unknown_flow_gets_none() {
    let (mut bench, flow) = cored(Some("other"));
    assert_eq!(bench.advertise(B, by_way_of(Via::Spine, &flow)), []);
    assert_eq!(bench.switch.stats().rejected_signals.advertise, 1);
    assert_eq!(bench.flows(), []);
}

#[test]
fn a_switch_joins_again_in_the_name_of_a_member_that_is_still_here() {
    let mut bench = bench(plain(Carriage::Datagrams), SwitchConfig::default());
    for id in [1, 2, 3] {
        bench.join(A, id);
    }
    let flow = bench.info.id;
    let leave = |member| Signal::Leave { flow, member };
    bench.signal(A, leave(member(2)));
    assert_eq!(joins(&bench.reconnect(UP)), [(UP, "join", 1)]);
    bench.signal(A, leave(member(1)));
    assert_eq!(joins(&bench.reconnect(UP)), [(UP, "join", 3)]);
}
