//! The Partial Order Manager: order and reliability of all flows together (specs/partial-order-transport.md 2.4).

use std::collections::VecDeque;

use layercast_core::{Span, Time};

use super::flow::{FlowReceiver, State};
use crate::config::Policy;
use crate::event::{LossCause, ReceiverEvent};
use crate::explain::{Explanation, History, Hold, note};
use crate::order::{Order, Sdu};

/// What an examination of an SDU found.
pub(super) enum Verdict {
    Delivered,
    /// Missing SDUs of its own flow are needed.
    Request,
    Wait,
}

#[derive(Debug)]
pub(super) struct Manager {
    pub(super) order: Order,
    pub(super) policy: Policy,
    pub(super) opportunistic: bool,
    pub(super) flows: Vec<FlowReceiver>,
    /// Settled leading SDUs of each chain.
    prefix: Vec<u64>,
    pub(super) events: VecDeque<ReceiverEvent>,
    pub(super) history: History,
    pub(super) last_progress: Time,
    /// SDUs delivered or declared lost.
    settled: u64,
    numbers: Vec<u64>,
    queue: Vec<u64>,
}

impl Manager {
    pub(super) fn new(
        order: Order,
        policy: Policy,
        opportunistic: bool,
        flows: Vec<FlowReceiver>,
        now: Time,
    ) -> Manager {
        Manager {
            prefix: vec![0; order.chains()],
            order,
            policy,
            opportunistic,
            flows,
            events: VecDeque::new(),
            history: History::default(),
            last_progress: now,
            settled: 0,
            numbers: Vec::new(),
            queue: Vec::new(),
        }
    }

    /// The paper's two steps for an SDU that waits: its own flow first, then the others.
    pub(super) fn examine(&mut self, sdu: Sdu, now: Time) -> Verdict {
        let mut missing = std::mem::take(&mut self.numbers);
        let found = self.steps(sdu, &mut missing, now);
        self.numbers = missing;
        let (verdict, hold) = match found {
            Ok(()) => return Verdict::Delivered,
            Err(found) => found,
        };
        if self.history.most > 0
            && let Some(waiting) = self.flows[sdu.flow].waiting.get_mut(&sdu.number)
        {
            note(&mut waiting.held, hold, waiting.arrived, now);
        }
        verdict
    }

    fn steps(
        &mut self,
        sdu: Sdu,
        missing: &mut Vec<u64>,
        now: Time,
    ) -> Result<(), (Verdict, Hold)> {
        let Sdu { flow, .. } = sdu;
        let patient = self.flows[flow]
            .waiting
            .get(&sdu.number)
            .is_some_and(|it| it.patience > now);

        // Step 1: order and reliability of its own flow.
        self.absent_before(sdu, flow, missing);
        if let Some(&number) = missing.first() {
            if patient {
                return Err((Verdict::Request, Hold::Deadline { flow, number }));
            }
            if !self.flows[flow].accepts(missing) {
                return Err((Verdict::Request, Hold::OwnTolerance { number }));
            }
            if self.opportunistic && self.blocked_elsewhere(sdu, now).is_some() {
                return Err((Verdict::Request, Hold::Recovery { number }));
            }
            // Decided now, also if step 2 waits: otherwise two flows wait for each other (F2).
            self.declare(flow, missing, LossCause::OwnFlow);
        }

        // Step 2: the other flows.
        if let Some(hold) = self.blocked_elsewhere(sdu, now) {
            return Err((Verdict::Wait, hold));
        }
        for other in (0..self.flows.len()).filter(|&other| other != flow) {
            self.absent_before(sdu, other, missing);
            if !missing.is_empty() {
                self.declare(other, missing, LossCause::Group { by: flow });
            }
        }
        self.deliver_before(sdu, now);
        debug_assert!(
            (0..self.order.chains()).all(|chain| self.prefix[chain] >= self.order.need(sdu, chain))
        );
        self.deliver(sdu, now);
        Ok(())
    }

    /// What of another flow keeps an SDU.
    fn blocked_elsewhere(&self, sdu: Sdu, now: Time) -> Option<Hold> {
        let patient = self.flows[sdu.flow]
            .waiting
            .get(&sdu.number)
            .is_some_and(|it| it.patience > now);
        let mut missing = Vec::new();
        for flow in (0..self.flows.len()).filter(|&other| other != sdu.flow) {
            let mut chains = self.order.chains_of(flow);
            let Some(first) =
                chains.find(|&chain| self.order.need(sdu, chain) > self.prefix[chain])
            else {
                continue;
            };
            if self.policy == Policy::MediaPerMedia {
                let number = self.order.number(first, self.prefix[first]).unwrap_or(0);
                return Some(Hold::OtherFlow { flow, number });
            }
            self.absent_before(sdu, flow, &mut missing);
            if let Some(&number) = missing.first() {
                if patient {
                    return Some(Hold::Deadline { flow, number });
                }
                if !self.flows[flow].accepts(&missing) {
                    return Some(Hold::OtherTolerance { flow, number });
                }
            }
        }
        None
    }

    /// The predecessors of an SDU in a flow that did not arrive and are undecided, in ascending order.
    fn absent_before(&self, sdu: Sdu, flow: usize, list: &mut Vec<u64>) {
        list.clear();
        let chains = self.order.chains_of(flow);
        let several = chains.len() > 1;
        for chain in chains {
            for at in self.prefix[chain]..self.order.need(sdu, chain) {
                let Some(number) = self.order.number(chain, at) else {
                    break;
                };
                let it = &self.flows[flow];
                if !it.is_done(number) && it.state(number).is_absent() {
                    list.push(number);
                }
            }
        }
        if several {
            list.sort_unstable();
        }
    }

    /// Declares SDUs lost and says so.
    pub(super) fn declare(&mut self, flow: usize, numbers: &[u64], cause: LossCause) {
        let it = &mut self.flows[flow];
        for &number in numbers {
            debug_assert!(it.state(number).is_absent());
            it.set(number, State::Lost);
            it.account.settle(true);
        }
        it.stats.lost += numbers.len() as u64;
        self.settled += numbers.len() as u64;
        self.events.push_back(ReceiverEvent::Lost {
            flow,
            numbers: numbers.to_vec(),
            cause,
        });
        self.advance(flow);
    }

    /// Counts the settled leading SDUs of the chains of a flow again.
    pub(super) fn advance(&mut self, flow: usize) {
        for chain in self.order.chains_of(flow) {
            while let Some(number) = self.order.number(chain, self.prefix[chain])
                && self.flows[flow].state(number).is_settled()
            {
                self.prefix[chain] += 1;
            }
            // What is never sent holds nothing.
            if let Some(end) = self.flows[flow].end
                && self.flows[flow].base >= end
            {
                self.prefix[chain] = u64::MAX;
            }
        }
    }

    /// Delivers each predecessor that arrived, in a sequence that the order permits: nothing that arrived is thrown
    /// away (F7).
    fn deliver_before(&mut self, sdu: Sdu, now: Time) {
        loop {
            let mut progress = false;
            for chain in 0..self.order.chains() {
                let flow = self.order.flow_of(chain);
                while self.prefix[chain] < self.order.need(sdu, chain) {
                    let Some(number) = self.order.number(chain, self.prefix[chain]) else {
                        break;
                    };
                    let first = Sdu { flow, number };
                    if !self.flows[flow].waiting.contains_key(&number) || !self.is_free(first) {
                        break;
                    }
                    self.deliver(first, now);
                    progress = true;
                }
            }
            if !progress {
                return;
            }
        }
    }

    /// Whether all predecessors are settled.
    fn is_free(&self, sdu: Sdu) -> bool {
        (0..self.order.chains()).all(|chain| self.prefix[chain] >= self.order.need(sdu, chain))
    }

    fn deliver(&mut self, sdu: Sdu, now: Time) {
        let Sdu { flow, number } = sdu;
        let it = &mut self.flows[flow];
        let Some(mut waiting) = it.waiting.remove(&number) else {
            debug_assert!(false, "only an SDU that arrived is delivered");
            return;
        };
        it.set(number, State::Delivered);
        it.account.settle(false);
        it.stats.buffered -= 1;
        let waited = now.since(waiting.arrived);
        if !waiting.skip {
            it.stats.delivered += 1;
            it.stats.waited += waited;
            self.events.push_back(ReceiverEvent::Deliver {
                flow,
                number,
                payload: waiting.payload,
                arrived: waiting.arrived,
                waited,
            });
        }
        self.last_progress = now;
        self.settled += 1;
        self.advance(flow);
        if self.history.most > 0 {
            if let Some(last) = waiting.held.last_mut() {
                last.until = now;
            }
            self.history.push(Explanation {
                flow,
                number,
                arrived: waiting.arrived,
                delivered: Some(now),
                held: waiting.held,
            });
        }
    }

    /// Examines the waiting SDUs, lowest numbers first, until nothing more is delivered or declared lost.
    ///
    /// What is free is delivered before anything is declared lost, so that without tolerance both policies deliver in
    /// the same sequence.
    pub(super) fn drain(&mut self, now: Time) {
        let mut queue = std::mem::take(&mut self.queue);
        loop {
            while self.deliver_free(&mut queue, now) {}
            if !self.examine_one(&mut queue, now) {
                break;
            }
        }
        self.queue = queue;
    }

    /// Delivers all SDUs whose predecessors are settled, in one pass; whether there were any.
    fn deliver_free(&mut self, queue: &mut Vec<u64>, now: Time) -> bool {
        let mut progress = false;
        for flow in 0..self.flows.len() {
            queue.clear();
            queue.extend(self.flows[flow].waiting.keys());
            for &number in queue.iter() {
                let sdu = Sdu { flow, number };
                if self.is_free(sdu) {
                    self.deliver(sdu, now);
                    progress = true;
                }
            }
        }
        progress
    }

    /// Examines SDUs that wait until one changes something; whether one did.
    fn examine_one(&mut self, queue: &mut Vec<u64>, now: Time) -> bool {
        for flow in 0..self.flows.len() {
            queue.clear();
            queue.extend(self.flows[flow].waiting.keys());
            for &number in queue.iter() {
                let settled = self.settled;
                self.examine(Sdu { flow, number }, now);
                if self.settled != settled {
                    return true;
                }
            }
        }
        false
    }

    /// Until when the first SDU waits for missing predecessors, if later than `now`.
    pub(super) fn next_patience(&self, now: Time) -> Option<Time> {
        let waiting = self.flows.iter().flat_map(|flow| flow.waiting.values());
        waiting.map(|it| it.patience).filter(|&at| at > now).min()
    }

    /// The SDU that waits longest, and for what.
    pub(super) fn oldest(&self, now: Time) -> Option<(Sdu, Hold)> {
        let waiting = self.flows.iter().enumerate().flat_map(|(flow, it)| {
            it.waiting
                .iter()
                .map(move |(&number, it)| (it.arrived, Sdu { flow, number }))
        });
        let (_, sdu) = waiting.min()?;
        let mut missing = Vec::new();
        self.absent_before(sdu, sdu.flow, &mut missing);
        let own = missing.first().map(|&number| Hold::OwnTolerance { number });
        Some((sdu, own.or_else(|| self.blocked_elsewhere(sdu, now))?))
    }

    /// When the SDUs that wait count as stalled: `patience` after the last delivery and the first arrival of them.
    pub(super) fn stalls_at(&self, patience: Span) -> Option<Time> {
        let waiting = self.flows.iter().flat_map(|flow| flow.waiting.values());
        let first = waiting.map(|it| it.arrived).min()?;
        Some(first.max(self.last_progress).saturating_add(patience))
    }

    pub(super) fn waiting(&self) -> u64 {
        self.flows
            .iter()
            .map(|flow| flow.waiting.len() as u64)
            .sum()
    }

    /// Whether a missing SDU of a flow may be declared lost already.
    pub(super) fn is_overdue(&self, flow: usize, number: u64, now: Time) -> bool {
        let it = &self.flows[flow];
        match it.state(number) {
            State::Missing(since) => it.hold == Span::ZERO || since.saturating_add(it.hold) <= now,
            _ => true,
        }
    }
}
