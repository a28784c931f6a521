//! One thread's part of a network that several threads simulate: some of the nodes, and their outgoing links.
//!
//! It also holds the machines of the other parts, in their initial state and unused.

use core::net::SocketAddrV4;
use std::sync::Arc;

use layercast_core::Time;

use super::division::Division;
use super::hosts::User;
use super::network::{Network, NodeIndex};
use super::packet::{Arrival, Body, NO_STEP, Packet, PacketId};
use super::world::Internet;

/// The nodes of a thread, and its messages to the others.
#[derive(Debug)]
pub(super) struct Share {
    number: u8,
    of_nodes: Arc<[u8]>,
    /// For each of the others.
    messages: Vec<Vec<Message>>,
    /// The earliest time of an event in these messages, or in messages still to come.
    first: Time,
    /// The inboxes of links that lead to other parts.
    inboxes: Vec<u32>,
}

/// A message from one thread to another.
#[derive(Debug)]
pub(super) enum Message {
    /// A packet arrives at a node at this time, over a link.
    Arrives(Time, Packet, NodeIndex, u32),
    /// A host will have a connection from a peer to one of its ports, for a user.
    Expects(u32, SocketAddrV4, u16, User),
}

impl Share {
    /// Whether this is the first of all threads.
    pub fn is_first(&self) -> bool {
        self.number == 0
    }

    /// Swaps the messages to another thread with an empty list.
    pub fn exchange(&mut self, to: usize, empty: &mut Vec<Message>) {
        std::mem::swap(&mut self.messages[to], empty);
    }

    /// Returns and resets the earliest time of an event sent to other threads, or to be sent soon.
    pub fn take_first(&mut self) -> Time {
        std::mem::replace(&mut self.first, Time::MAX)
    }
}

impl Internet {
    /// Restricts the world to the part of one thread, before the first event.
    pub(super) fn share(&mut self, network: &Network, division: &Division, number: usize) {
        let has = |node: NodeIndex| division.part(node) == number;
        for flow in self.flows.iter().filter(|it| !has(it.from())) {
            self.kernel.schedule(flow.source(), None);
        }
        let leads_away = |pipe: u32| is_cut(network, division, pipe);
        self.paths
            .share(|step| leads_away(step.pipe) && !has(step.next));
        self.share = Some(Box::new(Share {
            number: number as u8,
            of_nodes: division.of_nodes.clone(),
            messages: (0..division.parts).map(|_| Vec::new()).collect(),
            first: Time::MAX,
            inboxes: self.inboxes.of_pipes(leads_away).collect(),
        }));
    }

    /// Whether a node belongs to another thread.
    #[inline]
    pub(super) fn is_elsewhere(&self, node: NodeIndex) -> bool {
        let share = self.share.as_ref();
        share.is_some_and(|share| share.of_nodes[node.0 as usize] != share.number)
    }

    /// Sends a packet to a node of another thread: it arrives at `at` over the link `by`.
    pub(super) fn leave(&mut self, at: Time, id: PacketId, to: NodeIndex, by: u32) {
        let Some(share) = &mut self.share else {
            return;
        };
        let packet = self.packets.take_whole(id);
        // A fragment refers to a packet of this part: packets that may be fragmented do not cross between parts.
        debug_assert!(!matches!(packet.body, Body::Fragment { .. }));
        share.first = share.first.min(at);
        let part = share.of_nodes[to.0 as usize];
        share.messages[usize::from(part)].push(Message::Arrives(at, packet, to, by));
    }

    /// Announces a connection to the thread that has its host.
    pub(super) fn announce(&mut self, host: u32, peer: SocketAddrV4, port: u16, user: User) {
        let node = self.hosts[host as usize].node;
        if let Some(share) = &mut self.share {
            let part = share.of_nodes[node.0 as usize];
            let message = Message::Expects(host, peer, port, user);
            share.messages[usize::from(part)].push(message);
        }
    }

    /// All arrivals up to `until` are known. Packets that wait for a link to another part enter it now, so that they are
    /// announced in time; the next one bounds how far the other parts may advance.
    pub(super) fn fill_links_to_others(&mut self, until: Time) {
        let Some(share) = &mut self.share else {
            return;
        };
        let inboxes = std::mem::take(&mut share.inboxes);
        let mut first = Time::MAX;
        for &inbox in &inboxes {
            self.empty(inbox, until);
            first = first.min(self.inboxes.first(inbox).unwrap_or(Time::MAX));
        }
        if let Some(share) = &mut self.share {
            share.first = share.first.min(first);
            share.inboxes = inboxes;
        }
    }

    /// Handles a message of another thread.
    pub(super) fn take_message(&mut self, message: Message) {
        match message {
            Message::Arrives(at, packet, to, by) => {
                let step = packet.step;
                self.packets.prepare_places();
                let id = self.packets.add(packet);
                if step == NO_STEP {
                    let packet = id;
                    return self.arrivals.add(at, Arrival { packet, to, by });
                }
                let step = self.paths.step(step - 1);
                if self.comes_out(step, at, id) {
                    self.follow(at, id);
                }
            }
            Message::Expects(host, peer, port, user) => self.expect(host, peer, port, user),
        }
    }

    /// Takes over the part of another thread, at the end.
    pub(super) fn absorb(&mut self, network: &Network, division: &Division, mut other: Internet) {
        let Some(number) = other.share.take().map(|share| usize::from(share.number)) else {
            return;
        };
        let has = |node: NodeIndex| division.part(node) == number;
        for (host, others) in self.hosts.iter_mut().zip(&mut other.hosts) {
            if has(host.node) {
                std::mem::swap(host, others);
            }
        }
        for n in 0..self.pipes.len() {
            if has(sender(network, n as u32)) {
                std::mem::swap(&mut self.pipes[n], &mut other.pipes[n]);
            }
        }
        for n in 0..self.flows.len() {
            let (flow, others) = (&mut self.flows[n], &mut other.flows[n]);
            if has(flow.to()) {
                flow.take_received(others);
                self.flow_bytes[n] = other.flow_bytes[n];
            }
            if has(flow.from()) {
                others.take_received(flow);
                std::mem::swap(flow, others);
            }
        }
        self.drops += other.drops;
        self.count(&other);
    }
}

/// The sender on a link; on a LAN the first station, since all stations are in one part.
fn sender(network: &Network, pipe: u32) -> NodeIndex {
    let pipe = pipe as usize;
    match network.links.get(pipe / 2) {
        Some(link) => link.ends[pipe % 2],
        None => network.lans[pipe - 2 * network.links.len()].stations[0],
    }
}

/// Whether a link leads from one part to another.
fn is_cut(network: &Network, division: &Division, pipe: u32) -> bool {
    let link = network.links.get(pipe as usize / 2);
    link.is_some_and(|link| division.part(link.ends[0]) != division.part(link.ends[1]))
}
