//! One end of a tunnel that protects packets by FEC.

mod order;
mod peer;
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

/// Largest number of open blocks: more than any path reorders, few enough to search.
const BLOCKS: usize = 256;
/// Time that a block is kept beyond the time that it may stay open at the sender.
const HOLD: Span = Span::from_secs(1);

/// Configuration of an edge; its receiving side learns everything but `order` from the packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FecEdgeConfig {
    /// The code.
    pub scheme: Scheme,
    /// Source packets and parities of a block; `None` adapts the code to the peer's reports, for at most one lost
    /// packet in a thousand.
    pub code: Option<(u8, u8)>,
    /// Longest datagram of the tunnel, in octets.
    pub mtu: usize,
    /// Time after which an open block is closed and its parities are sent.
    pub flush: Span,
    /// Blocks that are filled in turn, so that a burst of losses is spread over them; 1 is no interleaving.
    pub interleave: u8,
    /// Longest time that a received packet waits for one sent before it; zero delivers packets as they come. Packets
    /// are in order if the peer's `flush` and the variation of the path's delay take no longer.
    pub order: Span,
    /// A number that differs from that of the last start of this edge; the low 24 bits count.
    pub session: u32,
}

/// Largest packet, in octets, that a tunnel with datagrams of `mtu` octets accepts.
pub fn longest_packet(mtu: usize) -> usize {
    mtu.saturating_sub(wire::ENVELOPE + wire::NUMBER)
}

/// One end of a tunnel between two hosts, both directions (specs/where-to-use-fec.md 2.5, 8): packets of any content
/// go in, datagrams with parities cross the path, and the other end returns the original packets, unaltered, in the
/// order in which they were sent and each at most once; sans-I/O.
///
/// Packets are sent immediately. A received packet behind a gap waits until the gap is filled, at most for
/// [`FecEdgeConfig::order`]; a packet that comes later than that is delivered immediately, after later ones. Poll
/// everything after each input: memory then stays within the limits of the decoder and of waiting packets (8 MiB
/// each) and one block. A packet whose parities would not fit into the tunnel's datagrams is sent unprotected. A packet that is itself
/// too long is refused, since IP would fragment it and lose it with any fragment. An attacker that can send datagrams
/// in the peer's name can insert packets: protect the content.
///
/// | octets | of a datagram |
/// |---|---|
/// | 1 | 0xe4 a packet of the code, 0xe5 one without protection, 0xe3 a report |
/// | 3 | session of the sender; of a report, that which it tells of |
/// | 8 | of a packet of the code: [`Header`](crate::Header) |
/// | 8, 8 | of a report: packets of the session's blocks that are done with, and those that came |
/// | 4 | of a packet: its number, from 0; it wraps. Parities protect it |
/// | rest | packet or parity |
#[derive(Debug)]
pub struct FecEdge {
    sending: Sending,
    receiving: Receiving,
}

impl FecEdge {
    /// Creates an edge.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] with the violated limit.
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
            receiving: Receiving::new(decoder, config.order),
        })
    }

    /// Sends a packet of the user to the other end.
    pub fn send(&mut self, now: Time, packet: &[u8]) {
        self.sending.push(now, packet);
    }

    /// Processes a datagram from the peer; datagrams that do not belong to the tunnel are counted and dropped.
    pub fn receive(&mut self, now: Time, datagram: &Bytes) {
        self.receiving.heard();
        match wire::open(datagram) {
            Some(Datagram::Packet(session, carried)) => self.receiving.take(now, session, carried),
            Some(Datagram::Report(session, total)) => {
                let period = Receiving::PERIOD;
                if !self.sending.on_report(now, session, total, period) {
                    self.receiving.malformed();
                }
            }
            None => self.receiving.malformed(),
        }
    }

    /// Replaces the content of `out` by the next datagram for the peer; `false` if there is none.
    pub fn poll_transmit(&mut self, out: &mut Vec<u8>) -> bool {
        self.sending.poll_transmit(out)
    }

    /// Returns the next packet for the user.
    pub fn poll_packet(&mut self) -> Option<Bytes> {
        self.receiving.poll_packet()
    }

    /// When [`on_timeout`](FecEdge::on_timeout) must be called: to close or abandon a block, or to send a report.
    pub fn next_timeout(&self) -> Option<Time> {
        earliest(self.sending.next_timeout(), self.receiving.next_timeout())
    }

    /// Executes all expired timers.
    pub fn on_timeout(&mut self, now: Time) {
        self.sending.on_timeout(now);
        if let Some((session, total)) = self.receiving.on_timeout(now) {
            self.sending.report(session, total);
        }
    }

    /// Switches decoding off (`true`), for an end that cannot keep up (specs/where-to-use-fec.md 7). Then nothing is
    /// recovered, and duplicates made by the network are delivered.
    pub fn set_bypass(&mut self, bypass: bool) {
        self.receiving.set_bypass(bypass);
    }

    /// Counters since the start.
    pub fn stats(&self) -> EdgeStats {
        EdgeStats {
            sent: self.sending.stats(),
            received: self.receiving.stats(),
        }
    }
}
