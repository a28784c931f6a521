use serde::{Deserialize, Serialize};

/// Packets before decoding, source packets and parities alike (specs/packet-level-fec.md 2.7).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct LossCount {
    /// Packets that were sent, as far as numbers tell.
    pub expected: u64,
    /// Those of them that came, each counted once.
    pub received: u64,
}

impl LossCount {
    /// Lost packets over those sent; 0 if none was.
    pub fn rate(&self) -> f64 {
        match self.expected {
            0 => 0.0,
            expected => 1.0 - self.received.min(expected) as f64 / expected as f64,
        }
    }

    /// This and what was counted after it.
    pub(crate) fn plus(&self, more: LossCount) -> LossCount {
        LossCount {
            expected: self.expected.saturating_add(more.expected),
            received: self.received.saturating_add(more.received),
        }
    }

    /// What came since an earlier count of the same receiver.
    pub fn since(&self, earlier: LossCount) -> LossCount {
        LossCount {
            expected: self.expected.saturating_sub(earlier.expected),
            received: self.received.saturating_sub(earlier.received),
        }
    }
}

/// What a receiver reports of the loss that it sees before decoding.
///
/// The counts are those since the start, so that a lost report costs nothing and a sender can derive the rate anew.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LossReport {
    /// Loss rate since the report before, in units of 1/65535.
    pub observed_loss: u16,
    /// Since the start.
    pub total: LossCount,
}

/// Makes the reports of a receiver.
#[derive(Clone, Debug, Default)]
pub struct LossReporter {
    last: LossCount,
}

/// Fewer packets say nothing about a loss rate (specs/packet-level-fec.md 2.7).
pub const LEAST_EXPECTED: u64 = 100;

impl LossReporter {
    /// A report, if at least [`LEAST_EXPECTED`] packets were expected since the last; to be asked once in a round trip or
    /// less often.
    pub fn report(&mut self, total: LossCount) -> Option<LossReport> {
        let new = total.since(self.last);
        if new.expected < LEAST_EXPECTED {
            return None;
        }
        self.last = total;
        let observed_loss = (new.rate() * f64::from(u16::MAX)).round() as u16;
        Some(LossReport {
            observed_loss,
            total,
        })
    }
}
