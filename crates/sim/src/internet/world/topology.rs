//! What a network fixes: links, routes, and the TCP of its hosts.

use std::sync::Arc;

use layercast_core::Stream;
use layercast_tcp::{Endpoint, TcpConfig};
use rand_core::RngCore;

use crate::internet::error::NetworkError;
use crate::internet::medium::hop::{Hop, Interface};
use crate::internet::medium::pipe::Pipe;
use crate::internet::medium::routes::{Addresses, Adjacency, Routes};
use crate::internet::network::{Lan, Link, Network, NodeIndex, Role, Traffic};
use crate::internet::{atm, check};

/// The fixed parts of a world.
pub(super) struct Built {
    /// Two for each link, then one for each LAN.
    pub pipes: Vec<Pipe>,
    pub routes: Routes,
    pub addresses: Addresses,
    pub endpoints: Vec<(Endpoint, NodeIndex)>,
}

pub(super) fn build(network: &Network) -> Result<Built, NetworkError> {
    check::check(network)?;
    let seed = network.seed;
    let mut pipes = Vec::new();
    for link in &network.links {
        for way in 0..2 {
            pipes.push(pipe_of(network, link, way));
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
        pipes.push(Pipe::new(name.clone(), *rate, *latency, *mtu, seed));
    }
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
    })
}

fn pipe_of(network: &Network, link: &Link, way: usize) -> Pipe {
    let name = |end: usize| &network.nodes[link.ends[end].0 as usize].name;
    let Link { delay, mtu, .. } = *link;
    let name = format!("{}->{}", name(way), name(1 - way));
    let way = link.ways[way];
    Pipe::new(name, way.rate, delay, mtu, network.seed).with_queue(way.queue, way.loss)
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
