//! Events of a session for a QoS monitor (specs/user-to-user-qos.md 2.6): a session is its connection, whose data flow one way.

use layercast_core::{Observer, QosAction, QosConnection, Subject, Time};
use layercast_wire::multicast::{Body, Packet, Symbol};

/// A packet left or came; `again`: its data did before.
#[inline]
pub(crate) fn packet<O: Observer>(
    measured: QosConnection,
    obs: &mut O,
    now: Time,
    subject: Subject<'_>,
    packet: &Packet,
    how: (QosAction, bool),
) {
    if !obs.measures() {
        return;
    }
    let user = match &packet.body {
        // Parities are no data of the user.
        Body::Data(data) if matches!(data.symbol, Symbol::Source(_)) => data.payload.len(),
        _ => 0,
    };
    let sizes = (packet.encoded_len() as u64, user as u64);
    measured.packet(obs, now, subject, packet.session, how, sizes);
}
