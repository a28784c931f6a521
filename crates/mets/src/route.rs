//! The flow that a PDU or a signal is about.

use layercast_core::FlowId;
use layercast_wire::{AdapterMsg, LinkPdu, Signal};

/// The flow that a PDU for a source is about; `None` if it does not decode. A switch sends RES to sources, and no media.
pub(crate) fn flow_of_pdu(pdu: &LinkPdu) -> Option<FlowId> {
    match pdu {
        LinkPdu::Mets(packet) => Some(packet.header.flow),
        LinkPdu::Adapter(message) => Some(message.flow),
        LinkPdu::Cell(cell) => AdapterMsg::from_cell(cell).ok().map(|message| message.flow),
    }
}

/// The flow that a signal is about; `None` if it is about all flows or about none.
pub(crate) fn flow_of_signal(signal: &Signal) -> Option<FlowId> {
    match signal {
        Signal::Join { flow, .. }
        | Signal::Leave { flow, .. }
        | Signal::Left { flow, .. }
        | Signal::Filter { flow, .. }
        | Signal::Filtered { flow, .. }
        | Signal::ToSource { flow, .. }
        | Signal::ToMember { flow, .. }
        | Signal::Report { flow, .. }
        | Signal::JoinAck { flow, .. }
        | Signal::JoinNak { flow, .. }
        | Signal::Decline { flow, .. }
        | Signal::Withdraw { flow, .. }
        | Signal::ChangeAck { flow, .. }
        | Signal::ChangeNak { flow, .. }
        | Signal::Close { flow, .. }
        | Signal::Clock { flow, .. } => Some(*flow),
        Signal::Advertise { flow } => Some(flow.id),
        Signal::Change { flow, .. } | Signal::ChangeEnd { flow, .. } => Some(flow.id),
        Signal::GetStats { flow } => *flow,
        Signal::Hello { .. }
        | Signal::LinkKey { .. }
        | Signal::ListFlows
        | Signal::Flows { .. }
        | Signal::Stats { .. }
        | Signal::Links { .. }
        | Signal::Ping
        | Signal::Pong
        | Signal::NameInUse { .. }
        | Signal::Error { .. } => None,
    }
}
