mod adapter;
mod broken;
mod chooser;
mod clock;
mod config;
mod delays;
mod early;
mod explain;
mod gaps;
mod history;
mod machine;
mod opener;
mod outages;
mod receiver;
mod repair;
mod silence;
mod starting;
mod unstarted;

use bytes::Bytes;
use layercast_core::{
    Answered, CellRate, Contract, FilterKind, Layer, Level, PerLayer, RequestId, Serial, Span,
    Status,
};
use layercast_qos::{MoveCause, QosMetric, Raised, SignedSpan};
use layercast_wire::{
    AdapterMsg, EndToEndMs, FlowInfo, LinkPdu, Refusal, Signal, Silence, SourceClockReport,
};
use serde::Serialize;

pub use config::{PlayoutConfig, SinkConfig, SinkProtection};
pub use delays::LateMs;
pub use explain::{Awaited, Explanation, Fate};
pub use machine::Sink;
pub use repair::RepairStats;
pub use unstarted::CutStarts;

#[cfg(test)]
pub(crate) use chooser::Chooser;
#[cfg(test)]
pub(crate) use gaps::{GapCounter, Mark as GapMark};
pub(crate) use opener::Opener;

use super::PlayedFrame;

/// An input of a [`Sink`].
#[derive(Clone, PartialEq, Debug)]
pub enum SinkInput {
    /// From the data path.
    Pdu(LinkPdu),
    /// From the session channel.
    Signal(Signal),
    /// The session channel is up (again).
    LinkUp,
    /// The session channel is lost.
    LinkDown,
    /// Try again after [`SinkEvent::Refused`].
    Rejoin,
    /// The user has had enough.
    Leave,
}

/// What a [`Sink`] sends.
#[derive(Clone, PartialEq, Debug)]
pub enum SinkTransmit {
    /// RES.
    Pdu(LinkPdu),
    /// Join, leave, reports.
    Signal(Signal),
}

/// Why the level of a [`Sink`] changed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LevelReason {
    /// The network said so.
    Adapt,
    /// Three eras without ADAPT.
    Silent,
    /// The source was started again: levels are granted again.
    Restarted,
    /// The flow ended, or the sink left.
    Closed,
}

/// What a [`Sink`] tells its user (specs/mets.md 2.9).
#[derive(Clone, PartialEq, Debug)]
pub enum SinkEvent {
    /// The base layer is reserved; media follow from the next GOP on.
    Joined {
        /// The flow as advertised.
        flow: Box<FlowInfo>,
    },
    /// The answer to the offered contract is agreed, in a join or while the flow runs.
    Agreed {
        /// What the member answered.
        answer: Answered,
        /// What the flow is held to from now on.
        contract: Box<Contract>,
        /// The highest level that it allows.
        level: Level,
        /// Whether the node agreed in the name of the source; if not, the flow has no source that negotiates, and the member goes by its
        /// own answer.
        committed: bool,
    },
    /// The network cannot carry the base layer, or there is no key for this member (any more); nothing
    /// is retried until
    /// [`SinkInput::Rejoin`] or a new advertisement.
    Refused(Refusal),
    /// Play this frame now.
    Frame(PlayedFrame),
    /// The level granted changed: LAYER_ADD or LAYER_REMOVE. Media follow at the next GOP start.
    Level {
        /// Old level.
        from: Level,
        /// New level.
        to: Level,
        /// Why.
        reason: LevelReason,
    },
    /// The rate granted changed: cells per second, base layer included. In continuous mode frames of
    /// a level may be shaped to any rate.
    RateChanged {
        /// Old rate.
        from: CellRate,
        /// New rate.
        to: CellRate,
    },
    /// A frame came after its deadline and is dropped.
    Late {
        /// Its number.
        seq: Serial,
        /// Its layer.
        layer: Layer,
        /// By how much.
        by: Span,
        /// Whether it was reported as lost before; then one lost frame less.
        was_lost: bool,
    },
    /// Frames of a granted layer are missing.
    Lost {
        /// Their layer.
        layer: Layer,
        /// How many.
        count: u32,
    },
    /// Frames of a layer that was not granted were kept back.
    Withheld {
        /// Their layer.
        layer: Layer,
        /// How many.
        count: u32,
        /// Of these, frames of a layer that the source did not send.
        by_source: u32,
        /// Of these, frames that a switch withheld from this branch; of the others the cause is not known.
        by_switch: u32,
    },
    /// Frames passed by while the session channel was lost, those of layers that would not have been
    /// granted included.
    Outage {
        /// How many.
        frames: PerLayer<u32>,
    },
    /// The playout delay moved.
    Playout {
        /// Old playout delay.
        from: SignedSpan,
        /// New playout delay.
        to: SignedSpan,
        /// Why.
        cause: MoveCause,
    },
    /// From here on frames are played by the clock of the source ([`SinkConfig::follows_clock`]), or that clock was set.
    Synchronised {
        /// By how much later than before.
        by: SignedSpan,
    },
    /// The delay bound is too tight for the delays seen.
    DelayBound {
        /// The playout delay that would be needed.
        needed: SignedSpan,
    },
    /// Frames were dropped because the playout buffer is full.
    BufferOverflow {
        /// Their layer.
        layer: Layer,
    },
    /// No GOP start came for two GOPs: the playout point was allowed to move without one.
    GopStartMissing,
    /// This number of the last frames was handed over more than a millisecond after its deadline, because this
    /// machine was woken late.
    MissedDeadline {
        /// Deadlines missed.
        missed: u32,
        /// Deadlines looked at.
        window: u32,
    },
    /// An alarm of the policy fired, or a bound of the flow specification is exceeded.
    Alarm(Raised),
    /// An era ended in which the congestion bit was seen, or the first without.
    Congestion(bool),
    /// Congested, and the policy is to keep the level: the user may want to know.
    Degraded,
    /// A higher level can be asked for; the policy is to wait for [`Sink::allow_raise`](super::Sink::allow_raise).
    MayRaise(Level),
    /// Periodic figures.
    Metric(Box<QosMetric>),
    /// The answer to a request: exactly one for each.
    Answer {
        /// The request.
        id: RequestId,
        /// How it ended.
        status: Status,
    },
    /// The source changed the flow; it counts from the next GOP on.
    Renegotiated {
        /// The flow as it is now.
        flow: Box<FlowInfo>,
    },
    /// Other filters are in the flow.
    FilterChanged(Vec<FilterKind>),
    /// RES sent.
    Res(AdapterMsg),
    /// ADAPT accepted.
    Adapt(AdapterMsg),
    /// Three eras without ADAPT.
    AdapterSilent,
    /// The key of the group is here: what is sealed in this epoch can be played.
    Key {
        /// Number of the epoch.
        epoch: u32,
    },
    /// The source says something on the control socket (specs/mets.md 2.2).
    Control(Bytes),
    /// The network gave the flow up: a node on the way is gone, or has no room any more.
    Released {
        /// Why.
        reason: String,
    },
    /// The session channel is lost; media continue as long as they come.
    Disconnected,
    /// The flow is over: this was its last frame, received or not. [`Closed`](SinkEvent::Closed) follows.
    End {
        /// Its number.
        last: Serial,
    },
    /// The flow is over and everything that came was played.
    Closed {
        /// Frames the source could not send within its grace time.
        undelivered: u32,
    },
}

/// What a [`Sink`] received since its start.
#[derive(Clone, PartialEq, Default, Debug, Serialize)]
pub struct SinkStats {
    /// Frames played.
    pub played: PerLayer<u64>,
    /// Of these, frames in which zeros replace lost cells.
    pub damaged: u64,
    /// Media bytes played.
    pub bytes: u64,
    /// Frames of granted layers that did not arrive.
    pub lost: PerLayer<u64>,
    /// Frames of layers that were not granted.
    pub withheld: PerLayer<u64>,
    /// Of these, frames of layers that the source did not send: no receiver asked for them, or its host cannot send them.
    pub withheld_by_source: PerLayer<u64>,
    /// Of these, frames that a node of the path (the server or a switch) withheld: they do not fit a link, or this receiver
    /// did not ask for them.
    /// Without a statement in the packets, as in cells, a frame is neither of the two.
    pub withheld_by_switch: PerLayer<u64>,
    /// Frames that arrived after their deadline.
    pub late: PerLayer<u64>,
    /// Of these, frames that arrived while this host did not run the receiver.
    #[serde(skip_serializing_if = "is_zero")]
    pub late_stopped: u64,
    /// Frames sent while the session channel was down.
    pub outage: PerLayer<u64>,
    /// Packets of the flow received, parities included.
    pub packets: u64,
    /// Of these, packets or cells with the congestion mark.
    pub marked: u64,
    /// Milliseconds without a picture that can be decoded, gaps of up to 1 s and one and a half GOPs left out (of
    /// renditions: up to 1 s).
    pub outage_ms: u64,
    /// Frames that arrived before the first start of a GOP.
    pub before_start: u64,
    /// Frames of a fast start: sent again for this receiver, which joined between two GOP starts. They are played as they
    /// arrive, and are not part of the delays.
    pub fast_start: u64,
    /// GOP starts of which only a part arrived, while the receiver waited for a complete one.
    #[serde(skip_serializing_if = "is_default")]
    pub cut_starts: CutStarts,
    /// Delay of late frames after their deadline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late_ms: Option<LateMs>,
    /// How long after their time live frames came to the source in the last seconds; 0 if they came in time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_late_ms: Option<f64>,
    /// By how much the source moved its timeline in all, when it began it again since frames stayed late; 0 otherwise.
    #[serde(skip_serializing_if = "is_no_time")]
    pub source_skipped_ms: f64,
    /// Frames dropped because the playout buffer was full.
    pub overflow: PerLayer<u64>,
    /// Packets or cells dropped, by cause.
    pub dropped: DropStats,
    /// RES sent.
    pub res: u64,
    /// ADAPT accepted.
    pub adapt: u64,
    /// ADAPT ignored because a newer one arrived before.
    pub adapt_stale: u64,
    /// Joins sent.
    pub joins: u64,
    /// Periodic signals merged into the next one because the caller does not fetch events.
    pub merged_signals: u64,
    /// The parities of the base layer, of a flow that has them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repair: Option<RepairStats>,
    /// Delay of live frames from their arrival at the source to their hand-over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_to_end_ms: Option<EndToEndMs>,
    /// What is known of the clock of the source, if it is another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_clock: Option<SourceClockReport>,
    /// That no packet of the flow comes, if that is so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub silence: Option<Silence>,
}

fn is_default(starts: &CutStarts) -> bool {
    *starts == CutStarts::default()
}

fn is_no_time(ms: &f64) -> bool {
    *ms == 0.0
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Packets or cells a [`Sink`] dropped, by cause.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct DropStats {
    /// Duplicates.
    pub duplicate: u64,
    /// Packets with contradicting fields.
    pub malformed: u64,
    /// Packets of another flow or circuit, or before the join.
    pub unknown: u64,
    /// Packets of another instance of the flow.
    #[serde(skip_serializing_if = "is_zero")]
    pub life: u64,
    /// AAL5 frames with a wrong CRC.
    pub crc: u64,
    /// AAL5 frames of a wrong length, and frames above the size limit of the flow.
    pub length: u64,
    /// Cells outside a frame.
    pub orphan: u64,
    /// Packets with a sequence number far from the current one.
    pub stray: u64,
    /// Incomplete frames given up because the memory limit was reached.
    pub evicted: u64,
    /// Sealed media without a key to open them.
    pub unkeyed: u64,
    /// Sealed media and key grants whose authentication failed.
    pub forged: u64,
}
