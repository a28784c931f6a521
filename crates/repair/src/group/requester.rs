use std::collections::VecDeque;

use bytes::Bytes;
use layercast_core::{
    FlowId, Machine, Observer, Serial, Span, Stream, Subject, Time, TraceEvent, earliest,
};

use super::holes::{Hole, Holes};
use crate::arrivals::{MAX_GAP, Window};
use crate::calm::ROUND;
use crate::counters::Counters;
use crate::message::{Arrival, Beacon, Feedback, Head, Missing, Parity, expand};
use crate::parity::{Carried, Codec, Restore, Restored};
use crate::requester::RequesterInput;
use crate::seen::SPAN;
use crate::stats::RequestStats;

/// Rate of the feedback of all members together, with the headers of UDP and IPv4 and the seal. Bursts come on top: 100 kbit/s
/// in all are the aim.
pub const FEEDBACK_BPS: u64 = 88_000;
/// Rate of the reports of all members together that request nothing.
const PERIODIC_BPS: u64 = 20_000;
/// Requests that a member may send in a row.
const REQUEST_BURST: u64 = 6;
/// Octets around feedback on the wire: IPv4, UDP, and the seal of a protected link.
const AROUND: u64 = 28 + 25;
/// Least time between two periodic reports of a member.
const PERIOD: Span = Span::from_ms(100);
/// Octets of a periodic report, about.
const REPORT: u64 = 100;
/// Most ranges and arrival times in the feedback of a member.
const RANGES: usize = 24;
const ARRIVALS: usize = 2;
/// The members of a group, as long as the sending end has not said how many there are.
const FIRST_MEMBERS: u16 = 16;
/// The budget as long as it is not known.
const FIRST_BUDGET: Span = Span::from_ms(500);
/// Longest wait of a member that lacks as much as any.
const PROMPT: Span = Span::from_ms(4);
/// A group with fewer members is small.
const SMALL: u64 = 8;
/// While parities of a round arrive, a request waits this long for the next one.
const HUSH: Span = Span::from_ms(5);
/// Longest time for which gaps are remembered.
const LONGEST: Span = Span::from_secs(3);

/// How a [`GroupRequester`] works.
#[derive(Clone, Debug)]
pub struct MemberConfig<T> {
    /// Name of the link in traces.
    pub name: String,
    /// Session of the counters, as the other end says.
    pub session: u16,
    /// The next counter when the member came, as the other end says.
    pub first: Serial,
    /// It reports what it lacks; if not, it uses the repairs that others ask for.
    pub asks: bool,
    /// Seed of the time at which it speaks; the stream is named after the link.
    pub seed: u64,
    /// How contents are made of parities.
    pub codec: Codec<T>,
}

/// The receiving end of a link to a group, at one member.
///
/// It gives each content once, restores contents from parities, and says in feedback what is missing. A request waits for a
/// random time, longer the less is missing, and is not sent if parities for others have filled the gap by then. All members
/// together send at most [`FEEDBACK_BPS`], besides short bursts.
///
/// State is bounded: [`SPAN`] counters, [`MAX_HOLES`](super::MAX_HOLES) gaps, [`MAX_KEPT`](crate::MAX_KEPT) contents of
/// [`MAX_KEPT_OCTETS`](crate::MAX_KEPT_OCTETS) octets, and the parities of [`MAX_OPEN`](crate::MAX_OPEN) blocks.
#[derive(Debug)]
pub struct GroupRequester<T> {
    config: MemberConfig<T>,
    random: Stream,
    /// With the upper half of their bits of its own.
    counters: Counters,
    /// A counter has arrived.
    begun: bool,
    /// Parities below `next`, modulo 2^8.
    parities: u8,
    holes: Holes,
    window: Window,
    rtt: Option<Span>,
    members: u16,
    /// The sending end has said how many members there are.
    told: bool,
    /// What the member with the most losses lacks in a round.
    deficit: u32,
    budget: Option<Span>,
    restore: Restore<T>,
    arrivals: VecDeque<(u64, Time)>,
    /// Something arrived since the last report.
    news: bool,
    report_at: Time,
    speak: Option<Speak>,
    /// When requests of the member are within their rate.
    within: Time,
    /// Before that, the answer to a request cannot be complete: another one would be for nothing.
    quiet: Time,
    /// Until when the parities of a round arrive that may restore what is missing.
    hush: Option<Time>,
    ready: VecDeque<T>,
    stats: RequestStats,
}

/// A request that waits for its time.
#[derive(Clone, Copy, Debug)]
struct Speak {
    at: Time,
    /// It repeats one.
    again: bool,
}

impl<T: Clone> GroupRequester<T> {
    /// A member that has received nothing.
    pub fn new(config: MemberConfig<T>) -> GroupRequester<T> {
        let next = (1 << 32) + u64::from(config.first.0);
        GroupRequester {
            random: Stream::new(config.seed, &format!("{}/requests", config.name)),
            restore: Restore::new(config.codec),
            config,
            counters: Counters::new(next),
            begun: false,
            parities: 0,
            holes: Holes::default(),
            window: Window::new(),
            rtt: None,
            members: FIRST_MEMBERS,
            told: false,
            deficit: 1,
            budget: None,
            arrivals: VecDeque::new(),
            news: false,
            report_at: Time::ZERO,
            speak: None,
            within: Time::ZERO,
            quiet: Time::ZERO,
            hush: None,
            ready: VecDeque::new(),
            stats: RequestStats::default(),
        }
    }

    /// What it counted.
    pub fn stats(&self) -> RequestStats {
        RequestStats {
            window_us: self.window.get().as_us(),
            ..self.stats
        }
    }

    /// Gaps, contents that are kept, and blocks of which parities are kept.
    pub fn held(&self) -> (usize, usize, usize) {
        let (kept, open) = self.restore.held();
        (self.holes.len(), kept, open)
    }

    fn on_datagram<O: Observer>(
        &mut self,
        now: Time,
        head: Head,
        carried: Carried<T>,
        obs: &mut O,
    ) {
        match (head, carried) {
            (
                Head::Shared {
                    session,
                    counter,
                    layer: _,
                    parities,
                },
                Carried::Item(item),
            ) => {
                if let Some(counter) = self.arrive(now, session, counter, (parities, false)) {
                    self.on_content(now, counter, item, obs);
                }
            }
            (Head::Parity(parity), Carried::Parity(octets)) => {
                let numbers = (parity.parities, true);
                let counter = self.arrive(now, parity.session, parity.counter, numbers);
                if let Some(counter) = counter {
                    self.on_parity(now, counter, &parity, octets, obs);
                }
            }
            _ => self.stats.strays += 1,
        }
    }

    /// A datagram with this counter arrives; gives the counter if it is the first one with it.
    fn arrive(
        &mut self,
        now: Time,
        session: u16,
        counter: Serial,
        (parities, is_parity): (u8, bool),
    ) -> Option<u64> {
        let counter =
            expand(counter, self.counters.next).filter(|_| session == self.config.session);
        let Some(counter) = counter.and_then(|it| self.place(now, it)) else {
            self.stats.strays += 1;
            return None;
        };
        let late = counter < self.counters.next;
        self.note_sent(now, (counter + 1, counter), (parities, is_parity));
        if !self.counters.arrive(counter) {
            self.stats.duplicates += 1;
            return None;
        }
        self.stats.received += 1;
        self.news = true;
        self.arrivals.push_front((counter, now));
        self.arrivals.truncate(ARRIVALS);
        if late && let Some(hole) = self.holes.of(counter) {
            self.window.learn(now.since(hole.since), self.rtt);
        }
        Some(counter)
    }

    fn on_content<O: Observer>(&mut self, now: Time, counter: u64, item: T, obs: &mut O) {
        if self.counters.delivered.get(counter) {
            self.stats.spurious += 1;
            return;
        }
        self.deliver(counter, item);
        let restored = self.restore.with(counter, &self.counters.delivered);
        self.take_restored(now, restored, obs);
        self.reconsider();
    }

    fn on_parity<O: Observer>(
        &mut self,
        now: Time,
        counter: u64,
        parity: &Parity,
        octets: Bytes,
        obs: &mut O,
    ) {
        self.stats.parities[parity.layer] += 1;
        let delivered = &self.counters.delivered;
        let Some(restored) = self.restore.take(counter, parity, octets, delivered) else {
            self.stats.strays += 1;
            return;
        };
        let was_needless = restored.needless;
        let more = parity.until > parity.index + 1;
        if !was_needless {
            self.hush = match (restored.complete, more) {
                (true, _) => None,
                (false, true) => Some(now.saturating_add(HUSH)),
                // It was the last one, and not enough.
                (false, false) => Some(now),
            };
        }
        self.take_restored(now, restored, obs);
        self.reconsider();
    }

    fn take_restored<O: Observer>(&mut self, now: Time, restored: Restored<T>, obs: &mut O) {
        self.stats.in_vain(restored.surplus);
        for (of, layer, item) in restored.contents {
            if !self.counters.delivered.get(of) {
                self.stats.repaired[layer] += 1;
                self.deliver(of, item);
                self.trace(now, "repaired", of, obs);
            }
        }
    }

    fn deliver(&mut self, counter: u64, item: T) {
        self.counters.delivered.set(counter);
        if let Some(hole) = self.holes.of(counter) {
            hole.lacking = hole.lacking.saturating_sub(1);
        }
        self.restore.keep(counter, item.clone());
        self.ready.push_back(item);
    }

    fn on_beacon(&mut self, now: Time, beacon: &Beacon) {
        let hi =
            expand(beacon.hi, self.counters.next).filter(|_| beacon.session == self.config.session);
        let Some(hi) = hi.and_then(|hi| self.place(now, hi)) else {
            self.stats.strays += 1;
            return;
        };
        self.members = beacon.members;
        if !std::mem::replace(&mut self.told, true) {
            // Members that come together do not use up their bursts together.
            let one = self.share(REPORT, FEEDBACK_BPS);
            let within = now.saturating_add(self.burst()).saturating_sub(one);
            self.within = self.within.max(within);
        }
        self.deficit = beacon.deficit.into();
        if beacon.rtt_us > 0 {
            self.rtt = Some(Span::from_us(beacon.rtt_us.into()));
        }
        self.news |= hi >= self.counters.next;
        self.note_sent(now, (hi + 1, hi + 1), (beacon.parities, false));
    }

    /// The counter, if it is believed.
    fn place(&mut self, now: Time, counter: u64) -> Option<u64> {
        let (counter, again) = self.counters.place(now, counter)?;
        if again {
            self.holes = Holes::default();
            self.restore.clear();
            self.arrivals.clear();
        }
        Some(counter)
    }

    /// All counters below `next` were sent, of which those not known before and below `missing` did not arrive. `parities`
    /// is the number of parities below `missing`, modulo 2^8.
    fn note_sent(
        &mut self,
        now: Time,
        (next, missing): (u64, u64),
        (parities, is_parity): (u8, bool),
    ) {
        let Some(first) = self.counters.advance(next) else {
            return;
        };
        let known = std::mem::replace(
            &mut self.parities,
            parities.wrapping_add(u8::from(is_parity)),
        );
        self.counters.floor = self.counters.floor.max(next.saturating_sub(SPAN));
        let gap = missing.saturating_sub(first);
        if !std::mem::replace(&mut self.begun, true) {
            // What was sent before the first arrival was not for this member.
            self.counters.begin(missing);
            return;
        }
        self.stats.gaps += gap;
        if gap > MAX_GAP {
            self.stats.given_up += gap;
            self.counters.floor = self.counters.floor.max(missing);
            return;
        }
        if gap == 0 {
            return;
        }
        let repairs = u64::from(parities.wrapping_sub(known)).min(gap);
        let given_up = self.holes.add(Hole {
            first,
            end: missing,
            since: now,
            lacking: gap - repairs,
            ripe: false,
            asked: false,
        });
        self.give_up(given_up);
    }

    fn give_up(&mut self, hole: Option<Hole>) {
        if let Some(hole) = hole {
            self.stats.given_up += hole.lacking;
            self.counters.floor = self.counters.floor.max(hole.end);
        }
    }

    /// Contents that are missing, whose reorder window is over, and for which no parity is here.
    fn lacking(&self) -> u32 {
        let ripe = self.holes.iter().filter(|hole| hole.ripe);
        let lacking: u64 = ripe.map(|hole| hole.lacking).sum();
        let held = self.restore.parities();
        u32::try_from(lacking.saturating_sub(held as u64)).unwrap_or(u32::MAX)
    }

    /// A request that nothing is left of is not sent.
    fn reconsider(&mut self) {
        if self.speak.is_some() && self.lacking() == 0 {
            let planned = self.speak.take_if(|speak| !speak.again);
            self.stats.suppressed += u64::from(planned.is_some());
            self.speak = None;
        }
    }

    /// Plans a request of `lacking` contents.
    fn plan(&mut self, now: Time, lacking: u32) {
        let rtt = self.rtt();
        let rounds = Span::from_ps(rtt.as_ps().saturating_add(ROUND.as_ps())).times(2);
        let spare = self.budget.unwrap_or(FIRST_BUDGET).saturating_sub(rounds);
        let heard = Span::from_ps(rtt.mul_div(5, 4).as_ps() + HUSH.as_ps());
        let slot = heard.min(spare.mul_div(1, 2)).max(Span::from_ms(2));
        // In a small group, a member that has not used its share of the rate for requests need not wait for others.
        let burst = self.burst();
        let used = self.within.since(now).min(burst);
        let used = slot.mul_div(used.as_us(), burst.as_us().max(1));
        let members = u64::from(self.members);
        let slot = used.max(slot.mul_div(members, members + SMALL));
        let wait = if lacking >= self.deficit {
            Span::from_ps(self.random.below(PROMPT.as_ps()))
        } else {
            let less = (self.deficit - lacking).into();
            let half = slot.mul_div(1, 2);
            let least = half.mul_div(less, self.deficit.into());
            let late = half.as_secs_f64() * self.late();
            Span::from_ps(least.as_ps() + Span::from_secs_f64(late).as_ps())
        };
        let at = now.saturating_add(wait).max(self.quiet);
        let sooner = self.speak.filter(|speak| speak.at <= at && !speak.again);
        self.speak = sooner.or(Some(Speak { at, again: false }));
    }

    /// A draw between 0 and 1 that is late the more likely the more members there are, so that few of many are early (RFC
    /// 5401 6.1).
    fn late(&mut self) -> f64 {
        let lambda = libm::log(f64::from(self.members.max(1))) + 1.0;
        let uniform = self.random.unit();
        libm::log1p(uniform * libm::expm1(lambda)) / lambda
    }

    /// Repairs were lost, or not enough: what is still missing is requested soon.
    fn hurry(&mut self, now: Time) {
        if self.lacking() > 0 {
            let wait = Span::from_ps(self.random.below(PROMPT.as_ps()));
            let at = now.saturating_add(wait).max(self.quiet);
            let again = self.speak.is_some_and(|speak| speak.again);
            let sooner = self.speak.filter(|speak| speak.at <= at);
            self.speak = sooner.or(Some(Speak { at, again }));
        }
    }

    fn rtt(&self) -> Span {
        self.rtt.unwrap_or(ROUND.times(3))
    }

    fn keep(&self) -> Span {
        let budget = self.budget.unwrap_or(FIRST_BUDGET).as_ps();
        Span::from_ps(budget.saturating_add(ROUND.as_ps())).min(LONGEST)
    }

    /// How far its requests may be ahead of their rate.
    fn burst(&self) -> Span {
        self.share(REPORT, FEEDBACK_BPS).times(REQUEST_BURST)
    }

    /// Gives up what is of no use any more.
    fn forget(&mut self, now: Time) {
        let keep = self.keep();
        while let Some(hole) = self.holes.expire(now, keep) {
            self.give_up(Some(hole));
        }
        self.stats.in_vain(self.restore.forget(self.counters.next));
        self.reconsider();
    }

    /// Time that `octets` of feedback take of this member's share of a rate.
    fn share(&self, octets: u64, bps: u64) -> Span {
        let ns = octets * 8 * u64::from(self.members.max(1)) * 1_000_000_000 / bps;
        Span::from_us(ns / 1_000)
    }

    fn feedback(&mut self, now: Time) -> Feedback {
        let mut ranges: VecDeque<(u64, u64, bool)> = VecDeque::new();
        let mut floor = self.counters.floor;
        for hole in self.holes.iter() {
            for counter in hole.first.max(self.counters.floor)..hole.end {
                if self.counters.arrived.get(counter) || self.counters.delivered.get(counter) {
                    continue;
                }
                match ranges.back_mut() {
                    Some((_, end, ripe)) if *end == counter && *ripe == hole.ripe => *end += 1,
                    _ => ranges.push_back((counter, counter + 1, hole.ripe)),
                }
                if ranges.len() > RANGES
                    && let Some((_, end, _)) = ranges.pop_front()
                {
                    floor = end;
                }
            }
        }
        let (hi, known) = self.counters.known(floor);
        let back = |counter: u64| (hi - counter) as u16;
        let missing = ranges.iter().map(|&(first, end, requested)| Missing {
            back: back(first),
            len: (end - first) as u16,
            requested,
        });
        let recent = |at: Time| now.since(at) < Span::from_secs(16);
        let arrivals = self.arrivals.iter();
        let arrivals = arrivals.filter(|(counter, at)| hi - counter < SPAN && recent(*at));
        self.stats.feedback += 1;
        let octets = 24 + ranges.len() * 4 + self.arrivals.len() * 5;
        let cost = self.share(AROUND + octets as u64, FEEDBACK_BPS);
        self.within = self.within.max(now).saturating_add(cost);
        Feedback {
            session: self.config.session,
            tx_us: Serial(now.as_us() as u32),
            hi: Serial(hi as u32),
            known,
            window_us: u32::try_from(self.window.get().as_us()).unwrap_or(u32::MAX),
            budget_ms: self
                .budget
                .map(|budget| u16::try_from(budget.as_ms()).unwrap_or(u16::MAX - 1)),
            next_ms: u8::MAX,
            missing: missing.collect(),
            arrivals: arrivals
                .map(|(counter, at)| Arrival {
                    back: back(*counter),
                    ago_us: now.since(*at).as_us() as u32,
                })
                .collect(),
        }
    }

    /// The request, if it is time for it.
    fn request<O: Observer>(&mut self, now: Time, obs: &mut O) -> Option<Feedback> {
        let speak = self.speak.filter(|speak| speak.at <= now)?;
        if self.lacking() == 0 {
            self.speak = None;
            return None;
        }
        if let Some(at) = self.hush.filter(|at| now < *at) {
            self.speak = Some(Speak { at, ..speak });
            return None;
        }
        let burst = self.burst();
        if self.within > now.saturating_add(burst) {
            self.stats.put_off += 1;
            let at = self.within.saturating_sub(burst);
            self.speak = Some(Speak { at, ..speak });
            return None;
        }
        let mut first = None;
        for hole in self.holes.iter_mut() {
            if hole.ripe && hole.lacking > 0 && !hole.asked {
                hole.asked = true;
                self.stats.requested += hole.lacking;
                first = first.or(Some(hole.first));
            }
        }
        if let Some(first) = first {
            self.trace(now, "request", first, obs);
        }
        let again = Span::from_ps(self.rtt().mul_div(3, 2).as_ps() + ROUND.times(2).as_ps());
        let again = again.as_ps() + self.random.below(ROUND.as_ps());
        self.speak = Some(Speak {
            at: now.saturating_add(Span::from_ps(again)),
            again: true,
        });
        let feedback = self.feedback(now);
        self.quiet = now.saturating_add(self.rtt().mul_div(1, 2));
        Some(feedback)
    }

    fn reported(&mut self, now: Time) {
        self.news = false;
        let mean = self.share(REPORT, PERIODIC_BPS).max(PERIOD).as_ps();
        let wait = mean / 2 + self.random.below(mean.max(1));
        self.report_at = now.saturating_add(Span::from_ps(wait));
    }

    fn trace<O: Observer>(&self, now: Time, what: &'static str, number: u64, obs: &mut O) {
        let subject = Subject {
            node: &self.config.name,
            machine: "requester",
        };
        obs.on(now, subject, || TraceEvent::Packet {
            flow: FlowId(0),
            sent: false,
            what,
            number: u64::from(number as u32),
            bytes: 0,
        });
    }
}

impl<T: Clone> Machine for GroupRequester<T> {
    type Input = RequesterInput<T>;
    /// Feedback for the other end.
    type Transmit = Feedback;
    /// Content, each once.
    type Event = T;

    fn handle<O: Observer>(&mut self, now: Time, input: RequesterInput<T>, obs: &mut O) {
        match input {
            RequesterInput::Datagram(head, carried) => self.on_datagram(now, head, carried, obs),
            RequesterInput::Marker(Head::Beacon(beacon)) => self.on_beacon(now, &beacon),
            RequesterInput::Marker(_) => self.stats.strays += 1,
            RequesterInput::Budget(budget) => self.budget = budget,
            RequesterInput::ReadLate => self.arrivals.retain(|(_, at)| *at < now),
        }
        self.on_timeout(now, obs);
    }

    fn on_timeout<O: Observer>(&mut self, now: Time, _: &mut O) {
        self.window.forget(now);
        let window = self.window.get();
        let (mut ripened, mut repairs_lost) = (false, false);
        for hole in self.holes.iter_mut() {
            if !hole.ripe && hole.since.saturating_add(window) <= now {
                hole.ripe = true;
                ripened |= hole.lacking > 0;
                repairs_lost |= hole.lacking < hole.end - hole.first;
            }
        }
        if !self.config.asks {
            return self.forget(now);
        }
        let lacking = self.lacking();
        if ripened && lacking > 0 {
            self.plan(now, lacking);
        }
        if repairs_lost || self.hush.take_if(|at| *at <= now).is_some() {
            self.hurry(now);
        }
        self.forget(now);
    }

    fn poll_transmit<O: Observer>(&mut self, now: Time, obs: &mut O) -> Option<Feedback> {
        if !self.config.asks {
            return None;
        }
        if let Some(feedback) = self.request(now, obs) {
            self.reported(now);
            return Some(feedback);
        }
        if !(self.news && self.begun && self.report_at <= now) {
            return None;
        }
        self.reported(now);
        Some(self.feedback(now))
    }

    fn poll_event(&mut self) -> Option<T> {
        self.ready.pop_front()
    }

    fn next_timeout(&self) -> Option<Time> {
        let speak = self.speak.map(|speak| speak.at);
        let reports = self.config.asks && self.news && self.begun;
        let report = reports.then_some(self.report_at);
        let window = self.window.get();
        let mut unripe = self.holes.iter().filter(|hole| !hole.ripe);
        let ripe = unripe.next().map(|hole| hole.since.saturating_add(window));
        let keep = self.keep();
        let mut holes = self.holes.iter();
        let expiry = holes.next().map(|hole| hole.since.saturating_add(keep));
        let soon = earliest(self.hush.filter(|_| self.config.asks), ripe);
        earliest(earliest(speak, report), earliest(soon, expiry))
    }
}
