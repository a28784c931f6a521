//! Speed of the ATM backbone, as JSON: long frames through a row of switches with nothing in their way, and
//! many inputs whose cells all interleave at one output; as trains and cell by cell.
//!
//! Usage: cells [SECONDS]

use core::net::Ipv4Addr;
use std::time::Instant;

use layercast_core::{Rate, Span, Time};
use layercast_sim::internet::*;
use layercast_sim::scenario::Ties;
use layercast_tcp::{Profile, TcpConfig};

/// Bytes of every packet: 192 cells.
const BYTES: u32 = 9_180;
/// Time of a cell on a link of 155.52 Mbit/s of which 149.76 are cells.
const FAST: u64 = 149_760_000;

fn main() {
    let seconds = std::env::args().nth(1);
    let seconds = seconds.map_or(20, |it| it.parse().expect("a number"));
    let both = |network: fn(u64, bool) -> Network| {
        serde_json::json!({
            "trains": measure(&network(seconds, false)),
            "per_cell": measure(&network(seconds, true)),
        })
    };
    let found = serde_json::json!({ "row": both(row), "interleaved": both(interleaved) });
    println!("{found}");
}

fn measure(network: &Network) -> serde_json::Value {
    let start = Instant::now();
    let report = Internet::new(network).expect("a network").run(&mut ());
    let took = start.elapsed().as_secs_f64();
    let queues = report.atm.iter().flat_map(|atm| &atm.queues);
    serde_json::json!({
        "seconds": took,
        "cell_hops": report.cell_hops,
        "cell_hops_per_second": report.cell_hops as f64 / took,
        "dropped": queues.map(|it| it.dropped).sum::<u64>(),
    })
}

/// One stream at 60 % of its links through 16 switches.
fn row(seconds: u64, per_cell: bool) -> Network {
    let switches = 16;
    let mut links = vec![atm_link(AtmEnd::Adapter(NodeIndex(0)), 0, FAST)];
    links.extend((1..switches).map(|n| atm_link(AtmEnd::Switch(n - 1), n, FAST)));
    links.push(atm_link(AtmEnd::Adapter(NodeIndex(1)), switches - 1, FAST));
    network(
        seconds,
        per_cell,
        2,
        switches,
        links,
        &[(0, 1)],
        FAST * 6 / 10,
    )
}

/// 16 streams at 90 % of their links into one that is as fast as all of these.
fn interleaved(seconds: u64, per_cell: bool) -> Network {
    let inputs = 16;
    let slow = FAST / u64::from(inputs);
    let router = |n| AtmEnd::Adapter(NodeIndex(n));
    let mut links: Vec<_> = (0..inputs).map(|n| atm_link(router(n), 0, slow)).collect();
    links.push(atm_link(router(inputs), 0, FAST));
    let flows: Vec<_> = (0..inputs).map(|n| (n, inputs)).collect();
    network(
        seconds,
        per_cell,
        inputs + 1,
        1,
        links,
        &flows,
        slow * 9 / 10,
    )
}

fn atm_link(end: AtmEnd, switch: u32, bps: u64) -> AtmLink {
    AtmLink {
        ends: [end, AtmEnd::Switch(switch)],
        rate: Rate::from_bps(bps),
        delay: Span::from_us(5),
    }
}

/// Routers with a host each, and datagram streams between the hosts that take `bits` bit/s as cells.
fn network(
    seconds: u64,
    per_cell: bool,
    routers: u32,
    switches: u32,
    links: Vec<AtmLink>,
    flows: &[(u32, u32)],
    bps: u64,
) -> Network {
    let node = |n| Node {
        name: format!("n{n}"),
        address: Ipv4Addr::from(0x0a00_0001 + n),
        role: match n < routers {
            true => Role::Router,
            false => Role::Host(Box::new(TcpConfig::from(Profile::Modern))),
        },
        cpu: CpuCost::default(),
    };
    let access = |n| Link {
        ends: [NodeIndex(n), NodeIndex(routers + n)],
        ways: [Way {
            rate: Rate::from_bps(1_000_000_000),
            queue: Queue {
                limit: Limit::Unlimited,
                red: None,
                mark: None,
            },
            impair: Impairments::default(),
        }; 2],
        delay: Span::from_us(5),
        mtu: BYTES,
        down: Default::default(),
        disciplines: Default::default(),
    };
    let bits = (u64::from(BYTES) + 8).div_ceil(48) * 53 * 8;
    let flow = |(n, &(from, to)): (usize, &(u32, u32))| Flow {
        name: format!("flow{n}"),
        from: NodeIndex(routers + from),
        to: NodeIndex(routers + to),
        start: Time::ZERO + Span::from_us(113).times(n as u64),
        start_jitter: Span::ZERO,
        is_established: false,
        dscp: Default::default(),
        stop: None,
        traffic: Traffic::Datagrams {
            gap: Law::Constant(Span::from_ps(bits * 1_000_000_000_000 / bps)),
            size: SizeLaw::Constant(BYTES),
            bursts: None,
        },
    };
    Network {
        nodes: (0..2 * routers).map(node).collect(),
        links: (0..routers).map(access).collect(),
        lans: Vec::new(),
        atm: Some(AtmBackbone {
            switches: (0..switches).map(|n| format!("s{n}")).collect(),
            links,
            queue: AtmQueue {
                discard: Discard::Partial,
                per_vc_limit: 1_000,
                port_limit: 8_000,
                adapter_limit: None,
                max_vcs: 8_192,
                low_limit: u32::MAX,
                drr_weight: 8,
            },
            policy: "noqos-conv-svc".into(),
            signalling_delay: Span::ZERO,
            mtu: BYTES,
            idle: Span::from_secs(10),
            reassembly_timer: None,
            slots: false,
            per_cell,
        }),
        flows: flows.iter().enumerate().map(flow).collect(),
        generators: Vec::new(),
        contracts: Vec::new(),
        mets: None,
        workload: None,
        duration: Span::from_secs(seconds),
        warm_up: Span::ZERO,
        seed: 1,
        ties: Ties::Random,
        budget: Budget::default(),
    }
}
