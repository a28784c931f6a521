use layercast_core::{FlowId, Observer, PortId, Time, TraceEvent};
use layercast_wire::{FlowInfo, MAX_WAY, Via};

use crate::identity::source_of;
use crate::switch::flow::Flow;
use crate::switch::{Switch, subject};

/// Why a flow is removed whose last way is lost.
pub(crate) const LOST: &str = "the way to its source is lost";
/// Most ways that are kept beside the one in use; further ones are forgotten.
const MOST: usize = 4;

/// The ways to the source of a flow that neighbours offer beside the one in use, at most one for each neighbour.
#[derive(Default, Debug)]
pub(crate) struct Ways(Vec<Way>);

/// What a neighbour advertises of a flow that comes from another one.
#[derive(Debug)]
pub(crate) struct Way {
    pub from: PortId,
    pub info: Box<FlowInfo>,
}

impl Ways {
    /// A neighbour offers the flow; what it offered before counts no more.
    pub fn put(&mut self, from: PortId, info: FlowInfo) {
        let info = Box::new(info);
        if let Some(way) = self.0.iter_mut().find(|way| way.from == from) {
            way.info = info;
        } else if self.0.len() < MOST {
            self.0.push(Way { from, info });
        }
    }

    /// A neighbour offers the flow no more; whether it did.
    pub fn remove(&mut self, from: PortId) -> bool {
        let at = self.0.iter().position(|way| way.from == from);
        at.map(|at| self.0.remove(at)).is_some()
    }

    /// Takes out the best way to the same source: to the instance that is known rather than to a later one, then the one over the
    /// fewest nodes, then the one heard of first. A way to an earlier instance is none.
    fn take_best(&mut self, known: &FlowInfo, usable: impl Fn(PortId) -> bool) -> Option<Way> {
        let fits = |way: &Way| {
            usable(way.from) && way.info.epoch >= known.epoch && is_same_source(known, &way.info)
        };
        let ways = self.0.iter().enumerate().filter(|(_, way)| fits(way));
        let rank = |way: &Way| (way.info.epoch > known.epoch, way.info.way.len());
        let best = ways.min_by_key(|(_, way)| rank(way)).map(|(at, _)| at);
        best.map(|at| self.0.remove(at))
    }

    /// What is offered in place of a flow that is over: a later instance, or a flow of another source with its number.
    fn into_next(self, known: &FlowInfo, usable: impl Fn(PortId) -> bool) -> Option<Way> {
        let is_other = |info: &FlowInfo| info.epoch > known.epoch || !is_same_source(known, info);
        let mut ways = self.0.into_iter();
        ways.find(|way| usable(way.from) && is_other(&way.info))
    }

    /// The ways to the instance of this advertisement, or to a later one, without that of a neighbour.
    pub fn that_lead_to(mut self, info: &FlowInfo, but: PortId) -> Ways {
        let keeps = |way: &Way| way.from != but && way.info.epoch >= info.epoch;
        self.0.retain(keeps);
        self
    }
}

/// Whether both are sealed by one source; of two flows in the clear that is not known.
fn is_same_source(known: &FlowInfo, new: &FlowInfo) -> bool {
    let key = |info: &FlowInfo| info.identity.as_ref().map(|it| it.key.clone());
    key(known) == key(new)
}

/// The way of each flow to its source (specs/mets.md 2.10): where it comes from, and what takes its place.
///
/// Advertisements carry the numbers of the nodes that they came through, as the paths of a path-vector protocol (RFC 4271,
/// section 9.1.2): a node never takes a flow from a neighbour that has it from here. Flows with a core have one way only.
impl Switch {
    /// Whether a neighbour may advertise this: a signature has to be that of the source it names.
    pub(crate) fn is_credible(&mut self, info: &FlowInfo) -> bool {
        // What is known has been checked; only what the source signs counts.
        let known = self.flows.by_id(info.id).map(|flow| &flow.info);
        let checked = known.is_some_and(|known| {
            known.identity == info.identity && known.signed_part() == info.signed_part()
        });
        let signed = checked || info.identity.is_none() || source_of(info).is_some();
        signed && info.way.len() < MAX_WAY
    }

    /// Whether an advertisement of another neighbour than the one in use counts immediately, and not only when the way in use is lost.
    pub(crate) fn supersedes(&self, from: PortId, flow: &Flow, info: &FlowInfo) -> bool {
        // A source of this node needs no word of a neighbour.
        if from == PortId::LOCAL {
            return true;
        }
        let is_later = info.epoch > flow.info.epoch;
        let same_source = is_same_source(&flow.info, info);
        if let Some(ending) = &flow.ending {
            // What its source closed is over, even if a neighbour repeats its advertisement.
            return ending.close.is_none() || is_later || !same_source;
        }
        if flow.upstream == PortId::LOCAL {
            return false;
        }
        let proven = is_later && info.identity.is_some();
        same_source && (proven || !self.ports.is_up(flow.upstream))
    }

    /// A neighbour has a flow from here, or no more: it is no way to the source.
    pub(crate) fn lose_way<O: Observer>(
        &mut self,
        now: Time,
        id: FlowId,
        from: PortId,
        obs: &mut O,
    ) {
        let Some(flow) = self.flows.by_id(id) else {
            return;
        };
        flow.others.remove(from);
        if flow.upstream == from && flow.ending.is_none() && !self.take_other_way(now, id, obs) {
            self.replace_flow(now, id, LOST, obs);
        }
    }

    /// Continues a flow over another neighbour that offers it; `false` if there is none.
    pub(crate) fn take_other_way<O: Observer>(
        &mut self,
        now: Time,
        id: FlowId,
        obs: &mut O,
    ) -> bool {
        let ports = &self.ports;
        let Some(flow) = self.flows.by_id(id).filter(|flow| flow.ending.is_none()) else {
            return false;
        };
        let best = flow.others.take_best(&flow.info, |port| ports.is_up(port));
        let Some(Way { from, info }) = best else {
            return false;
        };
        // The neighbour may not have heard of the last change of the flow.
        let info = match flow.info.succeeds(&info) {
            true => flow.info.heard_as(&info),
            false => *info,
        };
        obs.on(now, subject(&self.config), || TraceEvent::State {
            flow: id,
            what: "way",
            from: "lost",
            to: "over another neighbour",
        });
        self.accept(now, from, info, Via::Source, obs);
        true
    }

    /// Continues each flow over another neighbour whose way went over this port.
    pub(crate) fn take_other_ways<O: Observer>(&mut self, now: Time, lost: PortId, obs: &mut O) {
        for id in self.flows.ids() {
            if self
                .flows
                .by_id(id)
                .is_some_and(|flow| flow.upstream == lost)
            {
                self.take_other_way(now, id, obs);
            }
        }
    }

    /// A flow is abandoned if the node upstream does not confirm it for three eras, none of its units arrive, and no other
    /// neighbour offers it. All members below are notified: the channel is lost, or is back at a node that does not know the flow.
    pub(crate) fn expire_ways<O: Observer>(&mut self, now: Time, obs: &mut O) {
        let life = self.life();
        let mut dead = Vec::new();
        for flow in self.flows.iter_mut() {
            if flow.confirmed {
                flow.lost = None;
                continue;
            }
            let lost = *flow.lost.get_or_insert(now);
            let heard = flow.adapted.map_or(lost, |(_, at)| at.max(lost));
            if now.since(heard) >= life {
                dead.push(flow.info.id);
            }
        }
        for flow in dead {
            if !self.take_other_way(now, flow, obs) {
                self.replace_flow(now, flow, LOST, obs);
            }
        }
    }

    /// Forgets a flow, and takes what else is offered by its number.
    pub(crate) fn replace_flow<O: Observer>(
        &mut self,
        now: Time,
        id: FlowId,
        reason: &'static str,
        obs: &mut O,
    ) {
        let ports = &self.ports;
        let next = self.flows.by_id(id).and_then(|flow| {
            let others = std::mem::take(&mut flow.others);
            others.into_next(&flow.info, |port| ports.is_up(port))
        });
        self.remove_flow(now, id, reason, obs);
        if let Some(Way { from, info }) = next {
            self.accept(now, from, *info, Via::Source, obs);
        }
    }

    /// Whether one more flow of a neighbour fits. One without upstream and receivers gives way; else one without receivers of the
    /// neighbour that has most flows here, if those are more than the ones of this neighbour: none keeps the others out.
    pub(crate) fn make_room<O: Observer>(&mut self, now: Time, from: PortId, obs: &mut O) -> bool {
        if self.flows.len() < self.config.max_flows as usize {
            return true;
        }
        let unused = |flow: &&Flow| flow.branches.is_empty();
        let is_dead = |flow: &&Flow| unused(flow) && !self.ports.is_up(flow.upstream);
        let dead = self.flows.iter().find(is_dead).map(|flow| flow.info.id);
        if let Some(id) = dead {
            self.remove_flow(now, id, "gave way to a flow with a source", obs);
            return true;
        }
        let of = |port: PortId| {
            let flows = self.flows.iter();
            flows.filter(|flow| flow.upstream == port).count()
        };
        let neighbours = self.ports.ids().filter(|&port| port != PortId::LOCAL);
        let most = neighbours.map(|port| (of(port), port)).max();
        let Some((_, greedy)) = most
            .filter(|&(most, port)| port != from && (from == PortId::LOCAL || most > of(from) + 1))
        else {
            return false;
        };
        let theirs = |flow: &&Flow| unused(flow) && flow.upstream == greedy;
        let idle = self.flows.iter().filter(theirs);
        let last = idle.max_by_key(|flow| flow.order).map(|flow| flow.info.id);
        if let Some(id) = last {
            let reason = "gave way to a flow of a neighbour that has fewer";
            self.remove_flow(now, id, reason, obs);
        }
        last.is_some()
    }
}
