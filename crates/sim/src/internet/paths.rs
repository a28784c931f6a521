//! Paths: the links from one host to another, computed once.
//!
//! Routes are static, so a packet need not look up the route at each node: it carries its next step. Where a
//! link is entered only by the packets of one other link, these enter it in the same order, at instants that
//! are known when they enter the first. Then no event is needed between them. Where packets of several links
//! enter, they [wait for each other](super::inbox).

use layercast_core::{Span, Time, prefetch};
use rustc_hash::FxHashMap;

use super::hop::Interface;
use super::network::{Network, NodeIndex, Traffic};
use super::packet::{Arrival, NO_STEP, PacketId};
use super::world::Internet;

/// Steps that are remembered; packets of pairs that come later ask at each node.
const MOST_STEPS: usize = 1 << 24;
/// Most nodes on a path: a longer one exceeds the time to live.
const LONGEST: usize = 64;

/// A link of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Step {
    pub pipe: u32,
    /// The node at its end.
    pub next: NodeIndex,
    pub then: Then,
}

/// The next stage after a link of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Then {
    /// Comes to the node, which is an event.
    Arrives,
    /// Enters the next link immediately: it has no other input.
    Enters,
    /// Comes to the [inbox](super::inbox) of the next link.
    Waits(u32),
    /// Comes to the node, which [another thread](super::share) has.
    Leaves,
}

/// The paths that are known.
#[derive(Debug, Default)]
pub(super) struct Paths {
    steps: Vec<Step>,
    /// The first step from a host to another, or `NO_STEP`.
    firsts: FxHashMap<(NodeIndex, NodeIndex), u32>,
    /// Whether those of all flows are, and of nothing else a packet can come.
    are_laid: bool,
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

    /// The steps from a host to another, if flows are all there is and their paths are known.
    pub fn of(&self, src: NodeIndex, dst: NodeIndex) -> Option<&[Step]> {
        let first = self.firsts.get(&(src, dst)).filter(|_| self.are_laid)?;
        Some(self.steps_to(*first, dst))
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
        // Threads know each other's steps by their numbers.
        if self.share.is_some() {
            return NO_STEP;
        }
        let start = self.paths.steps.len();
        // A network with this many pairs is better off without a list of them.
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

    /// Appends the steps of a path whose nodes do nothing but pass packets on, immediately.
    fn walk(&mut self, src: NodeIndex, dst: NodeIndex) -> Option<()> {
        if src == dst {
            return None;
        }
        let mut at = src;
        for _ in 0..LONGEST {
            let hop = self.routes.next(at, dst, src)?;
            let Interface::Pipe(pipe) = hop.interface else {
                return None;
            };
            if self.classes.as_ref().is_some_and(|it| it.has(pipe)) {
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
    /// This is known only where all traffic is that of flows between two hosts.
    pub(super) fn lay_paths(&mut self, network: &Network) {
        let is_other = |traffic: &Traffic| matches!(traffic, Traffic::XtpMulticast { .. });
        let has_more = network.workload.is_some() || network.mets.is_some();
        if has_more || network.flows.iter().any(|it| is_other(&it.traffic)) {
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
        let mtu = |pipe: u32| self.pipes[pipe as usize].mtu();
        let mut feeders = vec![Feeder::Nobody; self.pipes.len()];
        for &(first, dst) in &firsts {
            let mut before = None;
            for step in self.paths.steps_to(first, dst) {
                let feeder = match before {
                    Some(pipe) if mtu(pipe) <= mtu(step.pipe) => Feeder::Pipe(pipe),
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
        for (first, dst) in firsts {
            let count = self.paths.steps_to(first, dst).len();
            for place in first as usize..first as usize + count - 1 {
                let next = self.paths.steps[place + 1].pipe as usize;
                let pipe = &self.pipes[next];
                // Only in large networks, where the caches do not hold the queues.
                let may_wait = match self.ahead {
                    None => pipe.delay() > Span::ZERO,
                    Some(_) => pipe.is_worth_waiting(),
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
        self.paths.are_laid = true;
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
    /// Those of a host, or such as may have to be cut, perhaps among others.
    Others,
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::prelude::*;

    use super::*;
    use crate::internet::Report;
    use crate::internet::random::scenario;
    use crate::internet::scenario::Scenario;

    /// A report, and how many packets continued without an event, or did so while others waited for them.
    fn run(scenario: &str, step_by_step_from: Time) -> (Report, usize, usize) {
        let scenario = Scenario::from_toml(scenario, Path::new(".")).unwrap();
        let mut world = Internet::new(&scenario.resolve().unwrap()).unwrap();
        let steps = &world.paths.steps;
        let straight = steps.iter().filter(|it| it.then == Then::Enters).count();
        let waits = steps
            .iter()
            .filter(|it| matches!(it.then, Then::Waits(_)))
            .count();
        if step_by_step_from > Time::ZERO {
            world.run_until(step_by_step_from, &mut ());
        }
        if step_by_step_from < Time::MAX {
            world.capture();
        }
        (world.run(&mut ()), straight, waits)
    }

    proptest! {
        /// Rates, delays and sizes are alike, so that much happens at one instant.
        #[test]
        fn packets_that_are_dealt_with_ahead_fare_as_all_others(
            scenario in scenario(vec!["xtp = {}"]),
        ) {
            let (ahead, ..) = run(&scenario, Time::MAX);
            for from in [Time::ZERO, Time::from_ps(517_000_000_000)] {
                let (one_by_one, ..) = run(&scenario, from);
                prop_assert_eq!(&ahead, &one_by_one, "from {:?}: {}", from, &scenario);
            }
        }
    }

    #[test]
    fn a_dumbbell_has_links_of_either_kind() {
        let scenario = r#"
            schema = "internet/1"
            name = "dumbbell"
            run = { duration = "1s" }
            topology = { kind = "dumbbell", pairs = 3, access = { rate = "1 Gbit/s", delay = "1ms" }, trunk = { rate = "100 Mbit/s", delay = "10ms" } }

            [[flow]]
            from = "left{1..3}"
            to = "right{1..3}"
        "#;
        let (report, straight, waits) = run(scenario, Time::MAX);
        // Each way of each flow waits before the trunk and goes straight behind it.
        assert_eq!((straight, waits), (6, 6));
        assert!(report.packet_hops > 10_000, "{}", report.packet_hops);
    }
}
