//! Events for a QoS monitor: five for a data packet that asks for status, at its sender (specs/user-to-user-qos.md 6).

use layercast_core::{Observer, QosAction, QosEvent, QosInfo, QosTransport, Subject, Time};
use layercast_wire::{XtpBody, XtpControl, XtpPacket};

use super::Endpoint;
use crate::context::{Arrival, Context, Departure};

impl Endpoint {
    pub(super) fn subject(&self) -> Subject<'_> {
        Subject {
            node: &self.name,
            machine: "xtp",
        }
    }

    /// A packet left.
    pub(super) fn probe_departure<O: Observer>(
        &self,
        now: Time,
        (context, before): (&Context, Departure),
        packet: &XtpPacket,
        obs: &mut O,
    ) {
        let of = |action| QosEvent::new(context.own_key().0, action, QosEvent::OUT, now);
        let is_first = context.counts.sent == 1 && context.counts.received == 0;
        self.probe_open(is_first, of(QosAction::Open), obs);
        let user = packet.body.data().map_or(0, |data| data.len() as u64);
        let again = context.counts.retransmitted > before.retransmitted;
        let sent =
            of(QosAction::Sent).packet(packet.encoded_len() as u64, user, context.octets_sent);
        obs.probe(self.subject(), || sent.flag(QosEvent::AGAIN, again));
        // Each question has a number of its own, also in data that are sent again: its answer is not ambiguous.
        if context.asked_since(before) {
            let token = u64::from(packet.sync.0);
            obs.probe(self.subject(), || {
                of(QosAction::ProbeStart).with(QosInfo::Rtt, token, 0)
            });
        }
    }

    /// A packet came, and `context` has taken it.
    pub(super) fn probe_arrival<O: Observer>(
        &self,
        now: Time,
        (context, before): (&Context, Arrival),
        packet: &XtpPacket,
        obs: &mut O,
    ) {
        let of = |action, dir| QosEvent::new(context.own_key().0, action, dir, now);
        let is_first = context.counts.received == 1 && context.counts.sent == 0;
        self.probe_open(is_first, of(QosAction::Open, QosEvent::IN), obs);
        let user = packet.body.data().map_or(0, |data| data.len() as u64);
        let again = context.tally.duplicates > before.duplicates;
        let received = of(QosAction::Received, QosEvent::IN);
        let octets = (packet.encoded_len() as u64, context.octets_received);
        obs.probe(self.subject(), || {
            let sized = received.packet(octets.0, user, octets.1);
            sized.flag(QosEvent::AGAIN, again)
        });
        let Some((control, spans)) = status_of(&packet.body) else {
            return;
        };
        let out = |action| of(action, QosEvent::OUT);
        if before.is_answer {
            let token = u64::from(control.echo.0);
            obs.probe(self.subject(), || {
                out(QosAction::ProbeEnd).with(QosInfo::Rtt, token, 0)
            });
        }
        if let Some(seq) = before.reported {
            let report = out(QosAction::ErrReport);
            let head = report.with(QosInfo::SpansHead, seq, control.rseq);
            obs.probe(self.subject(), || head.aux(spans.len() as u32));
            for &(left, right) in spans {
                obs.probe(self.subject(), || report.with(QosInfo::Span, left, right));
            }
        }
    }

    fn probe_open<O: Observer>(&self, is_first: bool, open: QosEvent, obs: &mut O) {
        if is_first {
            obs.probe(self.subject(), || open.aux(QosTransport::Xtp as u32));
        }
    }
}

/// Status, and the ranges that the peer has beyond it.
pub(crate) fn status_of(body: &XtpBody) -> Option<(&XtpControl, &[(u64, u64)])> {
    match body {
        XtpBody::Cntl(control) | XtpBody::Tcntl { control, .. } => Some((control, &[])),
        XtpBody::Ecntl { control, spans } => Some((control, spans)),
        _ => None,
    }
}
