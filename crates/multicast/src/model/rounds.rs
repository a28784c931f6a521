use serde::Serialize;

use super::{MOST_LOSS, any};

/// What is missing before a pass (specs/rmtp-large-scale.md 2.7): S, M and N of the paper's appendix A.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Round {
    /// Pairs of a receiver and a packet it lacks.
    pub pairs: f64,
    /// Packets that at least one receiver lacks, which are sent.
    pub packets: f64,
    /// Receivers that lack something.
    pub receivers: f64,
}

/// The exact mean of what is missing before pass `k` (0: the first) of `packets` to `receivers` that lose each packet
/// independently with probability `loss`.
pub fn round(packets: f64, receivers: f64, loss: f64, k: u32) -> Round {
    let missing = libm::pow(loss, f64::from(k));
    Round {
        pairs: missing * packets * receivers,
        packets: packets * any(missing, receivers),
        receivers: receivers * any(missing, packets),
    }
}

/// The first `passes` of the recursion printed in the paper (a2), for comparison: the paper's table follows the exact
/// formula instead.
pub fn recursion(packets: f64, receivers: f64, loss: f64, passes: u8) -> Vec<Round> {
    let first = round(packets, receivers, loss, 0);
    let next = |before: &Round| {
        let left = |of: f64| match of > 0.0 {
            true => of * any(loss, before.pairs / of),
            false => 0.0,
        };
        Some(Round {
            pairs: loss * before.pairs,
            packets: left(before.packets),
            receivers: left(before.receivers),
        })
    };
    std::iter::successors(Some(first), next)
        .take(passes.into())
        .collect()
}

/// Passes beyond the first by the paper's rule of thumb: ln(M N) / ln(1/e).
pub fn rule_of_thumb(packets: f64, receivers: f64, loss: f64) -> f64 {
    match loss > 0.0 {
        true => libm::log(packets * receivers) / -libm::log(loss),
        false => 0.0,
    }
}

/// Mean number of passes beyond the first until all receivers have all packets: exact; infinite above [`MOST_LOSS`].
pub fn mean_rounds(packets: f64, receivers: f64, loss: f64) -> f64 {
    if loss > MOST_LOSS {
        return f64::INFINITY;
    }
    let chances = (1..).map(|k| any(libm::pow(loss, f64::from(k)), packets * receivers));
    let counted = chances.take_while(|chance| *chance > 1e-15);
    counted.fold(0.0, |sum, chance| sum + chance)
}
