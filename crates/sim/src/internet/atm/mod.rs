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
use layercast_atm::policy::FlowKey;
use layercast_atm::signal::{ControllerEvent, ControllerInput, SignalCell};
use layercast_atm::{AtmAddress, Vcid};
use layercast_core::{Machine, Off, PortId, Time, aal5_cells, earliest};

use self::backbone::AtmNode;
use self::change::Change;
use self::fabric::Arrival;
use self::frames::FrameBody;
use super::engine::PacketId;
use super::medium::packet::Packets;
use super::network::NodeIndex;
use crate::kernel::Kernel;

pub(super) use backbone::Backbone;
pub(super) use build::{adapted, adapter, build, check, delay};

/// The circuit of the controllers on every link.
const SIGNALLING: Vcid = Vcid(0);

/// What the backbone uses of the medium that it is a part of.
pub(in crate::internet) struct Edge<'a> {
    pub now: Time,
    pub packets: &'a mut Packets,
    pub kernel: &'a mut Kernel,
}

/// A packet came out of the backbone at a node, in some cells.
pub(in crate::internet) struct Out {
    pub node: NodeIndex,
    pub packet: PacketId,
    pub cells: u32,
}

impl Backbone {
    /// A router or host sends a packet to another one over the backbone.
    pub fn send(
        &mut self,
        (adapter, next): (u32, NodeIndex),
        key: FlowKey,
        id: PacketId,
        edge: &mut Edge<'_>,
    ) {
        let Some(next_hop) = self.addresses[next.0 as usize] else {
            return edge.packets.lose(id);
        };
        let Some(mapper) = self.mapper(adapter, edge.now) else {
            return;
        };
        let packet = PacketRef(id.0);
        let input = MapperInput::Packet {
            key,
            next_hop,
            packet,
        };
        mapper.handle(edge.now, input, &mut Off);
        self.settle(adapter, edge);
    }

    fn mapper(&mut self, node: u32, now: Time) -> Option<&mut FlowMapper> {
        self.fabric.reach(now);
        let adapter = self.nodes[node as usize].adapter.as_mut()?;
        Some(&mut adapter.mapper)
    }

    /// Lets the machines of a node say what they have to say.
    fn settle(&mut self, node: u32, edge: &mut Edge<'_>) {
        let now = edge.now;
        loop {
            let AtmNode {
                controller,
                adapter,
                timer,
                told,
                patience,
                ..
            } = &mut self.nodes[node as usize];
            let output = adapter.as_mut().and_then(|it| {
                while it.mapper.poll_event().is_some() {}
                it.mapper.poll_transmit(now, &mut Off)
            });
            if let Some(output) = output {
                self.mapped(node, output, edge);
                continue;
            }
            if *told {
                if let Some(event) = controller.poll_event() {
                    self.signalled(node, event, now);
                    continue;
                }
                if let Some((port, cell)) = controller.poll_transmit(now, &mut Off) {
                    self.send_signal(node, port, cell, edge);
                    continue;
                }
                (*told, *patience) = (false, controller.next_timeout());
            }
            let idle = adapter.as_ref().and_then(|it| it.mapper.next_timeout());
            let next = earliest(*patience, idle);
            return edge.kernel.schedule(*timer, next.map(|at| at.max(now)));
        }
    }

    /// A timer of a mapper or controller is due.
    pub fn wake(&mut self, node: u32, edge: &mut Edge<'_>) {
        let now = edge.now;
        self.fabric.reach(now);
        let it = &mut self.nodes[node as usize];
        it.controller.on_timeout(now, &mut Off);
        it.told = true;
        if let Some(adapter) = &mut it.adapter {
            adapter.mapper.on_timeout(now, &mut Off);
        }
        self.settle(node, edge);
    }

    fn mapped(&mut self, node: u32, output: MapperOutput, edge: &mut Edge<'_>) {
        match output {
            MapperOutput::Send { vc, packet } => {
                self.send_frame(node, vc, PacketId(packet.0), edge);
            }
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
                self.tell_controller(node, input, edge.now);
            }
            MapperOutput::Release { vc } => {
                let port = PortId(0);
                self.tell_controller(node, ControllerInput::Release { port, vc }, edge.now);
            }
            MapperOutput::Discard { packet, .. } => {
                edge.packets.lose(PacketId(packet.0));
                self.fabric.reach(edge.now);
                self.discarded += 1;
            }
        }
    }

    fn tell_controller(&mut self, node: u32, input: ControllerInput, now: Time) {
        self.fabric.reach(now);
        let node = &mut self.nodes[node as usize];
        node.controller.handle(now, input, &mut Off);
        node.told = true;
    }

    fn signalled(&mut self, node: u32, event: ControllerEvent, now: Time) {
        self.fabric.reach(now);
        let state = &mut self.nodes[node as usize];
        let first = state.first_port;
        if let Some(change) = Change::of(first, &event) {
            return self.change(&change);
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
            ControllerEvent::Released { vc, .. } => return self.forget(node, vc),
        };
        if let Some(adapter) = &mut state.adapter {
            adapter.mapper.handle(now, input, &mut Off);
        }
    }

    fn send_signal(&mut self, node: u32, port: PortId, cell: SignalCell, edge: &mut Edge<'_>) {
        self.fabric.reach(edge.now);
        let port = self.nodes[node as usize].first_port + u32::from(port.0);
        self.put(port, SIGNALLING, FrameBody::Signal(cell), 1);
        self.lose_packets(edge);
    }

    /// The adaptation layer of an adapter: all cells of a packet, simultaneously.
    fn send_frame(&mut self, node: u32, vc: Vcid, id: PacketId, edge: &mut Edge<'_>) {
        if self.hold(node, vc, id, edge) {
            return;
        }
        let cells = aal5_cells(edge.packets.get(id).bytes as usize);
        self.fabric.reach(edge.now);
        let port = self.nodes[node as usize].first_port;
        self.put(port, vc, FrameBody::Packet(id), cells);
        self.lose_packets(edge);
    }

    /// Packets are no more that lost cells and have none left.
    #[inline]
    fn lose_packets(&mut self, edge: &mut Edge<'_>) {
        if self.fabric.lost.is_empty() {
            return;
        }
        for id in self.fabric.lost.drain(..) {
            edge.packets.lose(id);
        }
    }

    /// Cells move.
    pub fn cells_move(&mut self, edge: &mut Edge<'_>) -> Option<Out> {
        self.fabric.reach(edge.now);
        let arrival = self.step();
        self.lose_packets(edge);
        match arrival {
            Arrival::Nothing => None,
            Arrival::Signal(port, cell) => {
                self.signal_arrives(port, cell, edge);
                None
            }
            Arrival::Packet(node, packet, cells) => {
                let adapter = self.nodes[node as usize].adapter.as_ref()?;
                let node = adapter.owner;
                Some(Out {
                    node,
                    packet,
                    cells,
                })
            }
        }
    }

    fn signal_arrives(&mut self, port: u32, cell: SignalCell, edge: &mut Edge<'_>) {
        let port = &self.fabric.ports[port as usize];
        let (node, port) = (port.node, PortId(port.id));
        self.tell_controller(node, ControllerInput::Cell { port, cell }, edge.now);
        self.settle(node, edge);
    }
}

/// The address of the adapter with this number.
fn address(adapter: usize) -> AtmAddress {
    AtmAddress(adapter as u16 + 1)
}
