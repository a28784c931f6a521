//! The ways of flows to their sources: which neighbour a flow is taken from, and what happens when that one is lost.

use std::collections::BTreeSet;

use crate::common::bench::{A, B, Bench, UP, bench, idle, plain, signals_to};
use crate::common::ends::{Receiver, Source};
use crate::common::{END, Net, link, ms, seal};
use layercast_core::{FlowId, Level, PortId, Span};
use layercast_mets::switch::{SwitchConfig, SwitchInput, SwitchTransmit};
use layercast_wire::{Carriage, Epoch, FlowInfo, Identity, MAX_WAY, Signal, Via};
use proptest::prelude::*;

const LOCAL: PortId = PortId::LOCAL;

fn flow(id: u32) -> FlowInfo {
    Source::canyon(id, Carriage::Datagrams).info
}

fn plain_bench() -> Bench {
    bench(plain(Carriage::Datagrams), SwitchConfig::default())
}

fn withdraw(bench: &mut Bench, port: PortId, id: u32) -> Vec<SwitchTransmit> {
    let (flow, reason) = (FlowId(id), "over".into());
    bench.signal(port, Signal::Withdraw { flow, reason })
}

fn upstream(bench: &Bench) -> Option<PortId> {
    bench.switch.upstream(bench.info.id)
}

/// Flow 1 as advertised by an attacker that knows all of it but no secret.
fn forgeries(known: &FlowInfo) -> Vec<FlowInfo> {
    let epochs = [known.epoch.0, known.epoch.0 + 1, u64::MAX].map(Epoch);
    let vias = [Via::Source, Via::Core, Via::Spine];
    let names = ["canyon", "other"];
    let forged = epochs.into_iter().flat_map(|epoch| {
        vias.into_iter().flat_map(move |via| {
            names.into_iter().map(move |name| FlowInfo {
                epoch,
                via,
                name: name.into(),
                revision: 9,
                ..known.clone()
            })
        })
    });
    forged.collect()
}

#[test]
fn no_neighbour_takes_a_flow_from_its_own_source() {
    for core in [None, Some("rook".to_owned())] {
        let mut bench = idle(plain(Carriage::Datagrams), SwitchConfig::default());
        bench.info.core = core;
        let flow = bench.info.clone();
        bench.advertise(LOCAL, flow.clone());
        for forged in forgeries(&flow) {
            bench.advertise(A, forged);
            assert_eq!(withdraw(&mut bench, A, 1), []);
            assert_eq!(upstream(&bench), Some(LOCAL));
            assert_eq!(bench.flows(), [(FlowId(1), Epoch::default())]);
        }
    }
}

#[test]
fn a_source_that_starts_where_its_flow_was_taken_from_a_neighbour_has_it() {
    let mut bench = idle(plain(Carriage::Datagrams), SwitchConfig::default());
    let mut squatter = bench.info.clone();
    squatter.epoch = Epoch(u64::MAX);
    bench.advertise(A, squatter);
    let flow = bench.info.clone();
    bench.advertise(LOCAL, flow);
    assert_eq!(bench.flows(), [(FlowId(1), Epoch::default())]);
    assert_eq!(upstream(&bench), Some(LOCAL));
}

#[test]
fn no_neighbour_takes_a_flow_from_another_one() {
    let mut bench = plain_bench();
    bench.join(A, 1);
    let flow = bench.info.clone();
    for forged in forgeries(&flow) {
        // Offered, withdrawn, and offered while the neighbour that has it is connected again.
        bench.advertise(B, forged.clone());
        assert_eq!(withdraw(&mut bench, B, 1), []);
        assert_eq!(upstream(&bench), Some(UP));
    }
    assert_eq!(bench.flows(), [(FlowId(1), Epoch::default())]);
    assert_eq!(bench.switch.branches_on(A), 1);
}

#[test]
fn a_sealed_flow_is_taken_from_no_other_source_even_while_its_way_is_lost() {
    let mut bench = idle(plain(Carriage::Datagrams), SwitchConfig::default());
    seal(&mut bench.info, 1, true);
    let flow = bench.info.clone();
    bench.advertise(UP, flow.clone());
    // Without a valid signature, or signed by another source.
    let mut unsigned = flow.clone();
    unsigned.epoch = Epoch(9);
    let mut stranger = unsigned.clone();
    seal(&mut stranger, 2, true);
    let mut clear = unsigned.clone();
    clear.identity = None;
    let mut foreign = unsigned.clone();
    foreign.identity = unsigned.identity.clone().map(|identity| Identity {
        signature: stranger.identity.clone().unwrap().signature,
        ..identity
    });
    for is_lost in [false, true] {
        if is_lost {
            bench.give(SwitchInput::PortDown { port: UP });
        }
        for forged in [&unsigned, &stranger, &clear, &foreign] {
            bench.advertise(B, forged.clone());
            assert_eq!(bench.flows(), [(FlowId(1), Epoch::default())]);
            assert_eq!(upstream(&bench), Some(UP));
        }
    }
    assert_eq!(bench.switch.stats().rejected_signals.advertise, 8);
    // Of the same source a later instance counts immediately, from wherever it is heard.
    bench.give(SwitchInput::PortUp { port: UP });
    bench.advertise(UP, flow.clone());
    let mut later = flow;
    later.epoch = Epoch(9);
    seal(&mut later, 1, true);
    bench.advertise(B, later);
    assert_eq!(bench.flows(), [(FlowId(1), Epoch(9))]);
    assert_eq!(upstream(&bench), Some(B));
}

#[test]
fn a_flow_goes_on_at_once_over_another_neighbour_that_offers_it() {
    type Loss = fn(&mut Bench) -> Vec<SwitchTransmit>;
    let losses: [Loss; 3] = [
        |bench| bench.give(SwitchInput::PortDown { port: UP }),
        |bench| withdraw(bench, UP, 1),
        // The neighbour takes it from here: its way has the number that this switch puts on the ways of others.
        |bench| {
            let flow = bench.info.clone();
            let out = bench.advertise(UP, flow.clone());
            let told = signals_to(&out, A);
            let [Signal::Advertise { flow: told }] = told[..] else {
                panic!("{out:?}");
            };
            let way = told.way.clone();
            bench.advertise(UP, FlowInfo { way, ..flow })
        },
    ];
    for loss in losses {
        let mut bench = plain_bench();
        bench.join(A, 1);
        let flow = bench.info.clone();
        assert_eq!(bench.advertise(B, flow), []);
        let out = loss(&mut bench);
        assert_eq!(upstream(&bench), Some(B));
        assert_eq!(
            bench.switch.branches_on(A),
            1,
            "its receiver keeps its place"
        );
        // The neighbour does not take it from here, and is asked for it.
        assert!(
            matches!(
                signals_to(&out, B)[..],
                [Signal::Withdraw { .. }, Signal::Join { .. }]
            ),
            "{out:?}"
        );
        assert!(
            matches!(signals_to(&out, A)[..], [Signal::Advertise { .. }]),
            "{out:?}"
        );
        bench.run(ms(10_000));
        assert_eq!(bench.flows().len(), 1);
    }
}

#[test]
fn what_a_neighbour_offers_no_more_is_no_way() {
    type Loss = fn(&mut Bench);
    let losses: [Loss; 2] = [
        |bench| drop(withdraw(bench, B, 1)),
        |bench| {
            bench.give(SwitchInput::PortDown { port: B });
            bench.give(SwitchInput::PortUp { port: B });
        },
    ];
    for loss in losses {
        let mut bench = plain_bench();
        let flow = bench.info.clone();
        bench.advertise(B, flow);
        loss(&mut bench);
        assert_eq!(upstream(&bench), Some(UP));
        withdraw(&mut bench, UP, 1);
        assert_eq!(bench.flows(), []);
    }
}

#[test]
fn a_flow_that_its_source_closed_is_not_continued_by_a_neighbour_that_repeats_it() {
    let mut bench = plain_bench();
    let flow = bench.info.clone();
    bench.advertise(B, flow.clone());
    let (id, undelivered, last) = (flow.id, 0, Some(END));
    let close = Signal::Close {
        flow: id,
        undelivered,
        last,
    };
    bench.signal(UP, close);
    withdraw(&mut bench, UP, 1);
    bench.advertise(B, flow.clone());
    assert_eq!(bench.flows(), []);
    bench.run(ms(10_000));
    assert_eq!(upstream(&bench), None);
    // A later instance that was offered meanwhile is there when the first one is forgotten.
    let mut bench = plain_bench();
    let later = FlowInfo {
        epoch: Epoch(9),
        ..flow
    };
    bench.advertise(B, later);
    bench.signal(
        UP,
        Signal::Close {
            flow: id,
            undelivered,
            last,
        },
    );
    bench.run(ms(10_000));
    assert_eq!(bench.flows(), [(id, Epoch(9))]);
}

#[test]
fn a_flow_that_only_another_source_offers_is_that_one_when_the_first_is_given_up() {
    let mut bench = plain_bench();
    let mut other = bench.info.clone();
    seal(&mut other, 3, false);
    bench.advertise(B, other);
    bench.give(SwitchInput::PortDown { port: UP });
    assert_eq!(upstream(&bench), Some(UP), "it may come back");
    bench.run(ms(4_000));
    assert_eq!(upstream(&bench), Some(B));
}

#[test]
fn a_way_of_too_many_nodes_is_counted_and_dropped() {
    let mut bench = idle(plain(Carriage::Datagrams), SwitchConfig::default());
    let mut flow = bench.info.clone();
    flow.way = vec![1; MAX_WAY];
    bench.advertise(UP, flow.clone());
    assert_eq!(bench.flows(), []);
    assert_eq!(bench.switch.stats().rejected_signals.advertise, 1);
    flow.way.pop();
    bench.advertise(UP, flow);
    assert_eq!(bench.flows().len(), 1);
}

#[test]
fn of_several_flows_of_one_name_the_first_one_is_told_first() {
    let mut bench = idle(plain(Carriage::Datagrams), SwitchConfig::default());
    let named = |id| FlowInfo {
        name: "canyon".into(),
        ..flow(id)
    };
    for (port, id) in [(UP, 7), (A, 3), (UP, 5)] {
        bench.advertise(port, named(id));
    }
    let ids = |out: &[SwitchTransmit]| -> Vec<u32> {
        let told = signals_to(out, B).into_iter();
        let told = told.flat_map(|signal| match signal {
            Signal::Advertise { flow } => vec![flow.id.0],
            Signal::Flows { flows } => flows.iter().map(|flow| flow.id.0).collect(),
            _ => Vec::new(),
        });
        told.collect()
    };
    let asked = bench.signal(B, Signal::ListFlows);
    assert_eq!(ids(&asked), [7, 3, 5]);
    bench.give(SwitchInput::PortDown { port: B });
    let connected = bench.give(SwitchInput::PortUp { port: B });
    assert_eq!(ids(&connected), [7, 3, 5]);
    // A source that starts again keeps its place.
    let again = FlowInfo {
        epoch: Epoch(9),
        ..named(7)
    };
    bench.advertise(UP, again);
    let asked = bench.signal(B, Signal::ListFlows);
    assert_eq!(ids(&asked), [7, 3, 5]);
}

#[test]
fn a_flow_without_upstream_and_receivers_makes_room_for_another() {
    let config = SwitchConfig {
        max_flows: 2,
        ..SwitchConfig::default()
    };
    let mut bench = idle(plain(Carriage::Datagrams), config);
    // The first has a receiver and no upstream any more, the second an upstream and no receiver.
    bench.advertise(A, flow(1));
    bench.advertise(UP, flow(2));
    bench.join_flow((FlowId(1), A), B, 1);
    bench.give(SwitchInput::PortDown { port: A });
    bench.advertise(UP, flow(3));
    assert_eq!(bench.switch.stats().rejected_signals.advertise, 1);
    let ids = |bench: &mut Bench| bench.flows().iter().map(|it| it.0.0).collect::<Vec<_>>();
    assert_eq!(ids(&mut bench), [1, 2]);
    // The second loses its upstream too.
    bench.give(SwitchInput::PortUp { port: A });
    bench.give(SwitchInput::PortDown { port: UP });
    let out = bench.advertise(A, flow(4));
    assert_eq!(ids(&mut bench), [1, 4]);
    // Those that know it from here hear that it is gone.
    assert_eq!(withdrawn(&out, 2), [LOCAL, A, B]);
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
fn a_neighbour_that_advertises_flows_without_end_keeps_no_other_one_out() {
    let config = SwitchConfig {
        max_flows: 8,
        ..SwitchConfig::default()
    };
    let mut bench = idle(plain(Carriage::Datagrams), config);
    bench.advertise(A, flow(1_000));
    bench.join_flow((FlowId(1_000), A), B, 1);
    for id in 1..100 {
        bench.advertise(A, flow(id));
    }
    let ids = |bench: &mut Bench| {
        let ids = bench.flows().into_iter().map(|it| it.0.0);
        ids.collect::<BTreeSet<u32>>()
    };
    assert_eq!(
        ids(&mut bench),
        BTreeSet::from([1, 2, 3, 4, 5, 6, 7, 1_000])
    );
    // Those of others fit until they have as many; the latest ones without a receiver give way.
    let shared = BTreeSet::from([1, 2, 3, 201, 202, 203, 204, 1_000]);
    for id in 201..210 {
        bench.advertise(UP, flow(id));
    }
    assert_eq!(ids(&mut bench), shared);
    for id in 1..100 {
        bench.advertise(A, flow(id));
    }
    assert_eq!(ids(&mut bench), shared);
    // A source of this node always has a place.
    for id in 301..304 {
        bench.advertise(LOCAL, flow(id));
        assert!(ids(&mut bench).contains(&id));
    }
    assert!(ids(&mut bench).contains(&1_000), "it has a receiver");
}

/// Switches of a random graph with a source at the first of them, and which of them fail and start again.
#[derive(Clone, Debug)]
struct World {
    nodes: usize,
    links: BTreeSet<(usize, usize)>,
    /// Which switch fails or starts, and after how many microseconds.
    steps: Vec<(usize, u64)>,
}

fn world() -> impl Strategy<Value = World> {
    (3usize..8).prop_flat_map(|nodes| {
        let links = proptest::collection::btree_set((0..nodes, 0..nodes), nodes..3 * nodes);
        let wait = prop_oneof![0u64..1_000, 0u64..5_000_000];
        let steps = proptest::collection::vec((1..nodes, wait), 0..12);
        (links, steps).prop_map(move |(links, steps)| World {
            nodes,
            links: links.into_iter().filter(|(a, b)| a < b).collect(),
            steps,
        })
    })
}

/// The switches that the source reaches over those that run.
fn reached(world: &World, runs: &[bool]) -> Vec<bool> {
    let mut found = vec![false; world.nodes];
    found[0] = true;
    for _ in 0..world.nodes {
        for &(a, b) in &world.links {
            if runs[a] && runs[b] && (found[a] || found[b]) {
                (found[a], found[b]) = (true, true);
            }
        }
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever fails and comes back in whatever graph: soon each switch that is connected with the source has the flow, on a way
    /// that leads to the source, and no other switch has it.
    #[test]
    fn the_ways_lead_to_the_source_whatever_fails(world in world()) {
        let mut net = Net::default();
        for node in 0..world.nodes {
            net.node(&format!("n{node}"));
        }
        for &(a, b) in &world.links {
            net.wire(a, b, link(Carriage::Datagrams, 100_000));
        }
        net.source(0, Source::canyon(1, Carriage::Datagrams));
        net.run(ms(100));
        let mut runs = vec![true; world.nodes];
        for &(node, wait) in &world.steps {
            match runs[node] {
                true => net.kill(node),
                false => net.restart(node),
            }
            runs[node] = !runs[node];
            net.run(net.now + Span::from_us(wait));
        }
        // A way that is lost without a word is given up after three eras, at each switch that it went over.
        let patience = Span::from_secs(4).times(world.nodes as u64);
        net.run(net.now + patience);
        let reached = reached(&world, &runs);
        for node in (0..world.nodes).filter(|&node| runs[node]) {
            let (mut at, mut hops) = (node, 0);
            while let Some(port) = net.switch(at).upstream(FlowId(1)).filter(|port| *port != LOCAL) {
                at = net.peer(at, port);
                hops += 1;
                prop_assert!(hops <= world.nodes && runs[at], "a loop, or a way over a dead switch");
            }
            prop_assert_eq!(at == 0, reached[node], "switch {}, {} hops", node, hops);
        }
    }
}

#[test]
fn a_receiver_behind_two_ways_goes_on_when_one_of_them_fails() {
    let carriage = Carriage::Datagrams;
    let mut net = Net::default();
    let [source, left, right, last] =
        ["source", "left", "right", "last"].map(|name| net.node(name));
    for (a, b) in [(source, left), (source, right), (left, last), (right, last)] {
        net.wire(a, b, link(carriage, 100_000));
    }
    net.source(source, Source::canyon(1, carriage));
    net.receiver(
        last,
        Receiver::new("dwp", 1, Level::FULL, carriage),
        link(carriage, 100_000),
    );
    net.run(ms(5_000));
    let upstream = |net: &Net| net.peer(last, net.switch(last).upstream(FlowId(1)).unwrap());
    let mut used = BTreeSet::new();
    for round in 1..=4 {
        let failed = upstream(&net);
        used.insert(failed);
        let before = net.receivers[0].count(ms(0)).base;
        net.kill(failed);
        net.run(ms(5_000 + round * 4_000 - 2_000));
        assert_ne!(upstream(&net), failed);
        net.restart(failed);
        net.run(ms(5_000 + round * 4_000));
        let came = net.receivers[0].count(ms(0)).base - before;
        // Two a second: at most one was on its way when the switch failed.
        assert!(came >= 7, "{came} frames of the base layer in 4 s");
    }
    assert_eq!(used, BTreeSet::from([left, right]));
}
