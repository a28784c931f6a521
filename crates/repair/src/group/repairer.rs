use std::collections::{BTreeMap, BTreeSet};

use layercast_core::{
    Cause, Layer, Machine, Observer, Rate, Serial, Span, Subject, Time, TraceEvent, earliest,
};

use super::member::Member;
use crate::calm::{Calm, ROUND};
use crate::clock::HopClock;
use crate::message::{Beacon, Feedback, Head, SPREAD};
use crate::nominal::Nominal;
use crate::parity::{Block, Blocks, Carried, Codec, Gathered, MAX_CONTENTS, extra, more_than};
use crate::repairer::history::{Content, Departure, History, What};
use crate::repairer::pacer::{Pacer, Waiting};
use crate::repairer::{
    CALM_PART, KEEP, MARKER, MARKER_AGAIN, MARKERS, Outgoing, Tail, Unit, lost, subject,
};
use crate::seen::Seen;
use crate::stats::RepairStats;

/// Most members whose feedback is used; further ones get what others ask for.
pub const MAX_MEMBERS: usize = 128;
/// Between the first request and the round that answers it: others come meanwhile.
const GATHER: Span = Span::from_ms(4);
/// Least time between two rounds.
const LEAST_SPACING: Span = Span::from_ms(5);
/// Members of a group that have to ask for more than the first round gives, on average.
const ASKING: f64 = 0.07;
/// A beacon leaves at least this often while datagrams leave: members learn of one another by it.
const BEACON: Span = Span::from_secs(1);
/// In this time without losses the usual deficit decays to one.
const FORGET_DEFICIT: Span = Span::from_secs(2);

/// A member, as the driver names it.
pub type MemberId = u64;

/// How a [`GroupRepairer`] works.
#[derive(Clone, Debug)]
pub struct GroupConfig<T> {
    /// Name of the link in traces.
    pub name: String,
    /// Session of the counters: another one for each life of the group.
    pub session: u16,
    /// Rate of the port; everything that leaves is charged to it. With or without one, repairs take at most as many octets
    /// as the media.
    pub rate: Option<Rate>,
    /// How parities are made of contents.
    pub codec: Codec<T>,
}

/// What a [`GroupRepairer`] takes.
#[derive(Clone, PartialEq, Debug)]
pub enum GroupInput<T> {
    /// A datagram that leaves the switch at `at`, not later than now.
    Send {
        /// When its first bit may leave.
        at: Time,
        /// What it is.
        unit: Unit,
        /// Its content.
        item: T,
    },
    /// A member comes, or comes again.
    Join(MemberId),
    /// A member goes.
    Leave(MemberId),
    /// Feedback of a member.
    Feedback(MemberId, Feedback),
    /// The port has another rate.
    Rate(Option<Rate>),
    /// What was sent since this time had left by now: the host was held up in between.
    HeldUp(Time),
}

/// The sending end of a link to a group.
///
/// It numbers and paces datagrams as a [`Repairer`](crate::Repairer) does. What members report lost it repairs in rounds, at
/// most one in a round trip: a block of lost datagrams gets as many parities as the member needs that lacks most of it.
///
/// State is bounded: that of a [`Repairer`](crate::Repairer), [`MAX_BLOCKS`](crate::MAX_BLOCKS) blocks, and for each of [`MAX_MEMBERS`] members
/// two bits for each counter of the history.
#[derive(Debug)]
pub struct GroupRepairer<T> {
    config: GroupConfig<T>,
    history: History<T>,
    pacer: Pacer<T>,
    nominal: Nominal,
    members: BTreeMap<MemberId, Member>,
    /// Contents that members lack and that are in no block.
    wanted: BTreeSet<u64>,
    /// Contents that are in a block.
    in_block: Seen,
    /// All counters below are in a block, or over.
    unformed: u64,
    /// The newest counter that a member knows of.
    newest: u64,
    blocks: Blocks,
    /// When the next round is.
    round: Option<Time>,
    /// When the last round was, and how long the next one stays away from it.
    last_round: Option<(Time, Span)>,
    /// A mean of what the member with the most losses lacked, in eighths, and when it was last taken.
    deficit: (u32, Time),
    tail: Option<Tail>,
    beacon_at: Time,
    calm: Calm,
    /// The latest nominal departure of an original.
    latest: Option<Time>,
    stats: RepairStats,
}

impl<T: Clone> GroupRepairer<T> {
    /// A sending end whose first counter is 0, without members.
    pub fn new(config: GroupConfig<T>) -> GroupRepairer<T> {
        GroupRepairer {
            pacer: Pacer::limited(config.rate),
            config,
            history: History::new(),
            nominal: Nominal::default(),
            members: BTreeMap::new(),
            wanted: BTreeSet::new(),
            in_block: Seen::new(),
            unformed: 0,
            newest: 0,
            blocks: Blocks::new(),
            round: None,
            last_round: None,
            deficit: (0, Time::ZERO),
            tail: None,
            beacon_at: Time::ZERO,
            calm: Calm::default(),
            latest: None,
            stats: RepairStats::default(),
        }
    }

    /// What it counted.
    pub fn stats(&self) -> RepairStats {
        RepairStats {
            rtt_us: self.longest_rtt().map_or(0, Span::as_us),
            members: self.members.len() as u64,
            left: self.members.values().filter(|it| it.left).count() as u64,
            ..self.stats
        }
    }

    /// The session of the counters.
    pub fn session(&self) -> u16 {
        self.config.session
    }

    /// The next counter, modulo 2^32.
    pub fn next_counter(&self) -> Serial {
        Serial(self.history.next() as u32)
    }

    /// For how long after its usual arrival a datagram is of use at any member that has said so.
    pub fn budget(&self) -> Option<Span> {
        let heard = self.members.values().map(|it| &it.there);
        let heard = heard.filter(|there| there.heard().is_some());
        heard.map(|there| there.budget).max()
    }

    /// The clock of a member; `None` before it is known.
    pub fn clock(&self, now: Time, member: MemberId) -> Option<HopClock> {
        self.members.get(&member)?.there.clock.get(now)
    }

    /// Datagrams that are kept for repair, those that wait for the line, and blocks.
    pub fn held(&self) -> (usize, usize, usize) {
        (self.history.len(), self.pacer.len(), self.blocks.len())
    }

    /// Whether nothing waits for the line, and nothing that was sent may still be repaired.
    pub fn is_idle(&self, now: Time) -> bool {
        let next = self.history.next();
        let over = |latest: Time| latest.saturating_add(self.longest_budget()) <= now;
        let settled = self.members.values().all(|member| member.has_all(next));
        self.pacer.len() == 0 && (settled || self.latest.is_none_or(over))
    }

    fn longest_rtt(&self) -> Option<Span> {
        let lines = self.members.values().map(|it| &it.there.line);
        lines.filter_map(|line| line.rtt()).max()
    }

    fn longest_budget(&self) -> Span {
        let budgets = self.members.values().map(|it| it.there.budget);
        budgets.max().unwrap_or_default()
    }

    fn on_feedback(&mut self, now: Time, from: MemberId, feedback: &Feedback) {
        let counters = (self.config.session, self.history.next());
        let member = self.members.get_mut(&from);
        let heard = member.and_then(|member| {
            let hi = member.there.hear(now, feedback, counters)?;
            Some((hi, member))
        });
        let Some((hi, member)) = heard else {
            self.stats.feedback_ignored += 1;
            return;
        };
        self.stats.feedback += 1;
        self.newest = self.newest.max(hi);
        let history = &self.history;
        let sent_at = |counter| history.sent_exactly_at(counter);
        let begun_at = |counter| history.begun_at(counter);
        let there = &mut member.there;
        there.measure(now, hi, feedback, (sent_at, begun_at));
        let base = self.history.base();
        let mut lost = Vec::new();
        let sent_at = |counter| history.sent_at(counter);
        let is_parity = |counter| history.is_repair(counter);
        let take = |counter| lost.push(counter);
        member.take(now, feedback, (base, hi), (sent_at, is_parity), take);
        let rtt = member.rtt();
        if !lost.is_empty() {
            self.calm.on_gap(now);
        }
        for counter in lost {
            if let Some(layer) = self.history.layer(counter) {
                self.stats.layers[layer].lost += 1;
            }
            let is_content = self.history.content(counter).is_some();
            if is_content && !self.in_block.get(counter) {
                self.wanted.insert(counter);
            }
        }
        if feedback.missing.iter().any(|range| range.requested) {
            let after = self
                .last_round
                .map(|(at, spacing)| at.saturating_add(spacing.max(rtt).max(LEAST_SPACING)));
            let at = now.saturating_add(GATHER).max(after.unwrap_or(now));
            self.round = earliest(self.round, Some(at));
        }
    }

    /// Answers the requests that have come: new blocks for what is in none, and parities for every block.
    fn answer<O: Observer>(&mut self, now: Time, obs: &mut O) {
        self.form_blocks(now, obs);
        let mut longest = Span::ZERO;
        let mut worst = 0;
        let mut queued = false;
        let numbers: Vec<u64> = self.blocks.iter().map(|block| block.number).collect();
        for number in numbers {
            let Some((need, room, unit)) = self.need(now, number) else {
                continue;
            };
            longest = longest.max(need.rtt);
            worst = worst.max(need.missing);
            for _ in 0..need.parities.min(room) {
                if !self.pacer.spend(unit.octets) {
                    self.stats.layers[unit.layer].over_grant += 1;
                    self.lost(now, &unit, Cause::ShaperFull, obs);
                    continue;
                }
                if let Some(block) = self.blocks.get_mut(number) {
                    block.queued += 1;
                }
                queued = true;
                let waiting = Waiting::Parity {
                    at: now,
                    of: number,
                    unit,
                };
                if let Some(dropped) = self.pacer.push(unit.layer, waiting) {
                    self.unsent(now, &dropped, Cause::QueueFull, obs);
                }
            }
        }
        if queued {
            self.stats.rounds += 1;
            self.last_round = Some((now, longest));
            // In eighths, so that a mean of small numbers moves.
            let mean = (self.usual_eighths(now) * 3 + worst.saturating_mul(8)) / 4;
            self.deficit = (mean, now);
        }
    }

    /// What the member with the most losses lacked of late, at least 1.
    fn usual_deficit(&self, now: Time) -> u32 {
        self.usual_eighths(now).div_ceil(8).max(1)
    }

    fn usual_eighths(&self, now: Time) -> u32 {
        let (deficit, at) = self.deficit;
        let left = FORGET_DEFICIT.saturating_sub(now.since(at));
        let decayed = u64::from(deficit) * left.as_us() / FORGET_DEFICIT.as_us();
        decayed as u32
    }

    /// What members need of a block now, how many parities it can still have, and what they are to the pacer; `None` if nothing.
    fn need(&mut self, now: Time, number: u64) -> Option<(Need, u32, Unit)> {
        let block = self.blocks.get(number)?;
        let leaves = self.pacer.start(now, block.layer);
        let mut need = Need::default();
        let (mut last, mut loss) = (Time::ZERO, 0.0_f64);
        for member in self.members.values().filter(|member| !member.left) {
            let missing = block.contents().filter(|of| member.lacks(*of)).count() as u32;
            if missing == 0 {
                continue;
            }
            let nominal = block.contents().filter(|of| member.lacks(*of));
            let nominal = nominal.filter_map(|of| self.history.nominal(of)).max();
            let deadline = nominal.map(|(nominal, lasts)| {
                nominal.saturating_add(lasts.unwrap_or(member.there.budget))
            });
            let Some(deadline) = deadline.filter(|deadline| leaves <= *deadline) else {
                continue;
            };
            let deficit = member.deficit(block);
            if deficit == 0 {
                continue;
            }
            need.parities = need.parities.max(deficit);
            need.missing = need.missing.max(missing);
            need.rtt = need.rtt.max(member.rtt());
            last = last.max(deadline);
            loss = loss.max(member.there.line.repair_loss());
        }
        if need.parities == 0 {
            return None;
        }
        let is_first = block.sent.is_empty() && block.queued == 0;
        if is_first {
            need.parities = need.parities.max(self.expected(block.mask.count_ones()));
        }
        let again = [need.rtt, need.rtt, ROUND]
            .iter()
            .fold(leaves, |at, span| at.saturating_add(*span));
        // A member that needs a second round may not be able to ask for a third one: requests are rare.
        if again > last || !is_first {
            need.parities += extra(need.parities, loss);
        }
        Some((need, block.room(), block.unit()))
    }

    /// What the member with the most losses of `contents` probably lacks: members that lack less than it need not ask.
    fn expected(&self, contents: u32) -> u32 {
        let members = self.members.values().filter(|member| !member.left);
        let losses = members.map(|member| member.there.line.repair_loss());
        let (count, sum) = losses.fold((0.0, 0.0), |(count, sum), loss| (count + 1.0, sum + loss));
        let loss = sum / f64::max(count, 1.0);
        // Parities are lost, too.
        let few = |deficit: &u32| count * more_than(*deficit, contents + deficit, loss) <= ASKING;
        (0..contents).find(few).unwrap_or(contents)
    }

    /// Puts what members lack, and what is in no block, into blocks.
    fn form_blocks<O: Observer>(&mut self, now: Time, obs: &mut O) {
        let mut in_time = BTreeSet::new();
        for of in std::mem::take(&mut self.wanted) {
            if self.is_worth(now, of, obs) {
                in_time.insert(of);
            }
        }
        if in_time.is_empty() {
            return;
        }
        // Contents that no member has reported lost may be lost at members that wait with their request: they cost no further parity.
        let mut layers: [Vec<u64>; 3] = Default::default();
        let budget = self.longest_budget();
        self.unformed = self.unformed.max(self.history.base());
        for of in self.unformed..=self.newest {
            let content = self.history.content(of);
            let content = content.filter(|it| it.item.is_some() && !self.in_block.get(of));
            let lasts = content.map(|it| (it.unit, it.nominal, it.unit.lasts.unwrap_or(budget)));
            match lasts {
                Some((unit, nominal, lasts)) if nominal.saturating_add(lasts) > now => {
                    layers[unit.layer.index()].push(of);
                }
                _ if of == self.unformed => self.unformed += 1,
                _ => {}
            }
        }
        for counters in layers {
            let mut rest = &counters[..];
            while let Some(first) = rest.first() {
                let near = |of: &&u64| **of - first < SPREAD as u64;
                let count = rest.iter().take(MAX_CONTENTS).take_while(near).count();
                let (block, after) = rest.split_at(count);
                if block.iter().any(|of| in_time.contains(of)) {
                    self.form_block(block);
                }
                rest = after;
            }
        }
    }

    /// Whether a repair of content that was reported lost is of use to a member that reports it.
    fn is_worth<O: Observer>(&mut self, now: Time, of: u64, obs: &mut O) -> bool {
        let Some(content) = self.history.content(of) else {
            self.stats.forgotten += 1;
            return false;
        };
        let (unit, nominal) = (content.unit, content.nominal);
        let leaves = self.pacer.start(now, unit.layer);
        let (mut any, mut all_left, mut in_time) = (false, true, false);
        for member in self.members.values().filter(|member| member.lacks(of)) {
            any = true;
            all_left &= member.left;
            let lasts = unit.lasts.unwrap_or(member.there.budget);
            in_time |= !member.left && leaves <= nominal.saturating_add(lasts);
        }
        if any && all_left {
            self.stats.unheeded += 1;
        } else if any && !in_time {
            self.stats.layers[unit.layer].too_late += 1;
            self.lost(now, &unit, Cause::Late, obs);
        }
        in_time
    }

    fn form_block(&mut self, counters: &[u64]) {
        let mut gathered: Option<Gathered> = None;
        for &of in counters {
            let Some(content) = self.history.content(of) else {
                return;
            };
            let Some(item) = &content.item else { return };
            let payload = (self.config.codec.encode)(item);
            let (unit, nominal) = (content.unit, content.nominal);
            match &mut gathered {
                None => gathered = Some(Gathered::new(of, unit, nominal, payload)),
                Some(gathered) => {
                    if gathered.add(of, unit, nominal, payload).is_err() {
                        return;
                    }
                }
            }
        }
        // A content that is too long for a parity is not repaired.
        if gathered.and_then(|it| self.blocks.form(it)).is_some() {
            for of in counters {
                self.in_block.set(*of);
            }
        }
    }

    /// A datagram was discarded in the queue.
    fn unsent<O: Observer>(&mut self, now: Time, dropped: &Waiting<T>, cause: Cause, obs: &mut O) {
        let unit = *dropped.unit();
        self.stats.layers[unit.layer].unsent += 1;
        if let Waiting::Parity { of, .. } = dropped
            && let Some(block) = self.blocks.get_mut(*of)
        {
            block.queued = block.queued.saturating_sub(1);
        }
        self.lost(now, &unit, cause, obs);
    }

    fn lost<O: Observer>(&self, now: Time, unit: &Unit, cause: Cause, obs: &mut O) {
        lost(now, self.subject(), unit, cause, obs);
    }

    fn subject(&self) -> Subject<'_> {
        subject(&self.config.name)
    }

    /// Whether a datagram that leaves at `start` is of no use.
    fn is_vain(&mut self, start: Time, waiting: &Waiting<T>) -> bool {
        match waiting {
            Waiting::Original { unit, at, .. } if unit.layer == Layer::Base || *at >= start => {
                false
            }
            Waiting::Original { unit, nominal, .. } => {
                let lasts = unit.lasts.unwrap_or(self.longest_budget());
                start > nominal.saturating_add(lasts)
            }
            // A group gets parities only.
            Waiting::Copy { .. } => true,
            Waiting::Parity { of, .. } => {
                let budget = self.longest_budget();
                let Some(block) = self.blocks.get(*of) else {
                    return true;
                };
                let late = start > block.nominal.saturating_add(block.lasts.unwrap_or(budget));
                let contents = (block.first, block.mask);
                let lacks = |member: &Member| {
                    let mut contents = crate::parity::contents(contents.0, contents.1);
                    !member.left && contents.any(|of| member.lacks(of))
                };
                late || !self.members.values().any(lacks)
            }
        }
    }

    /// Numbers the datagram that leaves at `now`.
    fn depart(
        &mut self,
        now: Time,
        ready: Time,
        waiting: Waiting<T>,
    ) -> Option<Outgoing<Carried<T>>> {
        let counter = self.history.next();
        let (session, wire) = (self.config.session, Serial(counter as u32));
        let parities = self.blocks.parities();
        let sent = Departure {
            begun: now,
            at: now.max(ready),
            held: Span::ZERO,
            parts: 1,
        };
        let charged = waiting.unit().octets;
        let (head, item, tail) = match waiting {
            Waiting::Original {
                unit,
                item,
                nominal,
                ..
            } => {
                let layer = unit.layer;
                let counters = &mut self.stats.layers[layer];
                counters.sent += 1;
                counters.octets += u64::from(unit.octets);
                let what = match unit.repair {
                    true => What::Original(Content::new(unit, item.clone(), nominal)),
                    false => What::Once(layer),
                };
                self.latest = self.latest.max(Some(nominal));
                self.history.push(sent, charged, what);
                let head = Head::Shared {
                    session,
                    counter: wire,
                    layer,
                    parities,
                };
                (head, Carried::Item(item), unit.last)
            }
            Waiting::Copy { .. } => return None,
            Waiting::Parity { of, unit, .. } => {
                let (parity, octets) = self.blocks.parity(of, session, counter)?;
                let counters = &mut self.stats.layers[unit.layer];
                counters.repairs += 1;
                counters.parities += 1;
                counters.repair_octets += u64::from(unit.octets);
                let tail = parity.until == parity.index + 1;
                self.history
                    .push(sent, charged, What::Parity(of, unit.layer));
                (Head::Parity(parity), Carried::Parity(octets), tail)
            }
        };
        let next = self.history.next();
        self.in_block.advance(next);
        for member in self.members.values_mut() {
            member.advance(next);
        }
        self.calm.on_traffic(now);
        self.tail = tail.then(|| {
            let path = (self.budget(), self.longest_rtt());
            let calm = self.calm.wait(now, MARKER, CALM_PART, path);
            let wait = match now.since(self.beacon_at) < BEACON {
                true => calm,
                false => MARKER,
            };
            Tail {
                marker: ready.saturating_add(wait),
                sent: 0,
            }
        });
        Some(Outgoing {
            head,
            item: Some(item),
            parts: 1,
            ready,
        })
    }

    fn beacon_due(&self) -> Option<Time> {
        let tail = self.tail.filter(|tail| tail.sent < MARKERS)?;
        Some(tail.marker)
    }

    fn beacon(&mut self, now: Time) -> Option<Outgoing<Carried<T>>> {
        self.beacon_due().filter(|at| *at <= now)?;
        if let Some(tail) = &mut self.tail {
            tail.sent += 1;
            tail.marker = tail.marker.saturating_add(MARKER_AGAIN);
        }
        self.beacon_at = now;
        self.stats.markers += 1;
        let rtt_us = self.longest_rtt().map_or(0, Span::as_us);
        let head = Head::Beacon(Beacon {
            session: self.config.session,
            hi: Serial(self.history.next().checked_sub(1)? as u32),
            parities: self.blocks.parities(),
            members: u16::try_from(self.members.len().max(1)).unwrap_or(u16::MAX),
            deficit: u8::try_from(self.usual_deficit(now)).unwrap_or(u8::MAX),
            rtt_us: u32::try_from(rtt_us).unwrap_or(u32::MAX),
        });
        Some(Outgoing {
            head,
            item: None,
            parts: 1,
            ready: now,
        })
    }

    fn join(&mut self, member: MemberId) {
        let known = self.members.contains_key(&member);
        if known || self.members.len() < MAX_MEMBERS {
            let next = self.history.next();
            self.members.insert(member, Member::new(next));
        }
    }

    fn forget(&mut self, now: Time) {
        let budget = self.longest_budget();
        let keep = Span::from_ps(budget.as_ps().saturating_add(KEEP.0.as_ps())).min(KEEP.1);
        self.history.forget(now, keep);
        let base = self.history.base();
        let is_over = |block: &Block| {
            let over = block.nominal.saturating_add(keep) <= now;
            block.queued == 0 && (over || block.first < base)
        };
        while self.blocks.pop_if(is_over).is_some() {}
        while self.wanted.first().is_some_and(|of| *of < base) {
            self.wanted.pop_first();
            self.stats.forgotten += 1;
        }
    }
}

/// What members need of a block.
#[derive(Clone, Copy, Default, Debug)]
struct Need {
    /// Parities for the member that needs most.
    parities: u32,
    /// Contents that the member with the most losses lacks.
    missing: u32,
    /// The longest round trip to a member that needs something.
    rtt: Span,
}

impl<T: Clone> Machine for GroupRepairer<T> {
    type Input = GroupInput<T>;
    type Transmit = Outgoing<Carried<T>>;
    type Event = std::convert::Infallible;

    fn handle<O: Observer>(&mut self, now: Time, input: GroupInput<T>, obs: &mut O) {
        match input {
            GroupInput::Send { at, unit, item } => {
                let (pacer, nominal) = (&mut self.pacer, &mut self.nominal);
                if let Some(dropped) = pacer.push_media(nominal, at.min(now), unit, item) {
                    self.unsent(now, &dropped, Cause::QueueFull, obs);
                }
            }
            GroupInput::Feedback(from, feedback) => self.on_feedback(now, from, &feedback),
            GroupInput::Join(member) => self.join(member),
            GroupInput::Leave(member) => drop(self.members.remove(&member)),
            GroupInput::Rate(rate) => self.pacer.set_rate(rate),
            GroupInput::HeldUp(since) => self.history.left_by(since, now),
        }
        self.on_timeout(now, obs);
    }

    fn on_timeout<O: Observer>(&mut self, now: Time, obs: &mut O) {
        if self.round.take_if(|at| *at <= now).is_some() {
            self.answer(now, obs);
        }
        self.forget(now);
    }

    fn poll_transmit<O: Observer>(
        &mut self,
        now: Time,
        obs: &mut O,
    ) -> Option<Outgoing<Carried<T>>> {
        while let Some((start, waiting)) = self.pacer.next(now) {
            if self.is_vain(start, &waiting) {
                self.unsent(now, &waiting, Cause::Late, obs);
                continue;
            }
            let unit = *waiting.unit();
            let (ready, _) = self.pacer.occupy(start, unit.octets);
            let Some(outgoing) = self.depart(now, ready, waiting) else {
                continue;
            };
            if let Head::Parity(_) = outgoing.head {
                let number = self.history.next() - 1;
                obs.on(now, self.subject(), || TraceEvent::Packet {
                    flow: unit.flow,
                    sent: true,
                    what: "parity",
                    number,
                    bytes: unit.octets,
                });
            }
            return Some(outgoing);
        }
        self.beacon(now)
    }

    fn poll_event(&mut self) -> Option<std::convert::Infallible> {
        None
    }

    fn next_timeout(&self) -> Option<Time> {
        let queued = earliest(self.pacer.next_start(), self.round);
        earliest(queued, self.beacon_due())
    }
}
