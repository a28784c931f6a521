//! What the path of a link carries, where its rate is not given.

mod arrivals;
mod base;
mod drops;
mod foreign;
mod steps;
mod together;
mod trains;

use layercast_core::{Rate, Span, Time};

use crate::estimate::LeastOf;
use arrivals::{Arrivals, Arrived};
pub(crate) use arrivals::{Left, Report};
use base::Base;
use drops::{Drops, Verdict};
use foreign::{Before, Cuts, Foreign};
use together::Together;
pub use together::{Beside, Needs, PathSeen, Trunks};
pub(crate) use trains::TRAIN;
use trains::Trains;

/// Queue on the path from which on it is too long after [`TWICE`], and from which on it is so immediately.
const LONG: Span = Span::from_ms(20);
const VERY_LONG: Span = Span::from_ms(60);
/// By how much a queue may grow until the rate follows: until then, datagrams are late and not lost.
pub(crate) const QUEUE_GROWTH: Span = VERY_LONG;
/// For how long a queue is long before that counts; one report says little.
const TWICE: Span = Span::from_ms(12);
/// A queue that is short for this time was removed.
const GONE: Span = Span::from_ms(1_000);
/// A delay that varies by no more than this and jitter is steady.
const STEADY: Span = Span::from_ms(10);
/// A queue that is shorter by this than it was [`TWICE`] ago drains.
const FALLING: Span = Span::from_ms(2);
/// Queue up to which the rate grows.
const SHORT: Span = Span::from_ms(12);
/// Between two cuts, and the round trip: the first one shows no effect earlier.
const GUARD: Span = Span::from_ms(150);
/// A cut goes below the rate of arrivals by this share, by another one that is the queue in milliseconds over the second
/// number, and by the third one at most.
const CUT: (f64, f64, f64) = (0.05, 300.0, 0.35);
/// Growth in a second, as a share: up to the first share of the capacity at the last cut, up to the second one, and above.
const GROWTH: [f64; 3] = [0.5, 0.01, 0.08];
const NEAR: (f64, f64) = (0.93, 1.05);
/// Most time for which the rate grows in one step: reports were missing before.
const STEP: Span = Span::from_ms(100);
/// For how long the capacity at a cut is remembered at least.
const REMEMBERED: Span = Span::from_secs(10);
/// For how long trains that arrive as before the cut say nothing after it, at the start and at most.
const HOLD: (Span, Span) = (Span::from_secs(3), Span::from_secs(60));
/// Trains arrive otherwise than before from this factor on.
const OTHER: f64 = 1.25;
/// A rate up to this share of the capacity at the last cut leaves no queue.
const BELOW: f64 = 0.97;
/// Trains that arrive at this multiple of the capacity at the last cut at most show that no other traffic takes part in the line.
const SAME: f64 = 1.08;
/// A cut this soon after the rate was raised against the memory shows that the raise was wrong.
const REGRET: Span = Span::from_secs(5);
/// The rate is at most this multiple of what arrived lately, unless trains show more.
const ABOVE: f64 = 1.5;
/// The rate of arrivals is measured over this time, and the highest one holds for the second time.
const MEASURED: (Span, Span) = (Span::from_ms(100), Span::from_secs(2));
/// A queue that stays in spite of cuts for this time is that of other flows, until it is short for the second time.
const STANDING: (Span, Span) = (Span::from_ms(1_200), Span::from_ms(600));
/// A queue that is down to this share of its longest drains, and does not stay.
const DRAINED: (u64, u64) = (3, 4);
/// Beside such flows: growth in a second, and the factor of the rate after a loss beyond that of the link by this share.
const COMPETING: (f64, f64, f64) = (0.06, 0.7, 0.02);
/// The rate of the port is reported again when it has grown by this factor.
const NEWS: f64 = 1.05;
/// Least and most rate.
const LEAST: f64 = 64e3;
const MOST: f64 = 100e9;
/// Datagrams over which the loss of the link, and the loss of now, are averaged.
const LOSS_OVER: (f64, f64) = (512.0, 64.0);

/// What a port knows of its path.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PathEstimate {
    /// The rate at which datagrams leave; `None`: no queue has shown what the path carries, and nothing limits them.
    pub rate: Option<Rate>,
    /// Other flows keep a queue on the path: the port takes its share of it.
    pub competes: bool,
    /// How long datagrams wait in queues of the path.
    pub queue: Span,
    /// How often the rate was cut.
    pub cuts: u64,
}

/// Estimates what a path carries from the arrival times in the feedback of its other end.
///
/// A queue on the path shows as one-way delay beyond the least one. While there is a queue, datagrams arrive at the rate
/// that the path has left for them; the port is set to somewhat less, so that the queue goes and stays away. Rules and
/// numbers: `docs/src/explanation/unknown-paths.md`.
///
/// State is bounded. Wrong feedback harms the link to its sender alone: the rate stays between 64 kbit/s and 100 Gbit/s, and
/// grows to one and a half times what arrived by the clock of this host, or to 0.85 of what two trains show.
#[derive(Debug)]
pub(crate) struct PathEstimator {
    arrivals: Arrivals,
    trains: Trains,
    /// Rate of the pacer in bit/s; `None`: it has none.
    rate: Option<f64>,
    /// The rate that was reported to the port.
    reported: Option<f64>,
    /// What the path carried at the last cut.
    cap: Option<Cap>,
    /// For how long trains say nothing after a cut, and the capacity is remembered: longer each time the rate was raised in vain.
    hold: Span,
    /// At what rate trains have arrived since the last cut: that of the narrowest line, which others may share.
    line: Option<f64>,
    /// When the rate was last raised against the memory.
    raised: Option<Time>,
    guard: Time,
    /// What of the delay is no queue of this port, and the cuts that show it.
    foreign: Foreign,
    in_a_row: Cuts,
    base: Base,
    queue: Span,
    /// A queue before [`TWICE`], at most.
    earlier: Option<(Time, Span)>,
    /// Since when the queue is long without a pause, and short.
    long_since: Option<Time>,
    /// Since when it is long and does not drain, and its longest since then.
    standing: Option<(Time, Span)>,
    short_since: Option<Time>,
    competing: bool,
    together: Together,
    grown: Time,
    /// Octets that arrived since a time, of the measurement that runs, and the most of those before, negative.
    measuring: Option<(Time, u64)>,
    most: LeastOf,
    /// Loss of the link without a queue, and loss of now.
    loss: (f64, f64),
    drops: Drops,
    /// The last limit was found by losses: the path has no queue for a train.
    by_losses: bool,
    cuts: u64,
}

/// What a path carried.
#[derive(Clone, Copy, Debug)]
struct Cap {
    bps: f64,
    at: Time,
    /// Nothing speaks for more.
    holds: bool,
}

impl PathEstimator {
    /// For a path of which nothing is known but perhaps what it carried in a former connection.
    pub fn new(rate: Option<Rate>) -> PathEstimator {
        PathEstimator {
            arrivals: Arrivals::new(),
            trains: Trains::default(),
            rate: rate.map(|rate| (rate.as_bps() as f64).clamp(LEAST, MOST)),
            reported: None,
            cap: None,
            hold: HOLD.0,
            line: None,
            raised: None,
            guard: Time::ZERO,
            foreign: Foreign::default(),
            in_a_row: Cuts::default(),
            base: Base::new(),
            queue: Span::ZERO,
            earlier: None,
            long_since: None,
            standing: None,
            short_since: None,
            competing: false,
            together: Together::default(),
            grown: Time::ZERO,
            measuring: None,
            most: LeastOf::default(),
            loss: (0.0, 0.0),
            drops: Drops::default(),
            by_losses: false,
            cuts: 0,
        }
    }

    /// What is known of the path.
    pub fn estimate(&self) -> PathEstimate {
        PathEstimate {
            rate: self.pacer_rate(),
            competes: self.competing,
            queue: self.queue,
            cuts: self.cuts,
        }
    }

    /// At what rate datagrams leave.
    pub fn pacer_rate(&self) -> Option<Rate> {
        self.rate.map(|bps| Rate::from_bps(bps as u64))
    }

    /// The rate of the port, if it is another one than when this was last asked: lower immediately, higher in steps. While the capacity
    /// at the last cut holds, it is a part of that: the port need not follow the pacer, which drains a queue for a moment.
    pub fn news(&mut self) -> Option<Rate> {
        let rate = match self.holding() {
            Some(cap) if !self.competing => (cap.bps * NEAR.0).max(LEAST),
            _ => self.rate?,
        };
        let is_news = self
            .reported
            .is_none_or(|last| rate < last || rate > last * NEWS);
        is_news.then(|| {
            self.reported = Some(rate);
            Rate::from_bps(rate as u64)
        })
    }

    /// What the path carried at the last cut, as long as nothing speaks for more.
    fn holding(&self) -> Option<Cap> {
        self.cap.filter(|cap| cap.holds)
    }

    /// There may be more.
    fn release(&mut self, now: Time) {
        self.cap = self.cap.map(|cap| Cap {
            holds: false,
            ..cap
        });
        self.raised = Some(now);
    }

    /// Whether the next [`TRAIN`] datagrams may leave without a pause, to see how far apart they arrive.
    pub fn wants_train(&self, now: Time) -> bool {
        self.rate.is_some()
            && !self.by_losses
            && self.queue < SHORT
            && now >= self.guard
            && self.trains.is_due(now)
            && self.together.measures(now)
    }

    /// Datagrams of a train leave, the first of them with the counter `first`.
    pub fn train_leaves(&mut self, now: Time, first: u64) {
        self.trains.leave(now, first);
    }

    /// What is compared with other ports of the node.
    pub fn seen(&self) -> PathSeen {
        self.together.seen()
    }

    /// Takes what was found of ports of the node that share a line with this one. Its part of what the line carries is what its path carries.
    /// Gives whether the rate of the pacer changed.
    pub fn set_beside(&mut self, now: Time, beside: Option<Beside>) -> bool {
        self.together.set_beside(now, beside);
        let before = self.rate;
        if let Some(by) = beside.and_then(|it| it.longer) {
            self.foreign.lengthen(self.foreign.longer() + by);
            self.starts_anew();
        }
        if let Some(part) = self.together.part(now) {
            let bps = part.max(LEAST);
            self.cap = Some(Cap {
                bps,
                at: now,
                holds: true,
            });
            let (pace, queue) = self.together.pace(now).unwrap_or((bps, Span::ZERO));
            let [low, high] = match queue > LONG {
                true => {
                    let drains =
                        ((1.0 - Self::cut_for(queue)) * pace).max(self.base.rate().min(pace));
                    [LEAST, drains]
                }
                // What is borrowed is used immediately; else the rate grows as that of any port does, since others may use the line.
                false if pace > bps => [NEAR.0 * pace, NEAR.1 * pace],
                false => [LEAST, NEAR.1 * pace],
            };
            let rate = self.rate.unwrap_or(pace).max(low).min(high);
            self.rate = Some(rate.clamp(LEAST, MOST));
        }
        self.rate != before
    }

    /// Takes what the flows of the port need.
    pub fn set_needs(&mut self, needs: Needs) {
        self.base.set_absent(needs.absent.as_bps() as f64);
        self.together.see().need(needs);
    }

    /// Octets of the base layer are to be sent, and are of use for `budget`.
    pub fn offer_base(&mut self, now: Time, octets: u32, budget: Span) {
        self.base.offer(now, octets, budget);
    }

    /// Takes a report. Gives whether the rate of the pacer changed.
    pub fn hear(&mut self, now: Time, report: &Report<'_>) -> bool {
        let arrived = self.arrivals.take(now, report);
        let train = self.trains.take(report);
        let Some(arrived) = arrived else {
            return false;
        };
        self.measure(now, arrived.octets);
        let before = self.rate;
        if let Some(delay) = arrived.longer {
            self.foreign.lengthen(delay);
            self.starts_anew();
        }
        if let Some(delay) = arrived.delay {
            self.note_delay(now, delay);
        }
        if let Some(left) = arrived.left {
            // What the link loses took its time on the narrowest line, or in front of it.
            let octets = arrived.octets as f64 / (1.0 - self.loss.0.min(0.5));
            // A path that is longer delays nothing on the line, and perhaps it is.
            let known = arrived.delay.filter(|_| !self.arrivals.is_in_doubt());
            let waits = known.map(|it| it.saturating_sub(self.foreign.longer()));
            self.together.see().saw(left, waits, octets);
        }
        self.note_loss(now, &arrived);
        if arrived.delay.is_some() {
            self.control(now, report.rtt);
        }
        if let Some(train) = train {
            self.together.see().train(now, train.bps);
        }
        if let Some(bps) = train.and_then(|it| it.both) {
            self.together.see().line(now, bps);
            self.raise(now, bps);
        }
        debug_assert!(self.rate.is_none_or(|bps| (LEAST..=MOST).contains(&bps)));
        self.rate != before
    }

    /// Measures the rate of arrivals by the clock of this host: that of the other end may lie.
    fn measure(&mut self, now: Time, octets: u64) {
        let (since, sum) = self.measuring.get_or_insert((now, 0));
        *sum += octets;
        let passed = now.since(*since);
        if passed >= MEASURED.0 {
            let bps = *sum as f64 * 8.0 / passed.as_secs_f64();
            self.most.add(now, -(bps as i64), MEASURED.1);
            self.together.see().arrives(bps);
            self.measuring = Some((now, 0));
        }
    }

    /// The most that arrived lately.
    fn delivered(&self) -> f64 {
        self.most.get().map_or(0.0, |most| -most as f64)
    }

    fn note_delay(&mut self, now: Time, delay: Span) {
        self.in_a_row.saw(now, delay);
        self.foreign.saw(now, delay, self.in_a_row.drains(now));
        self.arrivals
            .set_foreign(self.foreign.delay(), self.foreign.jitter());
        // Jitter has pauses: what is there without one is a queue.
        let steady = self
            .in_a_row
            .shortest()
            .saturating_sub(self.foreign.steady());
        let queue = delay
            .saturating_sub(self.foreign.delay())
            .max(steady.min(delay));
        match self.earlier {
            Some((at, _)) if now.since(at) < TWICE => {}
            _ => self.earlier = Some((now, self.queue)),
        }
        self.queue = queue;
        self.standing = match self.standing.filter(|_| queue > LONG) {
            Some((since, most)) if queue > most.mul_div(DRAINED.0, DRAINED.1) => {
                Some((since, most.max(queue)))
            }
            _ => (queue > LONG).then_some((now, queue)),
        };
        if queue > LONG {
            self.long_since.get_or_insert(now);
            self.short_since = None;
        } else {
            self.long_since = None;
            let since = *self.short_since.get_or_insert(now);
            if now.since(since) >= GONE {
                self.in_a_row.end();
            }
        }
    }

    fn note_loss(&mut self, now: Time, arrived: &Arrived) {
        if arrived.datagrams == 0 {
            return;
        }
        let datagrams = (arrived.datagrams, arrived.lost);
        self.drops.note(now, datagrams, arrived.octets);
        let count = f64::from(arrived.datagrams);
        let share = f64::from(arrived.lost) / count;
        let blend = |old: f64, over: f64| old + (share - old) * (count / over).min(1.0);
        self.loss.1 = blend(self.loss.1, LOSS_OVER.1);
        if self.queue < LONG {
            self.loss.0 = blend(self.loss.0, LOSS_OVER.0);
        }
    }

    fn control(&mut self, now: Time, rtt: Span) {
        let passed = now.since(self.grown).min(STEP).as_secs_f64();
        self.grown = now;
        let stands = |since: Option<Time>, span| since.is_some_and(|at| now.since(at) >= span);
        let is_alone = self.together.is_alone(now, self.standing.map(|it| it.0));
        match self.competing {
            false if self.rate.is_some() && stands(self.standing.map(|it| it.0), STANDING.0) => {
                self.competing = !is_alone;
            }
            true if is_alone || stands(self.short_since, STANDING.1) => self.competing = false,
            _ => {}
        }
        if let Some(rate) = self.rate {
            self.base.note(now, rate, self.queue > LONG);
            if self.queue < SHORT && self.base.is_due(now, rate) {
                self.rate = Some(self.base.rate().clamp(LEAST, MOST));
            }
        }
        if self.competing {
            return self.compete(now, rtt, passed);
        }
        if self.together.part(now).is_none() {
            self.heed_drops(now, rtt);
        }
        let falls = self
            .earlier
            .is_some_and(|(_, earlier)| self.queue <= earlier.saturating_sub(FALLING));
        let is_long = self.queue > VERY_LONG || stands(self.long_since, TWICE) && !falls;
        if is_long {
            let may = now >= self.guard && !self.arrivals.is_in_doubt();
            if may && self.in_a_row.may_cut(now, self.queue) {
                self.cut(now, rtt, is_alone);
            }
        } else if self.queue < SHORT {
            self.grow(now, passed);
        }
    }

    /// The share by which the rate goes below the rate of arrivals, to drain a queue.
    fn cut_for(queue: Span) -> f64 {
        let waits = queue.as_secs_f64() * 1e3;
        (CUT.0 + waits / CUT.1).min(CUT.2)
    }

    fn cut(&mut self, now: Time, rtt: Span, is_alone: bool) {
        let Some(capacity) = self.arrivals.capacity() else {
            return;
        };
        let before = Before {
            rate: self.rate,
            delivered: self.delivered(),
        };
        let below = |cap: Cap| self.rate.is_some_and(|rate| rate <= BELOW * cap.bps);
        let is_below = self.holding().is_some_and(below);
        let in_vain = self.in_a_row.are_in_vain(now, is_below);
        if let Some((before, delays)) = in_vain.filter(|_| !is_alone) {
            return self.take_back(now, before, delays);
        }
        // What the link loses took its time on the narrowest line, or in front of it.
        let capacity = capacity / (1.0 - self.loss.0.min(0.5));
        let known = self
            .cap
            .filter(|cap| (1.0 / OTHER..OTHER).contains(&(capacity / cap.bps)));
        // One run is short, and losses make it vary. Of a line that others of the node share, the port has its part.
        let part = self.together.part(now);
        let mean = known.map_or(capacity, |cap| (cap.bps + capacity) / 2.0);
        let capacity = part.unwrap_or(mean);
        let wanted = (1.0 - Self::cut_for(self.queue)) * capacity;
        let least = self.base.least(now, self.rate.unwrap_or(MOST), capacity);
        let rate = match self.rate {
            Some(rate) => wanted.max(rate / 2.0).max(least).min(rate),
            None => wanted.max(self.delivered() / 2.0).max(least),
        };
        self.base.cut(now, rate);
        let regrets = self.raised.take().is_some_and(|at| now.since(at) < REGRET);
        self.hold = match regrets {
            true => self.hold.times(2).min(HOLD.1),
            false if known.is_some() => self.hold,
            false => HOLD.0,
        };
        self.by_losses = false;
        self.rate = Some(rate.clamp(LEAST, MOST));
        let share = rate / capacity;
        self.in_a_row.cut(now, rtt, self.queue, share, before);
        self.cap = Some(Cap {
            bps: capacity.max(LEAST),
            at: now,
            holds: true,
        });
        if part.is_none() {
            self.together.see().cut(now, capacity);
        }
        self.note_cut(now, rtt);
        self.trains.forget();
        self.line = None;
    }

    /// A path that loses much is full, unless it loses as much at a lower rate.
    fn heed_drops(&mut self, now: Time, rtt: Span) {
        match self.drops.judge() {
            None => {}
            Some(Verdict::Full) => {
                let before = self.rate.unwrap_or(ABOVE * self.delivered());
                let lately = self.together.seen().arrives_at();
                let arrives = self.drops.arrives(now).unwrap_or(lately);
                self.drops.tries(now, before);
                self.by_losses = true;
                // It carries what it carried before more was tried: the next try waits twice as long.
                let is_known = self
                    .cap
                    .is_some_and(|cap| (1.0 / OTHER..OTHER).contains(&(arrives / cap.bps)));
                self.hold = match is_known && self.raised.take().is_some() {
                    true => self.hold.max(REMEMBERED).times(2).min(HOLD.1),
                    false if is_known => self.hold,
                    false => HOLD.0,
                };
                let least = self.base.least(now, self.rate.unwrap_or(MOST), arrives);
                let wanted = ((1.0 - CUT.0) * arrives).max(least).clamp(LEAST, MOST);
                self.rate = Some(self.rate.map_or(wanted, |rate| wanted.min(rate)));
                self.cap = Some(Cap {
                    bps: arrives.max(LEAST),
                    at: now,
                    holds: true,
                });
                self.together.see().cut(now, arrives);
                self.note_cut(now, rtt);
            }
            Some(Verdict::Other(rate)) => self.undo_drops(rate),
        }
    }

    /// A lower rate was tried for losses that have other reasons.
    fn undo_drops(&mut self, rate: f64) {
        self.rate = self.rate.map(|low| rate.clamp(low, MOST));
        self.cap = None;
        self.by_losses = false;
    }

    /// Datagrams were lost because they are too long for the path: what was lost says nothing of what it carries.
    pub fn excuse_losses(&mut self) {
        self.loss = (0.0, 0.0);
        if let Some(rate) = self.drops.excuse() {
            self.undo_drops(rate);
        }
    }

    /// Cuts leave the delay as it is: what is sent is not its cause.
    fn take_back(&mut self, now: Time, before: Before, [shortest, longest]: [Span; 2]) {
        // Jitter has pauses. A delay without a pause that stays as it is comes from a longer path, another one from other flows.
        let has_pauses = shortest <= LONG;
        let moves = longest.saturating_sub(shortest) > STEADY + self.foreign.jitter();
        if !has_pauses && (moves || self.foreign.is_known()) {
            self.competing = true;
            return;
        }
        match has_pauses {
            true => self.foreign.learn(now, longest),
            false => self.foreign.lengthen(shortest),
        }
        let rate = before.rate.unwrap_or(ABOVE * before.delivered);
        self.rate = self.rate.map(|low| rate.clamp(low, MOST));
        self.cap = None;
        self.starts_anew();
    }

    /// What was a queue is none.
    fn starts_anew(&mut self) {
        (self.long_since, self.standing, self.earlier) = (None, None, None);
    }

    /// The rate was cut: the next cut waits until this one shows an effect.
    fn note_cut(&mut self, now: Time, rtt: Span) {
        self.guard = now.saturating_add(GUARD).saturating_add(rtt.min(GUARD));
        self.cuts += 1;
    }

    fn grow(&mut self, now: Time, passed: f64) {
        let Some(rate) = self.rate else { return };
        let is_old = |cap: Cap| now.since(cap.at) >= REMEMBERED.max(self.hold);
        if self.holding().is_some_and(is_old) {
            self.release(now);
        }
        let (growth, most) = match self.holding() {
            Some(cap) if rate < NEAR.0 * cap.bps => (GROWTH[0], NEAR.0 * cap.bps),
            Some(cap) if rate < NEAR.1 * cap.bps => (GROWTH[1], NEAR.1 * cap.bps),
            Some(_) | None => (GROWTH[2], MOST),
        };
        let most = most.min(self.delivered() * ABOVE);
        let grown = (rate * (1.0 + growth * passed)).min(most);
        self.rate = Some(grown.max(rate));
    }

    /// Beside flows that keep a queue: cuts would only leave them more.
    fn compete(&mut self, now: Time, rtt: Span, passed: f64) {
        let Some(rate) = self.rate else { return };
        let (growth, cut, beyond) = COMPETING;
        let most = rate.max(self.delivered() * ABOVE);
        let mut rate = (rate * (1.0 + growth * passed)).min(most);
        if self.loss.1 > self.loss.0 + beyond && now >= self.guard {
            let arrives = self.delivered();
            rate = (rate * cut)
                .max(self.base.least(now, rate, arrives))
                .min(rate);
            self.base.cut(now, rate);
            self.loss.1 = self.loss.0;
            self.note_cut(now, rtt);
        }
        self.rate = Some(rate.clamp(LEAST, MOST));
    }

    /// Two trains have arrived at this rate: the path carries it when it has no other traffic. Soon after a cut it has to be another rate
    /// than before, since a line that others share shows the same one all the time.
    fn raise(&mut self, now: Time, bps: f64) {
        if self.together.part(now).is_some() {
            return;
        }
        let Some(rate) = self.rate else { return };
        let before = self.line.replace(bps);
        let is_other = before.is_some_and(|line| bps > OTHER * line);
        if is_other {
            self.hold = HOLD.0;
        }
        if let Some(cap) = self
            .cap
            .as_mut()
            .filter(|cap| cap.holds && bps <= SAME * cap.bps)
        {
            // The line itself is what limits, and it is as before: time says nothing about it.
            cap.at = now;
        }
        let may = self.holding().is_none_or(|cap| {
            bps > OTHER * cap.bps && (is_other || now.since(cap.at) >= self.hold)
        });
        // The line was what limited, and is another one now: no other traffic is to be expected there.
        let was_alone = before
            .zip(self.holding())
            .is_some_and(|(line, cap)| line <= SAME * cap.bps);
        let most = match is_other && was_alone {
            true => MOST,
            false => ABOVE * rate,
        };
        let wanted = (0.85 * bps).min(most).min(MOST);
        if self.competing || !may || wanted <= rate {
            return;
        }
        self.rate = Some(wanted);
        self.release(now);
    }
}
