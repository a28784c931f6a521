use layercast_atm::{FrameId, Outcome, Reassembler, Run};
use layercast_core::Time;

use super::due::Moment;
use super::frames::{FrameBody, Frames};
use super::port::Port;
use crate::internet::engine::PacketId;

/// What is of the backbone however its cells are moved.
#[derive(Debug)]
pub(super) struct Fabric {
    /// All ports of all nodes, a node's one after the other.
    pub ports: Vec<Port>,
    /// How many of them each node has.
    pub degrees: Vec<usize>,
    /// For each node what puts frames together, if it is an adapter.
    pub reassemblers: Vec<Option<Reassembler>>,
    pub frames: Frames,
    /// How far everything has come.
    pub now: Moment,
    /// Packets that lost cells and have none left, not yet reported.
    pub lost: Vec<PacketId>,
    /// Cells moved over a link.
    pub cell_hops: u64,
    /// Cells that came on a circuit that is not.
    pub unknown_vc: u64,
    #[cfg(test)]
    pub departures: Vec<Departure>,
}

/// By which port a cell leaves, when it begins to, of which frame, and whether it is its first and its last.
#[cfg(test)]
pub(super) type Departure = (u32, Time, u64, bool, bool);

/// The output of the backbone.
#[derive(Debug)]
pub(super) enum Arrival {
    /// Nothing.
    Nothing,
    /// A cell of signalling, to a port.
    Signal(u32, layercast_atm::signal::SignalCell),
    /// A packet in this number of cells, to a node.
    Packet(u32, PacketId, u32),
}

impl Fabric {
    /// At an instant, before its cells if they have not begun to move.
    pub fn reach(&mut self, now: Time) {
        self.now = self.now.max(Moment { at: now, tie: 0 });
    }

    /// How many ports a node has.
    pub fn degree(&self, node: u32) -> usize {
        self.degrees[node as usize]
    }

    /// Whether what a port sends goes to an adapter.
    pub fn ends(&self, port: u32) -> bool {
        let peer = &self.ports[self.ports[port as usize].peer as usize];
        self.reassemblers[peer.node as usize].is_some()
    }

    /// When a cell of a port is at its other end.
    #[inline]
    pub fn moment(&self, port: u32, at: Time) -> Moment {
        Moment::of(self.ports[port as usize].turn, at)
    }

    /// How many of the cells that come from a port do so before a moment.
    #[inline]
    pub fn before(&self, port: u32, run: &Run, until: Moment) -> u32 {
        let count = run.before(until.at);
        if count == run.count {
            return count;
        }
        let mut rest = *run;
        if count > 0 {
            rest.take(count);
        }
        count + u32::from(rest.at == until.at && self.moment(port, rest.at) < until)
    }

    /// `count` cells of a frame are dropped.
    pub fn gone(&mut self, frame: FrameId, count: u32) {
        if let Some(FrameBody::Packet(id)) = self.frames.drop(frame, count) {
            self.lost.push(id);
        }
    }

    /// Cells come to an adapter; gives the packet that they complete.
    pub fn reassemble(&mut self, node: u32, run: &Run) -> Arrival {
        let Some(reassembler) = &mut self.reassemblers[node as usize] else {
            return Arrival::Nothing;
        };
        let frames = &mut self.frames;
        let (serial, cells) = (frames.serial(run.frame), frames.cells(run.frame));
        let outcome = reassembler.push_run(run, serial, cells);
        let whole = match outcome {
            Outcome::Complete(frame) => frames.take(frame),
            _ => None,
        };
        if let Some(FrameBody::Packet(id)) = frames.less(run.frame, run.count) {
            self.lost.push(id);
        }
        match whole {
            Some(FrameBody::Packet(id)) => Arrival::Packet(node, id, cells),
            _ => Arrival::Nothing,
        }
    }

    /// A cell of signalling comes to the other end of a port.
    pub fn signal(&mut self, port: u32, frame: FrameId) -> Arrival {
        match self.frames.less(frame, 1) {
            Some(FrameBody::Signal(cell)) => Arrival::Signal(self.ports[port as usize].peer, cell),
            _ => Arrival::Nothing,
        }
    }

    /// Cells that arrive from a port left it this long ago.
    #[cfg(test)]
    pub fn departed(&mut self, port: u32, run: Run, lead: layercast_core::Span) {
        self.departs(
            port,
            &Run {
                at: run.at - lead,
                ..run
            },
        );
    }

    #[cfg(test)]
    pub fn departs(&mut self, port: u32, run: &Run) {
        let serial = self.frames.serial(run.frame);
        let cells = run.cells();
        let cells = cells.map(|it| (port, it.at, serial, it.is_first(), it.is_last()));
        self.departures.extend(cells);
    }
}
