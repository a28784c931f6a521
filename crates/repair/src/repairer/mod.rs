mod history;
mod pacer;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use layercast_core::{
    Cause, FlowId, Layer, Machine, Observer, Rate, Serial, Span, Subject, Time, TraceEvent,
    earliest,
};

use crate::calm::{Calm, ROUND};
use crate::estimate::Estimates;
use crate::message::{Feedback, Head, Missing, expand};
use crate::nominal::Nominal;
use crate::stats::RepairStats;
use history::{Content, History, What};
pub use history::{MAX_HISTORY, MAX_HISTORY_OCTETS};
pub use pacer::MAX_QUEUED;
use pacer::{Pacer, Waiting};

/// The budget as long as the other end has not given one.
const FIRST_BUDGET: Span = Span::from_ms(500);
/// For how long content is kept at least and at most.
const KEEP: (Span, Span) = (Span::from_ms(500), Span::from_secs(3));
/// Longest time over which copies of one repair are spread.
const SPREAD: Span = Span::from_ms(10);
/// A queue on the path at which copies would make things worse.
const QUEUE: Span = Span::from_ms(20);
/// Share of frames that may be lost, for the number of copies of a repair that has no second chance.
const RESIDUAL: f64 = 5e-5;
const MAX_COPIES: u32 = 4;
/// Most copies that are scheduled for later.
const MAX_SCHEDULED: usize = 4_096;
/// When the first marker is sent on a lossy link, after the last datagram of a frame or a repair.
const MARKER: Span = Span::from_ms(3);
/// On a calm link: one part in this number of the time that two repairs leave of the budget.
const CALM_PART: u64 = 4;
/// Between the first marker and the second.
const MARKER_AGAIN: Span = Span::from_ms(8);
/// Markers after one datagram.
const MARKERS: u64 = 2;
/// How long before the deadline a datagram is repeated of which no feedback speaks.
const UNHEARD: Span = Span::from_ms(4);
/// Feedback is overdue when none came for this many of its periods beyond the round trip.
const OVERDUE: u64 = 3;
/// The period of feedback before the first one, and at least.
const FIRST_PERIOD: Span = Span::from_ms(15);
/// After this silence any feedback is newer: its 32-bit clock wraps, and says nothing about long pauses.
const SILENCE: Span = Span::from_secs(60);
/// Feedback that is used: one in this time on average, and this many in a row.
const FEEDBACK_EVERY: Span = Span::from_ms(1);
const FEEDBACK_BURST: u64 = 16;

/// How a [`Repairer`] works.
#[derive(Clone, PartialEq, Debug)]
pub struct RepairConfig {
    /// Name of the link in traces.
    pub name: String,
    /// Session of the counters: another one for each connection, so that datagrams of a former one are recognised.
    pub session: u16,
    /// Rate of the port; everything that leaves is charged to it. `None`: not limited, and then repairs may take
    /// as many octets as the media.
    pub rate: Option<Rate>,
}

/// What the sending end needs to know of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unit {
    /// Its flow.
    pub flow: FlowId,
    /// Its layer.
    pub layer: Layer,
    /// Time stamp of its frame in microseconds of the clock of the source, modulo 2^32; `None`: it has none.
    pub stamp_us: Option<u32>,
    /// Octets that the rate is charged with.
    pub octets: u32,
    /// It is the last one of its frame.
    pub last: bool,
    /// It is repaired when it is lost.
    pub repair: bool,
    /// For how long after its departure it is of use; `None`: the budget that the other end reports.
    pub lasts: Option<Span>,
}

/// What a [`Repairer`] takes.
#[derive(Clone, PartialEq, Debug)]
pub enum RepairerInput<T> {
    /// A datagram that leaves the switch at `at`, not later than now.
    Send {
        /// When its first bit may leave.
        at: Time,
        /// What it is.
        unit: Unit,
        /// Its content.
        item: T,
    },
    /// Feedback of the other end.
    Feedback(Feedback),
    /// The port has another rate.
    Rate(Option<Rate>),
    /// What was sent since this time had left by now: the host was held up in between.
    HeldUp(Time),
}

/// A datagram that a [`Repairer`] sends.
#[derive(Clone, PartialEq, Debug)]
pub struct Outgoing<T> {
    /// Its header.
    pub head: Head,
    /// Its content; `None` in a marker.
    pub item: Option<T>,
    /// When its last bit leaves.
    pub ready: Time,
}

/// The sending end of a link with repair.
///
/// It numbers datagrams, paces them at the granted rate strictly by layer, and repairs what the feedback reports
/// lost, as long as the repair arrives before the deadline of its frame. The fate of each counter is handled once.
///
/// State is bounded: [`MAX_HISTORY`] counters and [`MAX_HISTORY_OCTETS`] octets of content sent, [`MAX_QUEUED`]
/// datagrams in the queues of the pacer.
#[derive(Debug)]
pub struct Repairer<T> {
    config: RepairConfig,
    history: History<T>,
    pacer: Pacer<T>,
    /// Copies that leave later, by first counter of their content.
    later: BinaryHeap<Reverse<(Time, u64)>>,
    nominal: Nominal,
    line: Estimates,
    budget: Span,
    window: Span,
    /// When the newest feedback was sent, and when it came.
    heard: Option<(Serial, Time)>,
    /// When feedback is next used without drawing on the burst.
    feedback_due: Time,
    /// Zero of one-way delays.
    zero: Option<Serial>,
    /// The last datagram that left, if it asks for markers.
    tail: Option<Tail>,
    calm: Calm,
    /// Between two reports of the other end.
    period: Span,
    /// Originals below were looked at for want of feedback.
    unheard: u64,
    stats: RepairStats,
}

/// The end of a burst of datagrams.
#[derive(Clone, Copy, Debug)]
struct Tail {
    /// When the next marker is due.
    marker: Time,
    /// Markers that followed.
    sent: u64,
}

impl<T: Clone> Repairer<T> {
    /// A sending end whose first counter is 0.
    pub fn new(config: RepairConfig) -> Repairer<T> {
        Repairer {
            pacer: Pacer::new(config.rate),
            config,
            history: History::new(),
            later: BinaryHeap::new(),
            nominal: Nominal::default(),
            line: Estimates::new(),
            budget: FIRST_BUDGET,
            window: Span::ZERO,
            heard: None,
            feedback_due: Time::ZERO,
            zero: None,
            tail: None,
            calm: Calm::default(),
            period: FIRST_PERIOD,
            unheard: 0,
            stats: RepairStats::default(),
        }
    }

    /// What it counted.
    pub fn stats(&self) -> RepairStats {
        RepairStats {
            unresolved: self.history.unresolved,
            rtt_us: self.line.rtt().map_or(0, Span::as_us),
            ..self.stats
        }
    }

    /// For how long after its usual arrival a datagram is of use at the other end; `None` before feedback.
    pub fn budget(&self) -> Option<Span> {
        self.heard.map(|_| self.budget)
    }

    /// Datagrams that are kept for repair, and those that wait for the line.
    pub fn held(&self) -> (usize, usize) {
        (self.history.len(), self.pacer.len())
    }

    /// Whether nothing waits for the line, and nothing that was sent may still be repaired: its fate is known, or its
    /// deadline is over.
    pub fn is_idle(&self, now: Time) -> bool {
        let waits = self.pacer.len() > 0 || !self.later.is_empty();
        let open = self.history.latest_unresolved();
        !waits && open.is_none_or(|nominal| self.look_at(nominal) <= now)
    }

    fn on_feedback<O: Observer>(&mut self, now: Time, feedback: &Feedback, obs: &mut O) {
        let next = self.history.next();
        let hi = expand(feedback.hi, next)
            .filter(|hi| *hi < next && feedback.session == self.config.session);
        let newer = self
            .heard
            .is_none_or(|(tx, heard)| feedback.tx_us.is_after(tx) || now.since(heard) > SILENCE);
        let (Some(hi), true, true) = (hi, newer, self.may_hear(now)) else {
            self.stats.feedback_ignored += 1;
            return;
        };
        self.stats.feedback += 1;
        self.heard = Some((feedback.tx_us, now));
        if let Some(ms) = feedback.budget_ms {
            self.budget = Span::from_ms(ms.into());
        }
        self.window = Span::from_us(feedback.window_us.into()).min(ROUND.times(4));
        self.period = Span::from_ms(feedback.next_ms.into()).max(FIRST_PERIOD);
        if !feedback.missing.is_empty() {
            self.calm.on_gap(now);
        }
        self.measure(now, hi, feedback);
        let floor = (hi + 1).saturating_sub(feedback.known.into());
        let mut ranges = feedback.missing.iter().peekable();
        for counter in self.history.unhandled().max(floor)..=hi {
            // Distances that reach below counter 0 are compared without subtraction.
            let from = |it: &Missing| counter + u64::from(it.back);
            while ranges
                .next_if(|it| hi + u64::from(it.len) <= from(it))
                .is_some()
            {}
            let range = ranges.peek().filter(|it| hi <= from(it));
            match range {
                Some(range) if !range.requested => {}
                range => self.settle(now, counter, range.is_some(), obs),
            }
        }
        // What should have arrived before the feedback left; usually a marker has shown it before.
        if let Some((zero, usual)) = self.zero.zip(self.line.usual_delay()) {
            let patience = self
                .line
                .margin()
                .as_ps()
                .saturating_add(self.window.as_ps());
            let overdue = |sent: Time| {
                let due = (sent.as_us() as u32)
                    .wrapping_add(zero.0)
                    .wrapping_add(usual as u32);
                let passed = feedback.tx_us.diff(Serial(due)).max(0);
                Span::from_us(passed as u64).as_ps() > patience
            };
            for counter in (hi + 1).max(self.history.unhandled())..next {
                // What is sent in the turn in which the feedback is read may leave after the feedback did, however long that is.
                let sent = self.history.sent_at(counter);
                if !sent.is_none_or(|sent| sent < now && overdue(sent)) {
                    break;
                }
                obs.on(now, self.subject(), || TraceEvent::Packet {
                    flow: FlowId(0),
                    sent: false,
                    what: "overdue",
                    number: counter,
                    bytes: 0,
                });
                self.settle(now, counter, true, obs);
            }
        }
        self.history.skip_handled();
    }

    /// Whether feedback is used at `now`: a flood of it costs no more than its look-up.
    fn may_hear(&mut self, now: Time) -> bool {
        let burst = FEEDBACK_EVERY.times(FEEDBACK_BURST);
        let due = self.feedback_due.max(now.saturating_sub(burst));
        let may = due <= now;
        if may {
            self.feedback_due = due.saturating_add(FEEDBACK_EVERY);
        }
        may
    }

    /// Learns round trip and delay from arrival times.
    fn measure(&mut self, now: Time, hi: u64, feedback: &Feedback) {
        let mut least = None;
        for arrival in &feedback.arrivals {
            let counter = hi.checked_sub(arrival.back.into());
            let Some(sent) = counter.and_then(|counter| self.history.sent_exactly_at(counter))
            else {
                continue;
            };
            if least.is_none() {
                let ago = Span::from_us(arrival.ago_us.into());
                self.line.sample(now.since(sent).saturating_sub(ago));
            }
            let arrived = Serial(feedback.tx_us.0.wrapping_sub(arrival.ago_us));
            let delay = Serial(arrived.0.wrapping_sub(sent.as_us() as u32));
            let zero = *self.zero.get_or_insert(delay);
            let delay = i64::from(delay.diff(zero));
            least = Some(least.map_or(delay, |least: i64| least.min(delay)));
        }
        if let Some(least) = least {
            self.line.delay(now, least);
        }
    }

    /// The fate of a counter is known.
    fn settle<O: Observer>(&mut self, now: Time, counter: u64, lost: bool, obs: &mut O) {
        let Some(fate) = self.history.handle(counter) else {
            return;
        };
        self.line.outcome(lost, fate.is_copy);
        if lost {
            self.stats.layers[fate.layer].lost += 1;
            self.calm.on_gap(now);
        }
        if !fate.repair {
            return;
        }
        let Some(content) = self.history.content(fate.of) else {
            self.stats.forgotten += u64::from(lost);
            return;
        };
        content.in_flight = content.in_flight.saturating_sub(1);
        content.delivered |= !lost;
        if content.delivered {
            self.history.release(fate.of);
        } else if lost && content.in_flight == 0 {
            self.repair(now, fate.of, obs);
        }
    }

    /// Sends lost content again, once or more often, if that is of use.
    fn repair<O: Observer>(&mut self, now: Time, of: u64, obs: &mut O) {
        let Some(content) = self.history.content(of) else {
            return;
        };
        let (unit, nominal) = (content.unit, content.nominal);
        let deadline = self.deadline(&unit, nominal);
        let leaves = self.pacer.start(now, unit.layer);
        if leaves > deadline {
            self.stats.layers[unit.layer].too_late += 1;
            self.lost(now, &unit, Cause::Late, obs);
            return;
        }
        let rtt = self.line.rtt().unwrap_or(ROUND.times(4));
        let again = [rtt, self.window, ROUND]
            .iter()
            .fold(leaves, |at, span| at.saturating_add(*span));
        let copies = match again > deadline && self.line.queue() < QUEUE {
            true => self.line.copies(MAX_COPIES, RESIDUAL),
            false => 1,
        };
        let slack = deadline.since(leaves).min(SPREAD);
        for copy in 0..copies {
            let after = slack.mul_div(copy.into(), copies.saturating_sub(1).max(1).into());
            if !self.pacer.spend(unit.octets) {
                self.stats.layers[unit.layer].over_grant += 1;
                self.lost(now, &unit, Cause::ShaperFull, obs);
                return;
            }
            if let Some(content) = self.history.content(of) {
                content.in_flight += 1;
            }
            if copy == 0 {
                self.queue_copy(now, now, of, unit, obs);
            } else if self.later.len() < MAX_SCHEDULED {
                self.later.push(Reverse((now.saturating_add(after), of)));
            } else {
                self.drop_copy(now, of, &unit, obs);
            }
        }
    }

    fn queue_copy<O: Observer>(&mut self, now: Time, at: Time, of: u64, unit: Unit, obs: &mut O) {
        let waiting = Waiting::Copy { at, of, unit };
        if let Some(dropped) = self.pacer.push(unit.layer, waiting) {
            self.unsent(now, dropped, Cause::QueueFull, obs);
        }
    }

    /// A datagram was discarded in the queue.
    fn unsent<O: Observer>(&mut self, now: Time, dropped: Waiting<T>, cause: Cause, obs: &mut O) {
        match dropped {
            Waiting::Original { unit, .. } => {
                self.stats.layers[unit.layer].unsent += 1;
                self.lost(now, &unit, cause, obs);
            }
            Waiting::Copy { of, unit, .. } => {
                self.drop_copy(now, of, &unit, obs);
            }
        }
    }

    fn drop_copy<O: Observer>(&mut self, now: Time, of: u64, unit: &Unit, obs: &mut O) {
        self.stats.layers[unit.layer].unsent += 1;
        if let Some(content) = self.history.content(of) {
            content.in_flight = content.in_flight.saturating_sub(1);
            if content.in_flight == 0 && !content.delivered {
                self.lost(now, unit, Cause::Late, obs);
            }
        }
    }

    fn lost<O: Observer>(&self, now: Time, unit: &Unit, cause: Cause, obs: &mut O) {
        obs.on(now, self.subject(), || TraceEvent::Lost {
            flow: unit.flow,
            layer: Some(unit.layer),
            count: 1,
            cause,
        });
    }

    fn subject(&self) -> Subject<'_> {
        Subject {
            node: &self.config.name,
            machine: "repairer",
        }
    }

    fn keep(&self) -> Span {
        let wanted = Span::from_ps(self.budget.as_ps().saturating_add(KEEP.0.as_ps()));
        wanted.min(KEEP.1)
    }

    /// Repeats what no feedback speaks of, shortly before its deadline, if feedback is overdue.
    fn repeat_unheard<O: Observer>(&mut self, now: Time, obs: &mut O) {
        while let Some(at) = self.unheard_at().filter(|at| *at <= now) {
            let of = self.unheard;
            self.unheard += 1;
            let rtt = self.line.rtt().unwrap_or_default();
            let quiet = Span::from_ps(rtt.as_ps() + self.period.times(OVERDUE).as_ps());
            let overdue = self
                .heard
                .is_some_and(|(_, heard)| now.since(heard) > quiet);
            let Some(content) = self
                .history
                .content(of)
                .filter(|it| overdue && !it.delivered)
            else {
                continue;
            };
            // Late timers repair nothing.
            if content.in_flight == 1 && now.since(at) < UNHEARD {
                self.repair(now, of, obs);
            }
        }
    }

    /// When the next datagram without feedback is looked at.
    fn unheard_at(&self) -> Option<Time> {
        let (_, nominal) = self.history.unresolved_from(self.unheard)?;
        Some(self.look_at(nominal))
    }

    /// When content that left at `nominal` is looked at for the last time.
    fn look_at(&self, nominal: Time) -> Time {
        nominal.saturating_add(self.budget).saturating_sub(UNHEARD)
    }

    /// When a datagram with this nominal departure is of no use any more.
    fn deadline(&self, unit: &Unit, nominal: Time) -> Time {
        nominal.saturating_add(unit.lasts.unwrap_or(self.budget))
    }

    fn marker_at(&self) -> Option<Time> {
        let tail = self.tail.filter(|tail| tail.sent < MARKERS)?;
        (self.history.unhandled() < self.history.next()).then_some(tail.marker)
    }

    fn marker(&mut self, now: Time) -> Option<Outgoing<T>> {
        self.marker_at().filter(|at| *at <= now)?;
        if let Some(tail) = &mut self.tail {
            tail.sent += 1;
            tail.marker = tail.marker.saturating_add(MARKER_AGAIN);
        }
        self.stats.markers += 1;
        let rtt_us = self.line.rtt().map_or(0, Span::as_us);
        let head = Head::Marker {
            session: self.config.session,
            hi: Serial((self.history.next() - 1) as u32),
            rtt_us: u32::try_from(rtt_us).unwrap_or(u32::MAX),
        };
        Some(Outgoing {
            head,
            item: None,
            ready: now,
        })
    }

    /// Numbers the datagram that leaves at `now`: after a stall later than when its turn was.
    fn depart(&mut self, now: Time, ready: Time, waiting: Waiting<T>) -> Option<Outgoing<T>> {
        let counter = self.history.next();
        let session = self.config.session;
        let wire = Serial(counter as u32);
        // Delays count from the last bit: on a slow line the first one is several milliseconds earlier in large datagrams.
        let sent = now.max(ready);
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
                    true => What::Original(Content {
                        unit,
                        item: Some(item.clone()),
                        nominal,
                        in_flight: 1,
                        delivered: false,
                    }),
                    false => What::Once(layer),
                };
                self.history.push(sent, what);
                let head = Head::Data {
                    session,
                    counter: wire,
                    layer,
                };
                (head, item, unit.last)
            }
            Waiting::Copy { of, unit, .. } => {
                let item = self.history.content(of)?.item.clone()?;
                let counters = &mut self.stats.layers[unit.layer];
                counters.repairs += 1;
                counters.repair_octets += u64::from(unit.octets);
                self.history.push(sent, What::Copy(of, unit.layer));
                let head = Head::Repair {
                    session: session as u8,
                    counter: counter as u32 & 0xFF_FFFF,
                    layer: unit.layer,
                    // The history holds fewer counters than 16 bits count.
                    back: u16::try_from(counter - of).ok()?,
                };
                (head, item, true)
            }
        };
        self.calm.on_traffic(now);
        self.tail = tail.then(|| {
            let path = (Some(self.budget), self.line.rtt());
            let wait = self.calm.wait(now, MARKER, CALM_PART, path);
            Tail {
                marker: ready.saturating_add(wait),
                sent: 0,
            }
        });
        Some(Outgoing {
            head,
            item: Some(item),
            ready,
        })
    }

    /// Whether a datagram that leaves at `start` is too late to be useful. The base layer is promised: only its repairs are
    /// judged.
    fn is_vain(&mut self, start: Time, waiting: &Waiting<T>) -> bool {
        let nominal = match waiting {
            Waiting::Original { unit, at, .. } if unit.layer == Layer::Base || *at >= start => {
                return false;
            }
            Waiting::Original { nominal, .. } => *nominal,
            Waiting::Copy { of, .. } => match self.history.content(*of) {
                Some(content) if !content.delivered => content.nominal,
                _ => return true,
            },
        };
        start > self.deadline(waiting.unit(), nominal)
    }
}

impl<T: Clone> Machine for Repairer<T> {
    type Input = RepairerInput<T>;
    type Transmit = Outgoing<T>;
    type Event = std::convert::Infallible;

    fn handle<O: Observer>(&mut self, now: Time, input: RepairerInput<T>, obs: &mut O) {
        match input {
            RepairerInput::Send { at, unit, item } => {
                let at = at.min(now);
                let nominal = match unit.stamp_us {
                    Some(stamp) => self.nominal.departure(at, unit.flow, stamp),
                    None => at,
                };
                self.pacer.earn(unit.octets);
                let waiting = Waiting::Original {
                    at,
                    unit,
                    item,
                    nominal,
                };
                if let Some(dropped) = self.pacer.push(unit.layer, waiting) {
                    self.unsent(now, dropped, Cause::QueueFull, obs);
                }
            }
            RepairerInput::Feedback(feedback) => self.on_feedback(now, &feedback, obs),
            RepairerInput::Rate(rate) => self.pacer.set_rate(rate),
            RepairerInput::HeldUp(since) => self.history.left_by(since, now),
        }
        self.on_timeout(now, obs);
    }

    fn on_timeout<O: Observer>(&mut self, now: Time, obs: &mut O) {
        while let Some(Reverse((at, of))) = self.later.peek().copied().filter(|it| it.0.0 <= now) {
            self.later.pop();
            if let Some(unit) = self.history.content(of).map(|content| content.unit) {
                self.queue_copy(now, at, of, unit, obs);
            }
        }
        self.repeat_unheard(now, obs);
        self.history.forget(now, self.keep());
    }

    fn poll_transmit<O: Observer>(&mut self, now: Time, obs: &mut O) -> Option<Outgoing<T>> {
        while let Some((start, waiting)) = self.pacer.next(now) {
            if self.is_vain(start, &waiting) {
                let known = match &waiting {
                    Waiting::Copy { of, .. } => {
                        self.history.content(*of).is_some_and(|it| it.delivered)
                    }
                    Waiting::Original { .. } => false,
                };
                if !known {
                    self.unsent(now, waiting, Cause::Late, obs);
                }
                continue;
            }
            let ready = self.pacer.occupy(start, waiting.unit().octets);
            let unit = *waiting.unit();
            let Some(outgoing) = self.depart(now, ready, waiting) else {
                continue;
            };
            // One that an earlier hop repaired may leave after the time at which it would be looked at.
            self.repeat_unheard(now, obs);
            if let Head::Repair { .. } = outgoing.head {
                let counter = self.history.next() - 1;
                obs.on(now, self.subject(), || TraceEvent::Packet {
                    flow: unit.flow,
                    sent: true,
                    what: "repair",
                    number: counter,
                    bytes: unit.octets,
                });
            }
            return Some(outgoing);
        }
        self.marker(now)
    }

    fn poll_event(&mut self) -> Option<std::convert::Infallible> {
        None
    }

    fn next_timeout(&self) -> Option<Time> {
        let later = self.later.peek().map(|it| it.0.0);
        let queued = earliest(self.pacer.next_start(), later);
        earliest(queued, earliest(self.marker_at(), self.unheard_at()))
    }
}
