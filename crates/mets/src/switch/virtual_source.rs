use layercast_core::{FilterKind, FlowId, Layer, Observer, PortId, Time, earliest};
use layercast_link::Unit;
use layercast_media::FilterRule;
use layercast_wire::{Carriage, LinkPdu, Member, Signal};

use crate::switch::adapter::Adapt;
use crate::switch::filter::{FilterPoint, Out};
use crate::switch::flow::Branch;
use crate::switch::forward::{marked, on_circuit};
use crate::switch::{Switch, SwitchEvent};

/// Filters on branches (specs/mets.md 2.11, 2.13): their places, and their output.
impl Switch {
    /// Gives a new branch the filter that applies to all of its members.
    pub(crate) fn place_filter(&mut self, now: Time, id: FlowId, port: PortId) {
        if let Some(rule) = self.filter_for_all(id, port) {
            self.set_filter(now, id, port, Some((rule, false)));
        }
    }

    /// The filter that the configuration has for a branch; or, in the node of the source, where every
    /// branch passes, the one that the policy of the flow names (specs/mets.md 2.2).
    fn filter_for_all(&mut self, id: FlowId, port: PortId) -> Option<FilterRule> {
        let neighbour = &self.ports.get(port)?.config.name;
        let flow = self.flows.by_id(id)?;
        let mut places = self.config.filters.iter();
        let place = places.find(|place| place.is_on(&flow.info, neighbour));
        let next_to_source = flow.upstream == PortId::LOCAL;
        let kinds = flow.info.policy.filters.iter().filter(|_| next_to_source);
        let chosen = kinds.copied().find_map(FilterRule::of_kind);
        place.map(|place| place.rule).or(chosen)
    }

    /// Puts a filter on a branch, or takes it away; gives whether there is one then.
    pub(crate) fn set_filter(
        &mut self,
        now: Time,
        id: FlowId,
        to: PortId,
        rule: Option<(FilterRule, bool)>,
    ) -> bool {
        let Some(flow) = self.flows.by_id(id) else {
            return false;
        };
        let (info, carriage, forwarded_era) =
            (flow.info.clone(), flow.carriage, flow.forwarded_era);
        let Some(port) = self.ports.get_mut(to) else {
            return false;
        };
        let Some(branch) = flow.branch(to).filter(|_| to != PortId::LOCAL) else {
            return false;
        };
        // What is sealed cannot be filtered on the way; only whole layers can be left out.
        let sealed = info.identity.is_some();
        // Filters know what layers add to each other, not what replaces what.
        let additive = info.spec.composition.is_additive();
        let possible =
            |rule: &FilterRule| additive && (!sealed || matches!(rule, FilterRule::Keep(_)));
        let refused = rule.filter(|(rule, on_demand)| !on_demand && !possible(rule));
        let rule = rule.filter(|(rule, _)| possible(rule));
        let before = branch.filter.as_ref().map(|point| point.rule());
        port.regrant = true;
        let left = branch.filter.take();
        if let Some((rule, on_demand)) = rule {
            let carriage = carriage.unwrap_or(Carriage::Datagrams);
            let line = port.config.line();
            let mut point = Box::new(FilterPoint::new(now, rule, &info, carriage, line));
            point.on_demand = on_demand;
            branch.filter = Some(point);
            if !self.filtered.contains(&(id, to)) {
                self.filtered.push((id, to));
            }
        }
        if let Some(mut point) = left {
            // The receivers have heard numbers up to ours: what the source says continues from there.
            branch.era_shift = u32::try_from(point.number().diff(forwarded_era)).unwrap_or(0);
            self.stats
                .filtered(&info.name, &port.config.name, point.stats());
            for out in point.flush(id) {
                self.emerge(now, id, to, out);
            }
        }
        if let Some((rule, _)) = refused {
            self.emit(SwitchEvent::FilterRefused {
                flow: id,
                port: to,
                rule,
            });
        }
        let rule = rule.map(|(rule, _)| rule);
        let branch_is_filtered = rule.is_some();
        if before != rule {
            self.emit(SwitchEvent::FilterChanged {
                flow: id,
                port: to,
                from: before,
                to: rule,
            });
        }
        branch_is_filtered
    }

    /// A flow changed: its filters begin again. What its server chose goes before what a receiver asked
    /// for, and goes at a start of a GOP when it is chosen no more.
    pub(crate) fn renew_filters(&mut self, now: Time, id: FlowId) {
        let Some(flow) = self.flows.by_id(id) else {
            return;
        };
        let ports: Vec<PortId> = flow.branches.iter().map(|branch| branch.port).collect();
        for port in ports {
            let chosen = self.filter_for_all(id, port);
            match (chosen, self.filter_at(id, port)) {
                (Some(rule), _) => {
                    self.set_filter(now, id, port, Some((rule, false)));
                }
                (None, Some(point)) if point.on_demand => {
                    let rule = point.rule();
                    self.set_filter(now, id, port, Some((rule, true)));
                }
                (None, Some(point)) => point.ending = true,
                (None, None) => {}
            }
        }
    }

    /// A receiver requests a filter, or withdraws its request. The filter is placed as near to the source as
    /// possible without affecting another receiver; a filter of the configuration or of the server stays.
    pub(crate) fn on_filter<O: Observer>(
        &mut self,
        now: Time,
        from: PortId,
        id: FlowId,
        member: Member,
        filter: Option<FilterKind>,
        obs: &mut O,
    ) {
        let known = self.flows.by_id(id);
        let Some(flow) = known.filter(|flow| {
            let mut branches = flow.branches.iter();
            let below = flow.members.get(&member).is_some_and(|it| it.port == from);
            branches.any(|branch| {
                branch.port == from
                    && branch.is_committed()
                    && (below || branch.members.contains(&member))
            })
        }) else {
            self.stats.rejected_signals.unknown += 1;
            return;
        };
        let upstream = flow.upstream;
        let alone = flow.branches.len() == 1 && flow.members.len() <= 1;
        let here = flow.branch(from).and_then(|it| it.filter.as_deref_mut());
        match (here, filter.and_then(FilterRule::of_kind)) {
            (Some(point), rule) if !point.on_demand => {
                let filter = Some(point.rule().kind());
                self.answer_filter(from, id, rule.and(filter));
            }
            (Some(point), None) => {
                // Frames go through it up to the next GOP.
                point.ending = true;
                self.answer_filter(from, id, None);
            }
            (None, None) if !alone || upstream == PortId::LOCAL => {}
            (None, _) if alone && upstream != PortId::LOCAL => {
                let flow = id;
                self.signal(
                    upstream,
                    Signal::Filter {
                        flow,
                        member,
                        filter,
                    },
                );
            }
            (_, Some(rule)) => {
                let there = self.set_filter(now, id, from, Some((rule, true)));
                self.regrant(now, from, "another filter", obs);
                self.answer_filter(from, id, filter.filter(|_| there));
            }
            (None, None) => {}
        }
    }

    /// A filter further up changed.
    pub(crate) fn on_filtered(&mut self, from: PortId, id: FlowId, signal: &Signal) {
        let known = self.flows.by_id(id);
        let Some(flow) = known.filter(|flow| flow.upstream == from) else {
            self.stats.rejected_signals.unknown += 1;
            return;
        };
        let below: Vec<PortId> = flow.branches.iter().map(|branch| branch.port).collect();
        for port in below {
            self.signal(port, signal.clone());
        }
    }

    /// A filter that one receiver asked for does not bind others that join behind it.
    pub(crate) fn release_filter(&mut self, id: FlowId, port: PortId) {
        let point = self.filter_at(id, port);
        if let Some(point) = point.filter(|point| point.on_demand && !point.ending) {
            point.ending = true;
            self.answer_filter(port, id, None);
        }
    }

    fn answer_filter(&mut self, to: PortId, flow: FlowId, filter: Option<FilterKind>) {
        let node = self.config.name.clone();
        let answer = Signal::Filtered { flow, node, filter };
        self.signal(to, answer);
    }

    /// Takes away the filters of a flow that are to go, now that a GOP starts. The links are divided
    /// again immediately: a level that a filter shaped may be too much without it.
    pub(crate) fn end_filters<O: Observer>(&mut self, now: Time, id: FlowId, obs: &mut O) {
        let Some(flow) = self.flows.by_id(id) else {
            return;
        };
        let ends = |branch: &&Branch| branch.filter.as_ref().is_some_and(|point| point.ending);
        let ports: Vec<PortId> = flow
            .branches
            .iter()
            .filter(ends)
            .map(|it| it.port)
            .collect();
        for port in ports {
            self.set_filter(now, id, port, None);
            self.regrant(now, port, "no filter any more", obs);
        }
    }

    /// Forwards the units that the shapers behind the filters release.
    pub(crate) fn run_filters(&mut self, now: Time) {
        self.filter_wake = None;
        for index in 0..self.filtered.len() {
            let (id, port) = self.filtered[index];
            while let Some(out) = self.filter_at(id, port).and_then(|point| point.run(now)) {
                self.emerge(now, id, port, out);
            }
            let next = self.filter_at(id, port).and_then(|point| point.next());
            self.filter_wake = earliest(self.filter_wake, next);
        }
    }

    fn filter_at(&mut self, id: FlowId, port: PortId) -> Option<&mut FilterPoint> {
        self.flows.by_id(id)?.branch(port)?.filter.as_deref_mut()
    }

    /// Puts what left a filter into the queue of its port.
    fn emerge(&mut self, now: Time, id: FlowId, to: PortId, out: Out) {
        let Some(slot) = self.flows.slot_of(id) else {
            return;
        };
        let Some(flow) = self.flows.get_mut(slot) else {
            return;
        };
        let carriage = flow.carriage;
        let (Some(branch), Some(port)) = (flow.branch(to), self.ports.get_mut(to)) else {
            return;
        };
        let (pdu, cells, base) = match out {
            Out::Unit(pdu, unit) => {
                let cells = pdu.cells();
                let unit = Unit {
                    flow: slot as u32,
                    ..unit
                };
                self.stats.copies += 1;
                if port
                    .queue
                    .admit(now, cells, unit, &mut branch.fate)
                    .is_err()
                {
                    return;
                }
                let mark = std::mem::take(&mut branch.mark_next);
                let base = unit.layer == Layer::Base;
                (marked(on_circuit(pdu, branch.vci), mark), cells, base)
            }
            Out::Adapt(message) => {
                let pdu = match carriage {
                    Some(Carriage::Cells) => LinkPdu::Cell(message.to_cell()),
                    _ => LinkPdu::Adapter(message),
                };
                let cells = pdu.cells();
                if !port.queue.admit_message(now, cells) {
                    port.queue.stats.adapter_dropped += 1;
                    return;
                }
                (pdu, cells, false)
            }
        };
        self.ports.push(now, to, pdu, cells, base);
    }

    /// What filters do each RES interval: as sinks they keep their own eras, as sources they say what
    /// they give if that changed, or once an era.
    pub(crate) fn run_virtual_ends<O: Observer>(&mut self, now: Time, obs: &mut O) {
        let era = self.config.era;
        let flows = &self.flows;
        self.filtered.retain(|&(id, port)| {
            let flow = flows.slot_of(id).and_then(|slot| flows.get(slot));
            flow.is_some_and(|flow| {
                let mut branches = flow.branches.iter();
                branches.any(|branch| branch.port == port && branch.filter.is_some())
            })
        });
        for index in 0..self.filtered.len() {
            let (id, port) = self.filtered[index];
            let Some(flow) = self.flows.by_id(id) else {
                continue;
            };
            let given = flow.upstream_grant.max;
            let Some(branch) = flow.branch(port).filter(|branch| branch.is_committed()) else {
                continue;
            };
            let wanted = !branch.requests.is_empty();
            let Some(point) = branch.filter.as_deref_mut() else {
                continue;
            };
            flow.res_pending |= point.era_due(now, era, given) && wanted;
            // What is left behind the filter is learnt as frames pass.
            self.regrant(now, port, "fair share of the link", obs);
            self.serve_filtered(now, id, port, obs);
        }
    }

    /// Tells the receivers behind a filter what they get, if that is news or an era passed.
    pub(crate) fn serve_filtered<O: Observer>(
        &mut self,
        now: Time,
        id: FlowId,
        port: PortId,
        obs: &mut O,
    ) {
        let era = self.config.era;
        let Some(flow) = self.flows.by_id(id) else {
            return;
        };
        let mut branches = flow.branches.iter();
        let Some(branch) = branches.find(|branch| branch.port == port) else {
            return;
        };
        let (level, rate) = flow.served(branch);
        let news = |point: &FilterPoint| point.must_say(now, level, rate, era);
        let live = branch.is_committed() && !branch.requests.is_empty();
        let live = live || branch.gate.target != level;
        if !live || !branch.filter.as_deref().is_some_and(news) {
            return;
        }
        let reason = match level < flow.upstream_grant.max {
            true => "fair share of the link, filtered",
            false => "given by the source, filtered",
        };
        let adapt = Adapt {
            level,
            levels: flow.served_levels(branch),
            rate,
            era: flow.forwarded_era,
            origin: self.config.id,
            hops: 1,
        };
        self.announce(now, id, port, adapt, reason, obs);
    }
}
