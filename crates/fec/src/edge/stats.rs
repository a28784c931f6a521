use serde::{Deserialize, Serialize};

use crate::{DecoderStats, LossCount};

/// Counters of an edge since its start, for each direction.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct EdgeStats {
    /// Into the tunnel.
    pub sent: EdgeSent,
    /// Out of the tunnel.
    pub received: EdgeReceived,
}

/// Counters of the sending side.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct EdgeSent {
    /// Packets of the user that were protected.
    pub packets: u64,
    /// Packets sent unprotected because their parities would not fit.
    pub unprotected: u64,
    /// Packets dropped because they are too long for the tunnel.
    pub refused: u64,
    /// Octets of the longest dropped packet.
    pub longest_refused: u64,
    /// Octets of the packets sent.
    pub octets: u64,
    /// Parities made.
    pub parities: u64,
    /// Octets of all datagrams of the tunnel, reports included.
    pub tunnel_octets: u64,
    /// Current source packets and parities of a block.
    pub code: (u8, u8),
    /// Loss before decoding reported by the peer, since the start of this edge; `None` without a report.
    pub peer_loss: Option<f64>,
    /// Reports received from the peer.
    pub reports: u64,
}

/// Counters of the receiving side.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct EdgeReceived {
    /// Datagrams that came from the peer, including dropped ones.
    pub datagrams: u64,
    /// Packets delivered to the user, including recovered ones.
    pub packets: u64,
    /// Octets of the packets delivered.
    pub octets: u64,
    /// Packets recovered from parities.
    pub recovered: u64,
    /// Packets that were not recovered, in closed blocks.
    pub lost: u64,
    /// Packets and parities of closed blocks: those sent, as far as numbers are known, and those received.
    pub before_decoding: LossCount,
    /// Share lost before decoding; `None` before the first closed block.
    pub raw_loss: Option<f64>,
    /// Share lost after decoding; `None` if no packet was delivered and none is known to be lost.
    pub residual_loss: Option<f64>,
    /// Mean delay of recovered packets in milliseconds, relative to the arrival of the packet before in their block,
    /// or of the block's first packet.
    pub added_ms: f64,
    /// The largest such delay.
    pub most_added_ms: f64,
    /// Packets delivered after later ones, since they came when these had waited as long as the edge allows.
    pub out_of_order: u64,
    /// Duplicates, dropped.
    pub duplicate: u64,
    /// Packets that arrived after their block was closed, dropped: they may have been recovered.
    pub late: u64,
    /// Datagrams that do not belong to the tunnel or the session, dropped.
    pub malformed: u64,
    /// Packets delivered without decoding (parities dropped) because the end could not keep up.
    pub bypassed: u64,
    /// Restarts of the peer.
    pub restarts: u64,
}

impl EdgeSent {
    /// Octets of the tunnel beyond those of the user, relative to these; 0 if the user sent nothing.
    pub fn overhead(&self) -> f64 {
        match self.octets {
            0 => 0.0,
            octets => self.tunnel_octets.saturating_sub(octets) as f64 / octets as f64,
        }
    }
}

impl EdgeReceived {
    /// Adds the counters of a decoder.
    pub(super) fn with(mut self, stats: &DecoderStats, loss: LossCount) -> EdgeReceived {
        self.recovered += stats.recovered;
        self.lost += stats.lost;
        self.before_decoding = self.before_decoding.plus(loss);
        self.duplicate += stats.duplicate;
        self.late += stats.late;
        self.malformed +=
            stats.malformed + stats.conflicting + stats.strange + stats.decode_corrupt;
        self
    }

    /// Computes the shares from the counts.
    pub(super) fn rated(mut self) -> EdgeReceived {
        let expected = self.before_decoding.expected;
        self.raw_loss = (expected > 0).then(|| self.before_decoding.rate());
        let packets = self.packets + self.lost;
        self.residual_loss = (packets > 0).then(|| self.lost as f64 / packets as f64);
        self
    }
}
