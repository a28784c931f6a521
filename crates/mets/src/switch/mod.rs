//! The switch as a sans-I/O machine.
//!
//! A [`Switch`] copies the frames of a flow to the branches that may have their layer (media selector, specs/mets.md
//! 2.12), reserves base layers (admission, 2.10) and divides the residual bandwidth of each link among
//! enhancement layers (QoS adapter, 2.11). It forwards cells and whole METS packets by the same logic.

mod adapter;
mod admission;
mod api;
mod branches;
mod carried;
mod change;
mod config;
mod core_switch;
mod declined;
mod end_to_end;
mod fast_start;
mod filter;
mod flow;
mod forward;
mod gone;
mod members;
mod passes;
mod port;
mod ports;
mod selector;
mod signalling;
mod stats;
mod timers;
mod virtual_source;
mod ways;

pub use api::{SwitchEvent, SwitchInput, SwitchTransmit};
pub use branches::MAX_MEMBERS_PER_PORT;
pub use config::{Lowering, PortConfig, ReceiverLimits, SwitchConfig};
pub use core_switch::choose_core;
pub use fast_start::MAX_RECENT;
pub use filter::FilterPlace;
pub use layercast_wire::{RejectedPdus, RejectedSignals};
pub use stats::{FilterStats, SwitchStats};

use std::collections::VecDeque;

use layercast_core::{
    CellRate, FlowId, Layer, Level, Machine, Observer, PortId, Span, Stream, Subject, Time,
    earliest,
};
use layercast_link::PortStats;
use layercast_protect::WallClock;
use layercast_qos::{Demand, Grant};
use layercast_wire::{FlowInfo, Signal};

use crate::switch::flow::{Branch, Flow, FlowTable, MAX_ORIGINS};
use crate::switch::ports::Ports;

/// Most events kept for a driver that does not ask.
const MAX_EVENTS: usize = 4_096;
/// Shortest RES interval that is believed; zero would never let time pass.
const MIN_INTERVAL: Span = Span::from_ms(1);

/// A switch as a machine; see the crate documentation.
///
/// Any input on any port in any order is answered, counted or ignored; what a peer can make it
/// remember is bounded by `max_flows`, `max_members`, [`MAX_MEMBERS_PER_PORT`] and the queue limits.
#[derive(Debug)]
pub struct Switch {
    config: SwitchConfig,
    /// This process on the ways of flows.
    number: u32,
    ports: Ports,
    flows: FlowTable,
    signals: VecDeque<(PortId, Signal)>,
    events: VecDeque<SwitchEvent>,
    stats: SwitchStats,
    /// Where in the RES interval this switch has its tick.
    phase: Span,
    /// When the next RES interval ends; `None` while no flow needs one.
    tick: Option<Time>,
    /// When the next farewell of a source is due.
    next_ending: Option<Time>,
    /// Branches with filters, and when the first of them has something to send.
    filtered: Vec<(FlowId, PortId)>,
    filter_wake: Option<Time>,
    /// Branches with a fast start, and when the first of them has something to send.
    fast_starts: Vec<(FlowId, PortId)>,
    fast_wake: Option<Time>,
    /// Kept to save an allocation for each division of a link.
    demands: Vec<Demand>,
    grants: Vec<Grant>,
    /// Kept likewise: slots and layers of units that one that arrived took the place of.
    removed: Vec<(u32, Layer)>,
    /// Ports that admit by measurement and have been asked for a flow.
    measured: Vec<PortId>,
}

impl Switch {
    /// A switch with no port but [`PortId::LOCAL`], where the sources and sinks of its node sit.
    pub fn new(mut config: SwitchConfig) -> Switch {
        config.res_interval = config.res_interval.max(MIN_INTERVAL);
        let mut stream = Stream::new(config.seed, &format!("{}/res_interval", config.name));
        let phase = Span::from_ps(stream.below(config.res_interval.as_ps()));
        let mut way = Stream::new(config.seed, &format!("{}/{}/way", config.name, config.id.0));
        let number = way.below(1 << 32) as u32;
        let mut switch = Switch {
            config,
            number,
            ports: Ports::default(),
            flows: FlowTable::default(),
            signals: VecDeque::new(),
            events: VecDeque::new(),
            stats: SwitchStats::default(),
            phase,
            tick: None,
            next_ending: None,
            filtered: Vec::new(),
            filter_wake: None,
            fast_starts: Vec::new(),
            fast_wake: None,
            demands: Vec::new(),
            grants: Vec::new(),
            removed: Vec::new(),
            measured: Vec::new(),
        };
        let inside = PortConfig {
            name: "local".into(),
            ..PortConfig::default()
        };
        switch.add_port(PortId::LOCAL, inside);
        switch
    }

    /// Adds a link whose reliable channel is down; a link of the same id is replaced.
    pub fn add_port(&mut self, id: PortId, config: PortConfig) {
        self.remove_port(id);
        self.ports.add(id, config);
    }

    /// Removes a link with its branches; what is in its queue is lost.
    pub fn remove_port(&mut self, id: PortId) {
        self.on_port_down(id);
        for flow in self.flows.ids() {
            if self
                .flows
                .by_id(flow)
                .is_some_and(|flow| flow.branch(id).is_some())
            {
                self.emit(SwitchEvent::Released { flow, port: id });
                self.remove_branch(flow, id);
            }
        }
        self.ports.remove(id);
        self.measured.retain(|other| *other != id);
    }

    /// What happened so far; ports of the same name share one entry.
    pub fn stats(&self) -> SwitchStats {
        let mut stats = self.stats.clone();
        for port in self.ports.iter() {
            let name = &port.config.name;
            stats.ports.insert(name.clone(), port.queue.counted());
            if let Some(measured) = &port.queue.admission {
                stats.admission.insert(name.clone(), measured.stats());
            }
        }
        for flow in self.flows.iter() {
            stats.unknown_types += flow.selector.unknown_types;
            stats.resyncs += flow.selector.resyncs;
            for branch in &flow.branches {
                if let Some(point) = &branch.filter {
                    let port = self.ports.get(branch.port);
                    let name = port.map_or("", |port| port.config.name.as_str());
                    stats.filtered(&flow.info.name, name, point.stats());
                }
            }
        }
        stats
    }

    /// Cells that wait at a port, and what it counted so far; `None` if there is no such port.
    pub fn waiting_at(&self, port: PortId) -> Option<(u32, PortStats)> {
        let queue = &self.ports.get(port)?.queue;
        Some((queue.waiting(), queue.counted()))
    }

    /// What the wall clock of the host shows from now on: for the expiry of tokens and proofs.
    pub fn set_wall_clock(&mut self, clock: WallClock) {
        self.config.clock = clock;
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.config.name
    }

    /// Copies of data units made towards ports so far, those that were dropped there included.
    pub fn copies(&self) -> u64 {
        self.stats.copies
    }

    /// The level a flow has on a port from the next GOP on; `None` without a branch.
    pub fn level(&self, flow: FlowId, port: PortId) -> Option<Level> {
        let flow = self.flows.get(self.flows.slot_of(flow)?)?;
        let mut branches = flow.branches.iter();
        let branch = branches.find(|branch| branch.port == port && branch.is_committed())?;
        Some(branch.gate.target)
    }

    /// Whether somebody below has joined a flow and not yet said at which level: no RES came.
    pub fn awaits_demand(&self, flow: FlowId) -> bool {
        let slot = self.flows.slot_of(flow);
        let flow = slot.and_then(|slot| self.flows.get(slot));
        flow.is_some_and(|flow| {
            let mut branches = flow.branches.iter();
            branches.any(|branch| branch.requests.len() < branch.members.len().min(MAX_ORIGINS))
        })
    }

    /// The port that a flow comes from.
    pub fn upstream(&self, flow: FlowId) -> Option<PortId> {
        let slot = self.flows.slot_of(flow)?;
        Some(self.flows.get(slot)?.upstream)
    }

    /// The ports to which a flow is sent, with the flow and the port it comes from; [`PortId::LOCAL`]: it begins here.
    pub fn routes(&self) -> impl Iterator<Item = (&FlowInfo, PortId, PortId)> {
        self.flows.iter().flat_map(|flow| {
            let branches = flow.branches.iter().map(|branch| branch.port);
            branches.map(|to| (&flow.info, flow.upstream, to))
        })
    }

    /// Cells that wait in the queue of a port, as of the last input or poll.
    pub fn queue(&self, port: PortId) -> Option<u32> {
        self.ports.get(port).map(|port| port.queue.waiting())
    }

    /// Flows that have a branch on a port, committed or not.
    pub fn branches_on(&self, port: PortId) -> usize {
        let branches = self.flows.iter().flat_map(|flow| &flow.branches);
        branches.filter(|branch| branch.port == port).count()
    }

    /// What base layers have reserved on a port, tentative reservations included.
    pub fn reserved_on(&self, port: PortId) -> CellRate {
        self.reserved(Some(port))
    }

    /// What the flows on a port may take of it from their next GOPs on: base layers and what is granted
    /// above them. A filter that shapes takes less than its level says.
    pub fn granted_on(&self, port: PortId) -> CellRate {
        let rates = self.flows.iter().flat_map(|flow| {
            let here = |branch: &&Branch| branch.port == port && branch.is_committed();
            flow.branches.iter().filter(here).map(|branch| {
                let above = match branch.filter {
                    Some(_) => flow.served(branch).1,
                    None if flow.is_continuous() => branch.grant.rate,
                    None if flow.is_alternative() => {
                        let carried = flow.info.spec.rate_of_set(branch.gate.levels);
                        carried.saturating_sub(branch.base)
                    }
                    None => flow.info.spec.above_base(branch.gate.target),
                };
                branch.base.saturating_add(above)
            })
        });
        rates.fold(CellRate(0), CellRate::saturating_add)
    }

    fn signal(&mut self, to: PortId, signal: Signal) {
        // A channel that is down would only lose it; what matters is sent again on PortUp.
        if self.ports.is_up(to) {
            self.signals.push_back((to, signal));
        }
    }

    fn emit(&mut self, event: SwitchEvent) {
        if self.events.len() < MAX_EVENTS {
            self.events.push_back(event);
        }
    }

    /// Keeps the interval timer running exactly while a flow needs it, always in its phase.
    fn set_tick(&mut self, now: Time) {
        if !self.flows.iter().any(Flow::is_busy) {
            self.tick = None;
        } else if self.tick.is_none_or(|tick| tick <= now) {
            let interval = self.config.res_interval.as_ps();
            let passed = now.as_ps().saturating_sub(self.phase.as_ps()) / interval;
            let started = now.as_ps() >= self.phase.as_ps();
            let ticks = if started { passed + 1 } else { 0 };
            let offset = self.config.res_interval.times(ticks);
            self.tick = Some(Time::ZERO.saturating_add(self.phase).saturating_add(offset));
        }
    }
}

impl Machine for Switch {
    type Input = SwitchInput;
    type Transmit = SwitchTransmit;
    type Event = SwitchEvent;

    fn handle<O: Observer>(&mut self, now: Time, input: SwitchInput, obs: &mut O) {
        match input {
            // Media changes no state that a timer waits for.
            SwitchInput::Pdu { port, pdu } => return self.on_pdu(now, port, pdu, obs),
            SwitchInput::Signal { port, signal } => {
                self.measure(now);
                self.on_signal(now, port, signal, obs);
            }
            SwitchInput::PortUp { port } => self.on_port_up(now, port),
            SwitchInput::PortDown { port } => {
                self.on_port_down(port);
                self.take_other_ways(now, port, obs);
            }
            SwitchInput::Stop => self.on_stop(now, obs),
            SwitchInput::PortRate { port, rate } => {
                self.ports.set_rate(now, port, Some(rate));
                self.follow_rate(now, port);
                self.regrant(now, port, "another rate of the line", obs);
            }
        }
        self.on_timeout(now, obs);
        self.set_tick(now);
        self.book(now);
    }

    fn on_timeout<O: Observer>(&mut self, now: Time, obs: &mut O) {
        if self.next_ending.is_some_and(|at| at <= now) {
            self.run_endings(now, obs);
        }
        if self.filter_wake.is_some_and(|wake| wake <= now) {
            self.run_filters(now);
        }
        if self.fast_wake.is_some_and(|wake| wake <= now) {
            self.run_fast_starts(now, obs);
        }
        if self.tick.is_some_and(|tick| tick <= now) {
            self.run_interval(now, obs);
            self.set_tick(now);
            self.measure(now);
            self.book(now);
        }
    }

    fn poll_transmit<O: Observer>(&mut self, now: Time, _: &mut O) -> Option<SwitchTransmit> {
        if let Some((port, signal)) = self.signals.pop_front() {
            return Some(SwitchTransmit::Signal { port, signal });
        }
        self.ports.pop(now)
    }

    fn poll_event(&mut self) -> Option<SwitchEvent> {
        self.events.pop_front()
    }

    fn next_timeout(&self) -> Option<Time> {
        let timers = earliest(self.tick, self.next_ending);
        let timers = earliest(timers, earliest(self.filter_wake, self.fast_wake));
        earliest(timers, self.ports.next())
    }
}

fn subject(config: &SwitchConfig) -> Subject<'_> {
    Subject {
        node: &config.name,
        machine: "switch",
    }
}
