//! Flows over a fat tree, by the ways that its routers choose.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::super::*;
use crate::internet::medium::ecmp::Conversation;
use crate::internet::medium::routes::Ways;
use crate::internet::scenario::Scenario;

/// Below which 99 % of a chi-square distribution lie (Wilson and Hilferty 1931).
fn quantile_99(freedom: f64) -> f64 {
    let spread = 2.0 / (9.0 * freedom);
    freedom * (1.0 - spread + 2.326_348 * spread.sqrt()).powi(3)
}

/// Each pair of hosts of a fat tree has some flows. Each router that has a choice spreads those that come to it evenly and
/// independently of what routers before it chose: by the chi-square test, of 100 routers one fails.
fn spreads(k: u32) {
    let text = format!(
        r#"
        schema = "internet/1"
        name = "fat"
        run = {{ duration = "1s" }}
        [topology]
        kind = "fat-tree"
        k = {k}
        trunk = {{ rate = "1 Gbit/s", delay = "10us" }}
        access = {{ rate = "1 Gbit/s", delay = "10us" }}
        "#
    );
    let network = Scenario::from_toml(&text, Path::new("")).unwrap();
    let network = network.resolve().unwrap();
    let turns = Turns::new(network.ties, network.seed);
    let routes = build(&network, turns).unwrap().routes;
    let hosts: Vec<NodeIndex> = (0..network.nodes.len() as u32)
        .map(NodeIndex)
        .filter(|&node| !network.is_router(node))
        .collect();
    let address = |node: NodeIndex| network.nodes[node.0 as usize].address;
    let mut counts: BTreeMap<NodeIndex, BTreeMap<NodeIndex, u32>> = BTreeMap::new();
    for (n, &from) in hosts.iter().enumerate() {
        // To another host of each other pod.
        let step = hosts.len() / k as usize;
        for to in (1..k as usize).map(|pod| hosts[(n + pod * step) % hosts.len()]) {
            for port in 0..8 {
                let conversation = Conversation::tcp((49_152 + port, 5_001));
                let flow = conversation.mark(address(from), address(to));
                let mut at = from;
                while at != to {
                    let hop = routes.next(at, to, flow).expect("a way");
                    if matches!(routes.ways(at, to), Ways::Several(..)) {
                        *counts.entry(at).or_default().entry(hop.next).or_default() += 1;
                    }
                    at = hop.next;
                }
            }
        }
    }
    let half = k / 2;
    // Routers at the edge and above it choose.
    assert_eq!(counts.len() as u32, k * k);
    let used: BTreeSet<_> = counts.values().flat_map(BTreeMap::keys).collect();
    assert_eq!(
        used.len() as u32,
        half * half + k * half,
        "some router gets nothing"
    );
    let (mut all, mut beyond) = (0.0, 0);
    for ways in counts.values() {
        let flows: u32 = ways.values().sum();
        let even = f64::from(flows) / f64::from(half);
        // Ways that nothing takes count, too.
        let missing = even * f64::from(half - ways.len() as u32);
        let square = |&count: &u32| (f64::from(count) - even).powi(2) / even;
        let chi = missing + ways.values().map(square).sum::<f64>();
        all += chi;
        beyond += u32::from(chi > quantile_99(f64::from(half - 1)));
    }
    let routers = f64::from(k * k);
    assert!(
        f64::from(beyond) <= (0.03 * routers).max(2.0),
        "{beyond} of {routers}"
    );
    let most = quantile_99(routers * f64::from(half - 1));
    assert!(all < most, "{all} of {most}");
}

#[test]
fn every_router_of_a_fat_tree_spreads_flows_evenly() {
    for k in [4, 8, 16] {
        spreads(k);
    }
}
