use layercast_core::Serial;

use super::FrmInit;
use crate::Payload;
use crate::multicast::{MemberId, Reason};

/// What a packet of FRM says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FrmBody {
    /// Sender to all: a communication begins.
    Init(Box<FrmInit>),
    /// Receiver: takes part, or not.
    Reply(FrmReply),
    /// Sender to all: data.
    Data(FrmData),
    /// Sender to all: asks for an echo.
    Control(FrmControl),
    /// Receiver: its state.
    Echo(Box<FrmEcho>),
    /// Receiver: leaves.
    Leave {
        /// The member.
        member: MemberId,
        /// Why.
        reason: Reason,
    },
    /// Sender to one: it is expelled.
    Eject {
        /// The member.
        member: MemberId,
        /// Why.
        reason: Reason,
        /// Everything below may be relied on (the last mindseq).
        mindseq: Serial,
    },
    /// Sender to all: it is over.
    Release {
        /// Why.
        reason: Reason,
    },
}

/// Answer to INIT.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrmReply {
    /// The member, by a globally unique number.
    pub member: MemberId,
    /// Distinguishes lives of one member.
    pub incarnation: u32,
    /// Why not, if it refuses.
    pub refuses: Option<Reason>,
    /// Packets it can hold.
    pub buffer: u32,
    /// Copied from INIT.
    pub stamp: u64,
}

/// Flags of data and of CNTL.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct FrmFlags(pub u8);

impl FrmFlags {
    /// Data: the last of a message.
    pub const END: FrmFlags = FrmFlags(1);
    /// Data: sent before.
    pub const AGAIN: FrmFlags = FrmFlags(2);
    /// Data: begins with the header of a code.
    pub const CODED: FrmFlags = FrmFlags(4);
    /// CNTL: a repetition because somebody did not answer (the synchronising handshake).
    pub const HANDSHAKE: FrmFlags = FrmFlags(1);
    /// CNTL: nothing new follows.
    pub const CLOSE: FrmFlags = FrmFlags(2);

    /// Whether all of `flag` are set.
    pub const fn has(self, flag: FrmFlags) -> bool {
        self.0 & flag.0 == flag.0
    }
}

/// Data.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FrmData {
    /// Its number.
    pub seq: Serial,
    /// END and AGAIN; CODED follows from `code`.
    pub flags: FrmFlags,
    /// The header of a code (specs/packet-level-fec.md 2.2).
    pub code: Option<[u8; 8]>,
    /// Its octets.
    pub payload: Payload,
}

/// Requests an echo from every member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FrmControl {
    /// Number of the poll.
    pub sync: Serial,
    /// The sender's time, copied into the echo.
    pub stamp: u64,
    /// 1 + the highest number ever sent.
    pub lseq: Serial,
    /// Data packets sent, wrapping, so that receivers know how many they lost; 0: not said.
    pub sent: u32,
    /// Range of a uniform back-off of echoes, microseconds; 0: immediately.
    pub spread_us: u32,
    /// HANDSHAKE and CLOSE.
    pub flags: FrmFlags,
    /// Members expelled recently, at most 65535.
    pub ejected: Vec<MemberId>,
}

/// State of a receiver.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FrmEcho {
    /// The member.
    pub member: MemberId,
    /// Copied from CNTL.
    pub sync: Serial,
    /// Copied from CNTL.
    pub stamp: u64,
    /// 1 + the highest number received in order.
    pub rseq: Serial,
    /// 1 + the number handed to the user last; not after `rseq`.
    pub dseq: Serial,
    /// Free buffers, packets.
    pub buffers: u32,
    /// Highest rate it can take, octets per second; 0: not said.
    pub rate: u32,
    /// Share of packets lost, in 1/65535.
    pub loss: u16,
    /// What is missing beyond `rseq`: half-open, in order, at most 65535.
    pub gaps: Vec<(Serial, Serial)>,
}

impl FrmBody {
    /// Number of the kind.
    pub fn kind(&self) -> u8 {
        match self {
            FrmBody::Init(_) => 1,
            FrmBody::Reply(_) => 2,
            FrmBody::Data(_) => 3,
            FrmBody::Control(_) => 4,
            FrmBody::Echo(_) => 5,
            FrmBody::Leave { .. } => 6,
            FrmBody::Eject { .. } => 7,
            FrmBody::Release { .. } => 8,
        }
    }

    /// Whether the packet is from the sender: copies that the group returns to the sender are its own.
    pub fn from_sender(&self) -> bool {
        !matches!(
            self,
            FrmBody::Reply(_) | FrmBody::Echo(_) | FrmBody::Leave { .. }
        )
    }
}
