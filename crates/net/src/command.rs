use layercast_core::Span;
use layercast_transport::mets::{SinkStats, SourceStats};
use layercast_wire::{FlowInfo, MemberStats};
use tokio::sync::oneshot;

use crate::config::LocalSource;
use crate::error::NetError;

/// What the user of a running node asks of it.
///
/// An answer whose asker is gone is dropped; a node that ends drops the askers it did not answer.
pub enum NodeCommand {
    /// Starts another flow here: it is advertised at once.
    Open {
        /// The flow.
        source: Box<LocalSource>,
        /// The flow as advertised, or why it cannot start.
        reply: oneshot::Sender<Result<FlowInfo, NetError>>,
    },
    /// Ends a flow: what was handed over until now is still sent, for `grace` at most.
    Close {
        /// Its name.
        flow: String,
        /// How long the queues may take to drain.
        grace: Span,
        /// Frames that could not be sent in time; no answer if there is no such flow.
        reply: oneshot::Sender<u32>,
    },
    /// Asks for a flow and its members.
    Info {
        /// Its name.
        flow: String,
        /// The answer; none if there is no such flow.
        reply: oneshot::Sender<FlowState>,
    },
}

/// A flow that starts here, and who receives it.
#[derive(Clone, Debug)]
pub struct FlowState {
    /// The flow as advertised.
    pub info: FlowInfo,
    /// What its source did.
    pub stats: SourceStats,
    /// Its members.
    pub members: Vec<MemberStats>,
}

/// What the user of a receiving host asks of it.
pub enum JoinCommand {
    /// Allows the next clean era to ask for one level more, after a `MayRaise` upcall.
    AllowRaise,
    /// Asks what was received so far.
    Stats {
        /// The answer.
        reply: oneshot::Sender<SinkStats>,
    },
}
