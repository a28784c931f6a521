mod commands;
mod neighbours;
mod targets;

pub(crate) use targets::Target;
pub use targets::media_rate;

use std::net::SocketAddr;
use std::task::{Context, Poll};

use bytes::Bytes;
use layercast_core::{CellRate, Machine, Observer, PortId, Span, Time, earliest};
use layercast_mets::switch::{Switch, SwitchConfig};
use layercast_mets::{Source, SourceEvent};
use layercast_mets::{Station, StationConfig, StationEvent, StationInput, StationTransmit};
use layercast_protect::{OpenError, WallClock};
use layercast_repair::Needs;
use layercast_wire::{ChannelStats, UdpStats, decode_datagram};
use tokio::sync::mpsc;

use crate::clock::clock_name;
use crate::clocks::Clocks;
use crate::config::{LocalSource, NodeEvent, NodeSummary};
use crate::connection::PeerId;
use crate::error::NetError;
use crate::host::{EmulatedHost, HostEmulation};
use crate::local::Running;
use crate::ports::Ports;
use crate::rates::Rates;
use crate::sources::SourceId;
use crate::timer::Lateness;
use crate::udp::{Inbound, Udp};
use targets::Targets;

/// What the pacer of the sources may send in one burst: timers cost more than a short queue.
const PACER_GRAIN: Span = Span::from_us(250);

/// The machines of a node and what they are connected to: everything but sockets and clocks.
pub(crate) struct Machines {
    station: Station,
    /// What feeds the sources of the station, by the same places.
    flows: Vec<Running>,
    /// Whether the first frame of a flow may wait for the demands of its members.
    holds: bool,
    /// The stalls of an emulated host.
    host: Option<EmulatedHost>,
    ports: Ports,
    rates: Rates,
    targets: Targets,
    clocks: Clocks,
    events: mpsc::Sender<NodeEvent>,
    /// Datagrams that did not decode.
    malformed: u64,
    /// Where the wall clock is read.
    wall_clock: fn() -> WallClock,
    /// When the timers ran last.
    ran: Time,
}

/// The machines while datagrams come in.
pub(crate) struct Receiving<'a, O> {
    pub machines: &'a mut Machines,
    pub now: Time,
    pub obs: &'a mut O,
}

impl<O: Observer> Inbound for Receiving<'_, O> {
    type Key = SourceId;

    fn known(&mut self, addr: SocketAddr) -> Option<SourceId> {
        self.machines.ports.sources.lookup(addr)
    }

    fn client(&self, from: SourceId, _: &[u8]) -> u32 {
        from.client()
    }

    fn crowded_out(&mut self, from: SourceId, _: &[u8], count: u64) {
        if let Some(port) = self.machines.ports.port_mut(from.port) {
            port.crowded_out += count;
        }
    }

    fn open<'a>(&mut self, from: SourceId, datagram: &'a mut [u8]) -> Result<&'a [u8], OpenError> {
        self.machines.ports.sources.open(from, datagram)
    }

    fn deliver(&mut self, from: SourceId, datagram: Bytes, congestion: bool) {
        let machines = &mut *self.machines;
        let member = from.member();
        let from = from.port;
        let Some(port) = machines.ports.port_mut(from) else {
            return;
        };
        let carriage = port.carriage;
        let congestion = congestion && port.egress.repair.heeds_marks();
        let received = port.egress.receive(self.now, member, datagram, self.obs);
        let datagram = match received {
            Ok(Some(datagram)) => datagram,
            Ok(None) => return,
            Err(_) => {
                machines.malformed += 1;
                return;
            }
        };
        let decoded = decode_datagram(carriage, datagram, congestion, &mut |pdu| {
            if let Some(host) = &mut machines.host {
                host.arrived(self.now, from, &pdu);
            }
            let input = StationInput::Pdu { port: from, pdu };
            machines.station.handle(self.now, input, self.obs);
            machines.settle(self.now, self.obs);
        });
        machines.malformed += u64::from(decoded.is_err());
    }
}

/// What the flows of a port need.
fn needs(switch: &Switch, port: PortId) -> Needs {
    Needs {
        levels: switch.levels_on(port).map(CellRate::rate),
        absent: switch.replaced_on(port).rate(),
    }
}

/// How often a node that no neighbour is connected to looks at its timers.
const ALONE_TICK: Span = Span::from_ms(100);
/// What was put off for longer was not put off by it: the host did not run.
const ALONE_MOST: Span = Span::from_secs(1);
/// Most timers that one look runs, and those that do not advance.
const ALONE_STEPS: usize = 4_096;
const SAME_STEPS: usize = 8;

impl Machines {
    /// The machines of a node at the start: the sources advertise their flows.
    pub fn new<O: Observer>(
        switch: SwitchConfig,
        sources: Vec<LocalSource>,
        host: HostEmulation,
        (ports, rates): (Ports, Rates),
        events: mpsc::Sender<NodeEvent>,
        (now, wall_clock): (Time, fn() -> WallClock),
        obs: &mut O,
    ) -> Result<Machines, NetError> {
        let mut machines = Machines {
            station: Station::new(StationConfig {
                switch: Some(Switch::new(switch)),
                host: host.costs(),
                pacer_grain: PACER_GRAIN,
                rate: None,
            }),
            flows: Vec::new(),
            holds: false,
            host: EmulatedHost::new(host),
            ports,
            rates,
            targets: Targets::default(),
            clocks: Clocks::new(clock_name()),
            events,
            malformed: 0,
            wall_clock,
            ran: now,
        };
        for source in sources {
            let (running, source) = Running::new(now, source)?;
            machines.add(now, running, source);
        }
        machines.set_wall_clock();
        machines.settle(now, obs);
        Ok(machines)
    }

    /// Adds a source and begins to feed it.
    fn add(&mut self, now: Time, mut running: Running, mut source: Source) {
        source.set_wall_clock((self.wall_clock)());
        running.feed(&mut source, now);
        let place = self.station.add_source(source);
        debug_assert_eq!(
            place,
            self.flows.len(),
            "the places of flows are those of sources"
        );
        self.flows.push(running);
    }

    /// Whether no neighbour is connected: no packet of a flow has a receiver.
    pub fn is_alone(&self) -> bool {
        self.ports.iter().next().is_none() && self.host.is_none()
    }

    /// When to look at a timer that is due at `at`, while the node is alone: several are run in one look.
    pub fn put_off(at: Time) -> Time {
        let tick = ALONE_TICK.as_ps();
        Time::from_ps(at.as_ps().div_ceil(tick).saturating_mul(tick))
    }

    /// Runs the timers that were put off while the node was alone, each at its own time, so that none is late.
    pub fn make_up<O: Observer>(&mut self, now: Time, obs: &mut O) {
        if now.since(self.ran) > ALONE_MOST {
            return;
        }
        let mut same = 0;
        for _ in 0..ALONE_STEPS {
            let due = self.next_timeout().map(|at| at.max(self.ran));
            let Some(at) = due.filter(|at| *at < now && self.is_alone()) else {
                return;
            };
            same = if at == self.ran { same + 1 } else { 0 };
            if same > SAME_STEPS {
                return;
            }
            self.on_timeout(at, obs);
        }
    }

    /// Runs the timers of all machines.
    pub fn on_timeout<O: Observer>(&mut self, now: Time, obs: &mut O) {
        self.ran = now;
        self.set_wall_clock();
        for (place, running) in self.flows.iter_mut().enumerate() {
            if let Some(source) = self.station.source_mut(place) {
                running.on_timeout(source, now);
            }
        }
        while let Some((port, rate)) = self.rates.due(now, &mut self.ports) {
            if let Some(port) = self.ports.port_mut(port) {
                port.egress.set_rate(now, Some(rate), obs);
            }
            let input = StationInput::PortRate { port, rate };
            self.station.handle(now, input, obs);
        }
        while let Some((port, rate)) = self.ports.poll_rate() {
            self.station
                .handle(now, StationInput::PortRate { port, rate }, obs);
            if let Some(neighbour) = self.ports.name(port).map(str::to_owned) {
                self.tell(NodeEvent::Path { neighbour, rate });
            }
        }
        if let Some(host) = &mut self.host {
            host.on_timeout(now, &mut self.station);
        }
        self.station.on_timeout(now, obs);
        self.settle(now, obs);
        self.look_at_targets(now);
        self.ports.change_keys(now);
        let switch = self.station.switch();
        let needs = |port| switch.map_or_else(Needs::default, |switch| needs(switch, port));
        self.ports.share_budgets(now, needs, obs);
        self.tell_clocks(now);
        for port in self.ports.iter_mut() {
            port.egress.poll(now, obs);
        }
    }

    /// Tells the machines what the wall clock shows now.
    fn set_wall_clock(&mut self) {
        self.station.set_wall_clock((self.wall_clock)());
    }

    /// When a machine wants its timers run.
    pub fn next_timeout(&self) -> Option<Time> {
        let flows = self.flows.iter().map(Running::next_timeout);
        let flows = flows.fold(None, earliest);
        let targets = (!self.flows.is_empty()).then(|| self.targets.next_timeout());
        let flows = earliest(flows, targets);
        let links = earliest(self.ports.next_timeout(), self.rates.next_timeout());
        let host = self.host.as_ref().and_then(EmulatedHost::next_timeout);
        let machines = earliest(self.station.next_timeout(), host);
        earliest(earliest(flows, links), machines)
    }

    /// Puts what the station sends on the links, and acts on its events, until there are none.
    fn settle<O: Observer>(&mut self, now: Time, obs: &mut O) {
        loop {
            while let Some(transmit) = self.station.poll_transmit(now, obs) {
                match transmit {
                    StationTransmit::Pdu { port, pdu, at } => {
                        if let Some(port) = self.ports.port_mut(port) {
                            port.egress.send(now, at, pdu, obs);
                        }
                    }
                    StationTransmit::Signal { port, signal } => self.ports.signal(port, &signal),
                }
            }
            let mut fed = false;
            while let Some(event) = self.station.poll_event() {
                if let StationEvent::Switch(event) = &event
                    && let Some((flow, port)) = event.unwanted()
                    && let Some(port) = self.ports.port_mut(port)
                {
                    port.egress.repair.unwanted(now, flow, obs);
                }
                fed |= self.on_event(now, event);
            }
            if !(self.release_held(now) || fed) {
                return;
            }
        }
    }

    /// Acts on an event, or tells the user; gives whether a source got frames.
    fn on_event(&mut self, now: Time, event: StationEvent) -> bool {
        let (place, event) = match event {
            StationEvent::Source(place, event) => (place, event),
            StationEvent::Switch(event) => {
                let name = event.port().and_then(|port| self.ports.name(port));
                let neighbour = name.map(str::to_owned);
                self.tell(NodeEvent::Switch { event, neighbour });
                return false;
            }
            // A node has no sinks.
            StationEvent::Sink(..) => return false,
        };
        let Some(running) = self.flows.get_mut(place) else {
            return false;
        };
        match &event {
            SourceEvent::NeedFrames(_) => {
                if let Some(source) = self.station.source_mut(place) {
                    running.feed(source, now);
                }
                return true;
            }
            SourceEvent::MemberJoined(_) => {
                running.joined(now);
                self.holds |= running.is_held();
            }
            SourceEvent::Finished { undelivered } => running.finish(now, *undelivered),
            SourceEvent::Renegotiated { flow } => running.target.renegotiated(&flow.spec),
            SourceEvent::Answer { id, status } => {
                running.requests.answer(*id, status.clone());
                return false;
            }
            _ => {}
        }
        let flow = running.name.clone();
        self.tell(NodeEvent::Source { flow, event });
        false
    }

    /// Begins the flows whose members have all said at which level they want them; gives whether there were any.
    fn release_held(&mut self, now: Time) -> bool {
        if !self.holds {
            return false;
        }
        let mut released = false;
        self.holds = false;
        for (place, running) in self.flows.iter_mut().enumerate() {
            let switch = self.station.switch();
            if !running.is_held() {
                continue;
            }
            if switch.is_some_and(|switch| switch.awaits_demand(running.flow)) {
                self.holds = true;
            } else if let Some(source) = self.station.source_mut(place) {
                running.release(source, now);
                released = true;
            }
        }
        released
    }

    /// Hands everything that is due to the kernel; `false` if the kernel takes no more now.
    pub fn flush(&mut self, udp: &mut Udp) -> bool {
        let mut all = true;
        for port in self.ports.iter_mut() {
            all &= port.egress.flush(udp);
        }
        all
    }

    /// What was received at `now` may have come later: the host was held up while it read.
    pub fn read_late<O: Observer>(&mut self, now: Time, obs: &mut O) {
        for port in self.ports.iter_mut() {
            port.egress.repair.read_late(now, obs);
        }
    }

    /// What was sent at `since` or later was handed to the kernel by `now`: the host was held up in between.
    pub fn held_up<O: Observer>(&mut self, since: Time, now: Time, obs: &mut O) {
        for port in self.ports.iter_mut() {
            port.egress.repair.held_up(since, now, obs);
        }
    }

    fn input<O: Observer>(&mut self, now: Time, input: StationInput, obs: &mut O) {
        self.station.handle(now, input, obs);
        self.settle(now, obs);
    }

    /// Waits for a frame of a live producer that its source has room for.
    pub fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let mut flows = self.flows.iter_mut().zip(self.station.sources());
        match flows.any(|(running, source)| running.poll_frame(source, context).is_ready()) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }

    /// Ends all flows that start here: what is queued is still sent.
    pub fn end_sources<O: Observer>(&mut self, now: Time, obs: &mut O) {
        for (place, running) in self.flows.iter_mut().enumerate() {
            if let Some(source) = self.station.source_mut(place) {
                running.stop(source, now);
            }
        }
        self.settle(now, obs);
    }

    /// Whether no source has anything left to send.
    pub fn finished(&self) -> bool {
        self.flows.iter().all(|running| running.finished)
    }

    /// Whether flows started here, and all they had has left.
    pub fn all_sent(&self, now: Time) -> bool {
        let switch = self.station.switch();
        let empty = |port| {
            switch
                .and_then(|it| it.queue(port))
                .is_none_or(|cells| cells == 0)
        };
        let mut ports = self.ports.iter();
        !self.flows.is_empty()
            && self.finished()
            && ports.all(|(id, port)| empty(id) && port.egress.is_idle(now))
    }

    /// Tells the user, if the user listens: events are for eyes, not for decisions.
    pub fn tell(&self, event: NodeEvent) {
        let _ = self.events.try_send(event);
    }

    /// The node ends: it leaves the flows of other nodes, and those that have them from it hear that.
    pub fn stop<O: Observer>(&mut self, now: Time, obs: &mut O) {
        self.input(now, StationInput::Stop, obs);
    }

    /// Closes all connections in order.
    pub fn hang_up(&mut self) {
        self.ports.hang_up();
    }

    /// Tells a neighbour what the node counted so far, and its links.
    pub fn report(
        &self,
        now: Time,
        to: PeerId,
        (udp, channels, timers): (UdpStats, ChannelStats, &Lateness),
    ) {
        let counted = self.summary(String::new(), udp, channels, *timers);
        self.ports
            .report_links(now, to, counted.report(), counted.parts());
    }

    fn malformed(&self) -> u64 {
        self.malformed + self.station.stats().malformed
    }

    /// What the node did, as far as the machines know.
    pub fn summary(
        &self,
        node: String,
        udp: UdpStats,
        channels: ChannelStats,
        timers: Lateness,
    ) -> NodeSummary {
        let sources = self.flows.iter().zip(self.station.sources());
        let links = self.ports.iter();
        let repairs = self.ports.iter();
        let crowded_out = self.ports.iter().filter(|(_, port)| port.crowded_out > 0);
        NodeSummary {
            node,
            switch: self.station.switch().map(Switch::stats).unwrap_or_default(),
            sources: sources
                .map(|(running, source)| (running.name.clone(), source.stats()))
                .collect(),
            links: links
                .filter_map(|(_, port)| Some((port.name.clone(), port.egress.link_stats()?)))
                .collect(),
            repairs: repairs
                .filter_map(|(_, port)| Some((port.name.clone(), port.egress.repair.stats()?)))
                .collect(),
            crowded_out: crowded_out
                .map(|(_, port)| (port.name.clone(), port.crowded_out))
                .collect(),
            udp,
            malformed: self.malformed(),
            channels,
            timers,
            host: self.host.as_ref().map(|host| host.stats(&self.station)),
        }
    }
}

#[cfg(test)]
mod tests;
