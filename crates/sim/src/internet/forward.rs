//! A packet's way: what a node does with it, and where it goes next.

use super::packet::{Body, Packet, PacketId};
use super::pipe::Offered;
use super::routes::{Hop, Interface};
use super::{CpuCost, Internet, NodeIndex};
use crate::kernel::SourceId;

impl Internet {
    /// A packet comes to a node, in so many cells if it came over ATM.
    pub(super) fn arrive(&mut self, at: NodeIndex, packet: PacketId, cells: u32) {
        let Some(cpu) = &mut self.nodes[at.0 as usize].cpu else {
            return self.process(at, packet);
        };
        let CpuCost {
            per_packet,
            per_byte,
            per_cell,
        } = cpu.cost;
        let bytes = self.packets.get(packet).bytes;
        let cost = per_packet + per_byte.times(u64::from(bytes)) + per_cell.times(u64::from(cells));
        cpu.busy_until = cpu.busy_until.max(self.now).saturating_add(cost);
        if cpu.line.is_empty() {
            self.kernel.schedule(cpu.source, Some(cpu.busy_until));
        }
        cpu.line.push_back((cpu.busy_until, packet));
    }

    pub(super) fn processed(&mut self, at: NodeIndex, source: SourceId) {
        let Some(cpu) = &mut self.nodes[at.0 as usize].cpu else {
            return;
        };
        let done = cpu.line.pop_front();
        let next = cpu.line.front().map(|(at, _)| *at);
        self.kernel.schedule(source, next);
        if let Some((_, packet)) = done {
            self.process(at, packet);
        }
    }

    fn process(&mut self, at: NodeIndex, id: PacketId) {
        let packet = self.packets.get_mut(id);
        if packet.dst == at {
            return self.receive(at, id);
        }
        if self.nodes[at.0 as usize].host.is_some() {
            self.drops.not_mine += 1;
            return self.packets.lose(id);
        }
        packet.ttl -= 1;
        if packet.ttl == 0 {
            self.drops.ttl += 1;
            return self.packets.lose(id);
        }
        self.send(at, id);
    }

    /// A packet for the node itself.
    fn receive(&mut self, at: NodeIndex, id: PacketId) {
        let Some(id) = self.packets.join(id) else {
            return;
        };
        let (src, bytes) = (self.packets.get(id).src, self.packets.get(id).bytes);
        match (self.packets.take(id), self.nodes[at.0 as usize].host) {
            (Body::Tcp(segment), Some(host)) => self.segment(host, src, segment),
            (Body::Udp(datagram), Some(_)) => self.datagram(datagram, bytes),
            _ => self.drops.not_mine += 1,
        }
    }

    /// Sends a packet of this node, or one it forwards, on its way.
    pub(super) fn send(&mut self, at: NodeIndex, id: PacketId) {
        let packet = self.packets.get(id);
        // All packets between two hosts take one way.
        let flow = packet.src.0.wrapping_mul(0x9e37_79b9) ^ packet.dst.0.wrapping_mul(0x85eb_ca6b);
        let Some(hop) = self.routes.next(at, packet.dst, flow >> 7) else {
            self.drops.no_route += 1;
            return self.packets.lose(id);
        };
        let bytes = packet.bytes;
        let mtu = match hop.interface {
            Interface::Pipe(n) => self.pipes[n as usize].mtu,
            Interface::Atm(_) => self.atm_mtu,
        };
        if bytes <= mtu {
            return self.send_on(hop, id, bytes);
        }
        let mut parts = std::mem::take(&mut self.parts);
        self.packets.cut(id, mtu, &mut parts);
        for &part in &parts {
            let bytes = self.packets.get(part).bytes;
            self.send_on(hop, part, bytes);
        }
        self.parts = parts;
    }

    fn send_on(&mut self, hop: Hop, id: PacketId, bytes: u32) {
        match hop.interface {
            Interface::Pipe(n) => self.offer(n, id, bytes, hop.next),
            Interface::Atm(n) => self.over_backbone(n, id, hop.next),
        }
    }

    fn offer(&mut self, pipe: u32, id: PacketId, bytes: u32, to: NodeIndex) {
        let offered = self.pipes[pipe as usize].offer(self.now, id, bytes, to);
        if self.captured.is_some() && offered != Offered::Dropped {
            self.see(pipe, id);
        }
        match offered {
            // Pipes are the first sources.
            Offered::First(at) => self.kernel.schedule(SourceId(pipe), Some(at)),
            Offered::Later => {}
            Offered::Lost | Offered::Dropped => self.packets.lose(id),
        }
    }

    /// Puts a new packet on its way.
    pub(super) fn originate(&mut self, packet: Packet) {
        let at = packet.src;
        let id = self.packets.add(packet);
        if self.packets.get(id).dst == at {
            // To itself: nothing is modelled of a loopback.
            return self.receive(at, id);
        }
        self.send(at, id);
    }
}
