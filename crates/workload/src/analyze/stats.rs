use serde::Serialize;

/// What tables print of samples.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Summary {
    /// Number of samples.
    pub number: usize,
    /// Least sample.
    pub min: f64,
    /// Largest sample.
    pub max: f64,
    /// Mean.
    pub mean: f64,
    /// Median; of an even number, the mean of the middle two.
    pub median: f64,
}

impl Summary {
    /// Of these samples; sorts them. `None` if there are none.
    pub fn of(samples: &mut [f64]) -> Option<Summary> {
        samples.sort_unstable_by(f64::total_cmp);
        let number = samples.len();
        let (min, max) = (*samples.first()?, *samples.last()?);
        Some(Summary {
            number,
            min,
            max,
            mean: samples.iter().sum::<f64>() / number as f64,
            median: (samples[(number - 1) / 2] + samples[number / 2]) / 2.0,
        })
    }
}

/// A straight line through points, by least squares.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Line {
    /// Slope.
    pub slope: f64,
    /// Value at zero.
    pub intercept: f64,
    /// Coefficient of determination.
    pub r2: f64,
}

impl Line {
    /// Through these points; `None` unless two of them lie side by side.
    pub(crate) fn through(points: &[(f64, f64)]) -> Option<Line> {
        let n = points.len() as f64;
        let mean_x = points.iter().map(|point| point.0).sum::<f64>() / n;
        let mean_y = points.iter().map(|point| point.1).sum::<f64>() / n;
        let (mut xx, mut xy, mut yy) = (0.0, 0.0, 0.0);
        for (x, y) in points {
            let (x, y) = (x - mean_x, y - mean_y);
            xx += x * x;
            xy += x * y;
            yy += y * y;
        }
        if xx.is_nan() || xx <= 0.0 {
            return None;
        }
        let slope = xy / xx;
        Some(Line {
            slope,
            intercept: mean_y - slope * mean_x,
            r2: if yy > 0.0 { slope * xy / yy } else { 1.0 },
        })
    }
}

/// A Pareto tail, fitted to the logarithm of the complementary distribution (LLCD).
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Tail {
    /// Exponent: `P(X > x)` is proportional to `x` to the power of minus alpha.
    pub alpha: f64,
    /// Coefficient of determination of the fit.
    pub r2: f64,
    /// Least sample of the fit.
    pub from: f64,
    /// Largest sample of the fit.
    pub to: f64,
}

impl Tail {
    /// Abscissae of the fit. Over all samples instead of these the many small ones would decide, and the
    /// exponent of the thesis's data be 0.88 instead of 1.05 (specs/insane-workloads.md 5.2).
    const POINTS: u32 = 200;

    /// Of sorted samples above `from`; `None` if they make no line.
    pub(crate) fn of(sorted: &[f64], from: f64) -> Option<Tail> {
        let to = *sorted.last()?;
        if to <= from {
            return None;
        }
        let (low, high) = (libm::log10(from), libm::log10(to));
        // Beyond the last abscissa, the largest sample, there is nothing of which to take the logarithm.
        let points = (0..Tail::POINTS - 1).map(|i| {
            let x = low + (high - low) * f64::from(i) / f64::from(Tail::POINTS - 1);
            let beyond = sorted.len() - sorted.partition_point(|&sample| libm::log10(sample) <= x);
            (x, beyond as f64 / sorted.len() as f64)
        });
        let points: Vec<(f64, f64)> = points
            .filter(|point| point.1 > 0.0)
            .map(|(x, p)| (x, libm::log10(p)))
            .collect();
        let line = Line::through(&points)?;
        Some(Tail {
            alpha: -line.slope,
            r2: line.r2,
            from,
            to,
        })
    }
}
