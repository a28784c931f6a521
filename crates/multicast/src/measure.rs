//! Events of a session for a QoS monitor (specs/user-to-user-qos.md 2.6): a session is its connection, whose data flow one way.

use layercast_core::{Observer, QosAction, QosEvent, QosInfo, QosTransport, Span, Subject, Time};
use layercast_wire::multicast::{Body, Packet, Symbol};

/// What a monitor knows of a machine: its session.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Measured(Option<u64>);

impl Measured {
    /// The machine takes part in `session`; before events of it. `dir`: that of its data.
    #[inline]
    pub fn opened<O: Observer>(
        &mut self,
        obs: &mut O,
        now: Time,
        subject: Subject<'_>,
        (session, dir): (Option<u64>, u8),
    ) {
        if !obs.measures() || session.is_none() || session == self.0 {
            return;
        }
        self.over(obs, now, subject, None);
        self.0 = session;
        let number = session.unwrap_or_default();
        obs.probe(subject, || {
            let open = QosEvent::new(number, QosAction::Open, dir, now);
            open.aux(QosTransport::Multicast as u32)
        });
    }

    /// The machine takes part in `session` only; after events of the one before.
    #[inline]
    pub fn over<O: Observer>(
        &mut self,
        obs: &mut O,
        now: Time,
        subject: Subject<'_>,
        session: Option<u64>,
    ) {
        if let Some(number) = self.0.filter(|_| session != self.0) {
            self.0 = None;
            obs.probe(subject, || QosEvent::new(number, QosAction::Close, 0, now));
        }
    }

    fn of(self, action: QosAction, dir: u8, now: Time) -> Option<QosEvent> {
        Some(QosEvent::new(self.0?, action, dir, now))
    }

    /// A packet of the session left or came; `again`: its data did before.
    #[inline]
    pub fn packet<O: Observer>(
        self,
        obs: &mut O,
        now: Time,
        subject: Subject<'_>,
        packet: &Packet,
        (action, again): (QosAction, bool),
    ) {
        let dir = match action {
            QosAction::Sent => QosEvent::OUT,
            _ => QosEvent::IN,
        };
        if !obs.measures() || self.0 != Some(packet.session) {
            return;
        }
        if let Some(event) = self.of(action, dir, now) {
            let user = match &packet.body {
                // Parities are no data of the user.
                Body::Data(data) if matches!(data.symbol, Symbol::Source(_)) => data.payload.len(),
                _ => 0,
            };
            let event = event.packet(packet.encoded_len() as u64, user as u64, 0);
            obs.probe(subject, || event.flag(QosEvent::AGAIN, again && user > 0));
        }
    }

    /// A receiver has answered after this time, without what it waited itself.
    #[inline]
    pub fn answered<O: Observer>(
        self,
        obs: &mut O,
        now: Time,
        subject: Subject<'_>,
        round_trip: Span,
    ) {
        if let Some(event) = self.of(QosAction::ProbeEnd, QosEvent::OUT, now) {
            let ns = round_trip.as_ps() / 1_000;
            obs.probe(subject, || event.with(QosInfo::Time, ns, 0));
        }
    }

    /// `count` packets are missing.
    #[inline]
    pub fn missing<O: Observer>(self, obs: &mut O, now: Time, subject: Subject<'_>, count: u64) {
        if let Some(event) = self
            .of(QosAction::Dropped, QosEvent::IN, now)
            .filter(|_| count > 0)
        {
            let count = u32::try_from(count).unwrap_or(u32::MAX);
            obs.probe(subject, || event.aux(count));
        }
    }
}
