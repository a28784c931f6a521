//! When things happen: the clock, the calendar of arrivals, the timers, and the observer.

mod lines;
mod source;

use layercast_core::{AnyObserver, Time};

use super::network::NodeIndex;
use super::report::Sample;
use crate::calendar::{Calendar, Waits};
use crate::kernel::{Kernel, SourceId};
use crate::ties::{Class, Turns};

pub(crate) use lines::Lines;
pub(crate) use source::Source;

/// A packet by its place among all there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PacketId(pub u32);

/// A packet that comes to a node by a link or LAN.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub packet: PacketId,
    pub to: NodeIndex,
    /// The link or LAN.
    pub by: u32,
}

impl Waits for Arrival {
    type Turns = Lines;

    fn turn(self, at: Time, lines: &Lines) -> u64 {
        match self.packet {
            // A packet that enters a link now leaves it later: the order does not matter.
            INBOX => 0,
            _ => lines.turn(self.by, self.to).at(at),
        }
    }
}

/// In the place of a packet, for an arrival that is an inbox, whose number is in the place of the link.
pub(crate) const INBOX: PacketId = PacketId(u32::MAX);

/// The clock and the order of events.
#[derive(Debug)]
pub(crate) struct Engine<'a> {
    pub now: Time,
    /// It sees the machines.
    pub obs: AnyObserver<'a>,
    /// Packets on links and LANs, and the nodes they come to.
    pub arrivals: Calendar<Arrival>,
    /// All other events but those of cells: timers, most of them.
    pub kernel: Kernel,
    /// Measurements not handed over yet.
    pub samples: Vec<Sample>,
    /// What each event source is.
    sources: Vec<Source>,
}

impl<'a> Engine<'a> {
    /// Nothing is due yet, and there is no observer.
    pub fn new(turns: Turns, lines: Lines) -> Engine<'a> {
        Engine {
            now: Time::ZERO,
            obs: AnyObserver::default(),
            arrivals: Calendar::new(lines),
            kernel: Kernel::new(turns),
            samples: Vec::new(),
            sources: Vec::new(),
        }
    }

    /// Adds an event source of a kind and a name, which decides its turn at one instant.
    pub fn add(&mut self, what: Source, name: &str) -> SourceId {
        self.sources.push(what);
        let name = format!("{}/{name}", what.kind());
        self.kernel.add(Class::Timer, &name)
    }

    /// An event source acts for somebody else from now on.
    pub fn rename(&mut self, source: SourceId, name: &str) {
        let name = format!("{}/{name}", self.source(source).kind());
        self.kernel.rename(source, &name);
    }

    /// What an event source is.
    #[inline]
    pub fn source(&self, id: SourceId) -> Source {
        self.sources[id.0 as usize]
    }
}
