//! The ATM backbone: switches, the adapters of routers and hosts, and the cells between them.
//!
//! Its cells are moved as trains, or one by one site after site; as a reference that gives the same results,
//! each is an event.

mod backbone;
mod build;
mod cells;
mod change;
mod contract;
mod due;
mod fabric;
mod frames;
mod lane;
mod port;
mod report;
mod seen;
mod site_lines;
mod site_wires;
mod sites;
mod spacing;
#[cfg(test)]
mod tests;
mod train_port;
mod trains;
mod wires;

use layercast_atm::mapper::{FlowMapper, MapperInput, MapperOutput, PacketRef};
use layercast_atm::policy::{FlowKey, MediaKind};
use layercast_atm::signal::{ControllerEvent, ControllerInput, SignalCell};
use layercast_atm::{AtmAddress, Vcid};
use layercast_core::{Machine, Off, PortId, aal5_cells, earliest};
use layercast_wire::PROTOCOL_XTP;
use layercast_workload::app::Media;

use self::backbone::AtmNode;
use self::change::Change;
use self::fabric::Arrival;
use self::frames::FrameBody;
use super::external::ports;
use super::packet::{Body, PacketId};
use super::{Internet, NodeIndex, mets};

pub(super) use backbone::Backbone;
pub(super) use build::{adapted, adapter, build, check, delay};

/// The circuit of the controllers on every link.
const SIGNALLING: Vcid = Vcid(0);

impl Internet {
    fn backbone(&mut self) -> Option<&mut Backbone> {
        let backbone = self.atm.as_deref_mut()?;
        backbone.fabric.reach(self.now);
        Some(backbone)
    }

    /// A router or host sends a packet to another one over the backbone.
    pub(super) fn over_backbone(&mut self, adapter: u32, id: PacketId, next: NodeIndex) {
        let key = self.flow_key(id);
        let Some(next_hop) = self.atm_addresses[next.0 as usize] else {
            return self.packets.lose(id);
        };
        let now = self.now;
        let Some(mapper) = self.mapper(adapter) else {
            return;
        };
        let packet = PacketRef(id.0);
        let input = MapperInput::Packet {
            key,
            next_hop,
            packet,
        };
        mapper.handle(now, input, &mut Off);
        self.settle_atm(adapter);
    }

    fn mapper(&mut self, node: u32) -> Option<&mut FlowMapper> {
        let adapter = self.backbone()?.nodes[node as usize].adapter.as_mut()?;
        Some(&mut adapter.mapper)
    }

    /// What tells the conversation of a packet. A part of one has no ports: those between two hosts share a circuit.
    fn flow_key(&self, id: PacketId) -> FlowKey {
        let packet = self.packets.get(id);
        let address = |node: NodeIndex| self.node_addresses[node.0 as usize];
        let (protocol, ports, media) = match &packet.body {
            Body::Tcp(segment) => (FlowKey::TCP, (segment.src_port, segment.dst_port), None),
            Body::Udp(datagram) => (FlowKey::UDP, datagram.ports, datagram.media),
            Body::Mets(..) => (FlowKey::UDP, (mets::PORT, mets::PORT), Some(Media::Video)),
            // Packets with the same carrier share a circuit (specs/xtp.md 2.15).
            Body::Xtp(_, carrier) => (PROTOCOL_XTP, (carrier.0, carrier.0), None),
            Body::Real(packet) => (packet.body.protocol(), ports(packet), None),
            // Nothing goes to a group over ATM.
            Body::Group(..) | Body::Fragment { .. } | Body::Free => (0, (0, 0), None),
        };
        FlowKey {
            src: address(packet.src),
            dst: address(packet.dst),
            tos: 0,
            protocol,
            src_port: ports.0,
            dst_port: ports.1,
            media: media.map(|media| match media {
                Media::Video => MediaKind::Video,
                _ => MediaKind::Audio,
            }),
        }
    }

    /// Lets the machines of a node say what they have to say.
    fn settle_atm(&mut self, node: u32) {
        let now = self.now;
        loop {
            let Some(backbone) = self.atm.as_deref_mut() else {
                return;
            };
            let AtmNode {
                controller,
                adapter,
                timer,
                told,
                patience,
                ..
            } = &mut backbone.nodes[node as usize];
            let output = adapter.as_mut().and_then(|it| {
                while it.mapper.poll_event().is_some() {}
                it.mapper.poll_transmit(now, &mut Off)
            });
            if let Some(output) = output {
                self.mapped(node, output);
                continue;
            }
            if *told {
                if let Some(event) = controller.poll_event() {
                    self.signalled(node, event);
                    continue;
                }
                if let Some((port, cell)) = controller.poll_transmit(now, &mut Off) {
                    self.send_signal(node, port, cell);
                    continue;
                }
                (*told, *patience) = (false, controller.next_timeout());
            }
            let idle = adapter.as_ref().and_then(|it| it.mapper.next_timeout());
            let next = earliest(*patience, idle);
            return self.kernel.schedule(*timer, next.map(|at| at.max(now)));
        }
    }

    /// A timer of a mapper or controller is due.
    pub(super) fn wake_atm(&mut self, node: u32) {
        let now = self.now;
        if let Some(backbone) = self.backbone() {
            let node = &mut backbone.nodes[node as usize];
            node.controller.on_timeout(now, &mut Off);
            node.told = true;
            if let Some(adapter) = &mut node.adapter {
                adapter.mapper.on_timeout(now, &mut Off);
            }
        }
        self.settle_atm(node);
    }

    fn mapped(&mut self, node: u32, output: MapperOutput) {
        match output {
            MapperOutput::Send { vc, packet } => self.send_frame(node, vc, PacketId(packet.0)),
            MapperOutput::Setup {
                request,
                to,
                service,
                tag,
            } => {
                let input = ControllerInput::Setup {
                    request,
                    to,
                    service,
                    tag,
                };
                self.tell_controller(node, input);
            }
            MapperOutput::Release { vc } => {
                let port = PortId(0);
                self.tell_controller(node, ControllerInput::Release { port, vc });
            }
            MapperOutput::Discard { packet, .. } => {
                self.packets.lose(PacketId(packet.0));
                if let Some(backbone) = self.backbone() {
                    backbone.discarded += 1;
                }
            }
        }
    }

    fn tell_controller(&mut self, node: u32, input: ControllerInput) {
        let now = self.now;
        if let Some(backbone) = self.backbone() {
            let node = &mut backbone.nodes[node as usize];
            node.controller.handle(now, input, &mut Off);
            node.told = true;
        }
    }

    fn signalled(&mut self, node: u32, event: ControllerEvent) {
        let now = self.now;
        let Some(backbone) = self.backbone() else {
            return;
        };
        let state = &mut backbone.nodes[node as usize];
        let first = state.first_port;
        if let Some(change) = Change::of(first, &event) {
            return backbone.change(&change);
        }
        let input = match event {
            ControllerEvent::Ready { request, vc, .. } => MapperInput::Ready { request, vc },
            ControllerEvent::Rejected { request, cause } => {
                MapperInput::Rejected { request, cause }
            }
            ControllerEvent::Lost { vc, .. } => MapperInput::Lost { vc },
            ControllerEvent::Install(_)
            | ControllerEvent::Remove(_)
            | ControllerEvent::Incoming { .. } => return,
            ControllerEvent::Released { vc, .. } => return backbone.forget(node, vc),
        };
        if let Some(adapter) = &mut state.adapter {
            adapter.mapper.handle(now, input, &mut Off);
        }
    }

    fn send_signal(&mut self, node: u32, port: PortId, cell: SignalCell) {
        if let Some(backbone) = self.backbone() {
            let port = backbone.nodes[node as usize].first_port + u32::from(port.0);
            backbone.put(port, SIGNALLING, FrameBody::Signal(cell), 1);
            self.lose_packets();
        }
    }

    /// The adaptation layer of an adapter: all cells of a packet, simultaneously.
    fn send_frame(&mut self, node: u32, vc: Vcid, id: PacketId) {
        if self.hold(node, vc, id) {
            return;
        }
        let cells = aal5_cells(self.packets.get(id).bytes as usize);
        if let Some(backbone) = self.backbone() {
            let port = backbone.nodes[node as usize].first_port;
            backbone.put(port, vc, FrameBody::Packet(id), cells);
            self.lose_packets();
        }
    }

    /// Packets are no more that lost cells and have none left.
    fn lose_packets(&mut self) {
        if let Some(backbone) = self.atm.as_deref_mut() {
            for id in backbone.fabric.lost.drain(..) {
                self.packets.lose(id);
            }
        }
    }

    /// Cells move.
    pub(super) fn cell_event(&mut self) {
        let Some(backbone) = self.backbone() else {
            return;
        };
        let arrival = backbone.step();
        self.lose_packets();
        match arrival {
            Arrival::Nothing => {}
            Arrival::Signal(port, cell) => self.signal_arrives(port, cell),
            Arrival::Packet(node, id, cells) => self.packet_arrives(node, id, cells),
        }
    }

    fn signal_arrives(&mut self, port: u32, cell: SignalCell) {
        let Some(backbone) = self.atm.as_deref() else {
            return;
        };
        let port = &backbone.fabric.ports[port as usize];
        let (node, port) = (port.node, PortId(port.id));
        self.tell_controller(node, ControllerInput::Cell { port, cell });
        self.settle_atm(node);
    }

    fn packet_arrives(&mut self, node: u32, id: PacketId, cells: u32) {
        let Some(backbone) = self.atm.as_deref() else {
            return;
        };
        if let Some(adapter) = &backbone.nodes[node as usize].adapter {
            let owner = adapter.owner;
            self.arrive(owner, id, cells);
        }
    }
}

/// The address of the adapter with this number.
fn address(adapter: usize) -> AtmAddress {
    AtmAddress(adapter as u16 + 1)
}
