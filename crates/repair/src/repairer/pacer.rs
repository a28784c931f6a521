use std::collections::VecDeque;

use layercast_core::{Layer, Rate, Span, Time};

use super::Unit;
use crate::nominal::Nominal;

/// Most datagrams that wait for the line; beyond, those of the highest layer are discarded.
pub const MAX_QUEUED: usize = 4_096;
/// Octets of repairs that a line without rate may send beyond those that its media earned, at the start and most.
const BURST: (u64, u64) = (64 << 10, 256 << 10);

/// The queues in front of a line, one pair for each layer, and the line itself.
#[derive(Debug)]
pub(crate) struct Pacer<T> {
    rate: Option<Rate>,
    copies: [VecDeque<Waiting<T>>; 3],
    originals: [VecDeque<Waiting<T>>; 3],
    waiting: usize,
    /// When the line is free.
    free: Time,
    /// Octets of repairs that may still be sent, where the media limit them.
    allowance: u64,
    /// The media limit repairs although there is a rate.
    limited: bool,
    /// Datagrams that still leave without a pause, and the octets of those that did.
    train: u32,
    owed: u64,
}

#[derive(Debug)]
pub(crate) enum Waiting<T> {
    Original {
        /// When it came.
        at: Time,
        unit: Unit,
        item: T,
        nominal: Time,
    },
    /// A repair: another copy of the content with the first counter `of`.
    Copy { at: Time, of: u64, unit: Unit },
    /// A parity of the block with the number `of`.
    Parity { at: Time, of: u64, unit: Unit },
}

impl<T> Waiting<T> {
    pub fn unit(&self) -> &Unit {
        match self {
            Waiting::Original { unit, .. }
            | Waiting::Copy { unit, .. }
            | Waiting::Parity { unit, .. } => unit,
        }
    }

    fn at(&self) -> Time {
        match self {
            Waiting::Original { at, .. }
            | Waiting::Copy { at, .. }
            | Waiting::Parity { at, .. } => *at,
        }
    }
}

impl<T> Pacer<T> {
    pub fn new(rate: Option<Rate>) -> Pacer<T> {
        Pacer {
            rate,
            copies: Default::default(),
            originals: Default::default(),
            waiting: 0,
            free: Time::ZERO,
            allowance: BURST.0,
            limited: false,
            train: 0,
            owed: 0,
        }
    }

    /// The same, whose repairs take no more octets than the media, whatever the rate.
    pub fn limited(rate: Option<Rate>) -> Pacer<T> {
        Pacer {
            limited: true,
            ..Pacer::new(rate)
        }
    }

    /// Datagrams that wait.
    pub fn len(&self) -> usize {
        self.waiting
    }

    pub fn set_rate(&mut self, rate: Option<Rate>) {
        self.rate = rate;
    }

    /// Whether the line is free.
    pub fn is_free(&self, now: Time) -> bool {
        self.free <= now
    }

    /// The next `count` datagrams leave without a pause; the line is busy with all of them afterwards.
    pub fn begin_train(&mut self, count: u32) {
        self.train = count;
    }

    /// Media of `octets`, or repairs that were not sent, allow as many octets of repairs.
    pub fn earn(&mut self, octets: u32) {
        self.allowance = (self.allowance + u64::from(octets)).min(BURST.1);
    }

    /// Spends the allowance for repairs; `false` if fewer than `octets` are left. Where a rate is set, the rate limits
    /// repairs, and there is no allowance unless the pacer is [limited](Self::limited).
    pub fn spend(&mut self, octets: u32) -> bool {
        if self.rate.is_some() && !self.limited {
            return true;
        }
        match self.allowance.checked_sub(octets.into()) {
            Some(left) => {
                self.allowance = left;
                true
            }
            None => false,
        }
    }

    /// Octets that wait: of the base layer, and of enhancement layers.
    pub fn octets(&self) -> [u64; 2] {
        let of = |layer: usize| {
            let waiting = self.copies[layer].iter().chain(&self.originals[layer]);
            waiting.map(|it| u64::from(it.unit().octets)).sum::<u64>()
        };
        [of(0), of(1) + of(2)]
    }

    /// How long the datagrams that wait keep the line busy.
    pub fn backlog(&self, now: Time) -> Span {
        let Some(rate) = self.rate else {
            return Span::ZERO;
        };
        let all = self.copies.iter().chain(&self.originals).flatten();
        let octets = all.map(|it| u64::from(it.unit().octets)).sum();
        self.free.since(now) + rate.time_for(octets)
    }

    /// When a repair of `layer` that comes at `now` leaves, as far as is known.
    pub fn start(&self, now: Time, layer: Layer) -> Time {
        let Some(rate) = self.rate else { return now };
        let before = self.copies[..=layer.index()].iter().flatten();
        let octets = before.map(|it| u64::from(it.unit().octets)).sum();
        self.free.max(now).saturating_add(rate.time_for(octets))
    }

    /// Puts media that came `at` into their queue; gives a datagram that has to be discarded for them.
    pub fn push_media(
        &mut self,
        nominal: &mut Nominal,
        at: Time,
        unit: Unit,
        item: T,
    ) -> Option<Waiting<T>> {
        let nominal = match unit.stamp_us {
            Some(stamp) => nominal.departure(at, unit.flow, stamp),
            None => at,
        };
        self.earn(unit.octets);
        let waiting = Waiting::Original {
            at,
            unit,
            item,
            nominal,
        };
        self.push(unit.layer, waiting)
    }

    /// Puts a datagram into its queue; gives one that has to be discarded for it.
    pub fn push(&mut self, layer: Layer, waiting: Waiting<T>) -> Option<Waiting<T>> {
        let queues = match &waiting {
            Waiting::Original { .. } => &mut self.originals,
            Waiting::Copy { .. } | Waiting::Parity { .. } => &mut self.copies,
        };
        queues[layer.index()].push_back(waiting);
        self.waiting += 1;
        if self.waiting <= MAX_QUEUED {
            return None;
        }
        self.waiting -= 1;
        let order = [2, 1, 0];
        let queues = order
            .iter()
            .map(|&layer| (layer, false))
            .chain(order.iter().map(|&layer| (layer, true)));
        for (layer, is_copy) in queues {
            let queue = match is_copy {
                false => &mut self.originals[layer],
                true => &mut self.copies[layer],
            };
            // The oldest one of an enhancement layer is the one most likely to be late.
            if let Some(dropped) = queue.pop_front() {
                return Some(dropped);
            }
        }
        None
    }

    /// The next datagram whose transmission begins by `now`, with the time at which it begins: the lowest layer
    /// first, and in a layer repairs first.
    pub fn next(&mut self, now: Time) -> Option<(Time, Waiting<T>)> {
        if self.waiting == 0 || self.rate.is_some() && self.free > now {
            return None;
        }
        let waiting = (0..self.originals.len()).find_map(|layer| {
            let copy = self.copies[layer].pop_front();
            copy.or_else(|| self.originals[layer].pop_front())
        })?;
        self.waiting -= 1;
        Some((self.begin(waiting.at()).min(now), waiting))
    }

    fn begin(&self, at: Time) -> Time {
        match self.rate {
            Some(_) => self.free.max(at),
            None => at,
        }
    }

    /// Marks the line as busy with `octets` octets from `start` on; returns when their last bit leaves, and for how long the
    /// narrowest line may hold them up since others left with them.
    pub fn occupy(&mut self, start: Time, octets: u32) -> (Time, Span) {
        self.owed += u64::from(octets);
        let busy = self
            .rate
            .map_or(Span::ZERO, |rate| rate.time_for(self.owed));
        let in_train = self.train > 0;
        self.train = self.train.saturating_sub(1);
        if self.train > 0 {
            self.free = start;
            return (start, busy);
        }
        self.owed = 0;
        self.free = start.saturating_add(busy);
        match in_train {
            true => (start, busy),
            false => (self.free, Span::ZERO),
        }
    }

    /// When the next transmission begins.
    pub fn next_start(&self) -> Option<Time> {
        if self.waiting == 0 {
            return None;
        }
        let queues = self.copies.iter().chain(&self.originals);
        let first = queues.filter_map(VecDeque::front).map(Waiting::at).min()?;
        Some(self.begin(first))
    }
}
