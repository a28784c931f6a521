mod ahead;
pub(crate) mod history;
mod lengths;
mod losses;
pub(crate) mod pacer;
mod repairs;

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use layercast_core::{
    Cause, FlowId, Layer, Machine, Observer, Rate, Serial, Span, Subject, Time, TraceEvent,
    earliest,
};

use crate::calm::Calm;
use crate::clock::HopClock;
use crate::hearing::Hearing;
use crate::message::{Feedback, Head, Missing};
use crate::nominal::Nominal;
use crate::parity::{Block, Blocks, Carried, Codec};
use crate::path::{
    Beside, Needs, PathEstimate, PathEstimator, PathSeen, QUEUE_GROWTH, Report, TRAIN,
};
use crate::stats::RepairStats;
use crate::way_back::WayBack;
use ahead::Ahead;
use history::{Content, Departure, History, Of, What};
pub use history::{MAX_HISTORY, MAX_HISTORY_OCTETS};
use lengths::Lengths;
use losses::Losses;
pub(crate) use losses::QUIET;
pub use pacer::MAX_QUEUED;
use pacer::{Pacer, Waiting};

/// For how long content is kept at least and at most.
pub(crate) const KEEP: (Span, Span) = (Span::from_ms(500), Span::from_secs(3));
/// Time over which the copies of one repair are spread, if there is as much; over twice a burst if that is longer.
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
/// Between two markers that ask for overdue feedback.
const ASK: Span = Span::from_ms(5);
/// The longest pause between two of them, to a peer that may be gone.
const ASK_SELDOM: Span = Span::from_secs(1);

/// What a [`Repairer`] does about losses.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Means {
    /// What is requested is sent again, as copies or parities. What a request would come too late for gets parities ahead.
    #[default]
    Auto,
    /// What is requested is sent again.
    Requests,
    /// Parities are sent ahead; nothing is sent again.
    Parities,
}

/// How a [`Repairer`] works.
#[derive(Clone, Debug)]
pub struct RepairConfig<T> {
    /// Name of the link in traces.
    pub name: String,
    /// Session of the counters: another one for each connection, so that datagrams of a former one are recognised.
    pub session: u16,
    /// Rate of the port; everything that leaves is charged to it. `None`: not limited, and then repairs may take
    /// as many octets as the media.
    pub rate: Option<Rate>,
    /// What the path carries is not known: the rate is that of the beginning and follows from the feedback, and each news of it is
    /// an event.
    pub measures: bool,
    /// What it does about losses.
    pub means: Means,
    /// How parities are made of contents.
    pub codec: Codec<T>,
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
    /// What was found of other ports of the node that share a line with this one ([`Trunks`](crate::Trunks)).
    Beside(Option<Beside>),
    /// What the flows of the port need.
    Needs(Needs),
    /// What was sent since this time had left by now: the host was held up in between.
    HeldUp(Time),
    /// The other end takes the flow no more: no loss of what was sent of it is repaired.
    Unwanted(FlowId),
}

/// A datagram that a [`Repairer`] sends.
#[derive(Clone, PartialEq, Debug)]
pub struct Outgoing<T> {
    /// Its header.
    pub head: Head,
    /// Its content; `None` in a marker.
    pub item: Option<T>,
    /// In how many parts of about the same length it leaves: the path carries no longer ones ([`split`](crate::split)).
    pub parts: u8,
    /// When its last bit leaves.
    pub ready: Time,
}

/// The sending end of a link with repair.
///
/// It numbers datagrams, paces them at the granted rate strictly by layer, and repairs what the feedback reports
/// lost, as long as the repair arrives before the deadline of its frame. The fate of each counter is handled once. While the path
/// carries datagrams up to a length only, longer ones leave in parts.
///
/// State is bounded: [`MAX_HISTORY`] counters and [`MAX_HISTORY_OCTETS`] octets of content sent, [`MAX_QUEUED`]
/// datagrams in the queues of the pacer.
#[derive(Debug)]
pub struct Repairer<T> {
    config: RepairConfig<T>,
    history: History<T>,
    pacer: Pacer<T>,
    blocks: Blocks<Fates>,
    ahead: Ahead,
    losses: Losses,
    lengths: Lengths,
    /// Repairs that leave later.
    later: BinaryHeap<Reverse<(Time, Repair)>>,
    nominal: Nominal,
    /// The other end.
    there: Hearing,
    /// What the path carries, where it is measured.
    path: Option<Box<PathEstimator>>,
    /// The last datagram that left, if it asks for markers.
    tail: Option<Tail>,
    /// When a marker last asked for feedback.
    asked: Time,
    /// Markers that asked since the last feedback.
    unanswered: u64,
    /// The way of the reports.
    back: WayBack,
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

/// What became of the parities of a block.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Fates {
    arrived: u32,
    lost: u32,
    /// Parities that were sent before a loss was known.
    ahead: u32,
    /// It gets no more parities: there is no time for them, or nothing is sent again.
    closed: bool,
}

impl Block<Fates> {
    /// Parities that wait or are on the way.
    fn under_way(&self) -> u32 {
        let known = self.state.arrived + self.state.lost;
        self.queued + (self.sent.len() as u32).saturating_sub(known)
    }
}

/// A repair that waits for its time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Repair {
    /// A copy of the content with this first counter.
    Copy(u64),
    /// A parity of the block with this number.
    Parity(u64),
}

/// What has to be seen to after some fates became known.
#[derive(Default, Debug)]
struct Due {
    /// Contents that are missing and in no block.
    contents: Vec<u64>,
    blocks: BTreeSet<u64>,
}

impl<T: Clone> Repairer<T> {
    /// A sending end whose first counter is 0.
    pub fn new(config: RepairConfig<T>) -> Repairer<T> {
        Repairer {
            pacer: Pacer::new(config.rate),
            path: config
                .measures
                .then(|| Box::new(PathEstimator::new(config.rate))),
            config,
            history: History::new(),
            blocks: Blocks::new(),
            ahead: Ahead::default(),
            losses: Losses::new(),
            lengths: Lengths::default(),
            later: BinaryHeap::new(),
            nominal: Nominal::default(),
            there: Hearing::new(),
            tail: None,
            asked: Time::ZERO,
            unanswered: 0,
            back: WayBack::default(),
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

    /// What is known of the path, where the rate follows from it.
    pub fn estimate(&self) -> Option<PathEstimate> {
        self.path.as_ref().map(|path| path.estimate())
    }

    /// What is compared with other ports of the node, where the rate follows from the path.
    pub fn path_seen(&self) -> Option<PathSeen> {
        let path = self.path.as_ref()?;
        Some(path.seen().with_waiting(self.pacer.octets()))
    }

    /// For how long after its usual arrival a datagram is of use at the other end; `None` before feedback.
    pub fn budget(&self) -> Option<Span> {
        self.there.heard().map(|_| self.there.budget)
    }

    /// The clock of the other end; `None` before it is known.
    pub fn clock(&self, now: Time) -> Option<HopClock> {
        self.there.clock.get(now)
    }

    /// Datagrams that are kept for repair, those that wait for the line, and blocks.
    pub fn held(&self) -> (usize, usize, usize) {
        (self.history.len(), self.pacer.len(), self.blocks.len())
    }

    /// Contents of which it is not known yet whether they arrive: they wait, are under way, or are to be repaired.
    pub fn open(&self) -> usize {
        self.pacer.len() + self.later.len() + self.history.open()
    }

    /// Whether nothing waits for the line, and nothing that was sent may still be repaired: its fate is known, or its
    /// deadline is over.
    pub fn is_idle(&self, now: Time) -> bool {
        let waits = self.pacer.len() > 0 || !self.later.is_empty();
        let waits = waits || self.ahead.next_close().is_some();
        let blocks = self.blocks.iter().filter(|block| block.under_way() > 0);
        let blocks = blocks.map(|block| block.nominal).max();
        let open = self.history.latest_unresolved().max(blocks);
        !waits && open.is_none_or(|nominal| self.look_at(nominal) <= now)
    }

    fn on_feedback<O: Observer>(&mut self, now: Time, feedback: &Feedback, obs: &mut O) {
        let next = self.history.next();
        let Some(hi) = self.there.hear(now, feedback, (self.config.session, next)) else {
            self.stats.feedback_ignored += 1;
            return;
        };
        self.stats.feedback += 1;
        self.unanswered = 0;
        self.back.hear(now, feedback.tx_us, self.there.period);
        if !feedback.missing.is_empty() {
            self.calm.on_gap(now);
        }
        let history = &self.history;
        let sent_at = |counter| history.sent_exactly_at(counter);
        let begun_at = |counter| history.begun_at(counter);
        self.there.measure(now, hi, feedback, (sent_at, begun_at));
        self.measure_path(now, hi, feedback);
        let floor = (hi + 1).saturating_sub(feedback.known.into());
        let mut due = Due::default();
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
                range => self.settle(now, counter, range.is_some(), &mut due),
            }
        }
        let growth = self.path.as_ref().map_or(Span::ZERO, |_| QUEUE_GROWTH);
        // What should have arrived before the feedback left; usually a marker has shown it before.
        for counter in (hi + 1).max(self.history.unhandled())..next {
            let sent = self.history.sent_at(counter);
            let overdue = |sent| self.there.is_overdue(now, sent, feedback, growth);
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
            self.settle(now, counter, true, &mut due);
        }
        self.history.skip_handled();
        self.repair_due(now, due, obs);
    }

    /// Learns what the path carries.
    fn measure_path(&mut self, now: Time, hi: u64, feedback: &Feedback) {
        let Some(path) = &mut self.path else { return };
        let (history, lengths) = (&self.history, &self.lengths);
        let report = Report {
            feedback,
            hi,
            rtt: self.there.line.rtt().unwrap_or_default(),
            sent: &|counter| history.left(counter),
            too_long: &|octets| lengths.blocks(now, octets),
        };
        if path.hear(now, &report) {
            self.pacer.set_rate(path.pacer_rate());
        }
    }

    /// Lets datagrams that wait leave as a train, if the path is to be measured by one.
    fn begin_train(&mut self, now: Time) {
        if let Some(path) = &mut self.path
            && self.pacer.len() >= TRAIN as usize
            && path.wants_train(now)
            && self.pacer.is_free(now)
        {
            self.pacer.begin_train(TRAIN);
            path.train_leaves(now, self.history.next());
        }
    }

    /// The fate of a counter is known.
    fn settle(&mut self, now: Time, counter: u64, lost: bool, due: &mut Due) {
        let Some(fate) = self.history.handle(counter) else {
            return;
        };
        self.there.line.outcome(lost, fate.is_repair);
        self.losses.outcome(now, (counter, fate.sent), lost);
        if self.lengths.outcome(now, fate.part, lost)
            && let Some(path) = &mut self.path
        {
            path.excuse_losses();
            self.pacer.set_rate(path.pacer_rate());
        }
        if lost {
            self.stats.layers[fate.layer].lost += 1;
            self.calm.on_gap(now);
        }
        match fate.of {
            Of::Content(of) => {
                let Some(content) = self.history.content(of) else {
                    self.stats.forgotten += u64::from(lost);
                    return;
                };
                content.in_flight = content.in_flight.saturating_sub(1);
                content.delivered |= !lost;
                let (missing, block) = (content.is_missing(), content.block);
                if content.delivered {
                    self.history.release(of);
                }
                let is_open = |block: &Block<Fates>| !block.state.closed;
                match block.filter(|it| self.blocks.get(*it).is_some_and(is_open)) {
                    Some(block) => drop(due.blocks.insert(block)),
                    None if missing => due.contents.push(of),
                    None => {}
                }
            }
            Of::Block(number) => {
                if let Some(block) = self.blocks.get_mut(number) {
                    let count = match lost {
                        true => &mut block.state.lost,
                        false => &mut block.state.arrived,
                    };
                    *count += 1;
                    due.blocks.insert(number);
                }
            }
            Of::Nothing => {}
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
                self.drop_repair(now, Repair::Copy(of), &unit, obs);
            }
            Waiting::Parity { of, unit, .. } => {
                self.drop_repair(now, Repair::Parity(of), &unit, obs);
            }
        }
    }

    fn drop_repair<O: Observer>(&mut self, now: Time, repair: Repair, unit: &Unit, obs: &mut O) {
        self.pacer.earn(unit.octets);
        self.stats.layers[unit.layer].unsent += 1;
        match repair {
            Repair::Copy(of) => {
                if let Some(content) = self.history.content(of) {
                    content.in_flight = content.in_flight.saturating_sub(1);
                    if content.is_missing() {
                        self.lost(now, unit, Cause::Late, obs);
                    }
                }
            }
            Repair::Parity(of) => {
                if let Some(block) = self.blocks.get_mut(of) {
                    block.queued = block.queued.saturating_sub(1);
                }
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
        if self.path.is_some() {
            // What the path carries is learned from late feedback, too.
            return KEEP.1;
        }
        let wanted = Span::from_ps(self.there.budget.as_ps().saturating_add(KEEP.0.as_ps()));
        wanted.min(KEEP.1)
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

    /// When the next marker is due behind the last datagram of a frame.
    fn marker_at(&self) -> Option<Time> {
        let tail = self.tail.filter(|tail| tail.sent < MARKERS)?;
        (self.history.unhandled() < self.history.next()).then_some(tail.marker)
    }

    /// When a round trip and this number of periods of the feedback have passed since `silent`.
    fn overdue_from(&self, silent: Time, periods: u64) -> Time {
        let rtt = self.there.line.rtt().unwrap_or_default();
        let quiet = self.there.period.times(periods);
        silent.saturating_add(rtt).saturating_add(quiet)
    }

    /// When the next marker is due that asks for overdue feedback, as long as something may still be repaired. A burst of losses
    /// takes datagrams in a row, so it passes sooner the more of them there are.
    fn ask_at(&self) -> Option<Time> {
        self.unheard_at()?;
        let oldest = self.history.sent_at(self.history.unhandled())?;
        let due = self.overdue_from(self.there.heard()?.max(oldest), 1);
        let due = due.saturating_add(self.there.line.margin());
        Some(due.max(self.asked.saturating_add(self.ask_pause())))
    }

    /// Between two markers that ask. Without an answer for as long as a repair may take, the pause doubles each time.
    fn ask_pause(&self) -> Span {
        let within = self.there.budget.as_ps() / ASK.as_ps();
        let doublings = self.unanswered.saturating_sub(within).min(16);
        ASK.times(1 << doublings).min(ASK_SELDOM)
    }

    /// When a marker is due that tells how often reports may come.
    fn tell_at(&self) -> Option<Time> {
        self.back.tell_at().filter(|_| self.history.next() > 0)
    }

    fn marker(&mut self, now: Time) -> Option<Outgoing<Carried<T>>> {
        let is_due = |at: Option<Time>| at.is_some_and(|at| at <= now);
        let (tail, ask) = (is_due(self.marker_at()), is_due(self.ask_at()));
        if !tail && !ask && !is_due(self.tell_at()) {
            return None;
        }
        self.back.tells(now);
        if let Some(tail) = self.tail.as_mut().filter(|_| tail) {
            tail.sent += 1;
            tail.marker = tail.marker.saturating_add(MARKER_AGAIN);
        }
        if ask {
            self.asked = now;
            self.unanswered += 1;
        }
        self.stats.markers += 1;
        let rtt_us = self.there.line.rtt().map_or(0, Span::as_us);
        let head = Head::Marker {
            session: self.config.session,
            hi: Serial((self.history.next() - 1) as u32),
            every_ms: u8::try_from(self.back.every().as_ms()).unwrap_or(u8::MAX),
            rtt_us: rtt_us as u32,
            asks: ask,
        };
        Some(Outgoing {
            head,
            item: None,
            parts: 1,
            ready: now,
        })
    }

    /// Numbers the datagram that leaves at `now`: after a stall later than when its turn was.
    fn depart(
        &mut self,
        now: Time,
        (ready, held): (Time, Span),
        waiting: Waiting<T>,
    ) -> Option<Outgoing<Carried<T>>> {
        let counter = self.history.next();
        let session = self.config.session;
        let wire = Serial(counter as u32);
        // Delays count from the last bit: on a slow line the first one is several milliseconds earlier in large datagrams.
        let charged = waiting.unit().octets;
        let parts = self.lengths.parts(now, charged);
        let sent = Departure {
            begun: now,
            at: now.max(ready),
            held,
            parts,
        };
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
                self.history.push(sent, charged, what);
                let head = Head::Data {
                    session,
                    counter: wire,
                    layer,
                };
                (head, Carried::Item(item), unit.last)
            }
            Waiting::Parity { of, unit, .. } => {
                let (parity, octets) = self.blocks.parity(of, session, counter)?;
                let ahead = self.blocks.get(of).map_or(0, |block| block.state.ahead);
                let counters = &mut self.stats.layers[unit.layer];
                counters.repairs += 1;
                counters.parities += 1;
                counters.ahead += u64::from(u32::from(parity.index) < ahead);
                counters.repair_octets += u64::from(unit.octets);
                self.history
                    .push(sent, charged, What::Parity(of, unit.layer));
                let is_last = parity.until == parity.index + 1;
                (Head::Parity(parity), Carried::Parity(octets), is_last)
            }
            Waiting::Copy { of, unit, .. } => {
                let item = self.history.content(of)?.item.clone()?;
                let counters = &mut self.stats.layers[unit.layer];
                counters.repairs += 1;
                counters.repair_octets += u64::from(unit.octets);
                self.history.push(sent, charged, What::Copy(of, unit.layer));
                let head = Head::Repair {
                    session: session as u8,
                    counter: counter as u32 & 0xFF_FFFF,
                    layer: unit.layer,
                    // The history holds fewer counters than 16 bits count.
                    back: u16::try_from(counter - of).ok()?,
                };
                (head, Carried::Item(item), true)
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
            parts,
            ready,
        })
    }

    /// Whether a datagram that leaves at `start` is too late to be useful. The base layer is promised: only its repairs are
    /// judged.
    fn is_vain(&self, start: Time, waiting: &Waiting<T>) -> bool {
        let nominal = match waiting {
            Waiting::Original { unit, at, .. } if unit.layer == Layer::Base || *at >= start => {
                return false;
            }
            Waiting::Original { nominal, .. } => *nominal,
            Waiting::Copy { of, .. } => match self.history.content_ref(*of) {
                Some(content) if !content.delivered => content.nominal,
                _ => return true,
            },
            Waiting::Parity { of, .. } => match self.blocks.get(*of) {
                Some(block) if !self.is_complete(*of) => block.nominal,
                _ => return true,
            },
        };
        start > self.deadline(waiting.unit(), nominal)
    }

    /// Whether all contents of a block are known to have arrived, or forgotten.
    fn is_complete(&self, block: u64) -> bool {
        let Some(block) = self.blocks.get(block) else {
            return true;
        };
        let mut contents = block.contents();
        !contents.any(|of| self.history.content_ref(of).is_some_and(|it| !it.delivered))
    }

    /// Whether what a repair is for is known to have arrived.
    fn is_needless(&self, waiting: &Waiting<T>) -> bool {
        match waiting {
            Waiting::Copy { of, .. } => {
                self.history.content_ref(*of).is_some_and(|it| it.delivered)
            }
            Waiting::Parity { of, .. } => self.is_complete(*of),
            Waiting::Original { .. } => false,
        }
    }

    fn forget(&mut self, now: Time) {
        let keep = self.keep();
        self.history.forget(now, keep);
        let base = self.history.base();
        let is_over = |block: &Block<Fates>| {
            let over = block.nominal.saturating_add(keep) <= now;
            block.queued == 0 && (over || block.first < base)
        };
        while self.blocks.pop_if(is_over).is_some() {}
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
    type Transmit = Outgoing<Carried<T>>;
    /// The port has another rate, since its path carries more or less.
    type Event = Rate;

    fn handle<O: Observer>(&mut self, now: Time, input: RepairerInput<T>, obs: &mut O) {
        match input {
            RepairerInput::Send { at, unit, item } => {
                if let Some(path) = self.path.as_mut().filter(|_| unit.layer == Layer::Base) {
                    path.offer_base(now, unit.octets, self.there.budget);
                }
                let (pacer, nominal) = (&mut self.pacer, &mut self.nominal);
                if let Some(dropped) = pacer.push_media(nominal, at.min(now), unit, item) {
                    self.unsent(now, dropped, Cause::QueueFull, obs);
                }
            }
            RepairerInput::Feedback(feedback) => self.on_feedback(now, &feedback, obs),
            RepairerInput::Rate(rate) => self.pacer.set_rate(rate),
            RepairerInput::Beside(beside) => {
                if let Some(path) = &mut self.path
                    && path.set_beside(now, beside)
                {
                    self.pacer.set_rate(path.pacer_rate());
                }
            }
            RepairerInput::Needs(needs) => {
                if let Some(path) = &mut self.path {
                    path.set_needs(needs);
                }
            }
            RepairerInput::HeldUp(since) => self.history.left_by(since, now),
            RepairerInput::Unwanted(flow) => self.history.release_flow(flow),
        }
        self.on_timeout(now, obs);
    }

    fn on_timeout<O: Observer>(&mut self, now: Time, obs: &mut O) {
        while let Some(Reverse((at, repair))) =
            self.later.peek().copied().filter(|it| it.0.0 <= now)
        {
            self.later.pop();
            let unit = match repair {
                Repair::Copy(of) => self.history.content(of).map(|content| content.unit),
                Repair::Parity(of) => self.blocks.get(of).map(Block::unit),
            };
            if let Some(unit) = unit {
                self.queue(now, at, repair, unit, obs);
            }
        }
        self.send_ahead(now, obs);
        self.repeat_unheard(now, obs);
        self.forget(now);
    }

    fn poll_transmit<O: Observer>(
        &mut self,
        now: Time,
        obs: &mut O,
    ) -> Option<Outgoing<Carried<T>>> {
        self.begin_train(now);
        while let Some((start, waiting)) = self.pacer.next(now) {
            if self.is_vain(start, &waiting) {
                if !self.is_needless(&waiting) {
                    self.unsent(now, waiting, Cause::Late, obs);
                    continue;
                }
                self.pacer.earn(waiting.unit().octets);
                if let Waiting::Parity { of, .. } = waiting
                    && let Some(block) = self.blocks.get_mut(of)
                {
                    block.queued = block.queued.saturating_sub(1);
                }
                continue;
            }
            let (ready, held) = self.pacer.occupy(start, waiting.unit().octets);
            let unit = *waiting.unit();
            let Some(outgoing) = self.depart(now, (ready, held), waiting) else {
                continue;
            };
            // One that an earlier hop repaired may leave after the time at which it would be looked at.
            self.repeat_unheard(now, obs);
            let counter = self.history.next() - 1;
            let what = match outgoing.head {
                Head::Repair { .. } => "repair",
                Head::Parity(_) => "parity",
                _ => {
                    self.gather(now, counter, now.max(ready), obs);
                    return Some(outgoing);
                }
            };
            obs.on(now, self.subject(), || TraceEvent::Packet {
                flow: unit.flow,
                sent: true,
                what,
                number: counter,
                bytes: unit.octets,
            });
            return Some(outgoing);
        }
        self.marker(now)
    }

    fn poll_event(&mut self) -> Option<Rate> {
        self.path.as_mut()?.news()
    }

    fn next_timeout(&self) -> Option<Time> {
        let later = self.later.peek().map(|it| it.0.0);
        let planned = earliest(later, self.ahead.next_close());
        let queued = earliest(self.pacer.next_start(), planned);
        let marker = earliest(self.marker_at(), earliest(self.ask_at(), self.tell_at()));
        earliest(queued, earliest(marker, self.unheard_at()))
    }
}
