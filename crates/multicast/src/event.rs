use layercast_core::{Rate, Span};
use layercast_wire::multicast::{MemberId, Reason};
use thiserror::Error;

use crate::{ContentError, Peer};

/// What the user of a sender is told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SenderEvent {
    /// The session runs.
    Opened {
        /// Who takes part, aggregators counted with all they speak for.
        yes: u32,
        /// Who refused.
        no: u32,
        /// Who did not answer, of those listed.
        silent: u32,
    },
    /// Somebody joined while the session ran.
    Joined(MemberId),
    /// A pass and its answers are over.
    PassDone {
        /// Number of the pass.
        round: u16,
        /// Packets sent in it.
        packets: u64,
        /// Receivers that lack something.
        needy: u32,
    },
    /// Buffers of the stream below this number are free.
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
    /// Somebody did not answer: the group is asked again.
    Handshake {
        /// How many did not.
        missing: u32,
    },
    /// A receiver cannot take data now.
    Busy(MemberId),
    /// A receiver is served after the others.
    Postponed(MemberId),
    /// A receiver has everything, and its digest is right.
    Delivered(MemberId),
    /// A receiver is expelled.
    Ejected {
        /// Who.
        member: MemberId,
        /// Octets per second that would have been released for it alone.
        own_rate: u64,
        /// Octets per second that were released for all.
        group_rate: u64,
    },
    /// A receiver does not get it.
    Failed {
        /// Who.
        member: MemberId,
        /// Why.
        reason: Reason,
    },
    /// The group is too slow and nobody can be named.
    Degraded {
        /// Octets per second that were released.
        group_rate: u64,
    },
    /// The rate of sending changed.
    Rate(Rate),
    /// It is over.
    Closed(Result<(), Failure>),
}

/// Why a session ended without success.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum Failure {
    /// Nobody took part.
    #[error("no receiver took part")]
    NoReceivers,
    /// The group is not, or no longer, what it must be.
    #[error("the group is no longer what it must be")]
    Integrity,
    /// Nothing of two passes reached any receiver, though what is shorter does.
    #[error(
        "packets with {0} octets of content reach no receiver, shorter ones do: the MTU of the path is smaller; send \
         smaller ones (--packet)"
    )]
    Mtu(u16),
    /// The user said so.
    #[error("given up by the user")]
    User,
    /// The content cannot be read any more.
    #[error(transparent)]
    Content(#[from] ContentError),
}

/// What became of a receiver.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Outcome {
    /// Still on.
    Pending,
    /// Has everything; an object with the right digest.
    Delivered,
    /// Has not.
    Failed(Reason),
    /// Never answered the announcement.
    NeverConnected,
}

/// What a sender knows of a receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Delivery {
    /// Who.
    pub member: MemberId,
    /// Who speaks for it, once it has answered.
    pub peer: Option<Peer>,
    /// What became of it.
    pub outcome: Outcome,
    /// Receivers it speaks for.
    pub weight: u32,
    /// Of these, complete.
    pub complete: u32,
    /// Objects: packets or symbols it lacked when it was last heard of. Streams: 1 + the last number delivered.
    pub at: u64,
    /// Last round trip, its back-off included.
    pub round_trip: Span,
    /// Share of packets it lost before decoding, in 1/65535.
    pub loss: u16,
}

/// What a sender counted.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SenderStats {
    /// Data packets sent, parities and repairs among them.
    pub data: u64,
    /// Of these, parities.
    pub parities: u64,
    /// Of these, sent before.
    pub again: u64,
    /// Of these, to one receiver alone.
    pub unicast: u64,
    /// Octets of payload.
    pub octets: u64,
    /// Polls to the group.
    pub polls: u64,
    /// Polls to one receiver.
    pub polls_each: u64,
    /// Reports taken.
    pub reports: u64,
    /// Reports that came after their deadline.
    pub late: u64,
    /// Dropped: from somebody unknown, or in another's name.
    pub strangers: u64,
    /// Dropped: about a poll or pass that is over.
    pub stale: u64,
    /// Dropped: what cannot be so.
    pub forged: u64,
    /// Handshakes.
    pub handshakes: u64,
    /// Expelled.
    pub ejected: u32,
    /// Passes.
    pub rounds: u32,
}

/// What the user of a receiver is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReceiverEvent {
    /// A session began, and it takes part.
    Joined,
    /// It refused.
    Refused(Reason),
    /// Packets of the stream can be taken.
    Readable,
    /// All packets are there: the driver looks at the digest and says so by `verified`.
    Verify,
    /// The object is there, whole, and its digest is right.
    Complete,
    /// The digest was wrong: all is asked for again.
    Corrupt,
    /// It is served after the others.
    Postponed,
    /// The session is over. Objects are complete if, and only if, it says so.
    Closed {
        /// Whether everything was received.
        complete: bool,
        /// Why.
        reason: Reason,
    },
}

/// What a receiver counted.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ReceiverStats {
    /// Data packets that came.
    pub data: u64,
    /// Of these, not needed: there already, or of a block that is whole.
    pub duplicates: u64,
    /// Packets dropped: what cannot be so.
    pub malformed: u64,
    /// Packets dropped: of another session or from somebody else.
    pub strangers: u64,
    /// Packets dropped: no room, or out of order.
    pub overflow: u64,
    /// Reports sent.
    pub reports: u64,
    /// Reports not sent because the sender knew already.
    pub suppressed: u64,
    /// Blocks rebuilt by parities.
    pub rebuilt: u64,
}
