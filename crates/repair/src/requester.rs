use std::collections::VecDeque;

use layercast_core::{
    FlowId, Machine, Observer, Serial, Span, Subject, Time, TraceEvent, earliest,
};

use crate::arrivals::{MAX_GAP, Window};
use crate::calm::Calm;
use crate::counters::Counters;
use crate::message::{
    Arrival, Feedback, Head, MAX_ARRIVALS, MAX_RANGES, Missing, expand, expand_24,
};
use crate::parity::{Carried, Codec, Restore, Restored};
use crate::repairer::QUIET;
use crate::seen::SPAN;
use crate::stats::RequestStats;
use crate::way_back::not_before;

/// Most gaps that are remembered; beyond, the oldest is given up.
pub const MAX_GAPS: usize = 512;
/// Between two reports while datagrams arrive over a lossy link.
const PERIOD: Span = Span::from_ms(15);
/// On a link without loss by whose reports the other end measures its path, at most: a part of the time in which it has to react to a
/// queue.
const PROMPT: Span = Span::from_ms(30);
/// On a calm link: one part in this number of the time that two repairs leave of the budget.
const CALM_PART: u64 = 5;
/// When a new gap is reported, counted from the end of the reorder window.
const REPEATS: [Span; 3] = [Span::ZERO, Span::from_ms(4), Span::from_ms(10)];
/// Between a report and one that answers a marker.
const ANSWER: Span = Span::from_ms(5);
/// Reports closer than this are one.
const MERGED: Span = Span::from_us(1_500);
/// Most reports that are scheduled.
const MAX_SCHEDULED: usize = 8;
/// Counters of repaired gaps that are remembered, to learn from originals that arrive after their repair.
const MAX_REPAIRED: usize = 256;
/// For how long a gap is reported at least, and how long beyond the budget.
const KEEP: (Span, Span) = (Span::from_ms(1_500), Span::from_secs(1));
/// For how long after a gap or a parity contents are kept: the sending end sends parities ahead for less long after a loss.
const KEEP_CONTENTS: Span = QUIET.times(2);

/// What a [`Requester`] takes.
#[derive(Clone, PartialEq, Debug)]
pub enum RequesterInput<T> {
    /// A numbered datagram and what it carries: on a link to a group [`Head::Shared`] or [`Head::Parity`], on any other one
    /// [`Head::Data`], [`Head::Repair`] or [`Head::Parity`]; other headers are strays.
    Datagram(Head, Carried<T>),
    /// A [`Head::Beacon`] on a link to a group, a [`Head::Marker`] on any other one; other headers are strays.
    Marker(Head),
    /// For how long after its usual arrival a datagram is of use downstream.
    Budget(Option<Span>),
    /// What was read now may have come later than now: the host was held up while it read. A time before it came would let the
    /// path look shorter than it is, and what follows overdue.
    ReadLate,
}

/// The receiving end of a link with repair.
///
/// It gives each content once ([`Machine::Event`] is the content) and says in feedback what is missing. A gap is
/// requested after a reorder window, which is learned from datagrams that arrive late, and forgotten slowly.
///
/// State is bounded: [`SPAN`] counters, [`MAX_GAPS`] gaps; while the link loses datagrams, [`MAX_KEPT`](crate::MAX_KEPT) contents
/// of [`MAX_KEPT_OCTETS`](crate::MAX_KEPT_OCTETS) octets, and the parities of [`MAX_OPEN`](crate::MAX_OPEN) blocks.
#[derive(Debug)]
pub struct Requester<T> {
    name: String,
    session: u16,
    counters: Counters,
    restore: Restore<T>,
    /// Until when contents are kept to restore others.
    keep_until: Time,
    /// Counters below the next one that did not arrive, oldest first.
    gaps: VecDeque<Gap>,
    window: Window,
    rtt: Option<Span>,
    budget: Option<Span>,
    /// Content that a repair brought, and since when it was missing.
    repaired: VecDeque<(u64, Time)>,
    arrivals: VecDeque<(u64, Time)>,
    /// Something arrived since the last report.
    news: bool,
    reported: Option<Time>,
    /// From the last report to the next one.
    period: Span,
    /// The way back carries no more than one report in this time.
    every: Span,
    calm: Calm,
    /// The other end measures its path by the reports.
    prompt: bool,
    scheduled: VecDeque<Time>,
    ready: VecDeque<T>,
    stats: RequestStats,
}

/// Consecutive counters that did not arrive.
#[derive(Clone, Copy, Debug)]
struct Gap {
    first: u64,
    end: u64,
    /// When a later counter arrived.
    since: Time,
    requested: bool,
}

impl<T: Clone> Requester<T> {
    /// For the counters of `session`, which the other end chose; `name` is that of the link in traces, and `codec` makes contents
    /// of parities.
    pub fn new(name: &str, session: u16, codec: Codec<T>) -> Requester<T> {
        Requester {
            name: name.into(),
            session,
            counters: Counters::new(0),
            restore: Restore::new(codec),
            keep_until: Time::ZERO,
            gaps: VecDeque::new(),
            window: Window::new(),
            rtt: None,
            budget: None,
            repaired: VecDeque::new(),
            arrivals: VecDeque::new(),
            news: false,
            reported: None,
            period: PERIOD,
            every: Span::ZERO,
            calm: Calm::default(),
            prompt: false,
            scheduled: VecDeque::new(),
            ready: VecDeque::new(),
            stats: RequestStats::default(),
        }
    }

    /// The same, with reports that are frequent on a link without loss, too: the other end measures its path by them.
    pub fn prompt(self) -> Requester<T> {
        Requester {
            prompt: true,
            ..self
        }
    }

    /// Whether the other end measures its path.
    pub fn is_prompt(&self) -> bool {
        self.prompt
    }

    /// What it counted.
    pub fn stats(&self) -> RequestStats {
        RequestStats {
            window_us: self.window.get().as_us(),
            ..self.stats
        }
    }

    /// Counters that are missing now.
    pub fn missing(&self) -> u64 {
        self.gaps.iter().map(|gap| gap.end - gap.first).sum()
    }

    /// Contents that are kept, and blocks of which parities are kept.
    pub fn held(&self) -> (usize, usize) {
        self.restore.held()
    }

    fn on_datagram<O: Observer>(
        &mut self,
        now: Time,
        head: Head,
        carried: Carried<T>,
        obs: &mut O,
    ) {
        let next = self.counters.next;
        let (known, counter) = match (&head, &carried) {
            (
                Head::Data {
                    session, counter, ..
                },
                Carried::Item(_),
            ) => (*session == self.session, expand(*counter, next)),
            (
                Head::Repair {
                    session, counter, ..
                },
                Carried::Item(_),
            ) => (*session == self.session as u8, expand_24(*counter, next)),
            (Head::Parity(parity), Carried::Parity(_)) => {
                let known = parity.session == self.session;
                (known, expand(parity.counter, next))
            }
            _ => (false, None),
        };
        let counter = counter.filter(|_| known);
        let Some(counter) = counter.and_then(|counter| self.place(now, counter)) else {
            self.stats.strays += 1;
            return;
        };
        self.note_sent(now, counter + 1, counter);
        if !self.counters.arrive(counter) {
            self.stats.duplicates += 1;
            return;
        }
        self.stats.received += 1;
        self.news = true;
        self.calm.on_traffic(now);
        self.arrivals.push_front((counter, now));
        self.arrivals.truncate(MAX_ARRIVALS);
        let missed = self.fill(counter);
        if let Some(since) = missed {
            // It was overtaken.
            self.window.learn(now.since(since), self.rtt);
        }
        match (head, carried) {
            (Head::Repair { layer, back, .. }, Carried::Item(item)) => {
                let content = counter.checked_sub(back.into());
                let content = content.filter(|it| self.counters.arrived.holds(*it));
                let Some(content) = content else {
                    // Whether the content was delivered is not known any more.
                    self.stats.duplicates += 1;
                    return;
                };
                if self.counters.delivered.get(content) {
                    self.stats.spurious += 1;
                    return;
                }
                self.stats.repaired[layer] += 1;
                self.repaired(now, content, obs);
                self.on_content(now, content, item, obs);
            }
            (Head::Parity(parity), Carried::Parity(octets)) => {
                self.keep_until = now.saturating_add(KEEP_CONTENTS);
                self.stats.parities[parity.layer] += 1;
                let delivered = &self.counters.delivered;
                match self.restore.take(counter, &parity, octets, delivered) {
                    Some(restored) => self.take_restored(now, restored, obs),
                    None => self.stats.strays += 1,
                }
            }
            (_, Carried::Item(item)) => {
                if self.counters.delivered.get(counter) {
                    self.stats.spurious += 1;
                    let repaired = self.repaired.iter().find(|(of, _)| *of == counter);
                    if let Some((_, since)) = repaired {
                        self.window.learn(now.since(*since), self.rtt);
                    }
                    return;
                }
                self.on_content(now, counter, item, obs);
            }
            _ => {}
        }
    }

    /// Content that has not been delivered.
    fn on_content<O: Observer>(&mut self, now: Time, content: u64, item: T, obs: &mut O) {
        self.deliver(now, content, item);
        if self.restore.is_empty() {
            return;
        }
        let restored = self.restore.with(content, &self.counters.delivered);
        self.take_restored(now, restored, obs);
    }

    fn take_restored<O: Observer>(&mut self, now: Time, restored: Restored<T>, obs: &mut O) {
        self.stats.in_vain(restored.surplus);
        for (of, layer, item) in restored.contents {
            if !self.counters.delivered.get(of) {
                self.stats.repaired[layer] += 1;
                self.repaired(now, of, obs);
                self.deliver(now, of, item);
            }
        }
    }

    /// A repair brings content that was missing.
    fn repaired<O: Observer>(&mut self, now: Time, content: u64, obs: &mut O) {
        if let Some(since) = self.fill(content) {
            self.repaired.push_back((content, since));
            if self.repaired.len() > MAX_REPAIRED {
                self.repaired.pop_front();
            }
        }
        self.trace(now, "repaired", content, obs);
    }

    fn deliver(&mut self, now: Time, content: u64, item: T) {
        self.counters.delivered.set(content);
        if now < self.keep_until {
            self.restore.keep(content, item.clone());
        }
        self.ready.push_back(item);
    }

    fn on_marker(&mut self, now: Time, head: &Head) {
        let Head::Marker {
            session,
            hi,
            every_ms,
            rtt_us,
            asks,
        } = *head
        else {
            self.stats.strays += 1;
            return;
        };
        let hi = expand(hi, self.counters.next).filter(|_| session == self.session);
        match hi.and_then(|hi| self.place(now, hi)) {
            Some(counter) => {
                if rtt_us > 0 {
                    self.rtt = Some(Span::from_us(rtt_us.into()));
                }
                self.every = Span::from_ms(every_ms.into());
                // A marker of what is known is no news.
                self.news |= counter >= self.counters.next;
                if asks {
                    let reported = self.reported.unwrap_or(now);
                    self.schedule(now.max(reported.saturating_add(ANSWER)));
                }
                self.note_sent(now, counter + 1, counter + 1);
            }
            None => self.stats.strays += 1,
        }
    }

    /// The counter, if it is believed.
    fn place(&mut self, now: Time, counter: u64) -> Option<u64> {
        let (counter, again) = self.counters.place(now, counter)?;
        if again {
            self.restore.clear();
            self.gaps.clear();
            self.repaired.clear();
            self.arrivals.clear();
        }
        Some(counter)
    }

    /// All counters below `next` were sent; those that were not known before and are below `missing` did not arrive.
    fn note_sent(&mut self, now: Time, next: u64, missing: u64) {
        let Some(mut first) = self.counters.advance(next) else {
            return;
        };
        self.stats.gaps += missing.saturating_sub(first);
        if missing.saturating_sub(first) > MAX_GAP {
            self.stats.given_up += missing - first;
            self.give_up_below(missing);
            first = missing;
        }
        if first < missing {
            self.calm.on_gap(now);
            self.keep_until = now.saturating_add(KEEP_CONTENTS);
            self.period = PERIOD;
            self.gaps.push_back(Gap {
                first,
                end: missing,
                since: now,
                requested: false,
            });
        }
        self.limit_gaps();
        self.give_up_below(next.saturating_sub(SPAN));
    }

    fn limit_gaps(&mut self) {
        while self.gaps.len() > MAX_GAPS {
            let end = self.gaps.front().map_or(0, |gap| gap.end);
            self.give_up_below(end);
        }
    }

    /// Nothing below `floor` is requested any more.
    fn give_up_below(&mut self, floor: u64) {
        self.counters.floor = self.counters.floor.max(floor);
        while let Some(gap) = self.gaps.front_mut().filter(|gap| gap.first < floor) {
            let end = gap.end.min(floor);
            self.stats.given_up += end - gap.first;
            gap.first = end;
            if gap.first == gap.end {
                self.gaps.pop_front();
            }
        }
    }

    /// Takes a counter out of the gaps; gives since when it was missing.
    fn fill(&mut self, counter: u64) -> Option<Time> {
        let at = self.gaps.partition_point(|gap| gap.end <= counter);
        let gap = *self.gaps.get(at).filter(|gap| gap.first <= counter)?;
        let before = Gap {
            end: counter,
            ..gap
        };
        let after = Gap {
            first: counter + 1,
            ..gap
        };
        match (before.first < before.end, after.first < after.end) {
            (false, false) => drop(self.gaps.remove(at)),
            (true, false) => self.gaps[at] = before,
            (false, true) => self.gaps[at] = after,
            (true, true) => {
                self.gaps[at] = before;
                self.gaps.insert(at + 1, after);
                self.limit_gaps();
            }
        }
        Some(gap.since)
    }

    fn keep(&self) -> Span {
        let with_budget = self.budget.map_or(Span::ZERO, |budget| {
            Span::from_ps(budget.as_ps().saturating_add(KEEP.1.as_ps()))
        });
        KEEP.0.max(with_budget)
    }

    /// Requests the gaps whose reorder window is over.
    fn request<O: Observer>(&mut self, now: Time, obs: &mut O) {
        let window = self.window.get();
        let mut requested = 0;
        let mut first = None;
        for gap in &mut self.gaps {
            if !gap.requested && gap.since.saturating_add(window) <= now {
                gap.requested = true;
                requested += gap.end - gap.first;
                first = first.or(Some(gap.first));
            }
        }
        let Some(first) = first else { return };
        self.stats.requested += requested;
        for wait in REPEATS {
            self.schedule(now.saturating_add(wait));
        }
        self.trace(now, "request", first, obs);
    }

    fn schedule(&mut self, at: Time) {
        let near = |other: &Time| at.since(*other).max(other.since(at)) < MERGED;
        if self.scheduled.len() < MAX_SCHEDULED && !self.scheduled.iter().any(near) {
            let place = self.scheduled.partition_point(|other| *other <= at);
            self.scheduled.insert(place, at);
        }
    }

    /// When the next report is due that says what arrived.
    fn periodic(&self) -> Option<Time> {
        (self.news && self.counters.next > 0).then(|| match self.reported {
            Some(reported) => reported.saturating_add(self.period),
            None => Time::ZERO,
        })
    }

    /// When the next report is due.
    fn due(&self) -> Option<Time> {
        let due = earliest(self.periodic(), self.scheduled.front().copied());
        not_before(due, self.reported, self.every)
    }

    /// Forgets what restores no contents any more.
    fn forget(&mut self, now: Time) {
        if self.restore.is_empty() {
            return;
        }
        self.stats.in_vain(self.restore.forget(self.counters.next));
        if self.keep_until <= now {
            self.restore.clear();
        }
    }

    fn feedback(&self, now: Time) -> Feedback {
        // Too many gaps for one report: it omits those before the newest ones.
        let unlisted = self.gaps.len().saturating_sub(MAX_RANGES);
        let floor = match unlisted.checked_sub(1).and_then(|last| self.gaps.get(last)) {
            Some(gap) => self.counters.floor.max(gap.end),
            None => self.counters.floor,
        };
        let (hi, known) = self.counters.known(floor);
        let back = |counter: u64| (hi - counter) as u16;
        let missing = self.gaps.iter().skip(unlisted).map(|gap| Missing {
            back: back(gap.first),
            len: (gap.end - gap.first) as u16,
            requested: gap.requested,
        });
        let recent = |at: &Time| now.since(*at) < Span::from_secs(16);
        let arrivals = self
            .arrivals
            .iter()
            .filter(|(counter, at)| hi - counter < SPAN && recent(at));
        Feedback {
            session: self.session,
            tx_us: Serial(now.as_us() as u32),
            hi: Serial(hi as u32),
            known,
            window_us: u32::try_from(self.window.get().as_us()).unwrap_or(u32::MAX),
            budget_ms: self
                .budget
                .map(|budget| u16::try_from(budget.as_ms()).unwrap_or(u16::MAX - 1)),
            next_ms: u8::try_from(self.period.as_ms()).unwrap_or(u8::MAX),
            missing: missing.collect(),
            arrivals: arrivals
                .map(|(counter, at)| Arrival {
                    back: back(*counter),
                    ago_us: now.since(*at).as_us() as u32,
                })
                .collect(),
        }
    }

    fn trace<O: Observer>(&self, now: Time, what: &'static str, number: u64, obs: &mut O) {
        let subject = Subject {
            node: &self.name,
            machine: "requester",
        };
        obs.on(now, subject, || TraceEvent::Packet {
            flow: FlowId(0),
            sent: false,
            what,
            number,
            bytes: 0,
        });
    }
}

impl<T: Clone> Machine for Requester<T> {
    type Input = RequesterInput<T>;
    /// Feedback for the other end.
    type Transmit = Feedback;
    /// Content, each once.
    type Event = T;

    fn handle<O: Observer>(&mut self, now: Time, input: RequesterInput<T>, obs: &mut O) {
        match input {
            RequesterInput::Datagram(head, carried) => self.on_datagram(now, head, carried, obs),
            RequesterInput::Marker(head) => self.on_marker(now, &head),
            RequesterInput::Budget(budget) => self.budget = budget,
            RequesterInput::ReadLate => self.arrivals.retain(|(_, at)| *at < now),
        }
        self.on_timeout(now, obs);
    }

    fn on_timeout<O: Observer>(&mut self, now: Time, obs: &mut O) {
        self.window.forget(now);
        self.forget(now);
        if self.gaps.is_empty() {
            return;
        }
        self.request(now, obs);
        let keep = self.keep();
        while let Some(gap) = self.gaps.front() {
            if gap.since.saturating_add(keep) > now {
                break;
            }
            let end = gap.end;
            self.give_up_below(end);
        }
        debug_assert!(self.gaps.len() <= MAX_GAPS);
    }

    fn poll_transmit<O: Observer>(&mut self, now: Time, _: &mut O) -> Option<Feedback> {
        // A calm link may send a report with what else leaves soon: no timer wakes it.
        let early = match self.period > PERIOD {
            true => Span::from_ps(self.period.as_ps() / 4),
            false => Span::ZERO,
        };
        let free = not_before(Some(now), self.reported, self.every);
        if free.is_some_and(|at| at > now) {
            return None;
        }
        let soon = now.saturating_add(early);
        let periodic = self.periodic().is_some_and(|at| at <= soon);
        let mut scheduled = false;
        while self.scheduled.pop_front_if(|at| *at <= now).is_some() {
            scheduled = true;
        }
        if !periodic && !scheduled {
            return None;
        }
        self.news = false;
        self.reported = Some(now);
        let path = (self.budget, self.rtt);
        let period = match self.prompt {
            true => self.calm.wait(now, PERIOD, CALM_PART, path).min(PROMPT),
            false => self.calm.wait(now, PERIOD, CALM_PART, path),
        };
        self.period = period.max(self.every);
        self.stats.feedback += 1;
        Some(self.feedback(now))
    }

    fn poll_event(&mut self) -> Option<T> {
        self.ready.pop_front()
    }

    fn next_timeout(&self) -> Option<Time> {
        let unripe = self.gaps.iter().find(|gap| !gap.requested);
        let request = unripe.map(|gap| gap.since.saturating_add(self.window.get()));
        let oldest = self.gaps.front();
        let expiry = oldest.map(|gap| gap.since.saturating_add(self.keep()));
        earliest(self.due(), earliest(request, expiry))
    }
}
