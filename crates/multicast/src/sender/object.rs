use std::collections::BTreeSet;

use layercast_core::RangeSet;

use super::plan::{Fresh, Plan};
use super::*;
use crate::{Repair, Weak};

/// Interval after which complete receivers that still verify the digest are polled again: it starts here, doubles
/// each time, and ends after ten minutes.
const PAUSE: Span = Span::from_ms(2);
const LONGEST_PAUSE: Span = Span::from_ms(500);
const PAUSES: u16 = 1_200;

/// An object, and what is to be sent of it.
#[derive(Debug)]
pub(super) struct ObjectWork<S> {
    source: S,
    pub object: Object,
    pub geometry: Geometry,
    pub plan: Plan,
    fresh: Fresh,
    /// For each block, the symbols that the worst receiver lacks, by the reports of this round.
    pub needs: Vec<u16>,
    /// The same for receivers that lack too much, in case they are not postponed.
    pub weak_needs: Vec<u16>,
    /// Blocks whose need grew since the last hint, and when the next hint may be sent.
    pub raised: BTreeSet<u32>,
    hint: Time,
    /// Whether a receiver completed since the last good-bye.
    pub newly_done: bool,
}

impl<S: Source> ObjectWork<S> {
    pub fn new(
        source: S,
        object: Object,
        geometry: Geometry,
        config: &SenderConfig,
    ) -> ObjectWork<S> {
        let most = match config.repair {
            Repair::Parity { most, .. } => most,
            _ => 0,
        };
        let blocks = if most == 0 { 0 } else { geometry.blocks() };
        ObjectWork {
            source,
            object,
            plan: Plan::default(),
            fresh: Fresh::new(&geometry, most),
            needs: vec![0; blocks as usize],
            weak_needs: vec![0; blocks as usize],
            raised: BTreeSet::new(),
            hint: Time::ZERO,
            newly_done: false,
            geometry,
        }
    }

    /// When a hint is due.
    pub fn hint_at(&self) -> Option<Time> {
        (!self.raised.is_empty()).then_some(self.hint)
    }

    /// Whether a hint may be sent.
    pub fn next_hint(&self, now: Time) -> bool {
        !self.raised.is_empty() && self.hint <= now
    }

    pub fn forget_hints(&mut self) {
        self.raised.clear();
    }

    /// The needs learnt since the last hint; the next hint is due at `next`.
    pub fn heard(&mut self, next: Time) -> Needs {
        let mut heard = Needs::new();
        while let Some(&block) = self.raised.first() {
            if !heard.push(block, self.needs[block as usize]) {
                // The rest follows immediately.
                return heard;
            }
            self.raised.pop_first();
        }
        self.hint = next;
        heard
    }
}

impl<S: Source> Sender<S> {
    /// Begins the first pass, or first asks what receivers already have.
    pub(super) fn begin(&mut self, now: Time) {
        let fresh = self
            .roster
            .iter()
            .filter(|it| it.status == Status::Joined)
            .any(|it| it.received == self.object.geometry.packets());
        if fresh {
            let proactive = match self.config.repair {
                Repair::Parity { proactive, .. } => proactive,
                _ => 0,
            };
            let plan = Plan::everything(&self.object.geometry, proactive);
            self.begin_pass(now, plan);
        } else {
            self.begin_round();
            self.solicit(now, Ask::Everyone);
        }
    }

    pub(super) fn begin_pass(&mut self, now: Time, plan: Plan) {
        self.begin_round();
        self.stats.rounds += 1;
        self.round.passes += 1;
        self.round.pauses = 0;
        self.object.plan = plan;
        self.object.needs.fill(0);
        self.object.weak_needs.fill(0);
        if self.object.plan.is_empty() {
            self.solicit(now, self.whom_to_ask());
        } else {
            self.phase = Phase::Sending;
        }
    }

    fn whom_to_ask(&self) -> Ask {
        match self.config.schedule {
            Schedule::Suppress { above, .. } if self.round.waiting > above as usize => Ask::Needy,
            _ => Ask::Everyone,
        }
    }

    /// Returns the next packet of the pass.
    pub(super) fn next_data(&mut self, now: Time) -> Option<Transmit> {
        let work = &mut self.object;
        let (symbol, whom) = work.plan.next(&work.geometry, &mut work.fresh)?;
        let payload = match symbol {
            Symbol::Source(number) => work.source.packet(&work.geometry, number),
            Symbol::Parity { block, index } => work.source.parity(&work.geometry, block, index),
        };
        let payload = match payload {
            Ok(payload) => payload,
            Err(error) => {
                self.give_up(Reason::Changed, Failure::Content(error));
                return self.out.pop_front();
            }
        };
        let done = work.plan.is_empty();
        let last = done || (whom.is_some() && work.plan.for_whom() != whom);
        let again = self.round.number > 0 && matches!(symbol, Symbol::Source(_));
        let mut flags = DataFlags::default();
        for (set, flag) in [
            (last, DataFlags::LAST),
            (again, DataFlags::AGAIN),
            (self.round.scope != Scope::Main, DataFlags::SEPARATE),
        ] {
            if set {
                flags = flags.with(flag);
            }
        }
        let to = match whom.and_then(|at| self.roster.get(at as usize).peer) {
            Some(peer) => To::One(peer),
            None => self.destination(),
        };
        if to == To::Group
            && let Some(measurement) = &mut self.measurement
        {
            flags = flags.with(measurement.bits(now, self.round.number, symbol, done));
        }
        self.round.packets += 1;
        let data = Data {
            round: self.round.number,
            flags,
            symbol,
            payload,
        };
        let transmit = self.data(now, to, data);
        if done {
            self.solicit(now, self.whom_to_ask());
        }
        Some(transmit)
    }

    /// Ends a pass that no receiver needs any more, because all its receivers have left.
    pub(super) fn stop_if_nobody_is_left(&mut self, now: Time) {
        let sending = self.phase == Phase::Sending && self.stream.is_none();
        if sending && !(0..self.roster.len()).any(|at| self.in_scope(at)) {
            self.object.plan = Plan::default();
            self.next_scope(now);
        }
    }

    /// Evaluates the round: all have answered, or will not.
    pub(super) fn evaluate(&mut self, now: Time) {
        if self.stream.is_some() {
            return self.evaluate_stream(now);
        }
        if self.round.largest > Span::ZERO {
            self.clock.largest_was(self.round.largest);
        }
        let needy = (0..self.roster.len())
            .filter(|&at| self.in_scope(at))
            .count() as u32;
        self.clock.round_over();
        self.path_works();
        if self.barren() {
            return;
        }
        let asked = self.round.ask;
        if asked == Ask::Everyone {
            self.events.push_back(SenderEvent::PassDone {
                round: self.round.number,
                packets: self.round.packets,
                needy,
            });
        }
        self.postpone_weak();
        if self.config.release_each && core::mem::take(&mut self.object.newly_done) {
            self.release(now);
        } else {
            self.proceed(now);
        }
    }

    /// Continues after the evaluation: with a pass over the missing packets, or the end.
    pub(super) fn proceed(&mut self, now: Time) {
        let plan = self.repairs();
        self.charge_pass(plan.left());
        if self.phase == Phase::Closed {
            return;
        }
        let anybody = (0..self.roster.len()).any(|at| self.in_scope(at));
        for record in self.roster.iter_mut() {
            record.missing = None;
        }
        if !anybody {
            self.next_scope(now);
        } else if self.round.passes >= self.config.rounds {
            self.too_many_rounds(now);
        } else if plan.is_empty() {
            // No receiver requested anything: the sender still needs an answer from all.
            self.pause(now);
        } else {
            self.round.number += 1;
            self.begin_pass(now, plan);
        }
    }

    /// Polls complete receivers that still verify their digest after a pause, less and less often.
    fn pause(&mut self, now: Time) {
        if self.round.pauses == PAUSES {
            return self.too_many_rounds(now);
        }
        let wait = PAUSE
            .times(1 << self.round.pauses.min(16))
            .min(LONGEST_PAUSE);
        self.round.pauses += 1;
        self.patience.since = now;
        self.round.deadline = now + wait;
        self.phase = Phase::Pausing;
    }

    /// What the receivers in scope requested.
    fn repairs(&self) -> Plan {
        let mut plan = Plan::default();
        if self.config.content == Content::Counts {
            for (block, &need) in self.object.needs.iter().enumerate() {
                let block = block as u32;
                if need == 0 {
                    continue;
                }
                if need >= self.object.geometry.packets_of(block) {
                    // For a receiver without anything of the block, sources are as useful and need no decoding.
                    let (first, end) = self.object.geometry.range(block);
                    plan.sources(first, end);
                } else {
                    plan.parities(block, need.into());
                }
            }
            return plan;
        }
        plan = self.missing_plan();
        if self.config.repair == Repair::GoBackN
            && let Some((from, _)) = plan.bounds()
        {
            plan = Plan::default();
            plan.sources(from, self.object.geometry.packets());
        }
        plan
    }

    /// The union of what receivers in scope lack; if they are few, each gets its own.
    pub(super) fn missing_plan(&self) -> Plan {
        let mut plan = Plan::default();
        let needy: Vec<usize> = (0..self.roster.len())
            .filter(|&at| self.roster.get(at).missing.is_some() && self.in_scope(at))
            .collect();
        let below = match self.config.repair {
            Repair::Selective {
                unicast_below_permille,
            } => u64::from(unicast_below_permille),
            _ => 0,
        };
        let there = self.there();
        let single = needy.iter().all(|&at| self.roster.get(at).weight == 1);
        let alone = single && (needy.len() as u64) * 1_000 < below * u64::from(there);
        let mut union = RangeSet::new();
        for at in needy {
            let missing = self.roster.get(at).missing.iter();
            for (from, to) in missing.flat_map(|missing| missing.iter()) {
                match alone {
                    true => plan.alone(from, to, at as u32),
                    false => union.insert(from, to),
                }
            }
        }
        for (from, to) in union.iter() {
            plan.sources(from, to);
        }
        plan
    }

    /// Receivers that take part or have completed.
    fn there(&self) -> u32 {
        self.roster
            .weigh(|status| matches!(status, Status::Joined | Status::Done | Status::Released))
    }

    /// Postpones receivers that lack too much, unless half of them do.
    fn postpone_weak(&mut self) {
        let Weak::Postpone { polls, .. } = self.config.weak else {
            return;
        };
        if self.round.scope != Scope::Main {
            return;
        }
        let most = self.most_missing();
        // If only receivers that lack something answer, nothing is known about the others.
        let sync = u64::from(self.round.sync);
        let spoke = |record: &Record| self.round.ask == Ask::Everyone || record.mark == sync;
        let weak: Vec<usize> = (0..self.roster.len())
            .filter(|&at| self.in_scope(at))
            .filter(|&at| {
                let record = self.roster.get(at);
                (record.received > most && spoke(record)) || record.silent > polls
            })
            .collect();
        let there = self.there();
        let weight: u64 = weak
            .iter()
            .map(|&at| u64::from(self.roster.get(at).weight))
            .sum();
        if weight * 2 > there.into() {
            let work = &mut self.object;
            for (need, weak) in work.needs.iter_mut().zip(&work.weak_needs) {
                *need = (*need).max(*weak);
            }
            return;
        }
        for at in weak {
            self.postpone(at);
        }
    }
}
