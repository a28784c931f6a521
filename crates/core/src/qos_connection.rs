//! What a machine tells a QoS monitor of its connection.

use crate::{Observer, QosAction, QosEvent, QosInfo, QosTransport, Span, Subject, Time};

/// The connection of which a machine reports events (specs/user-to-user-qos.md 2.6); a machine has one at a time.
#[derive(Clone, Copy, Debug)]
pub struct QosConnection {
    transport: QosTransport,
    number: Option<u64>,
}

impl QosConnection {
    /// None yet, of this transport.
    pub const fn new(transport: QosTransport) -> QosConnection {
        QosConnection {
            transport,
            number: None,
        }
    }

    /// The machine has this connection from now on, or none; `dir` is that of its data.
    #[inline]
    pub fn follow<O: Observer>(
        &mut self,
        obs: &mut O,
        now: Time,
        subject: Subject<'_>,
        (number, dir): (Option<u64>, u8),
    ) {
        if !obs.measures() || number == self.number {
            return;
        }
        if let Some(before) = self.number {
            obs.probe(subject, || QosEvent::new(before, QosAction::Close, 0, now));
        }
        if let Some(number) = number {
            let open = QosEvent::new(number, QosAction::Open, dir, now);
            obs.probe(subject, || open.aux(self.transport as u32));
        }
        self.number = number;
    }

    /// A packet of connection `of` left or came, with this number of octets and of octets of the user; `again`: its data did before.
    #[inline]
    pub fn packet<O: Observer>(
        self,
        obs: &mut O,
        now: Time,
        subject: Subject<'_>,
        of: u64,
        (action, again): (QosAction, bool),
        (octets, user): (u64, u64),
    ) {
        let dir = match action {
            QosAction::Sent => QosEvent::OUT,
            _ => QosEvent::IN,
        };
        if self.number == Some(of) {
            let event = QosEvent::new(of, action, dir, now).packet(octets, user, 0);
            obs.probe(subject, || event.flag(QosEvent::AGAIN, again && user > 0));
        }
    }

    /// The peer has answered after this time.
    #[inline]
    pub fn answered<O: Observer>(
        self,
        obs: &mut O,
        now: Time,
        subject: Subject<'_>,
        round_trip: Span,
    ) {
        if let Some(number) = self.number {
            let end = QosEvent::new(number, QosAction::ProbeEnd, QosEvent::OUT, now);
            let ns = round_trip.as_ps() / 1_000;
            obs.probe(subject, || end.with(QosInfo::Time, ns, 0));
        }
    }

    /// `count` units of data are missing.
    #[inline]
    pub fn missing<O: Observer>(self, obs: &mut O, now: Time, subject: Subject<'_>, count: u64) {
        if let Some(number) = self.number.filter(|_| count > 0) {
            let dropped = QosEvent::new(number, QosAction::Dropped, QosEvent::IN, now);
            let count = u32::try_from(count).unwrap_or(u32::MAX);
            obs.probe(subject, || dropped.aux(count));
        }
    }
}
