//! Events of a connection for a QoS monitor (specs/user-to-user-qos.md 2.6): its data flow one way, from the sender.

use bytes::Bytes;
use layercast_core::{Observer, QosAction, QosEvent, QosInfo, QosTransport, Span, Subject, Time};

use crate::pdu::{Body, Pdu};

/// The connection that was reported to a monitor last.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Measured(Option<u32>);

impl Measured {
    /// The machine has this connection, or none any more; `dir` is that of its data.
    pub fn follow<O: Observer>(
        &mut self,
        obs: &mut O,
        now: Time,
        machine: &'static str,
        (connection, dir): (Option<u32>, u8),
    ) {
        if !obs.measures() || connection == self.0 {
            return;
        }
        if let Some(before) = self.0 {
            obs.probe(subject(machine), || {
                QosEvent::new(before.into(), QosAction::Close, 0, now)
            });
        }
        if let Some(number) = connection {
            obs.probe(subject(machine), || {
                let open = QosEvent::new(number.into(), QosAction::Open, dir, now);
                open.aux(QosTransport::PartialOrder as u32)
            });
        }
        self.0 = connection;
    }

    /// A PDU of the connection left or came; `again`: the receiver has its SDU. A PDU that cannot be read is none.
    pub fn pdu<O: Observer>(
        self,
        obs: &mut O,
        now: Time,
        machine: &'static str,
        datagram: &Bytes,
        (action, again): (QosAction, bool),
    ) {
        if !obs.measures() {
            return;
        }
        let pdu = Pdu::decode(datagram.clone());
        let Ok(pdu) = pdu.map_err(drop).and_then(|it| self.own(it)) else {
            return;
        };
        let (user, repeated) = match &pdu.body {
            Body::Data { payload, again, .. } => (payload.len() as u64, *again),
            _ => (0, false),
        };
        let (dir, again) = match action {
            QosAction::Sent => (QosEvent::OUT, repeated),
            _ => (QosEvent::IN, again),
        };
        obs.probe(subject(machine), || {
            let event = QosEvent::new(pdu.connection.into(), action, dir, now);
            let event = event.packet(datagram.len() as u64, user, 0);
            event.flag(QosEvent::AGAIN, again && user > 0)
        });
    }

    fn own(self, pdu: Pdu) -> Result<Pdu, ()> {
        match self.0 == Some(pdu.connection) {
            true => Ok(pdu),
            false => Err(()),
        }
    }

    /// The receiver has answered after this time.
    pub fn answered<O: Observer>(
        self,
        obs: &mut O,
        now: Time,
        machine: &'static str,
        round_trip: Span,
    ) {
        if let Some(number) = self.0 {
            obs.probe(subject(machine), || {
                let end = QosEvent::new(number.into(), QosAction::ProbeEnd, QosEvent::OUT, now);
                end.with(QosInfo::Time, round_trip.as_ps() / 1_000, 0)
            });
        }
    }

    /// `count` SDUs are declared lost: what the tolerances of the flows permit.
    pub fn lost<O: Observer>(self, obs: &mut O, now: Time, machine: &'static str, count: u64) {
        if let Some(number) = self.0.filter(|_| count > 0) {
            obs.probe(subject(machine), || {
                let dropped = QosEvent::new(number.into(), QosAction::Dropped, QosEvent::IN, now);
                dropped.aux(u32::try_from(count).unwrap_or(u32::MAX))
            });
        }
    }
}

fn subject(machine: &'static str) -> Subject<'static> {
    Subject {
        node: "partial-order",
        machine,
    }
}
