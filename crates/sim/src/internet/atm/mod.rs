//! The ATM backbone: switches, the adapters of routers, and the cells between them.
//!
//! Cell by cell: each costs an event where it arrives, and one more where it had to wait.

mod build;
mod frames;
mod port;
mod report;

use layercast_atm::mapper::{FlowMapper, MapperInput, MapperOutput, PacketRef};
use layercast_atm::policy::{FlowKey, MediaKind};
use layercast_atm::signal::{Controller, ControllerEvent, ControllerInput, Gates, SignalCell};
use layercast_atm::{AtmAddress, Cell, Outcome, Reassembler, Vcid};
use layercast_core::{Machine, Off, PortId, aal5_cells, earliest};

use self::frames::{FrameBody, Frames};
use self::port::{Port, arrives, leaves};
use super::external::ports;
use super::packet::{Body, PacketId};
use super::{Internet, NodeIndex};
use crate::kernel::SourceId;

pub(super) use build::{adapter, build, check, routers};

/// The circuit of the controllers on every link.
const SIGNALLING: Vcid = Vcid(0);

/// All of the backbone.
#[derive(Debug)]
pub(super) struct Backbone {
    nodes: Vec<AtmNode>,
    /// All ports of all nodes, a node's one after the other.
    ports: Vec<Port>,
    frames: Frames,
    /// Cells moved over a link.
    pub cell_hops: u64,
    /// Cells that came on a circuit that is not.
    unknown_vc: u64,
    /// Packets that the mappers discarded.
    discarded: u64,
}

/// A switch or an adapter.
#[derive(Debug)]
struct AtmNode {
    name: String,
    /// Its first port among all.
    first_port: u32,
    controller: Controller<Gates>,
    /// For each port, where the cells of each circuit go.
    tables: Vec<Vec<Option<(u16, Vcid)>>>,
    adapter: Option<Adapter>,
    timer: SourceId,
}

/// What a router has on its ATM side.
#[derive(Debug)]
struct Adapter {
    router: NodeIndex,
    mapper: FlowMapper,
    reassembler: Reassembler,
}

impl Backbone {
    /// How many the kernel of the cells needs.
    pub fn event_sources(&self) -> u32 {
        2 * self.ports.len() as u32
    }

    fn node_of(&self, port: u32) -> (usize, u16) {
        let port = &self.ports[port as usize];
        (port.node as usize, port.id)
    }
}

impl Internet {
    fn backbone(&mut self) -> Option<&mut Backbone> {
        self.atm.as_deref_mut()
    }

    /// A router sends a packet to another one over the backbone.
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
            Body::Real(packet) => (packet.body.protocol(), ports(packet), None),
            Body::Fragment { .. } | Body::Free => (0, (0, 0), None),
        };
        FlowKey {
            src: address(packet.src),
            dst: address(packet.dst),
            tos: 0,
            protocol,
            src_port: ports.0,
            dst_port: ports.1,
            media: media.map(|media| match media {
                layercast_workload::app::Media::Video => MediaKind::Video,
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
                ..
            } = &mut backbone.nodes[node as usize];
            let output = adapter.as_mut().and_then(|it| {
                while it.mapper.poll_event().is_some() {}
                it.mapper.poll_transmit(now, &mut Off)
            });
            if let Some(output) = output {
                self.mapped(node, output);
            } else if let Some(event) = controller.poll_event() {
                self.signalled(node, event);
            } else if let Some((port, cell)) = controller.poll_transmit(now, &mut Off) {
                self.send_signal(node, port, cell);
            } else {
                let next = earliest(
                    controller.next_timeout(),
                    adapter.as_ref().and_then(|it| it.mapper.next_timeout()),
                );
                let timer = backbone.nodes[node as usize].timer;
                return self.kernel.schedule(timer, next.map(|at| at.max(now)));
            }
        }
    }

    /// A timer of a mapper or controller is due.
    pub(super) fn wake_atm(&mut self, node: u32) {
        let now = self.now;
        if let Some(backbone) = self.backbone() {
            let node = &mut backbone.nodes[node as usize];
            node.controller.on_timeout(now, &mut Off);
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
        }
    }

    fn signalled(&mut self, node: u32, event: ControllerEvent) {
        let now = self.now;
        let Some(backbone) = self.atm.as_deref_mut() else {
            return;
        };
        let state = &mut backbone.nodes[node as usize];
        let input = match event {
            ControllerEvent::Install(line) => {
                let port =
                    &mut backbone.ports[(state.first_port + u32::from(line.out_port.0)) as usize];
                port.queue
                    .open(line.out_vc, line.class, port::traffic(line.service));
                if line.in_port != PortId::LOCAL {
                    let table = &mut state.tables[usize::from(line.in_port.0)];
                    let place = usize::from(line.in_vc.0);
                    if table.len() <= place {
                        table.resize(place + 1, None);
                    }
                    table[place] = Some((line.out_port.0, line.out_vc));
                }
                return;
            }
            ControllerEvent::Remove(line) => {
                let port =
                    &mut backbone.ports[(state.first_port + u32::from(line.out_port.0)) as usize];
                port.queue.close(line.out_vc);
                if line.in_port != PortId::LOCAL {
                    let table = &mut state.tables[usize::from(line.in_port.0)];
                    if let Some(place) = table.get_mut(usize::from(line.in_vc.0)) {
                        *place = None;
                    }
                }
                return;
            }
            ControllerEvent::Ready { request, vc, .. } => MapperInput::Ready { request, vc },
            ControllerEvent::Rejected { request, cause } => {
                MapperInput::Rejected { request, cause }
            }
            ControllerEvent::Lost { vc, .. } => MapperInput::Lost { vc },
            ControllerEvent::Incoming { .. } => return,
            ControllerEvent::Released { vc, .. } => {
                // What came of a frame will not be completed.
                if let Some(adapter) = &mut state.adapter {
                    adapter.reassembler.forget(vc);
                }
                return;
            }
        };
        if let Some(adapter) = &mut state.adapter {
            adapter.mapper.handle(now, input, &mut Off);
        }
    }

    fn send_signal(&mut self, node: u32, port: PortId, cell: SignalCell) {
        let Some(backbone) = self.backbone() else {
            return;
        };
        let frame = backbone.frames.add(FrameBody::Signal(cell), 1);
        let port = backbone.nodes[node as usize].first_port + u32::from(port.0);
        self.put(port, Cell::of(frame, SIGNALLING, 0, 1));
    }

    /// The adaptation layer of an adapter: a packet as cells, all at once.
    fn send_frame(&mut self, node: u32, vc: Vcid, id: PacketId) {
        let cells = aal5_cells(self.packets.get(id).bytes as usize);
        let Some(backbone) = self.backbone() else {
            return;
        };
        let frame = backbone.frames.add(FrameBody::Packet(id), cells);
        let port = backbone.nodes[node as usize].first_port;
        for index in 0..cells {
            self.put(port, Cell::of(frame, vc, index, cells));
        }
    }

    /// A cell comes to the queue of a port.
    fn put(&mut self, port: u32, cell: Cell) {
        // At one instant what leaves the queue does so before what comes.
        self.transmit(port);
        let now = self.now;
        let Some(backbone) = self.backbone() else {
            return;
        };
        let queue = &mut backbone.ports[port as usize].queue;
        match queue.enqueue(now, cell) {
            Ok(()) => self.transmit(port),
            Err(_) => self.gone(cell),
        }
    }

    /// A cell is no more.
    fn gone(&mut self, cell: Cell) {
        let lost = self.backbone().and_then(|it| it.frames.less(cell.frame));
        if let Some(FrameBody::Packet(id)) = lost {
            self.packets.lose(id);
        }
    }

    /// Sends the next cell of a port if its link is free.
    fn transmit(&mut self, n: u32) {
        let now = self.now;
        let Some(backbone) = self.atm.as_deref_mut() else {
            return;
        };
        let port = &mut backbone.ports[n as usize];
        if port.queue.is_empty() {
            return;
        }
        if port.busy_until > now {
            return self.cells.schedule(leaves(n), Some(port.busy_until));
        }
        let next = match port.queue.dequeue(now) {
            Some(cell) => {
                port.busy_until = now + port.cell_time;
                let arrival = port.busy_until + port.delay;
                if port.wire.is_empty() {
                    self.cells.schedule(arrives(n), Some(arrival));
                }
                port.wire.push_back((arrival, cell));
                (!port.queue.is_empty()).then_some(port.busy_until)
            }
            None => port.queue.next_eligible(),
        };
        if let Some(next) = next {
            self.cells.schedule(leaves(n), Some(next));
        }
    }

    /// Something is due at a port.
    pub(super) fn cell_event(&mut self, source: SourceId) {
        let port = source.0 / 2;
        if source == leaves(port) {
            self.cells.schedule(source, None);
            self.transmit(port);
        } else {
            self.cell_arrives(port, source);
        }
    }

    /// The first cell on the wire of a port comes to its other end.
    fn cell_arrives(&mut self, n: u32, source: SourceId) {
        let Some(backbone) = self.atm.as_deref_mut() else {
            return;
        };
        let port = &mut backbone.ports[n as usize];
        let cell = port.wire.pop_front();
        let peer = port.peer;
        let next = port.wire.front().map(|(at, _)| *at);
        self.cells.schedule(source, next);
        let Some((_, cell)) = cell else {
            return;
        };
        backbone.cell_hops += 1;
        let (node, in_port) = backbone.node_of(peer);
        if cell.vc == SIGNALLING {
            return self.signal_arrives(node as u32, in_port, cell);
        }
        let state = &backbone.nodes[node];
        if state.adapter.is_some() {
            return self.reassemble(node as u32, cell);
        }
        let line = state.tables[usize::from(in_port)].get(usize::from(cell.vc.0));
        match line.copied().flatten() {
            Some((out_port, vc)) => {
                let port = state.first_port + u32::from(out_port);
                self.put(port, Cell { vc, ..cell });
            }
            None => {
                backbone.unknown_vc += 1;
                self.gone(cell);
            }
        }
    }

    fn signal_arrives(&mut self, node: u32, port: u16, cell: Cell) {
        let body = self.backbone().and_then(|it| it.frames.less(cell.frame));
        if let Some(FrameBody::Signal(cell)) = body {
            let port = PortId(port);
            self.tell_controller(node, ControllerInput::Cell { port, cell });
            self.settle_atm(node);
        }
    }

    fn reassemble(&mut self, node: u32, cell: Cell) {
        let Some(backbone) = self.atm.as_deref_mut() else {
            return;
        };
        let Backbone { nodes, frames, .. } = backbone;
        let Some(adapter) = &mut nodes[node as usize].adapter else {
            return;
        };
        let outcome = adapter.reassembler.push(cell, |frame| frames.cells(frame));
        let router = adapter.router;
        let whole = match outcome {
            Outcome::Complete(frame) => frames.take(frame).map(|it| (it, frames.cells(frame))),
            _ => None,
        };
        self.gone(cell);
        if let Some((FrameBody::Packet(id), cells)) = whole {
            self.arrive(router, id, cells);
        }
    }
}

/// The address of the adapter with this number.
fn address(adapter: usize) -> AtmAddress {
    AtmAddress(adapter as u16 + 1)
}
