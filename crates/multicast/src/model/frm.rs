use serde::{Deserialize, Serialize};

use super::{ModelError, within};

/// Largest group that FRM's sender can serve (specs/fully-reliable-multicast.md 5): it must release buffers as fast
/// as the source fills them, but echoes take processor time and lengthen the round.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrmModel {
    /// Processing time of a data packet, seconds (D).
    pub data: f64,
    /// Processing time of an echo, seconds (E).
    pub echo: f64,
    /// Time to send a CNTL, seconds (C).
    pub control: f64,
    /// Time to evaluate the list, seconds (A).
    pub evaluate: f64,
    /// Largest one-way delay to a receiver, seconds (Dmax).
    pub delay: f64,
    /// Interval between two packets of the source, seconds (SData).
    pub spacing: f64,
    /// Buffer in packets (B).
    pub buffer: u32,
    /// Contingency factor of the poll timer (k).
    pub k: f64,
}

impl FrmModel {
    /// Table 1 of the paper, with k = 1.5.
    pub const PAPER: FrmModel = FrmModel {
        data: 0.0015,
        echo: 0.0005,
        control: 0.0005,
        evaluate: 0.0005,
        delay: 0.015,
        spacing: 0.010,
        buffer: 32,
        k: 1.5,
    };

    /// Share of the sender's processor that data leaves free.
    fn left(&self) -> f64 {
        1.0 - self.data / self.spacing
    }

    /// Processor time of a round of `receivers` beyond data, seconds.
    pub fn management(&self, receivers: f64) -> f64 {
        receivers * self.echo + self.control + self.evaluate
    }

    /// Largest round trip measured by the sender with `receivers` queued echoes, seconds (smaxRTT).
    ///
    /// Errors: a number out of range.
    pub fn round_trip(&self, receivers: f64) -> Result<f64, ModelError> {
        self.check()?;
        Ok(2.0 * self.delay + self.data + receivers * self.echo / self.left())
    }

    /// Longest time that a packet waits for its release, seconds: two rounds of k round trips.
    ///
    /// Errors: a number out of range.
    pub fn release(&self, receivers: f64) -> Result<f64, ModelError> {
        Ok(2.0 * self.k * self.round_trip(receivers)?)
    }

    /// Number of receivers at which the buffer is full before its first packet is released; 0 if no group is small
    /// enough. A lower bound, since the wait is the longest.
    ///
    /// Errors: a number out of range.
    pub fn knee(&self) -> Result<f64, ModelError> {
        self.check()?;
        let filled = f64::from(self.buffer) * self.spacing;
        let echoes = filled / (2.0 * self.k) - 2.0 * self.delay - self.data;
        Ok((echoes * self.left() / self.echo).max(0.0))
    }

    fn check(&self) -> Result<(), ModelError> {
        for (name, value) in [
            ("data", self.data),
            ("control", self.control),
            ("evaluate", self.evaluate),
            ("delay", self.delay),
        ] {
            within(name, value, "0 or more", value >= 0.0)?;
        }
        within("echo", self.echo, "more than 0", self.echo > 0.0)?;
        within("k", self.k, "more than 1", self.k > 1.0)?;
        let right = self.spacing > self.data;
        within("spacing", self.spacing, "longer than data takes", right)
    }
}
