//! Networks for the tests.

use core::net::Ipv4Addr;

use layercast_core::{Rate, Span, Time};
use layercast_sim::internet::*;
use layercast_sim::scenario::Ties;
use layercast_tcp::{Profile, TcpConfig};

/// A network without links or traffic, of these nodes; those without TCP are routers.
pub fn network(nodes: Vec<(String, Option<TcpConfig>)>, seconds: f64) -> Network {
    let node = |(n, (name, tcp)): (usize, (String, Option<TcpConfig>))| Node {
        name,
        address: Ipv4Addr::from(0x0a00_0001 + n as u32),
        role: tcp.map_or(Role::Router, |config| Role::Host(Box::new(config))),
        cpu: CpuCost::default(),
    };
    Network {
        nodes: nodes.into_iter().enumerate().map(node).collect(),
        links: Vec::new(),
        lans: Vec::new(),
        atm: None,
        flows: Vec::new(),
        generators: Vec::new(),
        contracts: Vec::new(),
        mets: None,
        workload: None,
        duration: Span::from_secs_f64(seconds),
        warm_up: Span::ZERO,
        seed: 1,
        ties: Ties::Random,
        budget: Budget::default(),
    }
}

pub fn link(a: u32, b: u32, bps: u64, delay: Span, limit: Limit) -> Link {
    let way = Way {
        rate: Rate::from_bps(bps),
        queue: Queue {
            limit,
            red: None,
            mark: None,
        },
        impair: Impairments::default(),
    };
    Link {
        ends: [NodeIndex(a), NodeIndex(b)],
        ways: [way; 2],
        delay,
        mtu: 1_500,
        down: Default::default(),
        disciplines: Default::default(),
    }
}

pub fn modern(mss: u16) -> TcpConfig {
    let mut config = TcpConfig::from(Profile::Modern);
    config.mss = mss;
    config
}

pub fn flow(name: &str, from: u32, to: u32, start: Span, traffic: Traffic) -> Flow {
    Flow {
        name: name.to_owned(),
        from: NodeIndex(from),
        to: NodeIndex(to),
        start: Time::ZERO + start,
        start_jitter: Span::ZERO,
        is_established: false,
        dscp: Default::default(),
        stop: None,
        traffic,
    }
}

/// `flows` TCP connections from left to right through one link between two routers.
pub fn dumbbell(flows: u32, bps: u64, delay: Span, limit: Limit, seconds: f64) -> Network {
    let host = |side: &str, n: u32| (format!("{side}{n}"), Some(modern(1_448)));
    let mut nodes = vec![("r1".to_owned(), None), ("r2".to_owned(), None)];
    nodes.extend((0..flows).map(|n| host("left", n)));
    nodes.extend((0..flows).map(|n| host("right", n)));
    let mut network = network(nodes, seconds);
    network.links.push(link(0, 1, bps, delay, limit));
    let access = |host, router| {
        let ms = Span::from_ms(1);
        link(host, router, 1_000_000_000, ms, Limit::Unlimited)
    };
    for n in 0..flows {
        network.links.push(access(2 + n, 0));
        network.links.push(access(2 + flows + n, 1));
        let name = format!("flow{n}");
        let start = Span::from_ms(u64::from(n));
        let bulk = Traffic::Bulk(None);
        network
            .flows
            .push(flow(&name, 2 + n, 2 + flows + n, start, bulk));
    }
    network
}

pub fn run(network: &Network) -> Report {
    Internet::new(network).expect("a network").run(&mut ())
}
