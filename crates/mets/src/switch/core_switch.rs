use std::collections::VecDeque;

use layercast_core::{FlowId, PortId, Time};
use layercast_wire::{FlowInfo, Via};

use crate::switch::Switch;

/// Flows with a core switch: the source's output is distributed from there (specs/mets.md 2.10).
///
/// Advertisements straight from the source only find the core. The core forwards them to all neighbours, and
/// back to the source along the path they came; joins follow those, so the tree is the union of the paths from
/// each receiver to the core and from the core to the source. The core never moves.
impl Switch {
    /// The flow is advertised by way of its core for the first time.
    pub(crate) fn on_rooted(&mut self, now: Time, from: PortId, info: FlowInfo, via: Via) {
        let id = info.id;
        let Some(flow) = self.flows.by_id(id) else {
            return;
        };
        flow.rooted = true;
        if via == Via::Spine {
            flow.spine = true;
        } else {
            self.move_upstream(id, from);
            if let Some(flow) = self.flows.by_id(id) {
                flow.info = info;
            }
        }
        self.tell_rooted(now, id, from);
    }

    /// The core looks for its way to the source through this node, which took itself for one behind
    /// the core.
    pub(crate) fn on_spine(&mut self, now: Time, id: FlowId, from: PortId) {
        let Some(flow) = self.flows.by_id(id).filter(|flow| !flow.spine) else {
            return;
        };
        let (direct, delay) = flow.direct;
        if direct == from || flow.upstream == direct {
            return;
        }
        flow.spine = true;
        flow.info.path_delay_us = delay;
        self.move_upstream(id, direct);
        self.tell_rooted(now, id, from);
    }

    /// Whether the node upstream must hear that it is on the way to the core.
    pub(crate) fn leads_back(&mut self, id: FlowId) -> bool {
        self.flows.by_id(id).is_some_and(|flow| {
            flow.info.core.is_some() && flow.rooted && flow.upstream != PortId::LOCAL
        })
    }

    fn tell_rooted(&mut self, now: Time, id: FlowId, from: PortId) {
        let Some(flow) = self.flows.by_id(id) else {
            return;
        };
        let (spine, upstream) = (flow.spine, flow.upstream);
        let back = spine && self.leads_back(id);
        self.advertise(id, |port| port != from && (port != upstream || back));
        self.rejoin(now, id);
    }
}

/// The core switch of a group: the switch with the fewest hops to the source and to the members together, ties
/// go to the one nearest the members, then to the lowest number (specs/mets.md 2.10).
///
/// Nodes are numbered; `neighbours` lists the adjacent nodes, `relays` says which nodes forward flows. A source
/// that forwards flows is not a switch. `None` if no switch reaches all members.
pub fn choose_core(
    neighbours: &[Vec<usize>],
    relays: &[bool],
    source: usize,
    members: &[usize],
) -> Option<usize> {
    let switches = (0..neighbours.len()).filter(|&node| node != source && relays[node]);
    let cost = |core: usize| {
        let hops = hops_from(core, neighbours, relays);
        let to_members = members.iter().map(|&member| hops[member]);
        let to_members = to_members.sum::<Option<u32>>()?;
        Some((hops[source]? + to_members, to_members, core))
    };
    switches.filter_map(cost).min().map(|(_, _, core)| core)
}

/// Hops from a node to every other, through nodes that relay.
fn hops_from(start: usize, neighbours: &[Vec<usize>], relays: &[bool]) -> Vec<Option<u32>> {
    let mut hops = vec![None; neighbours.len()];
    hops[start] = Some(0);
    let mut queue = VecDeque::from([(start, 0)]);
    while let Some((node, distance)) = queue.pop_front() {
        if node != start && !relays[node] {
            continue;
        }
        for &next in &neighbours[node] {
            if hops[next].is_none() {
                hops[next] = Some(distance + 1);
                queue.push_back((next, distance + 1));
            }
        }
    }
    hops
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODES: [&str; 9] = [
        "atc",
        "mr-little",
        "magpie",
        "njy",
        "scaup",
        "dwp",
        "chuff",
        "sparrow",
        "rook",
    ];
    /// The testbed of the papers (specs/mets.md 4.1).
    const LINKS: [(&str, &str); 8] = [
        ("atc", "chuff"),
        ("mr-little", "chuff"),
        ("magpie", "chuff"),
        ("chuff", "sparrow"),
        ("sparrow", "rook"),
        ("rook", "njy"),
        ("rook", "scaup"),
        ("rook", "dwp"),
    ];

    fn place(name: &str) -> usize {
        NODES.iter().position(|&node| node == name).unwrap()
    }

    fn core(source: &str, members: &[&str]) -> &'static str {
        let mut neighbours = vec![Vec::new(); NODES.len()];
        for (a, b) in LINKS {
            neighbours[place(a)].push(place(b));
            neighbours[place(b)].push(place(a));
        }
        let relays: Vec<bool> = (0..NODES.len()).map(|node| node >= 6).collect();
        let members: Vec<usize> = members.iter().map(|name| place(name)).collect();
        NODES[choose_core(&neighbours, &relays, place(source), &members).unwrap()]
    }

    #[test]
    fn the_examples_of_the_papers() {
        assert_eq!(core("scaup", &["njy", "dwp"]), "rook");
        // Played out at mr-little and dwp: the core of the experiments.
        assert_eq!(core("atc", &["mr-little", "dwp"]), "chuff");
    }

    #[test]
    fn among_equals_the_switch_nearest_the_members_and_without_members_the_source_s_own() {
        assert_eq!(core("atc", &["dwp"]), "rook");
        assert_eq!(core("atc", &[]), "chuff");
        assert_eq!(core("atc", &["mr-little", "njy"]), "chuff");
    }

    #[test]
    fn a_switch_that_does_not_reach_everybody_is_no_core() {
        let neighbours = [vec![1], vec![0], vec![3], vec![2]];
        let relays = [false, true, true, false];
        assert_eq!(choose_core(&neighbours, &relays, 0, &[]), Some(1));
        assert_eq!(choose_core(&neighbours, &relays, 0, &[3]), None);
    }
}
