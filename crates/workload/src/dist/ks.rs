use serde::Serialize;

use crate::dist::Distribution;

/// How well samples agree with a distribution (Kolmogorov-Smirnov, one sample).
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Fit {
    /// Number of samples.
    pub samples: usize,
    /// Largest distance between the two cumulative distributions.
    pub distance: f64,
    /// Probability of this distance or more if the samples are of the distribution. Where the
    /// distribution has steps the true probability is larger: the test errs on the side of agreement.
    pub p_value: f64,
}

/// Compares samples with a distribution; sorts them. Without samples there is nothing to say.
pub fn fit(samples: &mut [f64], with: &Distribution) -> Option<Fit> {
    if samples.is_empty() || samples.iter().any(|sample| sample.is_nan()) {
        return None;
    }
    samples.sort_unstable_by(f64::total_cmp);
    let n = samples.len() as f64;
    let mut distance = 0.0_f64;
    let mut below = 0;
    // At each step of the samples both sides of it count; equal samples make one step.
    for step in samples.chunk_by(|a, b| a == b) {
        let x = step[0];
        let upto = below + step.len();
        distance = distance
            .max((with.cdf_below(x) - below as f64 / n).abs())
            .max((with.cdf(x) - upto as f64 / n).abs());
        below = upto;
    }
    Some(Fit {
        samples: samples.len(),
        distance,
        p_value: kolmogorov((n.sqrt() + 0.12 + 0.11 / n.sqrt()) * distance),
    })
}

/// `P(K > x)` of the Kolmogorov distribution; its argument above is Stephens' (1970) for finite samples.
fn kolmogorov(x: f64) -> f64 {
    // Below this the alternating series needs many terms, and the answer is one.
    if x < 0.2 {
        return 1.0;
    }
    let terms = (1..=100).map(|k| {
        let k = f64::from(k);
        let sign = if k % 2.0 == 1.0 { 2.0 } else { -2.0 };
        sign * libm::exp(-2.0 * k * k * x * x)
    });
    terms.sum::<f64>().clamp(0.0, 1.0)
}
