//! Delay that is no queue of the port: jitter, a path that became longer, a queue that others keep.

use layercast_core::{Span, Time};

use crate::estimate::LeastOf;

/// Longest delay that is put down to the path.
const MOST: Span = Span::from_ms(250);
/// For how long such a delay counts after it was seen last, to within twice that.
const HOLDS: Span = Span::from_secs(10);
/// A path that is longer is known to be so only as long as no delay of this time is shorter.
const LATELY: Span = Span::from_ms(250);
/// How far apart delays are that are compared: reports closer together speak of the same datagrams, and jitter that keeps the order
/// changes slowly.
const LAGS: [Span; 2] = [Span::from_ms(60), Span::from_ms(120)];
/// A difference counts up to twice the mean and this.
const LEAST: Span = Span::from_ms(4);
/// Differences over which jitter is averaged.
const OVER: u64 = 64;
/// Jitter is this multiple of the mean difference: delays that are spread evenly differ by a third of their range.
const RANGE: u64 = 3;
/// A delay that has pauses has one in each of these times, to within twice that.
const MOMENT: Span = Span::from_ms(250);
/// In such a time jitter falls below this part of its range.
const PAUSES: u64 = 4;
/// Cuts further apart than this do not belong together.
const APART: Span = Span::from_secs(10);
/// A queue that is longer by this than at the cut grows in spite of it.
const GROWN: Span = Span::from_ms(5);
/// The queue of a cut is gone after this time at the latest.
const DRAINED: Span = Span::from_secs(1);
/// Delays that show that cuts are in vain: one counts 2 if the queue had the time to drain, and 1 otherwise.
const IN_VAIN: u32 = 4;

/// How much of the one-way delays is no queue of the port.
#[derive(Default, Debug)]
pub(super) struct Foreign {
    /// The longest that cuts did not remove, of the last time, negative.
    most: LeastOf,
    /// A delay without pauses that cuts did not change: the path is longer by it.
    longer: Span,
    /// The longest delay of the last moment, negative.
    lately: LeastOf,
    differences: [Difference; LAGS.len()],
}

/// The mean difference of delays that are a time apart.
#[derive(Default, Debug)]
struct Difference {
    last: Option<(Time, Span)>,
    before: Option<Span>,
    mean: Span,
    count: u64,
}

impl Difference {
    fn saw(&mut self, now: Time, delay: Span, lag: Span) {
        let Some((at, last)) = self.last else {
            self.last = Some((now, delay));
            return;
        };
        if now.since(at) >= lag {
            let Some(before) = self.before.replace(last) else {
                self.last = Some((now, delay));
                return;
            };
            let ends = (before + delay).mul_div(1, 2);
            let differs = last.max(ends).saturating_sub(last.min(ends));
            // A queue that comes and goes is a large difference now and then.
            let differs = match self.count {
                0 => differs,
                _ => differs.min(self.mean.times(2) + LEAST),
            };
            self.count = (self.count + 1).min(OVER);
            self.mean =
                self.mean.mul_div(self.count - 1, self.count) + differs.mul_div(1, self.count);
            self.last = Some((now, delay));
        }
    }
}

/// The shortest delay of a window, or of negative ones the longest; zero before any came.
fn kept(window: &LeastOf) -> Span {
    Span::from_us(window.get().unwrap_or(0).unsigned_abs())
}

impl Foreign {
    pub fn delay(&self) -> Span {
        self.learned().max(self.longer + self.jitter())
    }

    /// By how much the path is longer than it was.
    pub fn longer(&self) -> Span {
        self.longer
    }

    /// The shortest of the delays of a moment that are no queue.
    pub fn steady(&self) -> Span {
        self.longer + self.jitter().mul_div(1, PAUSES)
    }

    /// The range in which delays vary.
    pub fn jitter(&self) -> Span {
        let means = self.differences.iter().map(|it| it.mean);
        means.max().unwrap_or_default().times(RANGE).min(MOST)
    }

    fn learned(&self) -> Span {
        kept(&self.most)
    }

    /// Takes a delay; `drains`: a queue of the port may be part of it. A learned delay holds for as long as it is seen; this makes it no
    /// longer.
    pub fn saw(&mut self, now: Time, delay: Span, drains: bool) {
        for (difference, lag) in self.differences.iter_mut().zip(LAGS) {
            match drains {
                true => (difference.last, difference.before) = (None, None),
                false => difference.saw(now, delay, lag),
            }
        }
        if self.longer > Span::ZERO {
            self.lately.add(now, -(delay.as_us() as i64), LATELY);
            self.longer = self.longer.min(kept(&self.lately));
        }
        let known = self.learned();
        if known > Span::ZERO {
            self.learn(now, delay.min(known));
        }
    }

    /// Whether a delay was learned.
    pub fn is_known(&self) -> bool {
        self.learned() > Span::ZERO || self.longer > Span::ZERO
    }

    /// The path is longer by this.
    pub fn lengthen(&mut self, delay: Span) {
        self.longer = delay.min(MOST);
        self.lately = LeastOf::default();
    }

    /// Cuts do not shorten this delay.
    pub fn learn(&mut self, now: Time, delay: Span) {
        let us = delay.min(MOST).as_us() as i64;
        self.most.add(now, -us, HOLDS);
    }
}

/// Cuts in a row, each at a lower rate than what arrived at the one before.
///
/// What is sent then leaves the queue shorter, unless the path carries still less. A delay that is as long as before again
/// and again is not due to what is sent.
#[derive(Default, Debug)]
pub(super) struct Cuts {
    /// What was known before the first one.
    before: Option<Before>,
    /// When the last one was, the queue at that time, and when it is gone.
    last: Time,
    queue: Span,
    drained: Time,
    /// The shortest delay of the last moment, and the longest, negative.
    shortest: LeastOf,
    longest: LeastOf,
    points: u32,
}

/// What was known before a cut.
#[derive(Clone, Copy, Debug)]
pub(super) struct Before {
    /// The rate of the pacer in bit/s; `None`: it had none.
    pub rate: Option<f64>,
    /// The highest rate of arrivals.
    pub delivered: f64,
}

impl Cuts {
    /// Takes a delay.
    pub fn saw(&mut self, now: Time, delay: Span) {
        let us = delay.as_us() as i64;
        self.shortest.add(now, us, MOMENT);
        self.longest.add(now, -us, MOMENT);
    }

    /// The shortest delay of the last moment.
    pub fn shortest(&self) -> Span {
        kept(&self.shortest)
    }

    /// The queue is gone: the cuts had an effect.
    pub fn end(&mut self) {
        self.before = None;
    }

    /// Whether the queue of the last cut may still be there.
    pub fn drains(&self, now: Time) -> bool {
        now < self.drained
    }

    /// Whether a queue of this length is one that the last cut does not remove.
    pub fn may_cut(&self, now: Time, queue: Span) -> bool {
        now >= self.drained || queue.saturating_sub(self.queue) > GROWN
    }

    /// The queue is to be cut once more, `below` the rate at which datagrams arrived at the last cut. Gives what was known before
    /// the first cut, and the shortest and the longest delay of the last moment, if the cuts are in vain.
    pub fn are_in_vain(&mut self, now: Time, below: bool) -> Option<(Before, [Span; 2])> {
        if !below || now.since(self.last) > APART {
            self.before = None;
            return None;
        }
        self.points += if now >= self.drained { 2 } else { 1 };
        match self.points >= IN_VAIN {
            true => {
                let delays = [self.shortest(), kept(&self.longest)];
                self.before.take().map(|before| (before, delays))
            }
            false => None,
        }
    }

    /// The rate is cut to a share of the rate of arrivals, because of this queue.
    pub fn cut(&mut self, now: Time, rtt: Span, queue: Span, share: f64, before: Before) {
        if self.before.is_none() {
            (self.before, self.points) = (Some(before), 0);
        }
        let drains = (queue.as_us() as f64 / (1.0 - share).max(0.01)) as u64;
        let drains = Span::from_us(drains).min(DRAINED);
        (self.last, self.queue) = (now, queue);
        self.drained = now.saturating_add(drains).saturating_add(rtt.min(DRAINED));
    }
}
