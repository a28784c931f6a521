//! The wires between the queues if cells move as trains: the departures, and when a wire has to be visited.

use core::hint::select_unpredictable;

use layercast_atm::{Departures, Run, Vcid};
use layercast_core::{Span, Time};

use super::SIGNALLING;
use super::due::{Due, Moment};
use super::fabric::{Arrival, Fabric};
use super::lane::Lane;
use super::train_port::TrainPort;

#[derive(Debug)]
pub(super) struct Wires {
    pub ports: Vec<TrainPort>,
    /// What is on its way or waits for it, in the order of arrival.
    pub lanes: Vec<Lane>,
    pub due: Due,
    /// No cell is left where it is for longer: bounds how far back others have to look.
    pub lag: Span,
}

impl Wires {
    /// Tells of the cells that left by now and are on their way.
    #[cfg(test)]
    pub fn depart(&self, fabric: &mut Fabric) {
        let now = fabric.now.at;
        for (n, port) in (0..).zip(&self.ports) {
            let signals = port.signals.iter();
            let signals = signals.map(|&(at, frame)| Run::frame(frame, SIGNALLING, 1, at));
            let lanes = self.lanes(fabric, n);
            let others = lanes.flat_map(|lane| self.lanes[lane].iter().flat_map(|run| run.cells()));
            for cell in signals.chain(others) {
                if cell.at - port.lead <= now {
                    fabric.departed(n, cell, port.lead);
                }
            }
        }
    }

    /// Which lane cells of a circuit take that leave a port: that to an adapter, to the port they leave next,
    /// or to nowhere.
    pub fn lane(&self, fabric: &Fabric, from: u32, vc: Vcid) -> usize {
        let port = &self.ports[from as usize];
        let peer = &fabric.ports[port.peer as usize];
        match peer.line(vc) {
            Some(line) if !port.ends => {
                self.ports[line.port as usize].first_lane + usize::from(peer.id)
            }
            _ => from as usize,
        }
    }

    /// The lanes that cells take that leave a port.
    fn lanes(&self, fabric: &Fabric, from: u32) -> impl Iterator<Item = usize> + use<> {
        let port = &self.ports[from as usize];
        let peer = &fabric.ports[port.peer as usize];
        let id = usize::from(peer.id);
        // A port has one for each of its node.
        let degree = if port.ends {
            0
        } else {
            fabric.degree(peer.node)
        };
        let first = self.ports[port.peer as usize - id].first_lane + id;
        let all = (0..degree).map(move |n| first + n * degree);
        std::iter::once(from as usize).chain(all)
    }

    /// Makes a port due when it has to be. The receiver of its cells becomes due when they are put on their
    /// way.
    #[inline]
    pub fn settle(&mut self, fabric: &Fabric, n: u32) {
        let port = &self.ports[n as usize];
        // Nothing but minima, as it is anybody's guess which of them is the least.
        let arrives = self.lanes[n as usize].last();
        let at = if port.ends { arrives } else { Time::MAX };
        let at = at.min(port.awaits).min(port.signal);
        if at != self.due.at(n) {
            let moment = (at < Time::MAX).then(|| fabric.moment(n, at));
            self.due.set(n, moment);
        }
    }

    /// Takes the first cell of signalling from the wire of a port if it is at the other end.
    #[inline]
    pub fn signal(&mut self, fabric: &mut Fabric, n: u32, at: Time) -> Option<Arrival> {
        let port = &mut self.ports[n as usize];
        if port.signal != at {
            return None;
        }
        let (_, frame) = port.signals.pop_front()?;
        port.signal = port.signals.front().map_or(Time::MAX, |it| it.0);
        fabric.cell_hops += 1;
        #[cfg(test)]
        fabric.departs(n, &Run::frame(frame, SIGNALLING, 1, at - port.lead));
        Some(fabric.signal(n, frame))
    }

    /// Delivers to the adapter at the other end of a port the cells that arrive before a moment.
    pub fn deliver(&mut self, fabric: &mut Fabric, n: u32, until: Moment) -> Arrival {
        let node = fabric.ports[fabric.ports[n as usize].peer as usize].node;
        let mut arrival = Arrival::Nothing;
        let lane = &mut self.lanes[n as usize];
        while let Some(run) = lane.shift(fabric, n, until) {
            #[cfg(test)]
            fabric.departed(n, run, self.ports[n as usize].lead);
            fabric.cell_hops += u64::from(run.count);
            arrival = fabric.reassemble(node, &run);
        }
        arrival
    }

    /// Cells that arrived before now and are unknown.
    pub fn give_up(&mut self, fabric: &mut Fabric, n: u32) {
        let lane = &mut self.lanes[n as usize];
        while let Some(run) = lane.shift(fabric, n, fabric.now) {
            #[cfg(test)]
            fabric.departed(n, run, self.ports[n as usize].lead);
            fabric.cell_hops += u64::from(run.count);
            fabric.unknown_vc += u64::from(run.count);
            fabric.gone(run.frame, run.count);
        }
    }

    /// The same if there are any, at a moment when all is settled of what began to leave.
    #[inline]
    pub fn give_up_late(&mut self, fabric: &mut Fabric, n: u32) {
        if !self.ports[n as usize].ends && self.lanes[n as usize].first() < fabric.now.at {
            self.give_up(fabric, n);
        }
    }
}

/// The departures of a port, put on its wire beforehand.
pub(super) struct Leaving<'a> {
    pub wires: &'a mut Wires,
    pub fabric: &'a Fabric,
    pub from: Sender,
}

/// A port as a sender of cells.
#[derive(Clone, Copy)]
pub(super) struct Sender {
    pub port: u32,
    peer: u32,
    /// The number of that at its node.
    id: u16,
    lead: Span,
    ends: bool,
}

impl Sender {
    pub fn new(wires: &Wires, fabric: &Fabric, port: u32) -> Sender {
        let &TrainPort {
            peer, lead, ends, ..
        } = &wires.ports[port as usize];
        Sender {
            port,
            peer,
            id: fabric.ports[peer as usize].id,
            lead,
            ends,
        }
    }
}

impl Departures for Leaving<'_> {
    #[inline(always)]
    fn add(&mut self, mut run: Run) {
        let Leaving {
            wires,
            fabric,
            from,
        } = self;
        run.at += from.lead;
        if run.vc == SIGNALLING {
            let port = &mut wires.ports[from.port as usize];
            port.signal = port.signal.min(run.at);
            for cell in run.cells() {
                port.signals.push_back((cell.at, cell.frame));
            }
            return;
        }
        let line = match from.ends {
            true => None,
            false => fabric.ports[from.peer as usize].line(run.vc),
        };
        let Some(line) = line else {
            return wires.lanes[from.port as usize].push(run);
        };
        let next = &mut wires.ports[line.port as usize];
        wires.lanes[next.first_lane + usize::from(from.id)].push(run);
        let last = run.last_at().saturating_add(next.beyond);
        let at = run.at.saturating_add(wires.lag);
        let at = select_unpredictable(run.is_last(), last, at);
        if at < next.awaits {
            next.awaits = at;
            if at < wires.due.at(line.port) {
                let moment = fabric.moment(line.port, at);
                wires.due.set(line.port, Some(moment));
            }
        }
    }

    fn put_off(&mut self, after: Time, by: Span) {
        let after = after + self.from.lead;
        for lane in self.wires.lanes(self.fabric, self.from.port) {
            self.wires.lanes[lane].put_off(after, by);
        }
    }

    fn count_after(&self, vc: Vcid, after: Time) -> u32 {
        let after = after + self.from.lead;
        if vc == SIGNALLING {
            let port = &self.wires.ports[self.from.port as usize];
            let signals = port.signals.iter().rev();
            return signals.take_while(|it| it.0 > after).count() as u32;
        }
        let lane = self.wires.lane(self.fabric, self.from.port, vc);
        self.wires.lanes[lane].count_after(vc, after)
    }
}
