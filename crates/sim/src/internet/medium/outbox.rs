//! What one thread of several that simulate a network says to the others.
//!
//! A thread has some of the nodes, and their outgoing links. It also holds the machines of the other parts, in their initial
//! state and unused.

use core::net::SocketAddrV4;
use std::sync::Arc;

use layercast_core::Time;

use super::Medium;
use super::packet::{Body, NO_STEP, Packet};
use super::user::User;
use crate::internet::engine::{Arrival, PacketId};
use crate::internet::network::NodeIndex;

/// The nodes of a thread, and its messages to the others.
#[derive(Debug)]
pub(crate) struct Outbox {
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
pub(crate) enum Message {
    /// A packet arrives at a node at this time, over a link.
    Arrives(Time, Packet, NodeIndex, u32),
    /// A host will have a connection from a peer to one of its ports, for a user.
    Expects(u32, SocketAddrV4, u16, User),
}

impl Outbox {
    /// For a thread of several; its links to the others have these inboxes.
    pub fn new(number: u8, of_nodes: Arc<[u8]>, parts: usize, inboxes: Vec<u32>) -> Outbox {
        Outbox {
            number,
            of_nodes,
            messages: (0..parts).map(|_| Vec::new()).collect(),
            first: Time::MAX,
            inboxes,
        }
    }

    /// The number of the thread.
    pub fn number(&self) -> u8 {
        self.number
    }

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

impl Medium<'_> {
    /// Whether a node belongs to another thread.
    #[inline]
    pub(crate) fn is_elsewhere(&self, node: NodeIndex) -> bool {
        let outbox = self.outbox.as_ref();
        outbox.is_some_and(|outbox| outbox.of_nodes[node.0 as usize] != outbox.number)
    }

    /// Sends a packet to a node of another thread: it arrives at `at` over the link `by`.
    pub(crate) fn leave(&mut self, at: Time, id: PacketId, to: NodeIndex, by: u32) {
        let Some(outbox) = &mut self.outbox else {
            return;
        };
        let packet = self.packets.take_whole(id);
        // A fragment refers to a packet of this part: packets that may be fragmented do not cross between parts.
        debug_assert!(!matches!(packet.body, Body::Fragment { .. }));
        outbox.first = outbox.first.min(at);
        let part = outbox.of_nodes[to.0 as usize];
        outbox.messages[usize::from(part)].push(Message::Arrives(at, packet, to, by));
    }

    /// Announces a connection to the thread that has its host.
    pub(crate) fn announce(
        &mut self,
        (host, node): (u32, NodeIndex),
        peer: SocketAddrV4,
        port: u16,
        user: User,
    ) {
        if let Some(outbox) = &mut self.outbox {
            let part = outbox.of_nodes[node.0 as usize];
            let message = Message::Expects(host, peer, port, user);
            outbox.messages[usize::from(part)].push(message);
        }
    }

    /// All arrivals up to `until` are known. Packets that wait for a link to another part enter it now, so that they are
    /// announced in time; the next one bounds how far the other parts may advance.
    pub(crate) fn fill_links_to_others(&mut self, until: Time) {
        let Some(outbox) = &mut self.outbox else {
            return;
        };
        let inboxes = std::mem::take(&mut outbox.inboxes);
        let mut first = Time::MAX;
        for &inbox in &inboxes {
            self.empty(inbox, until);
            first = first.min(self.inboxes.first(inbox).unwrap_or(Time::MAX));
        }
        if let Some(outbox) = &mut self.outbox {
            outbox.first = outbox.first.min(first);
            outbox.inboxes = inboxes;
        }
    }

    /// A packet of another thread arrives at a node, over a link.
    pub(crate) fn take_packet(&mut self, at: Time, packet: Packet, to: NodeIndex, by: u32) {
        let step = packet.step;
        self.packets.prepare_places();
        let id = self.packets.add(packet);
        if step == NO_STEP {
            let packet = id;
            let arrival = Arrival { packet, to, by };
            return self.engine.arrivals.add(at, arrival);
        }
        let step = self.paths.step(step - 1);
        if self.comes_out(step, at, id) {
            self.follow(at, id);
        }
    }
}
