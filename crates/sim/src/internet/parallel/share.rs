//! A network whose parts threads simulate: each begins with its part, and the first takes over the others at the end.

use super::division::Division;
use crate::internet::medium::outbox::{Message, Outbox};
use crate::internet::network::{Network, NodeIndex};
use crate::internet::world::Internet;

impl Internet<'_> {
    /// Restricts the world to the part of one thread, before the first event.
    pub(super) fn share(&mut self, network: &Network, division: &Division, number: usize) {
        let has = |node: NodeIndex| division.part(node) == number;
        let medium = &mut self.medium;
        for flow in self.flows.all.iter().filter(|it| !has(it.from())) {
            medium.engine.kernel.schedule(flow.source(), None);
        }
        let leads_away = |pipe: u32| is_cut(network, division, pipe);
        medium
            .paths
            .share(|step| leads_away(step.pipe) && !has(step.next));
        medium.outbox = Some(Box::new(Outbox::new(
            number as u8,
            division.of_nodes.clone(),
            division.parts,
            medium.inboxes.of_pipes(leads_away).collect(),
        )));
    }

    /// Handles a message of another thread.
    pub(super) fn take_message(&mut self, message: Message) {
        match message {
            Message::Arrives(at, packet, to, by) => self.medium.take_packet(at, packet, to, by),
            Message::Expects(host, peer, port, user) => self.tcp.expect(host, peer, port, user),
        }
    }

    /// Takes over the part of another thread, at the end.
    pub(crate) fn absorb(&mut self, network: &Network, division: &Division, mut other: Internet) {
        let Some(number) = other
            .medium
            .outbox
            .take()
            .map(|it| usize::from(it.number()))
        else {
            return;
        };
        let has = |node: NodeIndex| division.part(node) == number;
        self.tcp.swap(&mut other.tcp, has);
        let pipes = self.medium.pipes.iter_mut().zip(&mut other.medium.pipes);
        for (n, (pipe, others)) in pipes.enumerate() {
            if has(sender(network, n as u32)) {
                std::mem::swap(pipe, others);
            }
        }
        for n in 0..self.flows.all.len() {
            let (flow, others) = (&mut self.flows.all[n], &mut other.flows.all[n]);
            if has(flow.to()) {
                flow.take_received(others);
                self.flows.bytes[n] = other.flows.bytes[n];
                self.tcp.received[n] = other.tcp.received[n];
            }
            if has(flow.from()) {
                others.take_received(flow);
                std::mem::swap(flow, others);
            }
        }
        self.medium.drops += other.medium.drops;
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
