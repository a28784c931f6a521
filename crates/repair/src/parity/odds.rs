use crate::repairer::RESIDUAL;

/// Most parities that a block gets beyond its deficit when no other round fits.
const MAX_EXTRA: u32 = 4;

/// How many parities beyond `deficit` leave a member without one of them in fewer than [`RESIDUAL`] of all contents, if
/// the share `loss` of them is lost.
pub(crate) fn extra(deficit: u32, loss: f64) -> u32 {
    let loss = loss.clamp(1e-4, 0.5);
    let target = RESIDUAL / (7.5 * loss);
    let fails = |sent: u32| 1.0 - more_than(deficit - 1, sent, 1.0 - loss);
    let enough = |extra: &u32| fails(deficit + extra) <= target;
    (0..MAX_EXTRA).find(enough).unwrap_or(MAX_EXTRA)
}

/// The fewest parities, `most` at most, that restore all of `contents` with a probability of 1 - `residual`, if the share
/// `loss` of the contents and of the parities is lost.
pub(crate) fn enough(contents: u32, loss: f64, residual: f64, most: u32) -> u32 {
    let suffice = |parities: &u32| more_than(*parities, contents + parities, loss) <= residual;
    (0..most).find(suffice).unwrap_or(most)
}

/// The probability that more than `few` of `all` happen, each with probability `each`.
pub(crate) fn more_than(few: u32, all: u32, each: f64) -> f64 {
    let each = each.clamp(1e-4, 1.0 - 1e-4);
    let mut term: f64 = (0..all).map(|_| 1.0 - each).product();
    let mut sum = 0.0;
    for count in 0..=few.min(all) {
        sum += term;
        term *= f64::from(all - count) / f64::from(count + 1) * each / (1.0 - each);
    }
    (1.0 - sum).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_parities_as_the_loss_asks_for() {
        assert_eq!(enough(8, 0.0, 1e-3, 8), 0);
        // P(more than 3 of 11 lost) at 5 % is 0.0016, more than 4 of 12 0.00018.
        assert_eq!(enough(8, 0.05, 1e-3, 8), 4);
        assert_eq!(enough(8, 0.05, 2e-3, 8), 3);
        assert_eq!(enough(8, 0.5, 1e-3, 4), 4, "never more than the most");
        assert_eq!(extra(1, 1e-4), 0);
        assert!(extra(4, 0.05) < extra(4, 0.3) || extra(4, 0.3) == MAX_EXTRA);
    }
}
