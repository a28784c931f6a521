use core::hint::select_unpredictable;

use layercast_core::{Span, Time};

use super::circuit::Fate;
use super::{
    BEST_EFFORT, Discard, DropCause, QueueConfig, QueueConfigError, QueueStats, SIGNALLING,
};
use crate::{Class, Run, Vcid};

/// An [`OutputQueue`](super::OutputQueue) under [`Discipline::Fcfs`](super::Discipline::Fcfs) with its
/// transmitter, for many cells at a time.
///
/// Best effort goes as it came, and only signalling goes before it. So it holds no cells: when one leaves is known
/// when it comes, but for the signalling that still may come. The discipline of the configuration is of no account.
/// Instants never go backwards, from call to call.
#[derive(Debug)]
pub struct RunQueue {
    config: QueueConfig,
    rooms: Rooms,
    circuits: Vec<Circuit>,
    /// When the link is free again.
    free: Time,
    /// When the last cell of signalling has left it.
    signalled: Time,
    /// How long cells have been put off, in all.
    put_off: Span,
    /// The longest that the link had before it when a cell came.
    longest: Span,
    /// But for what has left, and how many waited at most.
    stats: QueueStats,
}

/// Where a [`RunQueue`] puts what leaves it. It is told before that happens, and what has not left yet may be put off.
pub trait Departures {
    /// Cells begin to leave at the instants of the run.
    fn add(&mut self, run: Run);

    /// All cells of best effort that begin to leave after an instant do so later by this.
    fn put_off(&mut self, after: Time, by: Span);

    /// How many cells of a circuit begin to leave after an instant.
    fn count_after(&self, vc: Vcid, after: Time) -> u32;
}

/// How long the link may be busy yet when a cell comes for which there is room, by what limits that.
#[derive(Clone, Copy, Debug)]
struct Rooms {
    port: Span,
    low: Span,
    first: Span,
    /// Whatever the cell.
    all: Span,
}

/// What the queue knows of a circuit.
#[derive(Clone, Copy, Debug)]
struct Circuit {
    open: bool,
    signals: bool,
    fate: Fate,
    /// How many of its cells wait at most.
    count: u32,
    /// When the last of them has left at the latest if cells have not been put off in all; as much later as they have.
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
    /// An empty queue without circuits, before an idle link.
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

    /// Takes cells that come at the instants of the run, and drops those without room; how many.
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
        follow(&mut self.free, self.config.cell_time, run, out);
        circuit.add(&run, self.free, self.put_off);
        0
    }

    /// Takes cells that may have to be dropped, or are of signalling.
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

    /// How long the link is busy yet at most when one of these comes, if all are taken.
    #[inline]
    fn most_before(&self, run: &Run) -> Span {
        let first = self.free.since(run.at);
        if run.gap >= self.config.cell_time || run.count == 1 {
            return first;
        }
        // Faster than they leave it is longest when the last comes.
        let begins = self.free.max(run.at);
        let last = begins + self.config.cell_time.times(u64::from(run.count - 1));
        first.max(last.since(run.last_at()))
    }

    /// Whether there is room for all of these at once.
    fn admits(&mut self, run: &Run, most: Span, out: &impl Departures) -> bool {
        let rooms = &self.rooms;
        let is_refused = run.is_first() && self.free.since(run.at) > rooms.first;
        !is_refused
            && most <= rooms.port
            && (!run.is_low() || most <= rooms.low)
            && self.has_room(run, out)
    }

    /// Whether a circuit may have as many more cells.
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

    /// Each cell on its own.
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

    /// Why there is no room for a cell.
    fn refuses(&mut self, cell: &Run, out: &impl Departures) -> Option<DropCause> {
        let before = self.free.since(cell.at);
        let circuit = &mut self.circuits[usize::from(cell.vc.0)];
        match circuit.fate {
            Fate::Whole => {}
            // The last cell delimits the next frame, so it has its chance.
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

    /// Cells for all of which there is room.
    fn take(&mut self, run: Run, out: &mut impl Departures) {
        if self.circuits[usize::from(run.vc.0)].signals {
            run.cells().for_each(|cell| self.signal(cell, out));
        } else {
            follow(&mut self.free, self.config.cell_time, run, out);
        }
        // Of signalling that is later than it is.
        self.circuits[usize::from(run.vc.0)].add(&run, self.free, self.put_off);
    }

    /// A cell of signalling leaves before all of best effort that have not begun to.
    fn signal(&mut self, cell: Run, out: &mut impl Departures) {
        let cell_time = self.config.cell_time;
        let waiting = cell_time.times(u64::from(self.len(cell.at)));
        let idle = self.free.max(cell.at);
        let start = idle.saturating_sub(waiting).max(self.signalled);
        if start < idle {
            out.put_off(cell.at, cell_time);
            self.put_off += cell_time;
        }
        self.free = idle + cell_time;
        self.signalled = start + cell_time;
        out.add(cell.leaving(start, cell_time));
    }

    /// Cells that wait at an instant, before which all came that did.
    #[inline]
    pub fn len(&self, now: Time) -> u32 {
        self.waiting(self.free, now)
    }

    /// How many begin to leave back to back after an instant if the last has left at another.
    fn waiting(&self, left: Time, now: Time) -> u32 {
        let cells = left
            .since(now)
            .as_ps()
            .div_ceil(self.config.cell_time.as_ps());
        cells.saturating_sub(1) as u32
    }

    /// What it has seen until an instant, before which all came that did.
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
    /// None of its cells wait if all have left, which they have at the latest if each time they were put off.
    #[inline(always)]
    fn refresh(&mut self, now: Time, put_off: Span) {
        let none = self.left + put_off <= now;
        self.count = select_unpredictable(none, 0, self.count);
    }

    /// Cells come, of which the last has left at the latest when the link is free.
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

/// Cells of best effort leave after all others, when the link is free.
#[inline(always)]
fn follow(free: &mut Time, cell_time: Span, mut run: Run, out: &mut impl Departures) {
    let start = (*free).max(run.at);
    if run.gap > cell_time && run.count > 1 {
        // So many leave back to back until one comes to an idle link.
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
