use layercast_atm::policy::Service;
use layercast_atm::{TrafficSpec, Vcid};
use layercast_core::Span;

use crate::ties::Turn;

/// One end of a link.
#[derive(Debug)]
pub(super) struct Port {
    pub node: u32,
    /// Its number at the node.
    pub id: u16,
    /// The port at the other end, among all.
    pub peer: u32,
    pub cell_time: Span,
    pub delay: Span,
    /// Decides which cell is first of those that arrive by several ports at one instant.
    pub turn: Turn,
    /// Where the cells that come in go, by the number of their circuit.
    pub table: Vec<Line>,
}

/// Where the cells of a circuit go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Line {
    /// By which port, among all.
    pub port: u32,
    /// Under which number.
    pub vc: Vcid,
}

/// No circuit. A line takes eight bytes, an `Option` of one would take twelve: there are many, of which any is next.
const NOWHERE: Line = Line {
    port: u32::MAX,
    vc: Vcid(0),
};

impl Port {
    /// From the instant a cell begins to leave to when it is at the other end.
    pub fn lead(&self) -> Span {
        self.cell_time + self.delay
    }

    #[inline]
    pub fn line(&self, vc: Vcid) -> Option<Line> {
        let line = self.table.get(usize::from(vc.0)).copied();
        line.filter(|line| line.port != NOWHERE.port)
    }

    pub fn set_line(&mut self, vc: Vcid, line: Option<Line>) {
        let place = usize::from(vc.0);
        if self.table.len() <= place {
            if line.is_none() {
                return;
            }
            self.table.resize(place + 1, NOWHERE);
        }
        self.table[place] = line.unwrap_or(NOWHERE);
    }
}

/// What cells of a circuit are held to.
pub(super) fn traffic(service: Service) -> Option<TrafficSpec> {
    match service {
        Service::Guaranteed(contract) => Some(contract.traffic),
        Service::BestEffort | Service::Priority(_) => None,
    }
}
