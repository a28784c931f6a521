//! Cells as runs: what a port sends is looked at only when somebody has to know.
//!
//! The rest of the world sees two things of the backbone: cells of signalling that arrive, and last cells that
//! arrive at adapters. Only for them is a port due, at an instant before which neither can come from it. Then
//! it takes what has come to it until that moment, run by run and in the order of the cells, after the ports
//! before it have done the same for as long ago as a cell needs from there.

use std::ops::Range;

use layercast_atm::{Run, RunQueue, Vcid};
use layercast_core::{Span, Time};

use super::SIGNALLING;
use super::due::{Due, Moment};
use super::fabric::{Arrival, Fabric};
use super::lane::Lane;
use super::port::Line;
use super::train_port::{Input, TrainPort};
use super::wires::{Leaving, Sender, Wires};

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

/// No cell lags by more than this multiple of the shortest delay.
const LAG: u64 = 1_024;

impl Trains {
    pub fn new(fabric: &Fabric, queues: Vec<RunQueue>) -> Trains {
        let shortest = fabric.ports.iter().map(|port| port.lead()).min();
        let lag = shortest.unwrap_or(Span::ZERO).times(LAG);
        let (ports, inputs, lanes) = TrainPort::all(fabric);
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
        self.wires.settle(fabric, n);
    }

    /// Cells come to the queue of a port, all now.
    pub fn put(&mut self, fabric: &mut Fabric, n: u32, run: Run) {
        self.pull(fabric, n, fabric.now);
        let from = Sender::new(&self.wires, fabric, n);
        let queue = &mut self.queues[n as usize];
        enqueue(queue, &mut self.wires, fabric, from, run);
        self.wires.give_up_late(fabric, n);
        // From an adapter it is others that are due for what is no signalling.
        if run.vc == SIGNALLING || !self.wires.ports[n as usize].inputs.is_empty() {
            self.wires.settle(fabric, n);
        }
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
            self.wires.settle(fabric, line.port);
        }
    }

    /// Takes what came to the adapter at the other end of a port before now.
    pub fn collect(&mut self, fabric: &mut Fabric, n: u32) {
        self.run_to_wire(fabric, n);
        self.wires.deliver(fabric, n, fabric.now);
        self.wires.settle(fabric, n);
    }

    /// What is due happens.
    pub fn step(&mut self, fabric: &mut Fabric) -> Arrival {
        let Some((moment, n)) = self.wires.due.first() else {
            return Arrival::Nothing;
        };
        fabric.now = fabric.now.max(moment);
        let arrived = self.wires.signal(fabric, n, moment.at);
        let arrived = arrived.unwrap_or_else(|| self.arrive(fabric, n, moment));
        self.wires.settle(fabric, n);
        arrived
    }

    /// Gives the adapter at the other end of a port the last cell of a frame that comes there at a moment, if one does;
    /// else the port catches up.
    fn arrive(&mut self, fabric: &mut Fabric, n: u32, moment: Moment) -> Arrival {
        let comes = |wires: &Wires| {
            wires.ports[n as usize].ends && wires.lanes[n as usize].last() == moment.at
        };
        if comes(&self.wires) {
            self.run_to_wire(fabric, n);
        } else {
            self.catch_up(fabric, n);
        }
        match comes(&self.wires) {
            true => self.wires.deliver(fabric, n, moment.next()),
            false => Arrival::Nothing,
        }
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
        #[cfg(test)]
        self.wires.depart(fabric);
    }

    /// Takes what came to a port until now.
    fn catch_up(&mut self, fabric: &mut Fabric, n: u32) {
        self.pull(fabric, n, fabric.now);
        // What still comes at this instant may yet leave at it.
        let port = &mut self.wires.ports[n as usize];
        port.begun = port.begun.max(fabric.now.at);
        self.wires.give_up_late(fabric, n);
    }

    /// All is settled of the cells of a port that are at its other end by now.
    fn run_to_wire(&mut self, fabric: &mut Fabric, n: u32) {
        let lead = self.wires.ports[n as usize].lead;
        if let Some(until) = earlier(fabric.now.at, lead) {
            self.run_to(fabric, n, until);
        }
    }

    /// All is settled of the cells that begin to leave a port until an instant.
    fn run_to(&mut self, fabric: &mut Fabric, n: u32, until: Time) {
        if until < self.wires.ports[n as usize].begun {
            return;
        }
        if !self.quiet_until(fabric.now.at, until) {
            // Everything until now, so that no caller has to ask again soon; but not in circles.
            if !self.wires.ports[n as usize].busy {
                self.wires.ports[n as usize].busy = true;
                self.catch_up(fabric, n);
                self.wires.ports[n as usize].busy = false;
                return self.wires.settle(fabric, n);
            }
            self.pull(fabric, n, Moment::after(until));
        }
        self.wires.ports[n as usize].begun = until + Span::from_ps(1);
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
        self.merge(fabric, n, inputs.clone(), until);
        let port = &mut self.wires.ports[n as usize];
        let lanes = self.inputs[inputs]
            .iter()
            .map(|it| &self.wires.lanes[it.lane]);
        let awaits = lanes.map(|lane| lane.due(port.beyond, self.wires.lag));
        (port.taken, port.awaits) = (until, awaits.min().unwrap_or(Time::MAX));
    }

    /// Puts the cells that came to a port by these inputs before a moment into its queue, as they came.
    fn merge(&mut self, fabric: &mut Fabric, n: u32, inputs: Range<usize>, until: Moment) {
        let Trains {
            queues,
            wires,
            inputs: all,
            heads,
            ..
        } = self;
        heads.clear();
        for input in inputs {
            let at = wires.lanes[all[input].lane].first();
            if at <= until.at {
                heads.push(Head { at, input });
                put_in_place(heads, all, fabric);
            }
        }
        let queue = &mut queues[n as usize];
        let from = Sender::new(wires, fabric, n);
        while let [others @ .., head] = heads.as_mut_slice() {
            let input = all[head.input];
            if head.at == until.at && fabric.moment(input.from, head.at) >= until {
                break;
            }
            // Those before any other cell, and the first in any case.
            let limit = others.last().map_or(until.at, |next| next.at);
            let lane = &mut wires.lanes[input.lane];
            let Some(mut run) = lane.take(limit) else {
                break;
            };
            head.at = lane.first();
            if head.at > until.at {
                heads.pop();
            } else {
                put_in_place(heads, all, fabric);
            }
            #[cfg(test)]
            fabric.departed(input.from, run, input.lead);
            fabric.cell_hops += u64::from(run.count);
            if let Some(line) = fabric.ports[input.by as usize].line(run.vc) {
                run.vc = line.vc;
            }
            enqueue(queue, wires, fabric, from, run);
        }
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
        // What is sent from now on comes later still.
        self.oldest = wire.fold(now, Time::min);
        until < self.oldest
    }
}

/// Cells come to the queue of a port at their instants.
#[inline(always)]
fn enqueue(queue: &mut RunQueue, wires: &mut Wires, fabric: &mut Fabric, from: Sender, run: Run) {
    let mut leaving = Leaving {
        wires,
        fabric,
        from,
    };
    let dropped = queue.put(run, &mut leaving);
    if dropped > 0 {
        fabric.gone(run.frame, dropped);
    }
}

/// Puts the head that stands last where it belongs.
#[inline(always)]
fn put_in_place(heads: &mut [Head], inputs: &[Input], fabric: &Fabric) {
    let moment = |it: Head| fabric.moment(inputs[it.input].from, it.at);
    let precedes = |one: Head, other: Head| {
        one.at < other.at || one.at == other.at && moment(one) < moment(other)
    };
    let mut place = heads.len() - 1;
    let head = heads[place];
    while place > 0 && precedes(heads[place - 1], head) {
        heads[place] = heads[place - 1];
        place -= 1;
    }
    heads[place] = head;
}

/// When what is there now has left at the latest.
fn earlier(at: Time, lead: Span) -> Option<Time> {
    at.as_ps().checked_sub(lead.as_ps()).map(Time::from_ps)
}
