use layercast_core::{FlowId, Time};
use layercast_transport::mets::{AppFrame, Source, feed};
use layercast_wire::{AdapterMsg, LinkPdu, Signal};

use crate::config::LocalSource;
use crate::error::NetError;

/// A source and the frames it is fed from.
pub(crate) struct Running {
    pub flow: FlowId,
    pub name: String,
    pub source: Source,
    frames: Box<dyn Iterator<Item = AppFrame> + Send>,
    /// Members that still have to join before the first frame.
    pub waits_for: u32,
    pub finished: bool,
}

impl Running {
    /// The source as configured, not fed yet.
    pub fn new(local: LocalSource) -> Result<Running, NetError> {
        Ok(Running {
            flow: local.config.flow.id,
            name: local.config.flow.name.clone(),
            source: Source::new(local.config)?,
            frames: local.frames,
            waits_for: local.start_when_joined,
            finished: false,
        })
    }

    /// Fills the queue of the source, unless it waits for members.
    pub fn feed(&mut self, now: Time) {
        if self.waits_for == 0 {
            feed(&mut self.source, now, &mut self.frames);
        }
    }
}

/// The flow a PDU for a source is about: sources only get RES.
pub(crate) fn flow_of_pdu(pdu: &LinkPdu) -> Option<FlowId> {
    match pdu {
        LinkPdu::Mets(packet) => Some(packet.header.flow),
        LinkPdu::Adapter(message) => Some(message.flow),
        LinkPdu::Cell(cell) => AdapterMsg::from_cell(cell).ok().map(|message| message.flow),
    }
}

/// The flow a signal for a source is about.
pub(crate) fn flow_of_signal(signal: &Signal) -> Option<FlowId> {
    match signal {
        Signal::Join { flow, .. }
        | Signal::Leave { flow, .. }
        | Signal::Report { flow, .. }
        | Signal::JoinAck { flow, .. }
        | Signal::JoinNak { flow, .. }
        | Signal::Withdraw { flow, .. }
        | Signal::Close { flow, .. } => Some(*flow),
        Signal::Advertise { flow } => Some(flow.id),
        Signal::GetStats { flow } => *flow,
        Signal::Hello { .. }
        | Signal::LinkKey { .. }
        | Signal::ListFlows
        | Signal::Flows { .. }
        | Signal::Stats { .. }
        | Signal::Error { .. } => None,
    }
}
