use layercast_core::Stream;
use layercast_transport::tcp::Endpoint;
use rand_core::RngCore;

use super::pipe::Pipe;
use super::routes::{Addresses, Adjacency, Hop, Interface, Routes};
use super::{Lan, Link, Network, NetworkError, NodeIndex, Role};
use super::{atm, check};

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
        if !routes.reaches(flow.from, flow.to) {
            let name = |node: NodeIndex| network.nodes[node.0 as usize].name.clone();
            return Err(NetworkError::NoWay {
                flow: flow.name.clone(),
                from: name(flow.from),
                to: name(flow.to),
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
    for (n, node) in network.nodes.iter().enumerate() {
        if let Role::Host(config) = &node.role {
            let mut secret = [0; 32];
            Stream::new(network.seed, &format!("tcp/{}", node.name)).fill_bytes(&mut secret);
            let endpoint = Endpoint::new((**config).clone(), &node.name, &secret);
            let endpoint = endpoint.map_err(|error| NetworkError::Tcp {
                host: node.name.clone(),
                error,
            })?;
            found.push((endpoint, NodeIndex(n as u32)));
        }
    }
    Ok(found)
}

pub(super) fn is_router(network: &Network, node: NodeIndex) -> bool {
    matches!(network.nodes[node.0 as usize].role, Role::Router)
}

/// Most neighbours of routers on LANs and a backbone; links have two ends.
const MOST_NEIGHBOURS: u64 = 20_000_000;

/// Who would have too many neighbours for a list of them.
fn crowds(network: &Network) -> Result<(), NetworkError> {
    let mut all = 0;
    let lans = network.lans.iter().map(|lan| {
        let stations = lan.stations.iter();
        let routers = stations.filter(|&&node| is_router(network, node)).count();
        (routers * lan.stations.len(), Some(lan))
    });
    let atm = network.atm.iter().map(|atm| {
        let nodes = atm::adapted(atm);
        let routers = nodes.iter().filter(|&&node| is_router(network, node));
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
    let mut medium = vec![None; network.nodes.len()];
    let mut hops = vec![Vec::new(); network.nodes.len()];
    let mut join = |from: NodeIndex, interface: Interface, next: NodeIndex| {
        // Hosts that share a medium find each other without a list.
        if is_router(network, from) || is_router(network, next) {
            hops[from.0 as usize].push(Hop { interface, next });
        }
        if !is_router(network, from) {
            medium[from.0 as usize] = Some(interface);
        }
    };
    for (n, link) in network.links.iter().enumerate() {
        let [a, b] = link.ends;
        join(a, Interface::Pipe(2 * n as u32), b);
        join(b, Interface::Pipe(2 * n as u32 + 1), a);
    }
    if let Some(atm) = &network.atm {
        // To IP the backbone is one link: everyone on it is next to every other.
        let nodes = atm::adapted(atm);
        let routers: Vec<NodeIndex> = nodes
            .iter()
            .copied()
            .filter(|&it| is_router(network, it))
            .collect();
        for (n, &from) in nodes.iter().enumerate() {
            let interface = Interface::Atm(atm::adapter(atm, n));
            let others = match is_router(network, from) {
                true => &nodes,
                false => &routers,
            };
            for &next in others.iter().filter(|&&next| next != from) {
                join(from, interface, next);
            }
            if !is_router(network, from) {
                // Also where no router is.
                join(from, interface, from);
            }
        }
    }
    for (n, lan) in network.lans.iter().enumerate() {
        let interface = Interface::Pipe((2 * network.links.len() + n) as u32);
        let routers = || {
            lan.stations
                .iter()
                .filter(|&&node| is_router(network, node))
        };
        for &station in &lan.stations {
            let others: Vec<NodeIndex> = match is_router(network, station) {
                true => lan.stations.clone(),
                false => routers().copied().collect(),
            };
            for other in others.into_iter().filter(|&other| other != station) {
                join(station, interface, other);
            }
            if !is_router(network, station) {
                // Also where no router is.
                join(station, interface, station);
            }
        }
    }
    Adjacency { medium, hops }
}
