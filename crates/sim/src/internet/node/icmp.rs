//! What nodes answer to real packets (RFC 792, RFC 1191, RFC 1812 4.3).

use core::net::Ipv4Addr;

use bytes::Bytes;
use layercast_wire::{IcmpMessage, IpBody, Ipv4Packet, PROTOCOL_ICMP, Payload};

use crate::internet::medium::Cause;
use crate::internet::medium::packet::TTL;

/// Most bytes of an error, its IP header included (RFC 1812 4.3.2.3).
const MAX_ERROR: usize = 576;

/// The error that `own` sends to the sender of `about`, if it may (RFC 1122, section 3.2.2).
pub(crate) fn error(own: Ipv4Addr, cause: Cause, about: &Ipv4Packet) -> Option<Ipv4Packet> {
    if about.fragment_offset != 0 || is_error(about) {
        return None;
    }
    let (kind, code, mtu) = match cause {
        Cause::Net => (IcmpMessage::UNREACHABLE, 0, 0),
        Cause::Host => (IcmpMessage::UNREACHABLE, 1, 0),
        Cause::Protocol => (IcmpMessage::UNREACHABLE, 2, 0),
        Cause::Port => (IcmpMessage::UNREACHABLE, 3, 0),
        Cause::TooBig(mtu) => (IcmpMessage::UNREACHABLE, 4, mtu),
        Cause::Expired => (IcmpMessage::TIME_EXCEEDED, 0, 0),
    };
    let mut quoted = Vec::new();
    about.encode_into(&mut quoted).ok()?;
    quoted.truncate(MAX_ERROR - 28);
    let message = IcmpMessage {
        kind,
        code,
        // 16 bits hold the MTU; no larger one is too small for a packet.
        rest: mtu.to_be_bytes(),
        data: quoted.into(),
    };
    Some(packet(own, about.src, &message))
}

/// The answer to the echo `message` of `asked`.
pub(crate) fn echo(asked: &Ipv4Packet, message: IcmpMessage) -> Ipv4Packet {
    let answer = IcmpMessage {
        kind: IcmpMessage::ECHO_REPLY,
        ..message
    };
    packet(asked.dst, asked.src, &answer)
}

fn packet(src: Ipv4Addr, dst: Ipv4Addr, message: &IcmpMessage) -> Ipv4Packet {
    let mut bytes = Vec::new();
    message.encode_into(&mut bytes);
    let body = IpBody::Other {
        protocol: PROTOCOL_ICMP,
        payload: Payload::Bytes(Bytes::from(bytes)),
    };
    Ipv4Packet {
        ttl: TTL,
        dont_fragment: false,
        ..Ipv4Packet::new(src, dst, body)
    }
}

/// Whether a packet tells of an error; one that cannot be read may do so.
fn is_error(packet: &Ipv4Packet) -> bool {
    let IpBody::Other {
        protocol: PROTOCOL_ICMP,
        payload: Payload::Bytes(data),
    } = &packet.body
    else {
        return false;
    };
    IcmpMessage::decode(data.clone()).map_or(true, |message| message.is_error())
}
