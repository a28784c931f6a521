//! Trains and sites beside the reference: the same cells leave the same ports at the same instants, and the rest of the
//! world cannot tell them apart, nor whether somebody looks at the cells.

mod mixed;

use core::net::Ipv4Addr;

use layercast_atm::{CellContract, Conformance, FramePolicing, Peak, Sustained};
use layercast_core::{Rate, Span, Time};
use layercast_tcp::{Profile, TcpConfig};
use proptest::prelude::*;

use super::fabric::Departure;
use crate::internet::*;
use crate::ties::Ties;

/// A small backbone: for each switch but the first the one it is joined to, perhaps one link more, and how
/// fast and how long each link is.
#[derive(Clone, Debug)]
struct Plan {
    joins: Vec<u32>,
    ring: bool,
    routers: u32,
    rates: Vec<u64>,
    delays: Vec<u64>,
    queue: AtmQueue,
    timer: Option<Span>,
    slots: bool,
    policy: &'static str,
    flows: Vec<(u32, u32, u64, u64, Traffic, Option<ContractTerms>)>,
    seed: u64,
    ties: Ties,
}

impl Plan {
    /// Of the n-th link, kbit/s; slots need one rate of all.
    fn rate(&self, n: usize) -> u64 {
        self.rates[if self.slots { 0 } else { n % self.rates.len() }]
    }
}

/// Most take whole milliseconds on the links of hosts, as cells do on those of the backbone, so that much
/// happens at one instant.
fn bytes() -> impl Strategy<Value = u32> {
    prop_oneof![3 => (1u32..12).prop_map(|n| 250 * n), 1 => 40u32..3_000]
}

fn traffic() -> impl Strategy<Value = Traffic> {
    let datagrams = |law: fn(Span) -> Law| {
        (5u64..400, bytes()).prop_map(move |(ms, bytes)| Traffic::Datagrams {
            gap: law(Span::from_ms(ms)),
            size: SizeLaw::Constant(bytes),
            bursts: None,
        })
    };
    prop_oneof![
        2 => datagrams(Law::Constant),
        2 => datagrams(Law::Exponential),
        1 => (1u64..30_000).prop_map(|bytes| Traffic::Bulk(Some(bytes))),
        1 => Just(Traffic::Bulk(None)),
    ]
}

/// Cells that enter one by one: at the distances of the links mostly.
fn contract() -> impl Strategy<Value = ContractTerms> {
    let period = || prop_oneof![3 => (1u64..5).prop_map(|ms| 1_000 * ms), 1 => 900u64..9_000];
    let shape = prop::sample::select(vec![
        Shape::None,
        Shape::None,
        Shape::Peak,
        Shape::Cells,
        Shape::Sustained,
        Shape::Packets,
        Shape::Softclock(Span::from_ms(10)),
        Shape::Tagged,
    ]);
    let frames = prop::sample::select(vec![
        FramePolicing::Cells,
        FramePolicing::Cells,
        FramePolicing::Partial,
        FramePolicing::Early { longest: 32 },
        FramePolicing::First,
    ]);
    let conformance = prop::sample::select(vec![Conformance::A, Conformance::B, Conformance::C]);

    let sustained = prop::option::of((period(), 1u32..90));
    let terms = (frames, conformance, any::<bool>(), 1u32..9);
    (period(), sustained, shape, terms).prop_map(
        |(us, sustained, shape, (frames, conformance, police, queue))| {
            let peak = Peak {
                period: Span::from_us(us),
                tolerance: Span::ZERO,
            };
            let contract = match sustained {
                None => CellContract::Ubr(peak),
                Some((more, burst)) => CellContract::Vbr {
                    peak,
                    sustained: Sustained {
                        period: Span::from_us(us + more),
                        burst,
                    },
                    conformance,
                },
            };
            ContractTerms {
                contract,
                shape,
                police,
                frames,
                queue,
            }
        },
    )
}

/// A backbone to which nothing happens.
fn shape() -> impl Strategy<Value = Plan> {
    let discard = prop_oneof![
        Just(Discard::None),
        Just(Discard::Partial),
        (0u32..60).prop_map(Discard::Early),
    ];
    let low = prop_oneof![Just(u32::MAX), 1u32..60];
    let timer = prop::option::of((1u64..40).prop_map(Span::from_ms));
    let queue = (discard, 1u32..90, 1u32..150, low, timer);
    let links = (
        prop::collection::vec(prop::sample::select(vec![106, 212, 212, 424]), 1..12),
        prop::collection::vec(
            prop::sample::select(vec![0, 0, 1, 1_000, 2_000, 30_000]),
            1..12,
        ),
    );
    let shape = (prop::collection::vec(0u32..4, 0..4), any::<bool>(), 2u32..6);
    let clocks = (any::<bool>(), prop::bool::weighted(0.3));
    (shape, links, queue, any::<u64>(), clocks).prop_map(
        |(
            (joins, ring, routers),
            (rates, delays),
            (discard, per_vc, port, low_limit, timer),
            seed,
            (random, slots),
        )| Plan {
            joins,
            ring,
            routers,
            rates,
            delays,
            queue: AtmQueue {
                discard,
                per_vc_limit: per_vc,
                port_limit: port,
                adapter_limit: None,
                max_vcs: 40,
                low_limit,
                drr_weight: 8,
            },
            timer,
            slots,
            policy: "noqos-conv-svc",
            flows: Vec::new(),
            seed,
            ties: if random { Ties::Random } else { Ties::Ordered },
        },
    )
}

fn plan() -> impl Strategy<Value = Plan> {
    let policy = prop::sample::select(vec![
        "noqos-conv-svc",
        "noqos-conv-svc",
        "noqos-conv-svccache",
        "noqos-app-svc",
        "noqos-router-svc",
        "sp-qos1-conv-svc",
        "wc-qos1-conv-svc",
        "sp-av-app-svccache",
        "wc-qos1-app-svccache",
        "nwc-qos1-app-svc",
        "nwc-qos1-conv-svccache",
        "drr-qos1-conv-svc",
        "drr-av-app-svccache",
        "edf-qos1-app-svc",
        "edf-av-conv-svccache",
    ]);
    let flow = (
        0u32..99,
        0u32..99,
        0u64..3_000,
        500u64..9_000,
        traffic(),
        prop::option::of(contract()),
    );
    let flows = prop::collection::vec(flow, 1..8);
    (shape(), policy, flows).prop_map(|(shape, policy, flows)| Plan {
        policy,
        flows,
        ..shape
    })
}

fn network(plan: &Plan, per_cell: bool) -> Network {
    let switches = plan.joins.len() as u32 + 1;
    let mut ends: Vec<[AtmEnd; 2]> = (1..switches)
        .zip(&plan.joins)
        .map(|(n, to)| [AtmEnd::Switch(n), AtmEnd::Switch(to % n)])
        .collect();
    if plan.ring && switches > 2 {
        ends.push([AtmEnd::Switch(0), AtmEnd::Switch(switches - 1)]);
    }
    // Each router is followed by its only host.
    let routers = (0..plan.routers).map(|n| NodeIndex(2 * n));
    ends.extend(
        routers
            .zip(0..)
            .map(|(router, n)| [AtmEnd::Adapter(router), AtmEnd::Switch(n % switches)]),
    );
    let links = ends.into_iter().zip(0..).map(|(ends, n)| AtmLink {
        ends,
        rate: Rate::from_bps(plan.rate(n) * 1_000),
        delay: Span::from_us(plan.delays[n % plan.delays.len()]),
    });
    let tcp = TcpConfig::from(Profile::Bsd44Lite);
    let nodes = (0..2 * plan.routers).map(|n| Node {
        name: format!("n{n}"),
        address: Ipv4Addr::from(0x0a00_0001 + n),
        role: match n % 2 {
            0 => Role::Router,
            _ => Role::Host(Box::new(tcp.clone())),
        },
        cpu: CpuCost::default(),
    });
    let mut contracts: Vec<HostContract> = Vec::new();
    let mut flows = Vec::new();
    for (n, (from, to, start, stop, traffic, contract)) in plan.flows.iter().enumerate() {
        let from = from % plan.routers;
        let to = (from + 1 + to % (plan.routers - 1)) % plan.routers;
        let at = |ms: &u64| Time::ZERO + Span::from_ms(*ms);
        let flow = Flow {
            name: format!("f{n}"),
            from: NodeIndex(2 * from + 1),
            to: NodeIndex(2 * to + 1),
            start: at(start),
            start_jitter: Span::ZERO,
            is_established: false,
            dscp: Default::default(),
            stop: Some(at(start) + Span::from_ms(*stop)),
            traffic: traffic.clone(),
        };
        // One between two hosts.
        if let Some(terms) = *contract
            && !contracts
                .iter()
                .any(|it| (it.from, it.to) == (flow.from, flow.to))
        {
            contracts.push(HostContract {
                name: flow.name.clone(),
                from: flow.from,
                to: flow.to,
                terms,
            });
        }
        flows.push(flow);
    }
    let access = |n| Link {
        ends: [NodeIndex(2 * n), NodeIndex(2 * n + 1)],
        ways: [Way {
            rate: Rate::from_bps(2_000_000),
            queue: Queue {
                limit: Limit::Unlimited,
                red: None,
                mark: None,
            },
            impair: Impairments::default(),
        }; 2],
        delay: Span::from_ms(1),
        mtu: 4_000,
        down: Default::default(),
        disciplines: Default::default(),
    };
    Network {
        nodes: nodes.collect(),
        links: (0..plan.routers).map(access).collect(),
        lans: Vec::new(),
        atm: Some(AtmBackbone {
            switches: (0..switches).map(|n| format!("s{n}")).collect(),
            links: links.collect(),
            queue: plan.queue,
            policy: plan.policy.to_owned(),
            signalling_delay: Span::ZERO,
            mtu: 1_500,
            idle: Span::from_secs(10),
            reassembly_timer: plan.timer,
            slots: plan.slots,
            per_cell,
        }),
        flows,
        generators: Vec::new(),
        contracts,
        mets: None,
        workload: None,
        // Circuits are idle for 10 s before they are given back.
        duration: Span::from_secs(16),
        warm_up: Span::ZERO,
        seed: plan.seed,
        ties: plan.ties,
        budget: Budget::default(),
    }
}

/// The departures of each port, and the report.
fn run(plan: &Plan, per_cell: bool) -> (Vec<Departure>, String) {
    let internet = Internet::new(&network(plan, per_cell)).expect("a network");
    departures(internet)
}

/// The same while cells are captured.
fn run_seen(plan: &Plan) -> (Vec<Departure>, String) {
    let mut internet = Internet::new(&network(plan, false)).expect("a network");
    assert!(internet.capture_cells());
    departures(internet)
}

fn departures(mut internet: Internet) -> (Vec<Departure>, String) {
    let report = internet.run(&mut ());
    let backbone = internet.medium.backbone.as_mut().expect("a backbone");
    let mut departures = std::mem::take(&mut backbone.fabric.departures);
    // Stable: those of a port keep their order.
    departures.sort_by_key(|it| (it.0, it.1));
    // Frames that begin at different nodes at one time may be made in any order: the first to leave is the first.
    let mut names = std::collections::BTreeMap::new();
    for it in &mut departures {
        let next = names.len() as u64;
        it.2 = *names.entry(it.2).or_insert(next);
    }
    (departures, serde_json::to_string(&report).expect("JSON"))
}

proptest! {
    // Each takes as long as many others.
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases / 16))]
    #[test]
    fn however_they_move_cells_are_the_same(plan in plan()) {
        let (cells, of_cells) = run(&plan, true);
        let (moved, of_moved) = run(&plan, false);
        prop_assert!(!cells.is_empty());
        if plan.slots {
            let slot = Rate::from_bps(plan.rate(0) * 1_000).time_for(53);
            let between = cells.iter().find(|it| it.1.next_multiple_of(slot) != it.1);
            prop_assert!(between.is_none(), "{:?} leaves between slots of {}", between, slot);
        }
        let differs = cells.iter().zip(&moved).position(|(cell, it)| cell != it);
        if let Some(n) = differs {
            let around = n.saturating_sub(3)..;
            let some = |all: &[_]| format!("{:?}", all[around.clone()].iter().take(6).collect::<Vec<_>>());
            prop_assert!(false, "\n{}\n{}", some(&cells), some(&moved));
        }
        prop_assert_eq!(cells.len(), moved.len());
        prop_assert_eq!(&of_cells, &of_moved);
        let (seen, of_seen) = run_seen(&plan);
        prop_assert!(cells == seen);
        prop_assert_eq!(of_cells, of_seen);
    }
}
