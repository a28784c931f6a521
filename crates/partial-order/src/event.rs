//! What the machines tell their users, and what they count.

use bytes::Bytes;
use layercast_core::{Span, Time};
use serde::Serialize;

use crate::explain::Hold;
use crate::pdu::Reject;

/// Why an SDU was declared lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LossCause {
    /// Within the tolerance of its flow, by an SDU of its flow or an acknowledgement.
    OwnFlow,
    /// Within the tolerance of its flow, by an SDU of another flow.
    Group {
        /// The other flow.
        by: usize,
    },
    /// The sender does not hold it any more.
    SenderGone,
    /// The receiver gave up the connection.
    Closed,
}

/// What a receiver tells.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReceiverEvent {
    /// The sender opened a connection.
    Opened {
        /// Number of its flows.
        flows: usize,
    },
    /// An SDU, in an order that the service order permits.
    Deliver {
        /// The flow.
        flow: usize,
        /// Number in the flow, from 0.
        number: u64,
        /// The SDU.
        payload: Bytes,
        /// When it arrived.
        arrived: Time,
        /// How long the order held it.
        waited: Span,
    },
    /// SDUs are declared lost; comes before the delivery of each successor.
    Lost {
        /// The flow.
        flow: usize,
        /// Numbers in the flow.
        numbers: Vec<u64>,
        /// Why.
        cause: LossCause,
    },
    /// An SDU arrived after it was declared lost, and was dropped.
    Late {
        /// The flow.
        flow: usize,
        /// Number in the flow.
        number: u64,
    },
    /// A loss that the tolerance of the flow does not cover, because the sender does not hold the SDU any more.
    QosViolated {
        /// The flow.
        flow: usize,
    },
    /// Nothing was delivered for the stall time although SDUs wait; a warning.
    Stalled {
        /// The flow of the SDU that waits.
        flow: usize,
        /// Its number.
        number: u64,
        /// What it waits for.
        waiting_for: Hold,
    },
    /// All SDUs are settled and the sender knows.
    Closed,
    /// The sender ended the connection without CLOSE, or sent nothing for [`PEER_TIMEOUT`](crate::PEER_TIMEOUT). All
    /// SDUs are settled, those that are missing as lost.
    PeerDead,
}

/// What a sender tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SenderEvent {
    /// The receiver accepted the connection; SDUs may be submitted.
    Opened,
    /// A flow whose window was exhausted accepts SDUs again.
    Writable {
        /// The flow.
        flow: usize,
    },
    /// The receiver refused the connection, does not know it or gave it up.
    Rejected(Reject),
    /// The receiver did not answer; the connection is over.
    PeerDead,
    /// All SDUs are settled at the receiver.
    Closed,
}

/// What a sender counts of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct SenderStats {
    /// SDUs accepted.
    pub submitted: u64,
    /// DATA PDUs sent again.
    pub retransmitted: u64,
    /// ACK_REQ PDUs sent.
    pub ack_req: u64,
    /// ACK_RES PDUs received.
    pub ack_res: u64,
    /// FNACK PDUs received.
    pub fnack: u64,
    /// Numbers that were requested and not held any more.
    pub gone: u64,
    /// Submissions refused because the window was exhausted.
    pub refused: u64,
    /// Unacknowledged SDUs.
    pub buffered: u64,
    /// Most unacknowledged SDUs.
    pub window: u64,
    /// Smoothed round trip.
    pub rtt: Span,
    /// PDUs that are malformed or contradict the state of the flow.
    pub bad_pdu: u64,
}

/// What a receiver counts of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct ReceiverStats {
    /// SDUs delivered.
    pub delivered: u64,
    /// SDUs declared lost.
    pub lost: u64,
    /// SDUs that arrived after they were declared lost: greedy declarations.
    pub late: u64,
    /// SDUs that arrived again.
    pub duplicate: u64,
    /// FNACK PDUs sent.
    pub fnack: u64,
    /// ACK_RES PDUs sent.
    pub ack_res: u64,
    /// SDUs that wait.
    pub buffered: u64,
    /// Most SDUs that waited together.
    pub buffered_max: u64,
    /// SDUs dropped because the buffer was full; the sender sends them again.
    pub overflow: u64,
    /// Sum of the times that delivered SDUs waited.
    pub waited: Span,
    /// Malformed PDUs, and such that contradict the state of the flow.
    pub bad_pdu: u64,
}
