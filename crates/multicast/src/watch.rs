//! Observation of packets and drops, for all three machines.

use layercast_core::{Cause, FlowId, Observer, Subject, Time, TraceEvent};
use layercast_wire::multicast::{Body, Packet, Symbol};

/// The flow of a session: the low half of its number.
pub(crate) fn flow(session: u64) -> FlowId {
    FlowId(session as u32)
}

/// Reports a packet that was sent (`sent`) or received.
#[inline]
pub(crate) fn packet<'a, O: Observer>(
    obs: &mut O,
    now: Time,
    subject: Subject<'a>,
    packet: &Packet,
    sent: bool,
) {
    obs.on(now, subject, || {
        let (what, number) = about(&packet.body);
        TraceEvent::Packet {
            flow: flow(packet.session),
            sent,
            what,
            number,
            bytes: packet.encoded_len() as u32,
        }
    });
}

/// Kind and number of a packet.
fn about(body: &Body) -> (&'static str, u64) {
    match body {
        Body::Open(open) => ("open", open.object.as_ref().map_or(0, |it| it.size)),
        Body::Accept(accept) => ("accept", accept.member.0),
        Body::Data(data) => match data.symbol {
            Symbol::Source(number) => ("data", number),
            Symbol::Parity { block, .. } => ("parity", block.into()),
        },
        Body::Poll(poll) => ("poll", poll.sync.into()),
        Body::Report(report) => ("report", report.member.0),
        Body::Count(count) => ("count", count.member.0),
        Body::Release { round } => ("release", u64::from(*round)),
        Body::Released { member } => ("released", member.0),
        Body::Eject(eject) => ("eject", eject.member.0),
        Body::Suspend { member } => ("suspend", member.0),
        Body::Leave { member, .. } => ("leave", member.0),
        Body::Abort { .. } => ("abort", 0),
    }
}

/// Reports drops since the counters were last compared: cause, former count, current count.
pub(crate) fn dropped<O: Observer>(
    obs: &mut O,
    now: Time,
    subject: Subject<'_>,
    flow: FlowId,
    counts: &[(Cause, u64, u64)],
) {
    for &(cause, then, count) in counts {
        if count > then {
            obs.on(now, subject, || TraceEvent::Lost {
                flow,
                layer: None,
                count: u32::try_from(count - then).unwrap_or(u32::MAX),
                cause,
            });
        }
    }
}

/// Reports a new state of a machine.
pub(crate) fn state<'a, O: Observer>(
    obs: &mut O,
    now: Time,
    subject: Subject<'a>,
    flow: FlowId,
    (from, to): (&'static str, &'static str),
) {
    if from != to {
        obs.on(now, subject, || TraceEvent::State {
            flow,
            what: "session",
            from,
            to,
        });
    }
}
