use layercast_core::{Cause, FlowId, Layer, Observer, PortId, Time, TraceEvent, earliest};
use layercast_wire::{ADAPTER_VCI, AdapterMsg, Carriage, LinkPdu};

use crate::switch::flow::{Branch, Flow, Upstream};
use crate::switch::selector::Stated;
use crate::switch::{Switch, subject};
use layercast_link::FrameFate;

/// The way of the media: one lookup, one question to each branch, one copy for each that says yes.
impl Switch {
    pub(crate) fn on_pdu<O: Observer>(
        &mut self,
        now: Time,
        from: PortId,
        pdu: LinkPdu,
        obs: &mut O,
    ) {
        let Some(port) = self.ports.get_mut(from) else {
            self.stats.rejected_pdus.port += 1;
            return;
        };
        port.queue.stats.units_in += 1;
        port.queue.stats.bytes_in += pdu.wire_len() as u64;
        match pdu {
            LinkPdu::Adapter(message) => self.on_adapter(now, from, message, obs),
            LinkPdu::Cell(cell) if cell.vci == ADAPTER_VCI => match AdapterMsg::from_cell(&cell) {
                Ok(message) => self.on_adapter(now, from, message, obs),
                Err(_) => self.stats.rejected_pdus.malformed += 1,
            },
            LinkPdu::Cell(ref cell) => {
                let slot = self.flows.slot_of_circuit(from, cell.vci);
                self.forward(now, from, slot, pdu, obs);
            }
            LinkPdu::Mets(ref packet) => {
                let slot = self.flows.slot_of(packet.header.flow);
                let flow = slot.and_then(|slot| self.flows.get(slot));
                if let Some(flow) = flow.filter(|flow| flow.upstream == from) {
                    if !flow.selector.is_alive(&packet.header) {
                        self.stats.rejected_pdus.life += 1;
                        return;
                    }
                    self.answered_by_media(now, slot, obs);
                }
                self.forward(now, from, slot, pdu, obs);
            }
        }
    }

    /// Datagrams may overtake the answer to a join on the reliable channel. A neighbour sends a flow only
    /// where the base layer is reserved, so the first of them is the answer.
    fn answered_by_media<O: Observer>(&mut self, now: Time, slot: Option<usize>, obs: &mut O) {
        let flow = slot.and_then(|slot| self.flows.get(slot));
        let waits = |flow: &&Flow| {
            matches!(flow.link, Upstream::Joining { .. })
                && flow.upstream != PortId::LOCAL
                && flow.carriage == Some(Carriage::Datagrams)
        };
        if let Some(flow) = flow.filter(waits) {
            let (from, id) = (flow.upstream, flow.info.id);
            self.on_join_ack(now, from, id, 0, obs);
        }
    }

    fn forward<O: Observer>(
        &mut self,
        now: Time,
        from: PortId,
        slot: Option<usize>,
        pdu: LinkPdu,
        obs: &mut O,
    ) {
        let most = match self.config.fast_start {
            true => self.recent_limit(),
            false => 0,
        };
        let Some(flow) = slot
            .and_then(|slot| self.flows.get_mut(slot))
            .filter(|flow| flow.upstream == from)
        else {
            // A source of this node sends whether somebody listens or not.
            let counter = match from {
                PortId::LOCAL => &mut self.stats.unwanted,
                _ => &mut self.stats.rejected_pdus.unknown,
            };
            *counter += 1;
            return;
        };
        let keeps = self.config.fast_start && matches!(pdu, LinkPdu::Mets(_));
        if flow.branches.is_empty() && !keeps {
            self.stats.unwanted += 1;
            return;
        }
        let step = match (&pdu, flow.carriage) {
            (LinkPdu::Cell(cell), Some(Carriage::Cells)) if cell.pti.is_data() => {
                flow.selector.on_cell(cell)
            }
            (LinkPdu::Mets(packet), Some(Carriage::Datagrams)) => {
                Some(flow.selector.on_packet(&packet.header))
            }
            (LinkPdu::Mets(packet), None) if flow.branches.is_empty() => {
                Some(flow.selector.on_packet(&packet.header))
            }
            _ => None,
        };
        let Some(mut step) = step else {
            self.stats.rejected_pdus.malformed += 1;
            return;
        };
        if let (Some(choice), LinkPdu::Cell(_)) = (&mut step.choice, &pdu) {
            // Cells state nothing: the last ADAPT before them does.
            choice.offered = flow.upstream_grant.levels;
        }
        step.unit.flow = slot.map_or(0, |slot| slot as u32);
        let cells = pdu.cells();
        let base = step.unit.layer == Layer::Base;
        let starts = step.gop_start && step.unit.frame_start;
        if keeps {
            let begins = step.begins_gop();
            let is_kept = flow.recent.take(now, &pdu, step, begins, most);
            if flow.branches.is_empty() {
                self.stats.unwanted += 1;
                return;
            }
            flow.watch_fast_starts(&pdu, begins, is_kept);
        }
        let ends = |branch: &Branch| branch.filter.as_ref().is_some_and(|point| point.ending);
        if starts && flow.branches.iter().any(ends) {
            let id = flow.info.id;
            self.end_filters(now, id, obs);
        }
        let Some(flow) = slot.and_then(|slot| self.flows.get_mut(slot)) else {
            return;
        };
        let continuous = flow.is_continuous();
        // Of cells, what is left of a packet is of no use.
        let repairable = flow.info.parities.is_some() && flow.carriage == Some(Carriage::Datagrams);
        // The unit itself goes to the last branch that takes it, copies to those before.
        let mut taken: Option<(PortId, u16, Stamp)> = None;
        for branch in &mut flow.branches {
            let catches_up = branch.fast_start.is_some_and(|it| it.holds());
            if !branch.is_committed()
                || catches_up
                || !branch.gate.pass(&step, self.config.lowering)
            {
                continue;
            }
            if let Some(point) = branch.filter.as_deref_mut()
                && point.takes(&step)
            {
                if step.parity {
                    // Behind a filter there are other frames than those it was made of.
                    continue;
                }
                let (info, upstream_grant) = (&flow.info, &flow.upstream_grant);
                let (_, rate) = point.served(upstream_grant, branch.grant, &info.spec, continuous);
                point.take(now, &pdu, &step, info.id, rate);
                self.filter_wake = earliest(self.filter_wake, point.next());
                continue;
            }
            let Some(port) = self.ports.get_mut(branch.port) else {
                continue;
            };
            self.stats.copies += 1;
            // The fate of the current frame concerns neither a parity nor a late fragment of a frame before it.
            let mut late_fate = FrameFate::default();
            let fate = match (step.parity, step.late) {
                (true, _) => &mut branch.parity_fate,
                (false, true) => &mut late_fate,
                (false, false) => &mut branch.fate,
            };
            let verdict = port.queue.admit(now, cells, step.unit, fate);
            self.removed.extend_from_slice(port.queue.removed());
            match verdict {
                Ok(()) => {
                    let stamp = Stamp {
                        congested: std::mem::take(&mut branch.mark_next),
                        passes: branch.gate.stated(),
                    };
                    if let Some((to, vci, stamp)) = taken.replace((branch.port, branch.vci, stamp))
                    {
                        let copy = stamp.put_on(on_circuit(pdu.clone(), vci));
                        self.ports.push(now, to, copy, cells, base);
                    }
                }
                Err(cause) => {
                    if repairable && step.unit.layer == Layer::Base {
                        // What is left of the frame is worth its way: parities make up for the rest.
                        branch.fate = FrameFate::default();
                    }
                    obs.on(now, subject(&self.config), || TraceEvent::Lost {
                        flow: flow.info.id,
                        layer: Some(step.unit.layer),
                        count: 1,
                        cause,
                    });
                }
            }
        }
        if let Some((to, vci, stamp)) = taken {
            let pdu = stamp.put_on(on_circuit(pdu, vci));
            self.ports.push(now, to, pdu, cells, base);
        }
        for (slot, layer) in self.removed.drain(..) {
            let flow = self.flows.get(slot as usize);
            obs.on(now, subject(&self.config), || TraceEvent::Lost {
                flow: flow.map_or(FlowId(0), |flow| flow.info.id),
                layer: Some(layer),
                count: 1,
                cause: Cause::SelectiveDiscard,
            });
        }
    }

    /// Puts RES or ADAPT into the queue of a port; `false` if there is no room.
    pub(crate) fn send_adapter<O: Observer>(
        &mut self,
        now: Time,
        to: PortId,
        carriage: Carriage,
        message: AdapterMsg,
        obs: &mut O,
    ) -> bool {
        let Some(port) = self.ports.get_mut(to) else {
            return false;
        };
        let pdu = match carriage {
            Carriage::Cells => LinkPdu::Cell(message.to_cell()),
            Carriage::Datagrams => LinkPdu::Adapter(message),
        };
        let cells = pdu.cells();
        if !port.queue.admit_message(now, cells) {
            port.queue.stats.adapter_dropped += 1;
            obs.on(now, subject(&self.config), || TraceEvent::Lost {
                flow: message.flow,
                layer: None,
                count: 1,
                cause: Cause::QueueFull,
            });
            return false;
        }
        port.queue.stats.adapter += 1;
        self.ports.push(now, to, pdu, cells, false);
        true
    }
}

/// What a branch puts on a unit that passes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp {
    /// Layers were taken away here.
    pub congested: bool,
    /// What passes.
    pub passes: Option<Stated>,
}

impl Stamp {
    pub fn put_on(self, mut pdu: LinkPdu) -> LinkPdu {
        if let (LinkPdu::Mets(packet), Some(passes)) = (&mut pdu, self.passes) {
            let passing = &mut packet.header.passing;
            *passing = match passes {
                Stated::Level(level) => passing.limited_to(level),
                Stated::Set(set) => passing.limited_to_set(set),
            };
        }
        marked(pdu, self.congested)
    }
}

pub(crate) fn on_circuit(mut pdu: LinkPdu, vci: u16) -> LinkPdu {
    if let LinkPdu::Cell(cell) = &mut pdu {
        cell.vpi = 0;
        cell.vci = vci;
    }
    pdu
}

pub(crate) fn marked(mut pdu: LinkPdu, mark: bool) -> LinkPdu {
    if mark {
        pdu.mark_congestion();
    }
    pdu
}
