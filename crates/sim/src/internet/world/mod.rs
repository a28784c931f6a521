//! A running internetwork: its parts, and the loop.
//!
//! The parts do not know each other but downwards. What one has for another it returns, and the world
//! [hands it over](Internet::deliver).

mod ahead;
mod build;
mod dispatch;
mod layered;
mod sampled;
mod topology;

use bytes::Bytes;
use layercast_core::{AnyObserver, Observer, Time};
use layercast_wire::Interface;

pub use self::layered::Simulation;

use self::ahead::Ahead;
use super::atm::Backbone;
use super::engine::INBOX;
use super::medium::Medium;
use super::network::{Budget, NodeIndex};
use super::node::external::{Delivery, External, ExternalCounts, Refused};
use super::node::mets::Mets;
use super::node::tcp::TcpHosts;
use super::node::xtp::XtpHosts;
use super::report::{NodeDrops, Progress, Report, Stopped, Watch};
use super::users::apps::Apps;
use super::users::flows::Flows;
use super::users::transfers::Transfers;
use crate::kernel::SourceId;

/// A running internetwork.
#[derive(Debug)]
pub struct Internet<'a> {
    pub(super) medium: Medium<'a>,
    pub(super) tcp: TcpHosts,
    xtp: XtpHosts,
    /// METS nodes, if there are any.
    mets: Option<Box<Mets<'a>>>,
    /// Hosts that are real programs, if any are.
    external: Option<Box<External>>,
    pub(super) flows: Flows,
    apps: Option<Apps>,
    /// Generators, if there are any.
    transfers: Option<Box<Transfers>>,
    /// In a large network: what will be needed soon.
    ahead: Option<Ahead>,
    end: Time,
    warm: Time,
    pub(super) budget: Budget,
    /// Times round the loop.
    steps: u64,
    /// Events but packets and cells that arrive.
    others: u64,
}

/// What happens next.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    Arrival,
    Other(SourceId),
    Cells,
}

/// How often the watcher is asked, in events.
pub(super) const LOOK: u64 = 16_384;

impl<'a> Internet<'a> {
    /// From now on an observer sees what hosts, METS nodes and links do. One thread runs the network then.
    pub fn observe(&mut self, observer: impl Observer + Send + 'a) {
        self.medium.engine.obs = AnyObserver::owning(observer);
    }

    /// What there is to capture, in the order of the numbers that a watcher gets: the links, each direction
    /// apart, and the LANs; then, if [cells are captured](Internet::capture_cells), each direction of each ATM
    /// link.
    pub fn interfaces(&self) -> impl Iterator<Item = Interface> {
        self.medium.interfaces()
    }

    /// From now on the watcher gets every packet that a link or LAN takes, when its transmission begins. Data
    /// are zeros, and there is no framing.
    pub fn capture(&mut self) {
        self.medium.captured.get_or_insert_default();
    }

    /// The same, and every cell when its transmission on an ATM link begins. Cells then move one by one, which
    /// takes longer and gives the same results. Once there have been cells it is too late: returns false, and
    /// no cell is reported.
    pub fn capture_cells(&mut self) -> bool {
        self.capture();
        let backbone = self.medium.backbone.as_deref_mut();
        backbone.is_none_or(Backbone::see)
    }

    /// From now on a host is a real program: packets to it are handed out, its packets are
    /// [injected](Self::inject).
    ///
    /// False if the node is not a host.
    pub fn attach(&mut self, node: NodeIndex) -> bool {
        let nodes = &self.medium.nodes;
        let state = nodes.get(node.0 as usize);
        if state.is_none_or(|state| state.host.is_none()) {
            return false;
        }
        let external = self
            .external
            .get_or_insert_with(|| Box::new(External::new(nodes.len())));
        external.attach(node);
        true
    }

    /// A real program sends an IPv4 packet; it enters the network at `at`, but not after what happens next there.
    ///
    /// What does not enter is counted.
    pub fn inject(&mut self, at: Time, node: NodeIndex, bytes: Bytes) -> Result<(), Refused> {
        let next = self.next_event();
        let now = &mut self.medium.engine.now;
        *now = (*now).max(next.map_or(at, |next| at.min(next)));
        let Some(external) = self.external.as_deref_mut() else {
            return Err(Refused::NotAttached(node.0));
        };
        let most = self.budget.packets as usize;
        let entered = external.inject(node, bytes, most, &mut self.medium);
        self.deliver_local();
        entered
    }

    /// The next packet that came to a host which is a real program.
    pub fn poll_external(&mut self) -> Option<Delivery> {
        self.external.as_deref_mut()?.poll()
    }

    /// What went in and out so far, warm-up included.
    pub fn external_counts(&self) -> ExternalCounts {
        let external = self.external.as_deref();
        external.map_or(ExternalCounts::default(), |it| it.counts)
    }

    /// Runs to the end, or until the watcher or the budget stops it.
    pub fn run<W: Watch>(&mut self, watch: &mut W) -> Report {
        let stopped = self.run_until(self.end, watch);
        self.finish(stopped, watch)
    }

    /// Lets everything happen that is due by `until` or by the end, unless the watcher or the budget stops it.
    pub fn run_until<W: Watch>(&mut self, until: Time, watch: &mut W) -> Option<Stopped> {
        let until = until.min(self.end);
        self.go_straight_until(until);
        // For packets from outside since then: a cell must be reported before it arrives.
        if self.medium.captured.is_some() {
            self.hand_over(watch);
        }
        while let Some((at, event)) = self.next()
            && at <= until
        {
            if (self.steps + 1).is_multiple_of(LOOK) {
                self.medium.engine.now = at;
                let stopped = self.look(watch);
                if stopped.is_some() {
                    return stopped;
                }
            }
            self.happens(at, event);
            if !self.medium.engine.samples.is_empty() || self.medium.captured.is_some() {
                self.hand_over(watch);
            }
        }
        self.end_at(until);
        if let Some(backbone) = &mut self.medium.backbone {
            backbone.passed(self.medium.engine.now);
        }
        None
    }

    /// The reason to stop now, if there is any.
    fn look<W: Watch>(&self, watch: &mut W) -> Option<Stopped> {
        let packets = self.medium.packets.len() as u64;
        self.budget.judge(watch, self.progress(), packets)
    }

    /// No event has happened yet, neither packets nor machines are seen, and no packets come from outside.
    pub(super) fn is_untouched(&self) -> bool {
        let is_seen = self.medium.is_watched() || self.external.is_some();
        self.medium.engine.now == Time::ZERO && self.steps == 0 && !is_seen
    }

    /// Begins to run; gives the end.
    pub(super) fn begin(&mut self) -> Time {
        self.go_straight_until(self.end);
        self.end
    }

    /// Everything has happened until then.
    pub(super) fn end_at(&mut self, at: Time) {
        self.medium.engine.now = self.medium.engine.now.max(at);
        self.medium.empty_inboxes();
    }

    /// Times round the loop.
    pub(super) fn steps(&self) -> u64 {
        self.steps
    }

    /// Adds what another thread counted.
    pub(super) fn count(&mut self, other: &Internet) {
        self.steps += other.steps;
        self.others += other.others;
        self.medium.packet_hops += other.medium.packet_hops;
    }

    /// When something happens next, or may; none if nothing does before the end.
    pub fn next_event(&mut self) -> Option<Time> {
        let (at, _) = self.next()?;
        (at <= self.end).then_some(at)
    }

    /// What was found until now, when nothing more is to happen; `stopped` says why that is before the end.
    pub fn finish<W: Watch>(&mut self, stopped: Option<Stopped>, watch: &mut W) -> Report {
        self.medium.empty_inboxes();
        if let Some(backbone) = &mut self.medium.backbone {
            backbone.finish(self.medium.engine.now);
        }
        self.hand_over(watch);
        self.report(stopped)
    }

    /// What is next. At one instant packets arrive before all else happens, and cells move last.
    #[inline(always)]
    pub(super) fn next(&mut self) -> Option<(Time, Event)> {
        let arrival = self.medium.engine.arrivals.next().unwrap_or(Time::MAX);
        let other = self.medium.engine.kernel.next();
        let other_at = other.map_or(Time::MAX, |(at, _)| at);
        let cells = self
            .medium
            .backbone
            .as_ref()
            .and_then(|backbone| backbone.next());
        let cells = cells.unwrap_or(Time::MAX);
        if arrival <= other_at.min(cells) {
            // An event beyond the end of time never happens.
            return (arrival < Time::MAX).then_some((arrival, Event::Arrival));
        }
        match other {
            Some((at, source)) if at <= cells => Some((at, Event::Other(source))),
            _ => Some((cells, Event::Cells)),
        }
    }

    /// The next packet comes to the end of its link.
    #[inline]
    fn next_arrives(&mut self) {
        self.look_ahead();
        match self.medium.engine.arrivals.take() {
            Some(it) if it.packet == INBOX => self.medium.open(it.by),
            Some(it) => {
                self.medium.packet_hops += 1;
                let delivery = self.medium.arrive(it.to, it.packet, 0);
                self.deliver(delivery);
            }
            None => {}
        }
    }

    /// Packets that are in the network.
    pub fn packets_under_way(&self) -> usize {
        self.medium.packets.len()
    }

    /// How far the run is.
    pub fn progress(&self) -> Progress {
        Progress {
            now: self.medium.engine.now,
            events: self.events(),
            packet_hops: self.medium.packet_hops,
            cell_hops: self.cell_hops(),
        }
    }

    fn cell_hops(&self) -> u64 {
        self.medium
            .backbone
            .as_ref()
            .map_or(0, |backbone| backbone.cell_hops())
    }

    /// A packet that arrives counts as one, and so does a cell.
    fn events(&self) -> u64 {
        let wakes = self
            .medium
            .backbone
            .as_ref()
            .map_or(0, |backbone| backbone.wakes());
        self.others + wakes + self.medium.packet_hops + self.cell_hops()
    }

    fn hand_over<W: Watch>(&mut self, watch: &mut W) {
        for sample in self.medium.engine.samples.drain(..) {
            watch.sample(&sample);
        }
        self.medium.hand_over_captured(watch);
    }

    /// Lets packets [go straight](super::medium::paths) until then, or until something is counted.
    ///
    /// Not at all where packets or machines are seen, or others may come than was thought.
    fn go_straight_until(&mut self, until: Time) {
        let until = match self.medium.engine.now < self.warm {
            true => until.min(self.warm),
            false => until,
        };
        let never = self.medium.is_watched() || self.external.is_some();
        self.medium.paths.straight_until = if never { Time::ZERO } else { until };
        if std::mem::replace(&mut self.medium.paths.may_wait, !never) && never {
            self.medium.give_up_inboxes();
        }
    }

    fn restart_counts(&mut self) {
        for pipe in &mut self.medium.pipes {
            pipe.restart(self.medium.engine.now);
        }
        self.flows.restart(&mut self.tcp, &self.xtp);
        if let Some(classes) = &mut self.medium.classes {
            classes.restart();
        }
        if let Some(ports) = &mut self.medium.ports {
            ports.restart();
        }
        if let Some(transfers) = &mut self.transfers {
            transfers.restart();
        }
        self.medium.drops = NodeDrops::default();
    }

    fn report(&mut self, stopped: Option<Stopped>) -> Report {
        let now = self.medium.engine.now;
        let since = self.warm.min(now);
        Report {
            seconds: self.medium.engine.now.as_secs_f64(),
            stopped,
            events: self.events(),
            packet_hops: self.medium.packet_hops,
            cell_hops: self.cell_hops(),
            flows: self.flows.report((since, now), &self.tcp, &self.xtp),
            generators: self
                .transfers
                .as_mut()
                .map_or(Vec::new(), |it| it.report(since, &self.tcp, &self.medium)),
            queues: self.medium.queue_reports(since).collect(),
            applications: self.apps.as_ref().map_or(Vec::new(), Apps::report),
            node_drops: self.medium.drops,
            atm: self
                .medium
                .backbone
                .as_ref()
                .map(|it| it.report(self.medium.engine.now)),
            mets: self.mets.as_ref().map(|it| it.report(&self.medium)),
        }
    }
}

impl Budget {
    /// The reason to stop a run with this progress and `packets` packets under way, if any.
    pub(super) fn judge<W: Watch>(
        self,
        watch: &mut W,
        progress: Progress,
        packets: u64,
    ) -> Option<Stopped> {
        if !watch.progress(progress) {
            Some(Stopped::Interrupted)
        } else if progress.events >= self.events {
            Some(Stopped::EventBudget)
        } else if packets > self.packets.into() {
            Some(Stopped::PacketBudget)
        } else {
            None
        }
    }
}
#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::prelude::*;

    use super::*;
    use crate::internet::medium::paths::Then;
    use crate::internet::random::{impaired, scenario};
    use crate::internet::scenario::Scenario;

    /// A report, and how many packets continued without an event, or did so while others waited for them.
    fn run(scenario: &str, step_by_step_from: Time) -> (Report, usize, usize) {
        let scenario = Scenario::from_toml(scenario, Path::new(".")).unwrap();
        let mut world = Internet::new(&scenario.resolve().unwrap()).unwrap();
        let steps = world.medium.paths.steps();
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
            scenario in prop_oneof![scenario(vec!["xtp = {}"]), impaired(vec!["xtp = {}"])],
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
