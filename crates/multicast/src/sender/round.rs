use layercast_core::{Span, Time};
use layercast_wire::multicast::Ask;

/// Phase of a sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// Not started.
    Idle,
    /// Waits for answers to the announcement.
    Opening,
    /// Sends a pass.
    Sending,
    /// Waits for reports.
    Collecting,
    /// Waits for the good-byes of complete receivers.
    Releasing,
    /// Waits for busy receivers.
    Waiting,
    /// No receiver lacks anything, but some still verify: they are polled again later.
    Pausing,
    /// Ended.
    Closed,
}

impl Phase {
    /// Name in traces.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Idle => "idle",
            Phase::Opening => "opening",
            Phase::Sending => "sending",
            Phase::Collecting => "collecting",
            Phase::Releasing => "releasing",
            Phase::Waiting => "waiting",
            Phase::Pausing => "pausing",
            Phase::Closed => "closed",
        }
    }
}

/// The receivers of a round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Scope {
    /// All except the postponed ones.
    Main,
    /// The postponed ones together.
    Side,
    /// One of the postponed ones.
    One(usize),
}

/// The current round.
#[derive(Clone, Debug)]
pub(super) struct Round {
    /// Number of its poll.
    pub sync: u32,
    /// Number of its pass.
    pub number: u16,
    pub scope: Scope,
    /// Passes with this scope.
    pub passes: u16,
    /// Pauses since the last pass.
    pub pauses: u16,
    pub ask: Ask,
    /// Members that have not answered yet.
    pub waiting: usize,
    /// Number of repeated polls.
    pub tries: u32,
    /// Opening: announcements of this wait that are still to come, and the time between them.
    pub again: u32,
    pub gap: Span,
    /// When the first poll, or the last packet of the pass, was sent.
    pub asked: Time,
    /// Whether aggregators get the time that they need for their receivers.
    pub patient: bool,
    pub spread: Span,
    pub deadline: Time,
    /// Packets sent in its pass.
    pub packets: u64,
    /// Largest round trip measured in it.
    pub largest: Span,
    /// Members polled.
    pub members: usize,
}

impl Round {
    /// The state before the first round.
    pub fn none() -> Round {
        Round {
            sync: 0,
            number: 0,
            scope: Scope::Main,
            passes: 0,
            pauses: 0,
            ask: Ask::Everyone,
            waiting: 0,
            tries: 0,
            again: 0,
            gap: Span::ZERO,
            asked: Time::ZERO,
            patient: false,
            spread: Span::ZERO,
            deadline: Time::MAX,
            packets: 0,
            largest: Span::ZERO,
            members: 0,
        }
    }
}
