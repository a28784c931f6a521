use bytes::Bytes;

use super::{Accept, Count, Needs, Report};
use crate::Payload;

/// Names a receiver, and an aggregator towards the members it serves, forever and everywhere
/// (specs/fully-reliable-multicast.md 2.1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct MemberId(pub u64);

/// A packet of reliable multicast: everything that FRM, RMTP and Layercast's own profile say, in one set.
///
/// Machines know this value only; its bytes are Layercast's own ([`encode_into`](Packet::encode_into)), or those
/// of RMTP or FRM.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Packet {
    /// The session it belongs to (RMTP: connection id).
    pub session: u64,
    /// What it says.
    pub body: Body,
}

/// What a packet says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Body {
    /// Sender: a session begins (FRM INIT, RMTP CONN).
    Open(Box<Open>),
    /// Receiver: takes part, or not (FRM INIT reply, RMTP CACK).
    Accept(Accept),
    /// Sender: source packet or parity (DATA, DT).
    Data(Data),
    /// Sender: asks for reports (FRM CNTL, RMTP POLL).
    Poll(Box<Poll>),
    /// Receiver: what it has or lacks (FRM ECHO; RMTP ACK, NACK, BUSY, RRDY).
    Report(Box<Report>),
    /// Receiver: how many packets came between the two monitor bits (RMTP FREPO).
    Count(Count),
    /// Sender: it is over for those that are complete (RMTP REL, FRM RELEASE normal).
    Release {
        /// Number of the pass it follows.
        round: u16,
    },
    /// Receiver: has heard the release (RMTP RACK).
    Released {
        /// The member.
        member: MemberId,
    },
    /// Sender to one: it is expelled (FRM EJECT; RMTP V2 unicast ABORT).
    Eject(Eject),
    /// Sender to one: wait, it will be served after the others (RMTP V2 SUSP).
    Suspend {
        /// The member.
        member: MemberId,
    },
    /// Receiver: leaves.
    Leave {
        /// The member.
        member: MemberId,
        /// Why.
        reason: Reason,
    },
    /// Sender: the session ends without success (RMTP ABORT, FRM RELEASE).
    Abort {
        /// Why.
        reason: Reason,
    },
}

/// Why somebody leaves, is expelled, or all is given up.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Reason {
    /// Nothing is wrong.
    Normal = 0,
    /// The user said so.
    User = 1,
    /// The group is no longer what it must be (FRM integrity).
    Integrity = 2,
    /// The group is slower than promised, and this receiver is why.
    Slow = 3,
    /// It does not answer.
    Silent = 4,
    /// What arrived is not what was sent: the digest differs.
    Corrupt = 5,
    /// No room to keep it.
    NoRoom = 6,
    /// It does not know how: code, size or terms.
    Unsupported = 7,
    /// More passes than allowed.
    Rounds = 8,
    /// The session has begun already.
    Late = 9,
    /// No packet of the session's size arrives, shorter ones do: the MTU of the path is smaller.
    Mtu = 10,
    /// Another receiver has its name.
    InUse = 11,
    /// The content changed while it was sent.
    Changed = 12,
    /// It has no permission to write.
    Denied = 13,
    /// Its storage reports an error.
    Storage = 14,
}

impl Reason {
    /// All, in the order of their numbers.
    pub const ALL: [Reason; 15] = [
        Reason::Normal,
        Reason::User,
        Reason::Integrity,
        Reason::Slow,
        Reason::Silent,
        Reason::Corrupt,
        Reason::NoRoom,
        Reason::Unsupported,
        Reason::Rounds,
        Reason::Late,
        Reason::Mtu,
        Reason::InUse,
        Reason::Changed,
        Reason::Denied,
        Reason::Storage,
    ];

    /// Its name in traces.
    pub fn name(self) -> &'static str {
        match self {
            Reason::Normal => "normal",
            Reason::User => "user",
            Reason::Integrity => "integrity",
            Reason::Slow => "slow",
            Reason::Silent => "silent",
            Reason::Corrupt => "corrupt",
            Reason::NoRoom => "no room",
            Reason::Unsupported => "unsupported",
            Reason::Rounds => "rounds",
            Reason::Late => "late",
            Reason::Mtu => "mtu",
            Reason::InUse => "name in use",
            Reason::Changed => "content changed",
            Reason::Denied => "permission denied",
            Reason::Storage => "storage",
        }
    }
}

/// What a receiver is to report.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Content {
    /// The next number expected in order and the next to be handed to the user (FRM rseq, dseq).
    Levels = 0,
    /// Which packets are missing (RMTP NACK).
    Ranges = 1,
    /// How many symbols each block lacks.
    Counts = 2,
}

/// What the sender expects of receivers in this session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Terms {
    /// What reports say.
    pub content: Content,
    /// Packets out of order are discarded (go-back-N as in FRM's first version).
    pub in_order: bool,
    /// Receivers report at the end of a pass without being asked (RMTP).
    pub unasked: bool,
    /// Receivers that are complete answer Release (RMTP RACK).
    pub goodbye: bool,
    /// Back-off of answers to Open and at the end of a pass, microseconds (RMTP RBOT).
    pub spread_us: u32,
    /// A receiver that gets no data for this long reports unsolicited, milliseconds; 0: never.
    pub data_wait_ms: u32,
    /// The sender is considered lost after this much silence, milliseconds; 0: never.
    pub sender_wait_ms: u32,
    /// Of 65535 receivers, how many count packets between monitor bits.
    pub counters: u16,
}

/// An object of known size.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Object {
    /// Octets.
    pub size: u64,
    /// Source packets of a block, at least 1.
    pub block: u16,
    /// Number of the erasure code (specs/packet-level-fec.md 2.2); 0: none.
    pub scheme: u8,
    /// BLAKE3 of the content.
    pub digest: [u8; 32],
    /// Name, at most [`MAX_NAME`](super::MAX_NAME) octets.
    pub name: Bytes,
}

/// A session begins.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Open {
    /// The sender's time, copied into the answer.
    pub stamp: u64,
    /// Octets of payload of a full data packet, at least 1.
    pub packet_size: u16,
    /// Least throughput that receivers must keep up, octets per second; 0: none.
    pub min_release: u64,
    /// What is expected of receivers.
    pub terms: Terms,
    /// The object; a stream without.
    pub object: Option<Object>,
    /// Proof that it is the sender that announces, of what its users agreed on.
    pub proof: Option<[u8; 16]>,
}

/// Which packet of the code.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Symbol {
    /// A source packet by its number, from 0.
    Source(u64),
    /// A parity of a block.
    Parity {
        /// Block, from 0.
        block: u32,
        /// Number within the block's parities, from 0.
        index: u32,
    },
}

/// Flags of a data packet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct DataFlags(pub u8);

impl DataFlags {
    /// Last of its pass.
    pub const LAST: DataFlags = DataFlags(1);
    /// Of a separate retransmission: for those only that were postponed.
    pub const SEPARATE: DataFlags = DataFlags(2);
    /// Counting begins after this packet.
    pub const START: DataFlags = DataFlags(4);
    /// Counting ends with this packet.
    pub const STOP: DataFlags = DataFlags(8);
    /// Sent before.
    pub const AGAIN: DataFlags = DataFlags(16);
    /// All that are known.
    pub const ALL: DataFlags = DataFlags(31);

    /// Whether all of `flag` are set.
    pub const fn has(self, flag: DataFlags) -> bool {
        self.0 & flag.0 == flag.0
    }

    /// Both.
    pub const fn with(self, flag: DataFlags) -> DataFlags {
        DataFlags(self.0 | flag.0)
    }
}

/// Source packet or parity.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Data {
    /// Number of the pass, 0 for the first.
    pub round: u16,
    /// Flags.
    pub flags: DataFlags,
    /// Which packet.
    pub symbol: Symbol,
    /// Its octets; the last source packet of an object is as long as what is left.
    pub payload: Payload,
}

/// The members that answer a poll.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Ask {
    /// Every member, immediately or after a uniform back-off.
    Everyone = 0,
    /// Only members that lack more than `heard`, after a truncated exponential back-off.
    Needy = 1,
}

/// Asks for reports.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Poll {
    /// Number of the poll, from 1; the same again is a repetition or a hint.
    pub sync: u32,
    /// Number of the pass it follows.
    pub round: u16,
    /// The sender's time, copied into the answer.
    pub stamp: u64,
    /// 1 + the highest number of a source packet ever sent (FRM lseq).
    pub upto: u64,
    /// Data packets sent in the session, wrapping; two polls tell a receiver how many it lost between. 0: not said.
    pub sent: u32,
    /// The members that answer.
    pub ask: Ask,
    /// Range of the back-off, microseconds; 0: immediately.
    pub spread_us: u32,
    /// About how many receivers there are.
    pub group: u32,
    /// It is a repetition because somebody did not answer.
    pub handshake: bool,
    /// For those only that were postponed.
    pub separate: bool,
    /// Nothing new follows.
    pub closing: bool,
    /// Members expelled recently, at most [`MAX_LIST`](super::MAX_LIST).
    pub ejected: Vec<MemberId>,
    /// What the sender knows to be lacking already.
    pub heard: Needs,
}

/// Expels a receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Eject {
    /// The member.
    pub member: MemberId,
    /// Why.
    pub reason: Reason,
    /// Everything below this number it may rely on.
    pub upto: u64,
}
