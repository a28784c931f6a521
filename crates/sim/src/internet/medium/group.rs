//! The way of packets to a group: each link and LAN of its tree carries one.

use std::sync::Arc;

use layercast_tcp::Ecn;
use layercast_wire::XtpPacket;

use super::Medium;
use super::ecmp::FlowMark;
use super::packet::{Body, IP_HEADER, NO_STEP, Packet, TTL};
use super::pipe::Offered;
use super::tree::Tree;
use crate::internet::discipline::Dscp;
use crate::internet::engine::PacketId;
use crate::internet::network::NodeIndex;

impl Medium<'_> {
    /// A node sends to the group of a flow from now on.
    pub(crate) fn add_group(&mut self, flow: u32, sender: NodeIndex, dscp: Dscp) {
        self.trees.insert(flow, Tree::new(sender, dscp));
    }

    /// What is sent to the group of a flow comes to a node, too; false if no way leads there but over ATM.
    pub(crate) fn attach_to_group(&mut self, flow: u32, node: NodeIndex) -> bool {
        let tree = self.trees.get_mut(&flow);
        tree.is_some_and(|tree| tree.attach(&self.routes, node))
    }

    /// A node has something for the group of a flow.
    pub(crate) fn send_to_group(&mut self, at: NodeIndex, flow: u32, packet: XtpPacket) {
        let tree = self.trees.get(&flow).filter(|tree| tree.root() == at);
        let Some(dscp) = tree.map(Tree::dscp) else {
            self.drops.no_route += 1;
            return;
        };
        let bytes = IP_HEADER + packet.encoded_len() as u32;
        let id = self.packets.add(Packet {
            src: at,
            dst: at,
            bytes,
            step: NO_STEP,
            flow: FlowMark::default(),
            ttl: TTL,
            ecn: Ecn::NotCapable,
            dscp,
            body: Body::Group(Arc::new(packet), flow),
        });
        if !self.charge(at, id) {
            self.spread(at, id);
        }
    }

    /// A packet of a group is at a node, which sends it or got it: it continues to all nodes that the tree of the group
    /// leads to from there.
    pub(crate) fn spread(&mut self, at: NodeIndex, id: PacketId) {
        let packet = self.packets.take_whole(id);
        let Body::Group(content, flow) = &packet.body else {
            return;
        };
        let tree = self.trees.get(flow);
        let branches = tree.map_or(&[][..], |it| it.branches(at)).to_vec();
        if branches.is_empty() {
            return;
        }
        let ttl = packet.ttl - u8::from(packet.src != at);
        if ttl == 0 {
            self.drops.ttl += 1;
            return;
        }
        for branch in branches {
            let copy = |dst| Packet {
                dst,
                ttl,
                body: Body::Group(content.clone(), *flow),
                ..packet
            };
            // One packet on the medium, however many stations take it.
            // XTP knows no marks.
            let mut ecn = packet.ecn;
            if self.ports.as_ref().is_some_and(|it| it.has(branch.pipe)) {
                // A link has one other end.
                for copy in branch.to.into_iter().map(copy) {
                    let bytes = copy.bytes;
                    let id = self.packets.add(copy);
                    self.takes_packet(branch.pipe, id, bytes);
                }
                continue;
            }
            let pipe = &mut self.pipes[branch.pipe as usize];
            let offered = pipe.offer(self.engine.now, packet.bytes, &mut ecn);
            let mut copies = branch.to.into_iter().map(copy);
            let Some(first) = copies.next() else {
                continue;
            };
            let to = first.dst;
            let id = self.packets.add(first);
            if self.captured.is_some() && offered.is_sent() {
                self.see(branch.pipe, id);
            }
            let when = match offered {
                Offered::Arrives(when) => when,
                // Only a link makes copies, and it has one other end.
                Offered::Twice([first, when]) => {
                    if let Some(copy) = self.copy_on(branch.pipe, id) {
                        self.comes(first, copy, to, branch.pipe);
                    }
                    when
                }
                lost => {
                    self.lost_on(branch.pipe, id, lost);
                    continue;
                }
            };
            self.comes(when, id, to, branch.pipe);
            for other in copies {
                let to = other.dst;
                let id = self.packets.add(other);
                self.comes(when, id, to, branch.pipe);
            }
        }
    }
}
