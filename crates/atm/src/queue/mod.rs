//! The buffer and the scheduler of one output port of a switch or adapter.

mod circuit;
mod config;
mod deadlines;
mod order;
mod regulator;
mod round_robin;
mod runs;
mod stats;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BinaryHeap, VecDeque};

use layercast_core::{Span, Time};

use crate::level::{LEVELS, level_bound};
use crate::{Cell, Class, TrafficSpec, Vcid};
use circuit::{Circuit, Fate, Place};
use order::Order;
use regulator::{Head, Held, Regulator};

pub use config::{Discard, Discipline, QueueConfig, QueueConfigError};
pub use runs::{Departures, RunQueue};
pub use stats::{ClassStats, DropCause, Dropped, Drops, QueueStats};

/// One ring of cells for each delay level, then signalling, then best effort, in the order of service.
const RINGS: usize = LEVELS + 2;
const SIGNALLING: u8 = LEVELS as u8;
const BEST_EFFORT: u8 = SIGNALLING + 1;

/// The buffer and scheduler of one link (specs/insane-simulator.md 2.4, specs/insane-study.md 2.2).
///
/// The transmitter is outside: the driver of the link calls [`OutputQueue::dequeue`] when it is free. Service is not
/// preemptive, and first come, first served within a class. Under the two RCSP disciplines a circuit has a delay
/// level only with a valid contract, and its cells have reserved buffers; all other cells, including ineligible ones
/// of the work-conserving form, use the shared buffer.
///
/// Under [`Discipline::Drr`] circuits take turns, and under [`Discipline::Edf`] cells are sent by deadline;
/// signalling precedes both.
///
/// Cells that become eligible in one slot of the grid are sent in the order of their exact eligibility, then of
/// arrival. `now` never goes backwards.
#[derive(Debug)]
pub struct OutputQueue {
    config: QueueConfig,
    grid: Span,
    rings: [VecDeque<Cell>; RINGS],
    /// Bit `i` is set while ring `i` is not empty.
    waiting: u8,
    /// Holds the data cells instead of the rings, under disciplines other than priority.
    order: Option<Box<Order>>,
    /// The first held cell of each circuit that has any.
    heads: BinaryHeap<Reverse<Head>>,
    /// When the first of them becomes eligible.
    due: Time,
    circuits: Vec<Circuit>,
    /// Unused regulators, for reuse.
    #[expect(clippy::vec_box, reason = "a circuit has its regulator in a box")]
    spare: Vec<Box<Regulator>>,
    len: u32,
    /// Cells in the shared buffer.
    shared: u32,
    /// Current limit of cells of one circuit in the shared buffer.
    limit: u32,
    /// Below this number of cells in the shared buffer there is always room for one more.
    ample: u32,
    /// Bit `i` is set if the cells of ring `i` use the shared buffer.
    shares: u8,
    stats: QueueStats,
}

impl OutputQueue {
    /// Creates an empty queue without circuits.
    pub fn new(config: QueueConfig) -> Result<OutputQueue, QueueConfigError> {
        config.validate()?;
        let ample = config.port_limit.min(config.low_limit);
        let ample = match config.discard {
            Discard::Epd { threshold } => ample.min(threshold),
            Discard::None | Discard::Ppd => ample,
        };
        Ok(OutputQueue {
            config,
            ample,
            shares: match config.discipline.regulates() {
                true => 1 << SIGNALLING | 1 << BEST_EFFORT,
                false => u8::MAX,
            },
            grid: config.grid(),
            rings: Default::default(),
            waiting: 0,
            order: Order::of(config.discipline),
            heads: BinaryHeap::new(),
            due: Time::MAX,
            circuits: Vec::new(),
            spare: Vec::new(),
            len: 0,
            shared: 0,
            limit: config.per_vc_limit,
            stats: QueueStats::default(),
        })
    }

    /// Opens a circuit; `vc` is its number on the link of this queue.
    ///
    /// If it is already open, the new class and contract apply to later cells. An invalid contract counts as none.
    /// Numbers from `max_vcs` on are not opened: their cells are dropped as [`DropCause::UnknownVc`].
    pub fn open(&mut self, vc: Vcid, class: Class, traffic: Option<TrafficSpec>) {
        if vc.0 >= self.config.max_vcs {
            return;
        }
        let regulates = self.config.discipline.regulates();
        let contract = traffic.filter(|traffic| regulates && traffic.validate().is_ok());
        let ring = match class {
            Class::Signalling => SIGNALLING,
            Class::Level(level) if contract.is_some() || self.config.discipline.trusts() => {
                level.min(LEVELS as u8 - 1)
            }
            _ => BEST_EFFORT,
        };
        let contract = contract.filter(|_| ring < SIGNALLING);
        let index = usize::from(vc.0);
        if self.circuits.len() <= index {
            self.circuits.resize_with(index + 1, || Circuit::CLOSED);
        }
        let reserved = contract.map_or(0, |traffic| self.reserved(ring, &traffic));
        let circuit = &mut self.circuits[index];
        circuit.open = true;
        circuit.ring = ring;
        circuit.regulated = contract.is_some();
        circuit.reserved = reserved;
        circuit.fate = Fate::Whole;
        match (&mut circuit.regulator, contract) {
            (Some(regulator), Some(traffic)) => regulator.change(&traffic),
            (slot @ None, Some(traffic)) => {
                let mut regulator = self.spare.pop().unwrap_or_default();
                regulator.change(&traffic);
                *slot = Some(regulator);
            }
            (slot, None) if circuit.count == 0 => {
                self.spare.extend(slot.take().map(Regulator::spare))
            }
            (_, None) => {}
        }
    }

    /// Closes a circuit: queued cells are still sent, then it is removed.
    pub fn close(&mut self, vc: Vcid) {
        if let Some(circuit) = self.circuits.get_mut(usize::from(vc.0)) {
            circuit.open = false;
            if circuit.count == 0 {
                self.forget(vc);
            }
        }
    }

    /// Removes a closed circuit without cells.
    fn forget(&mut self, vc: Vcid) {
        let circuit = &mut self.circuits[usize::from(vc.0)];
        let circuit = std::mem::replace(circuit, Circuit::CLOSED);
        self.spare.extend(circuit.regulator.map(Regulator::spare));
    }

    /// Adds a cell, or drops it with a cause.
    #[inline]
    pub fn enqueue(&mut self, now: Time, cell: Cell) -> Result<(), Dropped> {
        if self.due <= now {
            self.promote(now);
        }
        self.stats.received += 1;
        let circuit = match self.circuits.get_mut(usize::from(cell.vc.0)) {
            Some(circuit) if circuit.open => circuit,
            _ => {
                self.stats.dropped.count(DropCause::UnknownVc);
                let cause = DropCause::UnknownVc;
                return Err(Dropped { cause });
            }
        };
        let ring = circuit.ring;
        self.stats.classes[usize::from(ring)].received += 1;
        // The common case: there is room for the cell under any rule.
        let is_plain = circuit.fate == Fate::Whole && !circuit.regulated && self.order.is_none();
        if is_plain && circuit.count < self.limit && self.shared < self.ample {
            circuit.count += 1;
            self.put(cell, ring);
        } else {
            self.judge(now, cell, ring)?;
        }
        self.len += 1;
        self.stats.max_len = self.stats.max_len.max(self.len);
        self.check();
        Ok(())
    }

    /// Adds a cell to its ring.
    #[inline]
    fn put(&mut self, cell: Cell, ring: u8) {
        self.rings[usize::from(ring)].push_back(cell);
        self.waiting |= 1 << ring;
        self.shared += self.share(ring);
    }

    /// Places a cell of this ring, if there is room.
    fn judge(&mut self, now: Time, cell: Cell, ring: u8) -> Result<(), Dropped> {
        let place = match self.find_room(now, cell) {
            Ok(place) => place,
            Err(cause) => {
                self.stats.classes[usize::from(ring)].dropped += 1;
                self.stats.dropped.count(cause);
                return Err(Dropped { cause });
            }
        };
        self.circuits[usize::from(cell.vc.0)].count += 1;
        match (place, &mut self.order) {
            (Place::Ring, Some(order)) if ring != SIGNALLING => {
                self.limit = order.put(now, cell, ring, &self.config);
                self.shared += 1;
            }
            (Place::Ring, _) => self.put(cell, ring),
            (Place::Regulator(eligible), _) => self.hold(cell, eligible, ring),
        }
        Ok(())
    }

    /// Whether any cell of this circuit would be sent immediately if it arrived while the link is free.
    #[inline]
    pub fn passes(&self, vc: Vcid) -> bool {
        // A limit is one cell at least.
        let circuit = self.circuits.get(usize::from(vc.0));
        self.len == 0
            && circuit.is_some_and(|it| it.open && !it.regulated && it.fate == Fate::Whole)
    }

    /// Sends a cell of this circuit immediately, like [`OutputQueue::enqueue`] and [`OutputQueue::dequeue`]; returns
    /// `false` and changes nothing if it might have to wait or be dropped.
    #[inline]
    pub fn pass(&mut self, vc: Vcid) -> bool {
        let passes = self.passes(vc);
        if passes {
            self.passed(vc, 1);
        }
        passes
    }

    /// Accounts for `count` cells of a circuit that were sent immediately, each with [`OutputQueue::passes`].
    #[inline]
    pub fn passed(&mut self, vc: Vcid, count: u64) {
        let ring = self.circuits[usize::from(vc.0)].ring;
        let class = &mut self.stats.classes[usize::from(ring)];
        class.received += count;
        class.sent += count;
        self.stats.received += count;
        self.stats.sent += count;
        self.stats.max_len = self.stats.max_len.max(1);
    }

    /// Returns the next cell to send now; `None` if none is held or eligible.
    #[inline]
    pub fn dequeue(&mut self, now: Time) -> Option<Cell> {
        if self.due <= now {
            self.promote(now);
        }
        let (cell, ring) = if self.waiting != 0 {
            let ring = self.waiting.trailing_zeros() as u8;
            let cells = &mut self.rings[usize::from(ring)];
            let cell = cells.pop_front()?;
            if cells.is_empty() {
                self.waiting &= !(1 << ring);
            }
            self.shared -= self.share(ring);
            (cell, ring)
        } else {
            self.choose()?
        };
        self.len -= 1;
        self.stats.sent += 1;
        self.stats.classes[usize::from(ring)].sent += 1;
        let circuit = &mut self.circuits[usize::from(cell.vc.0)];
        circuit.count -= 1;
        if circuit.count == 0 && !circuit.open {
            self.forget(cell.vc);
        }
        self.check();
        Some(cell)
    }

    /// The next cell to send while all rings are empty, with its class.
    fn choose(&mut self) -> Option<(Cell, u8)> {
        if let Some(order) = &mut self.order {
            let (cell, ring, limit) = order.take(&self.circuits, &self.config)?;
            self.limit = limit;
            self.shared -= 1;
            Some((cell, ring))
        } else if self.config.discipline == Discipline::RcspWc {
            let held = self.take_held()?;
            Some((held.cell, held.ring))
        } else {
            None
        }
    }

    /// Sends cells, the first at `at`, the others as soon as the link is free and they are eligible, before `until`;
    /// each is passed to `out`. Returns when the next one is to be sent or requested, if any is held.
    #[inline]
    pub fn drain(&mut self, at: Time, until: Time, mut out: impl FnMut(Time, Cell)) -> Time {
        let mut at = at;
        while at < until {
            at = match self.dequeue(at) {
                Some(cell) => {
                    out(at, cell);
                    match self.is_empty() {
                        true => Time::MAX,
                        false => at + self.config.cell_time,
                    }
                }
                None => self.next_eligible().unwrap_or(Time::MAX),
            };
        }
        at
    }

    /// When to retry after [`OutputQueue::dequeue`] returned `None` although cells are held: only under
    /// [`Discipline::RcspNwc`]. A cell that arrives meanwhile may be sent earlier.
    pub fn next_eligible(&self) -> Option<Time> {
        (self.waiting == 0 && !self.heads.is_empty()).then_some(self.due)
    }

    /// Lower bound of the number of held cells that leave before the last cell of a circuit.
    pub fn ahead(&self, vc: Vcid) -> u32 {
        let circuit = match self.circuits.get(usize::from(vc.0)) {
            Some(circuit) if !circuit.regulated => circuit,
            _ => return 0,
        };
        if circuit.ring != SIGNALLING && self.order.is_some() {
            return 0;
        }
        let rings = &self.rings[..=usize::from(circuit.ring)];
        let cells: usize = rings.iter().map(VecDeque::len).sum();
        cells.saturating_sub(1) as u32
    }

    /// Lower bound of the number of held cells that leave before the first cell of a kind.
    pub fn ahead_of(&self, kind: impl Fn(Cell) -> bool) -> u32 {
        if self.order.is_some() || !self.heads.is_empty() {
            return 0;
        }
        let cells = self.rings.iter().flatten();
        cells.take_while(|&&cell| !kind(cell)).count() as u32
    }

    /// Cells held, including ineligible ones.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether no cell is held.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Counters since the start.
    pub fn stats(&self) -> &QueueStats {
        &self.stats
    }

    /// Its configuration.
    pub fn config(&self) -> &QueueConfig {
        &self.config
    }

    /// Buffer of a circuit with a contract: the arrivals within its bound and that of the previous switch, plus what
    /// a regulator may hold up to its horizon (specs/insane-study.md 6).
    fn reserved(&self, ring: u8, traffic: &TrafficSpec) -> u32 {
        let bound = level_bound(ring, self.config.cell_time).times(2);
        let x_min = traffic.x_min.as_ps();
        let in_bounds = bound.as_ps().div_ceil(x_min);
        let in_horizon = self.config.horizon.as_ps() / x_min + 1;
        in_bounds.max(in_horizon).min(u64::from(u32::MAX)) as u32
    }

    /// Places in the shared buffer for a cell of this ring: one or none.
    #[inline]
    fn share(&self, ring: u8) -> u32 {
        u32::from(self.shares >> ring & 1)
    }

    /// Determines the place of a cell of an open circuit. Only an accepted cell is accounted for in its contract.
    #[inline]
    fn find_room(&mut self, now: Time, cell: Cell) -> Result<Place, DropCause> {
        let config = &self.config;
        let circuit = &mut self.circuits[usize::from(cell.vc.0)];
        match circuit.fate {
            Fate::Whole => {}
            // The last cell delimits the next frame, so it is not discarded with the frame.
            _ if cell.is_last() => circuit.fate = Fate::Whole,
            Fate::Damaged => return Err(DropCause::Ppd),
            Fate::Refused => return Err(DropCause::Epd),
        }
        let wish = circuit.wish(now, config, self.limit, self.grid);
        let crowded = match config.discard {
            Discard::Epd { threshold } => cell.is_first() && self.shared > threshold,
            Discard::None | Discard::Ppd => false,
        };
        let (cause, fate) = if wish.shared && crowded {
            (DropCause::Epd, Fate::Refused)
        } else if wish.late {
            (DropCause::Regulator, Fate::Damaged)
        } else if wish.full {
            (DropCause::VcLimit, Fate::Damaged)
        } else if wish.shared && self.shared >= config.port_limit {
            (DropCause::PortLimit, Fate::Damaged)
        } else if wish.shared && cell.is_low() && self.shared >= config.low_limit {
            (DropCause::Low, Fate::Damaged)
        } else {
            if let (Some(eligible), Some(regulator)) = (wish.eligible, &mut circuit.regulator) {
                regulator.charge(eligible);
            }
            return Ok(wish.place);
        };
        if config.discard != Discard::None && !cell.is_last() {
            circuit.fate = fate;
        }
        Err(cause)
    }

    fn hold(&mut self, cell: Cell, eligible: Time, ring: u8) {
        let Some(regulator) = &mut self.circuits[usize::from(cell.vc.0)].regulator else {
            return;
        };
        let held = Held {
            cell,
            eligible,
            order: self.stats.received,
            ring,
        };
        if regulator.held.is_empty() {
            self.heads.push(Reverse(held.head()));
            self.due = self.due.min(on_grid(self.grid, eligible));
        }
        regulator.held.push_back(held);
        self.shared += u32::from(self.config.discipline == Discipline::RcspWc);
    }

    /// Moves eligible cells to their rings.
    fn promote(&mut self, now: Time) {
        while self.due <= now {
            let Some(held) = self.take_held() else { return };
            self.rings[usize::from(held.ring)].push_back(held.cell);
            self.waiting |= 1 << held.ring;
        }
    }

    /// Removes the held cell with the earliest eligibility.
    fn take_held(&mut self) -> Option<Held> {
        let mut head = self.heads.peek_mut()?;
        let circuit = &mut self.circuits[usize::from(head.0.vc.0)];
        let regulator = circuit.regulator.as_mut()?;
        let held = regulator.held.pop_front()?;
        match regulator.held.front() {
            Some(next) => {
                head.0 = next.head();
                drop(head);
            }
            None => {
                PeekMut::pop(head);
            }
        }
        self.due = self
            .heads
            .peek()
            .map_or(Time::MAX, |head| on_grid(self.grid, head.0.eligible));
        self.shared -= u32::from(self.config.discipline == Discipline::RcspWc);
        Some(held)
    }

    fn check(&self) {
        let stats = &self.stats;
        debug_assert_eq!(
            stats.received,
            stats.sent + stats.dropped.total() + u64::from(self.len)
        );
    }

    /// Counts the cells held, for the tests of conservation.
    #[cfg(test)]
    fn count_held(&self) -> usize {
        let rings: usize = self.rings.iter().map(VecDeque::len).sum();
        let regulators = self.circuits.iter().flat_map(|circuit| &circuit.regulator);
        let held: usize = regulators.map(|regulator| regulator.held.len()).sum();
        rings + held + self.order.as_ref().map_or(0, |order| order.count())
    }
}

/// The first time on the grid at or after `at`: regulators work in slots.
fn on_grid(grid: Span, at: Time) -> Time {
    let slots = at.as_ps().div_ceil(grid.as_ps());
    Time::from_ps(slots.saturating_mul(grid.as_ps()))
}
