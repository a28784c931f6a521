//! Events of a connection for a QoS monitor (specs/user-to-user-qos.md 2.6): its data flow one way, from the sender.

use bytes::Bytes;
use layercast_core::{Observer, QosAction, QosConnection, Subject, Time};

use crate::pdu::{Body, Pdu};

/// A PDU left or came; `again`: the receiver has its SDU. One that cannot be read is none.
pub(crate) fn pdu<O: Observer>(
    measured: QosConnection,
    obs: &mut O,
    now: Time,
    subject: Subject<'_>,
    datagram: &Bytes,
    (action, again): (QosAction, bool),
) {
    if !obs.measures() {
        return;
    }
    let Ok(pdu) = Pdu::decode(datagram.clone()) else {
        return;
    };
    let (user, repeated) = match &pdu.body {
        Body::Data { payload, again, .. } => (payload.len() as u64, *again),
        _ => (0, false),
    };
    let again = match action {
        QosAction::Sent => repeated,
        _ => again,
    };
    let sizes = (datagram.len() as u64, user);
    let of = pdu.connection.into();
    measured.packet(obs, now, subject, of, (action, again), sizes);
}
