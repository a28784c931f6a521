//! Names to numbers: which nodes there are, how they are linked, which way flows go.

use std::collections::{BTreeMap, VecDeque};

use layercast_core::PortId;
use layercast_wire::Carriage;

use super::error::ScenarioError;
use super::names::check_name;
use super::schema::{LinkSpec, NodeKind, Scenario};

/// The links between nodes.
#[derive(Clone, Debug)]
pub(super) struct Topology {
    index: BTreeMap<String, usize>,
    /// Per node: neighbour and link, in the order of the links; the place is the port number.
    pub neighbours: Vec<Vec<(usize, usize)>>,
    /// The two nodes of each link.
    pub ends: Vec<[usize; 2]>,
    /// Per node and place in `neighbours`: the place whose port it has.
    heads: Vec<Vec<usize>>,
    /// Whether a node passes flows on: switches, and hosts with sources.
    relays: Vec<bool>,
}

impl Topology {
    /// Checks the nodes, links, and where sources and receivers are.
    pub fn new(scenario: &Scenario) -> Result<Topology, ScenarioError> {
        let mut index = BTreeMap::new();
        if scenario.nodes.is_empty() {
            return Err(ScenarioError::value(
                "node",
                "empty",
                "at least one [[node]]",
            ));
        }
        for (i, node) in scenario.nodes.iter().enumerate() {
            check_name(&format!("node[{i}].name"), &node.name)?;
            if index.insert(node.name.clone(), i).is_some() {
                return Err(duplicate(format!("node[{i}].name"), "node", &node.name));
            }
        }
        let nodes = scenario.nodes.len();
        let mut topology = Topology {
            index,
            neighbours: vec![Vec::new(); nodes],
            ends: Vec::with_capacity(scenario.links.len()),
            heads: vec![Vec::new(); nodes],
            relays: scenario
                .nodes
                .iter()
                .map(|node| node.kind == NodeKind::Switch)
                .collect(),
        };
        for (i, link) in scenario.links.iter().enumerate() {
            let a = topology.node(&format!("link[{i}].a"), &link.a)?;
            let b = topology.node(&format!("link[{i}].b"), &link.b)?;
            if a == b {
                let accepted = "another node than a";
                return Err(ScenarioError::value(
                    format!("link[{i}].b"),
                    &link.b,
                    accepted,
                ));
            }
            if topology.neighbours[a].iter().any(|&(node, _)| node == b) {
                let name = format!("{}-{}", link.a, link.b);
                return Err(duplicate(format!("link[{i}]"), "link", &name));
            }
            topology.ends.push([a, b]);
            for (from, to) in [(a, b), (b, a)] {
                if topology.neighbours[from].len() >= usize::from(PortId::LOCAL.0) {
                    let accepted = "at most 65535 links at a node";
                    return Err(ScenarioError::value(
                        format!("link[{i}]"),
                        "too many",
                        accepted,
                    ));
                }
                topology.neighbours[from].push((to, i));
                let places = topology.neighbours[from].iter();
                let group = link.multicast.as_ref().filter(|_| from == a);
                let same = |(_, other): &(usize, usize)| {
                    let other = &scenario.links[*other];
                    group.is_some() && other.multicast.as_ref() == group && other.a == link.a
                };
                let own = topology.neighbours[from].len() - 1;
                let head = places.enumerate().find(|(_, it)| same(it));
                let head = head.map_or(own, |(place, _)| place);
                topology.heads[from].push(head);
            }
        }
        for (i, flow) in scenario.flows.iter().enumerate() {
            let node = topology.host(&format!("flow[{i}].source"), &flow.source, scenario)?;
            topology.relays[node] = true;
        }
        for (i, receiver) in scenario.receivers.iter().enumerate() {
            let field = format!("receiver[{i}].node");
            let node = topology.host(&field, &receiver.node, scenario)?;
            if topology.relays[node] {
                let accepted = "a host without sources";
                return Err(ScenarioError::value(field, &receiver.node, accepted));
            }
            if topology.neighbours[node].len() != 1 {
                let accepted = "a host with exactly one link";
                return Err(ScenarioError::value(field, &receiver.node, accepted));
            }
        }
        for (i, link) in scenario.links.iter().enumerate() {
            topology.check_group(scenario, i, link)?;
        }
        Ok(topology)
    }

    /// Checks the link of a multicast group.
    fn check_group(
        &self,
        scenario: &Scenario,
        i: usize,
        link: &LinkSpec,
    ) -> Result<(), ScenarioError> {
        let Some(group) = &link.multicast else {
            return Ok(());
        };
        let field = |name: &str| format!("link[{i}].{name}");
        check_name(&field("multicast"), group)?;
        if scenario.carriage != Carriage::Datagrams {
            let accepted = "left out on links of cells, or `carriage = \"datagrams\"`";
            return Err(ScenarioError::value(field("multicast"), group, accepted));
        }
        let [sender, member] = self.ends[i];
        if !self.relays(sender) {
            let accepted = "a switch, or a host with sources: it sends to the group";
            return Err(ScenarioError::value(field("a"), &link.a, accepted));
        }
        if self.relays(member) {
            let accepted = "a host without sources: a member of the group";
            return Err(ScenarioError::value(field("b"), &link.b, accepted));
        }
        let same = |other: &&LinkSpec| other.multicast.as_ref() == Some(group) && other.a == link.a;
        let first = scenario.links.iter().find(same).unwrap_or(link);
        let alike = first.rate == link.rate
            && first.schedule == link.schedule
            && first.queue == link.queue
            && first.efci == link.efci
            && first.discard == link.discard
            && first.bl_share == link.bl_share
            && first.adapt_capacity == link.adapt_capacity
            && first.adapt == link.adapt
            && first.repair == link.repair;
        match alike {
            true => Ok(()),
            false => {
                let accepted = "with the rate, schedule, queue, efci, discard, bl_share, adapt_capacity, adapt and repair of the first link of the group: \
                                they have one port";
                Err(ScenarioError::value(field("multicast"), group, accepted))
            }
        }
    }

    /// The node called `name`.
    pub fn node(&self, field: &str, name: &str) -> Result<usize, ScenarioError> {
        self.index
            .get(name)
            .copied()
            .ok_or_else(|| ScenarioError::Unknown {
                field: field.to_owned(),
                what: "node",
                name: name.to_owned(),
                known: self.index.keys().cloned().collect(),
            })
    }

    fn host(&self, field: &str, name: &str, scenario: &Scenario) -> Result<usize, ScenarioError> {
        let node = self.node(field, name)?;
        match scenario.nodes[node].kind {
            NodeKind::Host => Ok(node),
            NodeKind::Switch => {
                let accepted = "a node with kind = \"host\"";
                Err(ScenarioError::value(field, name, accepted))
            }
        }
    }

    /// The neighbours of each node, without the links.
    pub fn graph(&self) -> Vec<Vec<usize>> {
        let nodes = self.neighbours.iter();
        nodes
            .map(|links| links.iter().map(|&(node, _)| node).collect())
            .collect()
    }

    /// Whether flows pass through the node or start there, so that it runs a switch.
    pub fn relays(&self, node: usize) -> bool {
        self.relays[node]
    }

    /// The port of `node` towards `neighbour`, if they are linked.
    pub fn port(&self, node: usize, neighbour: usize) -> Option<PortId> {
        let place = self.neighbours[node]
            .iter()
            .position(|&(other, _)| other == neighbour)?;
        u16::try_from(self.heads[node][place]).ok().map(PortId)
    }

    /// Per node the neighbour that is next on a shortest way to `target`, going through nodes
    /// that relay; among equal ways the one of the earlier links.
    pub fn next_hops(&self, target: usize) -> Vec<Option<usize>> {
        let mut next = vec![None; self.neighbours.len()];
        let mut seen = vec![false; self.neighbours.len()];
        let mut queue = VecDeque::from([target]);
        seen[target] = true;
        while let Some(node) = queue.pop_front() {
            if !self.relays[node] {
                continue;
            }
            for &(neighbour, _) in &self.neighbours[node] {
                if !seen[neighbour] {
                    seen[neighbour] = true;
                    next[neighbour] = Some(node);
                    queue.push_back(neighbour);
                }
            }
        }
        next
    }
}

pub(super) fn duplicate(field: String, what: &'static str, name: &str) -> ScenarioError {
    ScenarioError::Duplicate {
        field,
        what,
        name: name.to_owned(),
    }
}
