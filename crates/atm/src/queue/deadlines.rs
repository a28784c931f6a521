use std::collections::VecDeque;

use layercast_core::{Span, Time};

use super::{BEST_EFFORT, RINGS};
use crate::Cell;
use crate::level::{LEVELS, level_bound};

/// Cells that go in the order of their deadlines (Liu and Layland, JACM 20(1), 1973), of those with one deadline
/// the first that came: a deadline is the arrival and the bound of the class.
///
/// Nobody is held to a contract, so that deadlines are kept only as long as all that comes can be sent in time.
/// Past that the classes are ahead of each other by the difference of their bounds and no more.
#[derive(Debug, Default)]
pub(super) struct Deadlines {
    /// Of each class, with their deadlines. Those of one class come in the order of their deadlines.
    rings: [VecDeque<(Time, Cell)>; RINGS],
}

impl Deadlines {
    /// A cell of a class comes.
    pub fn put(&mut self, now: Time, cell: Cell, ring: u8, cell_time: Span) {
        let deadline = now.saturating_add(bound(ring, cell_time));
        self.rings[usize::from(ring)].push_back((deadline, cell));
    }

    /// Takes the cell with the earliest deadline, with its class.
    pub fn take(&mut self) -> Option<(Cell, u8)> {
        // Of classes with one deadline the one with the longer bound came first: it stands behind.
        let heads = self.rings.iter_mut().enumerate().rev();
        let heads = heads.filter_map(|(class, ring)| Some((ring.front()?.0, class, ring)));
        let (_, class, ring) = heads.min_by_key(|&(deadline, ..)| deadline)?;
        let (_, cell) = ring.pop_front()?;
        Some((cell, class as u8))
    }

    /// Cells found by counting, for the tests of conservation.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.rings.iter().map(VecDeque::len).sum()
    }
}

/// Best effort is promised nothing: its bound, twice that of the slowest level, says only for how long others
/// may overtake it.
fn bound(ring: u8, cell_time: Span) -> Span {
    match ring {
        BEST_EFFORT => level_bound(LEVELS as u8 - 1, cell_time).times(2),
        level => level_bound(level, cell_time),
    }
}
