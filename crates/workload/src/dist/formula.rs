use std::fmt;

use layercast_core::Stream;

use crate::dist::Problem;

/// A distribution given by a formula (specs/insane-workloads.md 2.9).
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Formula {
    /// Exponential.
    Exp {
        /// Mean.
        mean: f64,
    },
    /// Pareto: `P(X > x) = (k / x)^alpha` from `k` up.
    Pareto {
        /// Tail index.
        alpha: f64,
        /// Smallest value.
        k: f64,
    },
    /// Whole numbers `1 + floor(L)` of a Lomax variable `L`, `P(L > x) = (1 + x / sigma)^-alpha`, drawn
    /// again while above `max`.
    Lomax {
        /// Tail index.
        alpha: f64,
        /// Scale.
        sigma: f64,
        /// Largest value.
        max: f64,
    },
    /// Whole numbers from 1, each further one with probability `1 - p`, drawn again while above `max`.
    Geometric {
        /// Probability of an end.
        p: f64,
        /// Largest value.
        max: f64,
    },
    /// Ranks from 1 to `n`, with probability proportional to one over the rank.
    Zipf {
        /// How many ranks.
        n: f64,
    },
    /// Uniform between two values.
    Uniform {
        /// Smallest value.
        low: f64,
        /// Largest value.
        high: f64,
    },
    /// Always the same.
    Const {
        /// What.
        value: f64,
    },
    /// `exp` of a normal variable.
    Lognormal {
        /// Mean of the logarithm.
        mu: f64,
        /// Standard deviation of the logarithm.
        sigma: f64,
    },
}

/// Longest list that is summed term by term.
const TERMS: f64 = 1e6;
/// So rare is what must not be left of a truncated distribution.
const RARE: f64 = 1e-3;
/// Largest value that may be drawn: sums of as many samples as there can be stay finite.
const LARGEST: f64 = 1e200;
/// The largest number that a random stream gives.
const LAST: f64 = 1.0 - f64::EPSILON / 2.0;

impl Formula {
    /// Parses `name(a,b)`.
    pub fn parse(text: &str) -> Result<Formula, Problem> {
        let inner = text.trim().strip_suffix(')').ok_or(Problem::Unknown)?;
        let (name, list) = inner.split_once('(').ok_or(Problem::Unknown)?;
        let numbers: Result<Vec<f64>, _> = list.split(',').map(|it| it.trim().parse()).collect();
        let numbers = numbers.map_err(|_| Problem::Parameter("a parameter is not a number"))?;
        if !numbers.iter().all(|number: &f64| number.is_finite()) {
            return Err(Problem::Parameter("parameters must be finite"));
        }
        let formula = match (name.trim(), &numbers[..]) {
            ("exp", &[mean]) => Formula::Exp { mean },
            ("pareto", &[alpha, k]) => Formula::Pareto { alpha, k },
            ("lomax", &[alpha, sigma, max]) => Formula::Lomax { alpha, sigma, max },
            ("geometric", &[p, max]) => Formula::Geometric { p, max },
            ("zipf", &[n]) => Formula::Zipf { n },
            ("uniform", &[low, high]) => Formula::Uniform { low, high },
            ("const", &[value]) => Formula::Const { value },
            ("lognormal", &[mu, sigma]) => Formula::Lognormal { mu, sigma },
            ("exp" | "zipf" | "const", _) => {
                return Err(Problem::Parameter("exp, zipf and const have one parameter"));
            }
            ("pareto" | "geometric" | "uniform" | "lognormal", _) => {
                let text = "pareto, geometric, uniform and lognormal have two parameters";
                return Err(Problem::Parameter(text));
            }
            ("lomax", _) => return Err(Problem::Parameter("lomax has three parameters")),
            _ => return Err(Problem::Unknown),
        };
        formula.check().map_err(Problem::Parameter)?;
        Ok(formula)
    }

    fn check(self) -> Result<(), &'static str> {
        let whole = |max: f64| (1.0..=TERMS).contains(&max) && max.fract() == 0.0;
        let fine = match self {
            Formula::Exp { mean } => mean > 0.0,
            Formula::Pareto { alpha, k } => alpha > 0.0 && k > 0.0,
            Formula::Lomax { alpha, sigma, max } => {
                if !whole(max) {
                    return Err("the largest value must be a whole number from 1 to 1000000");
                }
                alpha > 0.0 && sigma > 0.0
            }
            Formula::Geometric { p, max } => {
                if !whole(max) {
                    return Err("the largest value must be a whole number from 1 to 1000000");
                }
                p > 0.0 && p <= 1.0
            }
            Formula::Zipf { n } => {
                if !whole(n) || n > 1e4 {
                    return Err("zipf needs a whole number of ranks from 1 to 10000");
                }
                true
            }
            Formula::Uniform { low, high } => {
                if high < low {
                    return Err("uniform(a,b) needs a <= b");
                }
                low >= 0.0
            }
            Formula::Const { value } => value >= 0.0,
            Formula::Lognormal { mu, sigma } => {
                if !(-50.0..=30.0).contains(&mu) || sigma > 5.0 {
                    return Err("lognormal needs -50 <= mu <= 30 and sigma <= 5");
                }
                sigma >= 0.0
            }
        };
        if !fine {
            return Err("parameters must be above 0, a probability at most 1");
        }
        if self.is_redrawn() && self.untruncated(self.limit()) < RARE {
            return Err("nearly all values lie above the largest one allowed");
        }
        // The others end at a limit, or have parameters that are bounded already.
        let largest = match self {
            Formula::Exp { .. } | Formula::Pareto { .. } => self.quantile(LAST),
            Formula::Uniform { high, .. } => high,
            Formula::Const { value } => value,
            _ => 0.0,
        };
        // Not a number is as wrong as infinite.
        match largest <= LARGEST {
            true => Ok(()),
            false => Err(
                "values above 1e200 would be drawn: choose a smaller mean, k or bound, \
                          or a larger alpha",
            ),
        }
    }

    /// The only value, if there is no other.
    fn only(self) -> Option<f64> {
        match self {
            Formula::Const { value } => Some(value),
            Formula::Uniform { low, high } if low == high => Some(low),
            Formula::Lognormal { mu, sigma: 0.0 } => Some(libm::exp(mu)),
            _ => None,
        }
    }

    fn is_redrawn(self) -> bool {
        matches!(self, Formula::Lomax { .. } | Formula::Geometric { .. })
    }

    fn limit(self) -> f64 {
        match self {
            Formula::Lomax { max, .. } | Formula::Geometric { max, .. } => max,
            Formula::Zipf { n } => n,
            _ => f64::INFINITY,
        }
    }

    /// Whether all values are whole.
    pub fn is_whole(self) -> bool {
        match self {
            Formula::Lomax { .. } | Formula::Geometric { .. } | Formula::Zipf { .. } => true,
            Formula::Const { value } => value.fract() == 0.0,
            _ => false,
        }
    }

    /// The next value.
    pub fn sample(self, stream: &mut Stream) -> f64 {
        match self {
            Formula::Exp { mean } => stream.exponential(mean),
            Formula::Pareto { alpha, k } => k * libm::pow(1.0 - stream.unit(), -1.0 / alpha),
            Formula::Lomax { alpha, sigma, max } => loop {
                let u = 1.0 - stream.unit();
                let value = 1.0 + (sigma * (libm::pow(u, -1.0 / alpha) - 1.0)).floor();
                if value <= max {
                    return value;
                }
            },
            Formula::Geometric { p: 1.0, .. } => 1.0,
            Formula::Geometric { p, max } => loop {
                let u = 1.0 - stream.unit();
                let value = 1.0 + (libm::log(u) / libm::log1p(-p)).floor();
                if value <= max {
                    return value;
                }
            },
            Formula::Zipf { n } => {
                let mut left = stream.unit() * harmonic(n);
                let mut rank = 1.0;
                while rank < n {
                    left -= 1.0 / rank;
                    if left < 0.0 {
                        break;
                    }
                    rank += 1.0;
                }
                rank
            }
            Formula::Uniform { low, high } => low + (high - low) * stream.unit(),
            Formula::Const { value } => value,
            Formula::Lognormal { mu, sigma } => libm::exp(mu + sigma * stream.normal()),
        }
    }

    /// `P(X <= x)` without the limit of the redrawn ones.
    fn untruncated(self, x: f64) -> f64 {
        if let Some(only) = self.only() {
            return f64::from(x >= only);
        }
        match self {
            Formula::Exp { mean } => 1.0 - libm::exp(-x.max(0.0) / mean),
            Formula::Pareto { alpha, k } if x > k => 1.0 - libm::pow(k / x, alpha),
            Formula::Pareto { .. } => 0.0,
            Formula::Lomax { alpha, sigma, .. } => {
                1.0 - libm::pow(1.0 + x.floor().max(0.0) / sigma, -alpha)
            }
            Formula::Geometric { p, .. } => 1.0 - libm::pow(1.0 - p, x.floor().max(0.0)),
            Formula::Zipf { n } => harmonic(x.min(n).floor().max(0.0)) / harmonic(n),
            Formula::Uniform { low, high } => ((x - low) / (high - low)).clamp(0.0, 1.0),
            Formula::Const { value } => f64::from(x >= value),
            Formula::Lognormal { .. } if x <= 0.0 => 0.0,
            Formula::Lognormal { mu, sigma } => {
                0.5 * libm::erfc(-(libm::log(x) - mu) / (sigma * std::f64::consts::SQRT_2))
            }
        }
    }

    /// `P(X <= x)`.
    pub fn cdf(self, x: f64) -> f64 {
        match self.is_redrawn() {
            true if x >= self.limit() => 1.0,
            true => self.untruncated(x) / self.untruncated(self.limit()),
            false => self.untruncated(x),
        }
    }

    /// `P(X < x)`: less than [`Formula::cdf`] where a value has a probability of its own.
    pub fn cdf_below(self, x: f64) -> f64 {
        match self.only() {
            Some(only) => f64::from(x > only),
            None if self.is_whole() => self.cdf(x.ceil() - 1.0),
            None => self.cdf(x),
        }
    }

    /// The mean; infinite for a Pareto tail with `alpha` of 1 or less.
    pub fn mean(self) -> f64 {
        match self {
            Formula::Exp { mean } => mean,
            Formula::Pareto { alpha, .. } if alpha <= 1.0 => f64::INFINITY,
            Formula::Pareto { alpha, k } => alpha * k / (alpha - 1.0),
            Formula::Lomax { max, .. } | Formula::Geometric { max, .. } => {
                // The mean of a whole number is the sum of the probabilities of exceeding 0, 1, 2, ...
                (0..max as u64).map(|n| 1.0 - self.cdf(n as f64)).sum()
            }
            Formula::Zipf { n } => n / harmonic(n),
            Formula::Uniform { low, high } => (low + high) / 2.0,
            Formula::Const { value } => value,
            Formula::Lognormal { mu, sigma } => libm::exp(mu + sigma * sigma / 2.0),
        }
    }

    /// The smallest value below which a share `u` of all values lies.
    pub fn quantile(self, u: f64) -> f64 {
        match self {
            Formula::Exp { mean } => -mean * libm::log1p(-u),
            Formula::Pareto { alpha, k } => k * libm::pow(1.0 - u, -1.0 / alpha),
            Formula::Uniform { low, high } => low + (high - low) * u,
            Formula::Const { value } => value,
            Formula::Lognormal { .. } => self.bisect(u, f64::MAX.sqrt(), false),
            Formula::Lomax { max, .. } | Formula::Geometric { max, .. } => {
                self.bisect(u, max, true)
            }
            Formula::Zipf { n } => self.bisect(u, n, true),
        }
    }

    fn bisect(self, u: f64, most: f64, whole: bool) -> f64 {
        let (mut low, mut high) = (0.0, most);
        // 1100 halvings take any double to its neighbour.
        for _ in 0..1100 {
            let middle = match whole {
                true => ((low + high) / 2.0_f64).floor(),
                false => (low + high) / 2.0,
            };
            if middle <= low || middle >= high {
                break;
            }
            match self.cdf(middle) >= u {
                true => high = middle,
                false => low = middle,
            }
        }
        high
    }
}

/// The sum of one over the whole numbers up to `n`.
fn harmonic(n: f64) -> f64 {
    (1..=n as u64).map(|rank| 1.0 / rank as f64).sum()
}

impl fmt::Display for Formula {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Formula::Exp { mean } => write!(f, "exp({mean})"),
            Formula::Pareto { alpha, k } => write!(f, "pareto({alpha},{k})"),
            Formula::Lomax { alpha, sigma, max } => write!(f, "lomax({alpha},{sigma},{max})"),
            Formula::Geometric { p, max } => write!(f, "geometric({p},{max})"),
            Formula::Zipf { n } => write!(f, "zipf({n})"),
            Formula::Uniform { low, high } => write!(f, "uniform({low},{high})"),
            Formula::Const { value } => write!(f, "const({value})"),
            Formula::Lognormal { mu, sigma } => write!(f, "lognormal({mu},{sigma})"),
        }
    }
}
