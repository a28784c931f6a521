//! Speed of the internetwork simulator on the dumbbell of docs/src/results/bench-simulator.md, as JSON.
//!
//! Usage: internet [SECONDS [FLOWS]]

use core::net::Ipv4Addr;
use std::time::Instant;

use layercast_core::{Rate, Span, Time};
use layercast_sim::internet::*;
use layercast_sim::scenario::Ties;
use layercast_tcp::{Profile, TcpConfig, Variant};

fn main() {
    let mut args = std::env::args()
        .skip(1)
        .map(|it| it.parse().expect("a number"));
    let (seconds, flows) = (args.next().unwrap_or(100), args.next().unwrap_or(10) as u32);
    let mut tcp = TcpConfig::from(Profile::Modern);
    (tcp.variant, tcp.mss) = (Variant::NewReno, 1_448);
    (tcp.sack, tcp.timestamps, tcp.fast_tick) = (false, false, None);
    (tcp.send_buffer, tcp.recv_buffer) = (2_000 * 1_448, 2_000 * 1_448);
    let node = |(n, (name, role)): (usize, (String, Role))| Node {
        name,
        address: Ipv4Addr::from(0x0a00_0001 + n as u32),
        role,
        cpu: CpuCost::default(),
    };
    let host = |name| (name, Role::Host(Box::new(tcp.clone())));
    let routers = ["r1", "r2"].map(|name| (name.to_owned(), Role::Router));
    let lefts = (0..flows).map(|n| host(format!("left{n}")));
    let rights = (0..flows).map(|n| host(format!("right{n}")));
    let nodes = routers.into_iter().chain(lefts).chain(rights);
    let link = |a, b, bps, ms, limit| Link {
        ends: [NodeIndex(a), NodeIndex(b)],
        ways: [Way {
            rate: Rate::from_bps(bps),
            queue: Queue {
                limit,
                red: None,
                mark: None,
            },
            impair: Impairments::default(),
        }; 2],
        delay: Span::from_ms(ms),
        mtu: 1_500,
        down: Default::default(),
        disciplines: Default::default(),
    };
    let mut links = vec![link(0, 1, 100_000_000, 10, Limit::Packets(200))];
    links.extend((0..flows).map(|n| link(2 + n, 0, 1_000_000_000, 1, Limit::Unlimited)));
    links.extend((0..flows).map(|n| link(2 + flows + n, 1, 1_000_000_000, 1, Limit::Unlimited)));
    let flow = |n| Flow {
        name: format!("flow{n}"),
        from: NodeIndex(2 + n),
        to: NodeIndex(2 + flows + n),
        start: Time::ZERO + Span::from_ms(u64::from(n)),
        start_jitter: Span::ZERO,
        is_established: false,
        dscp: Default::default(),
        stop: None,
        traffic: Traffic::Bulk(None),
    };
    let network = Network {
        nodes: nodes.enumerate().map(node).collect(),
        links,
        lans: Vec::new(),
        atm: None,
        flows: (0..flows).map(flow).collect(),
        generators: Vec::new(),
        contracts: Vec::new(),
        mets: None,
        workload: None,
        duration: Span::from_secs(seconds),
        warm_up: Span::ZERO,
        seed: 1,
        ties: Ties::Random,
        budget: Budget::default(),
    };
    let start = Instant::now();
    let report = Internet::new(&network).expect("a network").run(&mut ());
    let took = start.elapsed().as_secs_f64();
    let goodput: f64 = report.flows.iter().map(|it| it.goodput_bps).sum();
    println!(
        "{}",
        serde_json::json!({
            "seconds": took,
            "events_per_second": report.events as f64 / took,
            "packet_hops": report.packet_hops,
            "packet_hops_per_second": report.packet_hops as f64 / took,
            "goodput_bps": goodput,
        })
    );
}
