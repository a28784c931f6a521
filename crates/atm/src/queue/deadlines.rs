use std::collections::VecDeque;

use layercast_core::{Span, Time};

use super::{BEST_EFFORT, RINGS};
use crate::Cell;
use crate::level::{LEVELS, level_bound};

/// Cells in the order of their deadlines (Liu and Layland, JACM 20(1), 1973), among equal deadlines in the order of
/// arrival. A deadline is the arrival plus the bound of the class.
///
/// There are no contracts, so deadlines are met only as long as all arrivals can be sent in time. Under overload the
/// classes differ by their bounds and no more.
#[derive(Debug, Default)]
pub(super) struct Deadlines {
    /// For each class the cells with their deadlines, in ascending order.
    rings: [VecDeque<(Time, Cell)>; RINGS],
}

impl Deadlines {
    /// Adds a cell of a class.
    pub fn put(&mut self, now: Time, cell: Cell, ring: u8, cell_time: Span) {
        let deadline = now.saturating_add(bound(ring, cell_time));
        self.rings[usize::from(ring)].push_back((deadline, cell));
    }

    /// Removes the cell with the earliest deadline; returns it with its class.
    pub fn take(&mut self) -> Option<(Cell, u8)> {
        // Among classes with the same deadline the one with the longer bound arrived first; it comes later in the
        // list.
        let heads = self.rings.iter_mut().enumerate().rev();
        let heads = heads.filter_map(|(class, ring)| Some((ring.front()?.0, class, ring)));
        let (_, class, ring) = heads.min_by_key(|&(deadline, ..)| deadline)?;
        let (_, cell) = ring.pop_front()?;
        Some((cell, class as u8))
    }

    /// Counts the cells held, for the tests of conservation.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.rings.iter().map(VecDeque::len).sum()
    }
}

/// Best effort has no guarantee: its bound, twice that of the slowest level, only limits how long other classes
/// overtake it.
fn bound(ring: u8, cell_time: Span) -> Span {
    match ring {
        BEST_EFFORT => level_bound(LEVELS as u8 - 1, cell_time).times(2),
        level => level_bound(level, cell_time),
    }
}
