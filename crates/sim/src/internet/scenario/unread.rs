//! Packets that say something which no queue on their path looks at.

use std::collections::{BTreeSet, VecDeque};

use layercast_tcp::EcnMode;

use super::warnings::Warning;
use crate::internet::discipline::{Discipline, Dscp};
use crate::internet::network::{AtmEnd, Network, NodeIndex, Plan, Role, Traffic};

/// Pairs of hosts whose paths are looked at; about others nothing is said.
const MOST_PAIRS: usize = 256;

/// Whose packets they are, and the pairs of nodes between which they pass.
struct Packets {
    of: String,
    pairs: BTreeSet<(NodeIndex, NodeIndex)>,
}

impl Network {
    /// The first of what has a class that no queue on its path looks at.
    pub(super) fn unread_class(&self) -> Option<Warning> {
        let flows = self.flows.iter().filter(|it| it.dscp != Dscp::default());
        let flows = flows.map(|flow| {
            let to: Vec<NodeIndex> = match &flow.traffic {
                Traffic::XtpMulticast { receivers, .. } => {
                    receivers.iter().map(|it| it.node).collect()
                }
                _ => vec![flow.to],
            };
            Packets {
                of: format!("the flow {:?}", flow.name),
                pairs: to.into_iter().map(|to| (flow.from, to)).collect(),
            }
        });
        let generators = (0..self.generators.len())
            .filter(|&n| self.generators[n].dscp != Dscp::default())
            .map(|n| self.of_generator(n, |_| true));
        let mets = self.mets.iter().flat_map(|mets| {
            let links = mets.machines.links.iter().zip(&mets.dscps);
            let links = links.filter(|(_, dscp)| **dscp != Dscp::default());
            links.map(|(link, _)| {
                let [a, b] = link.ends.map(|end| mets.nodes[end]);
                let name = |node: NodeIndex| &self.nodes[node.0 as usize].name;
                Packets {
                    of: format!("the peering of {} and {}", name(a), name(b)),
                    pairs: BTreeSet::from([(a, b)]),
                }
            })
        });
        let all = flows.chain(generators).chain(mets);
        let reads = |it: &Discipline| matches!(it, Discipline::Priority(_) | Discipline::Own(_));
        let of = self.first_without(all, reads)?;
        Some(Warning::ClassUnread { of })
    }

    /// The first of what sends L4S packets and has no queue for them on its path.
    pub(super) fn missing_l4s_queue(&self) -> Option<Warning> {
        let is_l4s = |node: NodeIndex| match &self.nodes[node.0 as usize].role {
            Role::Host(tcp) => tcp.ecn == EcnMode::L4s,
            Role::Router => false,
        };
        let flows = self
            .flows
            .iter()
            .filter(|flow| matches!(flow.traffic, Traffic::Bulk(_)) && is_l4s(flow.from));
        let flows = flows.map(|flow| Packets {
            of: format!("the flow {:?}", flow.name),
            pairs: BTreeSet::from([(flow.from, flow.to)]),
        });
        let generators = (0..self.generators.len()).map(|n| self.of_generator(n, is_l4s));
        let all = flows.chain(generators.filter(|it| !it.pairs.is_empty()));
        let serves = |it: &Discipline| matches!(it, Discipline::DualPi2(_) | Discipline::Own(_));
        let of = self.first_without(all, serves)?;
        Some(Warning::NoL4sQueue { of })
    }

    /// The transfers of a generator from such hosts.
    fn of_generator(&self, n: usize, sends: impl Fn(NodeIndex) -> bool) -> Packets {
        let generator = &self.generators[n];
        let pairs: BTreeSet<_> = match &generator.plan {
            Plan::Listed(list) => {
                let pairs = list.iter().map(|it| (it.from, it.to));
                pairs.filter(|it| sends(it.0)).take(MOST_PAIRS).collect()
            }
            Plan::Drawn(drawn) => {
                let senders = drawn.senders.iter().filter(|&&it| sends(it));
                let pairs =
                    senders.flat_map(|&from| drawn.receivers.iter().map(move |&to| (from, to)));
                pairs.filter(|it| it.0 != it.1).take(MOST_PAIRS).collect()
            }
        };
        Packets {
            of: format!("the generator {:?}", generator.name),
            pairs,
        }
    }

    /// The first of these that pass no link with such a discipline, in either direction.
    fn first_without(
        &self,
        all: impl Iterator<Item = Packets>,
        fits: impl Fn(&Discipline) -> bool,
    ) -> Option<String> {
        let fitting = self
            .links
            .iter()
            .map(|link| link.disciplines.iter().flatten().any(&fits));
        let fitting: Vec<bool> = fitting.collect();
        let is_nowhere = !fitting.contains(&true);
        let mut left = MOST_PAIRS;
        let mut ways = None;
        for packets in all {
            if is_nowhere {
                return Some(packets.of);
            }
            let ways = ways.get_or_insert_with(|| Ways::new(self));
            left = left.checked_sub(packets.pairs.len())?;
            let passes = |&(from, to): &(NodeIndex, NodeIndex)| ways.pass(from, to, &fitting);
            if !packets.pairs.iter().any(passes) {
                return Some(packets.of);
            }
        }
        None
    }
}

/// What is next to what: nodes, then links, LANs and the backbone, each a place between its nodes.
struct Ways {
    next: Vec<Vec<usize>>,
    nodes: usize,
}

impl Ways {
    fn new(network: &Network) -> Ways {
        let nodes = network.nodes.len();
        let places = nodes + network.links.len() + network.lans.len() + 1;
        let mut ways = Ways {
            next: vec![Vec::new(); places],
            nodes,
        };
        for (n, link) in network.links.iter().enumerate() {
            for end in link.ends {
                ways.join(nodes + n, end);
            }
        }
        let lans = nodes + network.links.len();
        for (n, lan) in network.lans.iter().enumerate() {
            for &station in &lan.stations {
                ways.join(lans + n, station);
            }
        }
        let ends = network
            .atm
            .iter()
            .flat_map(|atm| atm.links.iter().flat_map(|it| it.ends));
        for end in ends {
            if let AtmEnd::Adapter(node) = end {
                ways.join(places - 1, node);
            }
        }
        ways
    }

    fn join(&mut self, between: usize, node: NodeIndex) {
        self.next[between].push(node.0 as usize);
        self.next[node.0 as usize].push(between);
    }

    /// How far each place is from a node.
    fn distances(&self, from: NodeIndex) -> Vec<Option<u32>> {
        let mut distances = vec![None; self.next.len()];
        distances[from.0 as usize] = Some(0);
        let mut waiting = VecDeque::from([(from.0 as usize, 0)]);
        while let Some((place, distance)) = waiting.pop_front() {
            for &next in &self.next[place] {
                if distances[next].is_none() {
                    distances[next] = Some(distance + 1);
                    waiting.push_back((next, distance + 1));
                }
            }
        }
        distances
    }

    /// Whether a shortest way between two nodes passes one of these links.
    fn pass(&self, from: NodeIndex, to: NodeIndex, links: &[bool]) -> bool {
        let (there, back) = (self.distances(from), self.distances(to));
        let Some(whole) = there[to.0 as usize] else {
            return false;
        };
        (0..links.len()).any(|n| {
            let place = self.nodes + n;
            let length = there[place].zip(back[place]).map(|(a, b)| a + b);
            links[n] && length == Some(whole)
        })
    }
}
