//! What is between the queues if cells move as trains: what left them, and when somebody has to look at it.

use layercast_atm::{Run, RunQueue, Vcid};
use layercast_core::Time;

use super::SIGNALLING;
use super::due::{Due, Moment};
use super::fabric::{Arrival, Fabric};
use super::lane::Lane;
use super::train_port::TrainPort;

#[derive(Debug)]
pub(super) struct Wires {
    pub ports: Vec<TrainPort>,
    /// What is on its way, in the order of arrival.
    pub lanes: Vec<Lane>,
    pub due: Due,
    /// No cell is left where it is for longer: bounds how far back others have to look.
    pub lag: layercast_core::Span,
}

impl Wires {
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

    /// Puts on the wire of a port what has left it.
    #[inline(always)]
    pub fn emit(&mut self, fabric: &mut Fabric, n: u32, mut run: Run) {
        #[cfg(test)]
        fabric.departs(n, &run);
        let port = &mut self.ports[n as usize];
        run.at += port.lead;
        if run.vc == SIGNALLING {
            port.signal = port.signal.min(run.at);
            for cell in run.cells() {
                port.signals.push_back((cell.at, cell.frame));
            }
            return;
        }
        if port.ends {
            return self.lanes[n as usize].push(run);
        }
        let came_by = &fabric.ports[port.peer as usize];
        let Some(line) = came_by.line(run.vc) else {
            self.lanes[n as usize].push(run);
            return self.give_up(fabric, n);
        };
        let next = &mut self.ports[line.port as usize];
        self.lanes[next.first_lane + usize::from(came_by.id)].push(run);
        let at = match run.is_last() {
            true => run.last_at().saturating_add(next.beyond),
            false => run.at.saturating_add(self.lag),
        };
        next.awaits = next.awaits.min(at);
        if at < self.due.at(line.port) {
            self.due.set(line.port, Some(fabric.moment(line.port, at)));
        }
    }

    /// Makes a port with this queue due when it has to be.
    #[inline]
    pub fn settle(&mut self, fabric: &Fabric, n: u32, queue: &RunQueue) {
        let port = &self.ports[n as usize];
        // Nothing but minima, as it is anybody's guess which of them is the least.
        let arrives = self.lanes[n as usize].last();
        let at = if port.ends { arrives } else { Time::MAX };
        let at = at
            .min(port.awaits)
            .min(port.signal)
            .min(queue.next().saturating_add(port.lagged))
            .min(queue.next_signal().saturating_add(port.lead))
            .min(queue.next_last().saturating_add(port.beyond));
        if at != self.due.at(n) {
            let moment = (at < Time::MAX).then(|| fabric.moment(n, at));
            self.due.set(n, moment);
        }
    }

    /// What comes from the wire of a port at a moment that somebody has to hear of, if that does.
    #[inline]
    pub fn arrive(&mut self, fabric: &mut Fabric, n: u32, moment: Moment) -> Option<Arrival> {
        let port = &mut self.ports[n as usize];
        if port.signal == moment.at
            && let Some((_, frame)) = port.signals.pop_front()
        {
            port.signal = port.signals.front().map_or(Time::MAX, |it| it.0);
            fabric.cell_hops += 1;
            return Some(fabric.signal(n, frame));
        }
        let last = port.ends && self.lanes[n as usize].last() == moment.at;
        last.then(|| self.deliver(fabric, n, moment.next()))
    }

    /// Gives the adapter at the other end of a port what comes there before a moment.
    pub fn deliver(&mut self, fabric: &mut Fabric, n: u32, until: Moment) -> Arrival {
        let node = fabric.ports[fabric.ports[n as usize].peer as usize].node;
        let mut arrival = Arrival::Nothing;
        let lane = &mut self.lanes[n as usize];
        while let Some(run) = lane.shift(fabric, n, until) {
            fabric.cell_hops += u64::from(run.count);
            arrival = fabric.reassemble(node, &run);
        }
        arrival
    }

    /// Cells that came before now and that nobody knows.
    pub fn give_up(&mut self, fabric: &mut Fabric, n: u32) {
        let lane = &mut self.lanes[n as usize];
        while let Some(run) = lane.shift(fabric, n, fabric.now) {
            fabric.cell_hops += u64::from(run.count);
            fabric.unknown_vc += u64::from(run.count);
            fabric.gone(run.frame, run.count);
        }
    }
}
