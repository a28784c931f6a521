use libm::{exp, expm1, lgamma, log, log1p};

/// Losses above this are treated as unreachable: a repair would need hundreds of attempts.
pub(super) const MOST_LOSS: f64 = 0.995;

/// The probability that at least one of `count` independent events, each of probability `chance`, happens.
pub(super) fn any(chance: f64, count: f64) -> f64 {
    -expm1(count * log1p(-chance))
}

/// The logarithm of the binomial coefficient.
pub(super) fn ln_choose(n: f64, k: f64) -> f64 {
    lgamma(n + 1.0) - lgamma(k + 1.0) - lgamma(n - k + 1.0)
}

/// The probability of at least `least` losses among `n` packets, each lost with probability `e`.
///
/// Sums the tail itself, so that it is accurate even at 1e-30.
pub(super) fn at_least(n: usize, least: usize, e: f64) -> f64 {
    if least == 0 {
        return 1.0;
    }
    if least > n || e <= 0.0 {
        return 0.0;
    }
    if e >= 1.0 {
        return 1.0;
    }
    let (count, odds) = (n as f64, e / (1.0 - e));
    // Sums the smaller tail: its terms decrease from the first on.
    let upper = least as f64 > (count + 1.0) * e;
    let start = if upper { least } else { least - 1 };
    let at = start as f64;
    let mut term = exp(ln_choose(count, at) + at * log(e) + (count - at) * log1p(-e));
    let (mut sum, mut k) = (term, start);
    while term > 0.0 && term > sum * 1e-17 {
        let here = k as f64;
        if upper && k < n {
            term *= (count - here) / (here + 1.0) * odds;
            k += 1;
        } else if !upper && k > 0 {
            term *= here / (count - here + 1.0) / odds;
            k -= 1;
        } else {
            break;
        }
        sum += term;
    }
    if upper {
        sum.min(1.0)
    } else {
        (1.0 - sum).max(0.0)
    }
}

/// Sums `term(0) + term(1) + ...`, decreasing towards zero, until the terms are negligible.
pub(super) fn series(mut term: impl FnMut(u32) -> f64) -> f64 {
    let (mut sum, mut least) = (0.0, f64::INFINITY);
    for x in 0.. {
        let next = term(x);
        sum += next;
        least = next.min(least);
        if least <= 1e-14 * sum {
            break;
        }
    }
    sum
}
