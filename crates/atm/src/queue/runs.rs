use layercast_core::{Span, Time};

use super::circuit::Fate;
use super::{
    BEST_EFFORT, Discard, DropCause, QueueConfig, QueueConfigError, QueueStats, SIGNALLING,
};
use crate::{Class, Run, Runs, Vcid};

/// An [`OutputQueue`](super::OutputQueue) under [`Discipline::Fcfs`](super::Discipline::Fcfs) with its
/// transmitter, for many cells at a time.
///
/// Best effort goes as it came, and only signalling goes before it. So all departures up to an instant follow
/// from what came up to it, and are told when somebody asks. The discipline of the configuration is of no
/// account. Instants never go backwards, from call to call.
#[derive(Debug)]
pub struct RunQueue {
    config: QueueConfig,
    circuits: Vec<Circuit>,
    signals: Runs,
    waiting: Runs,
    /// How many of best effort came before the first last cell that waits; none does: `NONE`.
    last: u64,
    /// Cells of best effort that came in, and that have begun to leave.
    came: u64,
    begun: u64,
    len: u32,
    /// When the link is free again.
    free: Time,
    stats: QueueStats,
}

/// What the queue knows of a circuit.
#[derive(Clone, Copy, Debug)]
struct Circuit {
    open: bool,
    signals: bool,
    fate: Fate,
    /// Cells in the queue.
    count: u32,
}

const NONE: u64 = u64::MAX;

const CLOSED: Circuit = Circuit {
    open: false,
    signals: false,
    fate: Fate::Whole,
    count: 0,
};

impl RunQueue {
    /// An empty queue without circuits, before an idle link.
    pub fn new(config: QueueConfig) -> Result<RunQueue, QueueConfigError> {
        config.validate()?;
        Ok(RunQueue {
            config,
            circuits: Vec::new(),
            signals: Runs::default(),
            waiting: Runs::default(),
            last: NONE,
            came: 0,
            begun: 0,
            len: 0,
            free: Time::ZERO,
            stats: QueueStats::default(),
        })
    }

    /// As [`OutputQueue::open`](super::OutputQueue::open), after [`RunQueue::serve`] up to now.
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

    /// As [`OutputQueue::close`](super::OutputQueue::close), after [`RunQueue::serve`] up to now.
    pub fn close(&mut self, vc: Vcid) {
        if let Some(circuit) = self.circuits.get_mut(usize::from(vc.0)) {
            circuit.open = false;
            if circuit.count == 0 {
                *circuit = CLOSED;
            }
        }
    }

    /// Takes cells that come at the instants of the run, and drops those without room; how many. Some of what
    /// begins to leave before they come goes to `out`: all that may matter for them.
    #[inline]
    pub fn put(&mut self, run: Run, out: &mut impl FnMut(Run)) -> u32 {
        let count = u64::from(run.count);
        self.stats.received += count;
        let circuit = match self.circuits.get(usize::from(run.vc.0)) {
            Some(circuit) if circuit.open => *circuit,
            _ => {
                self.stats.dropped.unknown_vc += count;
                return run.count;
            }
        };
        self.stats.classes[circuit.ring()].received += count;
        // Where there is room even if nothing had left, and no more than ever, what has does not matter.
        let most = u64::from(self.len) + count;
        if !circuit.signals && most <= u64::from(self.stats.max_len) && self.admits(&run) {
            self.take(run);
            return 0;
        }
        self.serve(run.at, out);
        if self.admits(&run) {
            self.raise(&run);
            self.take(run);
            return 0;
        }
        self.sift(run, out)
    }

    /// Whether there is room for all these cells at once.
    #[inline]
    fn admits(&self, run: &Run) -> bool {
        let circuit = &self.circuits[usize::from(run.vc.0)];
        let count = u64::from(run.count);
        let room = |held: u32, limit: u32| u64::from(held) + count <= u64::from(limit);
        circuit.fate == Fate::Whole
            && !(run.is_first() && self.crowded())
            && room(circuit.count, self.config.per_vc_limit)
            && room(self.len, self.config.port_limit)
            && (!run.is_low() || room(self.len, self.config.low_limit))
    }

    /// Each cell on its own.
    fn sift(&mut self, run: Run, out: &mut impl FnMut(Run)) -> u32 {
        let mut dropped = 0;
        for cell in run.cells() {
            self.serve(cell.at, out);
            match self.refuses(&cell) {
                None => {
                    self.raise(&cell);
                    self.take(cell);
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
    fn refuses(&mut self, cell: &Run) -> Option<DropCause> {
        let crowded = self.crowded();
        let circuit = &mut self.circuits[usize::from(cell.vc.0)];
        match circuit.fate {
            Fate::Whole => {}
            // The last cell delimits the next frame, so it has its chance.
            _ if cell.is_last() => circuit.fate = Fate::Whole,
            Fate::Damaged => return Some(DropCause::Ppd),
            Fate::Refused => return Some(DropCause::Epd),
        }
        let (cause, fate) = if cell.is_first() && crowded {
            (DropCause::Epd, Fate::Refused)
        } else if circuit.count >= self.config.per_vc_limit {
            (DropCause::VcLimit, Fate::Damaged)
        } else if self.len >= self.config.port_limit {
            (DropCause::PortLimit, Fate::Damaged)
        } else if cell.is_low() && self.len >= self.config.low_limit {
            (DropCause::Low, Fate::Damaged)
        } else {
            return None;
        };
        if self.config.discard != Discard::None && !cell.is_last() {
            circuit.fate = fate;
        }
        Some(cause)
    }

    fn crowded(&self) -> bool {
        matches!(self.config.discard, Discard::Epd { threshold } if self.len > threshold)
    }

    /// Counts how many wait at most while these come.
    fn raise(&mut self, run: &Run) {
        // Faster than they leave they are most when the last comes, otherwise when the first does.
        let mut most = self.len + 1;
        if run.count > 1 && run.gap < self.config.cell_time {
            let (begin, last) = (self.free.max(run.at), run.last_at());
            let begun = match last >= begin {
                true => last.since(begin).as_ps() / self.config.cell_time.as_ps() + 1,
                false => 0,
            };
            most = most.max(self.len + run.count - begun as u32);
        }
        self.stats.max_len = self.stats.max_len.max(most);
    }

    /// Puts cells for all of which there is room behind the others.
    #[inline(always)]
    fn take(&mut self, run: Run) {
        let circuit = &mut self.circuits[usize::from(run.vc.0)];
        circuit.count += run.count;
        self.len += run.count;
        if circuit.signals {
            return self.signals.push(run);
        }
        self.came += u64::from(run.count);
        let last = if run.is_last() { self.came - 1 } else { NONE };
        self.last = self.last.min(last);
        self.waiting.push(run);
    }

    /// What begins to leave until `now`, that instant included, goes to `out`.
    #[inline]
    pub fn serve(&mut self, now: Time, out: &mut impl FnMut(Run)) {
        loop {
            let start = self.next();
            if start > now {
                return;
            }
            let signals = !self.signals.is_empty();
            let ring = match signals {
                true => &mut self.signals,
                false => &mut self.waiting,
            };
            let Some(head) = ring.head() else {
                return;
            };
            let (count, gap) = leaving(head, start, now, self.config.cell_time);
            let Some(taken) = ring.take(count) else {
                return;
            };
            let run = Run {
                at: start,
                gap,
                ..taken
            };
            self.free = run.last_at() + self.config.cell_time;
            self.len -= count;
            self.stats.sent += u64::from(count);
            let circuit = &mut self.circuits[usize::from(run.vc.0)];
            circuit.count -= count;
            if circuit.count == 0 && !circuit.open {
                *circuit = CLOSED;
            }
            if signals {
                self.stats.classes[usize::from(SIGNALLING)].sent += u64::from(count);
            } else {
                self.stats.classes[usize::from(BEST_EFFORT)].sent += u64::from(count);
                self.begun += u64::from(count);
                if run.is_last() {
                    self.seek_last();
                }
            }
            out(run);
        }
    }

    /// Finds the first last cell that waits, after the one before it left.
    #[inline]
    fn seek_last(&mut self) {
        let mut came = self.begun;
        for run in self.waiting.iter() {
            came += u64::from(run.count);
            if run.is_last() {
                self.last = came - 1;
                return;
            }
        }
        self.last = NONE;
    }

    /// Before when nothing that waits begins to leave; the end of time if nothing waits.
    #[inline]
    pub fn next(&self) -> Time {
        let head = match self.signals.is_empty() {
            true => self.waiting.first(),
            false => self.signals.first(),
        };
        self.free.max(head)
    }

    /// Before when no cell of signalling begins to leave, or the end of time: then one does, unless another comes
    /// before it.
    #[inline]
    pub fn next_signal(&self) -> Time {
        self.free.max(self.signals.first())
    }

    /// Before when no last cell of best effort begins to leave, or the end of time. Up to date after
    /// [`RunQueue::serve`], one does then unless signalling comes before it.
    #[inline]
    pub fn next_last(&self) -> Time {
        // With none there are as many ahead of it as take for ever.
        let ahead = (self.last - self.begun).saturating_add(self.signals.len() as u64);
        let ahead = self.config.cell_time.times(ahead);
        self.next().saturating_add(ahead)
    }

    /// Cells that wait.
    #[inline]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether none waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// What it has seen.
    pub fn stats(&self) -> &QueueStats {
        &self.stats
    }

    /// Its configuration.
    pub fn config(&self) -> &QueueConfig {
        &self.config
    }
}

impl Circuit {
    fn ring(&self) -> usize {
        usize::from(if self.signals {
            SIGNALLING
        } else {
            BEST_EFFORT
        })
    }
}

/// How many cells of a run leave until `now` at equal distances, the first of them at `start`, and at which.
#[inline]
fn leaving(run: &Run, start: Time, now: Time, cell_time: Span) -> (u32, Span) {
    let mut most = run.count;
    let mut gap = cell_time;
    if (run.gap > cell_time) & (run.count > 1) {
        if start == run.at {
            gap = run.gap;
        } else {
            // They catch up: so many leave back to back until one comes to an idle link.
            let gain = run.gap.as_ps() - cell_time.as_ps();
            let back_to_back = start.since(run.at).as_ps() / gain;
            most = most.min(back_to_back.min(u64::from(u32::MAX - 1)) as u32 + 1);
        }
    }
    if start + gap.times(u64::from(most - 1)) > now {
        most = (now.since(start).as_ps() / gap.as_ps()) as u32 + 1;
    }
    (most, gap)
}
