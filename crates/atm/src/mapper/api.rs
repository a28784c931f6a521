use layercast_core::{RequestId, Span};

use crate::policy::{ConversationType, FlowKey, Policy, Service};
use crate::{AtmAddress, RejectCause, Tag, Vcid};

/// Handle of the driver for a packet; the mapper does not read it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PacketRef(pub u32);

/// Configuration of a [`FlowMapper`](crate::FlowMapper).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MapperConfig {
    /// The policy: which packets share a circuit, its service, its life.
    pub policy: Policy,
    /// Time without use after which a bound circuit is idle (10 s).
    pub idle: Span,
    /// Time for which an idle circuit is kept, from the time it became idle (300 s; `svccache` only).
    pub cached: Span,
    /// Largest number of packets waiting for one circuit (64).
    pub pending: usize,
    /// Time to wait for an answer of the network (75 s, longer than the network's own watchdog).
    pub patience: Span,
    /// Largest number of conversations with or waiting for a circuit (65,536).
    pub conversations: usize,
}

impl MapperConfig {
    /// The values of specs/insane-simulator.md 3 with this policy.
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

/// Input of a mapper.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MapperInput {
    /// A packet to send.
    Packet {
        /// Identification of its conversation.
        key: FlowKey,
        /// The next-hop router.
        next_hop: AtmAddress,
        /// The packet.
        packet: PacketRef,
    },
    /// A requested circuit was set up.
    Ready {
        /// The request.
        request: RequestId,
        /// Its number on this router's link.
        vc: Vcid,
    },
    /// A requested circuit was refused.
    Rejected {
        /// The request.
        request: RequestId,
        /// The cause.
        cause: RejectCause,
    },
    /// A circuit failed; it need not be released.
    Lost {
        /// The circuit.
        vc: Vcid,
    },
}

/// Output of a mapper.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MapperOutput {
    /// Send the packet.
    Send {
        /// The circuit.
        vc: Vcid,
        /// The packet.
        packet: PacketRef,
    },
    /// Request a circuit from the network.
    Setup {
        /// Number of the request, repeated in the answer.
        request: RequestId,
        /// Its destination.
        to: AtmAddress,
        /// Its service.
        service: Service,
        /// Its tag: which conversations may use it.
        tag: Tag,
    },
    /// Release a circuit that is no longer used.
    Release {
        /// The circuit.
        vc: Vcid,
    },
    /// Discard a packet.
    Discard {
        /// The packet.
        packet: PacketRef,
        /// The cause.
        cause: DiscardCause,
    },
}

/// Reason why a mapper discards a packet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum DiscardCause {
    /// Too many packets wait for the same circuit.
    PendingFull,
    /// There are too many conversations.
    Conversations,
    /// The network refused even a best-effort circuit.
    Rejected(RejectCause),
    /// The network did not answer.
    NoAnswer,
}

/// An event of a circuit: the `vc` record of specs/insane-simulator.md 2.11.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MapperEvent {
    /// Type of the conversation that uses the circuit, or used it last.
    pub conversation: ConversationType,
    /// The event.
    pub what: VcEvent,
}

/// Kind of a circuit event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VcEvent {
    /// A packet without a circuit found an idle one.
    Hit,
    /// A packet without a circuit found no idle one.
    Miss,
    /// A circuit was requested.
    Requested,
    /// A circuit was set up.
    Ready {
        /// Time since the request.
        took: Span,
    },
    /// The request was refused; best effort is tried.
    Fallback {
        /// The cause.
        cause: RejectCause,
    },
    /// The request was refused or not answered; waiting packets are discarded.
    Failed {
        /// The cause.
        cause: RejectCause,
    },
    /// The circuit became idle and is cached.
    Unbound,
    /// The circuit was released.
    Released,
    /// The circuit failed.
    Lost,
}

impl VcEvent {
    /// Name in records.
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

/// Counters of a mapper, and its current state.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct MapperStats {
    /// Packets received.
    pub packets: u64,
    /// Packets sent.
    pub sent: u64,
    /// Packets without a circuit that found an idle one.
    pub hits: u64,
    /// Packets without a circuit that found no idle one.
    pub misses: u64,
    /// Circuits requested, including second requests after a refusal.
    pub requests: u64,
    /// Requests for more than best effort among them.
    pub elevated: u64,
    /// Largest number of requests within one second of the clock.
    pub peak_requests: u64,
    /// Circuits set up.
    pub ready: u64,
    /// Refused requests for more than best effort.
    pub fallbacks: u64,
    /// Fallbacks that found an idle best-effort circuit; not included in the hits.
    pub fallback_hits: u64,
    /// Refused requests for best effort.
    pub failures: u64,
    /// Requests without an answer in time.
    pub unanswered: u64,
    /// Circuits released.
    pub released: u64,
    /// Circuits failed.
    pub lost: u64,
    /// Answers and failures that match no request or circuit.
    pub strays: u64,
    /// Conversations between two well-known ports, whose direction is a guess.
    pub ambiguous: u64,
    /// Packets discarded because too many were waiting, by type.
    pub pending_full: [u64; ConversationType::ALL.len()],
    /// Packets discarded because there were too many conversations.
    pub conversations_full: u64,
    /// Packets discarded because the network refused.
    pub rejected: u64,
    /// Packets discarded because the network did not answer.
    pub no_answer: u64,
    /// Circuits in use at present.
    pub bound: usize,
    /// Cached circuits at present.
    pub cached: usize,
    /// Conversations waiting for a circuit at present.
    pub waiting: usize,
    /// Packets waiting for a circuit at present.
    pub queued: usize,
    /// Largest number of circuits in use and cached at one time.
    pub max_circuits: usize,
}
