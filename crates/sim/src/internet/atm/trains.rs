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
use super::lane::{Head, lane};
use super::port::Line;
use super::train_port::{TrainPort, through};

#[derive(Debug)]
pub(super) struct Trains {
    ports: Vec<TrainPort>,
    due: Due,
    /// Before it no cell comes to a switch that was not taken there.
    oldest: Time,
    /// How often that was not enough since it was looked for.
    asked: usize,
    /// No cell is left where it is for longer: bounds how far back others have to look.
    lag: Span,
    /// Those of the port that takes its cells, the first first.
    heads: Vec<Head>,
    out: Vec<Run>,
}

/// No cell is left where it is for more than so many of the shortest ways.
const LAG: u64 = 1_024;

impl Trains {
    pub fn new(fabric: &Fabric, queues: Vec<RunQueue>) -> Trains {
        let ports = TrainPort::all(fabric, queues);
        let shortest = ports.iter().map(|port| port.lead).min();
        Trains {
            due: Due::new(ports.len()),
            oldest: Time::ZERO,
            asked: 0,
            lag: shortest.unwrap_or(Span::ZERO).times(LAG),
            heads: Vec::new(),
            out: Vec::new(),
            ports,
        }
    }

    /// When something is due.
    pub fn next(&self) -> Option<Time> {
        self.due.first().map(|(moment, _)| moment.at)
    }

    pub fn queue(&self, port: u32) -> &RunQueue {
        &self.ports[port as usize].queue
    }

    /// Lets a port catch up, and then something happen to its queue.
    pub fn change(&mut self, fabric: &mut Fabric, n: u32, change: impl FnOnce(&mut RunQueue)) {
        self.catch_up(fabric, n);
        change(&mut self.ports[n as usize].queue);
        self.settle(fabric, n);
    }

    /// Cells come to the queue of a port, all now.
    pub fn put(&mut self, fabric: &mut Fabric, n: u32, run: Run) {
        self.pull(fabric, n, fabric.now);
        let dropped = self.ports[n as usize].queue.put(run, &mut self.out);
        if dropped > 0 {
            fabric.gone(run.frame, dropped);
        }
        self.emit(fabric, n);
        self.settle(fabric, n);
    }

    /// Cells of a circuit that come to a port from now on go elsewhere.
    pub fn route(&mut self, fabric: &mut Fabric, n: u32, vc: Vcid, line: Option<Line>) {
        let from = fabric.ports[n as usize].peer;
        let old = fabric.ports[n as usize].line(vc);
        // What came before now goes where it went.
        self.run_to(
            fabric,
            from,
            earlier(fabric.now.at, self.ports[from as usize].lead),
        );
        match old {
            Some(line) => self.catch_up(fabric, line.port),
            None => self.give_up(fabric, from),
        }
        let before = lane(fabric, from, vc);
        fabric.ports[n as usize].set_line(vc, line);
        let after = lane(fabric, from, vc);
        let lanes = &mut self.ports[from as usize].lanes;
        let moves = |run: &Run| run.vc == vc;
        if before != after && lanes[before].runs.iter().any(moves) {
            let all = lanes[before].runs.drain(..).collect::<Vec<_>>();
            let (moved, kept): (Vec<_>, Vec<_>) = all.into_iter().partition(moves);
            lanes[before].refill(kept);
            let there: Vec<_> = lanes[after].runs.drain(..).collect();
            lanes[after].refill(there.into_iter().chain(moved));
        }
        for line in [old, line].into_iter().flatten() {
            let next = &self.ports[line.port as usize];
            let due = self.ports[from as usize].lanes[next.id].due(next.beyond, self.lag);
            let next = &mut self.ports[line.port as usize];
            next.awaits = next.awaits.min(due);
            self.settle(fabric, line.port);
        }
    }

    /// Takes what came to the adapter at the other end of a port before now.
    pub fn collect(&mut self, fabric: &mut Fabric, n: u32) {
        self.run_to(
            fabric,
            n,
            earlier(fabric.now.at, self.ports[n as usize].lead),
        );
        self.deliver(fabric, n, fabric.now);
        self.settle(fabric, n);
    }

    /// What is due happens.
    pub fn step(&mut self, fabric: &mut Fabric) -> Arrival {
        let Some((moment, n)) = self.due.first() else {
            return Arrival::Nothing;
        };
        fabric.now = fabric.now.max(moment);
        self.catch_up(fabric, n);
        let port = &mut self.ports[n as usize];
        let signal = port.signals.front().filter(|it| it.0 == moment.at);
        let arrival = if let Some(&(_, frame)) = signal {
            port.signals.pop_front();
            fabric.cell_hops += 1;
            fabric.signal(n, frame)
        } else if port.ends && port.lanes[0].lasts.front() == Some(&moment.at) {
            self.deliver(fabric, n, moment.next())
        } else {
            Arrival::Nothing
        };
        self.settle(fabric, n);
        arrival
    }

    /// Everything happens that does until now.
    pub fn finish(&mut self, fabric: &mut Fabric) {
        fabric.now = Moment::after(fabric.now.at);
        for n in 0..self.ports.len() as u32 {
            self.catch_up(fabric, n);
        }
        for n in 0..self.ports.len() as u32 {
            match self.ports[n as usize].ends {
                true => {
                    self.deliver(fabric, n, fabric.now);
                }
                false => self.give_up(fabric, n),
            }
        }
    }

    /// Takes what came to a port until now, and sends what leaves it.
    fn catch_up(&mut self, fabric: &mut Fabric, n: u32) {
        self.pull(fabric, n, fabric.now);
        let now = fabric.now.at;
        let port = &mut self.ports[n as usize];
        port.queue.serve(now, &mut self.out);
        // What still comes at this instant may yet leave at it.
        port.begun = port.begun.max(now);
        self.emit(fabric, n);
    }

    /// All cells that begin to leave a port until an instant are on its wire.
    fn run_to(&mut self, fabric: &mut Fabric, n: u32, until: Option<Time>) {
        let Some(until) = until.filter(|it| *it >= self.ports[n as usize].begun) else {
            return;
        };
        if !self.quiet_until(fabric.now.at, until) {
            // All until now, so that nobody has to ask again soon; but not in circles.
            if !self.ports[n as usize].busy {
                self.ports[n as usize].busy = true;
                self.catch_up(fabric, n);
                self.ports[n as usize].busy = false;
                return self.settle(fabric, n);
            }
            self.pull(fabric, n, Moment::after(until));
        }
        let port = &mut self.ports[n as usize];
        port.begun = until + Span::from_ps(1);
        if !port.queue.is_empty() {
            port.queue.serve(until, &mut self.out);
            self.emit(fabric, n);
        }
        self.settle(fabric, n);
    }

    /// Takes all cells that came to a port before a moment.
    fn pull(&mut self, fabric: &mut Fabric, n: u32, until: Moment) {
        if self.ports[n as usize].taken >= until {
            return;
        }
        for k in 0..self.ports[n as usize].inputs.len() {
            let from = self.ports[n as usize].inputs[k];
            let lead = self.ports[from as usize].lead;
            self.run_to(fabric, from, earlier(until.at, lead));
        }
        let id = self.ports[n as usize].id;
        self.heads.clear();
        for &from in &self.ports[n as usize].inputs {
            let first = self.ports[from as usize].lanes[id].runs.front();
            if let Some(run) = first.filter(|run| run.at <= until.at) {
                self.heads.push(Head { at: run.at, from });
            }
        }
        self.heads.sort_unstable_by(|a, b| a.order(b, fabric));
        while let Some(&Head { at, from }) = self.heads.first() {
            if at == until.at && fabric.moment(from, at) >= until {
                break;
            }
            let lane = &mut self.ports[from as usize].lanes[id];
            let Some(head) = lane.runs.front_mut() else {
                break;
            };
            // Those before any other cell, and the first in any case.
            let limit = self.heads.get(1).map_or(until.at, |next| next.at);
            let mut run = head.take(head.before(limit).max(1));
            if run.is_last() {
                lane.lasts.pop_front();
            }
            let mut next = (head.count > 0).then_some(head.at);
            if next.is_none() {
                lane.runs.pop_front();
                next = lane.runs.front().map(|run| run.at);
            }
            self.advance(fabric, next.filter(|at| *at <= until.at));
            fabric.cell_hops += u64::from(run.count);
            let came_by = &fabric.ports[fabric.ports[from as usize].peer as usize];
            if let Some(line) = came_by.line(run.vc) {
                run.vc = line.vc;
            }
            let dropped = self.ports[n as usize].queue.put(run, &mut self.out);
            if dropped > 0 {
                fabric.gone(run.frame, dropped);
            }
        }
        let mut awaits = Time::MAX;
        let port = &self.ports[n as usize];
        for &from in &port.inputs {
            awaits = awaits.min(self.ports[from as usize].lanes[id].due(port.beyond, self.lag));
        }
        let port = &mut self.ports[n as usize];
        (port.taken, port.awaits) = (until, awaits);
        self.emit(fabric, n);
    }

    /// The port whose cell was first has its next one at an instant, or none.
    #[inline]
    fn advance(&mut self, fabric: &Fabric, next: Option<Time>) {
        let Some(at) = next else {
            self.heads.remove(0);
            return;
        };
        let head = Head {
            at,
            ..self.heads[0]
        };
        // Mostly it goes to the end: all have their turns.
        let mut place = self.heads.len();
        while place > 1 && head.order(&self.heads[place - 1], fabric).is_lt() {
            place -= 1;
        }
        self.heads.copy_within(1..place, 0);
        self.heads[place - 1] = head;
    }

    /// Whether no cell came to a switch until an instant that was not taken there.
    fn quiet_until(&mut self, now: Time, until: Time) -> bool {
        if until < self.oldest {
            return true;
        }
        self.asked += 1;
        if self.asked < self.ports.len() {
            return false;
        }
        self.asked = 0;
        let between = self.ports.iter().filter(|port| !port.ends);
        let first = between.map(|port| {
            let lanes = port.lanes.split_last().map_or(&[][..], |(_, lanes)| lanes);
            let wire = lanes.iter().filter_map(|lane| lane.runs.front());
            let queue = port.queue.next().map_or(Time::MAX, |at| at + port.lead);
            wire.map(|run| run.at).fold(queue, Time::min)
        });
        // What is sent from now on comes later still.
        self.oldest = first.min().map_or(now, |first| first.min(now));
        until < self.oldest
    }

    /// Puts on the wire of a port what has left it.
    fn emit(&mut self, fabric: &mut Fabric, n: u32) {
        if self.out.is_empty() {
            return;
        }
        let mut out = std::mem::take(&mut self.out);
        for mut run in out.drain(..) {
            #[cfg(test)]
            fabric.departs(n, &run);
            let port = &mut self.ports[n as usize];
            run.at += port.lead;
            if run.vc == SIGNALLING {
                let cells = run.cells();
                port.signals.extend(cells.map(|it| (it.at, it.frame)));
                continue;
            }
            if port.ends {
                port.lanes[0].push(run);
                continue;
            }
            let Some(line) = fabric.ports[port.peer as usize].line(run.vc) else {
                if let Some(nowhere) = port.lanes.last_mut() {
                    nowhere.push(run);
                }
                self.give_up(fabric, n);
                continue;
            };
            port.lanes[usize::from(fabric.ports[line.port as usize].id)].push(run);
            let next = &mut self.ports[line.port as usize];
            let at = match run.is_last() {
                true => run.last_at().saturating_add(next.beyond),
                false => run.at.saturating_add(self.lag),
            };
            next.awaits = next.awaits.min(at);
            if at < self.due.at(line.port) {
                self.due.set(line.port, Some(fabric.moment(line.port, at)));
            }
        }
        self.out = out;
    }

    /// Makes a port due when it has to be.
    fn settle(&mut self, fabric: &Fabric, n: u32) {
        let port = &self.ports[n as usize];
        let queue = &port.queue;
        let mut at = port.signals.front().map_or(Time::MAX, |it| it.0);
        let mut hasten = |event: Option<Time>, span: Span| {
            if let Some(event) = event {
                at = at.min(event.saturating_add(span));
            }
        };
        if !queue.is_empty() {
            hasten(queue.next_signal(), port.lead);
            hasten(queue.next_last(), port.beyond);
            hasten(queue.next(), through(port.lead, self.lag));
        }
        if port.ends {
            hasten(port.lanes[0].lasts.front().copied(), Span::ZERO);
        }
        at = at.min(port.awaits);
        if at != self.due.at(n) {
            self.due
                .set(n, (at < Time::MAX).then(|| fabric.moment(n, at)));
        }
    }

    /// Gives the adapter at the other end of a port what comes there before a moment.
    fn deliver(&mut self, fabric: &mut Fabric, n: u32, until: Moment) -> Arrival {
        let node = fabric.ports[fabric.ports[n as usize].peer as usize].node;
        let mut arrival = Arrival::Nothing;
        let lane = &mut self.ports[n as usize].lanes[0];
        while let Some(run) = lane.shift(fabric, n, until) {
            fabric.cell_hops += u64::from(run.count);
            arrival = fabric.reassemble(node, &run);
        }
        arrival
    }

    /// Cells that came before now and that nobody knows.
    fn give_up(&mut self, fabric: &mut Fabric, n: u32) {
        let Some(lane) = self.ports[n as usize].lanes.last_mut() else {
            return;
        };
        while let Some(run) = lane.shift(fabric, n, fabric.now) {
            fabric.cell_hops += u64::from(run.count);
            fabric.unknown_vc += u64::from(run.count);
            fabric.gone(run.frame, run.count);
        }
    }
}

/// When what is there now has left at the latest.
fn earlier(at: Time, lead: Span) -> Option<Time> {
    at.as_ps().checked_sub(lead.as_ps()).map(Time::from_ps)
}
