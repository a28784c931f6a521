//! Cells for observers: the position of each in its frame, and its content.
//!
//! A cell of the simulator only names its frame, and after drops the remaining ones are not distinguishable.
//! While cells are captured, each cell moved one by one therefore gets a number of its own, and this table maps
//! the number to the cell. Without capture the table does not exist.

use std::collections::BTreeMap;

use layercast_atm::{Cell, CellFlags, FrameId, Vcid};
use layercast_core::{CELL_PAYLOAD, Time};
use layercast_wire::{Cell as WireCell, Payload, Pti, Segmenter};

use super::backbone::{Backbone, Mover};
use super::build::output_queue;
use super::cells::Cells;
use super::frames::FrameBody;
use crate::internet::engine::PacketId;

/// Circuit 0 is this one on the wire, since ITU-T I.361 and others keep those below for themselves.
const FIRST_VCI: u32 = 32;

/// Cells of frames whose octets are kept, 12 MiB: those of a frame leave soon after each other, and again at the next
/// switch.
const MOST_KEPT: usize = 1 << 18;

/// The cells of the backbone while they are captured.
#[derive(Default, Debug)]
pub(in crate::internet) struct Seen {
    /// What the numbers of cells stand for.
    places: Vec<Place>,
    free: Vec<FrameId>,
    /// Cells that began to leave a port, not yet reported.
    departed: Vec<Departed>,
    pdus: Pdus,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    frame: FrameId,
    /// Which of its frame, from 0.
    index: u32,
}

/// A cell that begins to leave.
#[derive(Clone, Copy, Debug)]
struct Departed {
    at: Time,
    port: u32,
    vc: Vcid,
    flags: CellFlags,
    place: Place,
}

/// Octets of frames, by their serial numbers.
#[derive(Default, Debug)]
struct Pdus {
    of: BTreeMap<u64, Vec<[u8; CELL_PAYLOAD]>>,
    cells: usize,
}

impl Seen {
    /// A cell enters the backbone; gives it with a number instead of its frame.
    pub fn enter(&mut self, cell: Cell, index: u32) -> Cell {
        let frame = cell.frame;
        let place = Place { frame, index };
        let frame = match self.free.pop() {
            Some(number) => {
                self.places[number.0 as usize] = place;
                number
            }
            None => {
                self.places.push(place);
                FrameId(self.places.len() as u32 - 1)
            }
        };
        Cell { frame, ..cell }
    }

    /// A cell is no more; gives it with its frame.
    pub fn leave(&mut self, cell: Cell) -> Cell {
        self.free.push(cell.frame);
        self.whose(cell)
    }

    /// A cell with its frame.
    pub fn whose(&self, cell: Cell) -> Cell {
        let frame = self.places[cell.frame.0 as usize].frame;
        Cell { frame, ..cell }
    }

    /// A cell begins to leave a port.
    pub fn departs(&mut self, at: Time, port: u32, cell: Cell) {
        self.departed.push(Departed {
            at,
            port,
            vc: cell.vc,
            flags: cell.flags,
            place: self.places[cell.frame.0 as usize],
        });
    }
}

impl Pdus {
    /// The octets of a cell of a frame, which are made if they are not here.
    fn cell(&mut self, serial: u64, index: u32, make: impl FnOnce() -> Payload) -> [u8; 48] {
        if !self.of.contains_key(&serial) {
            let cells = Segmenter::pdu(make(), 0, 0).into_iter().flatten();
            let cells: Vec<_> = cells.map(|cell| cell.payload).collect();
            // All but this can be made again.
            if self.cells + cells.len() > MOST_KEPT {
                self.of.clear();
                self.cells = 0;
            }
            self.cells += cells.len();
            self.of.insert(serial, cells);
        }
        let cells = self.of.get(&serial);
        let cell = cells.and_then(|cells| cells.get(index as usize));
        cell.copied().unwrap_or([0; CELL_PAYLOAD])
    }
}

impl Backbone {
    /// From now on cells are seen: they move one by one. Too late once there were any: false.
    pub fn see(&mut self) -> bool {
        if !self.fabric.frames.is_new() {
            return matches!(&self.mover, Mover::Cells(cells) if cells.seen.is_some());
        }
        let ports = 0..self.fabric.ports.len() as u32;
        let queues = ports.map(|port| output_queue(self.queue_config(port)));
        // Each was good enough before.
        let Ok(queues) = queues.collect() else {
            return false;
        };
        let mut cells = Cells::new(queues);
        cells.seen = Some(Box::default());
        self.mover = Mover::Cells(cells);
        true
    }

    /// The record of captured cells, if cells are captured.
    pub fn seen(&mut self) -> Option<&mut Option<Box<Seen>>> {
        match &mut self.mover {
            Mover::Cells(cells) => Some(&mut cells.seen),
            Mover::Sites(_) | Mover::Trains(_) => None,
        }
    }

    /// The directions of links whose cells are captured, in the order of the ports.
    pub fn seen_ports(&self) -> impl Iterator<Item = String> {
        let is_seen = matches!(&self.mover, Mover::Cells(cells) if cells.seen.is_some());
        let count = if is_seen { self.fabric.ports.len() } else { 0 };
        (0..count as u32).map(|port| self.port_name(port))
    }
}

impl Backbone {
    /// Tells, in the order of time, of the cells that began to leave a port; the number of the port comes first. `octets` are
    /// those of a packet.
    pub fn cells_seen(
        &mut self,
        octets: impl Fn(PacketId) -> Vec<u8>,
        mut tell: impl FnMut(Time, u32, &WireCell),
    ) {
        // Taken out while it is reported, since frames are accessed meanwhile.
        let Some(mut seen) = self.seen().and_then(Option::take) else {
            return;
        };
        let mut departed = std::mem::take(&mut seen.departed);
        for it in departed.drain(..) {
            let cell = self.wire_cell(&mut seen.pdus, &it, &octets);
            tell(it.at, it.port, &cell);
        }
        seen.departed = departed;
        if let Some(place) = self.seen() {
            *place = Some(seen);
        }
    }

    /// A cell as it is on the wire. It is under way, so its frame is, too.
    fn wire_cell(
        &self,
        pdus: &mut Pdus,
        it: &Departed,
        octets: impl Fn(PacketId) -> Vec<u8>,
    ) -> WireCell {
        let frames = &self.fabric.frames;
        let Place { frame, index } = it.place;
        let (payload, is_last) = match frames.body(frame) {
            // A message fills a cell: there is no room for AAL5, and nothing to mark.
            Some(FrameBody::Signal(signal)) => (signal.encode(), false),
            Some(FrameBody::Packet(id)) => {
                // All of it as it is, without LLC and SNAP (RFC 2684, 6).
                let pdu = || Payload::Bytes(octets(id).into());
                let octets = pdus.cell(frames.serial(frame), index, pdu);
                (octets, it.flags.has(CellFlags::LAST))
            }
            None => ([0; CELL_PAYLOAD], false),
        };
        let circuit = FIRST_VCI + u32::from(it.vc.0);
        WireCell {
            vpi: (circuit >> 16) as u8,
            vci: circuit as u16,
            pti: Pti::data(false, is_last),
            clp: it.flags.has(CellFlags::LOW),
            payload,
        }
    }
}
