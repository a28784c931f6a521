use libm::{expm1, log1p, pow};
use serde::Serialize;

use super::numeric::MOST_LOSS;

/// Waiting time of packets for those before them, beyond the least delay, in packet times.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Resequencing {
    /// Mean.
    pub mean: f64,
    /// Standard deviation.
    pub deviation: f64,
    /// 95th percentile.
    pub p95: f64,
}

/// The delay of in-order delivery to all of `group` receivers, if a packet is lost with probability `e` (with FEC:
/// after decoding) and each repair takes `window` packet times (specs/packet-level-fec.md 2.5).
///
/// Assumes independent losses, also within a block; the simulation shows how far that holds.
pub fn reseq(e: f64, window: u16, group: f64) -> Resequencing {
    if e <= 0.0 {
        return Resequencing {
            mean: 0.0,
            deviation: 0.0,
            p95: 0.0,
        };
    }
    if e > MOST_LOSS {
        let never = f64::INFINITY;
        return Resequencing {
            mean: never,
            deviation: never,
            p95: never,
        };
    }
    let window = window.max(1);
    let w = f64::from(window);
    let ln_arrived = |tries: f64| group * log1p(-pow(e, tries));
    let (mut mean, mut square, mut p95) = (0.0, 0.0, None);
    // While the delay is in the `round`-th window, packets sent that many windows ago dominate.
    for round in 0_u32.. {
        let tries = f64::from(round) + 1.0;
        let here = ln_arrived(tries);
        let mut later = 0.0;
        for more in 1_u32.. {
            let next = w * ln_arrived(tries + f64::from(more));
            later += next;
            if next > -1e-18 || next > later * 1e-16 {
                break;
            }
        }
        let mut most = 0.0_f64;
        for within in 0..window {
            let d = f64::from(round) * w + f64::from(within);
            let late = -expm1((w - f64::from(within)) * here + later);
            mean += late;
            square += (2.0 * d + 1.0) * late;
            if late <= 0.05 && p95.is_none() {
                p95 = Some(d);
            }
            most = most.max(late);
        }
        if most < 1e-13 {
            break;
        }
    }
    let deviation = (square - mean * mean).max(0.0).sqrt();
    Resequencing {
        mean,
        deviation,
        p95: p95.unwrap_or(0.0),
    }
}
