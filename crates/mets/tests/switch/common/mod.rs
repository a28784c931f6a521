//! A small network of switches wired directly, with a source and receivers that do the least that
//! the protocol asks of them.
#![allow(dead_code, reason = "every test uses a part of it")]

pub mod bench;
pub mod ends;

use std::collections::BTreeMap;

use layercast_core::{
    CellRate, FlowId, Level, Machine, NodeId, Off, PortId, Rate, Serial, Span, Time,
};
use layercast_link::QueueConfig;
use layercast_mets::switch::{
    PortConfig, Switch, SwitchConfig, SwitchEvent, SwitchInput, SwitchTransmit,
};
use layercast_protect::Signer;
use layercast_wire::{Carriage, FlowEnd, FlowInfo, Identity, LinkPdu, Signal};

use ends::{Receiver, Source};

pub const DELAY: Span = Span::from_us(1);
/// Where the count of a flow that is closed ends.
pub const END: FlowEnd = FlowEnd {
    seq: Serial(99),
    e1_count: 24,
    e2_count: 200,
};
const SIGNAL_DELAY: Span = Span::from_us(100);

/// The answer to a join, without terms.
pub fn join_ack(flow: FlowId, vci: u16, level: Level) -> Signal {
    Signal::JoinAck {
        flow,
        vci,
        level,
        agreed: None,
    }
}

/// Signs a flow as its source does.
pub fn seal(info: &mut FlowInfo, seed: u8, tokens: bool) {
    let signer = Signer::from_seed(&[seed; 32]);
    let identity = |signature: Vec<u8>| Identity {
        key: signer.public().0.to_vec().into(),
        signature: signature.into(),
        tokens,
    };
    info.identity = Some(identity(Vec::new()));
    let signature = signer.sign("layercast flow 1", &info.signed_part());
    info.identity = Some(identity(signature.to_vec()));
}

pub fn ms(ms: u64) -> Time {
    Time::ZERO + Span::from_ms(ms)
}

/// The node at the other end of a link.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Peer {
    Node(usize, PortId),
    Receiver(usize),
}

#[derive(Debug)]
enum Arrival {
    Switch(usize, SwitchInput),
    ReceiverPdu(usize, LinkPdu),
    ReceiverSignal(usize, Signal),
    SourceTick(usize),
    ReceiverEra(usize),
    Wake(usize),
}

pub struct Node {
    pub switch: Option<Switch>,
    config: SwitchConfig,
    ports: Vec<(PortConfig, Peer)>,
    /// Sources on the local port.
    sources: Vec<usize>,
    wake: Option<Time>,
    pub events: Vec<(Time, SwitchEvent)>,
}

#[derive(Default)]
pub struct Net {
    pub now: Time,
    serial: u64,
    calendar: BTreeMap<(Time, u64), Arrival>,
    pub nodes: Vec<Node>,
    pub sources: Vec<(usize, Source)>,
    pub receivers: Vec<Receiver>,
    /// Whether the next PDU on a link is lost.
    pub loses: Option<Box<dyn FnMut() -> bool>>,
    /// PDUs lost behind a port of a node.
    pub lost: BTreeMap<(usize, PortId), u64>,
}

pub fn link(carriage: Carriage, capacity: u32) -> PortConfig {
    PortConfig {
        rate: Some(Rate::from_bps(100_000_000)),
        carriage,
        queue: QueueConfig::of_limit(2_048),
        adapt_capacity: Some(CellRate(capacity)),
        ..PortConfig::default()
    }
}

impl Net {
    pub fn node(&mut self, name: &str) -> usize {
        let index = self.nodes.len();
        let config = SwitchConfig {
            name: name.into(),
            id: NodeId(100 + index as u32),
            seed: 7,
            ..SwitchConfig::default()
        };
        self.nodes.push(Node {
            switch: Some(Switch::new(config.clone())),
            config,
            ports: Vec::new(),
            sources: Vec::new(),
            wake: None,
            events: Vec::new(),
        });
        index
    }

    /// Links two nodes; the same parameters both ways. Gives the port on `a` and the one on `b`.
    pub fn wire(&mut self, a: usize, b: usize, config: PortConfig) -> (PortId, PortId) {
        let port = |net: &Net, node: usize| PortId(net.nodes[node].ports.len() as u16);
        let (pa, pb) = (port(self, a), port(self, b));
        self.attach(a, pa, config.clone(), Peer::Node(b, pb));
        self.attach(b, pb, config, Peer::Node(a, pa));
        self.up(a, pa);
        self.up(b, pb);
        (pa, pb)
    }

    fn attach(&mut self, node: usize, port: PortId, mut config: PortConfig, peer: Peer) {
        let node = &mut self.nodes[node];
        config.name = format!("{}", port.0);
        node.switch.as_mut().unwrap().add_port(port, config.clone());
        node.ports.push((config, peer));
    }

    pub fn receiver(&mut self, node: usize, mut receiver: Receiver, config: PortConfig) -> PortId {
        let index = self.receivers.len();
        let port = PortId(self.nodes[node].ports.len() as u16);
        receiver.node = node;
        receiver.port = port;
        self.receivers.push(receiver);
        self.attach(node, port, config, Peer::Receiver(index));
        let era = self.now + Span::from_ms(300 + 10 * index as u64);
        self.at(era, Arrival::ReceiverEra(index));
        self.up(node, port);
        port
    }

    pub fn source(&mut self, node: usize, source: Source) {
        let index = self.sources.len();
        let signal = Signal::Advertise {
            flow: Box::new(source.info.clone()),
        };
        self.nodes[node].sources.push(index);
        self.sources.push((node, source));
        let port = PortId::LOCAL;
        self.at(
            self.now,
            Arrival::Switch(node, SwitchInput::Signal { port, signal }),
        );
        self.at(self.now, Arrival::SourceTick(index));
    }

    /// The source ends its flow.
    pub fn close(&mut self, source: usize) {
        let (node, source) = &mut self.sources[source];
        source.closed = true;
        let flow = source.info.id;
        let port = PortId::LOCAL;
        let close = Signal::Close {
            flow,
            undelivered: 0,
            last: Some(END),
        };
        let withdraw = Signal::Withdraw {
            flow,
            reason: "over".into(),
        };
        let node = *node;
        for signal in [close, withdraw] {
            self.at(
                self.now,
                Arrival::Switch(node, SwitchInput::Signal { port, signal }),
            );
        }
    }

    fn up(&mut self, node: usize, port: PortId) {
        let at = self.now;
        self.at(at, Arrival::Switch(node, SwitchInput::PortUp { port }));
    }

    /// Kills a node: its state is gone, its neighbours see the channel break, and what was on its way is lost with the channel.
    pub fn kill(&mut self, node: usize) {
        self.nodes[node].switch = None;
        self.calendar.retain(|_, arrival| {
            !matches!(arrival, Arrival::Switch(to, SwitchInput::Signal { .. }) if *to == node)
        });
        for (_, peer) in self.nodes[node].ports.clone() {
            match peer {
                Peer::Node(other, port) => {
                    self.calendar.retain(|_, arrival| {
                        !matches!(arrival, Arrival::Switch(to, SwitchInput::Signal { port: at, .. }) if (*to, *at) == (other, port))
                    });
                    let input = SwitchInput::PortDown { port };
                    self.at(self.now, Arrival::Switch(other, input));
                }
                Peer::Receiver(index) => self.receivers[index].joined = false,
            }
        }
    }

    /// Starts a killed node again, with nothing but its configuration.
    pub fn restart(&mut self, node: usize) {
        let mut switch = Switch::new(self.nodes[node].config.clone());
        let ports = self.nodes[node].ports.clone();
        for (index, (config, _)) in ports.iter().enumerate() {
            switch.add_port(PortId(index as u16), config.clone());
        }
        self.nodes[node].switch = Some(switch);
        self.nodes[node].wake = None;
        for (index, (_, peer)) in ports.into_iter().enumerate() {
            if let Peer::Node(other, port) = peer {
                self.up(other, port);
            }
            self.up(node, PortId(index as u16));
        }
    }

    /// A receiver dies without a word; the switch may see its channel break.
    pub fn silence(&mut self, receiver: usize, channel_breaks: bool) {
        let dead = &mut self.receivers[receiver];
        dead.silent = true;
        let (node, port) = (dead.node, dead.port);
        if channel_breaks {
            let input = SwitchInput::PortDown { port };
            self.at(self.now, Arrival::Switch(node, input));
        }
    }

    /// A receiver leaves properly.
    pub fn leave(&mut self, receiver: usize) {
        let leaving = &mut self.receivers[receiver];
        leaving.silent = true;
        let signal = leaving.leave();
        let (node, port) = (leaving.node, leaving.port);
        self.at(
            self.now,
            Arrival::Switch(node, SwitchInput::Signal { port, signal }),
        );
    }

    /// Lets any input reach a node, as a hostile neighbour would.
    pub fn inject(&mut self, node: usize, input: SwitchInput) {
        self.at(self.now, Arrival::Switch(node, input));
    }

    fn at(&mut self, time: Time, arrival: Arrival) {
        self.serial += 1;
        self.calendar.insert((time, self.serial), arrival);
    }

    pub fn run(&mut self, until: Time) {
        while let Some((&(time, serial), _)) = self.calendar.first_key_value() {
            if time > until {
                break;
            }
            self.now = time;
            let arrival = self.calendar.remove(&(time, serial)).unwrap();
            self.deliver(arrival);
        }
        self.now = until;
    }

    fn deliver(&mut self, arrival: Arrival) {
        let now = self.now;
        match arrival {
            Arrival::Switch(node, input) => {
                if let Some(switch) = &mut self.nodes[node].switch {
                    switch.handle(now, input, &mut Off);
                    self.drain(node);
                }
            }
            Arrival::Wake(node) => {
                let entry = &mut self.nodes[node];
                if entry.wake == Some(now)
                    && let Some(switch) = &mut entry.switch
                {
                    entry.wake = None;
                    switch.on_timeout(now, &mut Off);
                    self.drain(node);
                }
            }
            Arrival::SourceTick(index) => {
                let node = self.sources[index].0;
                for pdu in self.sources[index].1.emit(now) {
                    let port = PortId::LOCAL;
                    let at = pdu.0;
                    let input = SwitchInput::Pdu { port, pdu: pdu.1 };
                    self.at(at, Arrival::Switch(node, input));
                }
                if let Some(next) = self.sources[index].1.next_frame() {
                    self.at(next, Arrival::SourceTick(index));
                }
            }
            Arrival::ReceiverEra(index) => {
                let receiver = &mut self.receivers[index];
                let (node, port) = (receiver.node, receiver.port);
                if let Some(pdu) = receiver.era() {
                    self.at(
                        now + DELAY,
                        Arrival::Switch(node, SwitchInput::Pdu { port, pdu }),
                    );
                }
                self.at(now + Span::from_secs(1), Arrival::ReceiverEra(index));
            }
            Arrival::ReceiverPdu(index, pdu) => self.receivers[index].on_pdu(now, pdu),
            Arrival::ReceiverSignal(index, signal) => {
                let receiver = &mut self.receivers[index];
                let (node, port) = (receiver.node, receiver.port);
                if let Some(signal) = receiver.on_signal(now, signal) {
                    let input = SwitchInput::Signal { port, signal };
                    self.at(now + SIGNAL_DELAY, Arrival::Switch(node, input));
                }
            }
        }
    }

    fn drain(&mut self, node: usize) {
        let now = self.now;
        while let Some(out) = self.nodes[node]
            .switch
            .as_mut()
            .unwrap()
            .poll_transmit(now, &mut Off)
        {
            match out {
                SwitchTransmit::Pdu {
                    port,
                    pdu,
                    at: (start, tx),
                } => {
                    assert!(start <= now);
                    let at = start + tx + DELAY;
                    self.send(node, port, at.max(now), Err(pdu));
                }
                SwitchTransmit::Signal { port, signal } => {
                    let at = if port == PortId::LOCAL {
                        now
                    } else {
                        now + SIGNAL_DELAY
                    };
                    self.send(node, port, at, Ok(signal));
                }
            }
        }
        let entry = &mut self.nodes[node];
        let switch = entry.switch.as_mut().unwrap();
        entry
            .events
            .extend(std::iter::from_fn(|| switch.poll_event()).map(|event| (now, event)));
        let next = switch.next_timeout().map(|at| at.max(now));
        if let Some(at) = next.filter(|&at| entry.wake.is_none_or(|wake| at < wake)) {
            entry.wake = Some(at);
            self.at(at, Arrival::Wake(node));
        }
    }

    fn send(&mut self, node: usize, port: PortId, at: Time, what: Result<Signal, LinkPdu>) {
        if port == PortId::LOCAL {
            return self.deliver_local(node, what);
        }
        if what.is_err() && self.loses.as_mut().is_some_and(|loses| loses()) {
            *self.lost.entry((node, port)).or_default() += 1;
            return;
        }
        let (_, peer) = self.nodes[node].ports[usize::from(port.0)];
        let arrival = match (peer, what) {
            (Peer::Node(to, port), Ok(signal)) => {
                Arrival::Switch(to, SwitchInput::Signal { port, signal })
            }
            (Peer::Node(to, port), Err(pdu)) => Arrival::Switch(to, SwitchInput::Pdu { port, pdu }),
            (Peer::Receiver(index), Ok(signal)) => Arrival::ReceiverSignal(index, signal),
            (Peer::Receiver(index), Err(pdu)) => Arrival::ReceiverPdu(index, pdu),
        };
        self.at(at, arrival);
    }

    fn deliver_local(&mut self, node: usize, what: Result<Signal, LinkPdu>) {
        let now = self.now;
        for index in self.nodes[node].sources.clone() {
            let source = &mut self.sources[index].1;
            let port = PortId::LOCAL;
            let answer = match &what {
                Ok(signal) => source
                    .on_signal(signal)
                    .map(|signal| SwitchInput::Signal { port, signal }),
                Err(pdu) => source
                    .on_pdu(now, pdu)
                    .map(|pdu| SwitchInput::Pdu { port, pdu }),
            };
            if let Some(input) = answer {
                self.at(now, Arrival::Switch(node, input));
            }
        }
    }

    /// The node at the other end of a port.
    pub fn peer(&self, node: usize, port: PortId) -> usize {
        match self.nodes[node].ports[usize::from(port.0)].1 {
            Peer::Node(other, _) => other,
            Peer::Receiver(_) => unreachable!("receivers have no flows of others"),
        }
    }

    pub fn switch(&self, node: usize) -> &Switch {
        self.nodes[node].switch.as_ref().unwrap()
    }

    /// The level of a flow on a port.
    pub fn level(&self, node: usize, flow: u32, port: PortId) -> Option<u8> {
        let level = self.switch(node).level(layercast_core::FlowId(flow), port);
        level.map(Level::get)
    }
}
