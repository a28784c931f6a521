//! The simulation: moves values between machines in the order of the kernel.

use std::collections::BTreeMap;
use std::io;

use layercast_core::{Machine, Observer, PortId, Span, Stream, Time};
use layercast_switch::{SwitchInput, SwitchTransmit};
use layercast_transport::mets::{FlowLog, Sink, SinkInput, SinkTransmit, SourceInput};
use layercast_wire::{LinkPdu, Signal};

use crate::host::ends_packet;
use crate::kernel::{Kernel, SourceId};
use crate::node::{NodeState, SinkState, SourceState, concerns, is_for};
use crate::scenario::Network;
use crate::script::Action;
use crate::summary::SimSummary;
use crate::wire_check;
use crate::wires::{Capture, LinkState, Wire};

/// A network that can be run.
pub struct Simulation {
    net: Network,
}

/// Everything that changes during a run.
pub(crate) struct World<'a, O: Observer> {
    pub net: &'a Network,
    pub obs: &'a mut O,
    pub capture: Option<Capture<'a>>,
    pub now: Time,
    pub kernel: Kernel,
    actors: Vec<Actor>,
    pub nodes: Vec<NodeState>,
    /// Two per link: from its first end, from its second end.
    pub wires: Vec<Wire>,
    pub links: Vec<LinkState>,
    pub sources: Vec<SourceState>,
    pub sinks: Vec<SinkState>,
    /// What the scenario wants done, and what follows from faults; `u64` keeps the order of
    /// actions of the same instant.
    pub agenda: BTreeMap<(Time, u64), Action>,
    pub planned: u64,
    pub agenda_event: SourceId,
    pub counts: Counts,
}

/// What the run counts.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Counts {
    pub events: u64,
    pub packet_hops: u64,
    pub cell_hops: u64,
    pub wire_errors: u64,
}

/// Who acts when an event source is due; the numbers are places.
#[derive(Clone, Copy, Debug)]
enum Actor {
    Agenda,
    Switch(usize),
    Cpu(usize),
    Source(usize),
    Sink(usize),
    Stall(usize),
    Data(usize),
    Signals(usize),
}

impl Simulation {
    /// A simulation of `net`, with the seed it was resolved with.
    pub fn new(net: Network) -> Simulation {
        Simulation { net }
    }

    /// Runs to the end, or tells why the capture could not be written.
    ///
    /// `obs` sees every machine; `pcap` gets a pcapng of every link direction; `progress` is
    /// called once for each second of the run.
    pub fn run<O: Observer>(
        &self,
        obs: &mut O,
        pcap: Option<&mut dyn io::Write>,
        mut progress: impl FnMut(Time),
    ) -> io::Result<SimSummary> {
        let mut world = World::new(&self.net, obs);
        if let Some(out) = pcap {
            world.capture = Some(Capture::new(out, &self.net, &world.wires)?);
        }
        world.plan_scenario();
        let end = Time::ZERO + self.net.duration;
        let mut tick = Time::ZERO;
        while let Some((at, source)) = world.kernel.next()
            && at <= end
        {
            while tick <= at {
                progress(tick);
                tick = tick.saturating_add(Span::from_secs(1));
            }
            world.now = at;
            world.counts.events += 1;
            world.act(source);
        }
        world.now = end;
        progress(end);
        let summary = world.summary();
        match world.capture {
            Some(capture) => capture.finish().map(|()| summary),
            None => Ok(summary),
        }
    }
}

impl<'a, O: Observer> World<'a, O> {
    fn new(net: &'a Network, obs: &'a mut O) -> World<'a, O> {
        let mut kernel = Kernel::new(net.ties, net.seed);
        let mut actors = Vec::new();
        let agenda_event = kernel.add();
        actors.push(Actor::Agenda);
        let nodes = (0..net.nodes.len()).map(|node| {
            actors.extend([Actor::Switch(node), Actor::Cpu(node)]);
            NodeState::new(&mut kernel)
        });
        let nodes = nodes.collect();
        let wires = (0..2 * net.links.len()).map(|wire| {
            actors.extend([Actor::Data(wire), Actor::Signals(wire)]);
            Wire::new(net, wire / 2, wire % 2, &mut kernel)
        });
        let wires = wires.collect();
        let sources = (0..net.flows.len()).map(|flow| {
            actors.push(Actor::Source(flow));
            SourceState::new(&mut kernel)
        });
        let sources = sources.collect();
        let sinks = net.receivers.iter().enumerate().map(|(place, receiver)| {
            actors.extend([Actor::Sink(place), Actor::Stall(place)]);
            let node = &net.nodes[receiver.node];
            let neighbour = node.ports.first().map_or("", |port| &port.config.name);
            let link = format!("{neighbour}-{}", node.name);
            SinkState {
                machine: None,
                log: FlowLog::new(&receiver.name, &link, Time::ZERO),
                stalls: Stream::new(net.seed, &format!("{}/stalls", receiver.name)),
                event: kernel.add(),
                stall_event: kernel.add(),
            }
        });
        let sinks = sinks.collect();
        let down = LinkState {
            up: true,
            channel: false,
        };
        World {
            net,
            obs,
            capture: None,
            now: Time::ZERO,
            actors,
            nodes,
            wires,
            links: vec![down; net.links.len()],
            sources,
            sinks,
            agenda: BTreeMap::new(),
            planned: 0,
            agenda_event,
            kernel,
            counts: Counts::default(),
        }
    }

    fn act(&mut self, source: SourceId) {
        let now = self.now;
        match self.actors[source.0 as usize] {
            Actor::Agenda => self.follow_agenda(),
            Actor::Switch(node) => {
                if let Some(switch) = &mut self.nodes[node].switch {
                    switch.on_timeout(now, self.obs);
                    self.drain_node(node);
                }
            }
            Actor::Source(flow) => {
                if let Some(source) = &mut self.sources[flow].machine {
                    source.on_timeout(now, self.obs);
                    self.drain_node(self.net.flows[flow].node);
                }
            }
            Actor::Sink(place) => {
                if let Some(sink) = &mut self.sinks[place].machine {
                    sink.on_timeout(now, self.obs);
                    self.drain_sink(place);
                }
            }
            Actor::Cpu(node) => self.cpu_done(node),
            Actor::Stall(place) => self.stall(place),
            Actor::Data(wire) => {
                while let Some(pdu) = self.wires[wire].data.poll_transmit(now, self.obs) {
                    self.arrive(wire, pdu);
                }
                let wire = &self.wires[wire];
                self.kernel
                    .schedule(wire.data_event, wire.data.next_timeout());
            }
            Actor::Signals(wire) => {
                while let Some(signal) = self.wires[wire].signals.poll_transmit(now, self.obs) {
                    self.arrive_signal(wire, signal);
                }
                let wire = &self.wires[wire];
                self.kernel
                    .schedule(wire.signal_event, wire.signals.next_timeout());
            }
        }
    }

    /// A PDU at the end of a link.
    fn arrive(&mut self, wire: usize, pdu: LinkPdu) {
        let Wire {
            to, to_port, link, ..
        } = self.wires[wire];
        if !self.links[link].up || !self.nodes[to].alive {
            return;
        }
        self.counts.packet_hops += u64::from(ends_packet(&pdu));
        self.counts.cell_hops += u64::from(matches!(pdu, LinkPdu::Cell(_)));
        let pdu = if self.net.wire_check {
            match wire_check::pdu(self.net.carriage, &pdu) {
                Some(pdu) => pdu,
                None => {
                    self.counts.wire_errors += 1;
                    return;
                }
            }
        } else {
            pdu
        };
        let node = &mut self.nodes[to];
        if let Some(cpu) = &mut node.forwarding {
            let cost = self.net.nodes[to]
                .profile
                .switch_cell
                .times(u64::from(pdu.cells()));
            cpu.push(self.now, cost, (to_port, pdu));
        } else if let Some(switch) = &mut node.switch {
            switch.handle(self.now, SwitchInput::Pdu { port: to_port, pdu }, self.obs);
            return self.drain_node(to);
        } else if let Some(host) = &mut node.receiving {
            host.arrive(self.now, pdu);
        } else {
            return self.deliver(to, pdu);
        }
        self.kernel.schedule(node.cpu_event, node.cpu_done());
    }

    /// The CPU of a node is done with something.
    fn cpu_done(&mut self, place: usize) {
        let now = self.now;
        let node = &mut self.nodes[place];
        if let (Some(cpu), Some(switch)) = (&mut node.forwarding, &mut node.switch) {
            while let Some((port, pdu)) = cpu.pop_done(now) {
                // The first copy is made: hand it on. The other copies keep the CPU busy.
                let cell = self.net.nodes[place].profile.switch_cell;
                let copy = cell.times(u64::from(pdu.cells()));
                let before = switch.copies();
                switch.handle(now, SwitchInput::Pdu { port, pdu }, self.obs);
                let more = (switch.copies() - before).saturating_sub(1);
                cpu.busy_for(now, copy.times(more));
            }
            self.drain_node(place);
        } else if let (Some(cpu), Some(switch)) = (&mut node.sending, &mut node.switch) {
            let port = PortId::LOCAL;
            while let Some(pdu) = cpu.pop_done(now) {
                switch.handle(now, SwitchInput::Pdu { port, pdu }, self.obs);
            }
            self.drain_node(place);
        } else {
            while let Some(host) = &mut self.nodes[place].receiving
                && let Some(pdu) = host.poll(now)
            {
                self.deliver(place, pdu);
            }
        }
        let node = &self.nodes[place];
        self.kernel.schedule(node.cpu_event, node.cpu_done());
    }

    /// A PDU has reached the transport of a host; each sink takes what is its own.
    fn deliver(&mut self, node: usize, pdu: LinkPdu) {
        let sinks = &self.net.nodes[node].receivers;
        let Some((&last, others)) = sinks.split_last() else {
            return;
        };
        for &place in others {
            self.tell_sink(place, SinkInput::Pdu(pdu.clone()));
        }
        self.tell_sink(last, SinkInput::Pdu(pdu));
    }

    /// A signal at the end of a link.
    fn arrive_signal(&mut self, wire: usize, signal: Signal) {
        let Wire {
            to, to_port, link, ..
        } = self.wires[wire];
        if !self.links[link].channel || !self.nodes[to].alive {
            return;
        }
        if self.net.wire_check && wire_check::signal(&signal).is_none() {
            self.counts.wire_errors += 1;
            return;
        }
        if let Some(switch) = &mut self.nodes[to].switch {
            let input = SwitchInput::Signal {
                port: to_port,
                signal,
            };
            switch.handle(self.now, input, self.obs);
            self.drain_node(to);
        } else {
            for &place in &self.net.nodes[to].receivers {
                self.tell_sink(place, SinkInput::Signal(signal.clone()));
            }
        }
    }

    /// Gives a sink something, if it is there.
    pub fn tell_sink(&mut self, place: usize, input: SinkInput) {
        if let Some(sink) = &mut self.sinks[place].machine {
            sink.handle(self.now, input, self.obs);
            self.drain_sink(place);
        }
    }

    /// Moves everything that the machines of a node have to say, until they are silent.
    pub fn drain_node(&mut self, place: usize) {
        let now = self.now;
        let config = &self.net.nodes[place];
        let node = &mut self.nodes[place];
        let Some(switch) = &mut node.switch else {
            return;
        };
        loop {
            let mut moved = false;
            while let Some(transmit) = switch.poll_transmit(now, self.obs) {
                match transmit {
                    SwitchTransmit::Pdu {
                        port: PortId::LOCAL,
                        pdu,
                        ..
                    } => {
                        moved = true;
                        for &flow in &config.sources {
                            if is_for(&pdu, &self.net.flows[flow]) {
                                let input = SourceInput::Pdu(pdu.clone());
                                self.sources[flow].handle(now, input, self.obs);
                            }
                        }
                    }
                    SwitchTransmit::Signal {
                        port: PortId::LOCAL,
                        signal,
                    } => {
                        moved = true;
                        for &flow in &config.sources {
                            if concerns(&signal, &self.net.flows[flow]) {
                                let input = SourceInput::Signal(signal.clone());
                                self.sources[flow].handle(now, input, self.obs);
                            }
                        }
                    }
                    SwitchTransmit::Pdu {
                        port,
                        pdu,
                        start,
                        tx,
                    } => {
                        let wire = out_wire(self.net, place, port);
                        if let Some(capture) = &mut self.capture {
                            capture.write(wire, start, &pdu);
                        }
                        let ready = start.saturating_add(tx);
                        self.wires[wire].send(now, ready, pdu, &mut self.kernel, self.obs);
                    }
                    SwitchTransmit::Signal { port, signal } => {
                        let wire = out_wire(self.net, place, port);
                        self.wires[wire].signal(now, signal, &mut self.kernel, self.obs);
                    }
                }
            }
            for &flow in &config.sources {
                let source = &mut self.sources[flow];
                moved |= source.drain(now, &config.profile, &mut node.sending, switch, self.obs);
            }
            if !moved {
                break;
            }
        }
        // Decisions of a switch reach the user through the observer.
        while switch.poll_event().is_some() {}
        self.kernel
            .schedule(node.switch_event, switch.next_timeout());
        for &flow in &config.sources {
            let source = &self.sources[flow];
            let next = source.machine.as_ref().and_then(Machine::next_timeout);
            self.kernel.schedule(source.event, next);
        }
        if node.sending.is_some() {
            self.kernel.schedule(node.cpu_event, node.cpu_done());
        }
    }

    /// Moves everything that a sink has to say.
    pub fn drain_sink(&mut self, place: usize) {
        let now = self.now;
        let home = self.net.receivers[place].node;
        let state = &mut self.sinks[place];
        let Some(sink) = &mut state.machine else {
            return;
        };
        while let Some(transmit) = sink.poll_transmit(now, self.obs) {
            let wire = out_wire(self.net, home, PortId(0));
            match transmit {
                SinkTransmit::Signal(signal) => {
                    self.wires[wire].signal(now, signal, &mut self.kernel, self.obs);
                }
                SinkTransmit::Pdu(pdu) => {
                    let rate = self.net.nodes[home].ports[0].config.rate;
                    let tx = rate.map_or(Span::ZERO, |rate| rate.time_for(pdu.wire_len() as u64));
                    let start = self.nodes[home].line_free.max(now);
                    let ready = start.saturating_add(tx);
                    self.nodes[home].line_free = ready;
                    if let Some(capture) = &mut self.capture {
                        capture.write(wire, start, &pdu);
                    }
                    self.wires[wire].send(now, ready, pdu, &mut self.kernel, self.obs);
                }
            }
        }
        while let Some(event) = sink.poll_event() {
            state.log.on_event(now, &event);
        }
        self.kernel.schedule(state.event, sink.next_timeout());
    }

    /// The host of a receiver stalls on its account, and will again.
    fn stall(&mut self, place: usize) {
        let home = self.net.receivers[place].node;
        let profile = &self.net.nodes[home].profile;
        let stalls = &mut self.sinks[place].stalls;
        // Uniform in (0, W].
        let length = Span::from_ps(stalls.below(profile.stall_max.as_ps()) + 1);
        let node = &mut self.nodes[home];
        if let Some(host) = &mut node.receiving {
            host.stall(self.now, length);
            self.kernel.schedule(node.cpu_event, node.cpu_done());
        }
        self.plan_stall(place);
    }

    /// Draws when the host of a receiver stalls next on its account.
    pub fn plan_stall(&mut self, place: usize) {
        let home = self.net.receivers[place].node;
        let profile = &self.net.nodes[home].profile;
        if profile.stall_rate > 0.0 && profile.stall_max > Span::ZERO {
            let state = &mut self.sinks[place];
            let wait = Span::from_secs_f64(state.stalls.exponential(1.0 / profile.stall_rate));
            let at = self.now.saturating_add(wait);
            self.kernel.schedule(state.stall_event, Some(at));
        }
    }

    /// Starts the machine of a receiver. It opens a session of its own, which shows its host's
    /// neighbour a channel that has just come up, and lets it learn what is on offer.
    pub fn start_sink(&mut self, place: usize) {
        let receiver = &self.net.receivers[place];
        self.sinks[place].machine = Some(Sink::new(receiver.config.clone()));
        self.plan_stall(place);
        let link = self.net.nodes[receiver.node].ports[0].link;
        if !self.links[link].channel {
            return self.drain_sink(place);
        }
        self.tell_sink(place, SinkInput::LinkUp);
        let ends = self.net.links[link];
        let side = usize::from(ends.ends[0] == receiver.node);
        let (neighbour, port) = (ends.ends[side], ends.ports[side]);
        if let Some(switch) = &mut self.nodes[neighbour].switch {
            switch.handle(self.now, SwitchInput::PortUp { port }, self.obs);
            self.drain_node(neighbour);
        }
    }
}

/// The wire that leaves `node` by `port`.
fn out_wire(net: &Network, node: usize, port: PortId) -> usize {
    let link = net.nodes[node].ports[usize::from(port.0)].link;
    2 * link + usize::from(net.links[link].ends[1] == node)
}
