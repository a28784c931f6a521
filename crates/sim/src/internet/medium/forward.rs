//! A packet's way: what a node does with it, and where it goes next.

use layercast_core::Time;
use layercast_tcp::Ecn;

use super::Medium;
use super::ecmp::{Conversation, FlowMark};
use super::hop::{Hop, Interface};
use super::packet::{Body, NO_STEP, Packet, TTL};
use super::paths::{Step, Then};
use super::pipe::Offered;
use super::{Cause, Delivery};
use crate::internet::engine::{Arrival, PacketId};
use crate::internet::network::NodeIndex;

impl Medium<'_> {
    /// A packet arrives at a node, in a number of cells if it came over ATM.
    #[inline(always)]
    pub(crate) fn arrive(&mut self, at: NodeIndex, packet: PacketId, cells: u32) -> Delivery {
        let it = self.packets.get_mut(packet);
        if it.step != NO_STEP && it.dst != at {
            // On a path: the node does nothing but pass it on, immediately.
            it.ttl -= 1;
            if it.ttl == 0 {
                return self.fails(at, packet, Cause::Expired);
            }
            return self.go_on(at, packet);
        }
        let Some(node) = self.nodes[at.0 as usize].cpu.as_deref_mut() else {
            return self.process(at, packet);
        };
        if node.cost.queue.is_some_and(|most| node.arrived > most) {
            self.drops.busy += 1;
            self.lost_at_processor(at, packet);
            return Delivery::None;
        }
        node.arrived += 1;
        let bytes = u64::from(self.packets.get(packet).bytes);
        let cells = node.cost.per_cell.times(u64::from(cells));
        let cost = node.cost.per_packet + node.cost.per_byte.times(bytes) + cells;
        let begins = node.push(self.engine.now, cost, packet);
        if begins.is_some() {
            self.engine.kernel.schedule(node.source, begins);
        }
        Delivery::None
    }

    /// A node gets to a packet.
    #[inline(always)]
    pub(super) fn process(&mut self, at: NodeIndex, id: PacketId) -> Delivery {
        let packet = self.packets.get_mut(id);
        if packet.dst == at {
            return self.whole(at, id);
        }
        if self.nodes[at.0 as usize].host.is_some() {
            self.drops.not_mine += 1;
            self.packets.lose(id);
            return Delivery::None;
        }
        packet.ttl -= 1;
        if packet.ttl == 0 {
            return self.fails(at, id, Cause::Expired);
        }
        self.send(at, id)
    }

    /// A packet has come to the node it is for. Of one that was cut it is the last part, or nothing is there yet.
    #[inline(always)]
    fn whole(&mut self, at: NodeIndex, id: PacketId) -> Delivery {
        match self.packets.join(id) {
            Some(id) => Delivery::Local(at, id),
            None => Delivery::None,
        }
    }

    /// A packet ends at a node and is counted. The sender of a real one is to hear of it; of parts only the first is
    /// answered (RFC 1122 3.2.2).
    #[cold]
    pub(crate) fn fails(&mut self, at: NodeIndex, id: PacketId, cause: Cause) -> Delivery {
        self.count(cause);
        let body = match &self.packets.get(id).body {
            Body::Fragment { group, offset: 0 } => &self.packets.whole(*group).body,
            body => body,
        };
        if matches!(body, Body::Real(_)) {
            return Delivery::Failed(at, id, cause);
        }
        self.packets.lose(id);
        Delivery::None
    }

    /// Counts a packet that did not arrive.
    pub(crate) fn count(&mut self, cause: Cause) {
        match cause {
            Cause::TooBig(_) => self.drops.too_big += 1,
            Cause::Expired => self.drops.ttl += 1,
            Cause::Net | Cause::Host => self.drops.no_route += 1,
            Cause::Protocol | Cause::Port => self.drops.not_mine += 1,
        }
    }

    /// Sends a packet on the next link of its path, then, and on those after it as far as no other packet can
    /// interfere.
    #[inline(always)]
    pub(crate) fn follow(&mut self, at: Time, id: PacketId) {
        let mut now = at;
        loop {
            let packet = self.packets.get_mut(id);
            let step = self.paths.step(packet.step);
            packet.step += 1;
            let pipe = &mut self.pipes[step.pipe as usize];
            let offered = pipe.offer(now, packet.bytes, &mut packet.ecn);
            if self.captured.is_some() && offered.is_sent() {
                self.see(step.pipe, id);
            }
            let then = match offered {
                Offered::Arrives(then) => then,
                Offered::Twice([first, then]) => {
                    self.copy_comes_out(step, first, id);
                    then
                }
                lost => return self.lost_on(step.pipe, id, lost),
            };
            if !self.comes_out(step, then, id) {
                return;
            }
            now = then;
        }
    }

    /// A copy of a packet comes out of the link of a step of its path, then. The next link is not entered immediately.
    #[cold]
    fn copy_comes_out(&mut self, step: Step, then: Time, id: PacketId) {
        if let Some(copy) = self.copy_on(step.pipe, id) {
            let enters = self.comes_out(step, then, copy);
            debug_assert!(!enters, "a link that makes copies is no feeder");
        }
    }

    /// A packet comes out of the link of a step of its path, then; whether it is to enter the next one immediately.
    #[inline(always)]
    pub(crate) fn comes_out(&mut self, step: Step, then: Time, id: PacketId) -> bool {
        let packet = self.packets.get_mut(id);
        let pipe = &mut self.pipes[step.pipe as usize];
        match step.then {
            // As on arrival there: no packet precedes it, whatever happens meanwhile.
            Then::Enters
                if then <= self.paths.straight_until
                    && self.engine.now > pipe.plain_until
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
                self.engine.arrivals.add(then, arrival);
            }
        }
        false
    }

    /// Sends a packet of a node on its path.
    #[inline(always)]
    fn go_on(&mut self, at: NodeIndex, id: PacketId) -> Delivery {
        let packet = self.packets.get(id);
        let step = self.paths.step(packet.step);
        let mtu = self.pipes[step.pipe as usize].mtu();
        if packet.bytes > mtu {
            return self.send_in_parts(at, None, id, mtu);
        }
        self.follow(self.engine.now, id);
        Delivery::None
    }

    /// Sends a packet of this node, or one it forwards, on its way.
    #[inline(always)]
    pub(crate) fn send(&mut self, at: NodeIndex, id: PacketId) -> Delivery {
        let packet = self.packets.get(id);
        if packet.step != NO_STEP {
            return self.go_on(at, id);
        }
        let Some(hop) = self.routes.next(at, packet.dst, packet.flow) else {
            return self.fails(at, id, Cause::Net);
        };
        let bytes = packet.bytes;
        let mtu = match hop.interface {
            Interface::Pipe(n) => self.pipes[n as usize].mtu(),
            Interface::Atm(_) => self.atm_mtu,
        };
        if bytes > mtu {
            return self.send_in_parts(at, Some(hop), id, mtu);
        }
        self.send_on(hop, id, bytes);
        Delivery::None
    }

    /// Cuts a packet for a hop, or for its path.
    #[cold]
    fn send_in_parts(
        &mut self,
        at: NodeIndex,
        hop: Option<Hop>,
        id: PacketId,
        mtu: u32,
    ) -> Delivery {
        // It may not be cut (RFC 1191).
        if matches!(&self.packets.get(id).body, Body::Real(packet) if packet.dont_fragment) {
            return self.fails(at, id, Cause::TooBig(mtu));
        }
        let mut parts = std::mem::take(&mut self.parts);
        self.packets.cut(id, mtu, &mut parts);
        for &part in &parts {
            match hop {
                Some(hop) => self.send_on(hop, part, self.packets.get(part).bytes),
                None => self.follow(self.engine.now, part),
            }
        }
        self.parts = parts;
        Delivery::None
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
        if !self.has_queues || !self.takes_packet(pipe, id, bytes) {
            self.enter(pipe, id, bytes, to);
        }
    }

    /// A packet enters a link.
    #[inline(always)]
    pub(crate) fn enter(&mut self, pipe: u32, id: PacketId, bytes: u32, to: NodeIndex) {
        let ecn = &mut self.packets.get_mut(id).ecn;
        let offered = self.pipes[pipe as usize].offer(self.engine.now, bytes, ecn);
        if self.captured.is_some() && offered.is_sent() {
            self.see(pipe, id);
        }
        match offered {
            Offered::Arrives(at) => self.comes(at, id, to, pipe),
            Offered::Twice([first, at]) => {
                if let Some(copy) = self.copy_on(pipe, id) {
                    self.comes(first, copy, to, pipe);
                }
                self.comes(at, id, to, pipe);
            }
            lost => self.lost_on(pipe, id, lost),
        }
    }

    /// A link copies a packet, if that is whole.
    pub(crate) fn copy_on(&mut self, pipe: u32, id: PacketId) -> Option<PacketId> {
        let copy = self.packets.copy(id)?;
        self.pipes[pipe as usize].copied();
        if let Body::Mets(_, wire) = self.packets.get(copy).body {
            *self.mets_copies.entry(wire).or_default() += 1;
        }
        Some(copy)
    }

    /// A packet comes to a node, then, over a link.
    #[inline(always)]
    pub(super) fn comes(&mut self, at: Time, packet: PacketId, to: NodeIndex, by: u32) {
        if self.is_elsewhere(to) {
            return self.leave(at, packet, to, by);
        }
        self.engine.arrivals.add(at, Arrival { packet, to, by });
    }

    /// Puts a new packet from one node to another on its way.
    #[inline]
    pub(crate) fn originate(&mut self, (src, dst): (NodeIndex, NodeIndex), bytes: u32, body: Body) {
        let conversation = body.conversation();
        let flow = self.mark(conversation, (src, dst));
        let dscp = self.dscp(conversation, (src, dst));
        let step = self.path(src, dst, flow).step;
        let id = self.packets.add(Packet {
            src,
            dst,
            bytes,
            step,
            flow,
            ttl: TTL,
            ecn: Ecn::NotCapable,
            dscp,
            body,
        });
        self.set_out(src, id);
    }

    /// A new packet passes a link whose line its sender has for itself, and comes to the other end then.
    #[inline]
    pub(crate) fn lands(
        &mut self,
        pipe: u32,
        (src, dst): (NodeIndex, NodeIndex),
        (at, bytes): (Time, u32),
        body: Body,
    ) {
        let dscp = self.dscp(body.conversation(), (src, dst));
        let id = self.packets.add(Packet {
            src,
            dst,
            bytes,
            step: NO_STEP,
            flow: FlowMark::default(),
            ttl: TTL,
            ecn: Ecn::NotCapable,
            dscp,
            body,
        });
        if self.captured.is_some() {
            self.see(pipe, id);
        }
        self.comes(at, id, dst, pipe);
    }

    /// What routers tell a conversation of two nodes by.
    #[inline]
    pub(crate) fn mark(
        &self,
        conversation: Conversation,
        (src, dst): (NodeIndex, NodeIndex),
    ) -> FlowMark {
        let address = |node: NodeIndex| self.node_addresses[node.0 as usize];
        conversation.mark(address(src), address(dst))
    }

    /// A packet with its first step, if it has one, leaves the node where it came to be.
    #[inline(always)]
    pub(crate) fn set_out(&mut self, at: NodeIndex, id: PacketId) {
        match self.packets.get(id).step {
            NO_STEP => self.depart(at, id),
            _ if self.has_processors => self.depart(at, id),
            _ => {
                let delivery = self.go_on(at, id);
                self.keep(delivery);
            }
        }
    }

    /// A packet leaves the node where it came to be.
    #[inline]
    pub(crate) fn depart(&mut self, at: NodeIndex, id: PacketId) {
        let delivery = if self.packets.get(id).dst == at {
            // To itself: nothing is modelled of a loopback.
            self.whole(at, id)
        } else if self.charge(at, id) {
            Delivery::None
        } else {
            self.send(at, id)
        };
        self.keep(delivery);
    }

    /// Keeps what came of a packet that a node sent, until the node has done what it is doing.
    #[inline(always)]
    pub(crate) fn keep(&mut self, delivery: Delivery) {
        if delivery != Delivery::None {
            self.local.push_back(delivery);
        }
    }
}
