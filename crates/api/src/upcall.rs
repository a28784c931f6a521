use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use layercast_core::{
    Alarm, Answered, CellRate, Contract, FilterKind, FlowSpec, Layer, Level, PerLayer, Rate,
    Refusal, Span,
};
use layercast_mets::{SinkEvent, SourceEvent};
use layercast_qos::{QosMetric, SignedSpan};
use layercast_wire::Member;
use serde::Serialize;

use crate::inbox::Inbox;

/// Upcalls waiting for the user from which on periodic ones are merged (specs/mets.md 2.9).
const MAX_UPCALLS: usize = 1_024;
/// Upcalls of any kind that a user who never looks is kept.
const MAX_KEPT: usize = 4 * MAX_UPCALLS;

/// A `signalQoS` upcall on a management socket (specs/mets.md 2.2).
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(tag = "type", content = "option", rename_all = "snake_case")]
pub enum QosSignal {
    /// Periodic figures, in modes monitor and signal.
    Signal(Box<QosMetric>),
    /// Something happened.
    Event(QosEvent),
}

/// What happened to a flow (specs/mets.md 2.9).
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum QosEvent {
    /// Sink: a frame came after its deadline and was dropped.
    LatePacket {
        /// Its layer.
        layer: Layer,
        /// By how much.
        by: Span,
    },
    /// This number of the last deadlines was missed on this host.
    MissedDeadline {
        /// Missed.
        missed: u32,
        /// Looked at.
        window: u32,
    },
    /// Sink: more layers from the next GOP on.
    LayerAdd {
        /// Old level.
        from: Level,
        /// New level.
        to: Level,
    },
    /// Sink: fewer layers.
    LayerRemove {
        /// Old level.
        from: Level,
        /// New level.
        to: Level,
    },
    /// Source: the network takes another rate.
    RateChanged {
        /// Old level.
        from: Level,
        /// New level.
        to: Level,
        /// Cells per second, base layer included.
        rate: CellRate,
    },
    /// Source: the links to the receivers carry another share of the flow than before, and its encoder may send more or less.
    /// Once a second at most, and when the rate changes by more than 5 %.
    TargetRate {
        /// The rate for all media of the flow, without headers, repairs and parities, in bit/s.
        rate: Rate,
    },
    /// Source: back to the original rate.
    ResumeRate,
    /// Source: deadlines are missed consistently; send the base layer only.
    SendBaseOnly,
    /// Sink: congested, and the policy keeps the level.
    Degraded,
    /// Sink: a higher level can be had; the policy waits for
    /// [`allow_raise`](crate::ManagementSocket::allow_raise).
    MayRaise {
        /// The level.
        level: Level,
    },
    /// Sink: frames of a granted layer are missing.
    Loss {
        /// Their layer.
        layer: Layer,
        /// How many.
        count: u32,
    },
    /// Sink: the delay bound is too tight.
    DelayBound {
        /// The playout delay that would be needed.
        needed: SignedSpan,
    },
    /// An alarm fired.
    Alarm {
        /// As it was set.
        alarm: Alarm,
        /// What crossed its threshold, in the unit of the metric.
        value: f64,
    },
    /// Sink: congestion is seen.
    CongestionOn,
    /// Sink: congestion is over.
    CongestionOff,
    /// Sink: the playout buffer is full; frames of that layer are dropped.
    BufferOverflow {
        /// The layer.
        layer: Layer,
    },
    /// Other filters are in the flow.
    FilterChanged {
        /// All of them.
        filters: Vec<FilterKind>,
    },
    /// Sink: a join was refused, now or after a break of the path.
    AdmitFailed {
        /// The refusing node and the reason.
        refusal: Refusal,
    },
    /// Sink with a profile: the contract in force, agreed in the join or later.
    Agreed {
        /// Whether the offer was accepted or countered.
        answer: Answered,
        /// What the flow is held to.
        contract: Box<Contract>,
        /// The highest level that it allows.
        level: Level,
        /// Whether the source takes part; if not, the sink goes by its own answer.
        committed: bool,
    },
    /// Source: a member does not join, since the offer is not what its profile wants.
    MemberDeclined {
        /// The member.
        member: Member,
        /// The parameter, with what is wanted and what is offered.
        refusal: Refusal,
    },
    /// Source: somebody joined.
    MemberJoined {
        /// The member.
        member: Member,
    },
    /// Source: somebody left.
    MemberLeft {
        /// The member.
        member: Member,
    },
    /// Source: nothing was heard of somebody for three reports.
    MemberStale {
        /// The member.
        member: Member,
    },
    /// The group is closed.
    GroupClosed {
        /// Frames that could not be sent in time.
        undelivered: u32,
    },
    /// Nothing was heard of the QoS adapter for three eras.
    AdapterSilent,
    /// Source: the application paused; the schedule started again.
    Resync {
        /// How late the frame was.
        late: Span,
    },
    /// Source: frames were dropped because the shaper is full.
    Dropped {
        /// How many.
        frames: PerLayer<u64>,
    },
    /// Sink: the playout point moved.
    Playout {
        /// Old playout delay.
        from: SignedSpan,
        /// New playout delay.
        to: SignedSpan,
    },
    /// Sink: frames are played by the clock of the source from here on ([`Join::sync`](crate::Join::sync)), or that clock was set.
    Synchronised {
        /// By how much later than before.
        by: SignedSpan,
    },
    /// The source changed the flow, in force from the next GOP on.
    Renegotiated {
        /// What it needs now.
        spec: Box<FlowSpec>,
    },
    /// Sink: the way to the source is lost; it is looked for again, media continue as long as they come.
    Disconnected,
    /// Sink: the network gave the flow up, such as when a node on the way was stopped; it is joined again when it is back.
    Released {
        /// Why.
        reason: String,
    },
    /// Sink: its node is lost, or cannot be reached; it is called again.
    NodeLost {
        /// Why.
        reason: String,
    },
    /// Sink: the flow is joined again after it was lost.
    Rejoined,
}

impl QosEvent {
    /// Its name (specs/mets.md 2.9).
    pub fn name(&self) -> &'static str {
        match self {
            QosEvent::LatePacket { .. } => "LATE_PACKET",
            QosEvent::MissedDeadline { .. } => "MISSED_DEADLINE",
            QosEvent::LayerAdd { .. } => "LAYER_ADD",
            QosEvent::LayerRemove { .. } => "LAYER_REMOVE",
            QosEvent::RateChanged { .. } => "RATE_CHANGED",
            QosEvent::TargetRate { .. } => "TARGET_RATE",
            QosEvent::ResumeRate => "RESUME_RATE",
            QosEvent::SendBaseOnly => "SEND_BASE_ONLY",
            QosEvent::Degraded => "DEGRADED",
            QosEvent::MayRaise { .. } => "MAY_RAISE",
            QosEvent::Loss { .. } => "LOSS",
            QosEvent::DelayBound { .. } => "DELAY_BOUND",
            QosEvent::Alarm { .. } => "ALARM",
            QosEvent::CongestionOn => "CONGESTION_ON",
            QosEvent::CongestionOff => "CONGESTION_OFF",
            QosEvent::BufferOverflow { .. } | QosEvent::Dropped { .. } => "BUFFER_OVERFLOW",
            QosEvent::FilterChanged { .. } => "FILTER_CHANGED",
            QosEvent::AdmitFailed { .. } => "ADMIT_FAILED",
            QosEvent::MemberJoined { .. } => "MEMBER_JOINED",
            QosEvent::MemberLeft { .. } => "MEMBER_LEFT",
            QosEvent::MemberStale { .. } => "MEMBER_STALE",
            QosEvent::GroupClosed { .. } => "GROUP_CLOSED",
            QosEvent::AdapterSilent => "ADAPTER_SILENT",
            QosEvent::Resync { .. } => "RESYNC",
            QosEvent::Playout { .. } => "PLAYOUT",
            QosEvent::Synchronised { .. } => "SYNCHRONISED",
            QosEvent::Agreed { .. } => "AGREED",
            QosEvent::MemberDeclined { .. } => "MEMBER_DECLINED",
            QosEvent::Renegotiated { .. } => "RENEGOTIATED",
            QosEvent::Disconnected => "DISCONNECTED",
            QosEvent::Released { .. } => "RELEASED",
            QosEvent::NodeLost { .. } => "NODE_LOST",
            QosEvent::Rejoined => "REJOINED",
        }
    }
}

impl fmt::Display for QosEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name();
        match self {
            QosEvent::LatePacket { layer, by } => write!(f, "{name}: {layer} by {by}"),
            QosEvent::MissedDeadline { missed, window } => {
                write!(f, "{name}: {missed} of {window}")
            }
            QosEvent::LayerAdd { from, to } | QosEvent::LayerRemove { from, to } => {
                write!(f, "{name}: {from} -> {to}")
            }
            QosEvent::RateChanged { from, to, rate } => {
                write!(f, "{name}: {from} -> {to}, {}", rate.rate())
            }
            QosEvent::TargetRate { rate } => write!(f, "{name}: {rate}"),
            QosEvent::MayRaise { level } => write!(f, "{name}: {level}"),
            QosEvent::Loss { layer, count } => write!(f, "{name}: {count} frames of {layer}"),
            QosEvent::DelayBound { needed } => write!(f, "{name}: {} ms", needed.as_ms_f64()),
            QosEvent::Alarm { alarm, value } => {
                write!(f, "{name}: {:?} is {value}", alarm.metric)
            }
            QosEvent::BufferOverflow { layer } => write!(f, "{name}: {layer}"),
            QosEvent::FilterChanged { filters } => write!(f, "{name}: {filters:?}"),
            QosEvent::AdmitFailed { refusal } => write!(f, "{name}: {refusal}"),
            QosEvent::MemberJoined { member }
            | QosEvent::MemberLeft { member }
            | QosEvent::MemberStale { member } => write!(f, "{name}: {}", member.name),
            QosEvent::GroupClosed { undelivered } => write!(f, "{name}: {undelivered} unsent"),
            QosEvent::Resync { late } => write!(f, "{name}: {late} late"),
            QosEvent::Dropped { frames } => {
                write!(f, "{name}: {}/{}/{}", frames.base, frames.e1, frames.e2)
            }
            QosEvent::Playout { from, to } => {
                write!(f, "{name}: {} -> {} ms", from.as_ms_f64(), to.as_ms_f64())
            }
            QosEvent::Synchronised { by } => write!(f, "{name}: {} ms", by.as_ms_f64()),
            QosEvent::Agreed { answer, level, .. } => {
                write!(f, "{name}: {}, up to level {level}", answer.name())
            }
            QosEvent::MemberDeclined { refusal, .. } => write!(f, "{name}: {refusal}"),
            QosEvent::ResumeRate
            | QosEvent::SendBaseOnly
            | QosEvent::Degraded
            | QosEvent::CongestionOn
            | QosEvent::CongestionOff
            | QosEvent::AdapterSilent
            | QosEvent::Renegotiated { .. }
            | QosEvent::Disconnected
            | QosEvent::Rejoined => write!(f, "{name}"),
            QosEvent::Released { reason } | QosEvent::NodeLost { reason } => {
                write!(f, "{name}: {reason}")
            }
        }
    }
}

/// What a sink's machine says, as an upcall.
pub(crate) fn of_sink(event: SinkEvent) -> Option<QosSignal> {
    Some(QosSignal::Event(match event {
        SinkEvent::Metric(metric) => return Some(QosSignal::Signal(metric)),
        SinkEvent::Late { layer, by, .. } => QosEvent::LatePacket { layer, by },
        SinkEvent::Lost { layer, count } => QosEvent::Loss { layer, count },
        SinkEvent::Playout { from, to, .. } => QosEvent::Playout { from, to },
        SinkEvent::Synchronised { by } => QosEvent::Synchronised { by },
        SinkEvent::DelayBound { needed } => QosEvent::DelayBound { needed },
        SinkEvent::BufferOverflow { layer } => QosEvent::BufferOverflow { layer },
        SinkEvent::MissedDeadline { missed, window } => QosEvent::MissedDeadline { missed, window },
        SinkEvent::Alarm(raised) => QosEvent::Alarm {
            alarm: raised.alarm,
            value: raised.value,
        },
        SinkEvent::Congestion(true) => QosEvent::CongestionOn,
        SinkEvent::Congestion(false) => QosEvent::CongestionOff,
        SinkEvent::Degraded => QosEvent::Degraded,
        SinkEvent::MayRaise(level) => QosEvent::MayRaise { level },
        SinkEvent::AdapterSilent => QosEvent::AdapterSilent,
        SinkEvent::Disconnected => QosEvent::Disconnected,
        SinkEvent::Released { reason } => QosEvent::Released { reason },
        SinkEvent::FilterChanged(filters) => QosEvent::FilterChanged { filters },
        SinkEvent::Agreed {
            answer,
            contract,
            level,
            committed,
        } => QosEvent::Agreed {
            answer,
            contract,
            level,
            committed,
        },
        SinkEvent::Renegotiated { flow } => QosEvent::Renegotiated {
            spec: Box::new(flow.spec),
        },
        _ => return None,
    }))
}

/// A change of level, as an upcall.
pub(crate) fn level(from: Level, to: Level) -> QosSignal {
    QosSignal::Event(match to > from {
        true => QosEvent::LayerAdd { from, to },
        false => QosEvent::LayerRemove { from, to },
    })
}

/// What a source's machine says, as an upcall.
pub(crate) fn of_source(event: SourceEvent) -> Option<QosSignal> {
    Some(QosSignal::Event(match event {
        SourceEvent::Metric(metric) => return Some(QosSignal::Signal(metric)),
        SourceEvent::RateChanged { from, to, rate } => QosEvent::RateChanged { from, to, rate },
        SourceEvent::AdapterSilent => QosEvent::AdapterSilent,
        SourceEvent::MemberJoined(member) => QosEvent::MemberJoined { member },
        SourceEvent::MemberLeft(member) => QosEvent::MemberLeft { member },
        SourceEvent::MemberDeclined { member, refusal } => {
            QosEvent::MemberDeclined { member, refusal }
        }
        SourceEvent::MemberStale(member) => QosEvent::MemberStale { member },
        SourceEvent::MissedDeadline { missed, window, .. } => {
            QosEvent::MissedDeadline { missed, window }
        }
        SourceEvent::Dropped { frames } => QosEvent::Dropped { frames },
        SourceEvent::Resync { late } => QosEvent::Resync { late },
        SourceEvent::SendBaseOnly => QosEvent::SendBaseOnly,
        SourceEvent::ResumeRate => QosEvent::ResumeRate,
        SourceEvent::Finished { undelivered } => QosEvent::GroupClosed { undelivered },
        SourceEvent::FilterChanged(filters) => QosEvent::FilterChanged { filters },
        SourceEvent::Renegotiated { flow } => QosEvent::Renegotiated {
            spec: Box::new(flow.spec),
        },
        SourceEvent::Alarm(raised) => QosEvent::Alarm {
            alarm: raised.alarm,
            value: raised.value,
        },
        _ => return None,
    }))
}

/// The message queue of a management socket (specs/mets.md 2.9): when it is long, the oldest periodic
/// signals are merged into one another; events are kept.
#[derive(Debug, Default)]
pub(crate) struct Upcalls {
    pub inbox: Inbox<QosSignal>,
    merged: AtomicU64,
}

impl Upcalls {
    pub fn push(&self, signal: QosSignal) {
        self.inbox.put(|waiting| {
            waiting.push_back(signal);
            if waiting.len() > MAX_UPCALLS {
                self.merged.fetch_add(1, Ordering::Relaxed);
                merge_oldest(waiting);
            }
        });
    }

    /// Periodic signals merged so far because they were not read in time.
    pub fn merged(&self) -> u64 {
        self.merged.load(Ordering::Relaxed)
    }
}

fn merge_oldest(waiting: &mut VecDeque<QosSignal>) {
    let mut metrics = waiting.iter().enumerate();
    let mut periodic = metrics.by_ref().filter_map(|(index, signal)| match signal {
        QosSignal::Signal(_) => Some(index),
        QosSignal::Event(_) => None,
    });
    match (periodic.next(), periodic.next()) {
        (Some(first), Some(_)) => {
            let Some(QosSignal::Signal(older)) = waiting.remove(first) else {
                return;
            };
            let newer = waiting.iter_mut().find_map(|signal| match signal {
                QosSignal::Signal(metric) => Some(metric),
                QosSignal::Event(_) => None,
            });
            if let Some(newer) = newer {
                absorb(newer, &older);
            }
        }
        // A user that reads nothing for this long loses the oldest events.
        _ if waiting.len() > MAX_KEPT => drop(waiting.pop_front()),
        _ => {}
    }
}

/// Makes one window of two: counts are added, rates weighed; what is a state is the newer one's.
fn absorb(newer: &mut QosMetric, older: &QosMetric) {
    let spans = (older.window.as_secs_f64(), newer.window.as_secs_f64());
    let weigh = |old: f64, new: f64| match spans.0 + spans.1 {
        0.0 => new,
        sum => (old * spans.0 + new * spans.1) / sum,
    };
    let rate = |old: CellRate, new: CellRate| CellRate(weigh(old.0.into(), new.0.into()) as u32);
    for (layer, old) in older.layers.iter() {
        let new = &mut newer.layers[layer];
        new.rate = rate(old.rate, new.rate);
        new.frames_per_s = weigh(old.frames_per_s, new.frames_per_s);
        new.frames += old.frames;
        new.bytes += old.bytes;
        new.lost += old.lost;
        new.late += old.late;
        new.withheld += old.withheld;
    }
    newer.rate = rate(older.rate, newer.rate);
    newer.window += older.window;
    newer.frames += older.frames;
    newer.bytes += older.bytes;
    newer.lost += older.lost;
    newer.late += older.late;
    newer.withheld += older.withheld;
    newer.missed += older.missed;
    newer.congested_eras += older.congested_eras;
    newer.unsynchronised |= older.unsynchronised;
    newer.spread = newer.spread.max(older.spread);
    if let (Some(new), Some(old)) = (&mut newer.delay, older.delay) {
        new.min = new.min.min(old.min);
        new.max = new.max.max(old.max);
    } else {
        newer.delay = newer.delay.or(older.delay);
    }
}

#[cfg(test)]
mod tests {
    use layercast_core::{FlowId, Time};
    use layercast_qos::FlowMonitor;

    use super::*;

    fn metric(frames: u64) -> QosSignal {
        let mut monitor = FlowMonitor::new(FlowId(1), Time::ZERO);
        let mut metric = monitor.take_metric(Time::ZERO + Span::from_secs(1));
        metric.frames = frames;
        QosSignal::Signal(Box::new(metric))
    }

    #[test]
    fn a_user_who_never_looks_keeps_all_events_and_one_sum_of_the_figures() {
        let upcalls = Upcalls::default();
        for frames in 0..2_000 {
            upcalls.push(metric(frames));
            if frames % 2 == 0 {
                upcalls.push(QosSignal::Event(QosEvent::CongestionOn));
            }
        }
        let (mut events, mut frames, mut window) = (0, 0, Span::ZERO);
        while let Some(signal) = upcalls.inbox.try_take() {
            match signal {
                QosSignal::Event(_) => events += 1,
                QosSignal::Signal(metric) => {
                    frames += metric.frames;
                    window += metric.window;
                }
            }
        }
        assert_eq!((events, frames), (1_000, 1_999 * 1_000));
        assert_eq!(window, Span::from_secs(2_000));
        assert_eq!(upcalls.merged(), 3_000 - 1_024);
    }

    #[test]
    fn not_even_events_grow_for_ever() {
        let upcalls = Upcalls::default();
        for _ in 0..2 * MAX_KEPT {
            upcalls.push(QosSignal::Event(QosEvent::Degraded));
        }
        let mut kept = 0;
        while upcalls.inbox.try_take().is_some() {
            kept += 1;
        }
        assert_eq!(kept, MAX_KEPT);
    }
}
