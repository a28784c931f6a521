//! What a network fixes: links, routes, and the TCP of its hosts.

use std::sync::Arc;

use layercast_core::Stream;
use layercast_tcp::{Endpoint, TcpConfig};
use rand_core::RngCore;
use rustc_hash::FxHashMap;

use crate::internet::engine::Lines;
use crate::internet::error::NetworkError;
use crate::internet::medium::hop::{Hop, Interface};
use crate::internet::medium::pipe::Pipe;
use crate::internet::medium::routes::{Addresses, Adjacency, Routes};
use crate::internet::network::{Lan, Link, Network, NodeIndex, Role, Traffic, Way};
use crate::internet::{atm, check};
use crate::ties::Turns;

/// The fixed parts of a world.
pub(super) struct Built {
    /// Two for each link, then one for each LAN.
    pub pipes: Vec<Pipe>,
    pub routes: Routes,
    pub addresses: Addresses,
    pub endpoints: Vec<(Endpoint, NodeIndex)>,
    /// The order of packets that arrive at one instant.
    pub lines: Lines,
    /// Names of the directions of links, no two alike.
    pub names: Vec<String>,
}

pub(super) fn build(network: &Network, turns: Turns) -> Result<Built, NetworkError> {
    check::check(network)?;
    let mut pipes = Vec::new();
    let mut names = Vec::with_capacity(2 * network.links.len());
    let mut parallel = FxHashMap::default();
    for link in &network.links {
        // Links between the same nodes have the same name, and chances and turns of their own.
        let [a, b] = link.ends;
        let number = parallel.entry([a.min(b), a.max(b)]).or_insert(0_u32);
        *number += 1;
        for way in 0..2 {
            let name = name_of(network, link, way);
            let of_its_own = match *number {
                1 => name.clone(),
                number => format!("{name}/{number}"),
            };
            pipes.push(pipe_of(network, link, way, name, &of_its_own));
            names.push(of_its_own);
        }
    }
    for Lan {
        name,
        rate,
        latency,
        mtu,
        ..
    } in &network.lans
    {
        pipes.push(Pipe::new(name.clone(), *rate, *latency, *mtu));
    }
    let lines = Lines::new(
        turns,
        names.iter().map(String::as_str),
        network.lans.iter().map(|lan| lan.name.as_str()),
        network.nodes.iter().map(|node| node.name.as_str()),
    );
    crowds(network)?;
    let routes = Routes::new(network, adjacency(network))?;
    for flow in &network.flows {
        let others = match &flow.traffic {
            Traffic::XtpMulticast { receivers, .. } => receivers.as_slice(),
            _ => &[],
        };
        let mut ends = others.iter().map(|it| it.node).chain([flow.to]);
        if let Some(to) = ends.find(|&to| !routes.reaches(flow.from, to)) {
            let name = |node: NodeIndex| network.nodes[node.0 as usize].name.clone();
            return Err(NetworkError::NoWay {
                flow: flow.name.clone(),
                from: name(flow.from),
                to: name(to),
            });
        }
    }
    Ok(Built {
        pipes,
        routes,
        addresses: Addresses::new(network),
        endpoints: endpoints(network)?,
        lines,
        names,
    })
}

fn name_of(network: &Network, link: &Link, way: usize) -> String {
    let name = |end: usize| &network.nodes[link.ends[end].0 as usize].name;
    format!("{}->{}", name(way), name(1 - way))
}

fn pipe_of(network: &Network, link: &Link, way: usize, name: String, of_its_own: &str) -> Pipe {
    let Link { delay, mtu, .. } = *link;
    let Way { rate, .. } = link.ways[way];
    let pipe = Pipe::new(name, rate, delay, mtu);
    pipe.with_way(link.ways[way], (network.seed, of_its_own))
        .with_outages(link.down[way].clone())
}

fn endpoints(network: &Network) -> Result<Vec<(Endpoint, NodeIndex)>, NetworkError> {
    let mut found = Vec::new();
    // Most hosts are alike, and one configuration in the caches serves them all.
    let mut last: Option<Arc<TcpConfig>> = None;
    for (n, node) in network.nodes.iter().enumerate() {
        if let Role::Host(config) = &node.role {
            let same = last.take().filter(|it| **it == **config);
            let config = same.unwrap_or_else(|| Arc::new((**config).clone()));
            last = Some(config.clone());
            let mut secret = [0; 32];
            Stream::new(network.seed, &format!("tcp/{}", node.name)).fill_bytes(&mut secret);
            let endpoint = Endpoint::new(config, &node.name, &secret);
            let endpoint = endpoint.map_err(|error| NetworkError::Tcp {
                host: node.name.clone(),
                error,
            })?;
            found.push((endpoint, NodeIndex(n as u32)));
        }
    }
    Ok(found)
}

/// Most neighbours of routers on LANs and a backbone; links have two ends.
const MOST_NEIGHBOURS: u64 = 20_000_000;

/// Nodes with too many neighbours for a list of them.
fn crowds(network: &Network) -> Result<(), NetworkError> {
    let mut all = 0;
    let lans = network.lans.iter().map(|lan| {
        let stations = lan.stations.iter();
        let routers = stations.filter(|&&node| network.is_router(node)).count();
        (routers * lan.stations.len(), Some(lan))
    });
    let atm = network.atm.iter().map(|atm| {
        let nodes = atm::adapted(atm);
        let routers = nodes.iter().filter(|&&node| network.is_router(node));
        routers.count() * nodes.len()
    });
    for (neighbours, lan) in lans.chain(atm.map(|neighbours| (neighbours, None))) {
        all += neighbours as u64;
        if all > MOST_NEIGHBOURS {
            return Err(NetworkError::Crowded {
                part: lan.map_or("atm".to_owned(), |lan| format!("LAN {:?}", lan.name)),
                neighbours: neighbours as u64,
                most: MOST_NEIGHBOURS,
            });
        }
    }
    Ok(())
}

fn adjacency(network: &Network) -> Adjacency {
    let mut found = Adjacency {
        medium: vec![None; network.nodes.len()],
        hops: vec![Vec::new(); network.nodes.len()],
    };
    let forwards = |node: NodeIndex| network.is_router(node);
    for (n, link) in network.links.iter().enumerate() {
        let pipe = |end| Interface::Pipe((2 * n + end) as u32);
        found.share(&link.ends, pipe, forwards);
    }
    if let Some(atm) = &network.atm {
        // To IP the backbone is one link: everyone on it is next to every other.
        let adapter = |n| Interface::Atm(atm::adapter(atm, n));
        found.share(&atm::adapted(atm), adapter, forwards);
    }
    for (n, lan) in network.lans.iter().enumerate() {
        let pipe = Interface::Pipe((2 * network.links.len() + n) as u32);
        found.share(&lan.stations, |_| pipe, forwards);
    }
    found
}

impl Adjacency {
    /// Adjacent nodes, the nth of them by an interface of this number. Hosts find each other without a list:
    /// only the neighbours of routers are listed.
    fn share(
        &mut self,
        nodes: &[NodeIndex],
        interface: impl Fn(usize) -> Interface,
        forwards: impl Fn(NodeIndex) -> bool,
    ) {
        let all = nodes.iter().copied();
        let routers: Vec<NodeIndex> = all.filter(|&it| forwards(it)).collect();
        let mut is_router = routers.iter().copied().peekable();
        for (n, &from) in nodes.iter().enumerate() {
            let interface = interface(n);
            let others = match is_router.next_if_eq(&from) {
                Some(_) => nodes,
                None => {
                    self.medium[from.0 as usize] = Some(interface);
                    &routers
                }
            };
            let others = others.iter().filter(|&&next| next != from);
            self.hops[from.0 as usize].extend(others.map(|&next| Hop { interface, next }));
        }
    }
}

#[cfg(test)]
mod tests {
    mod spread;

    use std::cell::Cell;

    use super::*;

    #[test]
    fn hosts_that_share_a_medium_cost_each_what_its_routers_are() {
        let (hosts, routers) = (50_000, 3);
        let nodes: Vec<NodeIndex> = (0..hosts + routers).map(NodeIndex).collect();
        let mut found = Adjacency {
            medium: vec![None; nodes.len()],
            hops: vec![Vec::new(); nodes.len()],
        };
        let looks = Cell::new(0);
        let forwards = |node: NodeIndex| {
            looks.set(looks.get() + 1);
            node.0 >= hosts
        };
        found.share(&nodes, |_| Interface::Pipe(7), forwards);
        assert_eq!(looks.get(), nodes.len());
        let hops: usize = found.hops.iter().map(Vec::len).sum();
        assert_eq!(
            hops as u32,
            hosts * routers + routers * (hosts + routers - 1)
        );
        assert_eq!(found.hops[0].len(), 3);
        let media = found.medium.iter().flatten().count();
        assert_eq!(media as u32, hosts);
    }
}
