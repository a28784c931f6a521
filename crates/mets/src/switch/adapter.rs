use layercast_core::{
    CellRate, FlowId, Level, LevelSet, Newest, NodeId, Numbered, Observer, PortId, Serial, Time,
    TraceEvent, earliest,
};
use layercast_qos::{Demand, LevelPair, Merge, Want, fair_share};
use layercast_wire::{AdapterKind, AdapterMsg, Carriage};

use crate::ERAS_AHEAD;
use crate::switch::flow::{Branch, Flow, MAX_ORIGINS, Request, UpstreamGrant, Wish};
use crate::switch::{Switch, SwitchEvent, subject};

/// Why a branch gets less than its link and the node upstream would give.
const ASKS_FOR_LESS: &str = "the receivers ask for no more";

/// The distributed QoS adapter (specs/mets.md 2.11): demands come up as RES, levels go down as ADAPT.
impl Switch {
    pub(crate) fn on_adapter<O: Observer>(
        &mut self,
        now: Time,
        from: PortId,
        message: AdapterMsg,
        obs: &mut O,
    ) {
        let known = self.flows.by_id(message.flow);
        if known.is_none_or(|flow| flow.info.group != message.group) {
            self.stats.rejected_pdus.unknown += 1;
            return;
        }
        match message.kind {
            AdapterKind::Res => self.on_res(now, from, message, obs),
            AdapterKind::Adapt => self.on_adapt(now, from, message, obs),
        }
    }

    fn on_res<O: Observer>(&mut self, now: Time, from: PortId, message: AdapterMsg, obs: &mut O) {
        let rejected = &mut self.stats.rejected_pdus;
        let Some(pair) = LevelPair::new(message.min, message.max) else {
            rejected.malformed += 1;
            return;
        };
        let Some(flow) = self.flows.by_id(message.flow) else {
            return;
        };
        let tokens = self.config.require_tokens;
        let pair = flow.branch(from).map_or(pair, |branch| {
            // Beyond its contract a member gets nothing.
            let agreed = branch.passes.agreed_level(message.origin);
            let cap = tokens.then(|| branch.passes.cap(message.origin));
            [agreed, cap]
                .into_iter()
                .flatten()
                .fold(pair, LevelPair::reduce_to)
        });
        let levels = match (flow.is_alternative(), message.levels.is_empty()) {
            (false, _) => LevelSet::EMPTY,
            (true, true) => LevelSet::of(pair.max()),
            (true, false) => message.levels.served(pair.max(), LevelSet::ALL),
        };
        // What anybody says of rates counts only where any rate can be had, and not beyond that.
        let most = flow.info.spec.above_base(pair.max());
        let rate = match flow.is_continuous() {
            true => message.rate_max.min(most),
            false => most,
        };
        let Some(branch) = flow.branch(from).filter(|branch| branch.is_committed()) else {
            rejected.unknown += 1;
            return;
        };
        let request = Request {
            origin: message.origin,
            era: message.era,
            wish: Wish { pair, levels, rate },
            hops: message.hops,
            drain: message.drain,
            at: now,
        };
        let is_first = branch.requests.is_empty();
        let mut requests = branch.requests.iter();
        match requests.position(|known| known.origin == message.origin) {
            // A repair that newer RES overtook. An origin that was started again begins a count of its own.
            Some(index) if branch.requests[index].is_newer_than(&request) => {
                rejected.stale += 1;
                return;
            }
            // In a storm the last one wins.
            Some(index) => branch.requests[index] = request,
            None if branch.requests.len() < MAX_ORIGINS => branch.requests.push(request),
            None => {
                rejected.origins += 1;
                return;
            }
        }
        branch.heard = now;
        // A filter is a sink of its own, with its own eras.
        let filtered = branch.filter.is_some();
        flow.res_pending |= !filtered;
        let at_source = flow.upstream == PortId::LOCAL;
        if let Some(port) = self.ports.get_mut(from) {
            port.regrant = true;
        }
        // The node upstream waits for the first demand before it sends the running GOP.
        let is_awaited = is_first && self.config.fast_start;
        if (at_source || is_awaited) && !filtered {
            // The source itself limits how often it answers.
            self.regrant(now, from, "fair share of the link", obs);
            self.send_res(now, message.flow, obs);
        }
        self.demand_came(now, message.flow, from);
    }

    fn on_adapt<O: Observer>(&mut self, now: Time, from: PortId, message: AdapterMsg, obs: &mut O) {
        let life = self.config.era.times(3);
        let Some(flow) = self.flows.by_id(message.flow) else {
            return;
        };
        if flow.upstream != from {
            self.stats.rejected_pdus.unknown += 1;
            return;
        }
        // After three eras of silence any era is news: the source may have started again.
        let heard = flow.adapted.filter(|(_, at)| now.since(*at) <= life);
        let (mut eras, at) = heard.unwrap_or((Newest::default(), now));
        let judged = eras.judge(message.era, ERAS_AHEAD);
        if let Numbered::Behind | Numbered::Stray = judged {
            flow.adapted = Some((eras, at));
            self.stats.rejected_pdus.stale += 1;
            return;
        }
        flow.adapted = Some((eras, now));
        flow.forwarded_era = message.era;
        flow.upstream_grant = UpstreamGrant {
            min: message.min,
            max: message.max,
            levels: match (flow.is_alternative(), message.levels.is_empty()) {
                (false, _) => LevelSet::EMPTY,
                (true, true) => LevelSet::of(message.max),
                (true, false) => message.levels,
            },
            rate_min: message.rate_min.min(message.rate_max),
            rate_max: message.rate_max,
        };
        for index in 0..flow.branches.len() {
            let Some(flow) = self.flows.by_id(message.flow) else {
                return;
            };
            let branch = &flow.branches[index];
            if !branch.is_committed() {
                continue;
            }
            let port = branch.port;
            if branch.filter.is_some() {
                self.serve_filtered(now, message.flow, port, obs);
                continue;
            }
            let (level, rate) = flow.served(branch);
            let asks = branch.demand(self.config.merge);
            let reason = match level < message.max {
                true if asks.is_none_or(|wish| wish.pair.max() <= level) => ASKS_FOR_LESS,
                true => "fair share of the link",
                false => "advertised by the source",
            };
            let hops = message.hops.saturating_add(1);
            let adapt = Adapt {
                level,
                levels: flow.served_levels(branch),
                rate,
                era: message.era,
                origin: message.origin,
                hops,
            };
            self.announce(now, message.flow, port, adapt, reason, obs);
        }
        self.grant_came(now, message.flow);
    }

    /// Divides what base layers leave of a link; branches that lose are lowered immediately.
    pub(crate) fn regrant<O: Observer>(
        &mut self,
        now: Time,
        id: PortId,
        reason: &'static str,
        obs: &mut O,
    ) {
        let Some(port) = self.ports.get_mut(id) else {
            return;
        };
        port.regrant = false;
        let mut reserved = CellRate(0);
        self.demands.clear();
        for flow in self.flows.iter() {
            let mut branches = flow.branches.iter();
            let Some(branch) = branches.find(|b| b.port == id && b.is_committed()) else {
                continue;
            };
            reserved = reserved.saturating_add(branch.base);
            self.demands.push(demand(flow, branch, self.config.merge));
        }
        let residual = match port.config.adapts {
            true => port.config.capacity().saturating_sub(reserved),
            false => CellRate(u32::MAX),
        };
        port.residual = fair_share(residual, &self.demands, &mut self.grants);
        for index in 0..self.demands.len() {
            let (flow, grant) = (self.demands[index].flow, self.grants[index]);
            let scarce = !self.demands[index].is_met(grant);
            let Some(entry) = self.flows.by_id(flow) else {
                continue;
            };
            let era = entry.forwarded_era;
            let Some(branch) = entry.branch(id) else {
                continue;
            };
            if branch.grant != grant {
                branch.grant = grant;
                obs.on(now, subject(&self.config), || TraceEvent::Decision {
                    flow,
                    what: "grant",
                    value: grant.level.get().into(),
                    reason,
                });
            }
            let (target, before) = (branch.gate.target, branch.gate.levels);
            let Some(branch) = entry.branches.iter().find(|branch| branch.port == id) else {
                continue;
            };
            let (level, rate) = entry.served(branch);
            let levels = entry.served_levels(branch);
            if target > level || target == level && levels != before {
                let adapt = Adapt {
                    level,
                    levels,
                    rate,
                    era,
                    origin: self.config.id,
                    hops: 1,
                };
                if let Some(branch) = entry.branch(id) {
                    // Dropping layers for want of bandwidth is congestion (specs/mets.md 2.11); a lower grant because
                    // the receiver requests less is not.
                    branch.mark_next |= scarce;
                }
                let reason = match scarce {
                    true => reason,
                    false => ASKS_FOR_LESS,
                };
                self.announce(now, flow, id, adapt, reason, obs);
            }
        }
    }

    /// Cells/s that the flows of a port ask of it at each level: base layers, and what their branches want above them.
    pub fn levels_on(&self, id: PortId) -> [CellRate; 3] {
        let mut all = [CellRate(0); 3];
        for flow in self.flows.iter() {
            let mut branches = flow.branches.iter();
            let Some(branch) = branches.find(|b| b.port == id && b.is_committed()) else {
                continue;
            };
            let demand = demand(flow, branch, self.config.merge);
            for (sum, level) in all.iter_mut().zip([Level::BASE, Level::E1, Level::FULL]) {
                let rate = branch.base.saturating_add(demand.up_to(level));
                *sum = sum.saturating_add(rate);
            }
        }
        all
    }

    /// Sends ADAPT on a branch and sets its level from the next GOP on.
    ///
    /// A level changes only with the ADAPT that says so in the queue: the receiver reads off the
    /// last ADAPT before a GOP which frames to expect. If there is no room, it is tried again.
    pub(crate) fn announce<O: Observer>(
        &mut self,
        now: Time,
        id: FlowId,
        to: PortId,
        adapt: Adapt,
        reason: &'static str,
        obs: &mut O,
    ) {
        let Some(flow) = self.flows.by_id(id) else {
            return;
        };
        let upstream_grant = flow.upstream_grant;
        let (min, rate_min) = match flow.is_continuous() {
            true if adapt.level == upstream_grant.max => {
                (upstream_grant.min, upstream_grant.rate_min.min(adapt.rate))
            }
            true => (adapt.level, adapt.rate),
            false => {
                let min = adapt.level.down();
                (min, flow.info.spec.above_base(min))
            }
        };
        let origin = self.config.id;
        let mut message = AdapterMsg {
            kind: AdapterKind::Adapt,
            group: flow.info.group,
            flow: id,
            era: adapt.era,
            origin: adapt.origin,
            min,
            max: adapt.level,
            hops: adapt.hops,
            levels: adapt.levels,
            rate_min,
            rate_max: adapt.rate,
            residual: self.ports.get(to).map_or(CellRate(0), |port| port.residual),
            drain: CellRate(0),
        };
        let carriage = flow.carriage.unwrap_or(Carriage::Datagrams);
        let Some(branch) = flow.branch(to) else {
            return;
        };
        let sent = if let Some(point) = branch.filter.as_deref_mut() {
            message.era = point.next_number(adapt.era);
            message.origin = origin;
            (message.min, message.rate_min) = point.lower_part(adapt.level, adapt.rate);
            if point.picks_layers() {
                point.say(now, &message);
                self.send_adapter(now, to, carriage, message, obs)
            } else {
                point.announce(now, id, message);
                self.filter_wake = earliest(self.filter_wake, point.next());
                true
            }
        } else {
            message.era = adapt.era.plus(branch.era_shift);
            self.send_adapter(now, to, carriage, message, obs)
        };
        let Some(branch) = self.flows.by_id(id).and_then(|flow| flow.branch(to)) else {
            return;
        };
        let (from, to_level) = (branch.gate.target, adapt.level);
        if !sent {
            if let Some(port) = self.ports.get_mut(to) {
                port.regrant |= to_level < from;
            }
            return;
        }
        (branch.gate.target, branch.gate.levels) = (to_level, adapt.levels);
        if from != to_level {
            obs.on(now, subject(&self.config), || TraceEvent::Decision {
                flow: id,
                what: "adapt",
                value: to_level.get().into(),
                reason,
            });
            self.emit(SwitchEvent::Granted {
                flow: id,
                port: to,
                from,
                to: to_level,
                reason,
            });
        }
    }

    /// Sends the merged demand of a flow upstream, if the flow is joined there.
    pub(crate) fn send_res<O: Observer>(&mut self, now: Time, id: FlowId, obs: &mut O) {
        let Some(flow) = self.flows.by_id(id).filter(|flow| flow.is_joined()) else {
            return;
        };
        flow.res_pending = false;
        let Some(Wish { pair, levels, rate }) = flow.merged(self.config.merge) else {
            return;
        };
        flow.era = flow.era.plus(1);
        let requests = flow.branches.iter().flat_map(|branch| &branch.requests);
        let hops = requests.map(|request| request.hops).max().unwrap_or(0);
        let drain = flow.drain();
        let ports = &self.ports;
        let branches = flow.branches.iter().filter(|branch| branch.is_committed());
        let residual = branches
            .filter_map(|branch| ports.get(branch.port))
            .map(|port| port.residual)
            .min();
        let message = AdapterMsg {
            kind: AdapterKind::Res,
            group: flow.info.group,
            flow: id,
            era: flow.era,
            origin: self.config.id,
            min: pair.min(),
            max: pair.max(),
            hops: hops.saturating_add(1),
            levels,
            rate_min: match flow.is_continuous() {
                true => CellRate(0),
                false => flow.info.spec.above_base(pair.min()),
            },
            rate_max: rate,
            residual: residual.unwrap_or(CellRate(0)),
            drain,
        };
        let carriage = flow.carriage.unwrap_or(Carriage::Datagrams);
        let upstream = flow.upstream;
        obs.on(now, subject(&self.config), || TraceEvent::Decision {
            flow: id,
            what: "res",
            value: pair.max().get().into(),
            reason: "merged demand of the branches",
        });
        self.send_adapter(now, upstream, carriage, message, obs);
    }
}

/// What a branch of a flow asks of its link; without a demand it takes no part.
fn demand(flow: &Flow, branch: &Branch, merge: Merge) -> Demand {
    let wish = branch.demand(merge);
    let (id, spec) = (flow.info.id, &flow.info.spec);
    if let Some(point) = &branch.filter {
        return point.demand(&flow.info, flow.is_continuous(), wish);
    }
    if flow.is_continuous() {
        let rate = wish.map_or(CellRate(0), |wish| wish.rate);
        let want = Want::Rate(rate);
        return Demand { flow: id, want };
    }
    let pair = wish.map_or(LevelPair::BASE, |wish| wish.pair);
    match wish.filter(|_| flow.is_alternative()) {
        Some(wish) => Demand::set(id, pair, wish.levels, spec),
        None => Demand::levels(id, pair, spec),
    }
}

/// What differs between one ADAPT and the next.
#[derive(Clone, Copy)]
pub(crate) struct Adapt {
    pub level: Level,
    /// Of a flow of alternative layers, those that pass; else none.
    pub levels: LevelSet,
    /// Cells/s above the base layer.
    pub rate: CellRate,
    pub era: Serial,
    pub origin: NodeId,
    pub hops: u8,
}
