//! Events of a flow for a QoS monitor: a flow is its connection, and its data units are frames (specs/user-to-user-qos.md 2.6).

use layercast_core::{FlowId, QosAction, QosEvent, QosInfo, QosTransport, Time};
use layercast_qos::SignedSpan;
use layercast_wire::METS_HEADER;

fn of(flow: FlowId, action: QosAction, dir: u8, now: Time) -> QosEvent {
    QosEvent::new(u64::from(flow.0), action, dir, now)
}

/// A flow begins here.
pub(crate) fn opened(flow: FlowId, dir: u8, now: Time) -> QosEvent {
    of(flow, QosAction::Open, dir, now).aux(QosTransport::Mets as u32)
}

/// A flow is over.
pub(crate) fn closed(flow: FlowId, now: Time) -> QosEvent {
    of(flow, QosAction::Close, QosEvent::IN, now)
}

/// Octets of the frames of a flow, with one header each.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Octets(u64);

impl Octets {
    /// A frame of `bytes` octets; whether it is the first.
    pub(crate) fn add(&mut self, bytes: usize) -> bool {
        let is_first = self.0 == 0;
        self.0 += (METS_HEADER + bytes) as u64;
        is_first
    }

    /// The event of the frame that was added last.
    pub(crate) fn frame(
        self,
        flow: FlowId,
        action: QosAction,
        dir: u8,
        now: Time,
        bytes: usize,
    ) -> QosEvent {
        let size = (METS_HEADER + bytes) as u64;
        of(flow, action, dir, now).packet(size, bytes as u64, self.0)
    }
}

/// A frame took `delay`; whether both ends share a clock.
pub(crate) fn delayed(flow: FlowId, now: Time, delay: SignedSpan, shared: bool) -> QosEvent {
    let ns = delay.as_ps() / 1_000;
    let event = of(flow, QosAction::Delivered, QosEvent::IN, now);
    event
        .with(QosInfo::Time, ns as u64, 0)
        .flag(QosEvent::CLOCKS, shared)
}

/// Something of the flow came that is of no use.
pub(crate) fn alive(flow: FlowId, now: Time) -> QosEvent {
    of(flow, QosAction::Received, QosEvent::IN, now)
}

/// Frames are missing.
pub(crate) fn missing(flow: FlowId, now: Time, count: u32) -> QosEvent {
    of(flow, QosAction::Dropped, QosEvent::IN, now).aux(count)
}

/// A frame of `bytes` octets came after its deadline; `counted`: as missing, before.
pub(crate) fn late(flow: FlowId, now: Time, bytes: usize, counted: bool) -> QosEvent {
    let bits = if counted {
        0
    } else {
        8 * (METS_HEADER + bytes) as u64
    };
    of(flow, QosAction::DeadlineMiss, QosEvent::IN, now).with(QosInfo::Size, bits, 0)
}
