//! Paths: the links from one host to another, looked for once.
//!
//! Routes are static, so a packet need not ask for the way at each node: it carries its next step. Where nobody but the
//! packets of one link ever go into another, what leaves the first enters the second in the same order, at instants that
//! are known when it enters the first. Then it does so without an event between. Where packets of several links do, they
//! [wait for each other](super::inbox).

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use layercast_core::{Time, prefetch};

use super::ahead::Needs;
use super::routes::Interface;
use super::{Internet, Network, NodeIndex, Traffic};

/// No step: where a packet goes is asked at each node.
pub(super) const NO_STEP: u32 = u32::MAX;
/// Who comes to a link enters it.
pub(super) const NO_INBOX: u32 = u32::MAX;
/// Steps that are remembered; packets of pairs that come later ask at each node.
const MOST_STEPS: usize = 1 << 24;
/// Nodes on a path at most: what goes further is expired before.
const LONGEST: usize = 64;

/// A link of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Step {
    pub pipe: u32,
    /// The node at its end.
    pub next: NodeIndex,
    pub then: Then,
    /// The inbox of the link, or `NO_INBOX`.
    pub inbox: u32,
}

/// What comes out of a link of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Then {
    /// Comes to the node, which is an event.
    Arrives,
    /// Enters the next link at once: nobody else ever does.
    Enters,
    /// Comes to the [inbox](super::inbox) of the next link.
    Waits(u32),
}

/// The paths that are known.
#[derive(Debug, Default)]
pub(super) struct Paths {
    steps: Vec<Step>,
    /// The first step from a host to another, or `NO_STEP`.
    firsts: HashMap<(NodeIndex, NodeIndex), u32, BuildHasherDefault<PairHasher>>,
    /// Until when links may be entered without an event: what happens later is not counted yet then.
    pub straight_until: Time,
    /// Whether packets may wait for each other.
    pub may_wait: bool,
}

impl Paths {
    #[inline(always)]
    pub fn step(&self, place: u32) -> Step {
        self.steps[place as usize]
    }

    /// A step will be taken soon.
    #[inline]
    pub fn prepare(&self, place: u32) {
        self.steps.get(place as usize).map(prefetch);
    }

    /// The link of a step, and the one that is entered from it at once.
    #[inline]
    pub fn pipes(&self, place: u32) -> Needs {
        let step = |place: u32| self.steps.get(place as usize);
        match step(place) {
            Some(first) if first.then == Then::Enters => {
                Needs::Pipes(first.pipe, step(place + 1).map(|it| it.pipe))
            }
            Some(first) => Needs::Pipes(first.pipe, None),
            None => Needs::Nothing,
        }
    }
}

impl Internet {
    /// The first step of packets from one node to another, if it is known or can be found.
    #[inline]
    pub(super) fn path(&mut self, src: NodeIndex, dst: NodeIndex) -> u32 {
        if self.atm.is_some() {
            return NO_STEP;
        }
        match self.paths.firsts.get(&(src, dst)) {
            Some(&first) => first,
            None => self.find_path(src, dst),
        }
    }

    #[cold]
    fn find_path(&mut self, src: NodeIndex, dst: NodeIndex) -> u32 {
        let start = self.paths.steps.len();
        // A network that has so many pairs is better off without a list of them.
        if start >= MOST_STEPS || self.paths.firsts.len() >= MOST_STEPS {
            return NO_STEP;
        }
        let first = match self.walk(src, dst) {
            Some(()) => start as u32,
            None => {
                self.paths.steps.truncate(start);
                NO_STEP
            }
        };
        self.paths.firsts.insert((src, dst), first);
        first
    }

    /// Appends the steps of a path whose nodes do nothing but pass packets on, at once.
    fn walk(&mut self, src: NodeIndex, dst: NodeIndex) -> Option<()> {
        let mut at = src;
        for _ in 0..LONGEST {
            let hop = self.routes.next(at, dst, src)?;
            let Interface::Pipe(pipe) = hop.interface else {
                return None;
            };
            self.paths.steps.push(Step {
                pipe,
                next: hop.next,
                then: Then::Arrives,
                inbox: NO_INBOX,
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

    /// Finds the paths of all flows, and which of their links are entered by nobody but the packets of one other link.
    ///
    /// That can be told only where all traffic is that of flows between two hosts.
    pub(super) fn lay_paths(&mut self, network: &Network) {
        let is_other = |traffic: &Traffic| matches!(traffic, Traffic::XtpMulticast { .. });
        if network.workload.is_some() || network.flows.iter().any(|it| is_other(&it.traffic)) {
            return;
        }
        let mut firsts = Vec::new();
        for flow in &network.flows {
            for (src, dst) in [(flow.from, flow.to), (flow.to, flow.from)] {
                match self.path(src, dst) {
                    NO_STEP => return,
                    first => firsts.push((first, dst)),
                }
            }
        }
        let mut feeders = vec![Feeder::Nobody; self.pipes.len()];
        for &(first, dst) in &firsts {
            let mut before = Feeder::Many;
            for step in self.steps_to(first, dst) {
                let feeder = &mut feeders[step.pipe as usize];
                *feeder = match *feeder {
                    Feeder::Nobody => before,
                    known if known == before => known,
                    _ => Feeder::Many,
                };
                before = Feeder::Pipe(step.pipe);
            }
        }
        let mut inboxes = vec![None; self.pipes.len()];
        for (first, dst) in firsts {
            let count = self.steps_to(first, dst).count();
            for place in first as usize..first as usize + count - 1 {
                let (this, next) = (
                    self.paths.steps[place].pipe,
                    self.paths.steps[place + 1].pipe,
                );
                let pipe = |pipe: u32| &self.pipes[pipe as usize];
                self.paths.steps[place].then = match feeders[next as usize] {
                    _ if pipe(this).mtu() > pipe(next).mtu() => Then::Arrives,
                    Feeder::Pipe(_) => Then::Enters,
                    _ => match pipe(next).worth_waiting() {
                        Some(delay) => {
                            let inbox = &mut inboxes[next as usize];
                            let inbox = inbox.get_or_insert_with(|| self.inboxes.add(delay));
                            Then::Waits(*inbox)
                        }
                        None => Then::Arrives,
                    },
                };
            }
        }
        for step in &mut self.paths.steps {
            step.inbox = inboxes[step.pipe as usize].unwrap_or(NO_INBOX);
        }
    }

    fn steps_to(&self, first: u32, dst: NodeIndex) -> impl Iterator<Item = &Step> {
        let steps = &self.paths.steps[first as usize..];
        let length = steps.iter().position(|step| step.next == dst);
        steps[..=length.unwrap_or(0)].iter()
    }
}

/// Whose packets enter a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Feeder {
    Nobody,
    /// Those that come out of one other.
    Pipe(u32),
    /// Those of a host, or of several links.
    Many,
}

/// Mixes two numbers of nodes, which nobody chooses to collide.
#[derive(Default)]
struct PairHasher(u64);

impl Hasher for PairHasher {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u32(byte.into());
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.0 = (self.0.rotate_left(32) ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}
