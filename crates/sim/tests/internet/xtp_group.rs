//! Flows of XTP to many receivers: one sender, routers, LANs, lines that lose.

use core::net::Ipv4Addr;
use std::path::Path;

use layercast_core::{Span, Time};
use layercast_sim::internet::*;
use layercast_wire::{IpBody, Ipv4Packet, XtpService};
use layercast_xtp::{XtpConfig, XtpGroup};

use super::common::*;

/// source - r0 - r1 - LAN with three hosts, and r0 - r2 - two hosts; all with TCP as hosts have it.
fn campus(seconds: f64, loss: f64) -> Network {
    let host = |name: &str| (name.to_owned(), Some(modern(1_448)));
    let router = |name: &str| (name.to_owned(), None);
    let mut nodes = vec![router("r0"), router("r1"), router("r2"), host("source")];
    nodes.extend(["a", "b", "c", "d", "e"].map(host));
    let mut network = network(nodes, seconds);
    let line = |a, b, bps| link(a, b, bps, Span::from_ms(5), Limit::Packets(100));
    network.links = vec![
        line(3, 0, 100_000_000),
        line(0, 1, 10_000_000),
        line(0, 2, 10_000_000),
        line(2, 7, 10_000_000),
        line(2, 8, 10_000_000),
    ];
    for link in &mut network.links[3..] {
        for way in &mut link.ways {
            way.impair = Impairments::losing(loss);
        }
    }
    network.lans.push(Lan {
        name: "lan".to_owned(),
        rate: layercast_core::Rate::from_bps(10_000_000),
        latency: Span::from_us(10),
        mtu: 1_500,
        stations: [1, 4, 5, 6].map(NodeIndex).to_vec(),
    });
    network
}

fn receiver(node: u32) -> Receiver {
    Receiver {
        node: NodeIndex(node),
        join: None,
    }
}

fn to_all(bytes: u64, service: XtpService, receivers: Vec<Receiver>) -> Flow {
    let reliable = service == XtpService::RELIABLE_MULTICAST;
    let invited = receivers.iter().filter(|it| it.join.is_none()).count();
    let config = XtpConfig {
        fast_nak: reliable,
        group: XtpGroup {
            wait_for: invited as u32,
            ..XtpGroup::default()
        },
        ..XtpConfig::new(service)
    };
    let first = receivers[0].node.0;
    let traffic = Traffic::XtpMulticast {
        bytes: Some(bytes),
        config: Box::new(config),
        receivers,
    };
    flow("all", 3, first, Span::from_ms(10), traffic)
}

fn five() -> Vec<Receiver> {
    (4..9).map(receiver).collect()
}

#[test]
fn everybody_gets_every_byte_and_each_link_carries_it_once() {
    let mut network = campus(60.0, 0.0);
    let service = XtpService::RELIABLE_MULTICAST;
    network.flows = vec![to_all(500_000, service, five())];
    let report = run(&network);
    let flow = &report.flows[0];
    assert_eq!(flow.receivers.len(), 5);
    for receiver in &flow.receivers {
        assert_eq!((receiver.bytes, receiver.first_byte), (500_000, Some(0)));
        assert!(
            receiver.completed.is_some() && receiver.failed.is_none(),
            "{receiver:?}"
        );
    }
    assert_eq!(flow.bytes, 2_500_000);
    assert!(flow.completed.is_some());
    assert_eq!(flow.retransmitted, 0);
    // Headers of 52 bytes on 1448: nowhere a second copy of the data, nor less than all of them.
    let data = 500_000 / 1_448 * 1_500;
    for name in ["source->r0", "r0->r1", "r0->r2", "lan", "r2->d", "r2->e"] {
        let queue = report.queues.iter().find(|queue| queue.name == name);
        let bytes = queue.map_or(0, |queue| queue.bytes);
        assert!((data..data * 5 / 4).contains(&bytes), "{name}: {bytes}");
    }
}

#[test]
fn what_lines_lose_comes_again_and_the_same_seed_gives_the_same_run() {
    let mut network = campus(120.0, 0.03);
    let service = XtpService::RELIABLE_MULTICAST;
    network.flows = vec![to_all(500_000, service, five())];
    let report = run(&network);
    let flow = &report.flows[0];
    assert!(flow.retransmitted > 5, "{flow:?}");
    for receiver in &flow.receivers {
        assert_eq!(receiver.bytes, 500_000, "{receiver:?}");
        assert!(receiver.completed.is_some());
    }
    assert_eq!(format!("{report:?}"), format!("{:?}", run(&network)));
    network.seed = 2;
    assert_ne!(format!("{report:?}"), format!("{:?}", run(&network)));
}

#[test]
fn who_comes_late_is_let_in_and_gets_the_rest() {
    let mut network = campus(120.0, 0.01);
    let mut receivers = five();
    receivers[4].join = Some(Time::ZERO + Span::from_ms(400));
    let service = XtpService::RELIABLE_MULTICAST;
    network.flows = vec![to_all(2_000_000, service, receivers)];
    let report = run(&network);
    let receivers = &report.flows[0].receivers;
    for receiver in &receivers[..4] {
        assert_eq!(receiver.bytes, 2_000_000);
    }
    let late = &receivers[4];
    let first = late.first_byte.expect("let in");
    assert!(first > 0, "{late:?}");
    assert_eq!(late.bytes, 2_000_000 - first);
    assert!(
        late.completed.is_some() && late.joined > Some(0.4),
        "{late:?}"
    );
}

#[test]
fn a_stream_that_nobody_acknowledges_loses_what_is_lost() {
    let mut network = campus(60.0, 0.05);
    network.flows = vec![to_all(1_000_000, XtpService::MULTICAST, five())];
    let Traffic::XtpMulticast { config, .. } = &mut network.flows[0].traffic else {
        unreachable!("it was made so");
    };
    config.out_limit.rate = 250_000;
    let report = run(&network);
    let flow = &report.flows[0];
    assert_eq!(flow.retransmitted, 0);
    for receiver in &flow.receivers[..3] {
        assert_eq!(receiver.bytes, 1_000_000, "{receiver:?}");
    }
    for receiver in &flow.receivers[3..] {
        assert!(
            (900_000..1_000_000).contains(&receiver.bytes),
            "{receiver:?}"
        );
    }
}

#[test]
fn who_cannot_be_reached_is_dropped_and_the_others_go_on() {
    let mut network = campus(120.0, 0.0);
    // Most packets to and from e are lost: it is admitted, and then silent for too long.
    for way in &mut network.links[4].ways {
        way.impair = Impairments::losing(0.7);
    }
    let service = XtpService::RELIABLE_MULTICAST;
    network.flows = vec![to_all(300_000, service, five())];
    let report = run(&network);
    let flow = &report.flows[0];
    for receiver in &flow.receivers[..4] {
        assert_eq!(receiver.bytes, 300_000, "{receiver:?}");
    }
    let gone = &flow.receivers[4];
    assert!(gone.joined.is_some() && gone.failed.is_some(), "{gone:?}");
    assert!(gone.completed.is_none() && gone.bytes < 300_000, "{gone:?}");
    assert_eq!(flow.completed, None);
}

#[test]
fn groups_that_cannot_be_are_refused() {
    let service = XtpService::RELIABLE_MULTICAST;
    let refused = |change: &dyn Fn(&mut Network)| {
        let mut network = campus(1.0, 0.0);
        network.flows = vec![to_all(1, service, five())];
        change(&mut network);
        Internet::new(&network).expect_err("refused").to_string()
    };
    let receivers = |network: &mut Network, all: Vec<Receiver>| {
        if let Traffic::XtpMulticast { receivers, .. } = &mut network.flows[0].traffic {
            *receivers = all;
        }
    };
    let error = refused(&|network| receivers(network, vec![receiver(4), receiver(4)]));
    assert!(error.contains("different hosts"), "{error}");
    let error = refused(&|network| receivers(network, vec![receiver(4), receiver(3)]));
    assert!(error.contains("not the sender"), "{error}");
    let error = refused(&|network| receivers(network, vec![receiver(4), receiver(1)]));
    assert!(error.contains("not to a router"), "{error}");
    let error = refused(&|network| receivers(network, Vec::new()));
    assert!(error.contains("there is no receiver"), "{error}");
    let error = refused(&|network| network.lans[0].mtu = 1_400);
    assert!(error.contains("are not cut"), "{error}");
}

/// What is seen on links.
#[derive(Default)]
struct Seen(Vec<Ipv4Packet>);

impl Watch for Seen {
    fn sample(&mut self, _: &Sample) {}

    fn packet(&mut self, _: Time, _: u32, packet: &Ipv4Packet) {
        self.0.push(packet.clone());
    }
}

#[test]
fn packets_to_the_group_bear_its_address_and_decode() {
    let mut network = campus(30.0, 0.02);
    let service = XtpService::RELIABLE_MULTICAST;
    network.flows = vec![to_all(50_000, service, five())];
    let mut world = Internet::new(&network).expect("a network");
    world.capture();
    let mut seen = Seen::default();
    world.run(&mut seen);
    let group = Ipv4Addr::new(239, 1, 0, 0);
    let (to_group, back): (Vec<_>, Vec<_>) = seen.0.iter().partition(|it| it.dst == group);
    assert!(to_group.len() > 200 && back.len() > 20);
    let source = network.nodes[3].address;
    assert!(to_group.iter().all(|it| it.src == source));
    for packet in &seen.0 {
        let IpBody::Other {
            protocol: 36,
            payload,
        } = &packet.body
        else {
            panic!("{packet:?}");
        };
        let mut bytes = Vec::new();
        payload.append_to(&mut bytes);
        let decoded = layercast_wire::XtpPacket::decode(bytes.into());
        assert!(decoded.is_ok(), "{decoded:?}");
    }
}

#[test]
fn a_scenario_says_who_receives_and_when() {
    let text = |flow: &str| {
        format!(
            "schema = \"internet/1\"\nname = \"group\"\n[run]\nduration = \"10s\"\n\
             [topology]\nkind = \"star\"\nhosts = 6\n\
             access = {{ rate = \"10 Mbit/s\", delay = \"1ms\" }}\n\
             [[flow]]\nfrom = \"host1\"\nto = \"host{{2..6}}\"\n{flow}\n"
        )
    };
    let network = |flow: &str| {
        let scenario = scenario::Scenario::from_toml(&text(flow), Path::new("."));
        let text = text(flow);
        scenario
            .expect("TOML")
            .resolve()
            .map_err(|error| error.located(&text))
    };
    let group = "group = { late = \"host{5..6}\", join = \"2s\", slot = \"20ms\", misses = 5 }";
    let found = network(&format!("bytes = \"1 MB\"\nxtp = {{ {group} }}")).expect("a network");
    let Traffic::XtpMulticast {
        config, receivers, ..
    } = &found.flows[0].traffic
    else {
        panic!("{:?}", found.flows[0]);
    };
    assert_eq!(receivers.len(), 5);
    let late = receivers
        .iter()
        .filter(|it| it.join == Some(Time::ZERO + Span::from_secs(2)));
    assert_eq!(late.count(), 2);
    assert_eq!((config.group.wait_for, config.group.misses), (3, 5));
    assert_eq!(config.service, XtpService::RELIABLE_MULTICAST);
    assert_eq!(found.flows[0].name, "host1->host{2..6}");
    for (wrong, complaint) in [
        (
            "xtp = { group = { late = \"host2\" } }",
            "line 12: flow[0].xtp.group.join: it is missing",
        ),
        (
            "xtp = { group = { join = \"2s\" } }",
            "flow[0].xtp.group.late",
        ),
        (
            "xtp = { group = { late = \"host1\", join = \"2s\" } }",
            "some of to",
        ),
        (
            "xtp = { group = { late = \"host2\", join = \"11s\" } }",
            "before the end, 10s",
        ),
        ("xtp = { group = { wait_for = 6 } }", "from 1 to 5"),
        ("xtp = { group = {}, delivery = \"context\" }", "go over IP"),
        ("xtp = { group = {}, max_data = 1449 }", "at most 1448"),
        (
            "xtp = { group = { misses = 0 } }",
            "receivers and misses must be above 0",
        ),
        (
            "xtp = { group = {}, error_control = false, flow_control = true }",
            "without acknowledgements",
        ),
        ("stagger = \"1s\"\nxtp = { group = {} }", "stagger"),
        (
            "name = \"a{1..2}\"\nxtp = { group = {} }",
            "expected one name for its one flow",
        ),
    ] {
        let error = network(wrong).expect_err(wrong).to_string();
        assert!(error.contains(complaint), "{wrong}: {error}");
        assert!(error.starts_with("line "), "{error}");
    }
}

#[test]
fn in_the_ready_made_scenario_everybody_gets_the_file() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/internet");
    let text = std::fs::read_to_string(folder.join("xtp-multicast.toml")).expect("a file");
    let scenario = scenario::Scenario::from_toml(&text, &folder).expect("a scenario");
    let network = scenario.resolve().expect("a network");
    assert_eq!(network.warnings(), []);
    let report = run(&network);
    let [file, live] = &report.flows[..] else {
        panic!("{report:?}");
    };
    for receiver in &file.receivers {
        let first = receiver.first_byte.expect("let in");
        assert_eq!(receiver.bytes, 10_000_000 - first, "{receiver:?}");
        assert!(receiver.completed.is_some());
    }
    let late = file.receivers.last().expect("six");
    assert!(
        late.joined > Some(5.0) && late.first_byte > Some(1_000_000),
        "{late:?}"
    );
    for receiver in &live.receivers {
        assert!(receiver.bytes > 3_000_000, "{receiver:?}");
    }
}
