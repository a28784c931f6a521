mod adapter;
mod config;
mod controls;
mod host;
mod keyring;
mod machine;
mod members;
mod pacing;
mod packets;
mod parity;

use bytes::Bytes;
use layercast_core::{CellRate, FilterKind, Level, PerLayer, RequestId, Span, Status};
use layercast_qos::{QosMetric, Raised};
use layercast_wire::{FlowInfo, LinkPdu, Member, Refusal, Signal};
use serde::Serialize;
use thiserror::Error;

pub use config::{Shaping, SourceConfig, SourceError, SourceProtection};
pub use host::{HostPacer, stagger};
pub use machine::Source;
pub use parity::{ParityConfig, ParityConfigError, ParityStats, Redundancy};

use super::AppFrame;

/// An input of a [`Source`] from the switch of its node.
#[derive(Clone, PartialEq, Debug)]
pub enum SourceInput {
    /// RES, from the data path.
    Pdu(LinkPdu),
    /// Join, leave, reports, questions.
    Signal(Signal),
}

/// What a [`Source`] hands to the switch of its node.
#[derive(Clone, PartialEq, Debug)]
pub enum SourceTransmit {
    /// Media or ADAPT.
    Pdu(LinkPdu),
    /// Advertisement, answers, close.
    Signal(Signal),
}

/// What a [`Source`] tells its user (specs/mets.md 2.9).
#[derive(Clone, PartialEq, Debug)]
pub enum SourceEvent {
    /// There is room for this number of frames.
    NeedFrames(usize),
    /// The advertised level or, in continuous mode, the advertised rate changed.
    RateChanged {
        /// Old level.
        from: Level,
        /// New level.
        to: Level,
        /// Cells per second that are advertised now, base layer included.
        rate: CellRate,
    },
    /// The members of a group with one rate for all have another one (specs/user-to-user-qos.md 2.4).
    GroupRate {
        /// The most throughput, in bit/s; `None`: all that is offered.
        most_bps: Option<u64>,
        /// The member that takes no more.
        member: Option<Member>,
    },
    /// Three eras without RES: no receiver requests enhancement layers.
    AdapterSilent,
    /// A member joined, or was first heard of by its report.
    MemberJoined(Member),
    /// A member left.
    MemberLeft(Member),
    /// A member missed three reports.
    MemberStale(Member),
    /// A member does not join: the offered contract has nothing in common with its profile.
    MemberDeclined {
        /// The member.
        member: Member,
        /// The parameter, with what is wanted and what is offered.
        refusal: Refusal,
    },
    /// A member says something on its control socket (specs/mets.md 2.2).
    Control {
        /// The member.
        member: Member,
        /// What.
        message: Bytes,
    },
    /// A new epoch began: members that left or are no longer permitted cannot read the media from here on.
    Rekeyed {
        /// Its number.
        epoch: u32,
    },
    /// This number of the last deadlines was missed.
    MissedDeadline {
        /// Deadlines missed.
        missed: u32,
        /// Deadlines looked at.
        window: u32,
        /// Frames that members have reported late so far, all of them together: late sending that the playout delay
        /// makes up for adds none.
        late: u64,
    },
    /// Frames were dropped whole because the shaper queue is full.
    Dropped {
        /// How many.
        frames: PerLayer<u64>,
    },
    /// The application paused for more than a second; the schedule started again.
    Resync {
        /// How late the frame was.
        late: Span,
    },
    /// Deadlines are missed consistently: send the base layer only.
    SendBaseOnly,
    /// Back to the original rate.
    ResumeRate,
    /// The answer to a request: exactly one for each.
    Answer {
        /// The request.
        id: RequestId,
        /// How it ended.
        status: Status,
    },
    /// A change of the flow is in force from the next GOP on, for all members.
    Renegotiated {
        /// The flow as it is now.
        flow: Box<FlowInfo>,
    },
    /// Other filters are in the flow.
    FilterChanged(Vec<FilterKind>),
    /// Periodic figures of what was sent; `lost` are frames dropped here, `withheld` those of layers that no
    /// receiver is granted, `delay` how late frames were released.
    Metric(Box<QosMetric>),
    /// An alarm fired.
    Alarm(Raised),
    /// The flow is closed and the machine is done.
    Finished {
        /// Frames that could not be sent within the grace time.
        undelivered: u32,
    },
}

/// Why a frame was not taken.
#[derive(Clone, PartialEq, Debug, Error)]
pub enum SubmitError {
    /// Larger than `max_frame` of the flow; nothing was sent.
    #[error("frame of {bytes} bytes is not in 1..={max_frame}")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        max_frame: u32,
    },
    /// No room: try again after [`SourceEvent::NeedFrames`]. Gives the frame back.
    #[error("the queue of frames is full")]
    QueueFull(AppFrame),
    /// After [`Source::end`] or [`Source::end_within`].
    #[error("the flow is closed")]
    Closed,
    /// Before [`Source::register`].
    #[error("the media socket is not registered")]
    NotRegistered,
}

/// What a [`Source`] did since its start.
#[derive(Clone, PartialEq, Default, Debug, Serialize)]
pub struct SourceStats {
    /// Frames taken from the application.
    pub submitted: u64,
    /// Frames refused because they are too large or empty.
    pub too_large: u64,
    /// Frames handed to the shaper.
    pub sent: PerLayer<u64>,
    /// Frames not sent because no receiver is granted their layer.
    pub masked: PerLayer<u64>,
    /// Frames dropped because the shaper queue was full.
    pub dropped: PerLayer<u64>,
    /// Media bytes handed to the shaper.
    pub bytes: u64,
    /// Packets handed to the shaper.
    pub packets: u64,
    /// Cells, or credits, sent.
    pub cells: u64,
    /// Level advertised.
    pub level: Level,
    /// Cells per second advertised, base layer included.
    pub rate: CellRate,
    /// RES accepted.
    pub res: u64,
    /// ADAPT sent.
    pub adapt: u64,
    /// Inputs that are not valid in this state.
    pub rejected: u64,
    /// Deadlines missed by more than a tick.
    pub missed_deadlines: u64,
    /// Shaper ticks that ran late.
    pub missed_ticks: u64,
    /// Key requests refused.
    pub denied: u64,
    /// Key epochs started after the first.
    pub rekeys: u64,
    /// Members that did not join since the offered contract has nothing in common with their profiles.
    #[serde(skip_serializing_if = "is_zero")]
    pub declined: u64,
    /// Known members.
    pub members: u64,
    /// Periodic signals merged into the next one because the caller does not fetch events.
    pub merged_signals: u64,
    /// The parities of the base layer, of a flow that has them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parities: Option<ParityStats>,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}
