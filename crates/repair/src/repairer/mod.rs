pub(crate) mod history;
pub(crate) mod pacer;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use layercast_core::{
    Cause, FlowId, Layer, Machine, Observer, Rate, Serial, Span, Subject, Time, TraceEvent,
    earliest,
};

use crate::calm::{Calm, ROUND};
use crate::hearing::Hearing;
use crate::message::{Feedback, Head, Missing};
use crate::nominal::Nominal;
use crate::stats::RepairStats;
use history::{Content, History, What};
pub use history::{MAX_HISTORY, MAX_HISTORY_OCTETS};
pub use pacer::MAX_QUEUED;
use pacer::{Pacer, Waiting};

/// For how long content is kept at least and at most.
pub(crate) const KEEP: (Span, Span) = (Span::from_ms(500), Span::from_secs(3));
/// Longest time over which copies of one repair are spread.
const SPREAD: Span = Span::from_ms(10);
/// A queue on the path at which copies would make things worse.
const QUEUE: Span = Span::from_ms(20);
/// Share of frames that may be lost, for the number of copies of a repair that has no second chance.
pub(crate) const RESIDUAL: f64 = 5e-5;
const MAX_COPIES: u32 = 4;
/// Most copies that are scheduled for later.
const MAX_SCHEDULED: usize = 4_096;
/// When the first marker is sent on a lossy link, after the last datagram of a frame or a repair.
pub(crate) const MARKER: Span = Span::from_ms(3);
/// On a calm link: one part in this number of the time that two repairs leave of the budget.
pub(crate) const CALM_PART: u64 = 4;
/// Between the first marker and the second.
pub(crate) const MARKER_AGAIN: Span = Span::from_ms(8);
/// Markers after one datagram.
pub(crate) const MARKERS: u64 = 2;
/// How long before the deadline a datagram is repeated of which no feedback speaks.
const UNHEARD: Span = Span::from_ms(4);
/// Feedback is overdue when none came for this many of its periods beyond the round trip.
const OVERDUE: u64 = 3;

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
    /// The other end.
    there: Hearing,
    /// The last datagram that left, if it asks for markers.
    tail: Option<Tail>,
    calm: Calm,
    /// Originals below were looked at for want of feedback.
    unheard: u64,
    stats: RepairStats,
}

/// The end of a burst of datagrams.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tail {
    /// When the next marker is due.
    pub marker: Time,
    /// Markers that followed.
    pub sent: u64,
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
            there: Hearing::new(),
            tail: None,
            calm: Calm::default(),
            unheard: 0,
            stats: RepairStats::default(),
        }
    }

    /// What it counted.
    pub fn stats(&self) -> RepairStats {
        RepairStats {
            unresolved: self.history.unresolved,
            rtt_us: self.there.line.rtt().map_or(0, Span::as_us),
            ..self.stats
        }
    }

    /// For how long after its usual arrival a datagram is of use at the other end; `None` before feedback.
    pub fn budget(&self) -> Option<Span> {
        self.there.heard().map(|_| self.there.budget)
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
        let Some(hi) = self.there.hear(now, feedback, (self.config.session, next)) else {
            self.stats.feedback_ignored += 1;
            return;
        };
        self.stats.feedback += 1;
        if !feedback.missing.is_empty() {
            self.calm.on_gap(now);
        }
        let history = &self.history;
        let sent_at = |counter| history.sent_exactly_at(counter);
        self.there.measure(now, hi, feedback, sent_at);
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
        for counter in (hi + 1).max(self.history.unhandled())..next {
            let sent = self.history.sent_at(counter);
            let overdue = |sent| self.there.is_overdue(now, sent, feedback);
            if !sent.is_none_or(overdue) {
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
        self.history.skip_handled();
    }

    /// The fate of a counter is known.
    fn settle<O: Observer>(&mut self, now: Time, counter: u64, lost: bool, obs: &mut O) {
        let Some(fate) = self.history.handle(counter) else {
            return;
        };
        self.there.line.outcome(lost, fate.is_copy);
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
        let rtt = self.there.line.rtt().unwrap_or(ROUND.times(4));
        let again = [rtt, self.there.window, ROUND]
            .iter()
            .fold(leaves, |at, span| at.saturating_add(*span));
        let copies = match again > deadline && self.there.line.queue() < QUEUE {
            true => self.there.line.copies(MAX_COPIES, RESIDUAL),
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
        lost(now, self.subject(), unit, cause, obs);
    }

    fn subject(&self) -> Subject<'_> {
        subject(&self.config.name)
    }

    fn keep(&self) -> Span {
        let wanted = Span::from_ps(self.there.budget.as_ps().saturating_add(KEEP.0.as_ps()));
        wanted.min(KEEP.1)
    }

    /// Repeats what no feedback speaks of, shortly before its deadline, if feedback is overdue.
    fn repeat_unheard<O: Observer>(&mut self, now: Time, obs: &mut O) {
        while let Some(at) = self.unheard_at().filter(|at| *at <= now) {
            let of = self.unheard;
            self.unheard += 1;
            let rtt = self.there.line.rtt().unwrap_or_default();
            let quiet = Span::from_ps(rtt.as_ps() + self.there.period.times(OVERDUE).as_ps());
            let overdue = self
                .there
                .heard()
                .is_some_and(|heard| now.since(heard) > quiet);
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
        nominal
            .saturating_add(self.there.budget)
            .saturating_sub(UNHEARD)
    }

    /// When a datagram with this nominal departure is of no use any more.
    fn deadline(&self, unit: &Unit, nominal: Time) -> Time {
        nominal.saturating_add(unit.lasts.unwrap_or(self.there.budget))
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
        let rtt_us = self.there.line.rtt().map_or(0, Span::as_us);
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
                        in_flight: 1,
                        ..Content::new(unit, item.clone(), nominal)
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
            let path = (Some(self.there.budget), self.there.line.rtt());
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

/// The subject of the traces of a sending end called `name`.
pub(crate) fn subject(name: &str) -> Subject<'_> {
    Subject {
        node: name,
        machine: "repairer",
    }
}

/// Traces that a unit is lost.
pub(crate) fn lost<O: Observer>(
    now: Time,
    subject: Subject<'_>,
    unit: &Unit,
    cause: Cause,
    obs: &mut O,
) {
    obs.on(now, subject, || TraceEvent::Lost {
        flow: unit.flow,
        layer: Some(unit.layer),
        count: 1,
        cause,
    });
}

impl<T: Clone> Machine for Repairer<T> {
    type Input = RepairerInput<T>;
    type Transmit = Outgoing<T>;
    type Event = std::convert::Infallible;

    fn handle<O: Observer>(&mut self, now: Time, input: RepairerInput<T>, obs: &mut O) {
        match input {
            RepairerInput::Send { at, unit, item } => {
                let (pacer, nominal) = (&mut self.pacer, &mut self.nominal);
                if let Some(dropped) = pacer.push_media(nominal, at.min(now), unit, item) {
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
