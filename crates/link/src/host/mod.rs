//! What a host costs (specs/mets.md 3.2): the processor of a sender, the network interface, interrupts,
//! stalls and user process of a receiver. In virtual time these are the hosts of the simulator, in
//! real time the "virtual NIC" of specs/mets.md 3.3.

mod receiving;
mod sending;
mod stalls;

pub use receiving::{HostStats, ReceiveCosts, ReceivingHost};
pub use sending::{SendCosts, SendingHost};
pub use stalls::Stalls;

use layercast_wire::LinkPdu;

/// Whether a packet ends with this PDU (or begins, where the first cell is marked).
pub fn ends_packet(pdu: &LinkPdu) -> bool {
    match pdu {
        LinkPdu::Cell(cell) => cell.pti.auu(),
        LinkPdu::Mets(_) | LinkPdu::Adapter(_) => true,
    }
}
