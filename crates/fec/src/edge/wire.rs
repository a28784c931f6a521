use bytes::Bytes;
use layercast_core::Serial;

use crate::LossCount;

/// Octets in front of the content of a tunnel datagram: its kind and the session of its sender.
pub(super) const ENVELOPE: usize = 4;
/// Octets of the number in front of a packet.
pub(super) const NUMBER: usize = 4;
/// Octets of a report.
pub(super) const REPORT: usize = ENVELOPE + 16;

/// Identifies a start of an edge, 24 bits: blocks of different starts are unrelated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Session(u32);

/// The packet of a datagram.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Carried {
    /// Of the code, with its FEC header; its source packets have a number in front.
    Coded(Bytes),
    /// Without protection, behind its number.
    Plain(Bytes),
}

/// A datagram of a tunnel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Datagram {
    /// A packet of a session.
    Packet(Session, Carried),
    /// Counts before decoding, since the start of the session.
    Report(Session, LossCount),
}

const CODED: u8 = 0xe4;
const PLAIN: u8 = 0xe5;
const TOLD: u8 = 0xe3;

impl Session {
    pub fn new(number: u32) -> Session {
        Session(number & 0x00ff_ffff)
    }

    pub fn coded(self) -> [u8; ENVELOPE] {
        self.envelope(CODED)
    }

    pub fn plain(self) -> [u8; ENVELOPE] {
        self.envelope(PLAIN)
    }

    /// Encodes the report on this session.
    pub fn report(self, total: LossCount) -> [u8; REPORT] {
        let mut out = [0; REPORT];
        out[..4].copy_from_slice(&self.envelope(TOLD));
        out[4..12].copy_from_slice(&total.expected.to_be_bytes());
        out[12..].copy_from_slice(&total.received.to_be_bytes());
        out
    }

    fn envelope(self, kind: u8) -> [u8; ENVELOPE] {
        let [_, a, b, c] = self.0.to_be_bytes();
        [kind, a, b, c]
    }
}

/// Decodes a datagram of a tunnel; `None` if it is not one.
pub(super) fn open(datagram: &Bytes) -> Option<Datagram> {
    let (&[kind, a, b, c], rest) = datagram.split_first_chunk()?;
    let session = Session(u32::from_be_bytes([0, a, b, c]));
    let carried = || datagram.slice(ENVELOPE..);
    match kind {
        CODED => Some(Datagram::Packet(session, Carried::Coded(carried()))),
        PLAIN => Some(Datagram::Packet(session, Carried::Plain(carried()))),
        TOLD => {
            let (expected, received) = rest.split_first_chunk()?;
            let total = LossCount {
                expected: u64::from_be_bytes(*expected),
                received: u64::from_be_bytes(received.try_into().ok()?),
            };
            Some(Datagram::Report(session, total))
        }
        _ => None,
    }
}

/// Puts a number in front of a packet. Parities protect it as well: a recovered packet has it.
pub(super) fn with_number(number: Serial, packet: &[u8]) -> Bytes {
    [&number.0.to_be_bytes()[..], packet].concat().into()
}

/// Splits a packet from its number.
pub(super) fn numbered(packet: &Bytes) -> Option<(Serial, Bytes)> {
    let number = packet.first_chunk::<NUMBER>()?;
    let number = Serial(u32::from_be_bytes(*number));
    Some((number, packet.slice(NUMBER..)))
}
