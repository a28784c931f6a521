use layercast_core::Metric;
use layercast_qos::Raised;

use crate::mets::{SinkEvent, SourceEvent};

/// The events of mets.md 2.9 by name, as `signalQoS` tells them.
impl SinkEvent {
    /// Name of the upcall; `None` for what is no upcall of the management socket (media, adapter
    /// messages, application control).
    pub fn name(&self) -> Option<&'static str> {
        Some(match self {
            SinkEvent::Metric(_) => "SIGNAL",
            SinkEvent::Refused(_) => "ADMIT_FAILED",
            SinkEvent::Level { from, to, .. } if to > from => "LAYER_ADD",
            SinkEvent::Level { .. } => "LAYER_REMOVE",
            SinkEvent::Late { .. } => "LATE_PACKET",
            SinkEvent::Lost { .. } => "LOSS",
            SinkEvent::DelayBound { .. } => "DELAY_BOUND",
            SinkEvent::BufferOverflow { .. } => "BUFFER_OVERFLOW",
            SinkEvent::MissedDeadline { .. } => "MISSED_DEADLINE",
            SinkEvent::Alarm(raised) => alarm(raised),
            SinkEvent::Congestion(true) => "CONGESTION_ON",
            SinkEvent::Congestion(false) => "CONGESTION_OFF",
            SinkEvent::Degraded => "DEGRADED",
            SinkEvent::FilterChanged(_) => "FILTER_CHANGED",
            SinkEvent::AdapterSilent => "ADAPTER_SILENT",
            SinkEvent::Released { .. } | SinkEvent::Closed { .. } => "GROUP_CLOSED",
            _ => return None,
        })
    }
}

impl SourceEvent {
    /// Name of the upcall; `None` for what is no upcall of the management socket.
    pub fn name(&self) -> Option<&'static str> {
        Some(match self {
            SourceEvent::Metric(_) => "SIGNAL",
            SourceEvent::RateChanged { .. } => "RATE_CHANGED",
            SourceEvent::ResumeRate => "RESUME_RATE",
            SourceEvent::SendBaseOnly => "SEND_BASE_ONLY",
            SourceEvent::MissedDeadline { .. } => "MISSED_DEADLINE",
            SourceEvent::Dropped { .. } => "BUFFER_OVERFLOW",
            SourceEvent::MemberJoined(_) => "MEMBER_JOINED",
            SourceEvent::MemberLeft(_) => "MEMBER_LEFT",
            SourceEvent::AdapterSilent => "ADAPTER_SILENT",
            SourceEvent::Resync { .. } => "RESYNC",
            SourceEvent::FilterChanged(_) => "FILTER_CHANGED",
            SourceEvent::Alarm(raised) => alarm(raised),
            SourceEvent::Finished { .. } => "GROUP_CLOSED",
            _ => return None,
        })
    }
}

fn alarm(raised: &Raised) -> &'static str {
    match raised.alarm.metric {
        Metric::Loss => "LOSS",
        Metric::Late => "LATE_PACKET",
        Metric::Delay => "DELAY_BOUND",
        Metric::Jitter => "JITTER",
        Metric::Rate => "RATE_CHANGED",
    }
}
