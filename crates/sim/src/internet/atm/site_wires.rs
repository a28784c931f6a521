use std::collections::VecDeque;

use layercast_atm::{Cell, Run, Vcid};
use layercast_core::{Span, Time};

use super::SIGNALLING;
use super::due::{Due, Moment};
use super::fabric::{Arrival, Fabric};
use super::port::Line;

/// What is between the queues if cells move site after site.
#[derive(Debug)]
pub(super) struct SiteWires {
    pub ports: Vec<SitePort>,
    /// For each port of a switch when the next cell comes in by it, if one is on its way.
    pub heads: Vec<Time>,
    /// For each port when the first mark on the way to it comes in, if there is one.
    pub marks: Vec<Time>,
    /// For each port to an adapter, when the adapter is notified of the next arrival.
    pub told: Due,
}

#[derive(Debug)]
pub(super) struct SitePort {
    /// When the cell being sent has left.
    pub busy_until: Time,
    cell_time: Span,
    delay: Span,
    pub peer: u32,
    /// Whether it is that of the only adapter at a switch, from which nothing but answers to what it signals
    /// comes back.
    alone: bool,
    /// Whether an adapter is at this end, and at the other.
    begins: bool,
    pub ends: bool,
    wire: VecDeque<(Time, Cell)>,
    /// When the marks on the wire are at its end: what may matter to an adapter, which is cells of signalling
    /// and the last ones of frames, unless they come from the only adapter there or continue to another switch.
    marks: VecDeque<Time>,
    /// How many marks are in the queue of a port of or to an adapter, and how many cells, of all it ever sends,
    /// go before the first of them at least.
    pub queued_marks: u32,
    pub first_mark: u64,
}

impl SitePort {
    #[inline]
    pub fn marks(&self, cell: Cell) -> bool {
        cell.vc == SIGNALLING || cell.is_last() && !self.alone
    }

    /// A mark has entered the queue; at least `before` cells of all that the port ever sends precede it.
    pub fn mark_waits(&mut self, before: u64) {
        if self.begins || self.ends {
            self.first_mark = match self.queued_marks {
                0 => before,
                _ => before.min(self.first_mark),
            };
            self.queued_marks += 1;
        }
    }

    /// A mark has left the queue.
    fn mark_goes(&mut self) {
        if self.begins || self.ends {
            self.queued_marks -= 1;
            self.first_mark = 0;
        }
    }

    /// How long the cell after `others` further cells takes to the other end.
    pub fn way(&self, others: u64) -> Span {
        self.cell_time.times(others + 1) + self.delay
    }

    /// Puts a cell on the wire that begins to leave now; returns its arrival time at the other end if it is the
    /// first.
    #[inline]
    fn send(&mut self, now: Time, cell: Cell, heads: &mut [Time]) -> Time {
        self.busy_until = now + self.cell_time;
        let arrives = self.busy_until + self.delay;
        if self.wire.is_empty() {
            heads[self.peer as usize] = arrives;
        }
        self.wire.push_back((arrives, cell));
        arrives
    }

    /// When the first cell on the wire is at its end.
    #[inline]
    fn head(&self) -> Time {
        self.wire.front().map_or(Time::MAX, |&(at, _)| at)
    }

    /// What came first has left the wire at its end: if it was the first mark, the next one is that now.
    #[inline]
    fn leaves(&mut self, at: Time, first: &mut Time) {
        if *first == at {
            self.marks.pop_front();
            *first = self.marks.front().copied().unwrap_or(Time::MAX);
        }
    }
}

impl SiteWires {
    /// Nothing is on its way; `alone` are the ports of the only adapters at their switches.
    pub fn new(fabric: &Fabric, alone: impl Fn(u32) -> bool) -> SiteWires {
        let facts = &fabric.ports;
        let ports = facts.iter().zip(0..).map(|(port, n)| SitePort {
            busy_until: Time::ZERO,
            cell_time: port.cell_time,
            delay: port.delay,
            peer: port.peer,
            alone: alone(n),
            begins: fabric.reassemblers[port.node as usize].is_some(),
            ends: fabric.ends(n),
            wire: VecDeque::new(),
            marks: VecDeque::new(),
            queued_marks: 0,
            first_mark: 0,
        });
        SiteWires {
            ports: ports.collect(),
            heads: vec![Time::MAX; facts.len()],
            marks: vec![Time::MAX; facts.len()],
            told: Due::new(facts.len()),
        }
    }

    /// Puts a cell on the wire of a port that begins to leave now, after it waited in the queue or not.
    #[inline]
    pub fn emit(&mut self, fabric: &mut Fabric, n: u32, now: Time, cell: Cell, waited: bool) {
        let port = &mut self.ports[n as usize];
        let arrives = port.send(now, cell, &mut self.heads);
        if port.marks(cell) {
            if waited {
                port.mark_goes();
            }
            self.mark(fabric, n, arrives, cell);
        }
        #[cfg(test)]
        fabric.departs(n, &Run::of(cell, now));
    }

    /// What may matter to an adapter is on the wire of a port.
    fn mark(&mut self, fabric: &Fabric, n: u32, arrives: Time, cell: Cell) {
        if !self.matters(fabric, n, cell) {
            return;
        }
        let port = &mut self.ports[n as usize];
        port.marks.push_back(arrives);
        let first = &mut self.marks[port.peer as usize];
        if *first == Time::MAX {
            *first = arrives;
            if port.ends {
                self.told.set(n, Some(fabric.moment(n, arrives)));
            }
        }
    }

    /// Whether a cell on the wire of a port may matter to an adapter at its end, or at the switch there.
    fn matters(&self, fabric: &Fabric, n: u32, cell: Cell) -> bool {
        let port = &self.ports[n as usize];
        let to_adapter = || match fabric.ports[port.peer as usize].line(cell.vc) {
            Some(line) => self.ports[line.port as usize].ends,
            None => true,
        };
        port.marks(cell) && (port.ends || cell.vc == SIGNALLING || to_adapter())
    }

    /// Cells of a circuit that come in by a port of a switch go to an adapter from now on, those on their way, too.
    pub fn turn(&mut self, fabric: &Fabric, by: u32, vc: Vcid) {
        let from = self.ports[by as usize].peer;
        let wire = &self.ports[from as usize].wire;
        if wire.iter().any(|(_, cell)| cell.vc == vc) {
            let all = wire.iter();
            let marks = all.filter(|(_, cell)| self.matters(fabric, from, *cell));
            let marks: VecDeque<_> = marks.map(|&(at, _)| at).collect();
            self.marks[by as usize] = marks.front().copied().unwrap_or(Time::MAX);
            self.ports[from as usize].marks = marks;
        }
    }

    /// Takes the next cell that comes in by a port of a switch from its wire.
    #[inline]
    pub fn arrive(&mut self, by: u32) -> Option<Cell> {
        let from = self.ports[by as usize].peer;
        let port = &mut self.ports[from as usize];
        let (at, cell) = port.wire.pop_front()?;
        port.leaves(at, &mut self.marks[by as usize]);
        self.heads[by as usize] = port.head();
        Some(cell)
    }

    /// Sends on the cells that come in by a port before a limit, as long as they are of this circuit, end no frame and
    /// find the link free; how many.
    #[inline]
    pub fn pass(&mut self, fabric: &mut Fabric, by: u32, vc: Vcid, line: Line, limit: Time) -> u64 {
        let from = self.ports[by as usize].peer as usize;
        let Ok([from, to]) = self.ports.get_disjoint_mut([from, line.port as usize]) else {
            return 0;
        };
        let mut count = 0;
        while let Some(&(at, cell)) = from.wire.front()
            && at < limit
            && at >= to.busy_until
            && cell.vc == vc
            && !cell.is_last()
        {
            from.wire.pop_front();
            let cell = Cell {
                vc: line.vc,
                ..cell
            };
            to.send(at, cell, &mut self.heads);
            count += 1;
            #[cfg(test)]
            fabric.departs(line.port, &Run::of(cell, at));
        }
        self.heads[by as usize] = from.head();
        fabric.cell_hops += count;
        count
    }

    /// Which of two ports of a switch a cell comes in by first, if one comes by each at this instant.
    pub fn precedes(&self, fabric: &Fabric, one: u32, other: u32, at: Time) -> bool {
        let moment = |port: u32| fabric.moment(self.ports[port as usize].peer, at);
        at < Time::MAX && moment(one) < moment(other)
    }

    /// Delivers to the adapter at the other end of a port the cells that arrive before a moment.
    pub fn deliver(&mut self, fabric: &mut Fabric, n: u32, until: Moment) -> Arrival {
        let port = &mut self.ports[n as usize];
        let node = fabric.ports[port.peer as usize].node;
        let mark = &mut self.marks[port.peer as usize];
        let mut arrival = Arrival::Nothing;
        // Cells of one frame that come one after the other.
        let mut run: Option<Run> = None;
        while let Some(&(at, cell)) = port.wire.front()
            && (at < until.at || at == until.at && fabric.moment(n, at) < until)
        {
            port.wire.pop_front();
            port.leaves(at, mark);
            fabric.cell_hops += 1;
            let next = Run::of(cell, at);
            if run.as_mut().is_some_and(|run| run.join(&next)) {
                continue;
            }
            if let Some(run) = run.take() {
                arrival = fabric.reassemble(node, &run);
            }
            match cell.vc == SIGNALLING {
                true => arrival = fabric.signal(n, cell.frame),
                false => run = Some(next),
            }
        }
        if let Some(run) = run {
            arrival = fabric.reassemble(node, &run);
        }
        let moment = (*mark < Time::MAX).then(|| fabric.moment(n, *mark));
        self.told.set(n, moment);
        arrival
    }
}

#[cfg(test)]
mod tests {
    use layercast_atm::Reassembler;

    use super::*;
    use crate::internet::atm::frames::{FrameBody, Frames};
    use crate::internet::atm::port::Port;
    use crate::internet::engine::PacketId;
    use crate::ties::Turn;

    const VC: Vcid = Vcid(5);

    /// Adapters 0 and 3 at switches 1 and 2, with ports 0 to 5 from one end to the other.
    fn chain() -> Fabric {
        let port = |(n, node): (u32, u32)| Port {
            node,
            id: u16::from(n == 2 || n == 4),
            peer: n ^ 1,
            cell_time: Span::from_us(10),
            delay: Span::from_ms(1),
            turn: Turn::Placed(u64::from(n) << 32),
            table: Vec::new(),
        };
        Fabric {
            ports: (0..).zip([0, 1, 1, 2, 2, 3]).map(port).collect(),
            degrees: vec![1, 2, 2, 1],
            reassemblers: [true, false, false, true]
                .map(|ends| ends.then(|| Reassembler::new(None)))
                .into(),
            frames: Frames::new(4),
            now: Moment::default(),
            lost: Vec::new(),
            cell_hops: 0,
            unknown_vc: 0,
            departures: Vec::new(),
        }
    }

    #[test]
    fn a_last_cell_matters_as_soon_as_it_goes_to_an_adapter() {
        let mut fabric = chain();
        let mut wires = SiteWires::new(&fabric, |_| false);
        let to = |port| Some(Line { port, vc: VC });
        fabric.ports[3].set_line(VC, to(2));
        let body = FrameBody::Packet(PacketId(0));
        let frame = fabric.frames.add(0, body, 2);
        let now = Time::ZERO;
        for index in 0..2 {
            let at = now + Span::from_us(10).times(u64::from(index));
            wires.emit(&mut fabric, 2, at, Cell::of(frame, VC, index, 2), false);
        }
        assert_eq!(wires.marks[3], Time::MAX, "it continues to a switch");
        fabric.ports[3].set_line(VC, to(4));
        wires.turn(&fabric, 3, VC);
        assert_eq!(wires.marks[3], now + Span::from_us(1_020));
        assert!(wires.arrive(3).is_some_and(|cell| !cell.is_last()));
        assert_eq!(wires.marks[3], now + Span::from_us(1_020));
        assert!(wires.arrive(3).is_some_and(|cell| cell.is_last()));
        assert_eq!(wires.marks[3], Time::MAX);
    }
}
