//! What travels between nodes: from the end of a link into a node, and from a node onto its links.

use layercast_core::{Machine, PortId};
use layercast_link::host::ends_packet;
use layercast_mets::{Part, StationEvent, StationInput, StationTransmit};
use layercast_mets::{SinkEvent, SinkInput, SourceEvent, feed};
use layercast_wire::{LinkPdu, Signal};

use super::stations::Stations;
use super::wire_check;
use super::wires::{self, Wire, out_wire_of};
use crate::internet::medium::Medium;
use crate::internet::medium::peered::Peered;
use crate::scenario::Network;

impl Stations<'_> {
    /// A PDU at the end of a link that is up.
    pub fn arrive(&mut self, medium: &mut Medium, wire: usize, datagram: Peered) {
        let Wire { to, to_port, .. } = self.wires[wire];
        if self.nodes[to].station.is_none() {
            return;
        }
        let mut next = self.unframe(medium, wire, datagram);
        while let Some(pdu) = next {
            self.take(medium, (to, to_port), pdu);
            // A parity completes several datagrams.
            next = self.wires[wire ^ 1].repair.poll_received();
        }
    }

    /// A PDU that came to a node.
    fn take(&mut self, medium: &mut Medium, (to, port): (usize, PortId), pdu: LinkPdu) {
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
        self.give(medium, to, StationInput::Pdu { port, pdu });
    }

    /// A signal at the end of a link.
    pub fn arrive_signal(&mut self, medium: &mut Medium, wire: usize, signal: Signal) {
        let Wire {
            to, to_port, link, ..
        } = self.wires[wire];
        if !self.links[link].channel || self.nodes[to].station.is_none() {
            return;
        }
        if self.net.wire_check {
            let Some(octets) = wire_check::signal(&signal) else {
                self.counts.wire_errors += 1;
                return;
            };
            self.counts.signal_octets += octets as u64;
        }
        let port = to_port;
        self.wires[wire ^ 1].awaiting.heard(&signal);
        self.give(medium, to, StationInput::Signal { port, signal });
    }

    /// Gives a node an input, if it runs.
    #[inline]
    pub fn give(&mut self, medium: &mut Medium, place: usize, input: StationInput) {
        if let Some(station) = &mut self.nodes[place].station {
            station.handle(medium.engine.now, input, &mut medium.engine.obs);
            self.settle(medium, place);
        }
    }

    /// Gives a sink an input, if it is there.
    pub fn give_sink(&mut self, medium: &mut Medium, receiver: usize, input: SinkInput) {
        let home = self.net.receivers[receiver].node;
        if let Some(station) = &mut self.nodes[home].station {
            station.give_sink(
                medium.engine.now,
                self.sinks[receiver].place,
                input,
                &mut medium.engine.obs,
            );
            self.settle(medium, home);
        }
    }

    /// Runs the timer of a part of a node, if it runs.
    pub fn run_timer(&mut self, medium: &mut Medium, place: usize, part: Part) {
        if let Some(station) = &mut self.nodes[place].station {
            station.on_timeout_of(part, medium.engine.now, &mut medium.engine.obs);
            self.settle(medium, place);
        }
    }

    /// Puts what a node sends on its links, feeds its sources, notes its events and sets its timers.
    pub fn settle(&mut self, medium: &mut Medium, place: usize) {
        let now = medium.engine.now;
        let config = &self.net.nodes[place];
        let node = &mut self.nodes[place];
        let Some(station) = &mut node.station else {
            return;
        };
        loop {
            while let Some(transmit) = station.poll_transmit(now, &mut medium.engine.obs) {
                match transmit {
                    StationTransmit::Pdu { port, pdu, at } => {
                        let wire = out_wire(&self.net, place, port);
                        if let Some(capture) = &mut self.capture {
                            capture.write(wire, at.0, &pdu);
                        }
                        let wires = (&mut self.wires[..], wire);
                        wires::send(wires, at, pdu, &mut self.kernel, medium);
                    }
                    StationTransmit::Signal { port, signal } => {
                        let wire = out_wire(&self.net, place, port);
                        let group = self.wires[wire].is_group();
                        for at in 0..self.wires[wire].fan.len() {
                            let wire = self.wires[wire].fan[at];
                            let wire = &mut self.wires[wire];
                            if wire.awaiting.takes(&signal) || !group {
                                let signal = signal.clone();
                                wire.signal(now, signal, &mut self.kernel, &mut medium.engine.obs);
                            }
                        }
                    }
                }
            }
            let mut fed = false;
            while let Some(event) = station.poll_event() {
                match event {
                    StationEvent::Source(at, SourceEvent::NeedFrames(_)) => {
                        let frames = &mut self.sources[config.sources[at]].frames;
                        if let Some(source) = station.source_mut(at) {
                            feed(source, now, frames);
                            fed = true;
                        }
                    }
                    StationEvent::Source(at, SourceEvent::Answer { id, status }) => {
                        let answers = &mut self.sources[config.sources[at]].answers;
                        answers.push((now, id, status));
                    }
                    // Decisions of a switch reach the user through the observer.
                    StationEvent::Switch(event) => {
                        if let Some((flow, port)) = event.unwanted() {
                            let wire = &mut self.wires[out_wire(&self.net, place, port)];
                            wire.repair.unwanted(now, flow, &mut medium.engine.obs);
                        }
                    }
                    StationEvent::Source(..) => {}
                    StationEvent::Sink(at, event) => {
                        let sink = &mut self.sinks[config.receivers[at]];
                        sink.log.on_event(now, &event);
                        if let Some(out) = self.outputs.get_mut(config.receivers[at]) {
                            out.on_event(&event);
                        }
                        if let SinkEvent::Answer { id, status } = event {
                            sink.answers.push((now, id, status));
                        }
                    }
                }
            }
            if !fed {
                break;
            }
        }
        let kernel = &mut self.kernel;
        if station.switch().is_some() {
            kernel.schedule(node.switch_event, station.timeout_of(Part::Switch));
            kernel.schedule(node.pacer_event, station.timeout_of(Part::Pacer));
        }
        for (at, &flow) in config.sources.iter().enumerate() {
            let event = self.sources[flow].event;
            kernel.schedule(event, station.timeout_of(Part::Source(at)));
        }
        for (at, &receiver) in config.receivers.iter().enumerate() {
            let event = self.sinks[receiver].event;
            kernel.schedule(event, station.timeout_of(Part::Sink(at)));
        }
        kernel.schedule(node.cpu_event, station.timeout_of(Part::Host));
    }
}

/// The wire that leaves `node` by `port`.
pub(crate) fn out_wire(net: &Network, node: usize, port: PortId) -> usize {
    out_wire_of(net, node, net.nodes[node].ports[usize::from(port.0)].link)
}
