use bytes::Bytes;
use thiserror::Error;

use super::lists::{put_needs, put_spans};
use super::parse::{Fields, get_body};
use super::{Body, Open, Packet, Report, State, Symbol};

/// Octets before the fields of a packet's kind.
pub const PACKET_HEADER: usize = 16;
/// Version of Layercast's own wire form.
pub const PACKET_VERSION: u8 = 2;
/// Entries of a list in one packet: so that a packet with two lists fits into the least MTU of IPv6, 1280 octets.
pub const MAX_LIST: usize = 84;
/// Octets of the name of an object or a receiver.
pub const MAX_NAME: usize = 256;

/// Why bytes are not a packet of reliable multicast.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum PacketError {
    /// It ends too early.
    #[error("the packet ends before its fields do")]
    Short,
    /// Bytes are left over.
    #[error("{0} bytes follow the last field")]
    Long(usize),
    /// Another version.
    #[error("version {0} of the multicast packet is not {PACKET_VERSION}")]
    Version(u8),
    /// Damaged on the way.
    #[error("the checksum of the multicast packet is wrong")]
    Checksum,
    /// A kind that nothing is assigned to.
    #[error("kind {0} of multicast packet is not known")]
    Kind(u8),
    /// A field with a value that it cannot have.
    #[error("{0} has a value that it cannot have")]
    Value(&'static str),
    /// A list that is too long, not in order, or has an empty entry.
    #[error("a list is too long, not in order, or has an empty entry")]
    List,
}

pub(super) const OPEN: u8 = 1;
pub(super) const ACCEPT: u8 = 2;
pub(super) const DATA: u8 = 3;
pub(super) const POLL: u8 = 4;
pub(super) const REPORT: u8 = 5;
pub(super) const COUNT: u8 = 6;
pub(super) const RELEASE: u8 = 7;
pub(super) const RELEASED: u8 = 8;
pub(super) const EJECT: u8 = 9;
pub(super) const SUSPEND: u8 = 10;
pub(super) const LEAVE: u8 = 11;
pub(super) const ABORT: u8 = 12;

impl Packet {
    /// Bytes that [`encode_into`](Packet::encode_into) appends.
    pub fn encoded_len(&self) -> usize {
        PACKET_HEADER
            + match &self.body {
                Body::Open(open) => {
                    let object = open.object.as_ref();
                    32 + object.map_or(0, |object| 45 + object.name.len())
                        + open.proof.map_or(0, |proof| proof.len())
                }
                Body::Accept(accept) => {
                    let name = accept.name.as_ref();
                    45 + accept.identity.map_or(0, |_| 8) + name.map_or(0, |name| 2 + name.len())
                }
                Body::Data(data) => 11 + data.payload.len(),
                Body::Poll(poll) => 38 + 8 * poll.ejected.len() + 6 * poll.heard.len(),
                Body::Report(report) => 45 + state_len(&report.state),
                Body::Count(_) => 8 + 2 + 2 * 9 + 4,
                Body::Release { .. } => 2,
                Body::Released { .. } | Body::Suspend { .. } => 8,
                Body::Eject(_) => 17,
                Body::Leave { .. } => 9,
                Body::Abort { .. } => 1,
            }
    }

    /// Appends the packet in Layercast's own wire form.
    pub fn encode_into(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[PACKET_VERSION, kind(&self.body)]);
        out.extend_from_slice(&flags(&self.body).to_be_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&self.session.to_be_bytes());
        put_body(&self.body, out);
        let sum = crc32fast::hash(&out[start..]);
        out[start + 4..start + 8].copy_from_slice(&sum.to_be_bytes());
    }

    /// Decodes a packet that fills `bytes`; its payload shares their memory.
    pub fn decode(bytes: &Bytes) -> Result<Packet, PacketError> {
        let Some(head) = bytes.first_chunk::<PACKET_HEADER>() else {
            return Err(PacketError::Short);
        };
        if head[0] != PACKET_VERSION {
            return Err(PacketError::Version(head[0]));
        }
        let mut sum = crc32fast::Hasher::new();
        sum.update(&head[..4]);
        sum.update(&[0; 4]);
        sum.update(&bytes[8..]);
        if sum.finalize().to_be_bytes() != head[4..8] {
            return Err(PacketError::Checksum);
        }
        let flags = u16::from_be_bytes([head[2], head[3]]);
        let mut fields = Fields(&bytes[8..]);
        let session = fields.u64()?;
        let body = get_body(head[1], flags, &mut fields, bytes)?;
        match fields.0.len() {
            0 => Ok(Packet { session, body }),
            left => Err(PacketError::Long(left)),
        }
    }
}

fn kind(body: &Body) -> u8 {
    match body {
        Body::Open(_) => OPEN,
        Body::Accept(_) => ACCEPT,
        Body::Data(_) => DATA,
        Body::Poll(_) => POLL,
        Body::Report(_) => REPORT,
        Body::Count(_) => COUNT,
        Body::Release { .. } => RELEASE,
        Body::Released { .. } => RELEASED,
        Body::Eject(_) => EJECT,
        Body::Suspend { .. } => SUSPEND,
        Body::Leave { .. } => LEAVE,
        Body::Abort { .. } => ABORT,
    }
}

fn flags(body: &Body) -> u16 {
    match body {
        Body::Open(open) => {
            let terms = &open.terms;
            u16::from(open.object.is_some())
                | u16::from(terms.in_order) << 1
                | u16::from(terms.unasked) << 2
                | (terms.content as u16) << 3
                | u16::from(terms.goodbye) << 5
                | u16::from(open.proof.is_some()) << 6
        }
        Body::Data(data) => u16::from(data.flags.0),
        Body::Poll(poll) => {
            poll.ask as u16
                | u16::from(poll.handshake) << 1
                | u16::from(poll.closing) << 2
                | u16::from(poll.separate) << 3
        }
        Body::Accept(accept) => {
            u16::from(accept.identity.is_some()) | u16::from(accept.name.is_some()) << 1
        }
        Body::Report(report) => u16::from(report.more),
        _ => 0,
    }
}

fn put_symbol(symbol: Symbol, out: &mut Vec<u8>) {
    match symbol {
        Symbol::Source(number) => {
            out.push(0);
            out.extend_from_slice(&number.to_be_bytes());
        }
        Symbol::Parity { block, index } => {
            out.push(1);
            out.extend_from_slice(&block.to_be_bytes());
            out.extend_from_slice(&index.to_be_bytes());
        }
    }
}

fn put_body(body: &Body, out: &mut Vec<u8>) {
    match body {
        Body::Open(open) => put_open(open, out),
        Body::Accept(it) => {
            out.extend_from_slice(&it.member.0.to_be_bytes());
            out.extend_from_slice(&it.incarnation.to_be_bytes());
            out.push(it.refuses.map_or(u8::MAX, |reason| reason as u8));
            out.extend_from_slice(&it.buffer.to_be_bytes());
            out.extend_from_slice(&it.held.to_be_bytes());
            out.extend_from_slice(&it.weight.to_be_bytes());
            out.extend_from_slice(&it.absent.to_be_bytes());
            out.extend_from_slice(&it.hold_us.to_be_bytes());
            out.extend_from_slice(&it.stamp.to_be_bytes());
            if let Some(identity) = it.identity {
                out.extend_from_slice(&identity.to_be_bytes());
            }
            if let Some(name) = &it.name {
                put_name(name, out);
            }
        }
        Body::Data(data) => {
            out.extend_from_slice(&data.round.to_be_bytes());
            put_symbol(data.symbol, out);
            data.payload.append_to(out);
        }
        Body::Poll(poll) => {
            out.extend_from_slice(&poll.sync.to_be_bytes());
            out.extend_from_slice(&poll.round.to_be_bytes());
            out.extend_from_slice(&poll.stamp.to_be_bytes());
            out.extend_from_slice(&poll.upto.to_be_bytes());
            out.extend_from_slice(&poll.sent.to_be_bytes());
            out.extend_from_slice(&poll.spread_us.to_be_bytes());
            out.extend_from_slice(&poll.group.to_be_bytes());
            out.extend_from_slice(&(poll.ejected.len() as u16).to_be_bytes());
            for member in &poll.ejected {
                out.extend_from_slice(&member.0.to_be_bytes());
            }
            put_needs(&poll.heard, out);
        }
        Body::Report(it) => put_report(it, out),
        Body::Count(count) => {
            out.extend_from_slice(&count.member.0.to_be_bytes());
            out.extend_from_slice(&count.round.to_be_bytes());
            put_symbol(count.start, out);
            put_symbol(count.stop, out);
            out.extend_from_slice(&count.received.to_be_bytes());
        }
        Body::Release { round } => out.extend_from_slice(&round.to_be_bytes()),
        Body::Released { member } | Body::Suspend { member } => {
            out.extend_from_slice(&member.0.to_be_bytes());
        }
        Body::Eject(eject) => {
            out.extend_from_slice(&eject.member.0.to_be_bytes());
            out.push(eject.reason as u8);
            out.extend_from_slice(&eject.upto.to_be_bytes());
        }
        Body::Leave { member, reason } => {
            out.extend_from_slice(&member.0.to_be_bytes());
            out.push(*reason as u8);
        }
        Body::Abort { reason } => out.push(*reason as u8),
    }
}

fn put_open(open: &Open, out: &mut Vec<u8>) {
    out.extend_from_slice(&open.stamp.to_be_bytes());
    out.extend_from_slice(&open.packet_size.to_be_bytes());
    out.extend_from_slice(&open.min_release.to_be_bytes());
    out.extend_from_slice(&open.terms.spread_us.to_be_bytes());
    out.extend_from_slice(&open.terms.data_wait_ms.to_be_bytes());
    out.extend_from_slice(&open.terms.sender_wait_ms.to_be_bytes());
    out.extend_from_slice(&open.terms.counters.to_be_bytes());
    if let Some(object) = &open.object {
        out.extend_from_slice(&object.size.to_be_bytes());
        out.extend_from_slice(&object.block.to_be_bytes());
        out.push(object.scheme);
        out.extend_from_slice(&object.digest);
        put_name(&object.name, out);
    }
    out.extend(open.proof.into_iter().flatten());
}

fn put_name(name: &[u8], out: &mut Vec<u8>) {
    debug_assert!(name.len() <= MAX_NAME);
    out.extend_from_slice(&(name.len() as u16).to_be_bytes());
    out.extend_from_slice(name);
}

fn put_report(it: &Report, out: &mut Vec<u8>) {
    out.extend_from_slice(&it.member.0.to_be_bytes());
    out.extend_from_slice(&it.sync.to_be_bytes());
    out.extend_from_slice(&it.round.to_be_bytes());
    out.extend_from_slice(&it.stamp.to_be_bytes());
    out.extend_from_slice(&it.held_us.to_be_bytes());
    out.extend_from_slice(&it.loss.to_be_bytes());
    out.extend_from_slice(&it.buffer.to_be_bytes());
    for count in [it.tally.alive, it.tally.complete, it.tally.failed] {
        out.extend_from_slice(&count.to_be_bytes());
    }
    match &it.state {
        State::Levels {
            received,
            delivered,
            gaps,
        } => {
            out.push(0);
            out.extend_from_slice(&received.to_be_bytes());
            out.extend_from_slice(&delivered.to_be_bytes());
            put_spans(gaps, out);
        }
        State::Complete { receipt } => {
            out.push(1);
            out.extend_from_slice(receipt);
        }
        State::Missing(spans) => {
            out.push(2);
            put_spans(spans, out);
        }
        State::Need(needs) => {
            out.push(3);
            put_needs(needs, out);
        }
        State::Busy => out.push(4),
        State::Ready(spans) => {
            out.push(5);
            put_spans(spans, out);
        }
        State::Corrupt => out.push(6),
    }
}

fn state_len(state: &State) -> usize {
    match state {
        State::Levels { gaps, .. } => 16 + 2 + 12 * gaps.len(),
        State::Complete { .. } => 16,
        State::Missing(spans) | State::Ready(spans) => 2 + 12 * spans.len(),
        State::Need(needs) => 2 + 6 * needs.len(),
        State::Busy | State::Corrupt => 0,
    }
}
