use std::collections::BTreeMap;

use layercast_core::prefetch;

use super::ecmp::{self, FlowMark};
use super::hop::{Hop, Interface};
use super::table::{MOST_ON_RINGS, Table};
use crate::internet::error::NetworkError;
use crate::internet::network::{Network, NodeIndex, Role};

/// The static routes of all nodes: shortest paths by number of hops; flows are [spread](super::ecmp) over equal ones.
///
/// Hosts are attached to one node, one LAN, or the backbone, so that only the nodes which forward have tables, and only
/// of each other.
#[derive(Debug)]
pub(crate) struct Routes {
    sites: Vec<Site>,
    /// Between those that forward.
    table: Table,
    /// By which each of these chooses among equal ways.
    salts: Vec<u64>,
}

/// Where a node is in the network.
#[derive(Clone, Copy, Debug)]
struct Site {
    /// Its number among those that forward, or `NONE`.
    forwarder: u32,
    /// Of a host: the next hop for packets to nodes that are not its neighbours.
    gateway: Option<Hop>,
    /// Of a host: the link, LAN or adapter it is attached by.
    medium: Option<Interface>,
    /// Of a host: the forwarder it is reached through, and the last hop.
    home: Option<(u32, Hop)>,
    /// Of one that forwards: its adapter to the backbone, if it has one.
    adapter: Option<Interface>,
}

const NONE: u32 = u32::MAX;

/// The direct neighbours of each node.
#[derive(Debug)]
pub(crate) struct Adjacency {
    /// For each host the link, LAN or adapter it is attached by.
    pub medium: Vec<Option<Interface>>,
    /// For each node how it reaches its neighbours; of a host only the routers among them.
    pub hops: Vec<Vec<Hop>>,
}

impl Routes {
    /// The routes of a network whose nodes reach each other directly as `adjacent` says.
    pub fn new(network: &Network, adjacency: Adjacency) -> Result<Routes, NetworkError> {
        let Adjacency { medium, hops } = adjacency;
        let routers: Vec<NodeIndex> = (0..network.nodes.len() as u32)
            .map(NodeIndex)
            .filter(|node| matches!(network.nodes[node.0 as usize].role, Role::Router))
            .collect();
        let mut sites: Vec<Site> = medium
            .into_iter()
            .map(|medium| Site {
                forwarder: NONE,
                gateway: None,
                medium,
                home: None,
                adapter: None,
            })
            .collect();
        for (n, router) in routers.iter().enumerate() {
            sites[router.0 as usize].forwarder = n as u32;
        }
        for (site, hops) in sites.iter_mut().zip(&hops) {
            if site.forwarder == NONE {
                site.gateway = hops.first().copied();
            } else {
                let mut interfaces = hops.iter().map(|hop| hop.interface);
                site.adapter = interfaces.find(|it| matches!(it, Interface::Atm(_)));
            }
        }
        for (n, router) in routers.iter().enumerate() {
            for hop in &hops[router.0 as usize] {
                let next = &mut sites[hop.next.0 as usize];
                if next.forwarder == NONE {
                    next.home.get_or_insert((n as u32, *hop));
                }
            }
        }
        // Routers only: hosts do not forward.
        let towards: Vec<Vec<(u32, Hop)>> = routers
            .iter()
            .map(|router| {
                let hops = hops[router.0 as usize].iter();
                hops.filter_map(|hop| match sites[hop.next.0 as usize].forwarder {
                    NONE => None,
                    n => Some((n, *hop)),
                })
                .collect()
            })
            .collect();
        let table = Table::new(&towards).map_err(|count| NetworkError::Rings {
            count,
            most: MOST_ON_RINGS,
        })?;
        let name = |router: &NodeIndex| network.nodes[router.0 as usize].name.as_str();
        let salts = routers.iter().map(|it| ecmp::salt(network.seed, name(it)));
        let salts = salts.collect();
        Ok(Routes {
            sites,
            table,
            salts,
        })
    }

    /// The routes of a node, or to it, will be needed soon.
    #[inline]
    pub fn prepare(&self, node: NodeIndex) {
        prefetch(&self.sites[node.0 as usize]);
    }

    /// The router to which a host sends what is not for its neighbours.
    pub fn gateway(&self, host: NodeIndex) -> Option<NodeIndex> {
        self.sites[host.0 as usize].gateway.map(|hop| hop.next)
    }

    /// Where `at` sends a packet of a flow for the host or router `to`.
    #[inline]
    pub fn next(&self, at: NodeIndex, to: NodeIndex, flow: FlowMark) -> Option<Hop> {
        match self.ways(at, to) {
            Ways::None => None,
            Ways::One(hop) => Some(hop),
            Ways::Several(ways, salt) => Some(ways[flow.choose(salt, ways.len())]),
        }
    }

    /// The ways from `at` to the host or router `to` that are equally good.
    #[inline]
    pub fn ways(&self, at: NodeIndex, to: NodeIndex) -> Ways<'_> {
        let (from, dst) = (&self.sites[at.0 as usize], &self.sites[to.0 as usize]);
        if from.forwarder == NONE {
            let Some(medium) = from.medium else {
                return Ways::None;
            };
            let both = [Some(medium), dst.medium];
            let on_backbone = both.map(|it| matches!(it, Some(Interface::Atm(_))));
            if both[0] == both[1] || on_backbone == [true; 2] || from.gateway.is_none() {
                return self.directly(at, to).into();
            }
            return from.gateway.into();
        }
        let home = match dst.home {
            Some((home, last)) if home == from.forwarder => return Ways::One(last),
            Some((home, _)) => match from.adapter {
                Some(interface) if matches!(dst.medium, Some(Interface::Atm(_))) => {
                    return Ways::One(Hop {
                        interface,
                        next: to,
                    });
                }
                _ => home,
            },
            // A host that no router reaches.
            None if dst.forwarder == NONE => return Ways::None,
            None => dst.forwarder,
        };
        match self.table.hops(from.forwarder, home) {
            [] => Ways::None,
            [one] => Ways::One(*one),
            ways => Ways::Several(ways, self.salts[from.forwarder as usize]),
        }
    }

    /// To a host on the same medium.
    fn directly(&self, at: NodeIndex, to: NodeIndex) -> Option<Hop> {
        let interface = self.sites[at.0 as usize].medium?;
        let there = self.sites[to.0 as usize].medium?;
        let is_next = match (interface, there) {
            // The two directions of a link are two pipes, one after the other.
            (Interface::Pipe(a), Interface::Pipe(b)) => a == b || a ^ 1 == b,
            (Interface::Atm(_), Interface::Atm(_)) => true,
            _ => false,
        };
        is_next.then_some(Hop {
            interface,
            next: to,
        })
    }

    /// Whether packets from one host come to another.
    pub fn reaches(&self, from: NodeIndex, to: NodeIndex) -> bool {
        let mut at = from;
        // A shortest path visits no node twice.
        for _ in 0..self.table.len() + 2 {
            match self.next(at, to, FlowMark::default()) {
                Some(hop) if hop.next == to => return true,
                Some(hop) => at = hop.next,
                None => return false,
            }
        }
        false
    }
}

/// The next hops that are equally good.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ways<'a> {
    None,
    One(Hop),
    /// With the salt by which the router chooses one.
    Several(&'a [Hop], u64),
}

impl From<Option<Hop>> for Ways<'_> {
    #[inline]
    fn from(hop: Option<Hop>) -> Self {
        hop.map_or(Ways::None, Ways::One)
    }
}

/// Finds the node that has an address.
#[derive(Debug)]
pub(crate) struct Addresses {
    base: u32,
    dense: Vec<u32>,
    sparse: BTreeMap<u32, u32>,
}

impl Addresses {
    pub fn new(network: &Network) -> Addresses {
        let of = |n: usize| u32::from(network.nodes[n].address);
        let all = 0..network.nodes.len();
        let base = all.clone().map(of).min().unwrap_or(0);
        let span = u64::from(all.clone().map(of).max().unwrap_or(0) - base) + 1;
        let (mut dense, mut sparse) = (Vec::new(), BTreeMap::new());
        // One look instead of a search where the addresses lie together.
        if span <= 65_536 + 4 * network.nodes.len() as u64 {
            dense.resize(span as usize, NONE);
            for n in all {
                dense[(of(n) - base) as usize] = n as u32;
            }
        } else {
            sparse.extend(all.map(|n| (of(n), n as u32)));
        }
        Addresses {
            base,
            dense,
            sparse,
        }
    }

    pub fn find(&self, address: core::net::Ipv4Addr) -> Option<NodeIndex> {
        let address = u32::from(address);
        let found = match self.dense.is_empty() {
            true => self.sparse.get(&address).copied(),
            false => {
                let place = address.checked_sub(self.base)? as usize;
                self.dense.get(place).copied().filter(|&n| n != NONE)
            }
        };
        found.map(NodeIndex)
    }
}
