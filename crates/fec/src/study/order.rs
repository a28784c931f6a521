use serde::{Deserialize, Serialize};

use super::{Losses, StudyError};

/// In-order delivery of a protected stream, with each repair a window later (specs/packet-level-fec.md 2.5, F6).
///
/// Decoding is counted, not executed: the codes in use are MDS.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Order {
    /// Source packets of a block.
    pub n: usize,
    /// Parities of a block.
    pub m: usize,
    /// Loss rate.
    pub e: f64,
    /// Packet times until a repair arrives.
    pub window: u32,
    /// Source packets to send.
    pub packets: u64,
    /// Seed of the run.
    pub seed: u64,
}

/// Delay beyond the least, in packet times.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct OrderFound {
    /// Mean, if recovered packets are available immediately, as in the model.
    pub mean: f64,
    /// Standard deviation of that.
    pub deviation: f64,
    /// Mean, if recovered packets are available with the packet that completes their block.
    pub mean_with_fill: f64,
}

impl Order {
    /// Sends the stream.
    ///
    /// # Errors
    ///
    /// [`StudyError`] if there is nothing to send, or the block or loss is invalid.
    pub fn run(&self) -> Result<OrderFound, StudyError> {
        if !(0.0..=0.9).contains(&self.e) {
            return Err(StudyError::Loss);
        }
        if self.n == 0 || self.n + self.m > 255 {
            return Err(StudyError::Block);
        }
        if self.packets == 0 {
            return Err(StudyError::Nothing);
        }
        let mut losses = Losses::new(self.seed, "order/loss", self.e);
        let window = f64::from(self.window);
        let (mut newest, mut newest_filled) = (0.0_f64, 0.0_f64);
        let (mut sum, mut squares, mut filled, mut count) = (0.0, 0.0, 0.0, 0_u64);
        while count < self.packets {
            let mut lost = vec![false; self.n + self.m];
            losses.each(lost.len() as u64, |at| lost[at as usize] = true);
            let completes = (0..lost.len()).filter(|it| !lost[*it]).nth(self.n - 1);
            for (source, &lost) in lost[..self.n].iter().enumerate() {
                let due = (count + source as u64) as f64;
                let (mut late, mut late_filled) = (0.0, 0.0);
                match completes {
                    Some(completes) if lost => {
                        late_filled = completes.saturating_sub(source) as f64
                    }
                    None if lost => {
                        let mut tries = 1.0;
                        while losses.count(1) > 0 {
                            tries += 1.0;
                        }
                        (late, late_filled) = (tries * window, tries * window);
                    }
                    _ => {}
                }
                newest = newest.max(due + late);
                newest_filled = newest_filled.max(due + late_filled);
                sum += newest - due;
                squares += (newest - due) * (newest - due);
                filled += newest_filled - due;
            }
            count += self.n as u64;
        }
        let mean = sum / count as f64;
        Ok(OrderFound {
            mean,
            deviation: (squares / count as f64 - mean * mean).max(0.0).sqrt(),
            mean_with_fill: filled / count as f64,
        })
    }
}
