//! Cells as runs: what a port sends is looked at only when somebody has to know.
//!
//! The rest of the world sees two things of the backbone: cells of signalling that arrive, and last cells that
//! arrive at adapters. Only for them is a port due, at an instant before which neither can come from it. Then
//! it takes what has come to it until that moment, run by run and in the order of the cells, after the ports
//! before it have done the same for as long ago as a cell needs from there.

use layercast_atm::{Run, RunQueue, Vcid};
use layercast_core::{Span, Time};

use super::SIGNALLING;
use super::due::{Due, Moment};
use super::fabric::{Arrival, Fabric};
use super::lane::Lane;
use super::port::Line;
use super::train_port::{Input, TrainPort};
use super::wires::Wires;

#[derive(Debug)]
pub(super) struct Trains {
    /// Of each port.
    queues: Vec<RunQueue>,
    wires: Wires,
    /// Of all ports, a port's one after the other.
    inputs: Vec<Input>,
    /// Before it no cell comes to a switch that was not taken there.
    oldest: Time,
    /// How often that was not enough since it was looked for.
    asked: usize,
    /// Those of the port that takes its cells, the first last.
    heads: Vec<Head>,
}

/// When the first cell of an input comes.
#[derive(Clone, Copy, Debug)]
struct Head {
    at: Time,
    input: usize,
}

/// No cell is left where it is for more than so many of the shortest ways.
const LAG: u64 = 1_024;

impl Trains {
    pub fn new(fabric: &Fabric, queues: Vec<RunQueue>) -> Trains {
        let shortest = fabric.ports.iter().map(|port| port.lead()).min();
        let lag = shortest.unwrap_or(Span::ZERO).times(LAG);
        let (ports, inputs, lanes) = TrainPort::all(fabric, lag);
        Trains {
            queues,
            wires: Wires {
                due: Due::new(ports.len()),
                ports,
                lanes: (0..lanes).map(|_| Lane::new()).collect(),
                lag,
            },
            inputs,
            oldest: Time::ZERO,
            asked: 0,
            heads: Vec::new(),
        }
    }

    /// When something is due.
    #[inline]
    pub fn next(&self) -> Option<Time> {
        self.wires.due.first().map(|(moment, _)| moment.at)
    }

    pub fn queue(&self, port: u32) -> &RunQueue {
        &self.queues[port as usize]
    }

    /// Lets a port catch up, and then something happen to its queue.
    pub fn change(&mut self, fabric: &mut Fabric, n: u32, change: impl FnOnce(&mut RunQueue)) {
        self.catch_up(fabric, n);
        change(&mut self.queues[n as usize]);
        self.settle(fabric, n);
    }

    /// Cells come to the queue of a port, all now.
    pub fn put(&mut self, fabric: &mut Fabric, n: u32, run: Run) {
        self.pull(fabric, n, fabric.now);
        self.enqueue(fabric, n, run);
        // It goes before all others: if the link is free it arrives whatever comes, and is on the wire when it does.
        if run.vc == SIGNALLING {
            self.serve(fabric, n, fabric.now.at);
        }
        self.settle(fabric, n);
    }

    /// Cells of a circuit that come to a port from now on go elsewhere.
    pub fn route(&mut self, fabric: &mut Fabric, n: u32, vc: Vcid, line: Option<Line>) {
        let from = fabric.ports[n as usize].peer;
        let old = fabric.ports[n as usize].line(vc);
        // What came before now goes where it went.
        self.run_to_wire(fabric, from);
        match old {
            Some(line) => self.catch_up(fabric, line.port),
            None => self.wires.give_up(fabric, from),
        }
        let before = self.wires.lane(fabric, from, vc);
        fabric.ports[n as usize].set_line(vc, line);
        let after = self.wires.lane(fabric, from, vc);
        let lanes = &mut self.wires.lanes;
        let moves = |run: &Run| run.vc == vc;
        if before != after && lanes[before].iter().any(moves) {
            let all = lanes[before].clear();
            let (moved, kept): (Vec<_>, Vec<_>) = all.into_iter().partition(moves);
            lanes[before].refill(kept);
            let there = lanes[after].clear();
            lanes[after].refill(there.into_iter().chain(moved));
        }
        for line in [old, line].into_iter().flatten() {
            let lane = self.wires.ports[line.port as usize].first_lane;
            let lane = lane + usize::from(fabric.ports[n as usize].id);
            let next = &mut self.wires.ports[line.port as usize];
            let due = self.wires.lanes[lane].due(next.beyond, self.wires.lag);
            next.awaits = next.awaits.min(due);
            self.settle(fabric, line.port);
        }
    }

    /// Takes what came to the adapter at the other end of a port before now.
    pub fn collect(&mut self, fabric: &mut Fabric, n: u32) {
        self.run_to_wire(fabric, n);
        self.wires.deliver(fabric, n, fabric.now);
        self.settle(fabric, n);
    }

    /// What is due happens.
    pub fn step(&mut self, fabric: &mut Fabric) -> Arrival {
        let Some((moment, n)) = self.wires.due.first() else {
            return Arrival::Nothing;
        };
        fabric.now = fabric.now.max(moment);
        // What is on the wire arrives there, whatever still comes to the port.
        let arrived = self.wires.arrive(fabric, n, moment).or_else(|| {
            self.catch_up(fabric, n);
            self.wires.arrive(fabric, n, moment)
        });
        self.settle(fabric, n);
        arrived.unwrap_or(Arrival::Nothing)
    }

    /// Everything happens that does until now.
    pub fn finish(&mut self, fabric: &mut Fabric) {
        fabric.now = Moment::after(fabric.now.at);
        for n in 0..self.queues.len() as u32 {
            self.catch_up(fabric, n);
        }
        for n in 0..self.queues.len() as u32 {
            match self.wires.ports[n as usize].ends {
                true => {
                    self.wires.deliver(fabric, n, fabric.now);
                }
                false => self.wires.give_up(fabric, n),
            }
        }
    }

    /// Takes what came to a port until now, and sends what leaves it.
    fn catch_up(&mut self, fabric: &mut Fabric, n: u32) {
        self.pull(fabric, n, fabric.now);
        let now = fabric.now.at;
        self.serve(fabric, n, now);
        // What still comes at this instant may yet leave at it.
        let port = &mut self.wires.ports[n as usize];
        port.begun = port.begun.max(now);
    }

    /// All cells are on the wire of a port that are at its other end by now.
    fn run_to_wire(&mut self, fabric: &mut Fabric, n: u32) {
        let lead = self.wires.ports[n as usize].lead;
        if let Some(until) = earlier(fabric.now.at, lead) {
            self.run_to(fabric, n, until);
        }
    }

    /// All cells that begin to leave a port until an instant are on its wire.
    fn run_to(&mut self, fabric: &mut Fabric, n: u32, until: Time) {
        if until < self.wires.ports[n as usize].begun {
            return;
        }
        if !self.quiet_until(fabric.now.at, until) {
            // All until now, so that nobody has to ask again soon; but not in circles.
            if !self.wires.ports[n as usize].busy {
                self.wires.ports[n as usize].busy = true;
                self.catch_up(fabric, n);
                self.wires.ports[n as usize].busy = false;
                return self.settle(fabric, n);
            }
            self.pull(fabric, n, Moment::after(until));
        }
        self.wires.ports[n as usize].begun = until + Span::from_ps(1);
        if !self.queues[n as usize].is_empty() {
            self.serve(fabric, n, until);
            self.settle(fabric, n);
        }
    }

    /// Takes all cells that came to a port before a moment.
    fn pull(&mut self, fabric: &mut Fabric, n: u32, until: Moment) {
        let port = &self.wires.ports[n as usize];
        let inputs = port.inputs.clone();
        if port.taken >= until || inputs.is_empty() {
            return;
        }
        for k in inputs.clone() {
            let Input { from, lead, .. } = self.inputs[k];
            if let Some(until) = earlier(until.at, lead) {
                self.run_to(fabric, from, until);
            }
        }
        self.heads.clear();
        for input in inputs.clone() {
            let at = self.wires.lanes[self.inputs[input].lane].first();
            if at <= until.at {
                self.heads.push(Head { at, input });
                self.put_in_place(fabric);
            }
        }
        while let Some(&Head { at, input }) = self.heads.last() {
            let input = self.inputs[input];
            if at == until.at && fabric.moment(input.from, at) >= until {
                break;
            }
            // Those before any other cell, and the first in any case.
            let next = self.heads.len().wrapping_sub(2);
            let limit = self.heads.get(next).map_or(until.at, |next| next.at);
            let lane = &mut self.wires.lanes[input.lane];
            let Some(mut run) = lane.take(limit) else {
                break;
            };
            let next = lane.first();
            if next <= until.at {
                if let Some(head) = self.heads.last_mut() {
                    head.at = next;
                }
                self.put_in_place(fabric);
            } else {
                self.heads.pop();
            }
            fabric.cell_hops += u64::from(run.count);
            if let Some(line) = fabric.ports[input.by as usize].line(run.vc) {
                run.vc = line.vc;
            }
            self.enqueue(fabric, n, run);
        }
        let port = &mut self.wires.ports[n as usize];
        let lanes = self.inputs[inputs]
            .iter()
            .map(|it| &self.wires.lanes[it.lane]);
        let awaits = lanes.map(|lane| lane.due(port.beyond, self.wires.lag));
        (port.taken, port.awaits) = (until, awaits.min().unwrap_or(Time::MAX));
    }

    /// Puts the head that stands last where it belongs.
    #[inline(always)]
    fn put_in_place(&mut self, fabric: &Fabric) {
        let mut place = self.heads.len() - 1;
        let head = self.heads[place];
        while place > 0 && self.precedes(fabric, self.heads[place - 1], head) {
            self.heads[place] = self.heads[place - 1];
            place -= 1;
        }
        self.heads[place] = head;
    }

    /// Which of two cells comes first.
    #[inline]
    fn precedes(&self, fabric: &Fabric, one: Head, other: Head) -> bool {
        let moment = |it: Head| fabric.moment(self.inputs[it.input].from, it.at);
        one.at < other.at || one.at == other.at && moment(one) < moment(other)
    }

    /// Whether no cell came to a switch until an instant that was not taken there.
    fn quiet_until(&mut self, now: Time, until: Time) -> bool {
        if until < self.oldest {
            return true;
        }
        self.asked += 1;
        if self.asked < self.queues.len() {
            return false;
        }
        self.asked = 0;
        let wire = self
            .inputs
            .iter()
            .map(|it| self.wires.lanes[it.lane].first());
        let ports = self.wires.ports.iter().zip(&self.queues);
        let queued = ports
            .filter(|(port, _)| !port.ends)
            .map(|(port, queue)| queue.next().saturating_add(port.lead));
        // What is sent from now on comes later still.
        self.oldest = wire.chain(queued).fold(now, Time::min);
        until < self.oldest
    }

    /// Cells come to the queue of a port at their instants.
    #[inline]
    fn enqueue(&mut self, fabric: &mut Fabric, n: u32, run: Run) {
        let wires = &mut self.wires;
        let mut emit = |run| wires.emit(fabric, n, run);
        let dropped = self.queues[n as usize].put(run, &mut emit);
        if dropped > 0 {
            fabric.gone(run.frame, dropped);
        }
    }

    /// What begins to leave a port until an instant is on its wire.
    fn serve(&mut self, fabric: &mut Fabric, n: u32, until: Time) {
        let wires = &mut self.wires;
        let mut emit = |run| wires.emit(fabric, n, run);
        self.queues[n as usize].serve(until, &mut emit);
    }

    fn settle(&mut self, fabric: &Fabric, n: u32) {
        self.wires.settle(fabric, n, &self.queues[n as usize]);
    }
}

/// When what is there now has left at the latest.
fn earlier(at: Time, lead: Span) -> Option<Time> {
    at.as_ps().checked_sub(lead.as_ps()).map(Time::from_ps)
}
