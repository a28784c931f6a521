//! Events of a connection for a QoS monitor (specs/user-to-user-qos.md 2.6).
//!
//! Round trips are those of the segments that the connection times itself: one a window, and none that was sent twice.

use layercast_core::{Observer, QosAction, QosEvent, QosInfo, QosTransport, Subject, Time};
use layercast_wire::TcpSegment;

use crate::State;
use crate::connection::{Connection, Key, Measured};

/// The subject of an event of this host.
pub(super) fn subject(node: &str) -> Subject<'_> {
    Subject {
        node,
        machine: "tcp",
    }
}

/// A connection for a monitor of its host: both ports, and the address of the peer.
pub(super) fn number(key: &Key) -> u64 {
    let ports = (key.local.port(), key.remote.port());
    QosEvent::connection(ports, *key.remote.ip())
}

fn of(key: &Key, action: QosAction, dir: u8, now: Time) -> QosEvent {
    QosEvent::new(number(key), action, dir, now)
}

/// A SYN of `bytes` octets came, for a listener.
#[cold]
pub(super) fn accepted<O: Observer>(node: &str, now: Time, key: &Key, bytes: usize, obs: &mut O) {
    let inward = |action| of(key, action, QosEvent::IN, now);
    obs.probe(subject(node), || {
        inward(QosAction::Open).aux(QosTransport::Tcp as u32)
    });
    obs.probe(subject(node), || {
        inward(QosAction::Received).packet(bytes as u64, 0, 0)
    });
}

/// A segment left.
#[cold]
pub(super) fn departure<O: Observer>(
    node: &str,
    now: Time,
    (connection, before): (&Connection, Measured),
    segment: &TcpSegment,
    obs: &mut O,
) {
    let key = &connection.key;
    if connection.counts.sent == 1 && connection.state == State::SynSent {
        let open = of(key, QosAction::Open, QosEvent::OUT, now);
        obs.probe(subject(node), || open.aux(QosTransport::Tcp as u32));
    }
    let after = connection.measured();
    let user = segment.payload.len() as u64;
    let again = user > 0 && after.max == before.max;
    let sent = of(key, QosAction::Sent, QosEvent::OUT, now);
    let sent = sent.packet(segment.encoded_len() as u64, user, 0);
    obs.probe(subject(node), || sent.flag(QosEvent::AGAIN, again));
    let probe = of(key, QosAction::ProbeStart, QosEvent::OUT, now);
    let (token, discarded) = match (before.timed, after.timed) {
        (None, Some(token)) => (token, false),
        (Some(token), None) => (token, true),
        _ => return,
    };
    obs.probe(subject(node), || {
        let probe = probe.with(QosInfo::Rtt, token, 0);
        probe.flag(QosEvent::AGAIN, discarded)
    });
}

/// A segment of `bytes` octets, `user` of them data, came, and the connection has taken it.
#[cold]
pub(super) fn arrival<O: Observer>(
    node: &str,
    now: Time,
    (connection, before): (&Connection, Measured),
    (bytes, user): (usize, usize),
    obs: &mut O,
) {
    let key = &connection.key;
    let after = connection.measured();
    let received = of(key, QosAction::Received, QosEvent::IN, now);
    let received = received.packet(bytes as u64, user as u64, 0);
    // Data that fill no gap and are not the next were there before.
    let again = user > 0 && after.held == before.held;
    obs.probe(subject(node), || received.flag(QosEvent::AGAIN, again));
    let out = |action| of(key, action, QosEvent::OUT, now);
    if let (Some(token), None) = (before.timed, after.timed)
        && after.una > token
    {
        obs.probe(subject(node), || {
            out(QosAction::ProbeEnd).with(QosInfo::Rtt, token, 0)
        });
    }
    if after.una == before.una && after.sacked == before.sacked {
        return;
    }
    let report = out(QosAction::ErrReport);
    let seq = connection.sacked().last().map_or(0, |it| it.1);
    let head = report.with(QosInfo::SpansHead, seq.max(after.una), after.una);
    let spans = connection.sacked().len() as u32;
    obs.probe(subject(node), || head.aux(spans));
    for (left, right) in connection.sacked() {
        obs.probe(subject(node), || report.with(QosInfo::Span, left, right));
    }
}

/// A connection is over.
pub(super) fn closed<O: Observer>(node: &str, now: Time, key: &Key, obs: &mut O) {
    obs.probe(subject(node), || of(key, QosAction::Close, 0, now));
}
