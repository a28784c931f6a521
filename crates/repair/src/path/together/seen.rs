use std::ops::Range;

use layercast_core::{Span, Time};

use super::Needs;

/// Time of one sample, and how many are kept.
const SLOT: Span = Span::from_ms(50);
pub(super) const SLOTS: usize = 32;
/// A port of which nothing was heard for this many slots is not waited for.
pub(super) const LAG: u64 = 8;
/// Delays of this many slots are compared, and of this many at least.
const COMPARED: u64 = 24;
const FEWEST: usize = 8;
/// A queue that moves by less than this standard deviation, in milliseconds, shows nothing.
const MOVES: f64 = 8.0;
/// Delays that move by less than this, but for one step, are those of a path that became longer or shorter: a queue grows and drains.
const STEADY: f64 = 4.0;
/// From the first correlation on delays are those of one line, and below the second they are not. Variances differ by this factor at most.
const SAME: f64 = 0.8;
const APART: f64 = 0.4;
const AS_MUCH: f64 = 4.0;
/// Delays up to this are no queue.
pub(super) const LEAST: Span = Span::from_ms(20);

/// What a port saw of its path in the last 1.6 s, by the time at which datagrams left the line: when they were sent, and how much longer than usual they
/// took.
#[derive(Clone, Copy, Default, Debug)]
pub struct PathSeen {
    /// When the connection began.
    since: Time,
    /// Number of the newest slot, on the clock that the ports of a node share.
    slot: u64,
    /// By slot number modulo their count.
    slots: [Slot; SLOTS],
    /// When the newest datagram left the line.
    passed: Time,
    /// Bit/s that arrive, over about a second.
    arrives: f64,
    /// The rate of the line, as trains showed it.
    line: Option<(Time, f64)>,
    /// When a train last arrived, and at what rate.
    train: Option<(Time, f64)>,
    /// What the path carried at the last cut of this port alone.
    carries: Option<(Time, f64)>,
    needs: Needs,
    /// Octets that wait for the port: of the base layer, and of enhancement layers.
    waiting: [u64; 2],
}

/// What left the line in a slot.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Slot {
    /// The least delay beyond the least of all; `None`: nothing is known of any.
    pub delay: Option<Span>,
    pub octets: f64,
}

/// Whether two ports saw the same queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Alike {
    /// None came or went, or it cannot be said.
    Unknown,
    Yes,
    No,
}

impl PathSeen {
    /// Takes the delay beyond the least one of something that was sent at `left`, and the octets since the one before.
    pub(in crate::path) fn saw(&mut self, left: Time, delay: Option<Span>, octets: f64) {
        let passed = left
            .saturating_add(delay.unwrap_or_default())
            .max(self.passed);
        if self.slot == 0 {
            (self.since, self.passed) = (left, passed);
        }
        let slot = number(passed);
        for number in (self.slot + 1..=slot).rev().take(SLOTS) {
            self.slots[place(number)] = Slot::default();
        }
        self.slot = slot;
        self.spread(self.passed, passed, octets);
        self.passed = passed;
        let least = &mut self.slots[place(slot)].delay;
        *least = match (*least, delay) {
            (Some(least), Some(delay)) => Some(least.min(delay)),
            (least, delay) => least.or(delay),
        };
    }

    /// Octets left the line evenly between two times.
    fn spread(&mut self, from: Time, to: Time, octets: f64) {
        let (first, last) = (number(from), number(to));
        let oldest = (last + 1).saturating_sub(SLOTS as u64);
        let whole = to.since(from).as_secs_f64();
        if first == last || whole <= 0.0 {
            self.slots[place(last)].octets += octets;
            return;
        }
        for slot in first.max(oldest)..=last {
            let begins = Time::ZERO + SLOT.times(slot);
            let (begins, ends) = (begins.max(from), (begins + SLOT).min(to));
            self.slots[place(slot)].octets += octets * ends.since(begins).as_secs_f64() / whole;
        }
    }

    /// Takes the rate of arrivals in a tenth of a second.
    pub(in crate::path) fn arrives(&mut self, bps: f64) {
        self.arrives += (bps - self.arrives) / 8.0;
    }

    /// Takes the rate at which a train arrived.
    pub(in crate::path) fn train(&mut self, now: Time, bps: f64) {
        self.train = Some((now, bps));
    }

    /// Takes what two trains in a row show.
    pub(in crate::path) fn line(&mut self, now: Time, bps: f64) {
        self.line = Some((now, bps));
    }

    /// The path carried this at a cut.
    pub(in crate::path) fn cut(&mut self, now: Time, bps: f64) {
        self.carries = Some((now, bps));
    }

    /// What the flows of the port need.
    pub(in crate::path) fn need(&mut self, needs: Needs) {
        self.needs = needs;
    }

    /// The same, with the octets that wait for the port: of the base layer, and of enhancement layers.
    pub(crate) fn with_waiting(self, waiting: [u64; 2]) -> PathSeen {
        PathSeen { waiting, ..self }
    }

    /// Octets that wait for the port: of the base layer, and of enhancement layers.
    pub(super) fn waiting(&self) -> [u64; 2] {
        self.waiting
    }

    pub(super) fn since(&self) -> Time {
        self.since
    }

    pub(in crate::path) fn arrives_at(&self) -> f64 {
        self.arrives
    }

    pub(super) fn carries(&self) -> Option<f64> {
        self.carries.map(|it| it.1)
    }

    pub(super) fn needs(&self) -> Needs {
        self.needs
    }

    /// When a train last arrived, and at what rate.
    pub(super) fn last_train(&self) -> Option<(Time, f64)> {
        self.train
    }

    /// The least delay of these slots; `None` if nothing is known of any.
    pub(super) fn least(&self, slots: Range<u64>) -> Option<Span> {
        slots.filter_map(|slot| self.at(slot).delay).min()
    }

    /// The rate of the line as trains of this time showed it.
    pub(super) fn line_of(&self, now: Time, lately: Span) -> Option<f64> {
        let line = self.line.filter(|it| now.since(it.0) < lately);
        line.map(|it| it.1)
    }

    /// The first slot of which not all is known yet; `None` if nothing was heard for long.
    pub(super) fn known_until(&self, now: Time) -> Option<u64> {
        (self.slot + LAG > number(now)).then_some(self.slot)
    }

    /// What left the line in a slot.
    pub(super) fn at(&self, slot: u64) -> Slot {
        let is_kept = slot <= self.slot && self.slot - slot < SLOTS as u64;
        let kept = is_kept.then(|| self.slots[place(slot)]);
        kept.unwrap_or_default()
    }

    /// Whether the last 1.2 s had a queue all the time.
    pub(super) fn waits(&self, now: Time) -> bool {
        let Some(end) = self.known_until(now) else {
            return false;
        };
        let is_long = |slot| self.at(slot).delay.is_none_or(|delay| delay > LEAST);
        (end.saturating_sub(COMPARED)..=end).all(is_long)
    }

    /// Whether both ports saw the same queue come and go before a slot. Their delays may differ by what was there all the time.
    pub(super) fn alike(&self, other: &PathSeen, before: u64) -> Alike {
        let slots = before.saturating_sub(COMPARED)..before;
        let both = |slot| Some((ms(self.at(slot).delay?), ms(other.at(slot).delay?)));
        let both: Vec<(f64, f64)> = slots.filter_map(both).collect();
        let count = both.len() as f64;
        if both.len() < FEWEST {
            return Alike::Unknown;
        }
        let mean = |of: fn(&(f64, f64)) -> f64| both.iter().map(of).sum::<f64>() / count;
        let (a, b) = (mean(|it| it.0), mean(|it| it.1));
        let over = |of: &dyn Fn(f64, f64) -> f64| {
            both.iter().map(|it| of(it.0 - a, it.1 - b)).sum::<f64>() / count
        };
        let (aa, bb, ab) = (
            over(&|a, _| a * a),
            over(&|_, b| b * b),
            over(&|a, b| a * b),
        );
        if aa.max(bb) < MOVES * MOVES || is_step(&both) {
            return Alike::Unknown;
        }
        let correlation = ab / (aa * bb).sqrt().max(f64::MIN_POSITIVE);
        let is_as_much = aa.min(bb) * AS_MUCH >= aa.max(bb);
        match correlation {
            it if it >= SAME && is_as_much => Alike::Yes,
            it if it < APART => Alike::No,
            _ => Alike::Unknown,
        }
    }
}

/// Whether the delays of both ports are constant before a moment, and constant after it.
fn is_step(both: &[(f64, f64)]) -> bool {
    let all = both.iter().fold(Sums::default(), |sums, it| sums.with(it));
    let mut before = Sums::default();
    both.split_last().is_some_and(|(_, but_last)| {
        but_last.iter().any(|it| {
            before = before.with(it);
            before.is_steady() && all.without(before).is_steady()
        })
    })
}

/// Of the delays of two ports: how many, their sums, and those of their squares.
#[derive(Clone, Copy, Default)]
struct Sums([f64; 5]);

impl Sums {
    fn with(self, (a, b): &(f64, f64)) -> Sums {
        let [count, sum_a, sum_b, squares_a, squares_b] = self.0;
        Sums([
            count + 1.0,
            sum_a + a,
            sum_b + b,
            squares_a + a * a,
            squares_b + b * b,
        ])
    }

    fn without(self, part: Sums) -> Sums {
        Sums(std::array::from_fn(|at| self.0[at] - part.0[at]))
    }

    /// Whether the delays of neither port vary by [`STEADY`].
    fn is_steady(self) -> bool {
        let [count, sum_a, sum_b, squares_a, squares_b] = self.0;
        let varies = |sum: f64, squares: f64| squares - sum * sum / count;
        let most = STEADY * STEADY * count;
        varies(sum_a, squares_a) < most && varies(sum_b, squares_b) < most
    }
}

fn ms(delay: Span) -> f64 {
    delay.as_secs_f64() * 1e3
}

/// The number of the slot of an instant.
pub(super) fn number(now: Time) -> u64 {
    now.as_us() / SLOT.as_us()
}

/// The bit/s of octets in this many slots.
pub(super) fn rate(octets: f64, slots: usize) -> f64 {
    octets * 8.0 / SLOT.times(slots as u64).as_secs_f64()
}

fn place(slot: u64) -> usize {
    slot as usize % SLOTS
}
