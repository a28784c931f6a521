//! How a network is divided among threads.
//!
//! What one part does means nothing to another until a packet has come over a link between them, which takes the delay of
//! the link at least. So the longer the links between the parts, and the fewer packets on them, the better. All that is
//! joined by shorter links stays together; the rest is put in a line in which neighbours are close to each other, and the
//! line is cut into pieces of about the same load, where little traffic crosses.

use std::fmt::{self, Display, Formatter};
use std::sync::Arc;

use layercast_core::Span;

use crate::internet::components::Components;
use crate::internet::medium::Medium;
use crate::internet::medium::paths::Step;
use crate::internet::network::{Flow, Law, Network, NodeIndex, Role, SizeLaw, Traffic};
use crate::internet::world::Internet;

/// Most parts.
const MOST: usize = 64;
/// The cost of a barrier of all threads, in events of one of them.
const BARRIER_COST: f64 = 25.0;
/// Bits of a packet, where only the rate of a link is known.
const PACKET_BITS: f64 = 12_000.0;
/// How far from its best place the line is cut, by load, if there is less traffic.
const SLACK: f64 = 0.05;

/// A network in parts, each of which a thread can simulate.
#[derive(Clone, Debug)]
pub struct Division {
    pub(in crate::internet) parts: usize,
    /// The part of each node.
    pub(in crate::internet) of_nodes: Arc<[u8]>,
    /// Least delay of a link between parts.
    pub(in crate::internet) lookahead: Span,
    gain: f64,
}

impl Division {
    /// How many parts there are, from two on.
    pub fn parts(&self) -> usize {
        self.parts
    }

    /// An estimate of how many times as fast all threads together are as one.
    pub fn gain(&self) -> f64 {
        self.gain
    }

    /// The part of a node.
    pub(in crate::internet) fn part(&self, node: NodeIndex) -> usize {
        self.of_nodes[node.0 as usize].into()
    }
}

/// Why a network cannot be divided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Indivisible {
    /// It has more than TCP and UDP flows between two hosts each: generators, applications, XTP, METS, ATM.
    Mixed,
    /// The paths of packets are not known beforehand: routers have processors.
    Processors,
    /// The paths of packets are not known beforehand: links have queue disciplines.
    Disciplines,
    /// What must stay together is the whole of it, or nearly so.
    Whole,
}

impl Display for Indivisible {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Indivisible::Mixed => {
                "only TCP and UDP flows can be divided, not generators, applications, XTP, METS or ATM"
            }
            Indivisible::Processors => "the processors of its routers decide when packets continue",
            Indivisible::Disciplines => {
                "the queue disciplines of its links decide when packets continue"
            }
            Indivisible::Whole => {
                "no links with a delay part it evenly, or packets may be cut everywhere"
            }
        })
    }
}

impl Internet<'_> {
    /// Divides the network of this world into at most `parts` parts, or returns why that is impossible.
    pub fn divide(&self, network: &Network, parts: usize) -> Result<Division, Indivisible> {
        if !network.has_only_flows() {
            return Err(Indivisible::Mixed);
        }
        if self.medium.ports.is_some() {
            return Err(Indivisible::Disciplines);
        }
        let load = Load::of(&self.medium, network).ok_or(Indivisible::Processors)?;
        let parts = parts.min(MOST);
        let mut delays: Vec<Span> = load.links.iter().map(|it| it.delay).collect();
        delays.sort_unstable();
        delays.dedup();
        let divisions = delays.iter().filter_map(|&delay| load.divide(delay, parts));
        let best = divisions.max_by(|a, b| a.gain.total_cmp(&b.gain));
        best.ok_or(Indivisible::Whole)
    }
}

/// A direction of a link that is used.
#[derive(Clone, Copy, Debug)]
struct Used {
    ends: [u32; 2],
    delay: Span,
    /// Packets a second, about.
    packets: f64,
}

/// What the flows of a network ask of it, by estimate.
struct Load {
    /// Events a second of each node.
    nodes: Vec<f64>,
    links: Vec<Used>,
    /// Nodes that stay together, whatever links there are.
    together: Vec<[u32; 2]>,
}

impl Load {
    /// None if the path of a flow is not known.
    fn of(medium: &Medium, network: &Network) -> Option<Load> {
        let mut sharers = vec![0.0; medium.pipes.len()];
        let flows = network.flows.iter().enumerate();
        for (n, flow) in flows.filter(|(_, it)| matches!(it.traffic, Traffic::Bulk(_))) {
            for step in medium.paths.of(n, 0, flow.to)? {
                sharers[step.pipe as usize] += 1.0;
            }
        }
        let share = |pipe: u32| {
            let rate = medium.pipes[pipe as usize].packets_a_second(PACKET_BITS);
            rate / sharers[pipe as usize]
        };
        let mut load = Load {
            nodes: vec![0.0; network.nodes.len()],
            links: Vec::new(),
            together: Vec::new(),
        };
        let mut used = vec![None; medium.pipes.len()];
        for (n, flow) in network.flows.iter().enumerate() {
            let there = medium.paths.of(n, 0, flow.to)?;
            let largest = largest(network, flow);
            let mut add = |way: &[Step], from: NodeIndex, packets: f64| {
                load.add(medium, &mut used, way, from, packets);
                // All parts of a packet that is cut are put together in one place.
                let is_cut = |step: &Step| largest > medium.pipes[step.pipe as usize].mtu();
                if way.iter().any(is_cut) {
                    let nodes = way.iter().map(|step| [from.0, step.next.0]);
                    load.together.extend(nodes);
                }
            };
            if let Traffic::Datagrams { gap, .. } = flow.traffic {
                add(there, flow.from, 1.0 / mean(gap).max(1e-12));
            } else {
                let shares = there.iter().map(|step| share(step.pipe));
                let packets = shares.fold(f64::INFINITY, f64::min);
                add(there, flow.from, packets);
                add(medium.paths.of(n, 1, flow.from)?, flow.to, packets);
            }
        }
        load.links = used.into_iter().flatten().collect();
        // Their stations share a pipe.
        for lan in &network.lans {
            let pairs = lan.stations.windows(2);
            load.together.extend(pairs.map(|it| [it[0].0, it[1].0]));
        }
        Some(load)
    }

    /// Adds a rate of packets per second on a path.
    fn add(
        &mut self,
        medium: &Medium,
        used: &mut [Option<Used>],
        way: &[Step],
        from: NodeIndex,
        packets: f64,
    ) {
        let mut at = from.0;
        for step in way {
            self.nodes[at as usize] += packets;
            let used = used[step.pipe as usize].get_or_insert(Used {
                ends: [at, step.next.0],
                delay: medium.pipes[step.pipe as usize].delay(),
                packets: 0.0,
            });
            used.packets += packets;
            at = step.next.0;
        }
        self.nodes[at as usize] += packets;
    }

    /// Divides at links with this delay or a longer one; none if there would not be two parts.
    fn divide(&self, delay: Span, parts: usize) -> Option<Division> {
        if delay == Span::ZERO {
            return None;
        }
        let mut sets = Components::new(self.nodes.len());
        let short = self.links.iter().filter(|it| it.delay < delay);
        for [a, b] in short.map(|it| it.ends).chain(self.together.iter().copied()) {
            sets.join(a, b);
        }
        let nodes = 0..self.nodes.len() as u32;
        let of: Vec<usize> = nodes.map(|node| sets.find(node) as usize).collect();
        let mut loads = vec![0.0; self.nodes.len()];
        for (&set, load) in of.iter().zip(&self.nodes) {
            loads[set] += load;
        }
        let line = self.line(&of, &loads);
        let bounds = self.bounds(&of, &loads, &line, parts);
        let mut part_of = vec![0; self.nodes.len()];
        for (n, &set) in line.iter().enumerate() {
            part_of[set] = bounds.partition_point(|&bound| bound <= n);
        }
        let of_nodes: Vec<u8> = of.iter().map(|&set| part_of[set] as u8).collect();
        self.judge(of_nodes.into(), bounds.len() + 1)
    }

    /// All sets with a load in an order in which neighbours are close to each other.
    fn line(&self, of: &[usize], loads: &[f64]) -> Vec<usize> {
        let mut neighbours = vec![Vec::new(); of.len()];
        for link in &self.links {
            let [a, b] = link.ends.map(|end| of[end as usize]);
            if a != b {
                neighbours[a].push(b);
                neighbours[b].push(a);
            }
        }
        let mut line = Vec::new();
        let mut is_seen = vec![false; of.len()];
        let mut next = Vec::new();
        for start in (0..of.len()).filter(|&it| of[it] == it && loads[it] > 0.0) {
            next.push(start);
            while let Some(set) = next.pop() {
                if !std::mem::replace(&mut is_seen[set], true) {
                    line.push(set);
                    next.extend(neighbours[set].iter().rev());
                }
            }
        }
        line
    }

    /// Where the line is cut: the first place of each piece but the first.
    fn bounds(&self, of: &[usize], loads: &[f64], line: &[usize], parts: usize) -> Vec<usize> {
        let mut places = vec![0; of.len()];
        for (n, &set) in line.iter().enumerate() {
            places[set] = n;
        }
        // How much more traffic crosses a place than the one before it.
        let mut crossing = vec![0.0; line.len() + 1];
        for link in &self.links {
            let [a, b] = link.ends.map(|end| places[of[end as usize]]);
            crossing[a.min(b) + 1] += link.packets;
            crossing[a.max(b) + 1] -= link.packets;
        }
        let (mut before, mut crosses) = (0.0, 0.0);
        let places: Vec<(f64, f64)> = line
            .iter()
            .enumerate()
            .map(|(n, &set)| {
                crosses += crossing[n];
                let place = (before, crosses);
                before += loads[set];
                place
            })
            .collect();
        let share = before / parts as f64;
        let mut bounds: Vec<usize> = Vec::new();
        for piece in 1..parts {
            let off = |place: usize| (places[place].0 - piece as f64 * share).abs();
            let first = bounds.last().map_or(1, |last| last + 1);
            let near = (first..line.len()).filter(|&it| off(it) <= SLACK * share);
            let best = near.min_by(|&a, &b| places[a].1.total_cmp(&places[b].1));
            let nearest = || (first..line.len()).min_by(|&a, &b| off(a).total_cmp(&off(b)));
            bounds.extend(best.or_else(nearest));
        }
        bounds
    }

    fn judge(&self, of_nodes: Arc<[u8]>, parts: usize) -> Option<Division> {
        let mut loads = vec![0.0; parts];
        for (&part, load) in of_nodes.iter().zip(&self.nodes) {
            loads[usize::from(part)] += load;
        }
        let is_cut = |link: &&Used| {
            let [a, b] = link.ends.map(|end| of_nodes[end as usize]);
            a != b
        };
        let cut = self.links.iter().filter(is_cut);
        let lookahead = cut.clone().map(|it| it.delay).min();
        let crossing: f64 = cut.map(|it| it.packets).sum();
        let heaviest = loads.iter().copied().fold(0.0, f64::max);
        let alone: f64 = loads.iter().sum();
        // Parts between which nothing goes need not meet.
        let lookahead = lookahead.unwrap_or(Span::from_secs(1));
        let barriers = 1.0 / lookahead.as_secs_f64();
        let together = heaviest + crossing / parts as f64 + BARRIER_COST * barriers;
        (parts > 1 && loads.iter().all(|&load| load > 0.0)).then(|| Division {
            parts,
            of_nodes,
            lookahead,
            gain: alone / together,
        })
    }
}

fn mean(law: Law) -> f64 {
    match law {
        Law::Constant(span) | Law::Exponential(span) => span.as_secs_f64(),
    }
}

/// The most bytes of a packet of a flow.
fn largest(network: &Network, flow: &Flow) -> u32 {
    let mss = |node: NodeIndex| match &network.nodes[node.0 as usize].role {
        Role::Host(tcp) => u32::from(tcp.mss.max(tcp.default_mss)),
        Role::Router => 0,
    };
    match flow.traffic {
        Traffic::Datagrams { size, .. } => match size {
            SizeLaw::Constant(size) => size,
            SizeLaw::Exponential(_) | SizeLaw::Cells { .. } => u16::MAX.into(),
        },
        // Options take the place of data, but for those of the first segment.
        _ => (mss(flow.from).max(mss(flow.to)) + 40).max(120),
    }
}
