use layercast_core::{Span, Time};

use super::regulator::Regulator;
use super::{BEST_EFFORT, Discipline, QueueConfig, on_grid};

/// State of the frame in progress.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) enum Fate {
    #[default]
    Whole,
    Damaged,
    Refused,
}

/// A queue's state of a circuit.
#[derive(Debug)]
pub(super) struct Circuit {
    pub open: bool,
    /// Whether its cells have a contract. The regulator may exist longer, for cells held before.
    pub regulated: bool,
    pub ring: u8,
    pub fate: Fate,
    /// Cells in the queue, including the regulator.
    pub count: u32,
    /// Largest number of cells in the queue under a contract.
    pub reserved: u32,
    pub regulator: Option<Box<Regulator>>,
}

impl Circuit {
    pub const CLOSED: Circuit = Circuit {
        open: false,
        regulated: false,
        ring: BEST_EFFORT,
        fate: Fate::Whole,
        count: 0,
        reserved: 0,
        regulator: None,
    };

    /// Determines the destination of a cell that arrives now, and obstacles within its own circuit; `limit` applies
    /// to circuits without a contract.
    #[inline]
    pub fn wish(&mut self, now: Time, config: &QueueConfig, limit: u32, grid: Span) -> Wish {
        let regulator = match &mut self.regulator {
            Some(regulator) if self.regulated => regulator,
            _ => {
                return Wish {
                    place: Place::Ring,
                    shared: true,
                    late: false,
                    full: self.count >= limit,
                    eligible: None,
                };
            }
        };
        let eligible = regulator.eligible(now);
        let held = !regulator.held.is_empty() || on_grid(grid, eligible) > now;
        let shared = held && config.discipline == Discipline::RcspWc;
        Wish {
            place: if held {
                Place::Regulator(eligible)
            } else {
                Place::Ring
            },
            shared,
            late: eligible.since(now) > config.horizon,
            full: self.count >= self.reserved
                || shared && regulator.held.len() >= config.per_vc_limit as usize,
            eligible: Some(eligible),
        }
    }
}

/// Requirements of a cell.
pub(super) struct Wish {
    pub place: Place,
    /// A place in the shared buffer.
    pub shared: bool,
    /// Whether it would wait longer than the horizon.
    pub late: bool,
    /// Whether its circuit has used all its places.
    pub full: bool,
    /// Eligibility to account for in its contract.
    pub eligible: Option<Time>,
}

/// Destination of a cell.
pub(super) enum Place {
    Ring,
    Regulator(Time),
}
