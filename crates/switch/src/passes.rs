use layercast_core::{FlowId, Level, NodeId, PortId, Time};
use layercast_protect::{Claimant, Proof, ProofError, SourceKey};
use layercast_wire::{Member, Opaque, Refusal, Resource, Signal};

use crate::Switch;
use crate::flow::{Branch, Flow};

/// What a member showed when it joined.
#[derive(Clone, Debug)]
pub(crate) struct Pass {
    member: Member,
    proof: Option<Opaque>,
    /// Highest level that its token allows; all of them where tokens are not looked at.
    level: Level,
}

/// The passes of the members of a branch.
#[derive(Default, Debug)]
pub(crate) struct Passes(Vec<Pass>);

impl Passes {
    pub fn put(&mut self, pass: Pass) {
        self.remove(&pass.member);
        self.0.push(pass);
    }

    pub fn remove(&mut self, member: &Member) {
        self.0.retain(|pass| pass.member != *member);
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }

    fn get(&self, member: &Member) -> Option<&Pass> {
        self.0.iter().find(|pass| pass.member == *member)
    }

    /// Highest level for what `origin` asks: that of its own token, or, for a switch that speaks for
    /// several, of the best it joined with.
    pub fn cap(&self, origin: NodeId) -> Level {
        let own = self.0.iter().find(|pass| pass.member.id == origin);
        let best = self.0.iter().map(|pass| pass.level).max();
        own.map(|pass| pass.level).or(best).unwrap_or(Level::FULL)
    }
}

/// Tokens: who may join, up to which level, and in whose name we join ourselves.
impl Switch {
    /// Looks at the proof that came with a join. Needs nobody else: the flow says whose signature counts.
    pub(crate) fn pass(
        &mut self,
        now: Time,
        from: PortId,
        id: FlowId,
        member: &Member,
        proof: Option<Opaque>,
    ) -> Result<Pass, Refusal> {
        let level = match self.config.require_tokens {
            true => self.verified(now, from, id, member, proof.as_ref()),
            false => Ok(Level::FULL),
        };
        let member = member.clone();
        match level {
            Ok(level) => Ok(Pass {
                member,
                proof,
                level,
            }),
            Err(resource) => {
                self.stats.rejected_signals.token += 1;
                Err(self.refusal(resource, 0, 0))
            }
        }
    }

    fn verified(
        &mut self,
        now: Time,
        from: PortId,
        id: FlowId,
        member: &Member,
        proof: Option<&Opaque>,
    ) -> Result<Level, Resource> {
        let unix = self.config.clock.at(now);
        let ports = &self.ports;
        let flow = self.flows.by_id(id).ok_or(Resource::UnknownFlow)?;
        // Whoever is here under that name stays who it is.
        let heard = flow.members.get(member);
        if heard.is_some_and(|heard| heard.port != from && ports.is_up(heard.port)) {
            return Err(Resource::Token);
        }
        let key = flow.info.identity.as_ref().map(|identity| &identity.key.0);
        let source = key.and_then(|key| Some(SourceKey(key[..].try_into().ok()?)));
        let source = source.ok_or(Resource::Token)?;
        let claimant = Claimant {
            flow_name: &flow.info.name,
            flow: id,
            member: &member.name,
            now: unix,
        };
        let proof = proof.ok_or(Resource::Token)?;
        let proof = Proof::check(&proof.0, &source, &claimant).map_err(ProofError::resource)?;
        Ok(proof.claims().level)
    }

    /// Sees to it that we have joined in the name of a member that is still here, and of those in that
    /// of one with the highest level; only where members show proofs.
    pub(crate) fn rename(&mut self, id: FlowId) {
        let Some(flow) = self.flows.by_id(id).filter(|flow| flow.is_joined()) else {
            return;
        };
        let Some(old) = flow.joined_as.clone() else {
            return;
        };
        let Some(new) = flow.best_member() else {
            return;
        };
        if new == old {
            return;
        }
        let (upstream, signal) = flow.join_as(new);
        let flow = id;
        self.signal(upstream, signal);
        self.signal(upstream, Signal::Leave { flow, member: old });
    }
}

impl Branch {
    fn level_of(&self, member: &Member) -> Option<Level> {
        let pass = self.passes.get(member).filter(|pass| pass.proof.is_some());
        pass.map(|pass| pass.level)
    }
}

impl Flow {
    /// The member in whose name to join: the one we have joined for, unless another has a better proof.
    fn best_member(&self) -> Option<Member> {
        let members = self
            .branches
            .iter()
            .flat_map(|branch| branch.members.iter().map(move |member| (branch, member)));
        let is_ours = |member: &Member| self.joined_as.as_ref() == Some(member);
        let rated = members.filter_map(|(branch, member)| {
            Some((branch.level_of(member)?, is_ours(member), member))
        });
        let best = rated.max_by_key(|(level, ours, _)| (*level, *ours))?;
        Some(best.2.clone())
    }

    /// The join in the name of `member`, and where it goes.
    pub(crate) fn join_as(&mut self, member: Member) -> (PortId, Signal) {
        let mut branches = self.branches.iter();
        let proof = branches.find_map(|branch| branch.passes.get(&member)?.proof.clone());
        self.joined_as = Some(member.clone());
        let join = Signal::Join {
            flow: self.info.id,
            member,
            level: self.info.spec.top_level(),
            proof,
        };
        (self.upstream, join)
    }
}
