//! What machines say to one another: from the end of a link into a node, through its machines, and
//! out again.

use layercast_core::{Machine, PortId, Span};
use layercast_switch::host::ends_packet;
use layercast_switch::{Framed, SwitchInput, SwitchTransmit};
use layercast_transport::mets::{SinkEvent, SinkInput, SinkTransmit, SourceInput};
use layercast_wire::{LinkPdu, Signal};

use crate::node::{concerns, is_for};
use crate::scenario::Network;
use crate::wire_check;
use crate::wires::Wire;
use crate::world::World;

impl World<'_> {
    /// A PDU at the end of a link.
    pub fn arrive(&mut self, wire: usize, framed: Framed) {
        let Wire {
            to, to_port, link, ..
        } = self.wires[wire];
        if !self.links[link].up || !self.nodes[to].alive {
            return;
        }
        let Some(pdu) = self.unframe(wire, framed) else {
            return;
        };
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
            switch.handle(
                self.now,
                SwitchInput::Pdu { port: to_port, pdu },
                &mut self.obs,
            );
            return self.drain_node(to);
        } else if let Some(host) = &mut node.receiving {
            host.arrive(self.now, to_port, pdu);
        } else {
            return self.deliver(to, pdu);
        }
        self.kernel.schedule(node.cpu_event, node.cpu_done());
    }

    /// The CPU of a node is done with something.
    pub fn cpu_done(&mut self, place: usize) {
        let now = self.now;
        let node = &mut self.nodes[place];
        if let (Some(cpu), Some(switch)) = (&mut node.forwarding, &mut node.switch) {
            while let Some((_, (port, pdu))) = cpu.pop_done(now) {
                // The first copy is made: hand it on. The other copies keep the CPU busy.
                let cell = self.net.nodes[place].profile.switch_cell;
                let copy = cell.times(u64::from(pdu.cells()));
                let before = switch.copies();
                switch.handle(now, SwitchInput::Pdu { port, pdu }, &mut self.obs);
                let more = (switch.copies() - before).saturating_sub(1);
                cpu.busy_for(now, copy.times(more));
            }
            self.drain_node(place);
        } else if let (Some(cpu), Some(switch)) = (&mut node.sending, &mut node.switch) {
            let port = PortId::LOCAL;
            while let Some(pdu) = cpu.poll(now) {
                switch.handle(now, SwitchInput::Pdu { port, pdu }, &mut self.obs);
            }
            self.drain_node(place);
        } else {
            while let Some(host) = &mut self.nodes[place].receiving
                && let Some((_, pdu)) = host.poll(now)
            {
                self.deliver(place, pdu);
            }
        }
        let node = &self.nodes[place];
        self.kernel.schedule(node.cpu_event, node.cpu_done());
    }

    /// A PDU has reached the transport of a host; each sink takes what is its own.
    pub fn deliver(&mut self, node: usize, pdu: LinkPdu) {
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
    pub fn arrive_signal(&mut self, wire: usize, signal: Signal) {
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
            switch.handle(self.now, input, &mut self.obs);
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
            sink.handle(self.now, input, &mut self.obs);
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
            while let Some(transmit) = switch.poll_transmit(now, &mut self.obs) {
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
                                self.sources[flow].handle(now, input, &mut self.obs);
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
                                self.sources[flow].handle(now, input, &mut self.obs);
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
                        let at = (start, tx);
                        self.wires[wire].send(now, at, pdu, &mut self.kernel, &mut self.obs);
                    }
                    SwitchTransmit::Signal { port, signal } => {
                        let wire = out_wire(self.net, place, port);
                        self.wires[wire].signal(now, signal, &mut self.kernel, &mut self.obs);
                    }
                }
            }
            for &flow in &config.sources {
                let source = &mut self.sources[flow];
                moved |= source.drain(now, &mut node.sending, switch, &mut self.obs);
            }
            if !moved {
                let sources = &mut self.sources;
                moved = node.pacer.run(now, &mut self.obs, |turn| {
                    for &flow in &config.sources {
                        if let Some(source) = &mut sources[flow].machine {
                            turn(source);
                        }
                    }
                });
            }
            if !moved {
                break;
            }
        }
        // Decisions of a switch reach the user through the observer.
        while switch.poll_event().is_some() {}
        self.kernel
            .schedule(node.switch_event, switch.next_timeout());
        self.kernel
            .schedule(node.pacer_event, node.pacer.next_timeout());
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
        while let Some(transmit) = sink.poll_transmit(now, &mut self.obs) {
            let wire = out_wire(self.net, home, PortId(0));
            match transmit {
                SinkTransmit::Signal(signal) => {
                    self.wires[wire].signal(now, signal, &mut self.kernel, &mut self.obs);
                }
                SinkTransmit::Pdu(pdu) => {
                    let rate = self.net.nodes[home].ports[0].config.rate;
                    let tx = rate.map_or(Span::ZERO, |rate| rate.time_for(pdu.wire_len() as u64));
                    let start = self.nodes[home].line_free.max(now);
                    self.nodes[home].line_free = start.saturating_add(tx);
                    if let Some(capture) = &mut self.capture {
                        capture.write(wire, start, &pdu);
                    }
                    let at = (start, tx);
                    self.wires[wire].send(now, at, pdu, &mut self.kernel, &mut self.obs);
                }
            }
        }
        while let Some(event) = sink.poll_event() {
            state.log.on_event(now, &event);
            if let SinkEvent::Answer { id, status } = event {
                state.answers.push((now, id, status));
            }
        }
        self.kernel.schedule(state.event, sink.next_timeout());
    }
}

/// The wire that leaves `node` by `port`.
pub(crate) fn out_wire(net: &Network, node: usize, port: PortId) -> usize {
    let link = net.nodes[node].ports[usize::from(port.0)].link;
    2 * link + usize::from(net.links[link].ends[1] == node)
}
