//! The reference: each cell is an event where it arrives, and one more where it had to wait.

use std::collections::VecDeque;

use layercast_atm::{Cell, OutputQueue, Run};
use layercast_core::Time;

use super::SIGNALLING;
use super::due::{Due, Moment};
use super::fabric::{Arrival, Fabric};
use super::seen::Seen;

#[derive(Debug)]
pub(super) struct Cells {
    ports: Vec<CellPort>,
    due: Due,
    /// If somebody wants to see the cells.
    pub seen: Option<Box<Seen>>,
}

#[derive(Debug)]
struct CellPort {
    queue: OutputQueue,
    /// When the cell being sent has left.
    busy_until: Time,
    /// When the next cell may leave, if one waits.
    leaves: Option<Time>,
    /// When the first of what is on its way is at the other end.
    arrives: Option<Moment>,
    wire: VecDeque<(Time, Cell)>,
}

impl Cells {
    pub fn new(queues: Vec<OutputQueue>) -> Cells {
        let ports = queues.into_iter().map(|queue| CellPort {
            queue,
            busy_until: Time::ZERO,
            leaves: None,
            arrives: None,
            wire: VecDeque::new(),
        });
        let ports: Vec<_> = ports.collect();
        Cells {
            due: Due::new(ports.len()),
            ports,
            seen: None,
        }
    }

    /// When something is due.
    pub fn next(&self) -> Option<Time> {
        self.due.first().map(|(moment, _)| moment.at)
    }

    pub fn queue(&self, port: u32) -> &OutputQueue {
        &self.ports[port as usize].queue
    }

    /// The queue of a port, at a moment when what left it has.
    pub fn settled(&mut self, fabric: &mut Fabric, port: u32) -> &mut OutputQueue {
        self.transmit(fabric, port);
        &mut self.ports[port as usize].queue
    }

    /// A cell, which is the `index`th of its frame, comes to the queue of the port where it enters.
    pub fn enter(&mut self, fabric: &mut Fabric, port: u32, cell: Cell, index: u32) {
        let cell = match &mut self.seen {
            Some(seen) => seen.enter(cell, index),
            None => cell,
        };
        self.put(fabric, port, cell);
    }

    /// A cell is no more; gives it as it entered.
    fn leave(&mut self, cell: Cell) -> Cell {
        match &mut self.seen {
            Some(seen) => seen.leave(cell),
            None => cell,
        }
    }

    /// A cell comes to the queue of a port.
    fn put(&mut self, fabric: &mut Fabric, port: u32, cell: Cell) {
        // At one instant, departures from the queue precede arrivals.
        let now = fabric.now.at;
        match self.settled(fabric, port).enqueue(now, cell) {
            Ok(()) => self.transmit(fabric, port),
            Err(_) => fabric.gone(self.leave(cell).frame, 1),
        }
    }

    /// What is due happens.
    pub fn step(&mut self, fabric: &mut Fabric) -> Arrival {
        let Some((moment, n)) = self.due.first() else {
            return Arrival::Nothing;
        };
        fabric.now = fabric.now.max(moment);
        let port = &mut self.ports[n as usize];
        if port.leaves == Some(moment.at) {
            port.leaves = None;
            self.transmit(fabric, n);
            return Arrival::Nothing;
        }
        let Some((_, cell)) = port.wire.pop_front() else {
            return Arrival::Nothing;
        };
        port.arrives = port.wire.front().map(|(at, _)| fabric.moment(n, *at));
        self.schedule(n);
        fabric.cell_hops += 1;
        if cell.vc == SIGNALLING {
            return fabric.signal(n, self.leave(cell).frame);
        }
        let peer = &fabric.ports[fabric.ports[n as usize].peer as usize];
        if fabric.reassemblers[peer.node as usize].is_some() {
            let node = peer.node;
            return fabric.reassemble(node, &Run::of(self.leave(cell), moment.at));
        }
        match peer.line(cell.vc) {
            Some(line) => self.put(
                fabric,
                line.port,
                Cell {
                    vc: line.vc,
                    ..cell
                },
            ),
            None => {
                fabric.unknown_vc += 1;
                fabric.gone(self.leave(cell).frame, 1);
            }
        }
        Arrival::Nothing
    }

    /// Sends the next cell of a port if its link is free.
    fn transmit(&mut self, fabric: &mut Fabric, n: u32) {
        let now = fabric.now.at;
        let port = &mut self.ports[n as usize];
        if port.queue.is_empty() {
            return;
        }
        let free = port.busy_until.max(port.queue.config().ready(now));
        if free > now {
            port.leaves = Some(free);
            return self.schedule(n);
        }
        let facts = &fabric.ports[n as usize];
        port.leaves = match port.queue.dequeue(now) {
            Some(cell) => {
                port.busy_until = now + facts.cell_time;
                let arrival = port.busy_until + facts.delay;
                if port.wire.is_empty() {
                    port.arrives = Some(fabric.moment(n, arrival));
                }
                port.wire.push_back((arrival, cell));
                if let Some(seen) = &mut self.seen {
                    seen.departs(now, n, cell);
                }
                #[cfg(test)]
                {
                    let cell = self.seen.as_ref().map_or(cell, |seen| seen.whose(cell));
                    fabric.departs(n, &Run::of(cell, now));
                }
                (!port.queue.is_empty()).then_some(port.busy_until)
            }
            None => port.queue.next_eligible(),
        };
        self.schedule(n);
    }

    fn schedule(&mut self, n: u32) {
        let port = &self.ports[n as usize];
        let leaves = port.leaves.map(|at| Moment { at, tie: 0 });
        let moment = match (leaves, port.arrives) {
            (Some(leaves), Some(arrives)) => Some(leaves.min(arrives)),
            (leaves, arrives) => leaves.or(arrives),
        };
        self.due.set(n, moment);
    }
}
