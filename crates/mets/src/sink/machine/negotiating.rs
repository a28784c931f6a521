use layercast_core::{Answered, Contract, FlowSpec, Level, Mediation, Refusal, Time};
use layercast_qos::Cause;
use layercast_wire::{Agreed, Bounds, FlowInfo, Signal};

use super::{Session, Sink};
use crate::SinkEvent;
use crate::negotiation::{self, Terms};

/// What a sink whose user has a profile answered to the offered contract, and what was agreed.
#[derive(Clone, Debug)]
pub(super) struct Negotiated {
    /// What offer and wishes allow, whatever zones say.
    whole: Terms,
    /// What was answered last.
    asked: Terms,
    /// What is in force.
    agreed: Option<InForce>,
}

#[derive(Clone, Debug)]
struct InForce {
    /// How the offer was answered of which it is.
    answer: Answered,
    contract: Contract,
    level: Level,
    committed: bool,
}

impl Negotiated {
    fn answered(&self) -> Answered {
        match self.asked.bounds.is_empty() {
            true => Answered::Accept,
            false => Answered::Counter,
        }
    }

    /// The own answer, of a flow whose source agrees to nothing.
    fn uncommitted(&self, offered: &Contract) -> InForce {
        InForce {
            answer: self.answered(),
            contract: self.asked.bounds.over(offered),
            level: self.asked.level,
            committed: false,
        }
    }
}

/// The answer of a sink to the offered contract, in its join and in a session that runs (specs/user-to-user-qos.md 2.4).
impl Sink {
    /// What is answered to a flow as advertised; `None` without a profile.
    pub(super) fn negotiate(
        &self,
        flow: &FlowInfo,
        own: &FlowSpec,
    ) -> Result<Option<Negotiated>, Refusal> {
        let Some(wishes) = &self.config.wishes else {
            return Ok(None);
        };
        let (node, limit) = (&self.config.node, self.config.local_limit);
        let whole = negotiation::answer(node, (flow, own), wishes, limit)?;
        Ok(Some(Negotiated {
            whole,
            asked: whole,
            agreed: None,
        }))
    }

    /// Tells the source that the offer is not what the user wants.
    pub(super) fn decline(&mut self, now: Time, flow: &FlowInfo, refusal: &Refusal) {
        if flow.mediation.is_none() || refusal.resource.parameter().is_none() {
            return;
        }
        let joined = self.flow.replace(flow.clone());
        let proof = self.proof(now);
        self.flow = joined;
        self.signals.push_back(Signal::Decline {
            flow: flow.id,
            member: self.member(),
            refusal: Box::new(refusal.clone()),
            proof,
        });
    }

    /// The answer for a join.
    pub(super) fn answer(&self) -> Option<Box<Bounds>> {
        let negotiates = self.flow.as_ref()?.mediation.is_some();
        let negotiated = self.negotiated.as_ref().filter(|_| negotiates)?;
        Some(Box::new(negotiated.asked.bounds))
    }

    /// The highest level that the user and the answer allow.
    pub(super) fn level_wanted(&self) -> Level {
        let whole = self.negotiated.as_ref().map(|it| it.whole.level);
        self.user_level.min(whole.unwrap_or(Level::FULL))
    }

    /// The join is answered: what is in force from now on. Before, the last agreement was.
    pub(super) fn on_agreed(&mut self, now: Time, agreed: Option<Box<Agreed>>) {
        let ours = agreed
            .filter(|it| it.member == self.config.id)
            .map(|it| *it);
        let is_first = match self.session {
            Session::Joining { .. } => true,
            Session::Joined if ours.is_some() => false,
            _ => return,
        };
        let wanted = self.level_wanted();
        let (Some(negotiated), Some(flow), Some(own)) =
            (&mut self.negotiated, &self.flow, &self.own)
        else {
            return;
        };
        let offered = flow.contract_of(own);
        let mut force = negotiated.uncommitted(&offered);
        if let Some(ours) = ours {
            let contract = ours.bounds.over(&offered);
            if negotiation::is_within(&contract, &force.contract) {
                let level = negotiation::level_of(flow, own, &ours.bounds);
                force = InForce {
                    answer: force.answer,
                    contract,
                    level: level.min(force.level),
                    committed: true,
                };
            } else {
                // A node cannot put more on this host than it answered.
                self.stats.dropped.malformed += 1;
            }
        }
        // A rate that a member took less of may be all that is offered now: the answer changes alone.
        let same = negotiated.agreed.as_ref().is_some_and(|before| {
            before.contract == force.contract
                && before.committed == force.committed
                && before.answer == force.answer
        });
        let level = force.level;
        negotiated.agreed = Some(force);
        // What a zone took away is asked for again when there is room: the demand stays free to do so.
        if negotiated.asked == negotiated.whole {
            self.config.level = wanted.min(level);
        }
        if !is_first && !same {
            self.reconfigure(now);
            self.tell_agreed(now);
        }
    }

    /// Tells the user what is in force, and the mediator of a group what this member takes.
    pub(super) fn tell_agreed(&mut self, now: Time) {
        if self.most_taken().is_some() {
            self.next_report = Some(now);
        }
        let negotiated = self.negotiated.as_ref();
        let Some((answer, agreed)) =
            negotiated.and_then(|it| it.agreed.as_ref().map(|agreed| (agreed.answer, agreed)))
        else {
            return;
        };
        self.events.push_back(SinkEvent::Agreed {
            answer,
            contract: Box::new(agreed.contract),
            level: agreed.level,
            committed: agreed.committed,
        });
    }

    /// How the offer was answered, for reports.
    pub(super) fn answered(&self) -> Option<Answered> {
        let agreed = self.negotiated.as_ref()?.agreed.as_ref()?;
        Some(agreed.answer)
    }

    /// The most throughput that this member takes, for the mediator of a group with one rate for all.
    pub(super) fn most_taken(&self) -> Option<u64> {
        let (flow, wishes) = (self.flow.as_ref()?, self.config.wishes.as_ref()?);
        let single = flow.mediation == Some(Mediation::SingleRate);
        let most = negotiation::limit_of(flow, wishes, self.config.local_limit);
        // The cast saturates.
        most.filter(|_| single).map(|bps| bps as u64)
    }

    /// What the flow is held to, if it was agreed. The throughput counts while this member has the agreed level.
    pub(super) fn held_to(&self, now: Time) -> Option<Contract> {
        let (flow, adapter) = (self.flow.as_ref()?, &self.active.as_ref()?.adapter);
        let agreed = self.negotiated.as_ref()?.agreed.as_ref()?;
        let mut contract = agreed.contract;
        if !adapter.gets(now, &flow.spec, agreed.level) {
            contract.throughput = None;
        }
        Some(contract)
    }

    /// Other wishes for a session that runs: the contract in force stays until the node has agreed to the new one.
    ///
    /// # Errors
    /// The flow does not offer what is wished: nothing changes.
    pub fn set_wishes(&mut self, now: Time, wishes: Option<Contract>) -> Result<(), Refusal> {
        let before = std::mem::replace(&mut self.config.wishes, wishes);
        let Some((flow, own)) = self.flow.as_ref().zip(self.own.as_ref()) else {
            return Ok(());
        };
        let answered = match self.negotiate(flow, own) {
            Ok(answered) => answered,
            Err(refusal) => {
                self.config.wishes = before;
                return Err(refusal);
            }
        };
        self.answer_again(now, answered);
        Ok(())
    }

    /// The flow changed: the answer to what it offers now.
    pub(super) fn negotiate_again(&mut self, now: Time) {
        let Some((flow, own)) = self.flow.clone().zip(self.own.clone()) else {
            return;
        };
        match self.negotiate(&flow, &own) {
            Ok(answered) => self.answer_again(now, answered),
            Err(refusal) => {
                self.decline(now, &flow, &refusal);
                let (flow, member) = (flow.id, self.member());
                self.signals.push_back(Signal::Leave { flow, member });
                self.session = Session::Refused;
                self.drop_early();
                self.events.push_back(SinkEvent::Refused(refusal));
            }
        }
    }

    /// The lines to this member carry more or less than they did: the answer to what can be had now. If nothing can be agreed to, the
    /// contract in force stays.
    pub(super) fn follow_line(&mut self, now: Time, path_bps: Option<u64>) {
        let Some(flow) = &mut self.flow else {
            return;
        };
        flow.path_bps = path_bps;
        let Some((flow, own)) = self.flow.as_ref().zip(self.own.as_ref()) else {
            return;
        };
        let Ok(answered @ Some(_)) = self.negotiate(flow, own) else {
            return;
        };
        let before = self.negotiated.as_ref().map(|it| it.whole);
        if before != answered.as_ref().map(|it| it.whole) {
            self.answer_again(now, answered);
        }
    }

    fn answer_again(&mut self, now: Time, answered: Option<Negotiated>) {
        let in_force = self.negotiated.take();
        let none = answered.is_none();
        self.negotiated = answered.map(|it| {
            let agreed = in_force.and_then(|it| it.agreed);
            Negotiated { agreed, ..it }
        });
        self.config.level = self.level_wanted();
        self.reconfigure(now);
        if self.session != Session::Joined {
            return;
        }
        if none || self.answer().is_some() {
            self.ask_to_join(now, true);
        } else {
            // No node has to agree.
            self.on_agreed_alone(now);
        }
    }

    /// Of a flow that is not negotiated the own answer counts.
    fn on_agreed_alone(&mut self, now: Time) {
        if let (Some(negotiated), Some(flow), Some(own)) =
            (&mut self.negotiated, &self.flow, &self.own)
        {
            negotiated.agreed = Some(negotiated.uncommitted(&flow.contract_of(own)));
        }
        self.tell_agreed(now);
    }

    /// Asks for less while a red zone has lowered the level, and for all again when it has not.
    pub(super) fn follow_zones(&mut self, now: Time) {
        if self.session != Session::Joined || self.answer().is_none() {
            return;
        }
        let (Some(active), Some(negotiated), Some(wishes)) =
            (&self.active, &self.negotiated, &self.config.wishes)
        else {
            return;
        };
        let whole = &negotiated.whole;
        let level = match active.adapter.cause() {
            Some(Cause::Red(_)) => active.adapter.want().min(whole.level),
            _ => whole.level,
        };
        if level == negotiated.asked.level {
            return;
        }
        let (Some(flow), Some(own)) = (&self.flow, &self.own) else {
            return;
        };
        let asked = negotiation::lowered((flow, own), whole, wishes, level);
        // Below what the user accepts the contract stays as it is; its throughput is judged again when its layers come.
        if let (Some(asked), Some(negotiated)) = (asked, &mut self.negotiated)
            && asked != negotiated.asked
        {
            negotiated.asked = asked;
            self.ask_to_join(now, true);
        }
    }

    /// Whether what the flow would become can be had.
    pub(super) fn accepts(&self, flow: &FlowInfo) -> Result<(), Refusal> {
        self.config.takes(&flow.spec)?;
        match flow.mediation {
            Some(_) => self.negotiate(flow, &flow.spec).map(|_| ()),
            None => Ok(()),
        }
    }
}
