//! One switch with a port upstream and two downstream, driven input by input.

use layercast_core::{FlowId, Level, Machine, NodeId, Off, PortId, Rate, Serial, Time};
use layercast_mets::switch::{
    PortConfig, Switch, SwitchConfig, SwitchEvent, SwitchInput, SwitchTransmit,
};
use layercast_wire::{
    AdapterKind, Carriage, Epoch, FlowInfo, LinkPdu, Member, Resource, Signal, Via,
};

use super::ends::{Source, message};
use super::join_ack;

pub const UP: PortId = PortId(0);
pub const A: PortId = PortId(1);
pub const B: PortId = PortId(2);

/// A switch with one port upstream, two downstream, and a clock.
pub struct Bench {
    pub switch: Switch,
    pub now: Time,
    pub info: FlowInfo,
    pub source: Source,
}

/// A switch that knows one flow, from upstream.
pub fn bench(port: PortConfig, config: SwitchConfig) -> Bench {
    let mut bench = idle(port, config);
    let flow = bench.info.clone();
    bench.advertise(UP, flow);
    bench
}

/// A switch that knows no flow.
pub fn idle(port: PortConfig, config: SwitchConfig) -> Bench {
    let mut switch = Switch::new(config);
    for id in [UP, A, B] {
        let name = id.0.to_string();
        switch.add_port(
            id,
            PortConfig {
                name,
                ..port.clone()
            },
        );
    }
    let source = Source::canyon(1, port.carriage);
    let mut bench = Bench {
        switch,
        now: Time::ZERO,
        info: source.info.clone(),
        source,
    };
    for port in [UP, A, B] {
        bench.give(SwitchInput::PortUp { port });
    }
    bench
}

pub fn plain(carriage: Carriage) -> PortConfig {
    PortConfig {
        carriage,
        rate: Some(Rate::from_bps(100_000_000)),
        ..PortConfig::default()
    }
}

pub fn member(id: u32) -> Member {
    Member {
        name: format!("m{id}"),
        id: NodeId(id),
    }
}

impl Bench {
    pub fn give(&mut self, input: SwitchInput) -> Vec<SwitchTransmit> {
        self.switch.handle(self.now, input, &mut Off);
        self.drain()
    }

    pub fn drain(&mut self) -> Vec<SwitchTransmit> {
        let now = self.now;
        std::iter::from_fn(|| self.switch.poll_transmit(now, &mut Off)).collect()
    }

    pub fn signal(&mut self, port: PortId, signal: Signal) -> Vec<SwitchTransmit> {
        self.give(SwitchInput::Signal { port, signal })
    }

    pub fn run(&mut self, until: Time) -> Vec<SwitchTransmit> {
        let mut out = Vec::new();
        while let Some(next) = self.switch.next_timeout().filter(|&next| next <= until) {
            self.now = next.max(self.now);
            self.switch.on_timeout(self.now, &mut Off);
            out.extend(self.drain());
        }
        self.now = until;
        out
    }

    pub fn join(&mut self, port: PortId, id: u32) {
        let (flow, level) = (self.info.id, Level::FULL);
        let member = member(id);
        self.signal(
            port,
            Signal::Join {
                flow,
                epoch: Epoch::default(),
                member,
                level,
                proof: None,
                again: false,
                answer: None,
            },
        );
        let level = Level::BASE;
        self.signal(UP, join_ack(flow, 101, level));
    }

    pub fn adapter(&mut self, port: PortId, kind: AdapterKind, era: u32, origin: u32, level: u8) {
        let level = Level::new(level).unwrap();
        let message = message(&self.info, kind, Serial(era), NodeId(origin), level);
        let pdu = LinkPdu::Adapter(message);
        self.give(SwitchInput::Pdu { port, pdu });
    }

    pub fn level(&self, port: PortId) -> Option<u8> {
        self.switch.level(self.info.id, port).map(Level::get)
    }

    pub fn refusals(&mut self) -> Vec<Resource> {
        let events = std::iter::from_fn(|| self.switch.poll_event());
        let refused = events.filter_map(|event| match event {
            SwitchEvent::Refused { refusal, .. } => Some(refusal.resource),
            _ => None,
        });
        refused.collect()
    }
}

pub fn signals_to(out: &[SwitchTransmit], to: PortId) -> Vec<&Signal> {
    let signals = out.iter().filter_map(|out| match out {
        SwitchTransmit::Signal { port, signal } if *port == to => Some(signal),
        _ => None,
    });
    signals.collect()
}

impl Bench {
    pub fn flows(&mut self) -> Vec<(FlowId, Epoch)> {
        let out = self.signal(B, Signal::ListFlows);
        let [Signal::Flows { flows }] = &signals_to(&out, B)[..] else {
            panic!("{out:?}");
        };
        flows.iter().map(|flow| (flow.id, flow.epoch)).collect()
    }

    pub fn join_of(&self, epoch: Epoch) -> Signal {
        Signal::Join {
            flow: self.info.id,
            epoch,
            member: member(1),
            level: Level::FULL,
            proof: None,
            again: false,
            answer: None,
        }
    }

    /// Advertises a flow on a port.
    pub fn advertise(&mut self, port: PortId, flow: FlowInfo) -> Vec<SwitchTransmit> {
        self.signal(port, Signal::Advertise { flow: flow.into() })
    }

    /// Loses the channel of a port, and has it back.
    pub fn reconnect(&mut self, port: PortId) -> Vec<SwitchTransmit> {
        self.give(SwitchInput::PortDown { port });
        self.give(SwitchInput::PortUp { port })
    }

    /// Joins a flow on a port; the node at `upstream` acknowledges.
    pub fn join_flow(
        &mut self,
        (flow, upstream): (FlowId, PortId),
        port: PortId,
        id: u32,
    ) -> Vec<SwitchTransmit> {
        let join = Signal::Join {
            flow,
            epoch: Epoch::default(),
            member: member(id),
            level: Level::FULL,
            proof: None,
            again: false,
            answer: None,
        };
        let out = self.signal(port, join);
        let (vci, level) = (100 + flow.0 as u16, Level::BASE);
        self.signal(upstream, join_ack(flow, vci, level));
        out
    }
}

/// The ports that a flow was advertised on, and which way it came there.
pub fn adverts(out: &[SwitchTransmit]) -> Vec<(PortId, Via)> {
    let adverts = out.iter().filter_map(|out| match out {
        SwitchTransmit::Signal {
            port,
            signal: Signal::Advertise { flow },
        } => Some((*port, flow.via)),
        _ => None,
    });
    adverts.collect()
}
