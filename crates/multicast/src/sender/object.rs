use std::collections::BTreeSet;

use layercast_core::RangeSet;
use layercast_wire::multicast::{DataFlags, Report, State, Symbol};

use super::plan::{Fresh, Plan};
use super::*;
use crate::receipt::{member_key, receipt};
use crate::{Repair, Weak};

/// Ranges that are kept for one receiver: what says more is forged.
const MAX_RANGES: usize = 1 << 16;

/// An object and what of it is to be sent.
#[derive(Debug)]
pub(super) struct ObjectWork<S> {
    source: S,
    pub object: Object,
    pub geometry: Geometry,
    pub plan: Plan,
    fresh: Fresh,
    /// Symbols that the worst receiver lacks of each block, heard in this round.
    needs: Vec<u16>,
    /// The same by those who lack too much, in case they are not postponed.
    weak_needs: Vec<u16>,
    /// Blocks whose need grew since the last hint, and when the next hint may leave.
    raised: BTreeSet<u32>,
    hint: Time,
    /// Since the last good-bye somebody got everything.
    newly_done: bool,
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

    /// When a hint wants to leave.
    pub fn hint_at(&self) -> Option<Time> {
        (!self.raised.is_empty()).then_some(self.hint)
    }

    /// Whether a hint may leave.
    pub fn next_hint(&self, now: Time) -> bool {
        !self.raised.is_empty() && self.hint <= now
    }

    pub fn forget_hints(&mut self) {
        self.raised.clear();
    }

    /// What the sender has heard of since it said so last; the next time is at `next`.
    pub fn heard(&mut self, next: Time) -> Needs {
        let mut heard = Needs::new();
        while let Some(&block) = self.raised.first() {
            if !heard.push(block, self.needs[block as usize]) {
                // The rest follows at once.
                return heard;
            }
            self.raised.pop_first();
        }
        self.hint = next;
        heard
    }
}

impl<S: Source> Sender<S> {
    /// The first pass, or first a look at who has what already.
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

    /// The next packet of the pass.
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
                self.give_up(Reason::User, Failure::Content(error));
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
        self.stats.data += 1;
        self.stats.again += u64::from(again);
        self.stats.parities += u64::from(matches!(symbol, Symbol::Parity { .. }));
        self.stats.unicast += u64::from(matches!(to, To::One(_)));
        self.stats.octets += payload.len() as u64;
        self.round.packets += 1;
        self.pacer.sent(now, payload.len() as u64);
        let data = Data {
            round: self.round.number,
            flags,
            symbol,
            payload,
        };
        if done {
            self.solicit(now, self.whom_to_ask());
        }
        Some(Transmit {
            to,
            packet: Packet {
                session: self.session,
                body: Body::Data(data),
            },
        })
    }

    pub(super) fn on_report(&mut self, now: Time, from: Peer, report: &Report) {
        let Some(at) = self.known(report.member, from) else {
            return;
        };
        match self.roster.get(at).status {
            Status::Joined | Status::Busy | Status::Postponed => {}
            // It has said so before, or speaks too late.
            _ => {
                self.stats.stale += 1;
                return;
            }
        }
        let lasting = matches!(
            report.state,
            State::Complete { .. } | State::Busy | State::Ready(_)
        );
        let age = match report.sync {
            0 => i64::from(self.round.number) - i64::from(report.round),
            sync => i64::from(self.round.sync.wrapping_sub(sync) as i32),
        };
        if age < 0 || !self.believable(at, report) {
            self.stats.forged += 1;
            return;
        }
        if !lasting && (age > 0 || self.phase != Phase::Collecting) {
            self.stats.stale += 1;
            return;
        }
        // A stamp that is not one of the last ones we issued proves nothing.
        let round_trip = self.clock.round_trip(now, report.stamp);
        if let Some(round_trip) = round_trip {
            let record = self.roster.get_mut(at);
            record.rtt_us = u32::try_from(round_trip.as_us()).unwrap_or(u32::MAX);
            self.round.largest = self.round.largest.max(round_trip);
        }
        if self.phase == Phase::Collecting && self.counts_now(at) {
            // Who was asked again answers at once, and that poll counts, not the first one.
            let took = round_trip.unwrap_or(now.since(self.round.asked));
            let spread = match now.saturating_sub(took) >= self.round.again {
                true => Span::ZERO,
                false => self.round.spread,
            };
            if round_trip.is_some() || self.round.tries == 0 {
                self.clock.answered(took, spread);
            }
            self.stats.late += u64::from(self.round.tries > 0);
        }
        self.stats.reports += 1;
        let record = self.roster.get_mut(at);
        record.loss = report.loss;
        // An aggregator speaks for more now, and what it said of them may have been lost.
        let told = report.tally.alive.saturating_add(report.tally.failed);
        record.weight = record.weight.max(told);
        self.take_report(now, at, report);
        self.after_answer(now);
    }

    /// Whether a report says what can be so.
    fn believable(&self, at: usize, report: &Report) -> bool {
        let packets = self.object.geometry.packets();
        match &report.state {
            State::Missing(spans) => {
                self.config.content == Content::Ranges
                    && !spans.is_empty()
                    && spans.end() <= packets
            }
            State::Ready(spans) => spans.end() <= packets,
            State::Need(needs) => {
                let fits = |(block, count)| {
                    block < self.object.geometry.blocks()
                        && count <= self.object.geometry.packets_of(block)
                };
                self.config.content == Content::Counts && needs.iter().all(fits)
            }
            State::Complete { receipt: proof } => {
                let master = self.config.receipts.as_ref();
                let key = master.map(|master| member_key(master, report.member));
                let digest = &self.object.object.digest;
                *proof == receipt(key.as_ref(), self.session, report.member, digest)
            }
            State::Busy | State::Corrupt => self.stream.is_none(),
            State::Levels { .. } => self.levels_fit(at, report),
        }
    }

    fn take_report(&mut self, now: Time, at: usize, report: &Report) {
        match &report.state {
            State::Complete { .. } => {
                self.settle(at);
                let record = self.roster.get_mut(at);
                record.status = Status::Done;
                record.complete = report.tally.complete.clamp(1, record.weight);
                record.received = 0;
                record.missing = None;
                self.object.newly_done = true;
                self.events.push_back(SenderEvent::Delivered(record.id));
            }
            State::Busy => {
                self.settle(at);
                let record = self.roster.get_mut(at);
                if record.status != Status::Busy {
                    record.status = Status::Busy;
                    record.missing = None;
                    self.events.push_back(SenderEvent::Busy(record.id));
                }
            }
            State::Ready(_) => {
                let record = self.roster.get_mut(at);
                if record.status == Status::Busy {
                    record.status = Status::Postponed;
                    if self.phase == Phase::Waiting {
                        self.next_scope(now);
                    }
                }
            }
            State::Need(_) | State::Missing(_) if !self.in_scope(at) => self.stats.stale += 1,
            State::Missing(spans) => self.lacks(at, report.more, |missing| {
                for (from, to) in spans.iter() {
                    missing.insert(from, to);
                }
            }),
            State::Need(needs) => {
                self.needs(at, needs);
                if !report.more {
                    self.settle(at);
                }
            }
            State::Corrupt => {
                if core::mem::replace(&mut self.roster.get_mut(at).corrupt, true) {
                    self.lose(now, at, Reason::Corrupt);
                    return;
                }
                let geometry = self.object.geometry;
                for (block, need) in self.object.needs.iter_mut().enumerate() {
                    *need = geometry.packets_of(block as u32);
                }
                self.lacks(at, false, |missing| missing.insert(0, geometry.packets()));
            }
            State::Levels { .. } => self.take_levels(at, report),
        }
    }

    /// A receiver says what its blocks lack, in one of several reports perhaps.
    fn needs(&mut self, at: usize, needs: &Needs) {
        let most = self.most_missing();
        let sync = u64::from(self.round.sync);
        let record = self.roster.get_mut(at);
        // Of an object's receivers the mark is the round in which it spoke last.
        if core::mem::replace(&mut record.mark, sync) != sync {
            record.received = 0;
        }
        record.received += needs.iter().map(|(_, count)| u64::from(count)).sum::<u64>();
        let weak = record.received > most && self.round.scope == Scope::Main;
        let work = &mut self.object;
        for (block, count) in needs.iter() {
            if weak {
                let need = &mut work.weak_needs[block as usize];
                *need = (*need).max(count);
            } else if count > work.needs[block as usize] {
                work.needs[block as usize] = count;
                if self.round.ask == Ask::Needy {
                    work.raised.insert(block);
                }
            }
        }
    }

    /// A receiver that lacks more may be served after the others.
    fn most_missing(&self) -> u64 {
        match self.config.weak {
            Weak::Postpone {
                missing_permille, ..
            } => self.object.geometry.packets() * u64::from(missing_permille) / 1_000,
            _ => u64::MAX,
        }
    }

    fn lacks(&mut self, at: usize, more: bool, add: impl FnOnce(&mut RangeSet)) {
        let packets = self.object.geometry.packets();
        let record = self.roster.get_mut(at);
        let missing = record.missing.get_or_insert_default();
        if missing.len() < MAX_RANGES {
            add(missing);
        }
        record.received = missing.covered(0, packets);
        if !more {
            self.settle(at);
        }
    }

    /// All have answered, or will not.
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

    /// What comes after the evaluation: a pass over what is missing, or the end.
    pub(super) fn proceed(&mut self, now: Time) {
        let plan = self.repairs();
        let anybody = (0..self.roster.len()).any(|at| self.in_scope(at));
        for record in self.roster.iter_mut() {
            record.missing = None;
        }
        if !anybody {
            self.next_scope(now);
        } else if self.round.passes >= self.config.rounds {
            self.too_many_rounds(now);
        } else if plan.is_empty() {
            // Nobody asked for anything: what is left is to hear from everybody.
            self.round.passes += 1;
            self.begin_round();
            self.solicit(now, Ask::Everyone);
        } else {
            self.round.number += 1;
            self.begin_pass(now, plan);
        }
    }

    /// What those in scope asked for.
    fn repairs(&self) -> Plan {
        let mut plan = Plan::default();
        if self.config.content == Content::Counts {
            for (block, &need) in self.object.needs.iter().enumerate() {
                let block = block as u32;
                if need == 0 {
                    continue;
                }
                if need >= self.object.geometry.packets_of(block) {
                    // To who has nothing of it, sources are worth as much, and are not to be decoded.
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

    /// The union of what those in scope miss; if they are few, to each its own.
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
        let there = self
            .roster
            .weigh(|status| matches!(status, Status::Joined | Status::Done | Status::Released));
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

    /// Who lacks too much is served after the others, unless half of them do.
    fn postpone_weak(&mut self) {
        let Weak::Postpone { polls, .. } = self.config.weak else {
            return;
        };
        if self.round.scope != Scope::Main {
            return;
        }
        let most = self.most_missing();
        let weak: Vec<usize> = (0..self.roster.len())
            .filter(|&at| self.in_scope(at))
            .filter(|&at| {
                let record = self.roster.get(at);
                record.received > most || record.silent > polls
            })
            .collect();
        let there = self
            .roster
            .weigh(|status| matches!(status, Status::Joined | Status::Done | Status::Released));
        if weak.len() * 2 > there as usize {
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
