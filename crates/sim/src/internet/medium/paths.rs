//! Paths: the links from one host to another, computed once.
//!
//! Routes are static, so a packet need not look up the route at each node: it carries its next step. Where a
//! link is entered only by the packets of one other link, these enter it in the same order, at instants that
//! are known when they enter the first. Then no event is needed between them. Where packets of several links
//! enter, they [wait for each other](super::inbox).

use layercast_core::{Span, Time, prefetch};
use rustc_hash::FxHashMap;

use super::Medium;
use super::ecmp::{Conversation, FlowMark};
use super::hop::Interface;
use super::packet::NO_STEP;
use super::routes::Ways;
use crate::internet::engine::{Arrival, PacketId};
use crate::internet::network::{Network, NodeIndex, Traffic};

/// Steps that are remembered; packets of pairs that come later ask at each node.
const MOST_STEPS: usize = 1 << 24;
/// Most nodes on a path: a longer one exceeds the time to live.
const LONGEST: usize = 64;

/// A link of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Step {
    pub pipe: u32,
    /// The node at its end.
    pub next: NodeIndex,
    pub then: Then,
}

/// The next stage after a link of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Then {
    /// Comes to the node, which is an event.
    Arrives,
    /// Enters the next link immediately: it has no other input.
    Enters,
    /// Comes to the [inbox](super::inbox) of the next link.
    Waits(u32),
    /// Comes to the node, which [another thread](super::outbox) has.
    Leaves,
}

/// The path of a packet that sets out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct First {
    /// Its first step, or `NO_STEP`.
    pub step: u32,
    /// All flows between the two hosts take it.
    pub is_of_all: bool,
}

impl First {
    /// Where its packets go is asked at each node.
    pub const UNKNOWN: First = First {
        step: NO_STEP,
        is_of_all: false,
    };
}

/// What is known of the ways between two hosts.
#[derive(Clone, Copy, Debug)]
enum Known {
    /// All flows take this one.
    One(First),
    /// Routers choose for each flow.
    OfEachFlow,
}

/// The paths that are known.
#[derive(Debug, Default)]
pub(crate) struct Paths {
    steps: Vec<Step>,
    /// The first step from a host to another.
    firsts: FxHashMap<(NodeIndex, NodeIndex), Known>,
    /// The first step of a flow, where not all flows between two hosts take one way, or `NO_STEP`.
    of_flows: FxHashMap<(NodeIndex, NodeIndex, FlowMark), u32>,
    /// Those of the flows of the network, there and back, if all their paths are known, and a packet can come of nothing else.
    laid: Vec<[u32; 2]>,
    /// Until when links may be entered without an event: what happens later is not counted yet then.
    pub straight_until: Time,
    /// Whether packets may wait for each other.
    pub may_wait: bool,
}

impl Paths {
    /// All that are known, one path after the other.
    #[cfg(test)]
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    #[inline(always)]
    pub fn step(&self, place: u32) -> Step {
        self.steps[place as usize]
    }

    /// The steps of a flow of the network to its end, or back, if flows are all there is and their paths are known.
    pub fn of(&self, flow: usize, way: usize, dst: NodeIndex) -> Option<&[Step]> {
        let first = self.laid.get(flow)?[way];
        Some(self.steps_to(first, dst))
    }

    fn steps_to(&self, first: u32, dst: NodeIndex) -> &[Step] {
        let steps = &self.steps[first as usize..];
        let length = steps.iter().position(|step| step.next == dst);
        &steps[..=length.unwrap_or(0)]
    }

    /// Makes the steps those of a thread, which are not all its own.
    pub fn share(&mut self, leaves: impl Fn(&Step) -> bool) {
        for step in self.steps.iter_mut().filter(|step| leaves(step)) {
            step.then = Then::Leaves;
        }
    }

    /// How a packet came to where it is, of whose path this is the next step.
    pub fn arrival(&self, packet: PacketId, step: u32) -> Arrival {
        let before = self.steps[step as usize - 1];
        Arrival {
            packet,
            to: before.next,
            by: before.pipe,
        }
    }

    /// A step will be taken soon.
    #[inline]
    pub fn prepare(&self, place: u32) {
        self.steps.get(place as usize).map(prefetch);
    }

    /// The link of a step, and the one that is entered from it immediately.
    #[inline]
    pub fn pipes(&self, place: u32) -> Option<(u32, Option<u32>)> {
        let step = |place: u32| self.steps.get(place as usize);
        let first = step(place)?;
        let second = step(place + 1).filter(|_| first.then == Then::Enters);
        Some((first.pipe, second.map(|it| it.pipe)))
    }
}

impl Medium<'_> {
    /// The first step of packets of a flow from one node to another, if it is known or can be found.
    #[inline]
    pub(crate) fn path(&mut self, src: NodeIndex, dst: NodeIndex, flow: FlowMark) -> First {
        if self.backbone.is_some() {
            return First::UNKNOWN;
        }
        match self.paths.firsts.get(&(src, dst)) {
            Some(&Known::One(first)) => first,
            Some(Known::OfEachFlow) => match self.paths.of_flows.get(&(src, dst, flow)) {
                Some(&step) => First {
                    step,
                    is_of_all: false,
                },
                None => self.find_path(src, dst, flow),
            },
            None => self.find_path(src, dst, flow),
        }
    }

    #[cold]
    fn find_path(&mut self, src: NodeIndex, dst: NodeIndex, flow: FlowMark) -> First {
        // Threads know each other's steps by their numbers.
        if self.outbox.is_some() {
            return First::UNKNOWN;
        }
        let start = self.paths.steps.len();
        // A network with this many pairs is better off without a list of them.
        let known = self.paths.firsts.len() + self.paths.of_flows.len();
        if start >= MOST_STEPS || known >= MOST_STEPS {
            return First::UNKNOWN;
        }
        let mut is_of_all = true;
        let step = match self.walk(src, dst, flow, &mut is_of_all) {
            Some(()) => start as u32,
            None => {
                self.paths.steps.truncate(start);
                NO_STEP
            }
        };
        // Nodes on the rest of the way may choose, too.
        let is_known_of_all = is_of_all && step != NO_STEP;
        let first = First {
            step,
            is_of_all: is_known_of_all,
        };
        let known = match is_of_all {
            true => Known::One(first),
            false => {
                self.paths.of_flows.insert((src, dst, flow), step);
                Known::OfEachFlow
            }
        };
        self.paths.firsts.insert((src, dst), known);
        first
    }

    /// Appends the steps of a path whose nodes do nothing but pass packets on, immediately. Some routers may choose for each
    /// flow: then it is not that of all.
    fn walk(
        &mut self,
        src: NodeIndex,
        dst: NodeIndex,
        flow: FlowMark,
        is_of_all: &mut bool,
    ) -> Option<()> {
        if src == dst {
            return None;
        }
        let mut at = src;
        for _ in 0..LONGEST {
            let hop = match self.routes.ways(at, dst) {
                Ways::None => return None,
                Ways::One(hop) => hop,
                Ways::Several(ways, salt) => {
                    *is_of_all = false;
                    ways[flow.choose(salt, ways.len())]
                }
            };
            let Interface::Pipe(pipe) = hop.interface else {
                return None;
            };
            let has_class = self.classes.as_ref().is_some_and(|it| it.has(pipe));
            if has_class || self.ports.as_ref().is_some_and(|it| it.has(pipe)) {
                return None;
            }
            self.paths.steps.push(Step {
                pipe,
                next: hop.next,
                then: Then::Arrives,
            });
            if hop.next == dst {
                return Some(());
            }
            at = hop.next;
            let node = &self.nodes[at.0 as usize];
            if node.host.is_some() || node.cpu.is_some() {
                return None;
            }
        }
        None
    }

    /// Finds the paths of all flows, and which of their links have only one other link as input.
    ///
    /// This is known only where all traffic is that of flows between two hosts, of which routers can tell what they are. In
    /// a large network the caches do not hold the queues.
    pub(crate) fn lay_paths(
        &mut self,
        network: &Network,
        conversations: impl Iterator<Item = Option<Conversation>>,
        is_large: bool,
    ) {
        let is_other = |traffic: &Traffic| matches!(traffic, Traffic::XtpMulticast { .. });
        let has_more =
            network.workload.is_some() || network.mets.is_some() || !network.generators.is_empty();
        if has_more || network.flows.iter().any(|it| is_other(&it.traffic)) {
            return;
        }
        let mut laid = Vec::with_capacity(network.flows.len());
        for (flow, conversation) in network.flows.iter().zip(conversations) {
            let ends = (flow.from, flow.to);
            let Some(there) = self.path_of(ends, conversation) else {
                return;
            };
            let back = conversation.map(Conversation::back);
            let Some(back) = self.path_of((ends.1, ends.0), back) else {
                return;
            };
            laid.push([there, back]);
        }
        let firsts = || {
            let flows = network.flows.iter().zip(&laid);
            flows.flat_map(|(flow, &[there, back])| [(there, flow.to), (back, flow.from)])
        };
        let mtu = |pipe: u32| self.pipes[pipe as usize].mtu();
        let disorders = |pipe: u32| self.pipes[pipe as usize].disorders();
        let mut feeders = vec![Feeder::Nobody; self.pipes.len()];
        for (first, dst) in firsts() {
            let mut before = None;
            for step in self.paths.steps_to(first, dst) {
                let feeder = match before {
                    Some(pipe) if mtu(pipe) <= mtu(step.pipe) && !disorders(pipe) => {
                        Feeder::Pipe(pipe)
                    }
                    _ => Feeder::Others,
                };
                let known = &mut feeders[step.pipe as usize];
                *known = match (*known, feeder) {
                    (Feeder::Nobody, _) => feeder,
                    (known, _) if known == feeder => known,
                    (Feeder::Others, _) | (_, Feeder::Others) => Feeder::Others,
                    _ => Feeder::Pipes,
                };
                before = Some(step.pipe);
            }
        }
        let mut inboxes = vec![None; self.pipes.len()];
        for (first, dst) in firsts() {
            let count = self.paths.steps_to(first, dst).len();
            for place in first as usize..first as usize + count - 1 {
                let next = self.paths.steps[place + 1].pipe as usize;
                let pipe = &self.pipes[next];
                // Only in large networks, where the caches do not hold the queues.
                let may_wait = match is_large {
                    false => pipe.delay() > Span::ZERO,
                    true => pipe.is_worth_waiting(),
                };
                self.paths.steps[place].then = match feeders[next] {
                    Feeder::Pipe(_) => Then::Enters,
                    Feeder::Pipes if may_wait => {
                        let add = || self.inboxes.add(next as u32, pipe.delay());
                        Then::Waits(*inboxes[next].get_or_insert_with(add))
                    }
                    _ => Then::Arrives,
                };
            }
        }
        self.paths.laid = laid;
    }

    /// The first step of a flow, if it has one path: of one not known well enough, only if all flows between the two take it.
    fn path_of(
        &mut self,
        (src, dst): (NodeIndex, NodeIndex),
        conversation: Option<Conversation>,
    ) -> Option<u32> {
        let mark = conversation.map(|it| self.mark(it, (src, dst)));
        let first = self.path(src, dst, mark.unwrap_or_default());
        let is_its_own = first.is_of_all || mark.is_some();
        (first.step != NO_STEP && is_its_own).then_some(first.step)
    }
}

/// Whose packets enter a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Feeder {
    Nobody,
    /// Those that come out of one other.
    Pipe(u32),
    /// Those that come out of several others.
    Pipes,
    /// Those of a host, or such as may have to be cut or come in another order, perhaps among others.
    Others,
}
