//! Packets that go over the ATM backbone.

use layercast_atm::policy::{FlowKey, MediaKind};
use layercast_workload::app::Media;

use super::ecmp::Conversation;
use super::packet::Body;
use super::{Delivery, Medium};
use crate::internet::atm::{Backbone, Edge};
use crate::internet::engine::PacketId;
use crate::internet::network::NodeIndex;

impl Medium<'_> {
    /// The backbone, and what it uses of the medium.
    fn edge(&mut self) -> Option<(&mut Backbone, Edge<'_>)> {
        let edge = Edge {
            now: self.engine.now,
            packets: &mut self.packets,
            kernel: &mut self.engine.kernel,
        };
        Some((self.backbone.as_deref_mut()?, edge))
    }

    /// A router or host sends a packet to another one over the backbone.
    pub(super) fn over_backbone(&mut self, adapter: u32, id: PacketId, next: NodeIndex) {
        let key = self.flow_key(id);
        if let Some((backbone, mut edge)) = self.edge() {
            backbone.send((adapter, next), key, id, &mut edge);
        }
    }

    /// What tells the conversation of a packet. A part of one has no ports: those between two hosts share a circuit.
    fn flow_key(&self, id: PacketId) -> FlowKey {
        let packet = self.packets.get(id);
        let address = |node: NodeIndex| self.node_addresses[node.0 as usize];
        let Conversation { protocol, ports } = packet.body.conversation();
        let media = match &packet.body {
            Body::Udp(datagram) => datagram.media,
            Body::Mets(..) => Some(Media::Video),
            _ => None,
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

    /// A timer of a node of the backbone is due.
    pub(crate) fn wake_atm(&mut self, node: u32) {
        if let Some((backbone, mut edge)) = self.edge() {
            backbone.wake(node, &mut edge);
        }
    }

    /// Cells of a contract may be due.
    pub(crate) fn wake_contract(&mut self, number: u32) {
        if let Some((backbone, mut edge)) = self.edge() {
            backbone.wake_contract(number, &mut edge);
        }
    }

    /// Cells move; the last one of a packet may reach a node.
    #[inline(always)]
    pub(crate) fn cells_move(&mut self) -> Delivery {
        let out = self
            .edge()
            .and_then(|(backbone, mut edge)| backbone.cells_move(&mut edge));
        match out {
            Some(out) => self.arrive(out.node, out.packet, out.cells),
            None => Delivery::None,
        }
    }
}
