//! The tree as it is described, and as it is run: nodes in the order of their depth.

use layercast_core::{Rate, Span};

use super::host::HostSpec;

/// How one link loses packets on their way down.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Loss {
    /// Each on its own, with this chance.
    Independent(f64),
    /// In bursts (Gilbert 1960): a bad state that loses all.
    Bursts {
        /// Mean loss, in [0, 1).
        loss: f64,
        /// Mean packets of a burst, at least 1.
        mean: f64,
    },
}

impl Loss {
    /// The chance that a packet is lost.
    pub fn mean(self) -> f64 {
        match self {
            Loss::Independent(loss) | Loss::Bursts { loss, .. } => loss,
        }
    }
}

/// A link, or a row of links that are alike.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LinkSpec {
    /// How each of the row loses packets on their way down.
    pub loss: Loss,
    /// The chance that each of the row loses a packet on its way up.
    pub back_loss: f64,
    /// Packets travel in cells of AAL5: the chances are those of a cell, and rates count cells.
    pub cells: bool,
    /// Links in the row, 0 to 64; 0: both ends are the same node, and nothing is lost.
    pub hops: u32,
    /// Least and greatest propagation delay of the whole row; that of each copy is drawn from between.
    pub delay: (Span, Span),
    /// Rate both ways; none: packets take no time to be sent.
    pub rate: Option<Rate>,
    /// Octets that wait for the link at most, each way.
    pub queue: u64,
}

/// A subtree, replicated `count` times under each copy of its parent.
#[derive(Clone, PartialEq, Debug)]
pub struct Branch {
    /// Its name in results.
    pub name: String,
    /// The branch that it hangs on, one before it in the list; none: the source.
    pub parent: Option<usize>,
    /// The link to its end.
    pub link: LinkSpec,
    /// How many of it there are.
    pub count: u32,
    /// Number of the code that protects it, from 1; 0: none.
    pub region: u16,
    /// There is a receiver at its end.
    pub receiver: Option<HostSpec>,
    /// There is an aggregator at its end.
    pub aggregates: bool,
}

/// None of something.
pub(super) const NONE: u32 = u32::MAX;

/// A node, and the link that leads to it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    pub parent: u32,
    /// Number of the branch.
    pub kind: u32,
    /// Its ports, from the first up to the second.
    pub ports: (u32, u32),
    /// Number of its receiver.
    pub member: u32,
    /// Number of its decoder.
    pub decoder: u32,
    /// Number of its aggregator.
    pub aggregator: u32,
}

/// Children of a node that are protected alike, from the first up to the second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Port {
    pub children: (u32, u32),
    /// The code; 0: none.
    pub region: u16,
    /// Number of the encoder, if packets are not coded that way already.
    pub encoder: u32,
}

/// The tree that is run.
#[derive(Clone, Debug)]
pub(super) struct Nodes {
    pub nodes: Vec<Node>,
    pub ports: Vec<Port>,
    /// Node of each receiver.
    pub members: Vec<u32>,
    /// Node of each aggregator.
    pub aggregators: Vec<u32>,
    /// Region of each encoder and of each decoder.
    pub encoders: Vec<u16>,
    pub decoders: Vec<u16>,
}

/// Nodes that branches make, the source's among them; at most what a number can say.
pub fn count(branches: &[Branch]) -> u64 {
    copies(branches).into_iter().fold(1, u64::saturating_add)
}

/// Receivers at the ends of branches; at most what a number can say.
pub fn receivers(branches: &[Branch]) -> u64 {
    let copies = copies(branches).into_iter().zip(branches);
    let ends = copies.filter(|(_, branch)| branch.receiver.is_some());
    ends.fold(0, |sum, (copies, _)| sum.saturating_add(copies))
}

/// How many there are of each branch in all.
fn copies(branches: &[Branch]) -> Vec<u64> {
    let mut copies: Vec<u64> = Vec::with_capacity(branches.len());
    for branch in branches {
        let above = branch.parent.map_or(1, |parent| copies[parent]);
        copies.push(above.saturating_mul(branch.count.into()));
    }
    copies
}

impl Nodes {
    /// Lays the nodes out, those of one depth after the other, so that the children of a node are neighbours.
    pub fn new(branches: &[Branch]) -> Nodes {
        let mut tree = Nodes {
            nodes: vec![node(NONE, NONE)],
            ports: Vec::new(),
            members: Vec::new(),
            aggregators: Vec::new(),
            encoders: Vec::new(),
            decoders: Vec::new(),
        };
        let mut below: Vec<Vec<u32>> = vec![Vec::new(); branches.len() + 1];
        for (kind, branch) in (0..).zip(branches) {
            below[branch.parent.map_or(0, |parent| parent + 1)].push(kind);
        }
        let mut at = 0;
        while at < tree.nodes.len() {
            let kind = tree.nodes[at].kind.wrapping_add(1);
            tree.add_children(at, &below[kind as usize], branches);
            at += 1;
        }
        tree
    }

    /// Adds the subtrees below a node.
    fn add_children(&mut self, at: usize, below: &[u32], branches: &[Branch]) {
        let kind = branches.get(self.nodes[at].kind as usize);
        let region = kind.map_or(0, |kind| kind.region);
        let first = self.ports.len() as u32;
        for &kind in below {
            let branch = &branches[kind as usize];
            let children = self.nodes.len() as u32;
            for _ in 0..branch.count {
                self.nodes.push(node(at as u32, kind));
            }
            let children = (children, children + branch.count);
            match self.ports[first as usize..].last_mut() {
                Some(last) if last.region == branch.region => last.children.1 = children.1,
                _ => self.ports.push(Port {
                    children,
                    region: branch.region,
                    encoder: NONE,
                }),
            }
        }
        let ports = (first, self.ports.len() as u32);
        let mut decodes = region != 0 && ports.0 == ports.1;
        for port in &mut self.ports[first as usize..] {
            if port.region != region {
                decodes |= region != 0;
                if port.region != 0 {
                    port.encoder = self.encoders.len() as u32;
                    self.encoders.push(port.region);
                }
            }
        }
        let node = &mut self.nodes[at];
        node.ports = ports;
        if let Some(kind) = kind {
            if kind.receiver.is_some() {
                decodes |= region != 0;
                node.member = self.members.len() as u32;
                self.members.push(at as u32);
            }
            if kind.aggregates {
                decodes |= region != 0;
                node.aggregator = self.aggregators.len() as u32;
                self.aggregators.push(at as u32);
            }
        }
        if decodes {
            node.decoder = self.decoders.len() as u32;
            self.decoders.push(region);
        }
    }

    /// The child of a node that is, or leads to, a node below it.
    pub fn towards(&self, from: u32, to: u32) -> u32 {
        let mut at = to;
        loop {
            let parent = self.nodes[at as usize].parent;
            if parent == from || parent == NONE {
                return at;
            }
            at = parent;
        }
    }
}

fn node(parent: u32, kind: u32) -> Node {
    Node {
        parent,
        kind,
        ports: (0, 0),
        member: NONE,
        decoder: NONE,
        aggregator: NONE,
    }
}
