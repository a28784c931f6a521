use layercast_core::{CellRate, FlowId, Observer, PortId, Time, TraceEvent};
use layercast_qos::Grant;
use layercast_wire::{Agreed, Bounds, Carriage, Epoch, Member, Opaque, Refusal, Resource, Signal};

use crate::negotiation::{self, Terms};
use crate::switch::flow::{Branch, Flow, Hold, Upstream};
use crate::switch::members::Joined;
use crate::switch::passes::Passes;
use crate::switch::port::FIRST_VCI;
use crate::switch::selector::Gate;
use crate::switch::{Switch, SwitchEvent, subject};
use layercast_link::FrameFate;

/// Most members of a flow behind one port, except that of this node: a neighbour joins for itself, a switch in
/// the name of one of its members, and a multicast port is for its members.
pub const MAX_MEMBERS_PER_PORT: usize = 1_024;

/// How branches come and go: Join, JoinAck, JoinNak, Leave (specs/mets.md 2.10).
impl Switch {
    pub(crate) fn on_join<O: Observer>(
        &mut self,
        now: Time,
        from: PortId,
        (id, epoch): (FlowId, Epoch),
        member: Member,
        (proof, again, answer): (Option<Opaque>, bool, Option<Box<Bounds>>),
        obs: &mut O,
    ) {
        let places = u64::from(self.config.max_members);
        let members = self.flows.iter().flat_map(|flow| &flow.branches);
        let full = members
            .map(|branch| branch.members.len() as u64)
            .sum::<u64>()
            >= places;
        let known = self.flows.by_id(id);
        let known = known.filter(|flow| flow.ending.is_none() && flow.upstream != from);
        let Some(life) = known.map(|flow| flow.info.epoch) else {
            self.stats.rejected_signals.unknown += 1;
            let refusal = self.refusal(Resource::UnknownFlow, 0, 0);
            return self.refuse(now, id, from, refusal, obs);
        };
        if life != epoch {
            // Meant for another life: the advertisement of this one is on its way to the neighbour, or a later
            // one on its way here. An answer would be taken for the answer to the next join.
            self.stats.rejected_signals.life += 1;
            return;
        }
        let known = self.flows.by_id(id);
        let branch = known.and_then(|flow| flow.branch(from));
        let here = branch.filter(|_| from != PortId::LOCAL);
        let crowded = here.is_some_and(|branch| {
            branch.members.len() >= MAX_MEMBERS_PER_PORT && !branch.members.contains(&member)
        });
        if crowded {
            let places = MAX_MEMBERS_PER_PORT as u64;
            let refusal = self.refusal(Resource::TooManyMembers, places + 1, places);
            return self.refuse(now, id, from, refusal, obs);
        }
        let pass = match self.pass(now, from, id, &member, proof) {
            Ok(pass) => pass,
            Err(refusal) => return self.refuse(now, id, from, refusal, obs),
        };
        let pass = pass.with(self.agree(id, from, answer));
        let Some(flow) = self.flows.by_id(id) else {
            return;
        };
        let branch = flow.branch(from);
        let is_new_branch = branch.is_none();
        let is_new = branch
            .as_ref()
            .is_none_or(|branch| !branch.members.contains(&member));
        if is_new && full {
            let refusal = self.refusal(Resource::TooManyMembers, places + 1, places);
            return self.refuse(now, id, from, refusal, obs);
        }
        if let Some(branch) = branch {
            branch.heard = now;
            if branch.members.is_empty() {
                branch.passes.clear();
            }
            if is_new {
                branch.members.push(member.clone());
            }
        }
        if is_new && !is_new_branch {
            self.release_filter(id, from);
        }
        if is_new_branch {
            self.open_measured(now, from);
            match self.admit(id, from, self.survives(now, from, again)) {
                Ok(base) => self.reserve(now, id, from, base, member.clone()),
                Err(refusal) => return self.refuse(now, id, from, refusal, obs),
            }
        }
        if is_new && let Err(refusal) = self.include(id, from, &member) {
            if is_new_branch {
                self.remove_branch(id, from);
            }
            return self.refuse(now, id, from, refusal, obs);
        }
        let Some(flow) = self.flows.by_id(id) else {
            return;
        };
        if let Some(branch) = flow.branch(from) {
            branch.passes.put(pass);
        }
        let takes_tokens = flow.info.identity.as_ref();
        if takes_tokens.is_some_and(|identity| identity.tokens) {
            self.replace_namesakes(now, from, id, &member, obs);
        }
        let Some(flow) = self.flows.by_id(id) else {
            return;
        };
        if flow.is_joined() {
            self.rename(id);
            self.commit(now, id, from, Some(&member), obs);
            if is_new {
                self.tell_change(id, from);
            }
        } else if flow.link == Upstream::Idle && flow.rooted {
            self.join_upstream(now, id, member);
        }
    }

    /// What is agreed with a member behind a port that answered the offer; the source left it to the nodes.
    fn agree(&mut self, id: FlowId, from: PortId, answer: Option<Box<Bounds>>) -> Option<Terms> {
        let (answer, flow) = (answer?, self.flow_towards(id, from)?);
        flow.mediation?;
        let (terms, clipped) = negotiation::agree(&flow, &answer);
        self.stats.clipped_answers += u64::from(clipped);
        Some(terms)
    }

    /// A member does not join, since the offer is not what it wants: the source hears of it.
    pub(crate) fn on_decline(
        &mut self,
        now: Time,
        from: PortId,
        id: FlowId,
        (member, refusal): (Member, Refusal),
        proof: Option<Opaque>,
    ) {
        let known = self.flows.by_id(id).filter(|flow| {
            let lives = flow.ending.is_none() && flow.upstream != from;
            lives && flow.info.mediation.is_some()
        });
        if known.is_none() {
            self.stats.rejected_signals.unknown += 1;
            return;
        }
        if self.pass(now, from, id, &member, proof.clone()).is_err() {
            return;
        }
        let Some(flow) = self.flows.by_id(id) else {
            return;
        };
        flow.declined.add(now, member.clone(), refusal.clone());
        let upstream = flow.upstream;
        let signal = Signal::Decline {
            flow: id,
            member,
            refusal: Box::new(refusal),
            proof,
        };
        self.signal(upstream, signal);
    }

    fn reserve(&mut self, now: Time, id: FlowId, port: PortId, base: CellRate, member: Member) {
        let vci = self.free_circuit(port);
        let until = now.saturating_add(self.config.tentative);
        let carriage = self.ports.get(port).map(|port| port.config.carriage);
        let Some(flow) = self.flows.by_id(id) else {
            return;
        };
        if port != PortId::LOCAL {
            flow.carriage = flow.carriage.or(carriage);
        }
        flow.branches.push(Branch {
            port,
            vci,
            hold: Hold::Tentative { until },
            base,
            extra: CellRate(0),
            members: Joined::of(member),
            passes: Passes::default(),
            requests: Vec::new(),
            grant: Grant::default(),
            gate: Gate::default(),
            fate: FrameFate::default(),
            parity_fate: FrameFate::default(),
            filter: None,
            era_shift: 0,
            mark_next: false,
            heard: now,
            fast_start: None,
        });
        self.place_filter(now, id, port);
    }

    /// The next circuit that no branch of the port uses, from 64 up.
    fn free_circuit(&mut self, id: PortId) -> u16 {
        let flows = &self.flows;
        let used = |vci| {
            let mut branches = flows.iter().flat_map(|flow| &flow.branches);
            branches.any(|branch| branch.port == id && branch.vci == vci)
        };
        let Some(port) = self.ports.get_mut(id) else {
            return FIRST_VCI;
        };
        // Going round rather than taking the lowest keeps late cells of an old circuit apart.
        for _ in 0..=u16::MAX - FIRST_VCI {
            let vci = port.take_vci();
            if !used(vci) {
                return vci;
            }
        }
        FIRST_VCI
    }

    /// Asks upstream for a flow, in the name of `member`.
    pub(crate) fn join_upstream(&mut self, now: Time, id: FlowId, member: Member) {
        let Some(flow) = self.flows.by_id(id) else {
            return;
        };
        flow.link = Upstream::Joining { since: now };
        let (upstream, join) = flow.join_as(member);
        self.signal(upstream, join);
    }

    /// Asks upstream again for a flow that has branches here.
    pub(crate) fn rejoin(&mut self, now: Time, id: FlowId) {
        let Some(flow) = self.flows.by_id(id).filter(|flow| flow.rooted) else {
            return;
        };
        // The member in whose name we joined may have left while others stayed.
        let branches = flow.branches.iter();
        let mut here = branches.flat_map(|branch| branch.members.iter());
        let first = here.next();
        let same = flow.joined_as.as_ref();
        let stayed =
            same.filter(|&member| first == Some(member) || here.any(|other| other == member));
        let member = stayed.or(first).or(same).cloned();
        if let Some(member) = member.filter(|_| !flow.branches.is_empty()) {
            self.join_upstream(now, id, member);
        }
    }

    /// Makes a reservation firm and acknowledges it. A committed branch is acknowledged again, for the member
    /// `joined`.
    fn commit<O: Observer>(
        &mut self,
        now: Time,
        id: FlowId,
        port: PortId,
        joined: Option<&Member>,
        obs: &mut O,
    ) {
        let Some(branch) = self.flows.by_id(id).and_then(|flow| flow.branch(port)) else {
            return;
        };
        let was_committed = branch.is_committed();
        branch.hold = Hold::Committed;
        let (vci, level) = (branch.vci, branch.gate.target);
        let members: Vec<Member> = match joined {
            // The others are known since the branch was committed.
            Some(joined) if was_committed => vec![joined.clone()],
            _ => branch.members.iter().cloned().collect(),
        };
        let value = i64::from(branch.base.0);
        // Each member that answered hears what was agreed with it; the others, that the flow comes.
        let agreed = members.iter().filter_map(|it| branch.passes.agreed(it));
        let mut answers: Vec<Option<Agreed>> = agreed.map(Some).collect();
        if answers.is_empty() {
            answers.push(None);
        }
        for agreed in answers {
            let flow = id;
            let agreed = agreed.map(Box::new);
            self.signal(
                port,
                Signal::JoinAck {
                    flow,
                    vci,
                    level,
                    agreed,
                },
            );
        }
        for member in &members {
            let known = self
                .flows
                .by_id(id)
                .and_then(|flow| flow.members.get(member));
            if known.is_none_or(|heard| heard.port != port) {
                self.hear(now, port, id, member);
            }
        }
        if was_committed {
            return;
        }
        obs.on(now, subject(&self.config), || TraceEvent::Decision {
            flow: id,
            what: "admit",
            value,
            reason: "base layer reserved",
        });
        if let Some(member) = members.into_iter().next() {
            let flow = id;
            self.emit(SwitchEvent::Admitted { flow, port, member });
        }
        // Enhancement layers of others make room immediately.
        self.regrant(now, port, "base layer admitted", obs);
        self.await_fast_start(now, id, port);
    }

    /// The flow for which we asked to join at `from`; an unsolicited answer is counted.
    fn asked(&mut self, from: PortId, id: FlowId) -> Option<&mut Flow> {
        let known = self.flows.by_id(id);
        let flow = known.filter(|flow| flow.upstream == from && flow.link != Upstream::Idle);
        if flow.is_none() {
            self.stats.rejected_signals.answer += 1;
        }
        flow
    }

    pub(crate) fn on_join_ack<O: Observer>(
        &mut self,
        now: Time,
        from: PortId,
        id: FlowId,
        vci: u16,
        obs: &mut O,
    ) {
        let Some(flow) = self.asked(from, id) else {
            return;
        };
        let cells = flow.carriage == Some(Carriage::Cells);
        if cells && (vci < FIRST_VCI || !self.flows.map(id, vci)) {
            self.stats.rejected_signals.answer += 1;
            return;
        }
        let Some(flow) = self.flows.by_id(id) else {
            return;
        };
        flow.confirmed = true;
        if !flow.is_joined() {
            flow.link = Upstream::Joined;
            // The node upstream may have started again, with eras and circuits of its own.
            flow.adapted = None;
            // Of the datagrams of a source of this node, those before the join were seen, too.
            if from != PortId::LOCAL || flow.carriage == Some(Carriage::Cells) {
                flow.selector.restart();
                flow.recent.restart();
            }
            flow.res_pending |= flow
                .branches
                .iter()
                .any(|branch| !branch.requests.is_empty());
        }
        let tentative = flow.branches.iter().filter(|branch| !branch.is_committed());
        let ports: Vec<PortId> = tentative.map(|branch| branch.port).collect();
        for port in ports {
            self.commit(now, id, port, None, obs);
            self.tell_change(id, port);
        }
    }

    pub(crate) fn on_join_nak<O: Observer>(
        &mut self,
        now: Time,
        from: PortId,
        id: FlowId,
        refusal: Refusal,
        obs: &mut O,
    ) {
        let Some(flow) = self.asked(from, id) else {
            return;
        };
        flow.link = Upstream::Idle;
        // A node that has just started does not know the flow yet; its Advertise will follow, or the flow
        // expires.
        let keep = refusal.resource == Resource::UnknownFlow;
        flow.confirmed &= !keep;
        let (firm, tentative): (Vec<_>, Vec<_>) = flow
            .branches
            .iter()
            .partition(|branch| branch.is_committed());
        let ports = |branches: Vec<&Branch>| branches.iter().map(|it| it.port).collect::<Vec<_>>();
        let (firm, tentative) = (ports(firm), ports(tentative));
        let ends = flow.ending.is_some();
        for port in tentative {
            self.refuse(now, id, port, refusal.clone(), obs);
            self.remove_branch(id, port);
        }
        if keep {
            return;
        }
        for &port in &firm {
            let why = "refused upstream after the link was lost";
            self.revoke(now, id, port, refusal.clone(), why, obs);
        }
        if !ends {
            self.advertise(id, |port| firm.contains(&port));
        }
    }

    /// Takes away a branch that was acknowledged. Those behind it wait for no answer, so they would not
    /// heed a refusal: for them the flow is gone. Advertised again, they ask again and get their answer.
    pub(crate) fn revoke<O: Observer>(
        &mut self,
        now: Time,
        id: FlowId,
        port: PortId,
        refusal: Refusal,
        why: &'static str,
        obs: &mut O,
    ) {
        obs.on(now, subject(&self.config), || TraceEvent::Decision {
            flow: id,
            what: "release",
            value: i64::try_from(refusal.needed).unwrap_or(i64::MAX),
            reason: why,
        });
        let reason = refusal.to_string();
        self.emit(SwitchEvent::Refused {
            flow: id,
            port,
            refusal,
        });
        self.signal(port, Signal::Withdraw { flow: id, reason });
        self.remove_branch(id, port);
    }

    pub(crate) fn on_leave<O: Observer>(
        &mut self,
        now: Time,
        from: PortId,
        id: FlowId,
        member: &Member,
        obs: &mut O,
    ) {
        let Some(flow) = self.flows.by_id(id) else {
            self.stats.rejected_signals.unknown += 1;
            return;
        };
        let Some(branch) = flow.branch(from).filter(|b| b.members.contains(member)) else {
            self.stats.rejected_signals.unknown += 1;
            return;
        };
        branch.members.remove(member);
        branch.passes.remove(member);
        branch
            .requests
            .retain(|request| request.origin != member.id);
        let empty = branch.members.is_empty();
        self.excuse(id, |port, other| port == from && other == member);
        let Some(flow) = self.flows.by_id(id) else {
            return;
        };
        let heard = flow.members.get(member);
        let is_heard = heard.is_some_and(|heard| heard.port == from);
        if is_heard || flow.gone.is_untold(member, from) {
            self.member_left(id, member);
        }
        if let Some(port) = self.ports.get_mut(from) {
            port.regrant = true;
        }
        if empty {
            self.release(now, id, from, obs);
        }
        self.rename(id);
    }

    /// Releases a branch whose members have all left.
    fn release<O: Observer>(&mut self, now: Time, id: FlowId, port: PortId, obs: &mut O) {
        obs.on(now, subject(&self.config), || TraceEvent::Decision {
            flow: id,
            what: "release",
            value: 0,
            reason: "last member left",
        });
        self.emit(SwitchEvent::Released { flow: id, port });
        self.remove_branch(id, port);
    }

    /// Takes a branch away with its reservation, and leaves upstream after the last one.
    pub(crate) fn remove_branch(&mut self, id: FlowId, port: PortId) {
        self.all_left(id, port);
        let Some(flow) = self.flows.by_id(id) else {
            return;
        };
        let gone = flow.branches.iter().find(|branch| branch.port == port);
        if let Some(point) = gone.and_then(|branch| branch.filter.as_ref()) {
            let to = self.ports.get(port).map_or("", |port| &port.config.name);
            self.stats.filtered(&flow.info.name, to, point.stats());
        }
        flow.branches.retain(|branch| branch.port != port);
        let last = flow.branches.is_empty();
        self.excuse(id, |other, _| other == port);
        if let Some(port) = self.ports.get_mut(port) {
            port.regrant = true;
        }
        if last {
            self.leave_upstream(id);
        }
    }

    pub(crate) fn leave_upstream(&mut self, id: FlowId) {
        self.flows.unmap(id);
        let Some(flow) = self.flows.by_id(id) else {
            return;
        };
        let asked = flow.link != Upstream::Idle;
        flow.link = Upstream::Idle;
        flow.adapted = None;
        flow.res_pending = false;
        flow.selector.restart();
        let (upstream, member) = (flow.upstream, flow.joined_as.take());
        if upstream == PortId::LOCAL {
            flow.carriage = None;
        }
        if let Some(member) = member.filter(|_| asked) {
            self.signal(upstream, Signal::Leave { flow: id, member });
        }
    }
}
