use std::collections::VecDeque;

use layercast_atm::policy::Service;
use layercast_atm::{Cell, OutputQueue, TrafficSpec};
use layercast_core::{Span, Time};

use crate::kernel::SourceId;

/// One end of a link: the queue before it, and the cells on their way to the other end.
#[derive(Debug)]
pub(super) struct Port {
    pub node: u32,
    /// Its number at the node.
    pub id: u16,
    /// The port at the other end, among all.
    pub peer: u32,
    pub queue: OutputQueue,
    pub cell_time: Span,
    pub delay: Span,
    /// When the cell being sent has left.
    pub busy_until: Time,
    pub wire: VecDeque<(Time, Cell)>,
}

/// Due when the first cell on the wire of a port arrives.
pub(super) fn arrives(port: u32) -> SourceId {
    SourceId(2 * port)
}

/// Due when the next cell of a port may leave.
pub(super) fn leaves(port: u32) -> SourceId {
    SourceId(2 * port + 1)
}

/// What cells of a circuit are held to.
pub(super) fn traffic(service: Service) -> Option<TrafficSpec> {
    match service {
        Service::Guaranteed(contract) => Some(contract.traffic),
        Service::BestEffort | Service::Priority(_) => None,
    }
}
