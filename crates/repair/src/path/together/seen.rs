use layercast_core::{Span, Time};

use super::Needs;

/// Time of one sample of the delay, and how many are kept.
const SLOT: Span = Span::from_ms(50);
pub(super) const SLOTS: usize = 24;
/// Reports of what left in a slot come within this many slots.
pub(super) const LAG: u64 = 8;
/// Delays on one line differ by this share of the shorter, and this, at most.
const ALIKE: (u64, u64) = (1, 4);
const SLACK: Span = Span::from_ms(10);
/// Delays up to this are no queue.
const LEAST: Span = Span::from_ms(20);

/// What a port saw of its path in the last 1.2 s.
#[derive(Clone, Copy, Default, Debug)]
pub struct PathSeen {
    /// When the connection began.
    since: Time,
    /// Number of the newest slot, on the clock that the ports of a node share.
    slot: u64,
    /// The least delay of what left in each slot, beyond the least of all, by slot number modulo their count; `None`: nothing arrived.
    delays: [Option<Span>; SLOTS],
    /// Bit/s that arrive, over about a second, and over a fifth of it.
    arrives: f64,
    lately: f64,
    /// The rate of the line, as trains showed it.
    line: Option<(Time, f64)>,
    /// What the line carried at the last cut, over all ports that share it.
    carries: Option<(Time, f64)>,
    needs: Needs,
}

/// Whether two ports saw the same queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Alike {
    /// None of them saw one, or nothing arrived.
    Unknown,
    Yes,
    No,
}

impl PathSeen {
    /// Takes the delay of something that left at `left`, beyond the least one.
    pub(in crate::path) fn saw(&mut self, left: Time, delay: Span) {
        if self.slot == 0 {
            self.since = left;
        }
        let slot = number(left);
        for passed in (self.slot + 1..=slot).rev().take(SLOTS) {
            self.delays[place(passed)] = None;
        }
        self.slot = self.slot.max(slot);
        if self.slot - slot < SLOTS as u64 {
            let least = &mut self.delays[place(slot)];
            *least = Some(least.map_or(delay, |least| least.min(delay)));
        }
    }

    /// Takes the rate of arrivals in a tenth of a second.
    pub(in crate::path) fn arrives(&mut self, bps: f64) {
        self.arrives += (bps - self.arrives) / 8.0;
        self.lately += (bps - self.lately) / 2.0;
    }

    /// Takes what trains show.
    pub(in crate::path) fn line(&mut self, now: Time, bps: f64) {
        self.line = Some((now, bps));
    }

    /// The line carried this at a cut.
    pub(in crate::path) fn cut(&mut self, now: Time, bps: f64) {
        self.carries = Some((now, bps));
    }

    /// What the flows of the port need.
    pub(in crate::path) fn need(&mut self, needs: Needs) {
        self.needs = needs;
    }

    pub(super) fn since(&self) -> Time {
        self.since
    }

    pub(super) fn arrives_at(&self) -> f64 {
        self.arrives
    }

    pub(super) fn arrives_lately(&self) -> f64 {
        self.lately
    }

    pub(super) fn carries(&self) -> Option<(Time, f64)> {
        self.carries
    }

    pub(super) fn needs(&self) -> Needs {
        self.needs
    }

    /// The rate of the line as trains of this time showed it.
    pub(super) fn line_of(&self, now: Time, lately: Span) -> Option<f64> {
        let line = self.line.filter(|it| now.since(it.0) < lately);
        line.map(|it| it.1)
    }

    /// Whether the last second had a queue all the time.
    pub(super) fn waits(&self, now: Time) -> bool {
        let is_long = |it: &Option<Span>| it.is_none_or(|delay| delay > LEAST);
        self.slot + LAG > number(now) && self.delays.iter().all(is_long)
    }

    /// Whether both ports saw the same queue in a slot.
    pub(super) fn alike(&self, other: &PathSeen, slot: u64) -> Alike {
        let of = |port: &PathSeen| {
            let is_kept = slot <= port.slot && port.slot - slot < SLOTS as u64;
            is_kept.then(|| port.delays[place(slot)]).flatten()
        };
        let Some((a, b)) = of(self).zip(of(other)).filter(|(a, b)| *a.max(b) > LEAST) else {
            return Alike::Unknown;
        };
        let (low, high) = (a.min(b), a.max(b));
        match high.saturating_sub(low) <= low.mul_div(ALIKE.0, ALIKE.1) + SLACK {
            true => Alike::Yes,
            false => Alike::No,
        }
    }
}

/// The number of the slot of an instant.
pub(super) fn number(now: Time) -> u64 {
    now.as_us() / SLOT.as_us()
}

fn place(slot: u64) -> usize {
    slot as usize % SLOTS
}
