//! The order of events at one instant.

use layercast_core::{Time, Who};

use super::config::Group;
use super::tree::{NONE, Nodes};
use super::world::Due;
use crate::calendar::Waits;
use crate::ties::{Class, Turn};

/// The actors of a group.
#[derive(Debug)]
pub(super) struct Callers {
    source: Who,
    /// Of each node but the source's, and so of the link to it and of the receiver, host and aggregator at it.
    nodes: Vec<Who>,
    /// The nodes of receivers and aggregators.
    members: Vec<u32>,
    speakers: Vec<u32>,
    encoders: Vec<Who>,
    crosses: Vec<Who>,
}

/// What distinguishes the events of one node.
#[derive(Clone, Copy)]
enum Part {
    Down,
    Up,
    Send,
    Take,
    Timer,
    User,
    Speaker,
    Encoder,
    Cross,
    Faults,
}

impl Callers {
    /// Those of a group.
    pub fn new(group: &Group, tree: &Nodes) -> Callers {
        let named = |name: &str| Who::of(group.seed, name);
        let branches = group.branches.iter();
        let branches: Vec<Who> = branches
            .map(|it| named(&format!("branch/{}", it.name)))
            .collect();
        let mut copies = vec![0; branches.len()];
        let nodes = tree
            .nodes
            .iter()
            .map(|node| match copies.get_mut(node.kind as usize) {
                Some(copy) => {
                    *copy += 1;
                    branches[node.kind as usize].with(*copy)
                }
                None => named("source"),
            });
        let nodes: Vec<Who> = nodes.collect();
        let mut encoders = Vec::with_capacity(tree.encoders.len());
        for (node, who) in tree.nodes.iter().zip(&nodes) {
            let ports = &tree.ports[node.ports.0 as usize..node.ports.1 as usize];
            let ports = ports.iter().filter(|it| it.encoder != NONE);
            encoders.extend(ports.map(|port| who.with(port.region.into())));
        }
        Callers {
            source: named("source"),
            nodes,
            members: tree.members.clone(),
            speakers: tree.aggregators.clone(),
            encoders,
            crosses: (0..group.cross.len())
                .map(|n| named(&format!("cross/{n}")))
                .collect(),
        }
    }

    /// Where the copies of a packet begin that come to all of these nodes at one instant, from the first on.
    pub fn begin(&self, first: u32, end: u32, at: Time) -> u32 {
        match end - first {
            1 => 0,
            count => (self.nodes[first as usize].draw(at) % u64::from(count)) as u32,
        }
    }

    /// The actor of an event, its part, and the class.
    fn caller(&self, due: Due) -> (Who, Part, Class) {
        let node = |node: u32| self.nodes[node as usize];
        let member = |member: u32| node(self.members[member as usize]);
        let cross = |cross: u32| self.crosses[cross as usize];
        let (who, part) = match due {
            Due::Down { first: to, .. } | Due::Along { node: to, .. } => {
                return (node(to), Part::Down, Class::Arrival);
            }
            Due::Up { node: from, .. } => return (node(from), Part::Up, Class::Arrival),
            Due::Segment { cross: n, up } => {
                let part = if up { Part::Up } else { Part::Down };
                return (cross(n), part, Class::Arrival);
            }
            Due::Leave { .. } => (self.source, Part::Send),
            Due::TakeAtSource { .. } => (self.source, Part::Take),
            Due::WakeSource => (self.source, Part::Timer),
            Due::Submit => (self.source, Part::User),
            Due::Fault => (self.source, Part::Faults),
            Due::Answer { member: n, .. } => (member(n), Part::Send),
            Due::TakeAt { member: n, .. } => (member(n), Part::Take),
            Due::Wake { member: n } => (member(n), Part::Timer),
            Due::Served { member: n } => (member(n), Part::User),
            Due::WakeSpeaker { speaker } => (node(self.speakers[speaker as usize]), Part::Speaker),
            Due::Flush { encoder } => (self.encoders[encoder as usize], Part::Encoder),
            Due::Connect { cross: n, flow } => (cross(n).with(flow.into()), Part::Cross),
            Due::WakeCross { cross: n } => (cross(n), Part::Timer),
        };
        (who, part, Class::Timer)
    }
}

impl Waits for Due {
    type Turns = Callers;

    fn turn(self, at: Time, callers: &Callers) -> u64 {
        let (who, part, class) = callers.caller(self);
        class.turn(Turn::Drawn(who.with(part as u64)), at)
    }
}
