//! How packets move: copied at each node on their way down, alone on their way up.

use bytes::Bytes;
use layercast_multicast::{Peer, To};
use layercast_wire::multicast::Body;

use super::item::Cargo;
use super::tree::NONE;
use super::world::{Due, SENDER, Simulation};

impl Simulation<'_> {
    /// A packet of the sender leaves its host.
    pub(super) fn send_down(&mut self, item: u32) {
        match self.items.get(item).to {
            To::Group | To::Side => self.copy_down(item, 0),
            To::One(_) => self.pass_along(item, 0),
        }
        self.items.done(item);
    }

    /// A packet that is not coded goes to all children of a node.
    pub(super) fn copy_down(&mut self, item: u32, node: u32) {
        let ports = self.tree.nodes[node as usize].ports;
        for port in ports.0..ports.1 {
            match self.tree.ports[port as usize].encoder {
                NONE => self.put_on_links(item, port),
                encoder => self.encode(item, encoder),
            }
        }
    }

    /// A packet, as it is, goes to the children of a port.
    fn put_on_links(&mut self, item: u32, port: u32) {
        let (first, end) = self.tree.ports[port as usize].children;
        let octets = self.items.get(item).octets;
        // Neighbours of one branch whose links take the same time are one event.
        let mut run: Option<(layercast_core::Time, u32)> = None;
        for child in first..end {
            let kind = self.tree.nodes[child as usize].kind as usize;
            let law = &self.laws[kind];
            let octets = law.packet(octets);
            let count = &mut self.link_counts[kind];
            count.down += 1;
            count.octets += u64::from(octets);
            let at = self.links[child as usize - 1].enter(law, self.now, octets, false);
            count.dropped += u64::from(at.is_none());
            match (run, at) {
                (Some((then, from)), Some(at))
                    if then == at && self.tree.nodes[from as usize].kind as usize == kind => {}
                (Some((then, from)), at) => {
                    self.fly_down(item, then, from, child);
                    run = at.map(|at| (at, child));
                }
                (None, at) => run = at.map(|at| (at, child)),
            }
        }
        if let Some((then, from)) = run {
            self.fly_down(item, then, from, end);
        }
    }

    fn fly_down(&mut self, item: u32, at: layercast_core::Time, first: u32, end: u32) {
        self.items.share(item, 1);
        self.calendar.add(at, Due::Down { item, first, end });
    }

    /// Copies of a packet get to these nodes, if they are not lost.
    pub(super) fn come_down(&mut self, item: u32, first: u32, end: u32) {
        let octets = self.items.get(item).octets;
        // So that the first one in the file is not always the first.
        let begin = first + self.calendar.turns.begin(first, end, self.now);
        for node in (begin..end).chain(first..begin) {
            let kind = self.tree.nodes[node as usize].kind as usize;
            let law = &self.laws[kind];
            if self.links[node as usize - 1].loses(law, law.packet(octets)) {
                self.link_counts[kind].lost += 1;
            } else {
                self.reach(item, node);
            }
        }
        self.items.done(item);
    }

    /// A packet for all is at a node.
    fn reach(&mut self, item: u32, node: u32) {
        let at = self.tree.nodes[node as usize];
        if let Cargo::Coded(octets) = &self.items.get(item).cargo {
            let octets = octets.clone();
            self.reach_coded(item, node, &octets);
            return;
        }
        if at.member != NONE {
            self.give(at.member, item);
        }
        if at.aggregator != NONE {
            self.tell_speaker(at.aggregator, item);
        }
        if at.ports.0 < at.ports.1 {
            self.copy_down(item, node);
        }
    }

    /// A packet of a code is at a node: it continues along the code, and the decoded data go to the other
    /// branches.
    fn reach_coded(&mut self, item: u32, node: u32, octets: &Bytes) {
        let at = self.tree.nodes[node as usize];
        let kind = at.kind as usize;
        let region = self.group.branches[kind].region;
        for port in at.ports.0..at.ports.1 {
            if self.tree.ports[port as usize].region == region {
                self.put_on_links(item, port);
            }
        }
        if at.decoder == NONE {
            return;
        }
        self.decoders[at.decoder as usize].handle(self.now, octets);
        while let Some(inner) = self.decoders[at.decoder as usize].poll(self.now, &self.items) {
            if at.member != NONE {
                self.give(at.member, inner);
            }
            if at.aggregator != NONE {
                self.tell_speaker(at.aggregator, inner);
            }
            for port in at.ports.0..at.ports.1 {
                let port_region = self.tree.ports[port as usize].region;
                let encoder = self.tree.ports[port as usize].encoder;
                if port_region == 0 {
                    self.put_on_links(inner, port);
                } else if port_region != region {
                    self.encode(inner, encoder);
                }
            }
        }
    }

    /// An encoder takes a packet, and sends it on with its header, and parities if its block is full.
    fn encode(&mut self, item: u32, encoder: u32) {
        let edge = &mut self.encoders[encoder as usize];
        let port = edge.port;
        if let Some((octets, length)) = edge.push(self.now, &mut self.items, item) {
            let (from, to, sent) = {
                let inner = self.items.get(item);
                (inner.from, inner.to, inner.sent)
            };
            let coded = self.items.add(Cargo::Coded(octets), from, to, sent, length);
            self.put_on_links(coded, port);
            self.items.done(coded);
        }
        self.send_parities(encoder);
    }

    /// A block has been open for long enough.
    pub(super) fn flush(&mut self, encoder: u32) {
        let edge = &mut self.encoders[encoder as usize];
        if edge.wake != self.now {
            return;
        }
        edge.wake = layercast_core::Time::MAX;
        edge.on_timeout(self.now);
        self.send_parities(encoder);
    }

    fn send_parities(&mut self, encoder: u32) {
        loop {
            let edge = &mut self.encoders[encoder as usize];
            let (port, node) = (edge.port, edge.node);
            let Some((octets, length)) = edge.poll_parity() else {
                break;
            };
            debug_assert!(node as usize <= self.links.len());
            let cargo = Cargo::Coded(octets);
            let parity = self.items.add(cargo, SENDER, To::Group, self.now, length);
            let (first, end) = self.tree.ports[port as usize].children;
            for child in first..end {
                let kind = self.tree.nodes[child as usize].kind as usize;
                self.link_counts[kind].parities += 1;
            }
            self.put_on_links(parity, port);
            self.items.done(parity);
        }
        let edge = &mut self.encoders[encoder as usize];
        edge.sent_all();
        if let Some(due) = edge.next_timeout()
            && due < edge.wake
        {
            edge.wake = due;
            self.calendar.add(due, Due::Flush { encoder });
        }
    }

    /// A packet for one receiver continues from a node.
    pub(super) fn pass_along(&mut self, item: u32, node: u32) {
        let Some(target) = self.node_of(self.items.get(item).to) else {
            return;
        };
        let child = self.tree.towards(node, target);
        let kind = self.tree.nodes[child as usize].kind as usize;
        let octets = self.laws[kind].packet(self.items.get(item).octets);
        let count = &mut self.link_counts[kind];
        count.down += 1;
        count.octets += u64::from(octets);
        match self.links[child as usize - 1].enter(&self.laws[kind], self.now, octets, false) {
            Some(at) => {
                self.items.share(item, 1);
                self.calendar.add(at, Due::Along { item, node: child });
            }
            None => count.dropped += 1,
        }
    }

    /// A packet for one receiver is at the lower end of a link, if it is not lost.
    pub(super) fn come_along(&mut self, item: u32, node: u32) {
        let at = self.tree.nodes[node as usize];
        let kind = at.kind as usize;
        let octets = self.laws[kind].packet(self.items.get(item).octets);
        if self.links[node as usize - 1].loses(&self.laws[kind], octets) {
            self.link_counts[kind].lost += 1;
        } else if self.node_of(self.items.get(item).to) == Some(node) {
            match at.aggregator {
                NONE => self.give(at.member, item),
                speaker => self.tell_speaker(speaker, item),
            }
        } else {
            self.pass_along(item, node);
        }
        self.items.done(item);
    }

    /// A packet goes up from a node.
    pub(super) fn send_up(&mut self, node: u32, item: u32) {
        let at = self.tree.nodes[node as usize];
        if node == 0 || self.node_of(self.items.get(item).to) == Some(node) {
            match at.aggregator {
                _ if node == 0 => self.come_to_source(item),
                NONE => {}
                speaker => self.tell_speaker(speaker, item),
            }
            self.items.done(item);
            return;
        }
        let kind = at.kind as usize;
        let (law, link) = (&self.laws[kind], &mut self.links[node as usize - 1]);
        let octets = law.packet(self.items.get(item).octets);
        let count = &mut self.link_counts[kind];
        count.up += 1;
        match link.enter(law, self.now, octets, true) {
            Some(_) if link.loses_back(law, octets) => {
                count.up_lost += 1;
                self.items.done(item);
            }
            Some(then) => {
                self.calendar.add(then, Due::Up { item, node });
            }
            None => {
                count.dropped += 1;
                self.items.done(item);
            }
        }
    }

    /// A packet on its way up has passed the link to a node.
    pub(super) fn come_up(&mut self, item: u32, node: u32) {
        self.send_up(self.tree.nodes[node as usize].parent, item);
    }

    /// A packet is at the source.
    fn come_to_source(&mut self, item: u32) {
        let it = self.items.get(item);
        let Cargo::Plain(packet) = &it.cargo else {
            return;
        };
        self.counts.feedback.came(self.now, packet, it.octets);
        if self.source.is_instant() {
            self.items.share(item, 1);
            self.take_at_source(item);
            return;
        }
        if let Some(at) = self.source.arrive(self.now, packet, it.octets) {
            self.items.share(item, 1);
            self.calendar.add(at, Due::TakeAtSource { item });
        }
    }

    /// A packet is at the host of a receiver.
    fn give(&mut self, member: u32, item: u32) {
        let host = &mut self.hosts[self.members[member as usize].host as usize];
        if host.is_instant() {
            self.hand(member, item);
            return;
        }
        let it = self.items.get(item);
        if let Cargo::Plain(packet) = &it.cargo
            && let Some(at) = host.arrive(self.now, packet, it.octets)
        {
            self.items.share(item, 1);
            self.calendar.add(at, Due::TakeAt { item, member });
        }
    }

    /// The sender takes a packet.
    pub(super) fn take_at_source(&mut self, item: u32) {
        let it = self.items.get(item);
        if let Cargo::Plain(packet) = &it.cargo {
            self.sender.handle(self.now, it.from, packet, &mut self.obs);
        }
        self.items.done(item);
        self.turn_of_source();
    }

    /// A receiver takes a packet that waited for its processor.
    pub(super) fn take_at(&mut self, member: u32, item: u32) {
        self.hand(member, item);
        self.items.done(item);
    }

    /// A receiver takes a packet.
    #[inline]
    fn hand(&mut self, member: u32, item: u32) {
        let it = self.items.get(item);
        let (Cargo::Plain(packet), Some(machine)) =
            (&it.cargo, &mut self.members[member as usize].machine)
        else {
            return;
        };
        machine.handle(self.now, it.from, packet, &mut self.obs);
        self.after(member);
    }

    /// A receiver's machine may have something to send, to tell or to wait for.
    pub(super) fn after(&mut self, member: u32) {
        let from = Peer(member + 1);
        loop {
            let it = &mut self.members[member as usize];
            let Some(machine) = &mut it.machine else {
                return;
            };
            let Some(transmit) = machine.poll_transmit(self.now, &mut self.obs) else {
                break;
            };
            let (node, host) = (it.node, it.host as usize);
            let count = !matches!(transmit.packet.body, Body::Accept(_));
            self.counts.answers += u64::from(count);
            let to_group = transmit.to == To::Group;
            let leaves = match self.hosts[host].is_instant() {
                true => self.now,
                false => self.hosts[host].send(self.now, &transmit.packet, to_group),
            };
            let item = self.item(from, transmit);
            match leaves == self.now {
                true => self.send_up(node, item),
                false => self.calendar.add(leaves, Due::Answer { item, member }),
            }
        }
        self.events_of(member);
        self.set_alarm(member);
    }
}
