use std::collections::VecDeque;

use crate::{Cell, Vcid};

/// Cells of circuits that take turns: deficit round robin (Shreedhar and Varghese, IEEE/ACM Trans. Networking
/// 4(3), 1996) for cells, which are of one size, so that no deficit is left over but what a circuit did not use.
///
/// As in FQ-CoDel (RFC 8290, 4.2) a circuit that had nothing to send has its first turn before those that wait
/// for another; and one that has sent all it had in that turn waits for its place among them before it is new
/// again. Otherwise one whose cells come singly would always be new, and keep the rest waiting for ever.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// By number.
    circuits: Vec<Turn>,
    /// Those that have their first turn.
    new: VecDeque<Vcid>,
    /// Those that have had it.
    old: VecDeque<Vcid>,
    /// Cells of all.
    len: u32,
}

#[derive(Debug, Default)]
struct Turn {
    /// Each with its class when it came.
    cells: VecDeque<(Cell, u8)>,
    /// What it may yet send in this turn; not of this turn any more if it is in no list.
    credit: u32,
    /// It is in one of the lists. A circuit with cells is.
    listed: bool,
}

impl Turns {
    /// A cell comes; a turn of its circuit is of so many cells, one at least.
    pub fn put(&mut self, cell: Cell, ring: u8, quantum: u32) {
        let index = usize::from(cell.vc.0);
        if self.circuits.len() <= index {
            self.circuits.resize_with(index + 1, Turn::default);
        }
        let turn = &mut self.circuits[index];
        turn.cells.push_back((cell, ring));
        if !turn.listed {
            (turn.listed, turn.credit) = (true, quantum);
            self.new.push_back(cell.vc);
        }
        self.len += 1;
    }

    /// Takes the cell whose turn it is, with its class.
    pub fn take(&mut self, quantum: impl Fn(Vcid) -> u32) -> Option<(Cell, u8)> {
        loop {
            let first = !self.new.is_empty();
            let list = if first { &mut self.new } else { &mut self.old };
            let vc = *list.front()?;
            let turn = &mut self.circuits[usize::from(vc.0)];
            if turn.credit > 0
                && let Some(taken) = turn.cells.pop_front()
            {
                turn.credit -= 1;
                self.len -= 1;
                if self.len == 0 {
                    self.forget();
                }
                return Some(taken);
            }
            list.pop_front();
            if turn.credit == 0 {
                turn.credit = quantum(vc);
                self.old.push_back(vc);
            } else if first && !self.old.is_empty() {
                self.old.push_back(vc);
            } else {
                turn.listed = false;
            }
        }
    }

    /// Cells of all.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Nobody waits: who comes next owes nobody anything.
    fn forget(&mut self) {
        for vc in self.new.drain(..).chain(self.old.drain(..)) {
            self.circuits[usize::from(vc.0)].listed = false;
        }
    }

    /// Cells found by counting, for the tests of conservation.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.circuits.iter().map(|turn| turn.cells.len()).sum()
    }
}
