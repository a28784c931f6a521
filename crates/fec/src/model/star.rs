use libm::pow;
use serde::{Deserialize, Serialize};

use super::numeric::{MOST_LOSS, any, at_least, series};

/// The probability that a source packet is lost after decoding, if each packet of its block of `n + m` is lost with
/// probability `e` (specs/packet-level-fec.md 2.3): it is lost, and so are at least `m` of the others.
pub fn residual(n: usize, m: usize, e: f64) -> f64 {
    e * at_least(n + m - 1, m, e)
}

/// Transmissions until all of `group` receivers have a packet, each losing it with probability `e`, with repairs to
/// all (specs/packet-level-fec.md 2.4); infinite for losses of 99.5 % and above.
pub fn expected(e: f64, group: f64) -> f64 {
    match e {
        e if e > MOST_LOSS => f64::INFINITY,
        e if e <= 0.0 || group <= 0.0 => 1.0,
        _ => series(|x| {
            if x == 0 {
                1.0
            } else {
                any(pow(e, f64::from(x)), group)
            }
        }),
    }
}

/// The cost model of multicast with FEC (specs/packet-level-fec.md 2.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum CostKind {
    /// Every transmission is coded, as in the paper's curves.
    A,
    /// The first transmission is coded, repairs are not, as in a real protocol.
    B,
}

/// Packets sent per source packet until all of `group` receivers have it, with blocks of `n + m`; without FEC `m =
/// 0`.
pub fn cost(n: usize, m: usize, e: f64, group: f64, kind: CostKind) -> f64 {
    let factor = (n + m) as f64 / n as f64;
    let left = residual(n, m, e);
    match kind {
        CostKind::A => factor * expected(left, group),
        CostKind::B => factor + residual_cost(&[(e, left, group)]),
    }
}

/// Uncoded repairs per source packet until all receivers have it. Each class of receivers has a loss rate, a loss
/// after decoding of the first pass, and a number.
pub fn residual_cost(receivers: &[(f64, f64, f64)]) -> f64 {
    if receivers.iter().any(|it| it.0 > MOST_LOSS) {
        return f64::INFINITY;
    }
    let lacking = |x: u32| {
        let chance = |&(e, left, count): &(f64, f64, f64)| {
            let lost = left * pow(e, f64::from(x));
            count * libm::log1p(-lost)
        };
        -libm::expm1(receivers.iter().map(chance).sum())
    };
    match receivers.iter().any(|it| it.1 > 0.0) {
        true => series(lacking),
        false => 0.0,
    }
}

/// Packets sent per source packet if repairs are fresh parities (Nonnenmacher, Biersack and Towsley 1997): blocks of
/// `k` with `proactive` parities, then as many parities as the worst of `group` receivers needs.
///
/// Any `k` packets of a block suffice; a receiver needs `x` beyond `k` if it loses at least `x` of `k + x - 1`.
pub fn integrated(k: usize, proactive: usize, e: f64, group: f64) -> f64 {
    if e > MOST_LOSS {
        return f64::INFINITY;
    }
    let repairs = series(|x| {
        let sent = proactive + x as usize;
        any(at_least(k + sent, sent + 1, e), group)
    });
    ((k + proactive) as f64 + if e > 0.0 { repairs } else { 0.0 }) / k as f64
}
