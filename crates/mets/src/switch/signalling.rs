use std::collections::BTreeMap;

use layercast_core::{
    FlowId, Level, Observer, PortId, Quality, Rate, Resource, Serial, Time, TraceEvent,
};
use layercast_wire::{FlowInfo, Limit, Member, MemberReport, MemberStats, Signal, Via};

use crate::negotiation;
use crate::switch::declined::Declined;
use crate::switch::fast_start::Recent;
use crate::switch::flow::{Branch, Ending, Flow, Upstream, UpstreamGrant};
use crate::switch::gone::Gone;
use crate::switch::members::{Heard, Members};
use crate::switch::selector::Selector;
use crate::switch::ways::Ways;
use crate::switch::{Switch, SwitchEvent, subject};

/// Entries in one answer: a line of the session protocol has room for this number at any length.
const PER_ANSWER: usize = 16;

/// The session protocol around the branches: the known flows and the reports about them.
impl Switch {
    pub(crate) fn on_signal<O: Observer>(
        &mut self,
        now: Time,
        from: PortId,
        signal: Signal,
        obs: &mut O,
    ) {
        if self.ports.get(from).is_none() {
            self.stats.rejected_signals.port += 1;
            return;
        }
        match signal {
            Signal::Advertise { flow } => self.on_advertise(now, from, *flow, obs),
            Signal::Withdraw { flow, reason } => self.on_withdraw(now, from, flow, reason, obs),
            Signal::Close { flow, .. } => self.on_end(now, from, flow, Some(signal), None),
            Signal::Join {
                flow,
                epoch,
                member,
                proof,
                again,
                answer,
                ..
            } => {
                let with = (proof, again, answer);
                self.on_join(now, from, (flow, epoch), member, with, obs);
            }
            Signal::Decline {
                flow,
                member,
                refusal,
                proof,
            } => self.on_decline(now, from, flow, (member, *refusal), proof),
            Signal::JoinAck { flow, vci, .. } => self.on_join_ack(now, from, flow, vci, obs),
            Signal::JoinNak { flow, refusal } => self.on_join_nak(now, from, flow, refusal, obs),
            Signal::Leave { flow, member } => self.on_leave(now, from, flow, &member, obs),
            Signal::Filter {
                flow,
                member,
                filter,
            } => self.on_filter(now, from, flow, member, filter, obs),
            Signal::Filtered { flow, .. } => self.on_filtered(from, flow, &signal),
            Signal::Left { flow, member } => self.on_left(from, flow, &member),
            Signal::Report {
                flow,
                member,
                report,
            } => self.on_report(now, from, flow, member, *report),
            Signal::ToSource { flow, member, body } => {
                self.on_to_source(now, from, flow, member, body);
            }
            Signal::ToMember { flow, member, body } => self.on_to_member(from, flow, member, body),
            Signal::ListFlows => self.list_flows(from),
            Signal::GetStats { flow } => self.list_members(now, from, flow),
            Signal::Change { flow, change } => self.on_change(now, from, *flow, change, obs),
            Signal::ChangeAck {
                flow,
                member,
                change,
            } => self.on_change_answer(from, flow, &member, change, None),
            Signal::ChangeNak {
                flow,
                member,
                change,
                refusal,
            } => self.on_change_answer(from, flow, &member, change, Some(refusal)),
            Signal::ChangeEnd {
                flow,
                change,
                from: first,
            } => self.on_change_end(now, from, *flow, change, first, obs),
            Signal::Hello { .. }
            | Signal::LinkKey { .. }
            | Signal::Flows { .. }
            | Signal::Stats { .. }
            | Signal::Links { .. }
            | Signal::Clock { .. }
            | Signal::Ping
            | Signal::Pong
            | Signal::NameInUse { .. }
            | Signal::Error { .. } => self.stats.rejected_signals.foreign += 1,
        }
    }

    pub(crate) fn on_port_up(&mut self, now: Time, id: PortId) {
        let Some(port) = self.ports.get_mut(id) else {
            self.stats.rejected_signals.port += 1;
            return;
        };
        port.up = true;
        let mut adverts = Vec::new();
        let mut rejoins = Vec::new();
        // Of several flows of one name a receiver takes the one that it hears of first.
        for flow in self.flows.by_age().filter(|flow| flow.ending.is_none()) {
            if flow.upstream == id {
                rejoins.push(flow.info.id);
            } else if self.ports.is_up(flow.upstream) {
                adverts.push(flow.info.id);
            }
        }
        for flow in adverts {
            self.advertise(flow, |port| port == id);
        }
        for flow in rejoins {
            self.rejoin(now, flow);
        }
    }

    pub(crate) fn on_port_down(&mut self, id: PortId) {
        if id == PortId::LOCAL {
            return;
        }
        if let Some(port) = self.ports.get_mut(id) {
            port.up = false;
        }
        for flow in self.flows.iter_mut() {
            flow.others.remove(id);
            if flow.upstream == id {
                // Data may still come in: only the channel is lost, so circuits stay.
                flow.link = Upstream::Idle;
                flow.confirmed = false;
            } else if let Some(branch) = flow.branch(id) {
                // Members that are still there join again; the others can no longer do so.
                branch.members.clear();
            }
        }
        for flow in self.flows.ids() {
            self.excuse(flow, |port, _| port == id);
        }
    }

    fn on_advertise<O: Observer>(&mut self, now: Time, from: PortId, info: FlowInfo, obs: &mut O) {
        let (id, via) = (info.id, info.via);
        // Of a channel that is lost nothing would tell that the flow is gone.
        if !self.ports.is_up(from) || !self.is_credible(&info) {
            self.stats.rejected_signals.advertise += 1;
            return;
        }
        if info.way.contains(&self.number) {
            self.stats.rejected_signals.advertise += 1;
            return self.lose_way(now, id, from, obs);
        }
        let info = FlowInfo {
            via: Via::Source,
            ..info
        };
        let slot = self.flows.slot_of(id);
        if let Some(flow) = slot.and_then(|slot| self.flows.get_mut(slot)) {
            let same = flow.ending.is_none() && flow.info.is_same(&info);
            let changed = flow.ending.is_none() && info.succeeds(&flow.info);
            if (same || changed) && flow.upstream == from {
                flow.confirmed = true;
                flow.info.media_ms_per_s = info.media_ms_per_s;
                flow.info.input_damaged = info.input_damaged;
                flow.info.input_failed = info.input_failed;
            }
            // A flow of this node is not taken from another one; that its node is on the way to the core counts.
            let begins_here = flow.upstream == PortId::LOCAL;
            if same && !flow.rooted && (via == Via::Spine || via == Via::Core && !begins_here) {
                return self.on_rooted(now, from, info, via);
            }
            if via == Via::Spine && same {
                return self.on_spine(now, id, from);
            }
        }
        if let Some(flow) = slot.and_then(|slot| self.flows.get(slot))
            && flow.upstream != from
            && !self.supersedes(from, flow, &info)
        {
            self.stats.rejected_signals.advertise += 1;
            let keeps = flow.upstream != PortId::LOCAL && info.core.is_none();
            if let Some(flow) = self.flows.by_id(id).filter(|_| keeps) {
                flow.others.put(from, info);
            }
            return;
        }
        self.accept(now, from, info, via, obs);
    }

    /// The flow comes from this neighbour from now on.
    pub(crate) fn accept<O: Observer>(
        &mut self,
        now: Time,
        from: PortId,
        info: FlowInfo,
        via: Via,
        obs: &mut O,
    ) {
        let id = info.id;
        let (mut others, mut order) = (Ways::default(), None);
        if let Some(flow) = self.flows.by_id(id) {
            let same = flow.ending.is_none() && flow.info.is_same(&info);
            let changed = flow.ending.is_none() && info.succeeds(&flow.info);
            if same || changed {
                flow.others.remove(from);
                self.move_upstream(id, from);
                match changed {
                    // It was renegotiated while the channel was lost.
                    true => self.adopt(now, info, obs),
                    false => {
                        if let Some(flow) = self.flows.by_id(id) {
                            flow.info = info;
                        }
                    }
                }
                // A node on the way to the core that started again must hear that it is.
                let back = via == Via::Source && self.leads_back(id);
                self.advertise(id, |port| port != from || back);
                if self
                    .flows
                    .by_id(id)
                    .is_some_and(|flow| flow.link == Upstream::Idle)
                {
                    self.rejoin(now, id);
                }
                return;
            }
            let reason = match info.is_other_life(&flow.info) {
                true => "the source has started again",
                false => "replaced by a new flow",
            };
            let asked = flow.link != Upstream::Idle && flow.upstream != from;
            others = std::mem::take(&mut flow.others).that_lead_to(&info, from);
            order = Some(flow.order);
            if let Some(member) = flow.joined_as.take().filter(|_| asked) {
                let upstream = flow.upstream;
                self.signal(upstream, Signal::Leave { flow: id, member });
            }
            self.remove_flow(now, id, reason, obs);
        }
        if via == Via::Spine || !self.make_room(now, from, obs) {
            self.stats.rejected_signals.advertise += 1;
            return;
        }
        let port = self.ports.get(from).filter(|_| from != PortId::LOCAL);
        let is_core = info
            .core
            .as_ref()
            .is_none_or(|core| *core == self.config.name);
        self.flows.insert(
            Flow {
                rooted: is_core || via == Via::Core,
                direct: (from, info.path_delay_us),
                spine: false,
                lost: None,
                confirmed: true,
                selector: Selector::new(&info),
                info: info.clone(),
                upstream: from,
                others,
                order: 0,
                link: Upstream::Idle,
                vci_in: None,
                joined_as: None,
                joined_with: None,
                carriage: port.map(|port| port.config.carriage),
                branches: Vec::new(),
                recent: Recent::default(),
                adapted: None,
                upstream_grant: UpstreamGrant::default(),
                forwarded_era: Serial(0),
                era: Serial(0),
                res_pending: false,
                members: Members::default(),
                gone: Gone::default(),
                declined: Declined::default(),
                told: BTreeMap::new(),
                ending: None,
                change: None,
            },
            order,
        );
        let back = via == Via::Source && self.leads_back(id);
        self.advertise(id, |port| port != from || back);
    }

    /// Advertises a flow to the ports that are `wanted`, as far as they are up.
    pub(crate) fn advertise(&mut self, id: FlowId, wanted: impl Fn(PortId) -> bool) {
        for port in self
            .ports
            .ids()
            .filter(|&port| wanted(port))
            .collect::<Vec<_>>()
        {
            if let Some(flow) = self.flow_towards(id, port) {
                if let Some(known) = self.flows.by_id(id).filter(|_| flow.mediation.is_some()) {
                    known.told.insert(port, negotiation::level_of_line(&flow));
                }
                self.signal(port, Signal::Advertise { flow: flow.into() });
            }
        }
    }

    /// A flow whose upstream link is lost may come back over another.
    pub(crate) fn move_upstream(&mut self, id: FlowId, to: PortId) {
        let Some(flow) = self.flows.by_id(id).filter(|flow| flow.upstream != to) else {
            return;
        };
        let asked = std::mem::replace(&mut flow.link, Upstream::Idle) != Upstream::Idle;
        let (before, member) = (flow.upstream, flow.joined_as.clone());
        if let Some(member) = member.filter(|_| asked) {
            self.signal(before, Signal::Leave { flow: id, member });
        }
        self.flows.unmap(id);
        let carriage = self.ports.get(to).map(|port| port.config.carriage);
        let Some(flow) = self.flows.by_id(id) else {
            return;
        };
        flow.upstream = to;
        flow.confirmed = true;
        let is_told = flow.info.core.is_none() && to != PortId::LOCAL;
        if to != PortId::LOCAL {
            flow.carriage = carriage;
        }
        let carriage = flow.carriage;
        if is_told {
            let (flow, reason) = (id, "it comes from there".into());
            self.signal(to, Signal::Withdraw { flow, reason });
        }
        let Some(flow) = self.flows.by_id(id) else {
            return;
        };
        // The source does not lie downstream of itself, nor are cells made into datagrams.
        let ports: Vec<PortId> = flow.branches.iter().map(|branch| branch.port).collect();
        for port in ports {
            let config = self.ports.get(port).map(|port| &port.config);
            let fits = config.is_some_and(|config| Some(config.carriage) == carriage);
            if port == to {
                self.remove_branch(id, port);
            } else if !fits && port != PortId::LOCAL {
                // The members behind it wait for no answer: they ask again when the flow is advertised again.
                let refusal = self.refusal(Resource::Carriage, 0, 0);
                let (flow, reason) = (id, refusal.to_string());
                self.signal(port, Signal::Withdraw { flow, reason });
                self.emit(SwitchEvent::Refused {
                    flow,
                    port,
                    refusal,
                });
                self.remove_branch(id, port);
            }
        }
    }

    /// A neighbour has a flow no more: it continues over another one, unless its source has closed it.
    fn on_withdraw<O: Observer>(
        &mut self,
        now: Time,
        from: PortId,
        id: FlowId,
        reason: String,
        obs: &mut O,
    ) {
        let known = self.flows.by_id(id);
        if known.is_some_and(|flow| flow.upstream != from && flow.others.remove(from)) {
            return;
        }
        let known = self.flows.by_id(id);
        let ours = known.is_some_and(|flow| flow.upstream == from);
        if !ours || !self.take_other_way(now, id, obs) {
            self.on_end(now, from, id, None, Some(reason));
        }
    }

    /// Takes note that the source ends a flow; passed on once the data before it has left.
    fn on_end(
        &mut self,
        now: Time,
        from: PortId,
        id: FlowId,
        close: Option<Signal>,
        withdraw: Option<String>,
    ) {
        let known = self.flows.by_id(id);
        let Some(flow) = known.filter(|flow| flow.upstream == from) else {
            self.stats.rejected_signals.unknown += 1;
            return;
        };
        let ports = &self.ports;
        let branches = flow.branches.iter();
        let at = branches
            .filter_map(|branch| {
                let filter = branch.filter.as_ref().map(|point| point.drain(id));
                let filtered = now.saturating_add(filter.unwrap_or_default());
                Some(ports.get(branch.port)?.queue.drained_at().max(filtered))
            })
            .fold(now, Time::max);
        // A line that stands still must not keep the flow forever.
        let at = at.min(now.saturating_add(self.config.era.times(3)));
        let ending = flow.ending.get_or_insert(Ending {
            at,
            close: None,
            withdraw: None,
            announced: false,
        });
        // A second farewell is passed on too.
        ending.announced = false;
        ending.at = at;
        ending.close = ending.close.take().or(close);
        ending.withdraw = ending.withdraw.take().or(withdraw);
        self.next_ending = Some(self.next_ending.map_or(at, |other| other.min(at)));
    }

    /// Passes on the farewells that are due, and forgets flows three eras after theirs.
    pub(crate) fn run_endings<O: Observer>(&mut self, now: Time, obs: &mut O) {
        let linger = self.config.era.times(3);
        let mut next: Option<Time> = None;
        for id in self.flows.ids() {
            let Some(flow) = self.flows.by_id(id) else {
                continue;
            };
            let Some(ending) = &mut flow.ending else {
                continue;
            };
            if ending.announced && ending.at.saturating_add(linger) <= now {
                self.replace_flow(now, id, "ended by its source", obs);
            } else if !ending.announced && ending.at <= now {
                ending.announced = true;
                let (close, reason) = (ending.close.clone(), ending.withdraw.clone());
                let until = ending.at.saturating_add(linger);
                next = Some(next.map_or(until, |other| other.min(until)));
                self.say_farewell(id, close, reason);
            } else {
                let at = if ending.announced {
                    ending.at.saturating_add(linger)
                } else {
                    ending.at
                };
                next = Some(next.map_or(at, |other| other.min(at)));
            }
        }
        self.next_ending = next;
    }

    /// Close goes down the tree, Withdraw to all that heard the advertisement.
    fn say_farewell(&mut self, id: FlowId, close: Option<Signal>, withdraw: Option<String>) {
        let Some(flow) = self.flows.by_id(id) else {
            return;
        };
        let upstream = flow.upstream;
        let receivers: Vec<PortId> = flow.branches.iter().map(|branch| branch.port).collect();
        if let Some(close) = close {
            for port in receivers {
                self.signal(port, close.clone());
            }
        }
        if let Some(reason) = withdraw {
            self.tell_all(upstream, &Signal::Withdraw { flow: id, reason });
        }
    }

    /// The node ends: its neighbours need not find out by its silence.
    pub(crate) fn on_stop<O: Observer>(&mut self, now: Time, obs: &mut O) {
        let gone = format!(
            "node {}, on the way to its source, was stopped",
            self.config.name
        );
        for id in self.flows.ids() {
            let known = self.flows.by_id(id);
            let Some(flow) = known.filter(|flow| flow.upstream != PortId::LOCAL) else {
                continue;
            };
            let (close, withdraw) = match flow.ending.take() {
                // What the source said, and what still waits for the data before it, counts more.
                Some(ending) => (ending.close.filter(|_| !ending.announced), ending.withdraw),
                None => (None, None),
            };
            flow.ending = Some(Ending {
                at: now,
                close: None,
                withdraw: withdraw.or_else(|| Some(gone.clone())),
                announced: false,
            });
            if close.is_some() {
                self.say_farewell(id, close, None);
            }
            self.leave_upstream(id);
            self.remove_flow(now, id, "the node was stopped", obs);
        }
    }

    /// Forgets a flow and everything that hangs on it.
    pub(crate) fn remove_flow<O: Observer>(
        &mut self,
        now: Time,
        id: FlowId,
        reason: &'static str,
        obs: &mut O,
    ) {
        if let Some(slot) = self.flows.slot_of(id) {
            self.ports.forget(slot as u32);
        }
        let Some(flow) = self.flows.remove(id) else {
            return;
        };
        for branch in &flow.branches {
            if let Some(port) = self.ports.get_mut(branch.port) {
                port.regrant = true;
                if let Some(point) = &branch.filter {
                    let to = &port.config.name;
                    self.stats.filtered(&flow.info.name, to, point.stats());
                }
            }
        }
        self.stats.unknown_types += flow.selector.unknown_types;
        self.stats.resyncs += flow.selector.resyncs;
        // A farewell that still waits for the data before it must not be lost.
        let withdraw = flow
            .ending
            .map(|ending| (ending.announced, ending.withdraw));
        if !matches!(withdraw, Some((true, Some(_)))) {
            let waiting = withdraw.and_then(|(_, withdraw)| withdraw);
            let reason = waiting.unwrap_or_else(|| reason.to_owned());
            self.tell_all(flow.upstream, &Signal::Withdraw { flow: id, reason });
        }
        obs.on(now, subject(&self.config), || TraceEvent::State {
            flow: id,
            what: "flow",
            from: "known",
            to: reason,
        });
        self.emit(SwitchEvent::FlowGone { flow: id });
    }

    fn on_report(
        &mut self,
        now: Time,
        from: PortId,
        id: FlowId,
        member: Member,
        report: MemberReport,
    ) {
        if let Some(heard) = self.hear(now, from, id, &member) {
            heard.report = Some((now, report));
            self.tell_source(id, |flow| Signal::Report {
                flow,
                member,
                report: Box::new(report),
            });
        }
    }

    fn list_flows(&mut self, to: PortId) {
        let live = || self.flows.iter().filter(|flow| flow.ending.is_none());
        // A flow whose way is lost is not listed beside the one of that name that took its place.
        let replaced = |old: &Flow| {
            let is_new = |new: &Flow| new.confirmed && new.info.name == old.info.name;
            !old.confirmed && live().any(is_new)
        };
        let flows = self.flows.by_age().filter(|flow| flow.ending.is_none());
        let flows = flows.filter(|flow| !replaced(flow));
        let told = |flow: &Flow| FlowInfo {
            way: Vec::new(),
            ..flow.info.clone()
        };
        let flows: Vec<FlowInfo> = flows.map(told).collect();
        self.answer(to, flows, |flows| Signal::Flows { flows });
    }

    fn list_members(&mut self, now: Time, to: PortId, only: Option<FlowId>) {
        let mut members = Vec::new();
        for flow in self.flows.iter() {
            if only.is_some_and(|id| id != flow.info.id) {
                continue;
            }
            let limits: Vec<(PortId, Level, Option<Limit>)> = flow
                .branches
                .iter()
                .map(|branch| (branch.port, branch.gate.target, self.limit(flow, branch)))
                .collect();
            let of_port = |port| limits.iter().find(|entry| entry.0 == port);
            let limit = |port, report: &MemberReport| {
                let limit = of_port(port)?.2;
                match limit {
                    Some(Limit::Demand { level }) if report.marked > 0 => {
                        self.bursts(flow, port, level).or(limit)
                    }
                    limit => limit,
                }
            };
            let upstream = self.neighbour(flow.upstream);
            // What is known of any member by its last report.
            let heard_of = |member: &Member, heard: &Heard| {
                let (came, report) = heard.report?;
                let next = self.neighbour(heard.port);
                Some(MemberStats {
                    member: member.clone(),
                    flow: flow.info.id,
                    node: self.config.name.clone(),
                    joined_at_ms: heard.first.as_us() / 1_000,
                    level: report.level,
                    wanted: report.selected(Level::BASE),
                    report: Some(report),
                    report_age_ms: Some(now.since(came).as_ms()),
                    limit: None,
                    upstream: upstream.clone(),
                    next: next.filter(|next| *next != member.name),
                    gone: false,
                    refused: None,
                })
            };
            members.extend(flow.members.iter().filter_map(|(member, heard)| {
                let known = heard_of(member, heard)?;
                // The level and what limits it are of one moment.
                let granted = of_port(heard.port).filter(|_| known.next.is_none());
                Some(MemberStats {
                    level: granted.map_or(known.level, |it| it.1),
                    limit: known.report.and_then(|it| limit(heard.port, &it)),
                    ..known
                })
            }));
            members.extend(flow.gone.iter(now).filter_map(|(member, heard)| {
                let known = heard_of(member, heard)?;
                // What it gets now is not known.
                let report = known.report.map(|it| MemberReport {
                    quality: it.quality.map(|_| Quality::default()),
                    ..it
                });
                Some(MemberStats {
                    report,
                    gone: true,
                    ..known
                })
            }));
            members.extend(flow.declined.iter().map(|it| MemberStats {
                member: it.member.clone(),
                flow: flow.info.id,
                node: self.config.name.clone(),
                joined_at_ms: it.at.as_us() / 1_000,
                level: Level::BASE,
                wanted: Level::BASE,
                report: None,
                report_age_ms: None,
                limit: None,
                upstream: None,
                next: None,
                gone: false,
                refused: Some(it.refusal.clone()),
            }));
        }
        self.answer(to, members, |members| Signal::Stats { members });
    }

    /// The name of the node at the other end of a port.
    fn neighbour(&self, port: PortId) -> Option<String> {
        let port = self.ports.get(port).filter(|_| port != PortId::LOCAL)?;
        Some(port.config.name.clone())
    }

    /// That the line of a port is too slow for the busiest GOPs of the level above `level`.
    fn bursts(&self, flow: &Flow, port: PortId, level: Level) -> Option<Limit> {
        let config = &self.ports.get(port)?.config;
        let available = config.adapt_capacity.or(config.rate.map(Rate::cells))?;
        let needed = flow.info.spec.peak_at(level.up());
        (needed > available).then_some(Limit::Bursts {
            level,
            needed,
            available,
        })
    }

    /// What keeps a branch below the highest level of its flow.
    fn limit(&self, flow: &Flow, branch: &Branch) -> Option<Limit> {
        let (spec, level) = (&flow.info.spec, branch.gate.target);
        if level >= spec.top_level() {
            return None;
        }
        let Some(wish) = branch.demand(self.config.merge) else {
            return Some(Limit::NoDemand);
        };
        let asked = wish.pair.max();
        if asked <= level {
            return Some(Limit::Demand { level: asked });
        }
        if branch.grant.level < asked {
            let above = |level| spec.measured_above_base(level);
            let residual = self.ports.get(branch.port).map(|port| port.residual);
            return Some(Limit::Link {
                needed: above(branch.grant.level.up()),
                available: branch
                    .grant
                    .rate
                    .saturating_add(residual.unwrap_or_default()),
            });
        }
        let level = flow.upstream_grant.max;
        Some(Limit::Upstream { level })
    }

    /// Answers with as many messages as it takes, at least one.
    fn answer<T: Clone>(&mut self, to: PortId, all: Vec<T>, message: impl Fn(Vec<T>) -> Signal) {
        if all.is_empty() {
            self.signal(to, message(all));
            return;
        }
        for part in all.chunks(PER_ANSWER) {
            self.signal(to, message(part.to_vec()));
        }
    }

    /// Sends a message to every port that is up, but for the one it came from.
    fn tell_all(&mut self, but: PortId, signal: &Signal) {
        for port in self
            .ports
            .ids()
            .filter(|&port| port != but)
            .collect::<Vec<_>>()
        {
            self.signal(port, signal.clone());
        }
    }
}
