use core::hint::select_unpredictable;

use layercast_atm::{Run, Runs, Vcid};
use layercast_core::{Span, Time};

use super::due::Moment;
use super::fabric::Fabric;

/// Cells on their way from one port to another, or to an adapter.
#[derive(Debug)]
pub(super) struct Lane {
    runs: Runs,
    /// When the first last cell of a frame arrives, if there is one.
    last: Time,
}

impl Lane {
    pub fn new() -> Lane {
        Lane {
            runs: Runs::default(),
            last: Time::MAX,
        }
    }

    /// When the first cell arrives, if there is one.
    #[inline]
    pub fn first(&self) -> Time {
        self.runs.first()
    }

    /// When the first last cell of a frame arrives, if there is one.
    #[inline]
    pub fn last(&self) -> Time {
        self.last
    }

    pub fn iter(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter()
    }

    #[inline(always)]
    pub fn push(&mut self, run: Run) {
        // Which ones are is anybody's guess.
        let last = select_unpredictable(run.is_last(), run.last_at(), Time::MAX);
        self.last = self.last.min(last);
        self.runs.push(run);
    }

    /// When the receiver of its cells is due: a fixed time after the first last cell, or after the first cell.
    #[inline]
    pub fn due(&self, beyond: Span, lag: Span) -> Time {
        let last = self.last.saturating_add(beyond);
        last.min(self.first().saturating_add(lag))
    }

    /// Takes the first cell, and those that arrive with it before an instant.
    #[inline(always)]
    pub fn take(&mut self, limit: Time) -> Option<Run> {
        let run = self.runs.take_before(limit)?;
        self.seek_last_after(&run);
        Some(run)
    }

    /// Takes cells from the front that come from a port before a moment, if one does.
    #[inline]
    pub fn shift(&mut self, fabric: &Fabric, from: u32, until: Moment) -> Option<Run> {
        if self.first() > until.at {
            return None;
        }
        let head = self.runs.head()?;
        match fabric.before(from, head, until) {
            0 => None,
            count => {
                let run = self.runs.take(count)?;
                self.seek_last_after(&run);
                Some(run)
            }
        }
    }

    /// Finds the first last cell of a frame again if it was among those taken.
    #[inline(always)]
    fn seek_last_after(&mut self, taken: &Run) {
        if taken.is_last() {
            let last = self.runs.iter().find(|run| run.is_last());
            self.last = last.map_or(Time::MAX, Run::last_at);
        }
    }

    /// Cells that arrive after an instant do so later by this.
    pub fn put_off(&mut self, after: Time, by: Span) {
        if self.last > after {
            self.last = self.last.saturating_add(by);
        }
        self.runs.put_off(after, by);
    }

    /// How many cells of a circuit arrive after an instant.
    pub fn count_after(&self, vc: Vcid, after: Time) -> u32 {
        self.runs.count_after(vc, after)
    }

    /// Takes all its cells away.
    pub fn clear(&mut self) -> Vec<Run> {
        self.last = Time::MAX;
        self.runs.drain()
    }

    /// Holds these cells, in the order in which they come.
    pub fn refill(&mut self, runs: impl IntoIterator<Item = Run>) {
        let mut cells: Vec<_> = runs.into_iter().flat_map(Run::cells).collect();
        cells.sort_by_key(|cell| cell.at);
        cells.into_iter().for_each(|cell| self.push(cell));
    }
}
