mod commands;
mod neighbours;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::task::{Context, Poll};

use bytes::Bytes;
use layercast_core::{Machine, Observer, PortId, Span, Time, earliest};
use layercast_protect::{OpenError, WallClock};
use layercast_switch::{Switch, SwitchConfig, SwitchInput, SwitchTransmit};
use layercast_transport::mets::{HostPacer, SourceEvent, SourceInput, SourceTransmit};
use layercast_wire::decode_datagram;
use tokio::sync::mpsc;

use crate::config::{LocalSource, NodeEvent, NodeSummary};
use crate::connection::ChannelStats;
use crate::error::NetError;
use crate::host::{EmulatedHost, HostEmulation};
use crate::local::{Running, flow_of_pdu, flow_of_signal};
use crate::ports::Ports;
use crate::rates::Rates;
use crate::sources::SourceId;
use crate::timer::Lateness;
use crate::udp::{Inbound, Udp, UdpStats};

/// What the pacer of the sources may send in one burst: timers cost more than a short queue.
const PACER_GRAIN: Span = Span::from_us(250);

/// The machines of a node and what they are connected to: everything but sockets and clocks.
pub(crate) struct Machines {
    switch: Switch,
    sources: Vec<Running>,
    /// Of the sources that share one.
    pacer: HostPacer,
    /// The stage between sources and switch, and between ports and switch.
    host: Option<EmulatedHost>,
    ports: Ports,
    rates: Rates,
    /// What the switch has for the sources.
    local: VecDeque<SwitchTransmit>,
    events: mpsc::Sender<NodeEvent>,
    /// Datagrams that did not decode.
    malformed: u64,
    /// Where the wall clock is read.
    wall_clock: fn() -> WallClock,
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

    fn open<'a>(&mut self, from: SourceId, datagram: &'a mut [u8]) -> Result<&'a [u8], OpenError> {
        self.machines.ports.sources.open(from, datagram)
    }

    fn deliver(&mut self, from: SourceId, datagram: Bytes, congestion: bool) {
        let machines = &mut *self.machines;
        let from = from.port;
        let Some(port) = machines.ports.port_mut(from) else {
            return;
        };
        let carriage = port.carriage;
        let datagram = match port.egress.receive(self.now, datagram, self.obs) {
            Ok(Some(datagram)) => datagram,
            Ok(None) => return,
            Err(_) => {
                machines.malformed += 1;
                return;
            }
        };
        let decoded = decode_datagram(carriage, datagram, congestion, &mut |pdu| {
            let pdu = match &mut machines.host {
                Some(host) => host.arrive(self.now, from, pdu),
                None => Some(pdu),
            };
            let Some(pdu) = pdu else { return };
            let input = SwitchInput::Pdu { port: from, pdu };
            machines.switch.handle(self.now, input, self.obs);
            machines.drain(self.now, self.obs);
            if !machines.local.is_empty() {
                machines.drain_all(self.now, self.obs);
            }
        });
        machines.malformed += u64::from(decoded.is_err());
    }
}

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
            switch: Switch::new(switch),
            sources: sources
                .into_iter()
                .map(Running::new)
                .collect::<Result<_, _>>()?,
            pacer: HostPacer::new(PACER_GRAIN),
            host: EmulatedHost::new(host),
            ports,
            rates,
            local: VecDeque::new(),
            events,
            malformed: 0,
            wall_clock,
        };
        machines.set_wall_clock();
        for running in &mut machines.sources {
            running.feed(now);
        }
        machines.drain_all(now, obs);
        Ok(machines)
    }

    /// Runs the timers of all machines.
    pub fn on_timeout<O: Observer>(&mut self, now: Time, obs: &mut O) {
        self.set_wall_clock();
        for running in &mut self.sources {
            running.on_timeout(now);
            running.source.on_timeout(now, obs);
        }
        while let Some((port, rate)) = self.rates.due(now, &mut self.ports) {
            if let Some(port) = self.ports.port_mut(port) {
                port.egress.set_rate(now, Some(rate), obs);
            }
            let input = SwitchInput::PortRate { port, rate };
            self.switch.handle(now, input, obs);
        }
        self.switch.on_timeout(now, obs);
        self.run_host(now, obs);
        self.drain_all(now, obs);
        self.ports.change_keys(now);
        self.ports.share_budgets(now, obs);
        for port in self.ports.iter_mut() {
            port.egress.poll(now, obs);
        }
    }

    /// Tells the machines what the wall clock shows now.
    fn set_wall_clock(&mut self) {
        let clock = (self.wall_clock)();
        self.switch.set_wall_clock(clock);
        for running in &mut self.sources {
            running.source.set_wall_clock(clock);
        }
    }

    /// When a machine wants its timers run.
    pub fn next_timeout(&self) -> Option<Time> {
        let sources = self
            .sources
            .iter()
            .map(|running| earliest(running.source.next_timeout(), running.next_timeout()));
        let sources = sources.fold(None, earliest);
        let switch = earliest(self.switch.next_timeout(), self.ports.next_timeout());
        let pace = earliest(self.pacer.next_timeout(), self.rates.next_timeout());
        let host = self.host.as_ref().and_then(EmulatedHost::next_timeout);
        earliest(earliest(sources, switch), earliest(pace, host))
    }

    /// Moves what the emulated host has let through.
    fn run_host<O: Observer>(&mut self, now: Time, obs: &mut O) {
        if let Some(host) = &mut self.host {
            host.on_timeout(now);
        }
        while let Some((port, pdu)) = self.host.as_mut().and_then(|host| {
            let sent = host.poll_sent(now).map(|pdu| (PortId::LOCAL, pdu));
            sent.or_else(|| host.poll_received(now))
        }) {
            self.switch.handle(now, SwitchInput::Pdu { port, pdu }, obs);
            self.drain(now, obs);
        }
    }

    /// Moves the output of the sources to the switch, and the output of the switch to its destination, until
    /// there is none.
    fn drain_all<O: Observer>(&mut self, now: Time, obs: &mut O) {
        self.drain(now, obs);
        loop {
            let mut moved = false;
            while let Some(transmit) = self.local.pop_front() {
                self.give_source(now, transmit, obs);
                moved = true;
            }
            for index in 0..self.sources.len() {
                moved |= self.drain_source(index, now, obs);
            }
            if !moved {
                let sources = &mut self.sources;
                moved = self.pacer.run(now, obs, |turn| {
                    for running in sources.iter_mut() {
                        turn(&mut running.source);
                    }
                });
            }
            if !moved {
                return;
            }
        }
    }

    /// Takes the output of the switch after one input, so that no unit stays in a queue it can leave.
    fn drain<O: Observer>(&mut self, now: Time, obs: &mut O) {
        while let Some(transmit) = self.switch.poll_transmit(now, obs) {
            match transmit {
                SwitchTransmit::Pdu { port, .. } | SwitchTransmit::Signal { port, .. }
                    if port == PortId::LOCAL =>
                {
                    self.local.push_back(transmit);
                }
                SwitchTransmit::Pdu {
                    port,
                    pdu,
                    start,
                    tx,
                } => {
                    if let Some(port) = self.ports.port_mut(port) {
                        port.egress.send(now, (start, tx), pdu, obs);
                    }
                }
                SwitchTransmit::Signal { port, signal } => self.ports.signal(port, &signal),
            }
        }
        while let Some(event) = self.switch.poll_event() {
            let name = event.port().and_then(|port| self.ports.name(port));
            let neighbour = name.map(str::to_owned);
            self.tell(NodeEvent::Switch { event, neighbour });
        }
    }

    fn drain_source<O: Observer>(&mut self, index: usize, now: Time, obs: &mut O) -> bool {
        let mut moved = false;
        while let Some(transmit) = self.sources[index].source.poll_transmit(now, obs) {
            let port = PortId::LOCAL;
            moved = true;
            let input = match (transmit, &mut self.host) {
                (SourceTransmit::Pdu(pdu), Some(host)) => match host.send(now, pdu) {
                    Some(pdu) => SwitchInput::Pdu { port, pdu },
                    None => continue,
                },
                (SourceTransmit::Pdu(pdu), None) => SwitchInput::Pdu { port, pdu },
                (SourceTransmit::Signal(signal), _) => SwitchInput::Signal { port, signal },
            };
            self.switch.handle(now, input, obs);
            self.drain(now, obs);
        }
        while let Some(event) = self.sources[index].source.poll_event() {
            let running = &mut self.sources[index];
            match &event {
                SourceEvent::NeedFrames(_) => {
                    running.feed(now);
                    moved = true;
                    continue;
                }
                SourceEvent::MemberJoined(_) => running.joined(now),
                SourceEvent::Finished { undelivered } => running.finish(now, *undelivered),
                SourceEvent::Answer { id, status } => {
                    running.requests.answer(*id, status.clone());
                    continue;
                }
                _ => {}
            }
            let flow = running.name.clone();
            self.tell(NodeEvent::Source { flow, event });
        }
        moved
    }

    /// Hands what the switch has for the inner side to the source it is for.
    fn give_source<O: Observer>(&mut self, now: Time, transmit: SwitchTransmit, obs: &mut O) {
        let flow = match &transmit {
            SwitchTransmit::Pdu { pdu, .. } => flow_of_pdu(pdu),
            SwitchTransmit::Signal { signal, .. } => flow_of_signal(signal),
        };
        let Some(running) = self.sources.iter_mut().find(|it| Some(it.flow) == flow) else {
            return;
        };
        let input = match transmit {
            SwitchTransmit::Pdu { pdu, .. } => SourceInput::Pdu(pdu),
            SwitchTransmit::Signal { signal, .. } => SourceInput::Signal(signal),
        };
        let res = matches!(input, SourceInput::Pdu(_));
        running.source.handle(now, input, obs);
        if res && running.is_held() && !self.switch.awaits_demand(running.flow) {
            running.release(now);
        }
    }

    /// Hands everything that is due to the kernel; `false` if the kernel takes no more now.
    pub fn flush(&mut self, udp: &mut Udp) -> bool {
        let mut all = true;
        for port in self.ports.iter_mut() {
            all &= port.egress.flush(udp);
        }
        all
    }

    fn input<O: Observer>(&mut self, now: Time, input: SwitchInput, obs: &mut O) {
        self.switch.handle(now, input, obs);
        self.drain_all(now, obs);
    }

    /// Waits for a frame of a live producer that its source has room for.
    pub fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let mut sources = self.sources.iter_mut();
        match sources.any(|running| running.poll_frame(context).is_ready()) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }

    /// Ends all flows that start here: what is queued is still sent.
    pub fn end_sources<O: Observer>(&mut self, now: Time, obs: &mut O) {
        for running in &mut self.sources {
            running.end(now);
        }
        self.drain_all(now, obs);
    }

    /// Whether no source has anything left to send.
    pub fn finished(&self) -> bool {
        self.sources.iter().all(|running| running.finished)
    }

    /// Whether flows started here, and all they had has left.
    pub fn all_sent(&self, now: Time) -> bool {
        let empty = |port| self.switch.queue(port).is_none_or(|cells| cells == 0);
        let mut ports = self.ports.iter();
        !self.sources.is_empty()
            && self.finished()
            && ports.all(|(id, port)| empty(id) && port.egress.is_idle(now))
    }

    /// Tells the user, if the user listens: events are for eyes, not for decisions.
    pub fn tell(&self, event: NodeEvent) {
        let _ = self.events.try_send(event);
    }

    /// Closes all connections in order.
    pub fn hang_up(&mut self) {
        self.ports.hang_up();
    }

    /// What the node did, as far as the machines know.
    pub fn summary(
        &self,
        node: String,
        udp: UdpStats,
        channels: ChannelStats,
        timers: Lateness,
    ) -> NodeSummary {
        let sources = self.sources.iter();
        let links = self.ports.iter();
        let repairs = self.ports.iter();
        NodeSummary {
            node,
            switch: self.switch.stats(),
            sources: sources
                .map(|running| (running.name.clone(), running.source.stats()))
                .collect(),
            links: links
                .filter_map(|(_, port)| Some((port.name.clone(), port.egress.link_stats()?)))
                .collect(),
            repairs: repairs
                .filter_map(|(_, port)| Some((port.name.clone(), port.egress.repair_stats()?)))
                .collect(),
            udp,
            malformed: self.malformed,
            channels,
            timers,
            host: self.host.as_ref().map(EmulatedHost::stats),
        }
    }
}
