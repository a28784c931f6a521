use layercast_atm::{Cell, OutputQueue};
use layercast_core::{Span, Time};

use super::fabric::Fabric;
use super::port::Line;
use super::site_wires::SiteWires;

/// The queues of all ports and the wires between them.
#[derive(Debug)]
pub(super) struct Lines {
    queues: Vec<OutputQueue>,
    /// For each port when it next tries to send, if anything waits.
    pub leaves: Vec<Time>,
    pub wires: SiteWires,
}

impl Lines {
    /// Nothing waits and nothing is on its way; `alone` are the ports of the only adapters at their switches.
    pub fn new(fabric: &Fabric, queues: Vec<OutputQueue>, alone: impl Fn(u32) -> bool) -> Lines {
        Lines {
            leaves: vec![Time::MAX; queues.len()],
            queues,
            wires: SiteWires::new(fabric, alone),
        }
    }

    pub fn queue(&self, n: u32) -> &OutputQueue {
        &self.queues[n as usize]
    }

    /// The queue of a port, at a moment when what left it before an instant has.
    pub fn settled(&mut self, fabric: &mut Fabric, n: u32, until: Time) -> &mut OutputQueue {
        self.serve(fabric, n, until);
        &mut self.queues[n as usize]
    }

    /// A cell comes to the queue of a port.
    #[inline]
    pub fn take(&mut self, fabric: &mut Fabric, n: u32, now: Time, cell: Cell) {
        // At one instant, departures from the queue precede arrivals.
        if self.leaves[n as usize] <= now {
            self.drain(fabric, n, just_after(now));
        }
        let queue = &mut self.queues[n as usize];
        let port = &mut self.wires.ports[n as usize];
        if port.busy_until <= now && queue.pass(cell.vc) {
            return self.wires.emit(fabric, n, now, cell, false);
        }
        if queue.enqueue(now, cell).is_err() {
            return fabric.gone(cell.frame, 1);
        }
        if port.marks(cell) {
            port.mark_waits(queue.stats().sent + u64::from(queue.ahead(cell.vc)));
        }
        self.leaves[n as usize] = port.busy_until.max(now);
        if port.busy_until <= now {
            self.drain(fabric, n, just_after(now));
        }
    }

    /// A cell enters by a port of a switch and leaves by this line; so do those before a limit that follow it
    /// and need not wait.
    #[inline]
    pub fn go_on(
        &mut self,
        fabric: &mut Fabric,
        by: u32,
        now: Time,
        cell: Cell,
        line: Line,
        limit: Time,
    ) {
        let (vc, is_last) = (cell.vc, cell.is_last());
        let cell = Cell {
            vc: line.vc,
            ..cell
        };
        self.take(fabric, line.port, now, cell);
        let is_free = self.leaves[line.port as usize] == Time::MAX;
        if is_free && self.wires.heads[by as usize] < limit && !is_last {
            let queue = &mut self.queues[line.port as usize];
            if queue.passes(line.vc) {
                let count = self.wires.pass(fabric, by, vc, line, limit);
                queue.passed(line.vc, count);
            }
        }
    }

    /// Sends the cells that leave a port before an instant.
    #[inline]
    pub fn serve(&mut self, fabric: &mut Fabric, n: u32, until: Time) {
        if self.leaves[n as usize] < until {
            self.drain(fabric, n, until);
        }
    }

    fn drain(&mut self, fabric: &mut Fabric, n: u32, until: Time) {
        let wires = &mut self.wires;
        let at = self.leaves[n as usize];
        let emit = |at, cell| wires.emit(fabric, n, at, cell, true);
        self.leaves[n as usize] = self.queues[n as usize].drain(at, until, emit);
    }

    /// Before when nothing comes to a switch from the port of an adapter that may matter to one.
    #[inline]
    pub fn next_mark(&mut self, n: u32) -> Time {
        let by = self.wires.ports[n as usize].peer;
        match self.wires.marks[by as usize] {
            Time::MAX => self.next_queued_mark(n),
            at => at,
        }
    }

    /// Before when nothing that may matter to an adapter and waits at a port, of one or to one, is at the other end.
    #[inline]
    pub fn next_queued_mark(&mut self, n: u32) -> Time {
        match self.wires.ports[n as usize].queued_marks {
            0 => Time::MAX,
            _ => self.find_mark(n),
        }
    }

    fn find_mark(&mut self, n: u32) -> Time {
        let (queue, port) = (&self.queues[n as usize], &mut self.wires.ports[n as usize]);
        let sent = queue.stats().sent;
        if port.first_mark <= sent {
            // Unknown, or others have come that go before it.
            let ahead = queue.ahead_of(|cell| port.marks(cell));
            port.first_mark = sent + u64::from(ahead);
        }
        let way = port.way(port.first_mark - sent);
        self.leaves[n as usize].saturating_add(way)
    }
}

/// The instant after this one.
pub(super) fn just_after(at: Time) -> Time {
    at.saturating_add(Span::from_ps(1))
}
