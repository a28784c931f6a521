use std::collections::VecDeque;

use layercast_atm::{Cell, OutputQueue, Run};
use layercast_core::{Span, Time};

use super::SIGNALLING;
use super::due::{Due, Moment};
use super::fabric::{Arrival, Fabric};

/// The queues of all ports and the wires between them.
#[derive(Debug)]
pub(super) struct Lines {
    pub ports: Vec<SitePort>,
    /// For each port when it next tries to send, if anything waits.
    pub leaves: Vec<Time>,
    /// For each port of a switch when the next cell comes in by it, if one is on its way.
    pub heads: Vec<Time>,
    /// For each port to an adapter when that is told the next thing that is on its way.
    pub told: Due,
}

#[derive(Debug)]
pub(super) struct SitePort {
    pub queue: OutputQueue,
    /// When the cell being sent has left.
    busy_until: Time,
    cell_time: Span,
    delay: Span,
    pub peer: u32,
    /// Whether it is an adapter's.
    begins: bool,
    /// Whether it is that of the only adapter at a switch, from which nothing but answers to what it signals
    /// comes back.
    alone: bool,
    /// Whether an adapter is at the other end.
    pub ends: bool,
    wire: VecDeque<(Time, Cell)>,
    /// What may matter to an adapter: cells of signalling, and the last ones of frames unless they come from
    /// the only one there. How many are in the queue, and when those on the wire are at its end.
    queued_marks: u32,
    marks: VecDeque<Time>,
}

impl SitePort {
    #[inline]
    pub fn marks(&self, cell: Cell) -> bool {
        cell.vc == SIGNALLING || cell.is_last() && !self.alone
    }
}

impl Lines {
    /// Nothing waits and nothing is on its way; `alone` are the ports of the only adapters at their switches.
    pub fn new(fabric: &Fabric, queues: Vec<OutputQueue>, alone: impl Fn(u32) -> bool) -> Lines {
        let facts = &fabric.ports;
        let ports = queues.into_iter().zip(facts).zip(0..);
        let ports = ports.map(|((queue, port), n)| SitePort {
            queue,
            busy_until: Time::ZERO,
            cell_time: port.cell_time,
            delay: port.delay,
            peer: port.peer,
            begins: fabric.reassemblers[port.node as usize].is_some(),
            alone: alone(n),
            ends: fabric.ends(n),
            wire: VecDeque::new(),
            queued_marks: 0,
            marks: VecDeque::new(),
        });
        Lines {
            ports: ports.collect(),
            leaves: vec![Time::MAX; facts.len()],
            heads: vec![Time::MAX; facts.len()],
            told: Due::new(facts.len()),
        }
    }

    /// A cell comes to the queue of a port.
    #[inline]
    pub fn take(&mut self, fabric: &mut Fabric, n: u32, now: Time, cell: Cell) {
        // At one instant what leaves the queue does so before what comes.
        while self.leaves[n as usize] <= now {
            self.send(fabric, n, self.leaves[n as usize]);
        }
        let port = &mut self.ports[n as usize];
        if port.busy_until <= now && port.queue.pass(cell) {
            return self.emit(fabric, n, now, cell);
        }
        if port.queue.enqueue(now, cell).is_err() {
            return fabric.gone(cell.frame, 1);
        }
        port.queued_marks += u32::from(port.marks(cell));
        if port.busy_until > now {
            self.leaves[n as usize] = port.busy_until;
        } else {
            self.send(fabric, n, now);
        }
    }

    /// Sends what leaves a port before an instant.
    #[inline]
    pub fn serve(&mut self, fabric: &mut Fabric, n: u32, until: Time) {
        while self.leaves[n as usize] < until {
            self.send(fabric, n, self.leaves[n as usize]);
        }
    }

    /// Sends the next cell of a port whose link is free, if one may go.
    fn send(&mut self, fabric: &mut Fabric, n: u32, now: Time) {
        let port = &mut self.ports[n as usize];
        let Some(cell) = port.queue.dequeue(now) else {
            self.leaves[n as usize] = port.queue.next_eligible().unwrap_or(Time::MAX);
            return;
        };
        port.queued_marks -= u32::from(port.marks(cell));
        self.leaves[n as usize] = match port.queue.is_empty() {
            true => Time::MAX,
            false => now + port.cell_time,
        };
        self.emit(fabric, n, now, cell);
    }

    /// Puts a cell on the wire of a port that begins to leave now.
    #[inline]
    fn emit(&mut self, fabric: &mut Fabric, n: u32, now: Time, cell: Cell) {
        let port = &mut self.ports[n as usize];
        port.busy_until = now + port.cell_time;
        let arrives = port.busy_until + port.delay;
        if port.marks(cell) {
            if port.ends && port.marks.is_empty() {
                self.told.set(n, Some(fabric.moment(n, arrives)));
            }
            port.marks.push_back(arrives);
        }
        if !port.ends && port.wire.is_empty() {
            self.heads[port.peer as usize] = arrives;
        }
        port.wire.push_back((arrives, cell));
        #[cfg(test)]
        fabric.departs(n, &Run::of(cell, now));
    }

    /// Takes the next cell that comes in by a port of a switch from its wire.
    #[inline]
    pub fn arrive(&mut self, by: u32) -> Option<Cell> {
        let from = self.ports[by as usize].peer;
        let port = &mut self.ports[from as usize];
        let (_, cell) = port.wire.pop_front()?;
        if port.marks(cell) {
            port.marks.pop_front();
        }
        self.heads[by as usize] = port.wire.front().map_or(Time::MAX, |&(at, _)| at);
        Some(cell)
    }

    /// Which of two ports of a switch a cell comes in by first, if one comes by each at this instant.
    pub fn precedes(&self, fabric: &Fabric, one: u32, other: u32, at: Time) -> bool {
        let moment = |port: u32| fabric.moment(self.ports[port as usize].peer, at);
        at < Time::MAX && moment(one) < moment(other)
    }

    /// Before when nothing comes in by a port of a switch that may matter to an adapter, of what has been sent
    /// or waits for it at an adapter.
    pub fn next_mark(&self, by: u32) -> Time {
        let from = self.ports[by as usize].peer;
        let port = &self.ports[from as usize];
        match port.marks.front() {
            Some(&at) => at,
            None if port.begins => self.next_queued_mark(from),
            None => Time::MAX,
        }
    }

    /// Before when no adapter at the other end of a port of a switch is told of what waits for it there.
    pub fn next_sent_mark(&self, n: u32) -> Time {
        match self.ports[n as usize].ends {
            true => self.next_queued_mark(n),
            false => Time::MAX,
        }
    }

    /// Before when nothing that may matter to an adapter and waits at a port is at the other end.
    fn next_queued_mark(&self, n: u32) -> Time {
        let port = &self.ports[n as usize];
        match port.queued_marks > 0 {
            true => self.leaves[n as usize].saturating_add(port.cell_time + port.delay),
            false => Time::MAX,
        }
    }

    /// Gives the adapter at the other end of a port what comes there before a moment.
    pub fn deliver(&mut self, fabric: &mut Fabric, n: u32, until: Moment) -> Arrival {
        let port = &mut self.ports[n as usize];
        let node = fabric.ports[port.peer as usize].node;
        let mut arrival = Arrival::Nothing;
        while let Some(&(at, cell)) = port.wire.front()
            && (at < until.at || at == until.at && fabric.moment(n, at) < until)
        {
            port.wire.pop_front();
            if port.marks(cell) {
                port.marks.pop_front();
            }
            fabric.cell_hops += 1;
            arrival = match cell.vc == SIGNALLING {
                true => fabric.signal(n, cell.frame),
                false => fabric.reassemble(node, &Run::of(cell, at)),
            };
        }
        let next = port.marks.front().map(|&at| fabric.moment(n, at));
        self.told.set(n, next);
        arrival
    }
}
