//! What a QoS monitor has to know of a connection before and after a segment.

use super::Connection;

/// A connection at an instant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    /// The end of what was sent.
    pub(crate) max: u64,
    /// The end of what is acknowledged.
    pub(crate) una: u64,
    /// Bytes acknowledged beyond it.
    pub(crate) sacked: u64,
    /// Bytes received, beyond gaps too.
    pub(crate) held: u64,
    /// The start of the segment that is timed.
    pub(crate) timed: Option<u64>,
}

impl Connection {
    pub(crate) fn measured(&self) -> Measured {
        let islands = self.reassembly.islands();
        Measured {
            max: self.max,
            una: self.una,
            sacked: self.sacked().map(|(from, to)| to - from).sum(),
            held: self.rcv_nxt + islands.covered(self.rcv_nxt, u64::MAX),
            timed: self.timing.map(|it| it.0),
        }
    }

    /// What the peer has beyond what is acknowledged.
    pub(crate) fn sacked(
        &self,
    ) -> impl DoubleEndedIterator<Item = (u64, u64)> + ExactSizeIterator + '_ {
        self.scoreboard.ranges()
    }
}
