use std::cmp::Ordering;
use std::collections::VecDeque;

use layercast_atm::{Run, Vcid};
use layercast_core::{Span, Time};

use super::due::Moment;
use super::fabric::Fabric;

/// Cells on their way to one port.
#[derive(Default, Debug)]
pub(super) struct Lane {
    pub runs: VecDeque<Run>,
    /// When the last cells of frames arrive.
    pub lasts: VecDeque<Time>,
}

impl Lane {
    #[inline]
    pub fn push(&mut self, run: Run) {
        if run.is_last() {
            self.lasts.push_back(run.last_at());
        }
        if !self.runs.back_mut().is_some_and(|last| last.join(&run)) {
            self.runs.push_back(run);
        }
    }

    /// When whoever takes its cells is due: so long after the first last cell, or after the first cell.
    pub fn due(&self, beyond: Span, lag: Span) -> Time {
        let due = |at: Option<Time>, span| at.map_or(Time::MAX, |at| at.saturating_add(span));
        let first = self.runs.front().map(|run| run.at);
        due(self.lasts.front().copied(), beyond).min(due(first, lag))
    }

    /// Takes cells from the front that come from a port before a moment, if one does.
    pub fn shift(&mut self, fabric: &Fabric, from: u32, until: Moment) -> Option<Run> {
        let head = self.runs.front_mut()?;
        let count = fabric.before(from, head, until);
        if count == 0 {
            return None;
        }
        let run = head.take(count);
        if head.count == 0 {
            self.runs.pop_front();
        }
        if run.is_last() {
            self.lasts.pop_front();
        }
        Some(run)
    }

    /// Holds these cells, in the order in which they come.
    pub fn refill(&mut self, runs: impl IntoIterator<Item = Run>) {
        let mut cells: Vec<_> = runs.into_iter().flat_map(Run::cells).collect();
        cells.sort_by_key(|cell| cell.at);
        self.runs.clear();
        self.lasts.clear();
        cells.into_iter().for_each(|cell| self.push(cell));
    }
}

/// Which lane of a port cells of a circuit take.
#[inline]
pub(super) fn lane(fabric: &Fabric, from: u32, vc: Vcid) -> usize {
    let port = &fabric.ports[from as usize];
    let peer = &fabric.ports[port.peer as usize];
    if fabric.reassemblers[peer.node as usize].is_some() {
        return 0;
    }
    match peer.line(vc) {
        Some(line) => usize::from(fabric.ports[line.port as usize].id),
        None => fabric.degree(peer.node),
    }
}

/// The first cell that one port has for another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub at: Time,
    pub from: u32,
}

impl Head {
    #[inline]
    pub fn order(&self, other: &Head, fabric: &Fabric) -> Ordering {
        let moment = |head: &Head| fabric.moment(head.from, head.at);
        let order = self.at.cmp(&other.at);
        order.then_with(|| moment(self).cmp(&moment(other)))
    }
}
