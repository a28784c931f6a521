//! A packet's way: what a node does with it, and where it goes next.

use layercast_core::{Span, Time};

use super::hop::{Hop, Interface};
use super::network::{CpuCost, NodeIndex};
use super::packet::{Arrival, Body, NO_STEP, Packet, PacketId};
use super::paths::{Step, Then};
use super::pipe::Offered;
use super::world::{Internet, NodeCpu};

impl Internet {
    /// A packet arrives at a node, in a number of cells if it came over ATM.
    #[inline(always)]
    pub(super) fn arrive(&mut self, at: NodeIndex, packet: PacketId, cells: u32) {
        let it = self.packets.get_mut(packet);
        if it.step != NO_STEP && it.dst != at {
            // On a path: the node does nothing but pass it on, immediately.
            it.ttl -= 1;
            if it.ttl == 0 {
                return self.expired(at, packet);
            }
            return self.go_on(at, packet);
        }
        let Some(node) = self.nodes[at.0 as usize].cpu.as_deref_mut() else {
            return self.process(at, packet);
        };
        if node.cost.queue.is_some_and(|most| node.arrived > most) {
            self.drops.busy += 1;
            return self.lost_at_processor(at, packet);
        }
        node.arrived += 1;
        let bytes = u64::from(self.packets.get(packet).bytes);
        let cells = node.cost.per_cell.times(u64::from(cells));
        let cost = node.cost.per_packet + node.cost.per_byte.times(bytes) + cells;
        let begins = node.push(self.now, cost, packet);
        if begins.is_some() {
            self.kernel.schedule(node.source, begins);
        }
    }

    pub(super) fn processed(&mut self, at: NodeIndex) {
        let Some(node) = self.nodes[at.0 as usize].cpu.as_deref_mut() else {
            return;
        };
        let done = node.cpu.pop_done(self.now);
        self.kernel.schedule(node.source, node.cpu.next_done());
        let Some((_, id)) = done else {
            return;
        };
        let packet = self.packets.get(id);
        if packet.src == at {
            return match packet.body {
                Body::Group(..) => self.process_group(at, id),
                _ => self.send(at, id),
            };
        }
        let packet = id;
        node.arrived -= 1;
        self.process(at, packet);
    }

    #[inline(always)]
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
            return self.expired(at, id);
        }
        self.send(at, id);
    }

    /// A packet for the node itself.
    fn receive(&mut self, at: NodeIndex, id: PacketId) {
        let Some(id) = self.packets.join(id) else {
            return;
        };
        if self.external.is_some() && self.hand_out(at, id) {
            return;
        }
        let host = self.nodes[at.0 as usize].host;
        let packet = self.packets.get_mut(id);
        let (src, bytes) = (packet.src, packet.bytes);
        if let (Body::Tcp(segment), Some(host)) = (&mut packet.body, host) {
            let state = &mut self.hosts[host as usize];
            let address = |node: NodeIndex| self.node_addresses[node.0 as usize];
            let ends = state.ends(src);
            let ends = ends.unwrap_or_else(|| (address(src), address(at)));
            state
                .endpoint
                .receive(self.now, ends, segment, &mut self.obs);
            self.packets.remove(id);
            return self.touch(host);
        }
        if let Body::Group(..) = packet.body {
            return self.process_group(at, id);
        }
        match (self.packets.take(id), host) {
            (Body::Udp(datagram), Some(_)) => self.datagram(datagram, bytes),
            (Body::Xtp(packet, carrier), Some(host)) => {
                self.take_xtp(host, (src, at), *packet, carrier);
            }
            (Body::Mets(framed, wire), _) => self.mets_arrived(wire, *framed),
            (Body::Real(packet), host) => self.answer(at, host, src, *packet),
            _ => self.drops.not_mine += 1,
        }
    }

    /// A packet of a group is at a node, which sends it or got it.
    pub(super) fn process_group(&mut self, at: NodeIndex, id: PacketId) {
        let Packet {
            src,
            dst,
            bytes,
            ttl,
            step,
            ..
        } = *self.packets.get(id);
        let body = self.packets.take(id);
        let packet = Packet {
            src,
            dst,
            bytes,
            step,
            ttl,
            body,
        };
        self.spread(at, packet);
    }

    /// Sends a packet on the next link of its path, then, and on those after it as far as no other packet can
    /// interfere.
    #[inline(always)]
    pub(super) fn follow(&mut self, at: Time, id: PacketId) {
        let bytes = self.packets.get(id).bytes;
        let mut now = at;
        loop {
            let packet = self.packets.get_mut(id);
            let step = self.paths.step(packet.step);
            packet.step += 1;
            let offered = self.pipes[step.pipe as usize].offer(now, bytes);
            if self.captured.is_some() && offered.is_sent() {
                self.see(step.pipe, id);
            }
            let Offered::Arrives(then) = offered else {
                return self.lost_on(step.pipe, id, offered);
            };
            if !self.comes_out(step, then, id) {
                return;
            }
            now = then;
        }
    }

    /// A packet comes out of the link of a step of its path, then; whether it is to enter the next one immediately.
    #[inline(always)]
    pub(super) fn comes_out(&mut self, step: Step, then: Time, id: PacketId) -> bool {
        let packet = self.packets.get_mut(id);
        let pipe = &mut self.pipes[step.pipe as usize];
        match step.then {
            // As on arrival there: no packet precedes it, whatever happens meanwhile.
            Then::Enters
                if then <= self.paths.straight_until
                    && self.now > pipe.plain_until
                    && packet.ttl > 1 =>
            {
                packet.ttl -= 1;
                self.packet_hops += 1;
                return true;
            }
            Then::Waits(inbox) if self.paths.may_wait && packet.ttl > 1 => {
                packet.ttl -= 1;
                self.put(inbox, then, id);
            }
            Then::Leaves => self.leave(then, id, step.next, step.pipe),
            _ => {
                if step.then == Then::Enters {
                    pipe.plain_until = then;
                }
                let arrival = Arrival {
                    packet: id,
                    to: step.next,
                    by: step.pipe,
                };
                self.arrivals.add(then, arrival);
            }
        }
        false
    }

    /// Sends a packet of a node on its path.
    #[inline(always)]
    fn go_on(&mut self, at: NodeIndex, id: PacketId) {
        let packet = self.packets.get(id);
        let step = self.paths.step(packet.step);
        let mtu = self.pipes[step.pipe as usize].mtu();
        if packet.bytes > mtu {
            self.send_in_parts(at, None, id, mtu);
        } else {
            self.follow(self.now, id);
        }
    }

    /// Sends a packet of this node, or one it forwards, on its way.
    #[inline(always)]
    pub(super) fn send(&mut self, at: NodeIndex, id: PacketId) {
        let packet = self.packets.get(id);
        if packet.step != NO_STEP {
            return self.go_on(at, id);
        }
        let Some(hop) = self.routes.next(at, packet.dst, packet.src) else {
            return self.no_route(at, id);
        };
        let bytes = packet.bytes;
        let mtu = match hop.interface {
            Interface::Pipe(n) => self.pipes[n as usize].mtu(),
            Interface::Atm(_) => self.atm_mtu,
        };
        if bytes <= mtu {
            self.send_on(hop, id, bytes);
        } else {
            self.send_in_parts(at, Some(hop), id, mtu);
        }
    }

    /// Cuts a packet for a hop, or for its path.
    #[cold]
    fn send_in_parts(&mut self, at: NodeIndex, hop: Option<Hop>, id: PacketId, mtu: u32) {
        if self.must_stay_whole(id) {
            return self.too_big(at, id, mtu);
        }
        let mut parts = std::mem::take(&mut self.parts);
        self.packets.cut(id, mtu, &mut parts);
        for &part in &parts {
            match hop {
                Some(hop) => self.send_on(hop, part, self.packets.get(part).bytes),
                None => self.go_on(at, part),
            }
        }
        self.parts = parts;
    }

    #[inline(always)]
    fn send_on(&mut self, hop: Hop, id: PacketId, bytes: u32) {
        match hop.interface {
            Interface::Pipe(n) => self.offer(n, id, bytes, hop.next),
            Interface::Atm(n) => self.over_backbone(n, id, hop.next),
        }
    }

    #[inline(always)]
    fn offer(&mut self, pipe: u32, id: PacketId, bytes: u32, to: NodeIndex) {
        if self.classes.is_none() || !self.takes_class(pipe, id, bytes) {
            self.enter(pipe, id, bytes, to);
        }
    }

    /// A packet enters a link.
    #[inline(always)]
    pub(super) fn enter(&mut self, pipe: u32, id: PacketId, bytes: u32, to: NodeIndex) {
        let offered = self.pipes[pipe as usize].offer(self.now, bytes);
        if self.captured.is_some() && offered.is_sent() {
            self.see(pipe, id);
        }
        match offered {
            Offered::Arrives(at) if self.is_elsewhere(to) => self.leave(at, id, to, pipe),
            Offered::Arrives(at) => {
                let (packet, by) = (id, pipe);
                self.arrivals.add(at, Arrival { packet, to, by });
            }
            lost => self.lost_on(pipe, id, lost),
        }
    }

    /// Puts a new packet on its way.
    #[inline]
    pub(super) fn originate(&mut self, mut packet: Packet) {
        let at = packet.src;
        packet.step = self.path(at, packet.dst);
        let id = self.packets.add(packet);
        self.set_out(at, id);
    }

    /// A packet with its first step, if it has one, leaves the node where it came to be.
    #[inline(always)]
    pub(super) fn set_out(&mut self, at: NodeIndex, id: PacketId) {
        match self.packets.get(id).step {
            NO_STEP => self.depart(at, id),
            _ if self.has_processors => self.depart(at, id),
            _ => self.go_on(at, id),
        }
    }

    /// A packet leaves the node where it came to be.
    #[inline]
    pub(super) fn depart(&mut self, at: NodeIndex, id: PacketId) {
        if self.packets.get(id).dst == at {
            // To itself: nothing is modelled of a loopback.
            return self.receive(at, id);
        }
        if !self.charge(at, id) {
            self.send(at, id);
        }
    }

    /// Whether sending a packet costs the processor of its node time, which continues with it then.
    #[inline]
    pub(super) fn charge(&mut self, at: NodeIndex, id: PacketId) -> bool {
        let Some(node) = self.nodes[at.0 as usize].cpu.as_deref_mut() else {
            return false;
        };
        let CpuCost {
            per_sent,
            per_sent_byte,
            ..
        } = node.cost;
        if (per_sent, per_sent_byte) == (Span::ZERO, Span::ZERO) {
            return false;
        }
        let bytes = u64::from(self.packets.get(id).bytes);
        let cost = per_sent + per_sent_byte.times(bytes);
        let begins = node.push(self.now, cost, id);
        if begins.is_some() {
            self.kernel.schedule(node.source, begins);
        }
        true
    }
}

impl NodeCpu {
    /// Takes a packet; when it is done, if it is the only one.
    fn push(&mut self, now: Time, cost: Span, packet: PacketId) -> Option<Time> {
        let cost = match self.cost.jitter > 0.0 {
            true => {
                let factor = 1.0 + self.cost.jitter * (2.0 * self.stream.unit() - 1.0);
                Span::from_secs_f64(cost.as_secs_f64() * factor)
            }
            false => cost,
        };
        let idle = self.cpu.next_done().is_none();
        self.cpu.push(now, cost, packet);
        self.cpu.next_done().filter(|_| idle)
    }
}
