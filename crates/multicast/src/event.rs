use layercast_core::{Rate, Span};
use layercast_wire::multicast::{MemberId, Reason};
use thiserror::Error;

use crate::{ContentError, Peer};

/// Event for the user of a sender.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SenderEvent {
    /// The session is open.
    Opened {
        /// Receivers that take part, including all behind aggregators.
        yes: u32,
        /// Receivers that refused.
        no: u32,
        /// Listed receivers that did not answer.
        silent: u32,
    },
    /// A receiver joined the running session.
    Joined(MemberId),
    /// A pass and its answers have ended.
    PassDone {
        /// Number of the pass.
        round: u16,
        /// Packets sent in it.
        packets: u64,
        /// Receivers that lack something.
        needy: u32,
    },
    /// Buffers of the stream below this number were released.
    Released {
        /// 1 + the last.
        upto: u64,
    },
    /// Packets of the stream are sent again.
    Repair {
        /// The first.
        from: u64,
        /// 1 + the last.
        to: u64,
    },
    /// An answer is missing: the group is polled again.
    Handshake {
        /// Number of missing answers.
        missing: u32,
    },
    /// A receiver cannot take data at present.
    Busy(MemberId),
    /// A receiver will be served after the others.
    Postponed(MemberId),
    /// A receiver has everything, and the digest is right.
    Delivered(MemberId),
    /// A receiver was expelled.
    Ejected {
        /// The receiver.
        member: MemberId,
        /// Octets per second that would have been released for this receiver alone.
        own_rate: u64,
        /// Octets per second that were released for the group.
        group_rate: u64,
    },
    /// A receiver failed.
    Failed {
        /// The receiver.
        member: MemberId,
        /// The reason.
        reason: Reason,
    },
    /// The group is too slow, and no single receiver is the cause.
    Degraded {
        /// Octets per second that were released.
        group_rate: u64,
    },
    /// The sending rate changed.
    Rate(Rate),
    /// The session ended.
    Closed(Result<(), Failure>),
}

/// Reason why a session ended without success.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum Failure {
    /// No receiver took part.
    #[error("no receiver took part")]
    NoReceivers,
    /// Every receiver that answered refused.
    #[error("every receiver refused it")]
    Refused,
    /// The group violates its completion condition.
    #[error("receivers that the completion condition requires are missing")]
    Integrity,
    /// In two passes nothing reached any receiver, although shorter packets do.
    #[error(
        "packets with {0} octets of content reach no receiver, shorter ones do: the MTU of the path is smaller; send \
         smaller ones (--packet)"
    )]
    Mtu(u16),
    /// The user aborted.
    #[error("aborted by the user")]
    User,
    /// The content can no longer be read.
    #[error(transparent)]
    Content(#[from] ContentError),
}

/// Outcome of a receiver.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Outcome {
    /// Not yet known.
    Pending,
    /// Complete; an object with the right digest.
    Delivered,
    /// Failed.
    Failed(Reason),
    /// The receiver never answered the announcement.
    NeverConnected,
}

/// What the sender knows about a receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Delivery {
    /// The receiver.
    pub member: MemberId,
    /// The peer that reports for it, once it has answered.
    pub peer: Option<Peer>,
    /// Its outcome.
    pub outcome: Outcome,
    /// Number of receivers it reports for.
    pub weight: u32,
    /// How many of them are complete.
    pub complete: u32,
    /// Objects: packets or symbols missing at its last report. Streams: 1 + the last number delivered.
    pub at: u64,
    /// Last round trip, including its back-off.
    pub round_trip: Span,
    /// Share of the data packets sent to it that did not arrive, repairs and parities included, in 1/65535.
    pub loss: u16,
}

/// Counters of a sender.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SenderStats {
    /// Data packets sent, including parities and repairs.
    pub data: u64,
    /// Parities among them.
    pub parities: u64,
    /// Repeated packets among them.
    pub again: u64,
    /// Packets to a single receiver among them.
    pub unicast: u64,
    /// Octets of payload.
    pub octets: u64,
    /// Polls to the group.
    pub polls: u64,
    /// Polls to a single receiver.
    pub polls_each: u64,
    /// Reports received.
    pub reports: u64,
    /// Reports received after their deadline.
    pub late: u64,
    /// Packets dropped: from an unknown peer, or in the name of another member.
    pub strangers: u64,
    /// Packets dropped: about a former poll or pass.
    pub stale: u64,
    /// Packets dropped: impossible content.
    pub forged: u64,
    /// Handshakes.
    pub handshakes: u64,
    /// Receivers expelled.
    pub ejected: u32,
    /// Passes.
    pub rounds: u32,
}

/// Event for the user of a receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReceiverEvent {
    /// The receiver takes part in a session.
    Joined,
    /// The receiver refused a session.
    Refused(Reason),
    /// Packets of the stream can be read.
    Readable,
    /// All packets are present: the driver verifies the digest and reports it by `verified`.
    Verify,
    /// The object is complete, and its digest is right.
    Complete,
    /// The digest was wrong: everything is requested again.
    Corrupt,
    /// The receiver will be served after the others.
    Postponed,
    /// The session ended. An object is complete if and only if this says so.
    Closed {
        /// Whether everything was received.
        complete: bool,
        /// The reason.
        reason: Reason,
    },
}

/// Counters of a receiver.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ReceiverStats {
    /// Data packets received.
    pub data: u64,
    /// Data packets that were not needed: duplicates, or of a complete block.
    pub duplicates: u64,
    /// Packets dropped: impossible content.
    pub malformed: u64,
    /// Packets dropped: of another session, or from another peer.
    pub strangers: u64,
    /// Packets whose pass was neither the current one nor the next, and not that of the packet before.
    pub doubted: u64,
    /// Packets dropped: no room, or out of order.
    pub overflow: u64,
    /// Reports sent.
    pub reports: u64,
    /// Reports suppressed because the sender already knew.
    pub suppressed: u64,
    /// Blocks rebuilt from parities.
    pub rebuilt: u64,
}
