//! Which base layers a switch admits: processors of hosts, and the delay of the way.

use crate::common::bench::{A, B, Bench, UP, bench, idle, member, plain};
use crate::common::ends::Source;
use layercast_core::{CellRate, FlowId, Machine, PortId, Span};
use layercast_mets::switch::{
    PortConfig, ReceiverLimits, SwitchConfig, SwitchEvent, SwitchInput, SwitchTransmit,
};
use layercast_qos::HostCost;
use layercast_wire::{Carriage, Epoch, FlowInfo, Refusal, Resource, Signal};

const LOCAL: PortId = PortId::LOCAL;

/// A millisecond for each cell: the 480 cells/s of a base layer take 480 of the 900 permille that a host may spend.
const BY_CELL: HostCost = HostCost {
    per_cell: Span::from_ms(1),
    per_frame: Span::ZERO,
};

/// A flow with a base layer of 480 cells/s.
fn flow(id: u32) -> FlowInfo {
    Source::canyon(id, Carriage::Datagrams).info
}

fn sending(cost: HostCost) -> Bench {
    let config = SwitchConfig {
        sender: Some(cost),
        ..SwitchConfig::default()
    };
    idle(plain(Carriage::Datagrams), config)
}

fn receiving(limits: ReceiverLimits) -> Bench {
    let port = PortConfig {
        receiver: Some(limits),
        ..plain(Carriage::Datagrams)
    };
    idle(port, SwitchConfig::default())
}

impl Bench {
    /// What refused the joins since the last question.
    fn refused(&mut self) -> Vec<Refusal> {
        let events = std::iter::from_fn(|| self.switch.poll_event());
        let refused = events.filter_map(|event| match event {
            SwitchEvent::Refused { refusal, .. } => Some(refusal),
            _ => None,
        });
        refused.collect()
    }
}

fn host_cpu(node: &str, needed: u64, available: u64) -> Refusal {
    Refusal {
        node: node.into(),
        resource: Resource::HostCpu,
        needed,
        available,
        measured: None,
    }
}

#[test]
fn the_processor_of_a_source_pays_for_its_flows_that_have_receivers() {
    let mut bench = sending(BY_CELL);
    for (port, id) in [(LOCAL, 1), (LOCAL, 2), (UP, 3)] {
        bench.advertise(port, flow(id));
    }
    // A flow of another source costs this one nothing, nor does a second receiver of the same flow.
    for (id, upstream, port) in [(3, UP, A), (1, LOCAL, A), (1, LOCAL, B)] {
        bench.join_flow((FlowId(id), upstream), port, id);
    }
    assert_eq!(bench.refused(), []);
    bench.join_flow((FlowId(2), LOCAL), A, 2);
    assert_eq!(bench.refused(), [host_cpu("switch", 480, 420)]);
    // It has room when the receivers of the first have left.
    for port in [A, B] {
        let (flow, member) = (FlowId(1), member(1));
        bench.signal(port, Signal::Leave { flow, member });
    }
    bench.join_flow((FlowId(2), LOCAL), A, 2);
    assert_eq!(bench.refused(), []);
}

/// Proposes a change of a flow of this node; returns an immediate refusal, if any.
fn propose(bench: &mut Bench, flow: FlowInfo) -> Option<Refusal> {
    let (flow, change) = (Box::new(flow), 1);
    let out = bench.signal(LOCAL, Signal::Change { flow, change });
    out.into_iter().find_map(|out| match out {
        SwitchTransmit::Signal {
            port: LOCAL,
            signal: Signal::ChangeNak { refusal, .. },
        } => Some(refusal),
        _ => None,
    })
}

#[test]
fn a_change_that_the_processor_of_the_source_cannot_pay_for_is_refused() {
    for (cells, refusal) in [(900, None), (901, Some(host_cpu("switch", 901, 900)))] {
        let mut bench = sending(BY_CELL);
        bench.advertise(LOCAL, flow(1));
        bench.join_flow((FlowId(1), LOCAL), A, 1);
        let mut changed = flow(1);
        changed.revision = 1;
        changed.spec.layers.base.mean = CellRate(cells);
        assert_eq!(propose(&mut bench, changed), refusal);
    }
}

#[test]
fn a_change_under_way_counts_with_what_it_costs_also_if_only_its_frames_are_more() {
    // Two frames a second are of the base layer: 320 permille.
    let mut bench = sending(HostCost {
        per_cell: Span::ZERO,
        per_frame: Span::from_ms(160),
    });
    for id in [1, 2] {
        bench.advertise(LOCAL, flow(id));
    }
    bench.join_flow((FlowId(1), LOCAL), A, 1);
    let mut changed = flow(1);
    changed.revision = 1;
    changed.spec.frame_rate.num *= 2;
    assert_eq!(propose(&mut bench, changed), None);
    bench.join_flow((FlowId(2), LOCAL), A, 2);
    assert_eq!(bench.refused(), [host_cpu("switch", 320, 260)]);
}

#[test]
fn the_processor_of_a_receiver_pays_for_what_comes_to_it() {
    let limits = ReceiverLimits {
        cost: BY_CELL,
        safe: None,
    };
    let mut bench = receiving(limits);
    for id in [1, 2] {
        bench.advertise(UP, flow(id));
    }
    bench.join_flow((FlowId(1), UP), A, 1);
    // The input of another receiver costs this one nothing.
    bench.join_flow((FlowId(2), UP), B, 2);
    assert_eq!(bench.refused(), []);
    bench.join_flow((FlowId(2), UP), A, 3);
    assert_eq!(bench.refused(), [host_cpu("1", 480, 420)]);
}

#[test]
fn the_delay_of_the_way_to_here_counts_against_the_bound_of_a_flow() {
    let port = PortConfig {
        delay: Span::from_ms(50),
        ..plain(Carriage::Datagrams)
    };
    for (path_ms, refused) in [
        (40, false),
        (60, true),
        // It was too long before it came here: the node where it became so refuses.
        (101, false),
    ] {
        let mut bench = bench(port.clone(), SwitchConfig::default());
        let mut flow = bench.info.clone();
        flow.epoch = Epoch(1);
        flow.spec.delay_max_ms = 100;
        flow.path_delay_us = path_ms * 1_000;
        bench.advertise(UP, flow);
        let join = bench.join_of(Epoch(1));
        bench.signal(A, join);
        let expected: &[Resource] = if refused { &[Resource::Delay] } else { &[] };
        assert_eq!(bench.refusals(), expected, "{path_ms} ms");
    }
}

#[test]
fn an_estimate_without_traffic_refuses_nobody() {
    for estimated in [false, true] {
        let port = PortConfig {
            estimated,
            ..plain(Carriage::Datagrams)
        };
        let mut bench = idle(port, SwitchConfig::default());
        for id in [1, 2] {
            bench.advertise(LOCAL, flow(id));
        }
        // Less than one base layer of 480 cells/s.
        let rate = CellRate(300).rate();
        bench.give(SwitchInput::PortRate { port: A, rate });
        bench.join_flow((FlowId(1), LOCAL), A, 1);
        assert_eq!(bench.refused().is_empty(), estimated);
        bench.join_flow((FlowId(2), LOCAL), A, 2);
        assert_eq!(bench.refused().len(), 1, "there is traffic now, or a rate");
    }
}
