use serde::{Deserialize, Serialize};

use crate::{DecoderStats, LossCount};

/// What an edge did since its start, each way.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct EdgeStats {
    /// Into the tunnel.
    pub sent: EdgeSent,
    /// Out of the tunnel.
    pub received: EdgeReceived,
}

/// What went into a tunnel.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct EdgeSent {
    /// Packets of the user that were protected.
    pub packets: u64,
    /// Packets too long for parities of them to fit, sent without protection.
    pub unprotected: u64,
    /// Packets too long for the tunnel, dropped.
    pub refused: u64,
    /// Octets of the longest of these.
    pub longest_refused: u64,
    /// Octets of the packets that were sent.
    pub octets: u64,
    /// Parities made.
    pub parities: u64,
    /// Octets of all datagrams of the tunnel, reports included.
    pub tunnel_octets: u64,
    /// Source packets and parities of a block now.
    pub code: (u8, u8),
    /// Loss before decoding that the peer tells of, from the start of this edge; `None`: it has told nothing.
    pub peer_loss: Option<f64>,
    /// Reports of the peer about this edge.
    pub reports: u64,
}

/// What came out of a tunnel.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct EdgeReceived {
    /// Packets handed to the user, those recovered among them.
    pub packets: u64,
    /// Octets of them.
    pub octets: u64,
    /// Packets recovered from parities.
    pub recovered: u64,
    /// Packets that stayed lost, in blocks that are done with.
    pub lost: u64,
    /// Packets and parities of blocks that are done with: those that were sent, as far as numbers tell, and that came.
    pub before_decoding: LossCount,
    /// The share lost before decoding; `None`: no block is done with, so nothing is known.
    pub raw_loss: Option<f64>,
    /// The share lost after it; `None`: no packet came out and none is known to be lost.
    pub residual_loss: Option<f64>,
    /// How much later recovered packets came than they would have, in milliseconds: from the arrival of the packet before
    /// in their block, or of the block's first if there is none.
    pub added_ms: f64,
    /// The greatest.
    pub most_added_ms: f64,
    /// Came before, dropped.
    pub duplicate: u64,
    /// After their block was done with, dropped: they may have been recovered.
    pub late: u64,
    /// No datagrams of a tunnel, or not of the session; dropped.
    pub malformed: u64,
    /// Handed on (parities: dropped) without decoding, for want of time.
    pub bypassed: u64,
    /// Times that the peer began anew.
    pub restarts: u64,
}

impl EdgeSent {
    /// Octets of the tunnel beyond those of the user, as a share of these; 0 if the user sent nothing.
    pub fn overhead(&self) -> f64 {
        match self.octets {
            0 => 0.0,
            octets => self.tunnel_octets.saturating_sub(octets) as f64 / octets as f64,
        }
    }
}

impl EdgeReceived {
    /// With what a decoder counted.
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

    /// With the shares that follow from the counts.
    pub(super) fn rated(mut self) -> EdgeReceived {
        let expected = self.before_decoding.expected;
        self.raw_loss = (expected > 0).then(|| self.before_decoding.rate());
        let packets = self.packets + self.lost;
        self.residual_loss = (packets > 0).then(|| self.lost as f64 / packets as f64);
        self
    }
}
