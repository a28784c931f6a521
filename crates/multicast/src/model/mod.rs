//! What a reliable multicast session takes before it begins, in closed form: passes, packets, seconds and processor
//! of RMTP (specs/rmtp-large-scale.md 2.7, 2.8), and the group size up to which FRM's sender keeps up
//! (specs/fully-reliable-multicast.md 5).
//!
//! Seconds, packets per second and numbers of receivers are plain `f64`: these are means. Chances are computed from
//! their complements with `log1p` and `expm1`, so that neither a million receivers nor a loss of 1e-12 costs digits.

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

/// Why there is no answer.
#[derive(Clone, Copy, PartialEq, Debug, Error)]
pub enum ModelError {
    /// A number out of range.
    #[error("{name} is {value}; it must be {must}")]
    Range {
        /// Which.
        name: &'static str,
        /// What it is.
        value: f64,
        /// What it must be.
        must: &'static str,
    },
}

/// The loss rate up to which the models answer: above, passes would be counted in thousands.
pub const MOST_LOSS: f64 = 0.99;
/// The most receivers, and the most packets, that the models answer for.
pub const MOST: u64 = 1_000_000_000;

/// The chance that at least one of `count` independent things, each with this chance, happens.
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
