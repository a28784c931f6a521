use std::collections::VecDeque;

use layercast_core::{Span, Time};

use crate::{Cell, TrafficSpec, Vcid};

/// Largest number of remembered times. A contract with more cells per interval is enforced on a part of the interval
/// with this number of cells: the mean is the same, the burst is smaller.
const MEMORY: u64 = 65_536;

/// A cell that waits for its eligibility.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub cell: Cell,
    pub eligible: Time,
    /// Number of cells that arrived before it: the order among cells with the same eligibility.
    pub order: u64,
    /// Its ring once it is eligible.
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

/// The first cell held by a regulator, ordered by eligibility.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Head {
    pub eligible: Time,
    pub order: u64,
    pub vc: Vcid,
}

/// The rate controller of a circuit (Zhang and Ferrari 1993, rate-jitter form; specs/insane-study.md 2.2):
/// `ET(k) = max(AT(k), ET(k-1) + X_min, ET(k-n) + I)` with `n = floor(I / X_ave)`.
///
/// The recursion ignores the grid: a cell waits for the next time on the grid after its ET, but the next cell counts
/// from the ET itself. Otherwise a contract would lose up to one grid interval per cell.
#[derive(Default, Debug)]
pub(super) struct Regulator {
    x_min: Span,
    interval: Span,
    per_interval: usize,
    last: Option<Time>,
    /// Eligibility times of the last cells, at most `per_interval`; those without influence are removed.
    recent: VecDeque<Time>,
    /// Ineligible cells in the order of arrival.
    pub held: VecDeque<Held>,
}

impl Regulator {
    /// Resets the regulator for another circuit.
    pub fn spare(mut self: Box<Regulator>) -> Box<Regulator> {
        self.last = None;
        self.recent.clear();
        self.held.clear();
        self
    }

    /// Sets a valid contract for later cells.
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

    /// Eligibility of a cell that arrives now.
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

    /// Accounts for an accepted cell with this eligibility.
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
        // Three bursts of `MEMORY` cells precede the last one, whose cells are spaced by x_min.
        let before = Span::from_ns(1).times(3 * MEMORY);
        assert_eq!(eligible, Time::ZERO + before + Span::from_ps(MEMORY - 1));
    }
}
