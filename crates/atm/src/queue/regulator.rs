use std::collections::VecDeque;

use layercast_core::{Span, Time};

use crate::{Cell, TrafficSpec, Vcid};

/// Most instants a regulator remembers. A contract with more cells per interval is held to a part of its
/// interval with this many: the mean is the same, the burst smaller.
const MEMORY: u64 = 65_536;

/// A cell that waits until it is eligible.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub cell: Cell,
    pub eligible: Time,
    /// How many cells came to the queue before it: the order among cells eligible at one instant.
    pub order: u64,
    /// Where it goes when it is eligible.
    pub ring: u8,
}

impl Held {
    pub fn head(&self) -> Head {
        Head {
            eligible: self.eligible,
            order: self.order,
            vc: self.cell.vc,
        }
    }
}

/// The first cell that a regulator holds, in the order of eligibility.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Head {
    pub eligible: Time,
    pub order: u64,
    pub vc: Vcid,
}

/// The rate controller of a circuit (Zhang and Ferrari 1993, rate-jitter form; specs/insane-study.md 2.2):
/// `ET(k) = max(AT(k), ET(k-1) + X_min, ET(k-n) + I)` with `n = floor(I / X_ave)`.
///
/// The grid is no concern of this recursion: a cell waits for the next instant of the grid after its ET,
/// but the next cell counts from the ET itself. Otherwise a contract would lose up to a grid for each cell.
#[derive(Default, Debug)]
pub(super) struct Regulator {
    x_min: Span,
    interval: Span,
    per_interval: usize,
    last: Option<Time>,
    /// Eligibility of the last cells, not more than `per_interval`; those that bind nobody any more are gone.
    recent: VecDeque<Time>,
    /// Ineligible cells in the order in which they came.
    pub held: VecDeque<Held>,
}

impl Regulator {
    /// As new, for any other circuit.
    pub fn spare(mut self: Box<Regulator>) -> Box<Regulator> {
        self.last = None;
        self.recent.clear();
        self.held.clear();
        self
    }

    /// A valid contract for the cells to come.
    pub fn change(&mut self, traffic: &TrafficSpec) {
        let cells = traffic.cells_per_interval();
        let kept = cells.clamp(1, MEMORY);
        self.x_min = traffic.x_min;
        self.interval = if kept < cells {
            traffic.interval.mul_div(kept, cells)
        } else {
            traffic.interval
        };
        self.per_interval = kept as usize;
        while self.recent.len() > self.per_interval {
            self.recent.pop_front();
        }
    }

    /// When a cell that comes now is eligible.
    pub fn eligible(&mut self, now: Time) -> Time {
        while let Some(oldest) = self.recent.front()
            && oldest.saturating_add(self.interval) <= now
        {
            self.recent.pop_front();
        }
        let mut at = now;
        if let Some(last) = self.last {
            at = at.max(last.saturating_add(self.x_min));
        }
        if self.recent.len() == self.per_interval
            && let Some(oldest) = self.recent.front()
        {
            at = at.max(oldest.saturating_add(self.interval));
        }
        at
    }

    /// A cell with this eligibility was taken.
    pub fn charge(&mut self, eligible: Time) {
        if self.recent.len() == self.per_interval {
            self.recent.pop_front();
        }
        self.recent.push_back(eligible);
        self.last = Some(eligible);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_enormous_contract_takes_bounded_memory_and_keeps_its_mean() {
        let mut regulator = Regulator::default();
        regulator.change(&TrafficSpec {
            x_min: Span::from_ps(1),
            x_ave: Span::from_ns(1),
            interval: Span::from_secs(1),
        });
        let mut eligible = Time::ZERO;
        for _ in 0..4 * MEMORY {
            eligible = regulator.eligible(Time::ZERO);
            regulator.charge(eligible);
        }
        assert_eq!(regulator.recent.len() as u64, MEMORY);
        // Three bursts of `MEMORY` cells wait before the last one, which itself goes at x_min.
        let before = Span::from_ns(1).times(3 * MEMORY);
        assert_eq!(eligible, Time::ZERO + before + Span::from_ps(MEMORY - 1));
    }
}
