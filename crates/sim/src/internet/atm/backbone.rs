use std::collections::BTreeMap;

use layercast_atm::mapper::FlowMapper;
use layercast_atm::signal::{Controller, Gates};
use layercast_atm::{AtmAddress, Cell, Class, QueueConfig, QueueStats, Run, TrafficSpec, Vcid};
use layercast_core::Time;

use super::cells::Cells;
use super::change::Change;
use super::contract::Contracted;
use super::due::Moment;
use super::fabric::{Arrival, Fabric};
use super::frames::FrameBody;
use super::port::Line;
use super::sites::Sites;
use super::trains::Trains;
use crate::internet::network::NodeIndex;
use crate::kernel::SourceId;

/// All of the backbone.
#[derive(Debug)]
pub(in crate::internet) struct Backbone {
    pub(super) nodes: Vec<AtmNode>,
    /// For each node of the network its address, if it has one.
    pub(super) addresses: Vec<Option<AtmAddress>>,
    pub(super) fabric: Fabric,
    pub(super) mover: Mover,
    /// Packets that the mappers discarded.
    pub(super) discarded: u64,
    /// Flows with a contract, and between which hosts they are.
    pub(super) contracts: Vec<Contracted>,
    pub(super) contracted: BTreeMap<(NodeIndex, NodeIndex), u32>,
}

/// How cells move.
#[derive(Debug)]
pub(super) enum Mover {
    /// One by one.
    Cells(Cells),
    /// One by one, a site after the other.
    Sites(Sites),
    /// Trains of cells, with the same results as one by one.
    Trains(Trains),
}

/// A switch or an adapter.
#[derive(Debug)]
pub(in crate::internet) struct AtmNode {
    pub(super) name: String,
    /// Its first port among all.
    pub(super) first_port: u32,
    pub(super) controller: Controller<Gates>,
    pub(super) adapter: Option<Adapter>,
    pub(in crate::internet) timer: SourceId,
    /// Whether the controller got an input since its output was last polled.
    pub(super) told: bool,
    /// The next timeout of the controller, as of its last poll.
    pub(super) patience: Option<Time>,
}

/// What a router or host has on its ATM side.
#[derive(Debug)]
pub(super) struct Adapter {
    pub(super) owner: NodeIndex,
    pub(super) mapper: FlowMapper,
}

impl Backbone {
    /// When cells move next.
    #[inline(always)]
    pub fn next(&self) -> Option<Time> {
        match &self.mover {
            Mover::Cells(cells) => cells.next(),
            Mover::Sites(sites) => sites.next(),
            Mover::Trains(trains) => trains.next(),
        }
    }

    /// Cells moved over a link, as far as anybody looked.
    pub fn cell_hops(&self) -> u64 {
        self.fabric.cell_hops
    }

    /// Timers of controllers that were due, but for those that are events of the kernel.
    pub fn wakes(&self) -> u64 {
        match &self.mover {
            Mover::Sites(sites) => sites.wakes,
            Mover::Cells(_) | Mover::Trains(_) => 0,
        }
    }

    /// Nothing is due any more at an instant that was not before.
    pub fn passed(&mut self, now: Time) {
        self.fabric.now = self.fabric.now.max(Moment::after(now));
    }

    /// All cells move that do until an instant, after which nothing happens.
    pub fn finish(&mut self, now: Time) {
        self.fabric.reach(now);
        match &mut self.mover {
            Mover::Cells(_) => {}
            Mover::Sites(sites) => sites.finish(&mut self.fabric, &mut self.nodes),
            Mover::Trains(trains) => trains.finish(&mut self.fabric),
        }
    }

    pub(super) fn step(&mut self) -> Arrival {
        match &mut self.mover {
            Mover::Cells(cells) => cells.step(&mut self.fabric),
            Mover::Sites(sites) => sites.step(&mut self.fabric, &mut self.nodes),
            Mover::Trains(trains) => trains.step(&mut self.fabric),
        }
    }

    /// A frame comes to the queue of a port, all its cells simultaneously.
    pub(super) fn put(&mut self, port: u32, vc: Vcid, body: FrameBody, count: u32) {
        let fabric = &mut self.fabric;
        let from = fabric.ports[port as usize].node;
        let frame = fabric.frames.add(from, body, count);
        match &mut self.mover {
            Mover::Cells(cells) => {
                for index in 0..count {
                    cells.enter(fabric, port, Cell::of(frame, vc, index, count), index);
                }
            }
            Mover::Sites(sites) => sites.put_frame(fabric, port, frame, vc, count),
            Mover::Trains(trains) => {
                let run = Run::frame(frame, vc, count, fabric.now.at);
                trains.put(fabric, port, run);
            }
        }
    }

    /// One cell of a frame, its `index`th, comes to the queue of a port.
    pub(super) fn put_cell(&mut self, port: u32, cell: Cell, index: u32) {
        let fabric = &mut self.fabric;
        match &mut self.mover {
            Mover::Cells(cells) => cells.enter(fabric, port, cell, index),
            Mover::Sites(sites) => sites.put(fabric, port, cell),
            Mover::Trains(trains) => {
                let run = Run::of(cell, fabric.now.at);
                trains.put(fabric, port, run);
            }
        }
    }

    pub(super) fn open(&mut self, port: u32, vc: Vcid, class: Class, traffic: Option<TrafficSpec>) {
        let fabric = &mut self.fabric;
        match &mut self.mover {
            Mover::Cells(cells) => cells.settled(fabric, port).open(vc, class, traffic),
            Mover::Sites(sites) => sites.settled(fabric, port).open(vc, class, traffic),
            Mover::Trains(trains) => trains.change(fabric, port, |it| it.open(vc, class)),
        }
    }

    pub(super) fn close(&mut self, port: u32, vc: Vcid) {
        let fabric = &mut self.fabric;
        match &mut self.mover {
            Mover::Cells(cells) => cells.settled(fabric, port).close(vc),
            Mover::Sites(sites) => sites.settled(fabric, port).close(vc),
            Mover::Trains(trains) => trains.change(fabric, port, |it| it.close(vc)),
        }
    }

    /// What a controller wants changed.
    pub(super) fn change(&mut self, change: &Change) {
        let Line { port, vc } = change.to;
        match change.opens {
            Some((class, traffic)) => self.open(port, vc, class, traffic),
            None => self.close(port, vc),
        }
        if let Some((port, vc)) = change.from {
            self.route(port, vc, change.line(port));
        }
    }

    /// Cells of a circuit that enter by a port leave by this line.
    pub(super) fn route(&mut self, port: u32, vc: Vcid, line: Option<Line>) {
        // A circuit does not go back where it came from.
        let line = line.filter(|line| line.port != port);
        match &mut self.mover {
            Mover::Cells(_) | Mover::Sites(_) => {
                self.fabric.ports[port as usize].set_line(vc, line);
            }
            Mover::Trains(trains) => trains.route(&mut self.fabric, port, vc, line),
        }
    }

    /// What came of a frame will not be completed.
    pub(super) fn forget(&mut self, node: u32, vc: Vcid) {
        let port = self.nodes[node as usize].first_port;
        let peer = self.fabric.ports[port as usize].peer;
        match &mut self.mover {
            Mover::Cells(_) => {}
            Mover::Sites(sites) => sites.collect(&mut self.fabric, &mut self.nodes, peer),
            Mover::Trains(trains) => trains.collect(&mut self.fabric, peer),
        }
        if let Some(reassembler) = &mut self.fabric.reassemblers[node as usize] {
            reassembler.forget(vc);
        }
    }

    pub(super) fn queue_config(&self, port: u32) -> QueueConfig {
        match &self.mover {
            Mover::Cells(cells) => *cells.queue(port).config(),
            Mover::Sites(sites) => *sites.queue(port).config(),
            Mover::Trains(trains) => *trains.queue(port).config(),
        }
    }

    /// What a queue has seen, and cells that wait, now that all has happened that did.
    pub(super) fn queue(&self, port: u32) -> (QueueStats, u32) {
        match &self.mover {
            Mover::Cells(cells) => {
                let queue = cells.queue(port);
                (*queue.stats(), queue.len())
            }
            Mover::Sites(sites) => {
                let queue = sites.queue(port);
                (*queue.stats(), queue.len())
            }
            Mover::Trains(trains) => {
                let (queue, now) = (trains.queue(port), self.fabric.now.at);
                (queue.stats(now), queue.len(now))
            }
        }
    }
}
