//! Links with repair of losses: their ends, and the time within which a late datagram is of use.

use layercast_core::Span;
use layercast_link::{RepairRole, SHARE_BUDGETS, pdu_codec, share_budgets};
use layercast_mets::StationInput;
use layercast_repair::Carried;
use layercast_wire::LinkPdu;

use super::stations::Stations;
use super::wire_check;
use super::wires::{Wire, drain_repair};
use crate::internet::medium::Medium;
use crate::internet::medium::peered::Peered;

impl Stations<'_> {
    /// The channel of a link is open: both ends start again, or a member comes to its group.
    pub fn renew_repair(&mut self, medium: &mut Medium, link: usize) {
        if let Some(event) = self.budgets_event {
            self.kernel.schedule(event, Some(medium.engine.now));
        }
        let (one, two) = (2 * link, 2 * link + 1);
        for (group, member) in [(one, two), (two, one)] {
            if self.wires[group].is_group() {
                return self.join_group(medium, group, member);
            }
        }
        let Some(means) = self.net.links[link].repair else {
            return;
        };
        let sessions = [one, two].map(|wire| self.next_session(wire));
        let estimates = [one, two].map(|wire| self.estimates(wire));
        for (place, ours) in [one, two].into_iter().zip([0, 1]) {
            let role = RepairRole::Two {
                ours: sessions[ours],
                theirs: sessions[1 - ours],
                means,
                measures: estimates[ours],
                prompt: estimates[1 - ours],
                codec: pdu_codec(),
            };
            self.wires[place].repair.begin(Some(role));
        }
    }

    /// Whether the port of a wire follows what its path carries.
    fn estimates(&self, wire: usize) -> bool {
        let Wire { from, link, .. } = self.wires[wire];
        let port = self.net.nodes[from].port(link);
        port.is_some_and(|port| port.config.estimated)
    }

    fn next_session(&mut self, wire: usize) -> u16 {
        let wire = &mut self.wires[wire];
        wire.session = wire.session.wrapping_add(1);
        wire.session
    }

    /// The node at the far end of `group` comes to its group; `member` is the wire back.
    fn join_group(&mut self, medium: &mut Medium, group: usize, member: usize) {
        let head = self.wires[group].head;
        if self.wires[head].repair_event.is_none() {
            return;
        }
        if !self.wires[head].repair.is_on() {
            let session = self.next_session(head);
            let role = RepairRole::Group(session);
            self.wires[head].repair.begin(Some(role));
        }
        let id = group as u64;
        let running = self.wires[head].repair.running();
        let joined = running.and_then(|it| it.join(medium.engine.now, id, &mut medium.engine.obs));
        let role = joined.map(|(session, first)| RepairRole::Member {
            session,
            first,
            asks: true,
            seed: self.net.seed,
            codec: pdu_codec(),
        });
        self.wires[member].repair.begin(role);
    }

    /// The channel of a link is gone: a member leaves its group, and with the last one the group ends.
    pub fn leave_group(&mut self, medium: &mut Medium, link: usize) {
        for group in [2 * link, 2 * link + 1] {
            if !self.wires[group].is_group() {
                continue;
            }
            let head = self.wires[group].head;
            if let Some(running) = self.wires[head].repair.running() {
                running.leave(medium.engine.now, group as u64, &mut medium.engine.obs);
            }
            let fan = self.wires[group].fan.iter();
            let mut links = fan.map(|wire| self.links[self.wires[*wire].link]);
            if !links.any(|link| link.channel) {
                self.wires[head].repair.begin(None);
            }
        }
    }

    /// The first content of a datagram that came by `wire`, unless it has none or the content came before. The end of the
    /// receiving node may have more.
    pub fn unframe(
        &mut self,
        medium: &mut Medium,
        wire: usize,
        datagram: Peered,
    ) -> Option<LinkPdu> {
        let framed = match datagram {
            Peered::Bare(pdu) => return Some(pdu),
            Peered::Framed(framed) => *framed,
        };
        let Some(head) = framed.head else {
            return match framed.content {
                Some(Carried::Item(pdu)) => Some(pdu),
                _ => None,
            };
        };
        let head = match self.net.wire_check {
            true => match wire_check::head(&head) {
                Some(head) => head,
                None => {
                    self.counts.wire_errors += 1;
                    return None;
                }
            },
            false => head,
        };
        // The end of the receiving node is that of the other direction.
        let place = self.wires[wire ^ 1].head;
        let from = (wire ^ 1) as u64;
        let there = &mut self.wires[place].repair;
        there.receive(
            medium.engine.now,
            from,
            (head, framed.content),
            &mut medium.engine.obs,
        );
        let content = there.poll_received();
        self.drain(medium, place);
        content
    }

    /// The timers of the end of a link.
    pub fn repair_timers(&mut self, medium: &mut Medium, wire: usize) {
        self.wires[wire]
            .repair
            .on_timeout(medium.engine.now, &mut medium.engine.obs);
        self.drain(medium, wire);
    }

    fn drain(&mut self, medium: &mut Medium, wire: usize) {
        let wires = (&mut self.wires[..], wire);
        drain_repair(wires, &mut self.kernel, medium);
        while let Some(rate) = self.wires[wire].repair.poll_rate() {
            let Wire { from, link, .. } = self.wires[wire];
            if let Some(port) = self.net.nodes[from].port(link).map(|port| port.id) {
                self.give(medium, from, StationInput::PortRate { port, rate });
            }
        }
    }

    /// Tells the ends of links for how long late datagrams are of use: as long as to any receiver of the node or any of its
    /// other ports.
    pub fn share_budgets(&mut self, medium: &mut Medium) {
        let here = self.net.nodes.iter().map(|node| {
            let sinks = node.receivers.iter();
            sinks.filter_map(|&sink| self.sink(sink)?.spare()).max()
        });
        let here: Vec<Option<Span>> = here.collect();
        let mut ends: Vec<Vec<_>> = here.iter().map(|_| Vec::new()).collect();
        for wire in &mut self.wires {
            if wire.repair_event.is_some() {
                ends[wire.from].push(&mut wire.repair);
            }
        }
        for (ends, here) in ends.into_iter().zip(here) {
            share_budgets(medium.engine.now, ends, here, &mut medium.engine.obs);
        }
        for wire in 0..self.wires.len() {
            self.drain(medium, wire);
        }
        if let Some(event) = self.budgets_event {
            let next = medium.engine.now.saturating_add(SHARE_BUDGETS);
            self.kernel.schedule(event, Some(next));
        }
    }
}
