use core::net::Ipv4Addr;

use layercast_atm::AtmAddress;
use layercast_core::{AnyObserver, Machine, Stream, Time};
use layercast_link::host::Cpu;

use super::ahead::Ahead;
use super::apps::Apps;
use super::atm::{self, Backbone};
use super::capture::Captured;
use super::classes::Classes;
use super::division;
use super::error::NetworkError;
use super::external::External;
use super::flows::FlowState;
use super::group::Group;
use super::hosts::Host;
use super::inbox::{INBOX, Inboxes};
use super::mets::Mets;
use super::network::{Budget, CpuCost, Network, NodeIndex, Traffic};
use super::packet::{Arrival, PacketId, Packets};
use super::paths::Paths;
use super::pipe::Pipe;
use super::report::{NodeDrops, Progress, Report, Sample, Stopped, Watch};
use super::routes::{Addresses, Routes};
use super::share::Share;
use super::source::Source;
use crate::calendar::Calendar;
use crate::kernel::{Kernel, SourceId};
use crate::ties::Ties;

/// A running internetwork.
#[derive(Debug)]
pub struct Internet {
    pub(super) now: Time,
    /// Sees what the machines do.
    pub(super) obs: AnyObserver<'static>,
    /// Packets on links and LANs, and the nodes they come to.
    pub(super) arrivals: Calendar<Arrival>,
    ties: Ties,
    /// In a large network: what will be needed soon.
    pub(super) ahead: Option<Ahead>,
    /// All other events but those of cells: timers, most of them.
    pub(super) kernel: Kernel,
    /// What each event source is.
    pub(super) sources: Vec<Source>,
    pub(super) nodes: Vec<NodeState>,
    /// Some node has a processor that costs time.
    pub(super) has_processors: bool,
    pub(super) node_addresses: Vec<Ipv4Addr>,
    pub(super) pipes: Vec<Pipe>,
    pub(super) packets: Packets,
    pub(super) routes: Routes,
    pub(super) paths: Paths,
    pub(super) inboxes: Inboxes,
    pub(super) addresses: Addresses,
    pub(super) hosts: Vec<Host>,
    pub(super) flows: Vec<FlowState>,
    /// What each of them has received, in bytes: each segment counts.
    pub(super) flow_bytes: Vec<u64>,
    pub(super) apps: Option<Apps>,
    pub(super) atm: Option<Box<Backbone>>,
    /// For each node its address on the backbone, if it has one.
    pub(super) atm_addresses: Vec<Option<AtmAddress>>,
    /// Largest packet on the backbone.
    pub(super) atm_mtu: u32,
    /// METS nodes, if there are any, and links with a class queue beside their ports.
    pub(super) mets: Option<Box<Mets>>,
    pub(super) classes: Option<Box<Classes>>,
    /// Hosts whose TCP has been touched and may have something to say.
    pub(super) touched: Vec<u32>,
    /// Measurements not handed over yet.
    pub(super) samples: Vec<Sample>,
    /// Parts of the packet being cut.
    pub(super) parts: Vec<PacketId>,
    /// Packets not yet reported to the watcher, if it wants them.
    pub(super) captured: Option<Vec<Captured>>,
    pub(super) drops: NodeDrops,
    /// Hosts that are real programs, if any are.
    pub(super) external: Option<Box<External>>,
    /// If other threads have other nodes.
    pub(super) share: Option<Box<Share>>,
    end: Time,
    warm: Time,
    pub(super) budget: Budget,
    /// Times round the loop.
    steps: u64,
    /// Events but packets and cells that arrive.
    others: u64,
    pub(super) packet_hops: u64,
}

/// What happens next.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    Arrival,
    Other(SourceId),
    Cells,
}

#[derive(Debug)]
pub(super) struct NodeState {
    /// Its place among the hosts, if it is one.
    pub host: Option<u32>,
    /// Its processor, if that costs time.
    pub cpu: Option<Box<NodeCpu>>,
}

/// The processor of a node, with what a packet costs it.
#[derive(Debug)]
pub(super) struct NodeCpu {
    /// Of the node.
    pub name: String,
    pub cost: CpuCost,
    pub cpu: Cpu<PacketId>,
    pub source: SourceId,
    /// What arrived and is not done.
    pub arrived: u32,
    pub stream: Stream,
}

/// How often the watcher is asked, in events.
pub(super) const LOOK: u64 = 16_384;

impl Internet {
    /// Builds the machines of a network; nothing has happened yet.
    pub fn new(network: &Network) -> Result<Internet, NetworkError> {
        let built = super::build::build(network)?;
        let mut world = Internet {
            now: Time::ZERO,
            obs: AnyObserver::default(),
            ties: network.ties,
            arrivals: Calendar::new(network.ties, network.seed, "calendar/arrivals"),
            ahead: Ahead::new(network.nodes.len()),
            kernel: Kernel::new(network.ties, network.seed),
            sources: Vec::new(),
            nodes: Vec::new(),
            has_processors: false,
            node_addresses: network.nodes.iter().map(|node| node.address).collect(),
            pipes: built.pipes,
            packets: Packets::default(),
            routes: built.routes,
            paths: Paths::default(),
            inboxes: Inboxes::default(),
            addresses: built.addresses,
            hosts: Vec::new(),
            flows: Vec::new(),
            flow_bytes: vec![0; network.flows.len()],
            apps: None,
            atm: None,
            atm_addresses: Vec::new(),
            atm_mtu: 0,
            mets: None,
            classes: None,
            touched: Vec::new(),
            samples: Vec::new(),
            parts: Vec::new(),
            captured: None,
            drops: NodeDrops::default(),
            external: None,
            share: None,
            end: Time::ZERO.saturating_add(network.duration),
            warm: Time::ZERO.saturating_add(network.warm_up),
            budget: network.budget,
            steps: 0,
            others: 0,
            packet_hops: 0,
        };
        world.inboxes = Inboxes::new(world.arrivals.seed());
        if division::has_only_flows(network) {
            world.kernel.tell_sources_apart();
        }
        let mut endpoints = built.endpoints.into_iter().peekable();
        for (n, node) in network.nodes.iter().enumerate() {
            let host = endpoints.next_if(|(_, node)| node.0 as usize == n);
            let host = host.map(|(endpoint, node)| {
                let number = world.hosts.len() as u32;
                let timer = world.source(Source::Tcp(number));
                let address = world.node_addresses[n];
                world.hosts.push(Host::new(endpoint, node, address, timer));
                number
            });
            let cpu = (node.cpu != CpuCost::default()).then(|| {
                Box::new(NodeCpu {
                    name: node.name.clone(),
                    cost: node.cpu,
                    cpu: Cpu::new(),
                    source: world.source(Source::Cpu(n as u32)),
                    arrived: 0,
                    stream: Stream::new(network.seed, &format!("cpu/{}", node.name)),
                })
            });
            world.has_processors |= cpu.is_some();
            world.nodes.push(NodeState { host, cpu });
        }
        let host = |world: &Internet, node: NodeIndex| {
            let host = world.nodes[node.0 as usize].host;
            host.unwrap_or_default()
        };
        for (n, flow) in network.flows.iter().enumerate() {
            let source = world.source(Source::Flow(n as u32));
            let ends = (host(&world, flow.from), host(&world, flow.to));
            let names = [flow.from, flow.to].map(|it| network.nodes[it.0 as usize].name.as_str());
            world
                .flows
                .push(FlowState::new(flow, source, ends, names, network.seed));
            world.kernel.schedule(source, Some(flow.start));
            let (mut of_xtp, name) = (Vec::new(), |node: NodeIndex| {
                &network.nodes[node.0 as usize].name
            });
            match &flow.traffic {
                Traffic::Xtp { .. } => of_xtp.extend([flow.from, flow.to]),
                Traffic::XtpMulticast { receivers, .. } => {
                    let members = receivers.iter().map(|it| {
                        let name = name(it.node).clone();
                        (*it, name, host(&world, it.node))
                    });
                    let group = Group::new(flow.from, members);
                    world.flows[n].group = Some(Box::new(group));
                    of_xtp.push(flow.from);
                    of_xtp.extend(receivers.iter().map(|it| it.node));
                }
                Traffic::Bulk(_) | Traffic::Datagrams { .. } => {}
            }
            for node in of_xtp {
                world.give_xtp(host(&world, node), name(node), network.seed);
            }
        }
        if let Some(backbone) = &network.atm {
            let built = atm::build(network, backbone, |n| world.source(Source::Atm(n)))?;
            // Where cells are moved site after site these are no events.
            for node in built.backbone.switches() {
                world.kernel.set_apart(node.timer);
            }
            world.atm = Some(Box::new(built.backbone));
            world.atm_addresses = built.addresses;
            world.atm_mtu = backbone.mtu;
        }
        world.add_contracts(network)?;
        if let Some(population) = &network.workload {
            let source = world.source(Source::Arrivals);
            let hosts = population.hosts.iter().map(|&node| host(&world, node));
            let apps = Apps::new(population, hosts.collect(), network.seed)?;
            world.kernel.schedule(source, apps.next_arrival());
            world.apps = Some(apps);
        }
        if world.warm > Time::ZERO {
            let source = world.source(Source::Warm);
            world.kernel.schedule(source, Some(world.warm));
        }
        world.add_mets(network)?;
        world.lay_paths(network);
        Ok(world)
    }

    pub(super) fn source(&mut self, what: Source) -> SourceId {
        self.sources.push(what);
        self.kernel.add()
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
        if self.captured.is_some() {
            self.hand_over(watch);
        }
        while let Some((at, event)) = self.next()
            && at <= until
        {
            if (self.steps + 1).is_multiple_of(LOOK) {
                self.now = at;
                let packets = self.packets.len() as u64;
                let stopped = self.budget.judge(watch, self.progress(), packets);
                if stopped.is_some() {
                    return stopped;
                }
            }
            self.happens(at, event);
            if !self.samples.is_empty() || self.captured.is_some() {
                self.hand_over(watch);
            }
        }
        self.end_at(until);
        if let Some(backbone) = &mut self.atm {
            backbone.passed(self.now);
        }
        None
    }

    /// One event.
    #[inline(always)]
    pub(super) fn happens(&mut self, at: Time, event: Event) {
        self.now = at;
        self.steps += 1;
        match event {
            Event::Arrival => self.next_arrives(),
            Event::Other(source) => {
                self.others += 1;
                self.look_at_timers();
                self.event(source);
            }
            Event::Cells => self.cell_event(),
        }
        if !self.touched.is_empty() {
            self.settle_hosts();
        }
    }

    /// No event has happened yet, neither packets nor machines are seen, and no packets come from outside.
    pub(super) fn is_untouched(&self) -> bool {
        let is_seen = self.is_watched() || self.external.is_some();
        self.now == Time::ZERO && self.steps == 0 && !is_seen
    }

    /// Begins to run; gives the end.
    pub(super) fn begin(&mut self) -> Time {
        self.go_straight_until(self.end);
        self.end
    }

    /// Everything has happened until then.
    pub(super) fn end_at(&mut self, at: Time) {
        self.now = self.now.max(at);
        self.empty_inboxes();
    }

    /// Times round the loop.
    pub(super) fn steps(&self) -> u64 {
        self.steps
    }

    /// Adds what another thread counted.
    pub(super) fn count(&mut self, other: &Internet) {
        self.steps += other.steps;
        self.others += other.others;
        self.packet_hops += other.packet_hops;
    }

    /// When something happens next, or may; none if nothing does before the end.
    pub fn next_event(&mut self) -> Option<Time> {
        let (at, _) = self.next()?;
        (at <= self.end).then_some(at)
    }

    /// What was found until now, when nothing more is to happen; `stopped` says why that is before the end.
    pub fn finish<W: Watch>(&mut self, stopped: Option<Stopped>, watch: &mut W) -> Report {
        self.empty_inboxes();
        if let Some(backbone) = &mut self.atm {
            backbone.finish(self.now);
        }
        self.hand_over(watch);
        self.report(stopped)
    }

    /// What is next. At one instant packets arrive before all else happens, and cells move last.
    #[inline(always)]
    pub(super) fn next(&mut self) -> Option<(Time, Event)> {
        let arrival = self.arrivals.next().unwrap_or(Time::MAX);
        let other = self.kernel.next();
        let other_at = other.map_or(Time::MAX, |(at, _)| at);
        let cells = self.atm.as_ref().and_then(|backbone| backbone.next());
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
        match self.arrivals.take() {
            Some(it) if it.packet == INBOX => self.open(it.by),
            Some(it) => {
                self.packet_hops += 1;
                self.arrive(it.to, it.packet, 0);
            }
            None => {}
        }
    }

    /// Packets that are in the network.
    pub fn packets_under_way(&self) -> usize {
        self.packets.len()
    }

    /// How far the run is.
    pub fn progress(&self) -> Progress {
        Progress {
            now: self.now,
            events: self.events(),
            packet_hops: self.packet_hops,
            cell_hops: self.cell_hops(),
        }
    }

    fn cell_hops(&self) -> u64 {
        self.atm.as_ref().map_or(0, |backbone| backbone.cell_hops())
    }

    /// A packet that arrives counts as one, and so does a cell.
    fn events(&self) -> u64 {
        let wakes = self.atm.as_ref().map_or(0, |backbone| backbone.wakes());
        self.others + wakes + self.packet_hops + self.cell_hops()
    }

    fn hand_over<W: Watch>(&mut self, watch: &mut W) {
        for sample in self.samples.drain(..) {
            watch.sample(&sample);
        }
        self.hand_over_captured(watch);
    }

    fn event(&mut self, source: SourceId) {
        match self.sources[source.0 as usize] {
            Source::Cpu(n) => self.processed(NodeIndex(n)),
            Source::Tcp(n) => {
                self.kernel.schedule(source, None);
                let host = &mut self.hosts[n as usize];
                host.scheduled = None;
                host.endpoint.on_timeout(self.now, &mut self.obs);
                self.touch(n);
            }
            Source::Xtp(n) => {
                self.kernel.schedule(source, None);
                self.wake_xtp(n);
            }
            Source::Flow(n) => {
                self.kernel.schedule(source, None);
                self.wake_flow(n);
            }
            Source::Atm(n) => {
                self.kernel.schedule(source, None);
                self.wake_atm(n);
            }
            Source::Contract(n) => {
                self.kernel.schedule(source, None);
                self.wake_contract(n);
            }
            Source::Arrivals => self.begin_conversations(source),
            Source::Conversation(n) => {
                self.kernel.schedule(source, None);
                self.wake_conversation(n);
            }
            Source::Mets => self.wake_mets(),
            Source::Class(n) => self.wake_class(n),
            Source::Warm => {
                self.kernel.schedule(source, None);
                // All threads see it, and it is one event.
                self.others -= u64::from(self.share.as_ref().is_some_and(|it| !it.is_first()));
                self.empty_inboxes();
                self.restart_counts();
                self.go_straight_until(self.end);
            }
        }
    }

    /// Lets packets [go straight](super::paths) until then, or until something is counted.
    ///
    /// Not at all where packets or machines are seen, or others may come than was thought, or of equals the first to be scheduled
    /// goes first: it may be another where packets are dealt with ahead of others.
    fn go_straight_until(&mut self, until: Time) {
        let until = match self.now < self.warm {
            true => until.min(self.warm),
            false => until,
        };
        let never = self.is_watched() || self.external.is_some() || self.ties == Ties::Fifo;
        self.paths.straight_until = if never { Time::ZERO } else { until };
        if std::mem::replace(&mut self.paths.may_wait, !never) && never {
            self.give_up_inboxes();
        }
    }

    fn restart_counts(&mut self) {
        for pipe in &mut self.pipes {
            pipe.restart(self.now);
        }
        for n in 0..self.flows.len() {
            self.restart_flow(n);
        }
        if let Some(classes) = &mut self.classes {
            classes.restart();
        }
        self.drops = NodeDrops::default();
    }

    fn report(&mut self, stopped: Option<Stopped>) -> Report {
        let since = self.warm.min(self.now);
        Report {
            seconds: self.now.as_secs_f64(),
            stopped,
            events: self.events(),
            packet_hops: self.packet_hops,
            cell_hops: self.cell_hops(),
            flows: (0..self.flows.len())
                .map(|n| self.flow_report(n, since))
                .collect(),
            queues: self
                .pipes
                .iter()
                .map(|it| it.report(self.now, since))
                .collect(),
            applications: self.apps.as_ref().map_or(Vec::new(), Apps::report),
            node_drops: self.drops,
            atm: self.atm.as_ref().map(|it| it.report(self.now)),
            mets: self.mets_report(),
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
