//! Links with repair of losses: their ends, and the time within which a late datagram is of use.

use layercast_link::{Budgets, Framed, SHARE_BUDGETS};
use layercast_wire::LinkPdu;

use crate::exchange::out_wire;
use crate::wire_check;
use crate::world::World;

impl World<'_> {
    /// The channel of a link is open: both ends start again.
    pub fn renew_repair(&mut self, link: usize) {
        let sessions = [2 * link, 2 * link + 1].map(|wire| {
            let wire = &mut self.wires[wire];
            wire.session = wire.session.wrapping_add(1);
            wire.session
        });
        self.wires[2 * link].renew_repair((sessions[0], sessions[1]));
        self.wires[2 * link + 1].renew_repair((sessions[1], sessions[0]));
        if let Some(event) = self.budgets_event {
            self.kernel.schedule(event, Some(self.now));
        }
    }

    /// The content of a datagram that came by `wire`, unless it has none or the content came before.
    pub fn unframe(&mut self, wire: usize, framed: Framed) -> Option<LinkPdu> {
        let Some(head) = framed.head else {
            return framed.pdu;
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
        let there = &mut self.wires[wire ^ 1];
        let repair = there.repair.as_mut()?;
        let content = repair.receive(self.now, head, framed.pdu, &mut self.obs);
        there.drain_repair(self.now, &mut self.kernel, &mut self.obs);
        content.flatten()
    }

    /// The timers of the end of a link.
    pub fn repair_timers(&mut self, wire: usize) {
        let wire = &mut self.wires[wire];
        if let Some(repair) = &mut wire.repair {
            repair.on_timeout(self.now, &mut self.obs);
            wire.drain_repair(self.now, &mut self.kernel, &mut self.obs);
        }
    }

    /// Tells the ends of links for how long late datagrams are of use: as long as to any receiver of the node or any of its
    /// other ports.
    pub fn share_budgets(&mut self) {
        for (place, node) in self.net.nodes.iter().enumerate() {
            let sinks = node.receivers.iter();
            let here = sinks.filter_map(|&sink| self.sink(sink)?.spare()).max();
            let wires = node
                .ports
                .iter()
                .map(|port| out_wire(self.net, place, port.id));
            let wires: Vec<usize> = wires.collect();
            let budget = |wire: usize| self.wires[wire].repair.as_ref()?.budget();
            let budgets: Budgets = wires.iter().map(|&wire| budget(wire)).collect();
            for (at, &wire) in wires.iter().enumerate() {
                let most = budgets.of_others(at).max(here);
                let wire = &mut self.wires[wire];
                if let Some(repair) = &mut wire.repair {
                    repair.set_budget(self.now, most, &mut self.obs);
                    wire.drain_repair(self.now, &mut self.kernel, &mut self.obs);
                }
            }
        }
        if let Some(event) = self.budgets_event {
            let next = self.now.saturating_add(SHARE_BUDGETS);
            self.kernel.schedule(event, Some(next));
        }
    }
}
