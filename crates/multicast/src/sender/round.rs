use layercast_core::{Span, Time};
use layercast_wire::multicast::Ask;

/// What the sender is at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// Not started.
    Idle,
    /// Waiting for answers to the announcement.
    Opening,
    /// Sending a pass.
    Sending,
    /// Waiting for reports.
    Collecting,
    /// Waiting for those who have everything to say good-bye.
    Releasing,
    /// Waiting for those who are busy.
    Waiting,
    /// Nobody lacks anything, but some still look at what they have: they are asked again in a while.
    Pausing,
    /// Over.
    Closed,
}

impl Phase {
    /// Its name in traces.
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

/// Whom the rounds are with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Scope {
    /// All but those who were postponed.
    Main,
    /// Those who were postponed, together.
    Side,
    /// One of them.
    One(usize),
}

/// The round that runs.
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
    /// How often it was asked again.
    pub tries: u32,
    /// When the first poll left, or the last packet of the pass.
    pub asked: Time,
    /// Aggregators are given the time that they need for their receivers.
    pub patient: bool,
    pub spread: Span,
    pub deadline: Time,
    /// Packets sent in its pass.
    pub packets: u64,
    /// Largest round trip measured in it.
    pub largest: Span,
    /// Members asked.
    pub members: usize,
}

impl Round {
    /// Before the first.
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
