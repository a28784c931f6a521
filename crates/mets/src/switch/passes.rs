use std::collections::{BTreeMap, BTreeSet};

use layercast_core::{FlowId, Level, NodeId, Observer, PortId, Time};
use layercast_protect::{Claimant, Proof, ProofError, SourceKey};
use layercast_wire::{Agreed, Member, Opaque, Refusal, Resource, Signal};

use crate::negotiation::Terms;
use crate::switch::Switch;
use crate::switch::flow::{Branch, Flow};

/// What a member showed when it joined.
#[derive(Clone, Debug)]
pub(crate) struct Pass {
    member: Member,
    proof: Option<Opaque>,
    /// Highest level that its token allows; all of them where tokens are not looked at.
    level: Level,
    /// What was agreed with it, if it answered the offer of the flow.
    terms: Option<Terms>,
}

impl Pass {
    /// The same of a member with which these terms were agreed.
    pub fn with(self, terms: Option<Terms>) -> Pass {
        Pass { terms, ..self }
    }
}

/// The passes of the members of a branch; each operation is O(log n).
#[derive(Default, Debug)]
pub(crate) struct Passes {
    /// By number and name: what a switch asks for below is known by the number only.
    all: BTreeMap<(NodeId, String), Pass>,
    /// How many passes there are of each level.
    levels: PerLevel,
    /// Those with a proof, by what it is worth.
    proven: BTreeSet<(Level, Member)>,
}

/// How many passes allow each level at most.
type PerLevel = BTreeMap<Level, usize>;

impl Passes {
    pub fn put(&mut self, pass: Pass) {
        self.remove(&pass.member);
        *self.levels.entry(pass.level).or_default() += 1;
        if pass.proof.is_some() {
            self.proven.insert((pass.level, pass.member.clone()));
        }
        self.all.insert(key(&pass.member), pass);
        debug_assert_eq!(self.levels.values().sum::<usize>(), self.all.len());
    }

    pub fn remove(&mut self, member: &Member) {
        let Some(pass) = self.all.remove(&key(member)) else {
            return;
        };
        if let Some(count) = self.levels.get_mut(&pass.level) {
            *count -= 1;
            if *count == 0 {
                self.levels.remove(&pass.level);
            }
        }
        self.proven.remove(&(pass.level, pass.member));
    }

    pub fn clear(&mut self) {
        *self = Passes::default();
    }

    fn get(&self, member: &Member) -> Option<&Pass> {
        self.all.get(&key(member))
    }

    /// The proof that `member` showed last.
    pub fn proof(&self, member: &Member) -> Option<&Opaque> {
        self.get(member)?.proof.as_ref()
    }

    /// The highest level for what `origin` asks: that of its own token, or, for a switch that speaks for
    /// several, of the best it joined with.
    pub fn cap(&self, origin: NodeId) -> Level {
        let mut own = self.all.range((origin, String::new())..);
        let own = own.next().filter(|((id, _), _)| *id == origin);
        let best = self.levels.last_key_value().map(|(level, _)| *level);
        own.map(|(_, pass)| pass.level)
            .or(best)
            .unwrap_or(Level::FULL)
    }

    /// What was agreed with `member`.
    pub fn agreed(&self, member: &Member) -> Option<Agreed> {
        let terms = self.get(member)?.terms?;
        Some(Agreed {
            member: member.id,
            bounds: terms.bounds,
        })
    }

    /// The highest level that was agreed with `origin`, if anything was.
    pub fn agreed_level(&self, origin: NodeId) -> Option<Level> {
        let mut own = self.all.range((origin, String::new())..);
        let (_, pass) = own.next().filter(|((id, _), _)| *id == origin)?;
        Some(pass.terms?.level)
    }

    /// The member with the best proof, and the level that it allows.
    fn best(&self) -> Option<&(Level, Member)> {
        self.proven.last()
    }
}

fn key(member: &Member) -> (NodeId, String) {
    (member.id, member.name.clone())
}

/// Tokens: the members that may join, up to which level, and in whose name this node joins.
impl Switch {
    /// Checks the proof in a join. It needs no third party: the flow names the key that must have signed.
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
                terms: None,
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
        let elsewhere = |port: PortId| port != from && ports.is_up(port);
        // A member keeps its name as long as it is heard of, or waits for an answer.
        let heard = flow.members.named(&member.name);
        let waits = |branch: &Branch| {
            elsewhere(branch.port)
                && !branch.is_committed()
                && branch.members.named(&member.name).next().is_some()
        };
        if heard.into_iter().any(|(_, heard)| elsewhere(heard.port))
            || flow.branches.iter().any(waits)
        {
            return Err(Resource::NameInUse);
        }
        let key = flow.info.identity.as_ref().map(|identity| &identity.key.0);
        let source = key.and_then(|key| Some(SourceKey(key[..].try_into().ok()?)));
        let source = source.ok_or(Resource::Token)?;
        let claimant = Claimant {
            flow_name: &flow.info.name,
            flow: id,
            member: &member.name,
            id: member.id,
            now: unix,
        };
        let proof = proof.ok_or(Resource::Token)?;
        let proof = Proof::check(&proof.0, &source, &claimant).map_err(ProofError::resource)?;
        Ok(proof.claims().level)
    }

    /// Takes away other members on the branch that have the name of `member`: it has started again, with
    /// another number.
    pub(crate) fn replace_namesakes<O: Observer>(
        &mut self,
        now: Time,
        from: PortId,
        id: FlowId,
        member: &Member,
        obs: &mut O,
    ) {
        let Some(flow) = self.flows.by_id(id) else {
            return;
        };
        let joined = flow.branch(from).map(|branch| {
            let named = branch.members.named(&member.name);
            named.filter(|other| *other != member).cloned().collect()
        });
        let joined: Vec<Member> = joined.unwrap_or_default();
        let heard = flow.members.named(&member.name);
        let heard = heard.filter(|(other, heard)| *other != member && heard.port == from);
        let heard: Vec<Member> = heard.map(|(other, _)| other.clone()).collect();
        for other in &joined {
            self.on_leave(now, from, id, other, obs);
        }
        for other in heard.iter().filter(|other| !joined.contains(other)) {
            self.member_left(id, other);
        }
    }

    /// Joins upstream in the name of a member that is still here, and of those in the name of one with the
    /// highest level; only where members show proofs.
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
        let proof = flow.proof_of(&new);
        if new == old && proof == flow.joined_with {
            return;
        }
        let renewed = new == old;
        let (upstream, signal) = flow.join_as(new);
        let flow = id;
        self.signal(upstream, signal);
        if !renewed {
            self.signal(upstream, Signal::Leave { flow, member: old });
        }
    }
}

impl Flow {
    /// The member in whose name to join: the one we have joined for, unless another has a better proof.
    fn best_member(&self) -> Option<Member> {
        let branches = self.branches.iter();
        let best = branches.clone().filter_map(|branch| branch.passes.best());
        // Of several with the same level the last one counts, whatever their names.
        let (level, best) = best.max_by_key(|(level, _)| *level)?;
        let ours = self.joined_as.as_ref().filter(|ours| {
            let mut passes = branches.filter_map(|branch| branch.passes.get(ours));
            passes.any(|pass| pass.level == *level && pass.proof.is_some())
        });
        Some(ours.unwrap_or(best).clone())
    }

    fn proof_of(&self, member: &Member) -> Option<Opaque> {
        let mut branches = self.branches.iter();
        branches
            .find_map(|branch| branch.passes.proof(member))
            .cloned()
    }

    /// The join in the name of `member`, and where it goes.
    pub(crate) fn join_as(&mut self, member: Member) -> (PortId, Signal) {
        let proof = self.proof_of(&member);
        self.joined_as = Some(member.clone());
        self.joined_with.clone_from(&proof);
        let join = Signal::Join {
            flow: self.info.id,
            epoch: self.info.epoch,
            member,
            level: self.info.spec.top_level(),
            proof,
            again: self.branches.iter().any(Branch::is_committed),
            answer: None,
        };
        (self.upstream, join)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pass(name: &str, id: u32, level: Level, proof: bool) -> Pass {
        Pass {
            member: Member {
                name: name.into(),
                id: NodeId(id),
            },
            proof: proof.then(|| vec![id as u8].into()),
            level,
            terms: None,
        }
    }

    #[test]
    fn a_member_is_capped_by_its_own_token_and_a_switch_by_the_best_one() {
        let mut passes = Passes::default();
        assert_eq!(passes.cap(NodeId(1)), Level::FULL, "no member joined");
        passes.put(pass("base", 1, Level::BASE, true));
        passes.put(pass("some", 2, Level::E1, true));
        assert_eq!(passes.cap(NodeId(1)), Level::BASE);
        assert_eq!(passes.cap(NodeId(2)), Level::E1);
        // The number of a neighbour that speaks for both.
        assert_eq!(passes.cap(NodeId(9)), Level::E1);
        assert_eq!(passes.cap(NodeId(0)), Level::E1);
        passes.remove(&pass("some", 2, Level::E1, true).member);
        assert_eq!(passes.cap(NodeId(9)), Level::BASE);
    }

    #[test]
    fn the_best_proof_is_known_after_members_come_change_and_go() {
        let mut passes = Passes::default();
        passes.put(pass("none", 1, Level::FULL, false));
        assert_eq!(passes.best(), None, "it shows no proof");
        passes.put(pass("base", 2, Level::BASE, true));
        passes.put(pass("full", 3, Level::FULL, true));
        let best = |passes: &Passes| passes.best().map(|(level, it)| (*level, it.name.clone()));
        assert_eq!(best(&passes), Some((Level::FULL, "full".into())));
        passes.put(pass("full", 3, Level::BASE, true));
        passes.put(pass("base", 2, Level::E1, true));
        assert_eq!(best(&passes), Some((Level::E1, "base".into())));
        assert_eq!(
            passes.proof(&pass("full", 3, Level::BASE, true).member),
            Some(&vec![3].into())
        );
        passes.clear();
        assert_eq!((passes.best(), passes.cap(NodeId(2))), (None, Level::FULL));
    }
}
