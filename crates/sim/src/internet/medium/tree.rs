use std::collections::{BTreeMap, BTreeSet};

use super::ecmp::FlowMark;
use super::hop::Interface;
use super::routes::Routes;
use crate::internet::discipline::Dscp;
use crate::internet::network::NodeIndex;

/// How packets of a group go from one sender to many receivers: the ways that routes give, each link and LAN once.
#[derive(Debug)]
pub(crate) struct Tree {
    root: NodeIndex,
    dscp: Dscp,
    /// The nodes that get them, forwarding or not.
    nodes: BTreeSet<NodeIndex>,
    /// The node that puts them on a link or LAN.
    feeders: BTreeMap<u32, NodeIndex>,
    branches: BTreeMap<NodeIndex, Vec<Branch>>,
}

/// A link or LAN, and the nodes that take packets from it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Branch {
    pub pipe: u32,
    pub to: Vec<NodeIndex>,
}

impl Tree {
    /// One that leads nowhere yet.
    pub fn new(root: NodeIndex, dscp: Dscp) -> Tree {
        Tree {
            root,
            dscp,
            nodes: BTreeSet::from([root]),
            feeders: BTreeMap::new(),
            branches: BTreeMap::new(),
        }
    }

    /// The class of its packets.
    pub fn dscp(&self) -> Dscp {
        self.dscp
    }

    /// The sender.
    pub fn root(&self) -> NodeIndex {
        self.root
    }

    /// Lets it lead to a host, too; `false` if no way leads there but over ATM.
    pub fn attach(&mut self, routes: &Routes, to: NodeIndex) -> bool {
        // Ways to all members agree as far as they can: none but the root tells the packets of a group apart.
        let flow = FlowMark(self.root.0);
        let mut way = Vec::new();
        let mut at = self.root;
        while at != to {
            let Some(hop) = routes.next(at, to, flow) else {
                return false;
            };
            let Interface::Pipe(pipe) = hop.interface else {
                return false;
            };
            way.push((at, pipe, hop.next));
            at = hop.next;
        }
        if self.nodes.contains(&to) {
            return true;
        }
        // Ways that part may meet again: the last place that has the packets already is where this one begins.
        let has = |(at, pipe, _): &(NodeIndex, u32, NodeIndex)| {
            self.nodes.contains(at) || self.feeders.contains_key(pipe)
        };
        let begin = way.iter().rposition(has).unwrap_or(0);
        for &(at, pipe, next) in &way[begin..] {
            let feeder = *self.feeders.entry(pipe).or_insert(at);
            self.nodes.insert(next);
            let branches = self.branches.entry(feeder).or_default();
            match branches.iter_mut().find(|branch| branch.pipe == pipe) {
                Some(branch) => branch.to.push(next),
                None => branches.push(Branch {
                    pipe,
                    to: vec![next],
                }),
            }
        }
        true
    }

    /// Where a node sends them on.
    pub fn branches(&self, at: NodeIndex) -> &[Branch] {
        self.branches.get(&at).map_or(&[], Vec::as_slice)
    }
}
