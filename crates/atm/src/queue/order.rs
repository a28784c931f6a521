use layercast_core::Time;

use super::circuit::Circuit;
use super::deadlines::Deadlines;
use super::round_robin::RoundRobin;
use super::{Discipline, QueueConfig, SIGNALLING};
use crate::{Cell, Vcid};

/// Buffer of data under a discipline other than priority of classes.
#[derive(Debug)]
pub(super) enum Order {
    RoundRobin(RoundRobin),
    Deadlines(Deadlines),
}

impl Order {
    /// The buffer of a discipline; `None` if the rings are served in order.
    pub fn of(discipline: Discipline) -> Option<Box<Order>> {
        Some(Box::new(match discipline {
            Discipline::Drr => Order::RoundRobin(RoundRobin::default()),
            Discipline::Edf => Order::Deadlines(Deadlines::default()),
            _ => return None,
        }))
    }

    /// Adds a cell of a class; returns the new limit of cells of one circuit.
    pub fn put(&mut self, now: Time, cell: Cell, ring: u8, config: &QueueConfig) -> u32 {
        match self {
            Order::RoundRobin(circuits) => circuits.put(cell, ring, quantum(ring, config)),
            Order::Deadlines(deadlines) => deadlines.put(now, cell, ring, config.cell_time),
        }
        self.limit(config)
    }

    /// Removes the next cell with its class; returns the new limit of cells of one circuit as well.
    pub fn take(&mut self, circuits: &[Circuit], config: &QueueConfig) -> Option<(Cell, u8, u32)> {
        let quantum = |vc: Vcid| quantum(circuits[usize::from(vc.0)].ring, config);
        let (cell, ring) = match self {
            Order::RoundRobin(circuits) => circuits.take(quantum),
            Order::Deadlines(deadlines) => deadlines.take(),
        }?;
        Some((cell, ring, self.limit(config)))
    }

    /// The limit of a circuit is the number of free places, so that long queues leave room for short ones.
    fn limit(&self, config: &QueueConfig) -> u32 {
        match self {
            Order::RoundRobin(circuits) => {
                let free = config.port_limit.saturating_sub(circuits.len());
                free.min(config.per_vc_limit)
            }
            Order::Deadlines(_) => config.per_vc_limit,
        }
    }

    /// Counts the cells held, for the tests of conservation.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        match self {
            Order::RoundRobin(circuits) => circuits.count(),
            Order::Deadlines(deadlines) => deadlines.count(),
        }
    }
}

/// Cells in a turn.
fn quantum(ring: u8, config: &QueueConfig) -> u32 {
    match ring < SIGNALLING {
        true => config.drr_weight,
        false => 1,
    }
}
