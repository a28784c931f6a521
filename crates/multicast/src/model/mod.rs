//! Closed-form models of reliable multicast: passes, packets, transfer time and processor load of RMTP
//! (specs/rmtp-large-scale.md 2.7, 2.8), and the largest group that FRM's sender can serve
//! (specs/fully-reliable-multicast.md 5).
//!
//! Seconds, packets per second and numbers of receivers are plain `f64`, since they are means. Probabilities are
//! computed from their complements with `log1p` and `expm1`, so that they stay accurate for a million receivers and a
//! loss of 1e-12.

mod estimate;
mod frm;
mod overflow;
mod rmtp;
mod rounds;
#[cfg(test)]
mod tests;

pub use estimate::{Estimate, estimate};
pub use frm::FrmModel;
pub use overflow::{Buffer, Overflow};
pub use rmtp::{CpuCost, Pass, RmtpModel, Session};
pub use rounds::{Round, mean_rounds, recursion, round, rule_of_thumb};

use thiserror::Error;

/// Reason why a model gives no result.
#[derive(Clone, Copy, PartialEq, Debug, Error)]
pub enum ModelError {
    /// A value is out of range.
    #[error("{name} is {value}; it must be {must}")]
    Range {
        /// Name of the value.
        name: &'static str,
        /// The value.
        value: f64,
        /// The allowed range.
        must: &'static str,
    },
}

/// Largest loss rate of the models; above it passes are counted in thousands.
pub const MOST_LOSS: f64 = 0.99;
/// Largest number of receivers and of packets of the models.
pub const MOST: u64 = 1_000_000_000;

/// The probability that at least one of `count` independent events, each of probability `chance`, happens.
fn any(chance: f64, count: f64) -> f64 {
    match chance {
        chance if chance >= 1.0 && count > 0.0 => 1.0,
        chance => -libm::expm1(count * libm::log1p(-chance)),
    }
}

fn within(
    name: &'static str,
    value: f64,
    must: &'static str,
    right: bool,
) -> Result<(), ModelError> {
    match right && value.is_finite() {
        true => Ok(()),
        false => Err(ModelError::Range { name, value, must }),
    }
}

fn check_group(packets: u64, receivers: u64, loss: f64) -> Result<(), ModelError> {
    let count = |name, count: u64| {
        let right = (1..=MOST).contains(&count);
        within(name, count as f64, "1 to 1e9", right)
    };
    count("packets", packets)?;
    count("receivers", receivers)?;
    let right = (0.0..=MOST_LOSS).contains(&loss);
    within("loss", loss, "0 to 0.99", right)
}
