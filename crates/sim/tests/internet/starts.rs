//! How flows start: with a connection that exists, at a random time, with a TCP of their own.

use std::path::Path;

use layercast_sim::internet::scenario::Scenario;
use layercast_sim::internet::{Network, Role};
use layercast_tcp::Variant;

use super::common::run;

fn network(text: &str) -> Network {
    let scenario = Scenario::from_toml(text, Path::new("")).unwrap();
    scenario.resolve().unwrap()
}

fn refused(text: &str) -> String {
    let scenario = Scenario::from_toml(text, Path::new("")).unwrap();
    scenario.resolve().unwrap_err().to_string()
}

/// 60 hosts send 20 kB each to one, at one instant, through a queue of 20 packets.
fn incast(more: &str) -> Network {
    network(&format!(
        r#"
        schema = "internet/1"
        name = "incast"
        run = {{ duration = "20s" }}
        tcp.default = {{ min_rto = "10ms", first_rto = "10ms" }}
        [topology]
        kind = "star"
        hosts = 61
        access = {{ rate = "1 Gbit/s", delay = "10us", queue = "20 packets" }}
        [[flow]]
        from = "host{{1..60}}"
        to = "host61"
        bytes = "20 kB"
        {more}
        "#
    ))
}

#[test]
fn established_connections_send_data_first() {
    let report = run(&incast("established = true"));
    for flow in &report.flows {
        // Half a round trip after the start nothing but data has been sent: 14 segments, what was lost again, and FIN.
        assert_eq!(flow.bytes, 20_000);
        assert!(flow.completed.is_some(), "{flow:?}");
        let least = 14 + flow.retransmitted;
        assert!((least..=least + 4).contains(&flow.sent), "{flow:?}");
    }
    let alone = |more: &str| {
        let mut network = incast(more);
        network.flows.truncate(1);
        run(&network).flows[0].completed.expect("an end")
    };
    // Alone it saves the round trip of the handshake: 4 times 10 us, and what its packets take to send.
    let saved = alone("") - alone("established = true");
    assert!((40e-6..50e-6).contains(&saved), "{saved}");
}

/// `first_rto` alone bounds how long a lost SYN delays: what backs off is 10, 20, 40, .. ms.
#[test]
fn an_incast_with_a_short_first_time_out_completes() {
    let report = run(&incast(""));
    let done = report.flows.iter().filter_map(|flow| flow.completed);
    let last = done.clone().fold(0.0, f64::max);
    assert_eq!(done.count(), 60);
    assert!(last < 1.0, "{last}");
}

#[test]
fn starts_are_drawn_for_each_flow_and_seed() {
    let with = |seed| {
        let mut network = incast("start = \"1s\"\nstart_jitter = \"100ms\"");
        network.seed = seed;
        let starts = run(&network).flows.into_iter().map(|flow| flow.start);
        starts.collect::<Vec<f64>>()
    };
    let (first, second) = (with(1), with(2));
    assert_eq!(first, with(1));
    assert!(first.iter().all(|start| (1.0..1.1).contains(start)));
    let mean = first.iter().sum::<f64>() / 60.0;
    // The mean of 60 of them is within 3 standard deviations, 100 ms / sqrt(12 * 60).
    assert!((mean - 1.05).abs() < 0.0112, "{mean}");
    assert!(first.iter().zip(&second).all(|(a, b)| a != b));
}

#[test]
fn flows_of_a_ready_made_network_have_their_own_tcp() {
    let text = |second: &str| {
        format!(
            r#"
            schema = "internet/1"
            name = "mixed"
            run = {{ duration = "10s" }}
            [topology]
            kind = "dumbbell"
            pairs = 2
            trunk = {{ rate = "10 Mbit/s", delay = "10ms", queue = "20 packets" }}
            access = {{ rate = "100 Mbit/s", delay = "1ms" }}
            [tcp.old]
            variant = "reno"
            [[flow]]
            from = "left1"
            to = "right1"
            tcp = "old"
            [[flow]]
            {second}
            "#
        )
    };
    let network = network(&text("from = \"left2\"\nto = \"right2\""));
    let variant = |name: &str| {
        let node = network.nodes.iter().find(|node| node.name == name);
        match &node.expect("it is there").role {
            Role::Host(tcp) => tcp.variant,
            Role::Router => panic!("{name} is a router"),
        }
    };
    let found = ["left1", "right1", "left2", "right2"].map(variant);
    use Variant::{Cubic, Reno};
    assert_eq!(found, [Reno, Reno, Cubic, Cubic]);
    let twice = refused(&text("from = \"left1\"\nto = \"right2\"\ntcp = \"modern\""));
    assert!(
        twice.contains("left1 has the TCP \"old\" of flow[0]"),
        "{twice}"
    );
    let unknown = refused(&text("from = \"left2\"\nto = \"right2\"\ntcp = \"odl\""));
    assert!(unknown.contains("did you mean \"old\"?"), "{unknown}");
    let stream = r#"from = "left2"
        to = "right2"
        established = true
        datagrams = { gap = "1ms", size = "100 B" }"#;
    assert!(refused(&text(stream)).contains("flow[1].established"));
    let late = "from = \"left2\"\nto = \"right2\"\nstart = \"9s\"\nstart_jitter = \"1s\"";
    assert!(refused(&text(late)).contains("flow[1].start_jitter"));
}
