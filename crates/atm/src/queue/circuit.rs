use layercast_core::{Span, Time};

use super::regulator::Regulator;
use super::{BEST_EFFORT, Discipline, QueueConfig, on_grid};

/// How the frame that is passing fares.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) enum Fate {
    #[default]
    Whole,
    Damaged,
    Refused,
}

/// What the queue knows of a circuit.
#[derive(Debug)]
pub(super) struct Circuit {
    pub open: bool,
    /// Its cells have a contract. Its regulator may outlive that for cells held before.
    pub regulated: bool,
    pub ring: u8,
    pub fate: Fate,
    /// Cells in the queue, those of the regulator included.
    pub count: u32,
    /// Most cells in the queue if it has a contract.
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

    /// Where a cell that comes now should go, and what is in the way inside its own circuit; `limit` is for those
    /// without contract.
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

/// What a cell would need.
pub(super) struct Wish {
    pub place: Place,
    /// Room in the shared buffer.
    pub shared: bool,
    /// It would wait longer than the horizon.
    pub late: bool,
    /// Its circuit has all its room.
    pub full: bool,
    /// What to charge its contract with.
    pub eligible: Option<Time>,
}

/// Where a cell goes.
pub(super) enum Place {
    Ring,
    Regulator(Time),
}
