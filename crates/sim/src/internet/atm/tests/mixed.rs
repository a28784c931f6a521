//! Frames, single cells, signalling and changes of circuits in any order, many at one instant, without anything
//! that would send them.

use layercast_atm::signal::SignalCell;
use layercast_atm::{Cell, Class, FrameId, ReassemblyStats, Vcid};
use layercast_core::{Span, Time};
use proptest::prelude::*;

use super::super::SIGNALLING;
use super::super::backbone::Backbone;
use super::super::fabric::{Arrival, Departure};
use super::super::frames::FrameBody;
use super::super::port::Line;
use super::{Plan, network, shape};
use crate::internet::Internet;
use crate::internet::engine::PacketId;

/// What happens to a backbone. Numbers are taken modulo how many there are.
#[derive(Clone, Copy, Debug)]
enum Act {
    /// On a circuit, of this number of cells.
    Frame(usize, u32),
    /// The next cell of one that is sent cell by cell, and whether the network discards it.
    Cell(usize, bool),
    /// From a port.
    Signal(u32),
    Open(Hop),
    Close(Hop),
    /// Before a hop it goes to another port under another number, or nowhere.
    Route(Hop, Option<(u32, u16)>),
    /// At the last hop.
    Forget(usize),
}

/// Of a circuit that was there at first, one of its ports.
type Hop = (usize, usize);

/// A frame whose cells come at equal distances, and by how many of them one is discarded.
#[derive(Clone, Debug)]
struct Spaced {
    at: u64,
    circuit: usize,
    cells: u32,
    gap: u64,
    holes: Option<u32>,
}

/// All of it, in microseconds.
#[derive(Clone, Debug)]
struct Mix {
    plan: Plan,
    /// The ways of the circuits there are at first: where they begin, and which ports they take.
    ways: Vec<(u32, Vec<u32>)>,
    acts: Vec<(u64, Act)>,
    spaced: Vec<Spaced>,
    /// What is done when something arrives, in turn.
    answers: Vec<Option<Act>>,
}

const CIRCUITS: u16 = 7;

fn at() -> impl Strategy<Value = u64> {
    prop_oneof![5 => (0u64..60).prop_map(|ms| 1_000 * ms), 1 => 0u64..60_000]
}

fn act() -> impl Strategy<Value = Act> {
    let circuit = || 0usize..7;
    let hop = || (0usize..7, 0usize..6);
    let line = (0u32..9, 0..CIRCUITS);
    prop_oneof![
        9 => (circuit(), 1u32..30).prop_map(|(n, cells)| Act::Frame(n, cells)),
        2 => (0u32..40).prop_map(Act::Signal),
        1 => hop().prop_map(Act::Open),
        1 => hop().prop_map(Act::Close),
        1 => (hop(), prop::option::of(line)).prop_map(|(hop, to)| Act::Route(hop, to)),
        1 => circuit().prop_map(Act::Forget),
    ]
}

fn mix() -> impl Strategy<Value = Mix> {
    let gap = prop_oneof![4 => prop::sample::select(vec![0, 1_000, 2_000, 3_000, 4_000]), 1 => 0u64..6_000];
    let spaced = (at(), 0usize..7, 1u32..30, gap, prop::option::of(2u32..9));
    let spaced = spaced.prop_map(|(at, circuit, cells, gap, holes)| Spaced {
        at,
        circuit,
        cells,
        gap,
        holes,
    });
    let way = (0u32..9, prop::collection::vec(0u32..9, 1..7));
    (
        shape(),
        prop::collection::vec(way, 1..7),
        prop::collection::vec((at(), act()), 1..40),
        prop::collection::vec(spaced, 0..8),
        prop::collection::vec(prop::option::of(act()), 1..9),
    )
        .prop_map(|(plan, ways, acts, spaced, answers)| Mix {
            plan,
            ways,
            acts,
            spaced,
            answers,
        })
}

/// A backbone to which this happens.
struct Stage<'a> {
    mix: &'a Mix,
    backbone: Backbone,
    /// The frames sent cell by cell, and how many of their cells were.
    begun: Vec<Option<(FrameId, u32)>>,
    packets: u32,
    /// The ports of each circuit.
    circuits: Vec<Vec<u32>>,
    seen: Vec<(Time, String)>,
}

impl Stage<'_> {
    fn new(mix: &Mix, per_cell: bool) -> Stage<'_> {
        let internet = Internet::new(&network(&mix.plan, per_cell)).expect("a network");
        let mut stage = Stage {
            mix,
            backbone: *internet.medium.backbone.expect("a backbone"),
            begun: vec![None; mix.spaced.len()],
            packets: 0,
            circuits: Vec::new(),
            seen: Vec::new(),
        };
        for ((adapter, turns), vc) in mix.ways.iter().zip(1..) {
            let ports = stage.lay(*adapter, turns, Vcid(vc));
            stage.circuits.push(ports);
        }
        stage
    }

    /// A circuit that turns so at each switch, until it is at an adapter or where it was; its ports.
    fn lay(&mut self, adapter: u32, turns: &[u32], vc: Vcid) -> Vec<u32> {
        let mut port = self.adapter_port(adapter);
        let mut used = Vec::new();
        for turn in turns {
            self.backbone.open(port, vc, Class::BestEffort, None);
            used.push(port);
            let peer = self.backbone.fabric.ports[port as usize].peer;
            let node = self.backbone.fabric.ports[peer as usize].node;
            let mut next = self.port_of(node, *turn);
            if next == peer {
                next = self.port_of(node, turn + 1);
            }
            if self.backbone.nodes[node as usize].adapter.is_some() || used.contains(&next) {
                return used;
            }
            self.backbone.route(peer, vc, Some(Line { port: next, vc }));
            port = next;
        }
        self.backbone.open(port, vc, Class::BestEffort, None);
        used.push(port);
        used
    }

    fn adapter_port(&self, n: u32) -> u32 {
        let nodes = self.backbone.nodes.len() as u32;
        let adapter = nodes - 1 - n % self.mix.plan.routers;
        self.backbone.nodes[adapter as usize].first_port
    }

    /// A port of a circuit, and its number.
    fn hop(&self, (circuit, place): Hop) -> (u32, Vcid) {
        let circuit = circuit % self.circuits.len();
        let ports = &self.circuits[circuit];
        (ports[place.min(ports.len() - 1)], Vcid(1 + circuit as u16))
    }

    fn port_of(&self, node: u32, n: u32) -> u32 {
        let first = self.backbone.nodes[node as usize].first_port;
        first + n % self.backbone.fabric.degree(node) as u32
    }

    fn packet(&mut self) -> FrameBody {
        self.packets += 1;
        FrameBody::Packet(PacketId(self.packets))
    }

    fn act(&mut self, act: Act) {
        match act {
            Act::Frame(circuit, cells) => {
                let body = self.packet();
                let (port, vc) = self.hop((circuit, 0));
                self.backbone.put(port, vc, body, cells);
            }
            Act::Cell(n, discarded) => {
                let Spaced { circuit, cells, .. } = self.mix.spaced[n];
                let (frame, index) = match self.begun[n] {
                    Some(begun) => begun,
                    None => {
                        let body = self.packet();
                        let (port, _) = self.hop((circuit, 0));
                        let fabric = &mut self.backbone.fabric;
                        let from = fabric.ports[port as usize].node;
                        (fabric.frames.add(from, body, cells), 0)
                    }
                };
                self.begun[n] = Some((frame, index + 1));
                if discarded {
                    return self.backbone.fabric.gone(frame, 1);
                }
                let (port, vc) = self.hop((circuit, 0));
                let cell = Cell::of(frame, vc, index, cells);
                self.backbone.put_cell(port, cell, index);
            }
            Act::Signal(n) => {
                let body = FrameBody::Signal(SignalCell::Ack { seq: n as u8 });
                let port = n % self.backbone.fabric.ports.len() as u32;
                self.backbone.put(port, SIGNALLING, body, 1);
            }
            Act::Open(hop) => {
                let (port, vc) = self.hop(hop);
                self.backbone.open(port, vc, Class::BestEffort, None);
            }
            Act::Close(hop) => {
                let (port, vc) = self.hop(hop);
                self.backbone.close(port, vc);
            }
            Act::Route(hop, to) => {
                let (port, vc) = self.hop(hop);
                let port = self.backbone.fabric.ports[port as usize].peer;
                let node = self.backbone.fabric.ports[port as usize].node;
                if self.backbone.nodes[node as usize].adapter.is_some() {
                    return;
                }
                let line = to.map(|(n, vc)| Line {
                    port: self.port_of(node, n),
                    vc: Vcid(1 + vc),
                });
                self.backbone.route(port, vc, line);
            }
            Act::Forget(circuit) => {
                let (port, vc) = self.hop((circuit, usize::MAX));
                let port = self.backbone.fabric.ports[port as usize].peer;
                let node = self.backbone.fabric.ports[port as usize].node;
                if self.backbone.nodes[node as usize].adapter.is_some() {
                    self.backbone.forget(node, vc);
                }
            }
        }
    }

    /// What is there at the end.
    fn run(mut self) -> Seen {
        let mut acts = self.mix.acts.clone();
        for (n, it) in self.mix.spaced.iter().enumerate() {
            acts.extend((0..it.cells).map(|k| {
                let discarded = it.holes.is_some_and(|every| k % every == 1);
                (it.at + u64::from(k) * it.gap, Act::Cell(n, discarded))
            }));
        }
        // Stable: what is at one instant keeps its order.
        acts.sort_by_key(|(at, _)| *at);
        let mut acts = acts.into_iter().peekable();
        // A circuit may be a circle.
        let end = Time::ZERO + Span::from_ms(600);
        let mut answers = self.mix.answers.iter().cycle();
        loop {
            let act = acts.peek().map(|(us, _)| Time::ZERO + Span::from_us(*us));
            let cells = self.backbone.next().filter(|at| *at <= end);
            match (act, cells) {
                (Some(at), cells) if cells.is_none_or(|cells| at <= cells) => {
                    self.backbone.fabric.reach(at);
                    let (_, act) = acts.next().expect("one");
                    self.act(act);
                }
                (_, None) => break,
                (_, Some(at)) => {
                    self.backbone.fabric.reach(at);
                    let arrival = self.backbone.step();
                    if matches!(arrival, Arrival::Nothing) {
                        continue;
                    }
                    self.seen.push((at, format!("{arrival:?}")));
                    if let Some(Some(act)) = answers.next() {
                        self.act(*act);
                    }
                }
            }
        }
        self.backbone.finish(end);
        let ports = self.backbone.fabric.ports.len() as u32;
        let queues = (0..ports).map(|n| format!("{:?}", self.backbone.queue(n)));
        let queues = queues.collect();
        let fabric = &mut self.backbone.fabric;
        fabric.lost.sort_unstable_by_key(|id| id.0);
        // Stable, too.
        fabric.departures.sort_by_key(|it| (it.0, it.1));
        let reassembled = fabric.reassemblers.iter().flatten();
        Seen {
            departures: std::mem::take(&mut fabric.departures),
            arrivals: self.seen,
            queues,
            reassembled: reassembled.map(|it| *it.stats()).collect(),
            lost: std::mem::take(&mut fabric.lost),
            counts: (fabric.cell_hops, fabric.unknown_vc, fabric.frames.len()),
        }
    }
}

#[derive(PartialEq, Debug)]
struct Seen {
    departures: Vec<Departure>,
    arrivals: Vec<(Time, String)>,
    queues: Vec<String>,
    reassembled: Vec<ReassemblyStats>,
    lost: Vec<PacketId>,
    counts: (u64, u64, usize),
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 20_000, ..ProptestConfig::default() })]
    #[test]
    fn in_any_order_trains_are_cells(mix in mix()) {
        let cells = Stage::new(&mix, true).run();
        let trains = Stage::new(&mix, false).run();
        let differs = cells.departures.iter().zip(&trains.departures).position(|(cell, train)| cell != train);
        if let Some(n) = differs {
            let around = n.saturating_sub(3)..;
            let some = |all: &[_]| format!("{:?}", all[around.clone()].iter().take(6).collect::<Vec<_>>());
            prop_assert!(false, "\n{}\n{}", some(&cells.departures), some(&trains.departures));
        }
        prop_assert_eq!(cells, trains);
    }
}
