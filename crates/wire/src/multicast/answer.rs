use bytes::Bytes;

use super::{MemberId, Needs, Reason, Spans, Symbol};

/// Answer to Open.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Accept {
    /// The member.
    pub member: MemberId,
    /// Distinguishes lives of one member.
    pub incarnation: u32,
    /// Why not, if it refuses.
    pub refuses: Option<Reason>,
    /// Packets it can hold that are not delivered yet.
    pub buffer: u32,
    /// Source packets of the object it has already.
    pub held: u64,
    /// Receivers it speaks for: 1, or those of an aggregator.
    pub weight: u32,
    /// Receivers for which it is to speak and that have not answered it yet.
    pub absent: u32,
    /// How long it may hold its answers to polls beyond their back-off, in microseconds: an aggregator, until its
    /// receivers have answered.
    pub hold_us: u32,
    /// Copied from Open.
    pub stamp: u64,
    /// Tells receivers of one name apart: random, kept with the files that it receives. None: it has none.
    pub identity: Option<u64>,
    /// What its user calls it, at most [`MAX_NAME`](super::MAX_NAME) octets. None: it has no name.
    pub name: Option<Bytes>,
}

impl Accept {
    /// The yes of a receiver that speaks for itself, in its first life, with nothing yet.
    pub fn alone(member: MemberId) -> Accept {
        Accept {
            member,
            incarnation: 0,
            refuses: None,
            buffer: 0,
            held: 0,
            weight: 1,
            absent: 0,
            hold_us: 0,
            stamp: 0,
            identity: None,
            name: None,
        }
    }
}

/// What a receiver, or all behind an aggregator, has or lacks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum State {
    /// Next number expected in order, next to be handed to the user, and gaps known beyond (FRM rseq, dseq).
    Levels {
        /// 1 + the highest number received in order.
        received: u64,
        /// 1 + the number handed to the user last.
        delivered: u64,
        /// What is missing below the highest number received.
        gaps: Spans,
    },
    /// Has all of it, and the digest is right (RMTP ACK).
    Complete {
        /// Proof that it was this receiver; zeros without keys.
        receipt: [u8; 16],
    },
    /// Lacks these source packets (RMTP NACK).
    Missing(Spans),
    /// Lacks this number of symbols.
    Need(Needs),
    /// Cannot take data now (RMTP BUSY).
    Busy,
    /// Can take data again, and lacks these (RMTP RRDY).
    Ready(Spans),
    /// Has all of it, and the digest is wrong.
    Corrupt,
}

/// Receivers that a report speaks for.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Tally {
    /// Alive.
    pub alive: u32,
    /// Of these, complete.
    pub complete: u32,
    /// Given up: dead, left or corrupt.
    pub failed: u32,
}

/// Answer to a poll or to the end of a pass.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// The member.
    pub member: MemberId,
    /// Poll it answers; 0: none.
    pub sync: u32,
    /// Pass it speaks of.
    pub round: u16,
    /// Copied from the poll; 0: none.
    pub stamp: u64,
    /// How long after that poll came it answers, in microseconds: its back-off, or what an aggregator waited for.
    pub held_us: u32,
    /// Share of packets lost before decoding, in 1/65535.
    pub loss: u16,
    /// Packets it can hold that are not delivered yet.
    pub buffer: u32,
    /// More of this list follows in another packet.
    pub more: bool,
    /// Receivers it speaks for.
    pub tally: Tally,
    /// What it has or lacks.
    pub state: State,
}

impl Report {
    /// What a receiver says that speaks for itself: all of it, unasked.
    pub fn alone(member: MemberId, state: State) -> Report {
        Report {
            member,
            sync: 0,
            round: 0,
            stamp: 0,
            held_us: 0,
            loss: 0,
            buffer: 0,
            more: false,
            tally: Tally {
                alive: 1,
                complete: u32::from(matches!(state, State::Complete { .. })),
                failed: 0,
            },
            state,
        }
    }
}

/// Packets counted between two monitor bits (RMTP FREPO).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Count {
    /// The member.
    pub member: MemberId,
    /// Number of the measurement: `round` of the packets with the bits.
    pub round: u16,
    /// Symbol of the packet that began it.
    pub start: Symbol,
    /// Symbol of the packet that ended it.
    pub stop: Symbol,
    /// Packets that came after the first up to the second.
    pub received: u32,
}
