//! What a controller says.

use std::fmt;

use layercast_core::{Rate, Span, Time};
use serde::Serialize;

/// A call, by the path that it asks for and its number there; both are the caller's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
pub struct CallId {
    /// Path: what two requests for the same call on different ways have different.
    pub path: u64,
    /// Call.
    pub call: u64,
}

/// The answer to a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub enum Decision {
    /// The call may begin.
    Admit {
        /// The estimate of the rate, the call included.
        estimate: Rate,
        /// What is left for others.
        headroom: Rate,
    },
    /// It may not; nothing has changed.
    Reject(Rejection),
}

/// Why a call is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Rejection {
    /// The reason.
    pub reason: Reason,
    /// The estimate of the rate.
    pub estimate: Rate,
    /// The estimate of the delay, if delays are tested.
    pub delay: Option<Span>,
    /// The largest rate that would be admitted now.
    pub headroom: Rate,
}

/// Why a call is refused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The call alone is more than the link may carry; to ask again is of no use.
    Never,
    /// Measured rate and declared rate together are too much now.
    Rate,
    /// Measured delay and declared bucket together are too much now.
    Delay,
    /// Both.
    RateAndDelay,
    /// A larger call was refused, and smaller ones wait for it.
    Fair,
    /// The table of calls is full.
    TableFull,
}

impl Reason {
    /// All of them.
    pub const ALL: [Reason; 6] = [
        Reason::Never,
        Reason::Rate,
        Reason::Delay,
        Reason::RateAndDelay,
        Reason::Fair,
        Reason::TableFull,
    ];

    /// Whether the test of the rate failed.
    pub fn is_rate(self) -> bool {
        matches!(self, Reason::Rate | Reason::RateAndDelay)
    }

    /// Whether the test of the delay failed.
    pub fn is_delay(self) -> bool {
        matches!(self, Reason::Delay | Reason::RateAndDelay)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::Never => "more than the link may ever carry",
            Reason::Rate => "measured rate",
            Reason::Delay => "measured delay",
            Reason::RateAndDelay => "measured rate and delay",
            Reason::Fair => "a larger call waits",
            Reason::TableFull => "the table of calls is full",
        })
    }
}

/// A call that the controller does not know, or knows already; nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CallError {
    /// It was admitted before.
    #[error("call {} on path {} is admitted already: release it before it asks again", .0.call, .0.path)]
    Known(CallId),
    /// It was never admitted, or has ended.
    #[error("call {} on path {} is not admitted: nothing to give back", .0.call, .0.path)]
    Unknown(CallId),
}

/// Why the trigger moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// More bits were late in the last window than the target allows.
    TooLate,
    /// Fewer bits were late since the start of the period than the target allows.
    BelowTarget,
    /// The link has another rate.
    Capacity,
}

/// Something that happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case", tag = "event")]
pub enum Event {
    /// A measurement of the rate.
    Sample {
        /// When it ended.
        at: Time,
        /// What the link carried.
        rate: Rate,
    },
    /// A window ended without an admission.
    WindowExpired {
        /// When.
        at: Time,
        /// Its length.
        window: Span,
        /// Length of the next one.
        next: Span,
        /// Highest sample in it, now the estimate.
        max: Rate,
    },
    /// Level 2 moved the trigger.
    TriggerMoved {
        /// When.
        at: Time,
        /// From here.
        from: Rate,
        /// To here.
        to: Rate,
        /// Why.
        why: Why,
    },
    /// The calls send more than they declared.
    AboveDeclared {
        /// When.
        at: Time,
        /// What the link carried.
        measured: Rate,
        /// Sum of the declared peaks.
        declared: Rate,
    },
    /// The link cannot carry what was admitted; running calls continue.
    Overcommitted {
        /// When.
        at: Time,
        /// What is too much.
        excess: Rate,
    },
    /// A commitment period ended.
    PeriodEnd {
        /// When.
        at: Time,
        /// What became of the promise.
        outcome: Outcome,
    },
}

/// What became of the promise.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct Outcome {
    /// Bits that arrived.
    pub arrived: u64,
    /// Those that waited longer than promised.
    pub late: u64,
    /// Bits that were sent.
    pub sent: u64,
    /// Late bits, parts in a million of those that arrived.
    pub late_ppm: u32,
    /// Whether late bits are within the target.
    pub kept: bool,
}

/// Where a controller stands.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Report {
    /// Length of the window; none with an exponential average.
    pub window: Option<Span>,
    /// The trigger of level 2, if there is one.
    pub trigger: Option<Rate>,
    /// The estimate of the rate.
    pub estimate: Rate,
    /// The last sample.
    pub measured: Rate,
    /// Sum of the declared peaks of the calls in progress.
    pub declared: Rate,
    /// Calls in progress.
    pub calls: u32,
    /// The period so far.
    pub promise: Outcome,
    /// Periods that ended with the promise kept.
    pub kept: u64,
    /// Periods that ended with the promise broken.
    pub broken: u64,
    /// What was counted.
    pub counts: Counts,
}

/// What a controller counted.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize)]
pub struct Counts {
    /// Calls admitted.
    pub admitted: u64,
    /// Calls refused, by reason in the order of [`Reason::ALL`].
    pub refused: [u64; Reason::ALL.len()],
    /// Admissions taken back, as a node further on refused.
    pub rolled_back: u64,
    /// Inputs with a time before that of an earlier input; the earlier one is taken.
    pub backwards: u64,
    /// Pauses of the driver that are longer than the catch-up covers; the estimate was kept.
    pub jumps: u64,
    /// Events that were dropped because the driver did not poll for them.
    pub events_lost: u64,
    /// Requests by size: an entry for each power of two of the peak rate in bit/s.
    pub sizes: std::collections::BTreeMap<u32, Size>,
}

/// Requests of one size.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct Size {
    /// Requests.
    pub offered: u64,
    /// Those admitted.
    pub admitted: u64,
}

impl Counts {
    /// Calls refused for this reason.
    pub fn refused_for(&self, reason: Reason) -> u64 {
        self.refused[reason as usize]
    }
}
