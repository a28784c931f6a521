//! One end of a tunnel that protects packets by parities.

mod receiving;
mod sending;
mod stats;
mod wire;

use bytes::Bytes;
use layercast_core::{Span, Time, earliest};

use crate::{ConfigError, DecoderConfig, EncoderConfig, Scheme, Steering};
use receiving::Receiving;
use sending::Sending;
use wire::{Datagram, Session};

pub use stats::{EdgeReceived, EdgeSent, EdgeStats};

/// Blocks that are open at once: more than are reordered on any path, few enough to look through.
const BLOCKS: usize = 256;
/// How long a block is waited for beyond what it may stay open at the sender.
const HOLD: Span = Span::from_secs(1);

/// How an edge protects what it sends; what it receives tells for itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FecEdgeConfig {
    /// The code.
    pub scheme: Scheme,
    /// Source packets and parities of a block; `None`: as few parities as leave one packet in a thousand lost, by what the
    /// peer reports.
    pub code: Option<(u8, u8)>,
    /// Longest datagram of the tunnel, in octets.
    pub mtu: usize,
    /// How long a block may stay open before parities are sent for what it has.
    pub flush: Span,
    /// Blocks that are filled in turn, so that a burst of losses hits several of them; 1: one after the other.
    pub interleave: u8,
    /// A number that this edge did not have at its last start; 24 bits of it count.
    pub session: u32,
}

/// Octets of a packet that an edge takes at most, with datagrams of `mtu` octets.
pub fn longest_packet(mtu: usize) -> usize {
    mtu.saturating_sub(wire::ENVELOPE)
}

/// One end of a tunnel between two hosts, both ways (specs/where-to-use-fec.md 2.5, 8): packets of any content go in,
/// datagrams with parities cross the path between, and what comes out at the other end are packets that went in,
/// unaltered and each at most once; sans-I/O.
///
/// Packets leave at once both ways, only what is recovered comes later. Poll all after each input: memory then stays
/// within what the decoder may hold (8 MiB) and one block. A packet whose parities would not fit into the tunnel's
/// datagrams goes without protection (and if the network duplicates it, comes twice); one that is itself too long is
/// refused, as IP would cut it up and lose it with any of its parts. Whoever can send datagrams in the peer's name can
/// insert packets: protect what is in them.
///
/// | octets | of a datagram |
/// |---|---|
/// | 1 | 0xe1 a packet of the code, 0xe2 one without protection, 0xe3 a report |
/// | 3 | session of the sender; of a report, that which it tells of |
/// | 8 | of a packet of the code: [`Header`](crate::Header) |
/// | 8, 8 | of a report: packets of the session's blocks that are done with, and those that came |
/// | rest | packet or parity |
#[derive(Debug)]
pub struct FecEdge {
    sending: Sending,
    receiving: Receiving,
}

impl FecEdge {
    /// An edge that has heard nothing of its peer.
    ///
    /// # Errors
    ///
    /// [`ConfigError`], which names the limit.
    pub fn new(config: FecEdgeConfig) -> Result<FecEdge, ConfigError> {
        let (n, m) = config.code.unwrap_or(Steering::FIRST);
        let encoder = EncoderConfig {
            scheme: config.scheme,
            n,
            m,
            mtu: config.mtu,
            flush: config.flush,
            interleave: config.interleave,
            keep: 0,
        };
        let decoder = DecoderConfig {
            blocks: BLOCKS,
            hold: HOLD,
            ..DecoderConfig::default()
        };
        let session = Session::new(config.session);
        Ok(FecEdge {
            sending: Sending::new(encoder, config.code.is_none(), session)?,
            receiving: Receiving::new(decoder),
        })
    }

    /// Takes a packet of the user, for the other end.
    pub fn send(&mut self, now: Time, packet: Bytes) {
        self.sending.push(now, packet);
    }

    /// Takes a datagram from the peer; what is none of the tunnel is counted and dropped.
    pub fn receive(&mut self, now: Time, datagram: &Bytes) {
        match wire::open(datagram) {
            Some(Datagram::Coded(session, packet)) => self.receiving.coded(now, session, &packet),
            Some(Datagram::Plain(session, packet)) => self.receiving.plain(session, packet),
            Some(Datagram::Report(session, total)) => {
                let period = Receiving::PERIOD;
                if !self.sending.on_report(now, session, total, period) {
                    self.receiving.malformed();
                }
            }
            None => self.receiving.malformed(),
        }
    }

    /// Puts the next datagram for the peer into `out` in place of what is there; `false` if there is none.
    pub fn poll_transmit(&mut self, out: &mut Vec<u8>) -> bool {
        self.sending.poll_transmit(out)
    }

    /// The next packet for the user.
    pub fn poll_packet(&mut self) -> Option<Bytes> {
        self.receiving.poll_packet()
    }

    /// When [`on_timeout`](FecEdge::on_timeout) has something to do: a block to close or to give up, a report to send.
    pub fn next_timeout(&self) -> Option<Time> {
        earliest(self.sending.next_timeout(), self.receiving.next_timeout())
    }

    /// Does what is due.
    pub fn on_timeout(&mut self, now: Time) {
        self.sending.on_timeout(now);
        if let Some((session, total)) = self.receiving.on_timeout(now) {
            self.sending.report(session, total);
        }
    }

    /// Hands packets on as they come, without decoding (`true`): for an end that cannot keep up
    /// (specs/where-to-use-fec.md 7). Meanwhile nothing is recovered and duplicates made by the network pass.
    pub fn set_bypass(&mut self, bypass: bool) {
        self.receiving.set_bypass(bypass);
    }

    /// What was done since the start.
    pub fn stats(&self) -> EdgeStats {
        EdgeStats {
            sent: self.sending.stats(),
            received: self.receiving.stats(),
        }
    }
}
