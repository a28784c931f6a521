//! Solves for the missing sources without a matrix inversion: octets that stand alone in a parity are read off and
//! removed from the other parities, until all are known.
//!
//! The order of the octets is known in advance. Let the missing sources be `a_1 < ... < a_m`, the parities `e_1 < ...
//! < e_m`, and let source `k` be read off parity `b_k = e_{m+1-k}`, its octet `t` at time `t + phi_k`, where `phi_1 =
//! 0` and `phi_{k+1} = phi_k + (a_{k+1} - a_k) * b_{k+1}`. Of another missing source `l`, parity `b_k` holds at that
//! place the octet `t + (a_k - a_l) * b_k`. Since `b` decreases with `k`,
//!
//! - for `l < k`, `phi_k - phi_l >= (a_k - a_l) * b_k`: that octet was read off before or, by then, at the same time;
//! - for `l > k`, `phi_l - phi_k < (a_l - a_k) * b_k`: it was read off before.
//!
//! So one sweep in the order of time, and at one instant in the order of the sources, solves *every* pattern: the
//! code is MDS. The slack of the second inequality is the number of octets that can be processed in one step.

use crate::xor::xor_into;

/// Computes the units of the sources `lost` from as many parities, from which all other sources were removed.
///
/// Both lists are ascending; `units` are zero and each as long as a unit.
pub(super) fn peel(
    lost: &[usize],
    parities: &[usize],
    rest: &mut [Vec<u8>],
    units: &mut [Vec<u8>],
) {
    let m = lost.len();
    if let (&[a, b], &[e, f], [first, second], [one, other]) =
        (lost, parities, &mut *rest, &mut *units)
    {
        return two([a, b], [e, f], [first, second], one, other);
    }
    let Some(unit) = units.first().map(Vec::len) else {
        return;
    };
    let mut phi = vec![0; m];
    for k in 1..m {
        phi[k] = phi[k - 1] + (lost[k] - lost[k - 1]) * parities[m - 1 - k];
    }
    let pairs = (0..m).flat_map(|k| (k + 1..m).map(move |l| (k, l)));
    let slack =
        |(k, l): (usize, usize)| (lost[l] - lost[k]) * parities[m - 1 - k] + phi[k] - phi[l];
    let step = pairs.map(slack).min().unwrap_or(unit);

    let end = unit + phi[m - 1];
    for now in (0..end).step_by(step) {
        for k in 0..m {
            let from = now.saturating_sub(phi[k]);
            let to = (now + step).saturating_sub(phi[k]).min(unit);
            if from >= to {
                continue;
            }
            let read_off = m - 1 - k;
            let at = lost[k] * parities[read_off];
            units[k][from..to].copy_from_slice(&rest[read_off][at + from..at + to]);
            for (j, rest) in rest.iter_mut().enumerate() {
                let at = lost[k] * parities[j];
                xor_into(&mut rest[at + from..], &units[k][from..to]);
            }
        }
    }
}

/// Solves for two missing sources without a sweep, in whole vectors.
///
/// Counted from where the first of them begins, the parities hold `A + z^(de) B` and `A + z^(df) B`, as polynomials in `z`
/// with `d` the distance of the sources. Their sum is `z^(de) (1 + z^s) B`, `s = d (f - e)`, and over GF(2) `1 / (1 + z^s)`
/// is `(1 + z^s) (1 + z^2s) (1 + z^4s)` and so on, as far as a unit is long.
fn two(
    [a, b]: [usize; 2],
    [e, f]: [usize; 2],
    rest: [&[u8]; 2],
    one: &mut Vec<u8>,
    other: &mut Vec<u8>,
) {
    let (unit, distance) = (other.len(), b - a);
    let (low, high) = (&rest[0][a * e..], &rest[1][a * f..]);
    other.copy_from_slice(&low[distance * e..][..unit]);
    xor_into(other, &high[distance * e..][..unit]);
    let mut shift = distance * (f - e);
    while shift < unit {
        one.copy_from_slice(other);
        xor_into(&mut one[shift..], &other[..unit - shift]);
        std::mem::swap(one, other);
        shift *= 2;
    }
    one.copy_from_slice(&high[..unit]);
    let shift = (distance * f).min(unit);
    xor_into(&mut one[shift..], &other[..unit - shift]);
}
