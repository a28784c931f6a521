//! A node: its machines, and the costs of its CPU around them.

use layercast_core::{Machine, Observer, PortId, RequestId, Span, Status, Time};
use layercast_protect::Seed;
use layercast_switch::host::{Cpu, ReceivingHost, SendingHost, Stalls};
use layercast_switch::{Switch, SwitchInput};
use layercast_transport::mets::{
    AppFrame, FlowLog, HostPacer, Sink, Source, SourceEvent, SourceInput, SourceTransmit, feed,
};
use layercast_wire::{AdapterMsg, LinkPdu, Signal};

use crate::kernel::{Kernel, SourceId};
use crate::scenario::{Flow, Network, NodeKind};

/// A host or switch while it runs.
#[derive(Debug)]
pub struct NodeState {
    /// Whether it runs.
    pub alive: bool,
    /// Its switch, if it has one.
    pub switch: Option<Switch>,
    /// The pacer of its sources that share one.
    pub pacer: HostPacer,
    /// The queue of a switch's CPU.
    pub forwarding: Option<Cpu<(PortId, LinkPdu)>>,
    /// The queue of a sending host's CPU.
    pub sending: Option<SendingHost>,
    /// The receiving side of a host.
    pub receiving: Option<ReceivingHost>,
    /// When the line of a host without a switch is free.
    pub line_free: Time,
    /// Event source of the pacer.
    pub pacer_event: SourceId,
    /// Event source of the switch.
    pub switch_event: SourceId,
    /// Event source of the CPU, whichever side has one.
    pub cpu_event: SourceId,
}

/// A flow at its source while it runs.
pub struct SourceState {
    /// The machine; `None` while its node is down.
    pub machine: Option<Source>,
    /// What is still to be sent.
    pub frames: Box<dyn Iterator<Item = AppFrame>>,
    /// How its requests ended.
    pub answers: Vec<(Time, RequestId, Status)>,
    /// Its event source.
    pub event: SourceId,
}

/// A receiver.
pub struct SinkState {
    /// The machine; `None` before it joins and while its node is down.
    pub machine: Option<Sink>,
    /// What it saw.
    pub log: FlowLog,
    /// How its requests ended.
    pub answers: Vec<(Time, RequestId, Status)>,
    /// When its host stalls next on its account.
    pub stalls: Stalls,
    /// Event source of the machine.
    pub event: SourceId,
    /// Event source of the stalls.
    pub stall_event: SourceId,
}

impl NodeState {
    /// A node that is not running yet.
    pub fn new(kernel: &mut Kernel) -> NodeState {
        NodeState {
            alive: false,
            switch: None,
            pacer: HostPacer::new(Span::ZERO),
            forwarding: None,
            sending: None,
            receiving: None,
            line_free: Time::ZERO,
            switch_event: kernel.add(),
            cpu_event: kernel.add(),
            pacer_event: kernel.add(),
        }
    }

    /// Starts with empty state.
    pub fn start(&mut self, net: &Network, place: usize) {
        let node = &net.nodes[place];
        let profile = node.profile;
        self.alive = true;
        self.switch = node.switch.clone().map(|config| {
            let mut switch = Switch::new(config);
            for port in &node.ports {
                switch.add_port(port.id, port.config.clone());
            }
            switch
        });
        let is_switch = node.kind == NodeKind::Switch;
        self.forwarding = (is_switch && profile.switch_cell > Span::ZERO).then(Cpu::new);
        self.sending = match is_switch || node.sources.is_empty() {
            true => None,
            false => SendingHost::new(profile.sending()),
        };
        self.receiving = match node.receivers.is_empty() {
            true => None,
            false => profile.receiving().map(ReceivingHost::new),
        };
    }

    /// Stops and forgets everything.
    pub fn stop(&mut self, kernel: &mut Kernel) {
        self.alive = false;
        self.switch = None;
        self.pacer = HostPacer::new(Span::ZERO);
        self.forwarding = None;
        self.sending = None;
        self.receiving = None;
        kernel.schedule(self.switch_event, None);
        kernel.schedule(self.cpu_event, None);
        kernel.schedule(self.pacer_event, None);
    }

    /// When the CPU is next done with something.
    pub fn cpu_done(&self) -> Option<Time> {
        let forwarding = self.forwarding.as_ref().and_then(Cpu::next_done);
        let sending = self.sending.as_ref().and_then(SendingHost::next_done);
        let receiving = self.receiving.as_ref().and_then(ReceivingHost::next_done);
        forwarding.or(sending).or(receiving)
    }
}

impl SourceState {
    /// A source that is not running yet.
    pub fn new(kernel: &mut Kernel) -> SourceState {
        SourceState {
            machine: None,
            frames: Box::new(std::iter::empty()),
            answers: Vec::new(),
            event: kernel.add(),
        }
    }

    /// Starts the flow from its first frame.
    pub fn start(&mut self, now: Time, flow: &Flow) {
        let mut config = flow.config.clone();
        config.start = config.start.max(now);
        if let Some(protection) = &mut config.protection {
            // A life of its own has keys and epochs of its own.
            let life = format!("{}", now.as_ps());
            protection.random = Seed::derived(&protection.random.0, &life);
            protection.born += protection.clock.at(now);
        }
        self.frames = Box::new(flow.frames());
        // Resolving built one of this configuration already, so it is there.
        self.machine = Source::new(config).ok();
        if let Some(source) = &mut self.machine {
            feed(source, now, &mut self.frames);
        }
    }

    /// Hands what the source sends to the switch of its node, or to the CPU before it; gives
    /// whether anything moved.
    pub fn drain<O: Observer>(
        &mut self,
        now: Time,
        sending: &mut Option<SendingHost>,
        switch: &mut Switch,
        obs: &mut O,
    ) -> bool {
        let Some(source) = &mut self.machine else {
            return false;
        };
        let port = PortId::LOCAL;
        let mut moved = false;
        while let Some(transmit) = source.poll_transmit(now, obs) {
            moved = true;
            match (transmit, &mut *sending) {
                (SourceTransmit::Pdu(pdu), Some(host)) => host.push(now, pdu),
                (SourceTransmit::Pdu(pdu), None) => {
                    switch.handle(now, SwitchInput::Pdu { port, pdu }, obs);
                }
                (SourceTransmit::Signal(signal), _) => {
                    switch.handle(now, SwitchInput::Signal { port, signal }, obs);
                }
            }
        }
        while let Some(event) = source.poll_event() {
            match event {
                SourceEvent::NeedFrames(_) => {
                    feed(source, now, &mut self.frames);
                    moved = true;
                }
                SourceEvent::Answer { id, status } => self.answers.push((now, id, status)),
                _ => {}
            }
        }
        moved
    }

    /// Gives the source what its switch sends it.
    pub fn handle<O: Observer>(&mut self, now: Time, input: SourceInput, obs: &mut O) {
        if let Some(source) = &mut self.machine {
            source.handle(now, input, obs);
        }
    }
}

/// Whether a PDU that a switch sends to its own sources is for the one of `flow`.
pub fn is_for(pdu: &LinkPdu, flow: &Flow) -> bool {
    let id = match pdu {
        LinkPdu::Mets(packet) => packet.header.flow,
        LinkPdu::Adapter(message) => message.flow,
        // What does not decode is for the sources to count.
        LinkPdu::Cell(cell) => match AdapterMsg::from_cell(cell) {
            Ok(message) => message.flow,
            Err(_) => return true,
        },
    };
    id == flow.config.flow.id
}

/// Whether a signal that a switch sends to its own sources is for the one of `flow`.
pub fn concerns(signal: &Signal, flow: &Flow) -> bool {
    let id = match signal {
        Signal::Join { flow, .. }
        | Signal::Leave { flow, .. }
        | Signal::Left { flow, .. }
        | Signal::Filter { flow, .. }
        | Signal::ToSource { flow, .. }
        | Signal::Report { flow, .. }
        | Signal::ChangeAck { flow, .. }
        | Signal::ChangeNak { flow, .. }
        | Signal::GetStats { flow: Some(flow) } => *flow,
        _ => return true,
    };
    id == flow.config.flow.id
}
