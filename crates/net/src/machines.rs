use std::collections::VecDeque;
use std::net::SocketAddr;
use std::task::{Context, Poll};

use bytes::Bytes;
use layercast_core::{Machine, Observer, PortId, Span, Time, earliest};
use layercast_protect::OpenError;
use layercast_switch::{Switch, SwitchConfig, SwitchInput, SwitchTransmit};
use layercast_transport::mets::{HostPacer, SourceEvent, SourceInput, SourceTransmit};
use layercast_wire::{FlowInfo, Secret, Signal, decode_datagram};
use tokio::sync::mpsc;

use crate::command::{FlowState, NodeCommand};
use crate::config::{LocalSource, NodeEvent, NodeSummary};
use crate::connection::{ChannelStats, Newcomer, PeerId};
use crate::error::NetError;
use crate::hello::Hello;
use crate::local::{Running, flow_of_pdu, flow_of_signal};
use crate::ports::Ports;
use crate::rates::Rates;
use crate::sources::SourceId;
use crate::timer::Lateness;
use crate::udp::{Inbound, Udp, UdpStats};

/// What the pacer of the sources may send at once: timers cost more than a short queue.
const PACER_GRAIN: Span = Span::from_us(250);

/// The machines of a node and what they are connected to: everything but sockets and clocks.
pub(crate) struct Machines {
    switch: Switch,
    sources: Vec<Running>,
    /// Of the sources that share one.
    pacer: HostPacer,
    ports: Ports,
    rates: Rates,
    /// What the switch has for the sources.
    local: VecDeque<SwitchTransmit>,
    events: mpsc::Sender<NodeEvent>,
    /// Datagrams that did not decode.
    malformed: u64,
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
        let Some(carriage) = machines.ports.port(from).map(|port| port.carriage) else {
            return;
        };
        let decoded = decode_datagram(carriage, datagram, congestion, &mut |pdu| {
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
        ports: Ports,
        rates: Rates,
        events: mpsc::Sender<NodeEvent>,
        now: Time,
        obs: &mut O,
    ) -> Result<Machines, NetError> {
        let mut machines = Machines {
            switch: Switch::new(switch),
            sources: sources
                .into_iter()
                .map(Running::new)
                .collect::<Result<_, _>>()?,
            pacer: HostPacer::new(PACER_GRAIN),
            ports,
            rates,
            local: VecDeque::new(),
            events,
            malformed: 0,
        };
        for running in &mut machines.sources {
            running.feed(now);
        }
        machines.drain_all(now, obs);
        Ok(machines)
    }

    /// Runs the timers of all machines.
    pub fn on_timeout<O: Observer>(&mut self, now: Time, obs: &mut O) {
        for running in &mut self.sources {
            running.on_timeout(now);
            running.source.on_timeout(now, obs);
        }
        while let Some((port, rate)) = self.rates.due(now, &mut self.ports) {
            let input = SwitchInput::PortRate { port, rate };
            self.switch.handle(now, input, obs);
        }
        self.switch.on_timeout(now, obs);
        self.drain_all(now, obs);
        self.ports.change_keys(now);
        for port in self.ports.iter_mut() {
            port.egress.poll(now, obs);
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
        earliest(earliest(sources, switch), pace)
    }

    /// Moves what the sources have to the switch, and what the switch has to where it belongs,
    /// until nobody has anything.
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

    /// Takes what the switch has after one input, so that nothing stands in a queue it can leave.
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
                        let ready = start.saturating_add(tx);
                        port.egress.send(now, ready, pdu, obs);
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
            let input = match transmit {
                SourceTransmit::Pdu(pdu) => SwitchInput::Pdu { port, pdu },
                SourceTransmit::Signal(signal) => SwitchInput::Signal { port, signal },
            };
            self.switch.handle(now, input, obs);
            self.drain(now, obs);
            moved = true;
        }
        while let Some(event) = self.sources[index].source.poll_event() {
            let running = &mut self.sources[index];
            match &event {
                SourceEvent::NeedFrames(_) => {
                    running.feed(now);
                    moved = true;
                    continue;
                }
                SourceEvent::MemberJoined(_) if running.waits_for > 0 => {
                    running.waits_for -= 1;
                    running.feed(now);
                    moved = true;
                }
                SourceEvent::Finished { undelivered } => running.finish(*undelivered),
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
        running.source.handle(now, input, obs);
    }

    /// Hands everything that is due to the kernel; `false` if the kernel takes no more now.
    pub fn flush(&mut self, udp: &mut Udp) -> bool {
        let mut all = true;
        for port in self.ports.iter_mut() {
            all &= port.egress.flush(udp);
        }
        all
    }

    /// Puts a neighbour that said hello on its port. A caller gets our hello in return, with the
    /// carriage of the link; a neighbour we called has ours, and told us the carriage in its own.
    pub fn attach<O: Observer>(
        &mut self,
        now: Time,
        newcomer: Newcomer,
        greeting: &Hello,
        obs: &mut O,
    ) {
        let Newcomer {
            peer,
            addr,
            hello,
            sender,
            upstream,
            proven,
        } = newcomer;
        let proven = proven.as_ref();
        let upstream = upstream.is_some();
        if let Some(old) = self.ports.replaced_by(&hello.node, proven) {
            self.detach(now, old, "it has called again".to_owned(), obs);
        }
        let attached = match self.ports.attach(peer, &hello, addr.ip(), sender, proven) {
            Ok(attached) => attached,
            Err((sender, reason)) => {
                let message = format!("{}: {reason}", greeting.node);
                sender.send(Signal::Error { message });
                self.tell(NodeEvent::Failed { addr, reason });
                return;
            }
        };
        if let Some(removed) = attached.removed {
            self.switch.remove_port(removed);
        }
        let port = attached.port;
        if let Some(config) = attached.added {
            self.switch.add_port(port, config);
        }
        if upstream && attached.carriage != hello.carriage {
            let (there, here) = (hello.carriage, attached.carriage);
            let reason = format!("{} sends {there:?} where we expect {here:?}", hello.node);
            self.ports.detach(peer);
            self.tell(NodeEvent::Failed { addr, reason });
            return;
        }
        let (key, next) = attached.keys;
        let told = match upstream {
            true => proven.map(|proven| proven.key.clone()),
            false => {
                let greeting = Hello {
                    carriage: attached.carriage,
                    link_key: key.clone(),
                    ..greeting.clone()
                };
                self.ports.signal_peer(peer, greeting.signal());
                key.clone()
            }
        };
        // A group has one key for all, and perhaps another one soon.
        for key in [key.filter(|key| Some(key) != told.as_ref()), next] {
            if let Some(key) = key.map(|key| Secret(key.to_text())) {
                self.ports.signal_peer(peer, Signal::LinkKey { key });
            }
        }
        self.input(now, SwitchInput::PortUp { port }, obs);
        // Whoever takes no datagrams only asks a question.
        if hello.udp_port != 0 {
            self.tell(NodeEvent::PeerUp {
                name: hello.node,
                addr: SocketAddr::new(addr.ip(), hello.udp_port),
                upstream,
            });
        }
    }

    /// Takes a neighbour whose connection is lost off its port.
    pub fn detach<O: Observer>(&mut self, now: Time, peer: PeerId, reason: String, obs: &mut O) {
        let Some(gone) = self.ports.detach(peer) else {
            return;
        };
        let port = gone.port;
        if gone.down {
            self.input(now, SwitchInput::PortDown { port }, obs);
        }
        if gone.removed {
            self.switch.remove_port(port);
        }
        if let Some(forgotten) = gone.forgotten {
            self.switch.remove_port(forgotten);
        }
        if !gone.control_only {
            let name = gone.name;
            self.tell(NodeEvent::PeerDown { name, reason });
        }
    }

    /// Takes a signal of a neighbour.
    pub fn on_signal<O: Observer>(&mut self, now: Time, peer: PeerId, signal: Signal, obs: &mut O) {
        if let Signal::LinkKey { key } = &signal {
            self.ports.key_changed(peer, key);
        } else if let Some(port) = self.ports.heard(peer, &signal) {
            self.input(now, SwitchInput::Signal { port, signal }, obs);
        }
    }

    fn input<O: Observer>(&mut self, now: Time, input: SwitchInput, obs: &mut O) {
        self.switch.handle(now, input, obs);
        self.drain_all(now, obs);
    }

    /// Does what the user asks.
    pub fn on_command<O: Observer>(&mut self, now: Time, command: NodeCommand, obs: &mut O) {
        match command {
            NodeCommand::Open { source, reply } => drop(reply.send(self.open(now, *source))),
            NodeCommand::Close { flow, grace, reply } => {
                if let Some(running) = self.running(&flow) {
                    running.close(now, grace, reply);
                }
            }
            NodeCommand::Register { flow } => {
                if let Some(running) = self.running(&flow) {
                    running.source.register();
                    running.feed(now);
                }
            }
            NodeCommand::Request {
                flow,
                option,
                reply,
            } => {
                if let Some(running) = self.running(&flow) {
                    let id = running.requests.ask(reply);
                    running.source.request(now, id, option);
                }
            }
            NodeCommand::Control {
                flow,
                member,
                message,
                reply,
            } => {
                if let Some(running) = self.running(&flow) {
                    let sent = running.source.send_control(now, &member, message);
                    let _ = reply.send(sent);
                }
            }
            NodeCommand::Info { flow, reply } => {
                if let Some(running) = self.running(&flow) {
                    let source = &running.source;
                    let _ = reply.send(FlowState {
                        info: source.group_info(),
                        stats: source.stats(),
                        members: source.member_stats(now),
                    });
                }
            }
        }
        self.drain_all(now, obs);
    }

    fn open(&mut self, now: Time, source: LocalSource) -> Result<FlowInfo, NetError> {
        let mut running = Running::new(source)?;
        let taken = |other: &Running| other.name == running.name || other.flow == running.flow;
        if self.sources.iter().any(|it| taken(it) && !it.finished) {
            return Err(NetError::FlowExists { flow: running.name });
        }
        self.sources.retain(|other| !taken(other));
        running.feed(now);
        let info = running.source.flow().clone();
        self.sources.push(running);
        Ok(info)
    }

    /// The flow of that name that has not ended.
    fn running(&mut self, flow: &str) -> Option<&mut Running> {
        let mut sources = self.sources.iter_mut();
        sources.find(|running| running.name == flow && !running.finished)
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
    pub fn all_sent(&self) -> bool {
        let empty = |port| self.switch.queue(port).is_none_or(|cells| cells == 0);
        let mut ports = self.ports.iter();
        !self.sources.is_empty()
            && self.finished()
            && ports.all(|(id, port)| empty(id) && port.egress.next_timeout().is_none())
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
        NodeSummary {
            node,
            switch: self.switch.stats(),
            sources: sources
                .map(|running| (running.name.clone(), running.source.stats()))
                .collect(),
            links: links
                .filter_map(|(_, port)| Some((port.name.clone(), port.egress.link_stats()?)))
                .collect(),
            udp,
            malformed: self.malformed,
            channels,
            timers,
        }
    }
}
