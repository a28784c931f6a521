use serde::{Deserialize, Serialize};

/// Packet counts before decoding, sources and parities alike (specs/packet-level-fec.md 2.7).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct LossCount {
    /// Packets sent, as far as numbers are known.
    pub expected: u64,
    /// Packets received, without duplicates.
    pub received: u64,
}

impl LossCount {
    /// Share of lost packets; 0 if none was sent.
    pub fn rate(&self) -> f64 {
        match self.expected {
            0 => 0.0,
            expected => 1.0 - self.received.min(expected) as f64 / expected as f64,
        }
    }

    /// The sum of two counts.
    pub(crate) fn plus(&self, more: LossCount) -> LossCount {
        LossCount {
            expected: self.expected.saturating_add(more.expected),
            received: self.received.saturating_add(more.received),
        }
    }

    /// The difference to an earlier count of the same receiver.
    pub fn since(&self, earlier: LossCount) -> LossCount {
        LossCount {
            expected: self.expected.saturating_sub(earlier.expected),
            received: self.received.saturating_sub(earlier.received),
        }
    }
}

/// A receiver's report of the loss before decoding.
///
/// Counts are cumulative since the start, so a lost report costs nothing and a sender can compute the rate itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LossReport {
    /// Loss rate since the previous report, in units of 1/65535.
    pub observed_loss: u16,
    /// Counts since the start.
    pub total: LossCount,
}

/// Makes the reports of a receiver.
#[derive(Clone, Debug, Default)]
pub struct LossReporter {
    last: LossCount,
}

/// Least number of packets for a report: fewer give no meaningful loss rate (specs/packet-level-fec.md 2.7).
pub const LEAST_EXPECTED: u64 = 100;

impl LossReporter {
    /// Returns a report if at least [`LEAST_EXPECTED`] packets were expected since the last. Call it at most once in
    /// a round trip.
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
