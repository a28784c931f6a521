use layercast_core::{RequestId, Span};

use crate::policy::{ConversationType, FlowKey, Policy, Service};
use crate::{AtmAddress, RejectCause, Tag, Vcid};

/// A packet of the driver; the mapper never looks into it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PacketRef(pub u32);

/// How a [`FlowMapper`](crate::FlowMapper) behaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MapperConfig {
    /// Which packets share a circuit, what it asks for, how long it lives.
    pub policy: Policy,
    /// A bound circuit is idle if unused for longer (10 s).
    pub idle: Span,
    /// An idle circuit is kept for so long, from when it became idle (300 s; `svccache` only).
    pub cached: Span,
    /// Packets that may wait for one circuit (64).
    pub pending: usize,
    /// How long an answer of the network is waited for (75 s: longer than its own watchdog).
    pub patience: Span,
    /// Conversations that may have or wait for a circuit (65,536).
    pub conversations: usize,
}

impl MapperConfig {
    /// The values of specs/insane-simulator.md 3 under this policy.
    pub fn new(policy: Policy) -> MapperConfig {
        MapperConfig {
            policy,
            idle: Span::from_secs(10),
            cached: Span::from_secs(300),
            pending: 64,
            patience: Span::from_secs(75),
            conversations: 65_536,
        }
    }
}

/// What a mapper takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MapperInput {
    /// A packet to send.
    Packet {
        /// What tells its conversation.
        key: FlowKey,
        /// The router it goes to.
        next_hop: AtmAddress,
        /// The packet.
        packet: PacketRef,
    },
    /// A circuit that was asked for is there.
    Ready {
        /// The request.
        request: RequestId,
        /// Its number on the link of this router.
        vc: Vcid,
    },
    /// A circuit that was asked for is refused.
    Rejected {
        /// The request.
        request: RequestId,
        /// Why.
        cause: RejectCause,
    },
    /// A circuit broke; nobody needs to release it.
    Lost {
        /// Which.
        vc: Vcid,
    },
}

/// What a mapper wants done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MapperOutput {
    /// Send the packet.
    Send {
        /// On this circuit.
        vc: Vcid,
        /// Which.
        packet: PacketRef,
    },
    /// Ask the network for a circuit.
    Setup {
        /// To be told in the answer.
        request: RequestId,
        /// Where it goes.
        to: AtmAddress,
        /// What it asks for.
        service: Service,
        /// Who may use it.
        tag: Tag,
    },
    /// Give a circuit back; it is not used any more.
    Release {
        /// Which.
        vc: Vcid,
    },
    /// Forget a packet.
    Discard {
        /// Which.
        packet: PacketRef,
        /// Why.
        cause: DiscardCause,
    },
}

/// Why a mapper discards a packet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum DiscardCause {
    /// Too many wait for the same circuit.
    PendingFull,
    /// There are too many conversations.
    Conversations,
    /// The network refused even a best-effort circuit.
    Rejected(RejectCause),
    /// The network did not answer.
    NoAnswer,
}

/// Something that happened to a circuit: the `vc` record of specs/insane-simulator.md 2.11.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MapperEvent {
    /// The type of the conversation that uses the circuit, or used it last.
    pub conversation: ConversationType,
    /// What happened.
    pub what: VcEvent,
}

/// What happened to a circuit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VcEvent {
    /// A packet without circuit found an idle one.
    Hit,
    /// A packet without circuit found none.
    Miss,
    /// The network was asked.
    Requested,
    /// The network gave one.
    Ready {
        /// Since it was asked.
        took: Span,
    },
    /// Refused; best effort is tried.
    Fallback {
        /// Why.
        cause: RejectCause,
    },
    /// Refused, or not answered; what waited is discarded.
    Failed {
        /// Why.
        cause: RejectCause,
    },
    /// Idle, and kept for others.
    Unbound,
    /// Given back.
    Released,
    /// Broken by the network.
    Lost,
}

impl VcEvent {
    /// Its name in records.
    pub fn name(self) -> &'static str {
        match self {
            VcEvent::Hit => "hit",
            VcEvent::Miss => "miss",
            VcEvent::Requested => "request",
            VcEvent::Ready { .. } => "ready",
            VcEvent::Fallback { .. } => "fallback",
            VcEvent::Failed { .. } => "fail",
            VcEvent::Unbound => "unbind",
            VcEvent::Released => "release",
            VcEvent::Lost => "lost",
        }
    }
}

/// What a mapper counted, and how much it holds now.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct MapperStats {
    /// Packets taken.
    pub packets: u64,
    /// Packets sent.
    pub sent: u64,
    /// Packets whose conversation had no circuit and got an idle one.
    pub hits: u64,
    /// Packets whose conversation had no circuit and found no idle one.
    pub misses: u64,
    /// Circuits asked for, the second try of the refused included.
    pub requests: u64,
    /// Those of them that asked for more than best effort.
    pub elevated: u64,
    /// Most circuits asked for within one second of the clock.
    pub peak_requests: u64,
    /// Circuits given.
    pub ready: u64,
    /// Requests for more than best effort that were refused.
    pub fallbacks: u64,
    /// Fallbacks that found an idle best-effort circuit; not among the hits.
    pub fallback_hits: u64,
    /// Requests for best effort that were refused.
    pub failures: u64,
    /// Requests the network did not answer in time.
    pub unanswered: u64,
    /// Circuits given back.
    pub released: u64,
    /// Circuits broken by the network.
    pub lost: u64,
    /// Answers and losses that fit nothing here.
    pub strays: u64,
    /// Conversations between two well-known ports, whose direction is a guess.
    pub ambiguous: u64,
    /// Packets discarded because too many waited, by type.
    pub pending_full: [u64; ConversationType::ALL.len()],
    /// Packets discarded because there were too many conversations.
    pub conversations_full: u64,
    /// Packets discarded because the network refused.
    pub rejected: u64,
    /// Packets discarded because the network did not answer.
    pub no_answer: u64,
    /// Circuits in use, now.
    pub bound: usize,
    /// Circuits kept for others, now.
    pub cached: usize,
    /// Conversations that wait for a circuit, now.
    pub waiting: usize,
    /// Packets that wait for a circuit, now.
    pub queued: usize,
    /// Most circuits in use and kept at one time.
    pub max_circuits: usize,
}
