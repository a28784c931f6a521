use core::hint::select_unpredictable;

use layercast_core::{Span, Time};

use super::circuit::Fate;
use super::{
    BEST_EFFORT, Discard, DropCause, QueueConfig, QueueConfigError, QueueStats, SIGNALLING,
};
use crate::{Class, Run, Vcid};

/// An [`OutputQueue`](super::OutputQueue) under [`Discipline::Fcfs`](super::Discipline::Fcfs) with its transmitter,
/// for many cells at a time.
///
/// Best effort is first come, first served, and only signalling has priority. So it stores no cells: the departure of
/// a cell is known on its arrival, except for later signalling. The configured discipline is ignored. Times never go
/// backwards between calls.
#[derive(Debug)]
pub struct RunQueue {
    config: QueueConfig,
    rooms: Rooms,
    circuits: Vec<Circuit>,
    /// When the link becomes free.
    free: Time,
    /// Departure of the last signalling cell.
    signalled: Time,
    /// Total delay by signalling.
    put_off: Span,
    /// Longest backlog of the link at an arrival.
    longest: Span,
    /// Counters, without departures and the largest length.
    stats: QueueStats,
}

/// Destination of departures. It is informed in advance, and departures may be delayed later.
pub trait Departures {
    /// Adds cells that begin to leave at the times of the run.
    fn add(&mut self, run: Run);

    /// Delays all best-effort cells that begin to leave after a time.
    fn put_off(&mut self, after: Time, by: Span);

    /// Number of a circuit's cells that begin to leave after a time.
    fn count_after(&self, vc: Vcid, after: Time) -> u32;
}

/// Longest backlog of the link at which there is room for a cell, by limiting rule.
#[derive(Clone, Copy, Debug)]
struct Rooms {
    port: Span,
    low: Span,
    first: Span,
    /// For any cell.
    all: Span,
}

/// The queue's state of a circuit.
#[derive(Clone, Copy, Debug)]
struct Circuit {
    open: bool,
    signals: bool,
    fate: Fate,
    /// Upper bound of its waiting cells.
    count: u32,
    /// Latest departure of the last of them without delays; actual delays are added.
    left: Time,
}

const CLOSED: Circuit = Circuit {
    open: false,
    signals: false,
    fate: Fate::Whole,
    count: 0,
    left: Time::ZERO,
};

impl RunQueue {
    /// Creates an empty queue without circuits, with an idle link.
    pub fn new(config: QueueConfig) -> Result<RunQueue, QueueConfigError> {
        config.validate()?;
        let room = |cells: u32| config.cell_time.times(u64::from(cells));
        let (port, low) = (room(config.port_limit), room(config.low_limit));
        let first = match config.discard {
            Discard::Epd { threshold } => room(threshold.saturating_add(1)),
            Discard::None | Discard::Ppd => Span::MAX,
        };
        let all = port.min(low).min(first).min(room(config.per_vc_limit));
        Ok(RunQueue {
            config,
            rooms: Rooms {
                port,
                low,
                first,
                all,
            },
            circuits: Vec::new(),
            free: Time::ZERO,
            signalled: Time::ZERO,
            put_off: Span::ZERO,
            longest: Span::ZERO,
            stats: QueueStats::default(),
        })
    }

    /// As [`OutputQueue::open`](super::OutputQueue::open).
    pub fn open(&mut self, vc: Vcid, class: Class) {
        if vc.0 >= self.config.max_vcs {
            return;
        }
        let index = usize::from(vc.0);
        if self.circuits.len() <= index {
            self.circuits.resize(index + 1, CLOSED);
        }
        let circuit = &mut self.circuits[index];
        circuit.open = true;
        circuit.signals = class == Class::Signalling;
        circuit.fate = Fate::Whole;
    }

    /// As [`OutputQueue::close`](super::OutputQueue::close).
    pub fn close(&mut self, vc: Vcid) {
        if let Some(circuit) = self.circuits.get_mut(usize::from(vc.0)) {
            circuit.open = false;
        }
    }

    /// Adds cells that arrive at the times of the run and drops those without room; returns the number dropped.
    #[inline(always)]
    pub fn put(&mut self, run: Run, out: &mut impl Departures) -> u32 {
        let count = u64::from(run.count);
        self.stats.received += count;
        let most = self.most_before(&run);
        let circuit = match self.circuits.get_mut(usize::from(run.vc.0)) {
            Some(circuit) if circuit.open => circuit,
            _ => {
                self.stats.dropped.unknown_vc += count;
                return run.count;
            }
        };
        if circuit.signals || circuit.fate != Fate::Whole || most > self.rooms.all {
            return self.judge(run, most, out);
        }
        self.stats.classes[usize::from(BEST_EFFORT)].received += count;
        self.longest = self.longest.max(most);
        follow(&mut self.free, &self.config, run, out);
        circuit.add(&run, self.free, self.put_off);
        0
    }

    /// Handles cells of which some may have to be dropped.
    #[inline(never)]
    fn judge(&mut self, run: Run, most: Span, out: &mut impl Departures) -> u32 {
        let circuit = &self.circuits[usize::from(run.vc.0)];
        self.stats.classes[circuit.ring()].received += u64::from(run.count);
        let whole = circuit.fate == Fate::Whole && !circuit.signals;
        if whole && self.admits(&run, most, out) {
            self.longest = self.longest.max(most);
            self.take(run, out);
            return 0;
        }
        self.sift(run, out)
    }

    /// Upper bound of the backlog when one of these cells arrives, if all are accepted.
    #[inline]
    fn most_before(&self, run: &Run) -> Span {
        let first = self.free.since(run.at);
        if run.gap >= self.config.cell_time || run.count == 1 {
            return first;
        }
        // If they arrive faster than they leave, the backlog is largest at the last.
        let begins = self.free.max(self.config.ready(run.at));
        let last = begins + self.config.cell_time.times(u64::from(run.count - 1));
        first.max(last.since(run.last_at()))
    }

    /// Whether there is room for all of these cells.
    fn admits(&mut self, run: &Run, most: Span, out: &impl Departures) -> bool {
        let rooms = &self.rooms;
        let is_refused = run.is_first() && self.free.since(run.at) > rooms.first;
        !is_refused
            && most <= rooms.port
            && (!run.is_low() || most <= rooms.low)
            && self.has_room(run, out)
    }

    /// Whether a circuit may have that many further cells.
    fn has_room(&mut self, run: &Run, out: &impl Departures) -> bool {
        let put_off = self.put_off;
        let circuit = &mut self.circuits[usize::from(run.vc.0)];
        circuit.refresh(run.at, put_off);
        let limit = self.config.per_vc_limit;
        let fits = |held: u32| held.saturating_add(run.count) <= limit;
        if !fits(circuit.count) {
            circuit.count = out.count_after(run.vc, run.at);
        }
        fits(circuit.count)
    }

    /// Handles each cell separately.
    fn sift(&mut self, run: Run, out: &mut impl Departures) -> u32 {
        let mut dropped = 0;
        for cell in run.cells() {
            match self.refuses(&cell, out) {
                None => {
                    self.longest = self.longest.max(self.free.since(cell.at));
                    self.take(cell, out);
                }
                Some(cause) => {
                    let ring = self.circuits[usize::from(cell.vc.0)].ring();
                    self.stats.classes[ring].dropped += 1;
                    self.stats.dropped.count(cause);
                    dropped += 1;
                }
            }
        }
        dropped
    }

    /// Reason why there is no room for a cell.
    fn refuses(&mut self, cell: &Run, out: &impl Departures) -> Option<DropCause> {
        let before = self.free.since(cell.at);
        let circuit = &mut self.circuits[usize::from(cell.vc.0)];
        match circuit.fate {
            Fate::Whole => {}
            // The last cell delimits the next frame, so it is not discarded with the frame.
            _ if cell.is_last() => circuit.fate = Fate::Whole,
            Fate::Damaged => return Some(DropCause::Ppd),
            Fate::Refused => return Some(DropCause::Epd),
        }
        let (cause, fate) = if cell.is_first() && before > self.rooms.first {
            (DropCause::Epd, Fate::Refused)
        } else if !self.has_room(cell, out) {
            (DropCause::VcLimit, Fate::Damaged)
        } else if before > self.rooms.port {
            (DropCause::PortLimit, Fate::Damaged)
        } else if cell.is_low() && before > self.rooms.low {
            (DropCause::Low, Fate::Damaged)
        } else {
            return None;
        };
        if self.config.discard != Discard::None && !cell.is_last() {
            self.circuits[usize::from(cell.vc.0)].fate = fate;
        }
        Some(cause)
    }

    /// Accepts cells that all have room.
    fn take(&mut self, run: Run, out: &mut impl Departures) {
        if self.circuits[usize::from(run.vc.0)].signals {
            run.cells().for_each(|cell| self.signal(cell, out));
        } else {
            follow(&mut self.free, &self.config, run, out);
        }
        // For signalling this is later than the actual departure.
        self.circuits[usize::from(run.vc.0)].add(&run, self.free, self.put_off);
    }

    /// A signalling cell leaves before all best-effort cells that have not begun to.
    fn signal(&mut self, cell: Run, out: &mut impl Departures) {
        let cell_time = self.config.cell_time;
        let waiting = cell_time.times(u64::from(self.len(cell.at)));
        let idle = self.free.max(self.config.ready(cell.at));
        let start = idle.saturating_sub(waiting).max(self.signalled);
        if start < idle {
            out.put_off(cell.at, cell_time);
            self.put_off += cell_time;
        }
        self.free = idle + cell_time;
        self.signalled = start + cell_time;
        out.add(cell.leaving(start, cell_time));
    }

    /// Cells waiting at a time, after all earlier arrivals.
    #[inline]
    pub fn len(&self, now: Time) -> u32 {
        self.waiting(self.free, now)
    }

    /// Number of cells that begin to leave back to back after a time, if the last one has left at another.
    fn waiting(&self, left: Time, now: Time) -> u32 {
        let cells = left
            .since(now)
            .as_ps()
            .div_ceil(self.config.cell_time.as_ps());
        cells.saturating_sub(1) as u32
    }

    /// Counters up to a time, after all earlier arrivals.
    pub fn stats(&self, now: Time) -> QueueStats {
        let mut stats = self.stats;
        let waiting = self.len(now);
        let signals = self.waiting(self.signalled, now);
        let held = [(SIGNALLING, signals), (BEST_EFFORT, waiting - signals)];
        for (ring, held) in held {
            let class = &mut stats.classes[usize::from(ring)];
            class.sent = class.received - class.dropped - u64::from(held);
            stats.sent += class.sent;
        }
        if stats.sent > 0 || waiting > 0 {
            let cells = self.longest.as_ps().div_ceil(self.config.cell_time.as_ps());
            stats.max_len = cells.max(1) as u32;
        }
        stats
    }

    /// Its configuration.
    pub fn config(&self) -> &QueueConfig {
        &self.config
    }
}

impl Circuit {
    /// Clears the count of a circuit whose cells have all left, even with all delays.
    #[inline(always)]
    fn refresh(&mut self, now: Time, put_off: Span) {
        let none = self.left + put_off <= now;
        self.count = select_unpredictable(none, 0, self.count);
    }

    /// Adds cells, of which the last has left when the link becomes free.
    #[inline(always)]
    fn add(&mut self, run: &Run, free: Time, put_off: Span) {
        self.refresh(run.at, put_off);
        self.count = self.count.saturating_add(run.count);
        self.left = free.saturating_sub(put_off);
    }

    fn ring(&self) -> usize {
        usize::from(if self.signals {
            SIGNALLING
        } else {
            BEST_EFFORT
        })
    }
}

/// Best-effort cells leave after all others, when the link is free.
#[inline(always)]
fn follow(free: &mut Time, config: &QueueConfig, mut run: Run, out: &mut impl Departures) {
    let cell_time = config.cell_time;
    let start = (*free).max(config.ready(run.at));
    if run.gap > cell_time && run.count > 1 {
        // Number of cells that leave back to back until one arrives at an idle link.
        let gain = run.gap.as_ps() - cell_time.as_ps();
        let close = match start == run.at {
            true => 0,
            false => start.since(run.at).as_ps() / gain + 1,
        };
        if close < u64::from(run.count) {
            if close > 0 {
                out.add(run.take(close as u32).leaving(start, cell_time));
            }
            *free = run.last_at() + cell_time;
            return out.add(run);
        }
    }
    run = run.leaving(start, cell_time);
    *free = run.last_at() + cell_time;
    out.add(run);
}
