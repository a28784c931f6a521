use std::collections::VecDeque;

use crate::{Cell, Vcid};

/// Deficit round robin of circuits (Shreedhar and Varghese, IEEE/ACM Trans. Networking 4(3), 1996) for cells. Cells
/// have one size, so the deficit is only what a circuit did not use.
///
/// As in FQ-CoDel (RFC 8290, 4.2), a circuit that was empty has its first turn before the waiting ones. A circuit
/// that became empty in that turn must wait for its place among the others before it counts as new again; otherwise a
/// circuit with single cells would always be new and starve the others.
#[derive(Debug, Default)]
pub(super) struct RoundRobin {
    /// State by circuit number.
    circuits: Vec<CircuitQueue>,
    /// Circuits in their first circuit.
    new: VecDeque<Vcid>,
    /// Circuits after their first circuit.
    old: VecDeque<Vcid>,
    /// Number of cells held.
    len: u32,
}

#[derive(Debug, Default)]
struct CircuitQueue {
    /// Cells with their class at arrival.
    cells: VecDeque<(Cell, u8)>,
    /// Cells that it may still send in this turn; the value of a former turn if it is in no list.
    credit: u32,
    /// Whether it is in one of the lists, as all circuits with cells are.
    listed: bool,
}

impl RoundRobin {
    /// Adds a cell; a turn of its circuit has `quantum` cells, at least one.
    pub fn put(&mut self, cell: Cell, ring: u8, quantum: u32) {
        let index = usize::from(cell.vc.0);
        if self.circuits.len() <= index {
            self.circuits.resize_with(index + 1, CircuitQueue::default);
        }
        let circuit = &mut self.circuits[index];
        circuit.cells.push_back((cell, ring));
        if !circuit.listed {
            (circuit.listed, circuit.credit) = (true, quantum);
            self.new.push_back(cell.vc);
        }
        self.len += 1;
    }

    /// Removes the next cell; returns it with its class.
    pub fn take(&mut self, quantum: impl Fn(Vcid) -> u32) -> Option<(Cell, u8)> {
        loop {
            let first = !self.new.is_empty();
            let list = if first { &mut self.new } else { &mut self.old };
            let vc = *list.front()?;
            let circuit = &mut self.circuits[usize::from(vc.0)];
            if circuit.credit > 0
                && let Some(taken) = circuit.cells.pop_front()
            {
                circuit.credit -= 1;
                self.len -= 1;
                if self.len == 0 {
                    self.forget();
                }
                return Some(taken);
            }
            list.pop_front();
            if circuit.credit == 0 {
                circuit.credit = quantum(vc);
                self.old.push_back(vc);
            } else if first && !self.old.is_empty() {
                self.old.push_back(vc);
            } else {
                circuit.listed = false;
            }
        }
    }

    /// Number of cells held.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Removes all circuits from the lists when no cell is held.
    fn forget(&mut self) {
        for vc in self.new.drain(..).chain(self.old.drain(..)) {
            self.circuits[usize::from(vc.0)].listed = false;
        }
    }

    /// Counts the cells held, for the tests of conservation.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.circuits
            .iter()
            .map(|circuit| circuit.cells.len())
            .sum()
    }
}
