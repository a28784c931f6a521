//! Rescaled range and variance-time analysis of a series, with the Hurst parameter (specs/available-bandwidth.md 2.10).
//!
//! The Hurst parameter of inter-arrival times is not that of the traffic on the path: their sums telescope. For the
//! traffic, analyse delays or counts of packets.

use serde::Serialize;

/// The smallest block of a fit.
const LEAST: usize = 10;
/// Blocks of a decade.
const PER_DECADE: f64 = 10.0;
/// Blocks that a variance is of, at least.
const BLOCKS: usize = 20;
/// Points of a line, at least.
const POINTS: usize = 3;
/// Start points of each block size of a pox diagram.
const STARTS: usize = 10;

/// A line through points of a diagram with two logarithmic axes.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Analysis {
    /// Block size and value.
    pub points: Vec<(u64, f64)>,
    /// Slope of the line; null if there is none.
    pub slope: Option<f64>,
    /// Coefficient of determination.
    pub r2: Option<f64>,
    /// The Hurst parameter that follows.
    pub hurst: Option<f64>,
    /// Why there is no line.
    pub reason: Option<&'static str>,
}

impl Analysis {
    fn new(points: Vec<(u64, f64)>, hurst: fn(f64) -> f64) -> Analysis {
        let none = |points, reason| Analysis {
            points,
            slope: None,
            r2: None,
            hurst: None,
            reason: Some(reason),
        };
        if points.is_empty() {
            return none(points, "the series is too short, or constant");
        }
        let log: Vec<(f64, f64)> = points
            .iter()
            .map(|&(d, value)| (libm::log10(d as f64), libm::log10(value)))
            .collect();
        let n = log.len() as f64;
        let (x, y) = (
            log.iter().map(|it| it.0).sum::<f64>() / n,
            log.iter().map(|it| it.1).sum::<f64>() / n,
        );
        let sum =
            |of: &dyn Fn(f64, f64) -> f64| log.iter().map(|it| of(it.0 - x, it.1 - y)).sum::<f64>();
        let (xx, xy, yy) = (sum(&|a, _| a * a), sum(&|a, b| a * b), sum(&|_, b| b * b));
        let sizes = points.windows(2).filter(|it| it[0].0 != it[1].0).count() + 1;
        if sizes < POINTS || xx <= 0.0 {
            return none(points, "fewer than three block sizes");
        }
        let slope = xy / xx;
        Analysis {
            points,
            slope: Some(slope),
            r2: Some(if yy > 0.0 { xy * xy / (xx * yy) } else { 1.0 }),
            hurst: Some(hurst(slope)),
            reason: None,
        }
    }
}

/// Block sizes from `LEAST` to `most`, equally far apart on a logarithmic axis.
fn sizes(most: usize) -> Vec<usize> {
    let mut sizes = Vec::new();
    let mut exponent = 0.0;
    loop {
        let size = (LEAST as f64 * libm::pow(10.0, exponent / PER_DECADE)).round() as usize;
        if size > most {
            return sizes;
        }
        if sizes.last() != Some(&size) {
            sizes.push(size);
        }
        exponent += 1.0;
    }
}

/// R/S of a block; `None`: its values are equal.
fn rescaled_range(block: &[f64]) -> Option<f64> {
    let d = block.len() as f64;
    let mean = block.iter().sum::<f64>() / d;
    let (mut sum, mut most, mut least, mut squares) = (0.0, f64::NEG_INFINITY, f64::INFINITY, 0.0);
    for value in block {
        let off = value - mean;
        sum += off;
        most = f64::max(most, sum);
        least = f64::min(least, sum);
        squares += off * off;
    }
    let ratio = (most - least) / (squares / d).sqrt();
    (squares > 0.0 && ratio.is_finite() && ratio > 0.0).then_some(ratio)
}

/// Rescaled range of blocks that begin with the series, as the paper has it; H is the slope.
pub fn rs_prefix(series: &[f64]) -> Analysis {
    let points = sizes(series.len() / 5).into_iter();
    let points = points.filter_map(|d| Some((d as u64, rescaled_range(&series[..d])?)));
    Analysis::new(points.collect(), |slope| slope)
}

/// Rescaled range of blocks with several start points (Leland et al. 1994); H is the slope.
pub fn rs_pox(series: &[f64]) -> Analysis {
    let mut points = Vec::new();
    for d in sizes(series.len() / 5) {
        for start in 0..STARTS {
            let start = series.len() / STARTS * start;
            let block = series.get(start..start + d);
            points.extend(
                block
                    .and_then(rescaled_range)
                    .map(|value| (d as u64, value)),
            );
        }
    }
    Analysis::new(points, |slope| slope)
}

/// Variance of the means of blocks; H is 1 + slope / 2.
pub fn variance_time(series: &[f64]) -> Analysis {
    let points = sizes(series.len() / BLOCKS).into_iter().filter_map(|m| {
        let means: Vec<f64> = series
            .chunks_exact(m)
            .map(|block| block.iter().sum::<f64>() / m as f64)
            .collect();
        let n = means.len() as f64;
        let mean = means.iter().sum::<f64>() / n;
        let variance = means
            .iter()
            .map(|it| (it - mean) * (it - mean))
            .sum::<f64>()
            / (n - 1.0);
        (variance > 0.0 && variance.is_finite()).then_some((m as u64, variance))
    });
    Analysis::new(points.collect(), |slope| 1.0 + slope / 2.0)
}

#[cfg(test)]
mod tests {
    use layercast_core::Stream;

    use super::*;

    const N: usize = 9_000;

    /// Fractional Gaussian noise by Hosking's recursion: exact.
    fn fgn(hurst: f64, seed: u64) -> Vec<f64> {
        let power = |k: f64| libm::pow(k.abs(), 2.0 * hurst);
        let rho: Vec<f64> = (0..N)
            .map(|k| k as f64)
            .map(|k| 0.5 * (power(k + 1.0) - 2.0 * power(k) + power(k - 1.0)))
            .collect();
        let mut random = Stream::new(seed, "fgn");
        let (mut phi, mut before): (Vec<f64>, Vec<f64>) = (Vec::new(), Vec::new());
        let (mut out, mut variance) = (vec![random.normal()], 1.0);
        for n in 1..N {
            std::mem::swap(&mut phi, &mut before);
            let part: f64 = before
                .iter()
                .enumerate()
                .map(|(j, it)| it * rho[n - 1 - j])
                .sum();
            let last = (rho[n] - part) / variance;
            phi.clear();
            phi.extend((0..n - 1).map(|j| before[j] - last * before[n - 2 - j]));
            phi.push(last);
            variance *= 1.0 - last * last;
            let mean: f64 = phi
                .iter()
                .enumerate()
                .map(|(j, it)| it * out[n - 1 - j])
                .sum();
            out.push(mean + variance.sqrt() * random.normal());
        }
        out
    }

    /// A6.
    #[test]
    fn noise_has_no_memory() {
        for seed in 1..=3 {
            let mut random = Stream::new(seed, "noise");
            let noise: Vec<f64> = (0..N).map(|_| random.normal()).collect();
            let slope = variance_time(&noise).slope.unwrap();
            assert!((slope + 1.0).abs() <= 0.1, "slope {slope}");
            for h in [rs_pox(&noise), rs_prefix(&noise)] {
                let h = h.hurst.unwrap();
                assert!((0.48..=0.62).contains(&h), "H {h}");
            }
        }
    }

    /// A6.
    #[test]
    fn fractional_noise_has_its_hurst_parameter() {
        let noise = fgn(0.7, 1);
        for found in [rs_pox(&noise), variance_time(&noise)] {
            let h = found.hurst.unwrap();
            assert!((h - 0.7).abs() <= 0.06, "H {h}");
        }
    }

    #[test]
    fn a_constant_series_has_no_hurst_parameter() {
        for series in [vec![5.0; N], Vec::new(), vec![1.0], vec![f64::NAN; 100]] {
            for found in [rs_prefix(&series), rs_pox(&series), variance_time(&series)] {
                assert_eq!((found.hurst, found.points.len()), (None, 0));
                assert!(found.reason.is_some());
            }
        }
    }

    #[test]
    fn rescaled_range_of_a_known_block() {
        // Sums of 1 2 3 4 less 2.5: -1.5 -2 -1.5 0; S = sqrt(1.25).
        let found = rescaled_range(&[1.0, 2.0, 3.0, 4.0]).unwrap();
        assert!((found - 2.0 / 1.25_f64.sqrt()).abs() < 1e-12);
    }
}
