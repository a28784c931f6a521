use serde::Serialize;

use crate::dist::{Problem, Unit};

/// How values between two knots are found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Interp {
    /// Uniform between the values of the knots.
    Linear,
    /// Only the values of the knots occur.
    Step,
    /// Uniform in the logarithm of the value.
    Loglinear,
}

/// Whether values are whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Any value.
    Cont,
    /// Whole numbers: the interpolated value is rounded up, so that `P(X <= x_i) = p_i` holds exactly
    /// (specs/insane-workloads.md 2.1).
    Int,
}

/// A point of a cumulative distribution: values up to `x` have probability `p`.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Knot {
    /// Probability, 0 to 1.
    pub p: f64,
    /// Value, in the unit of the distribution.
    pub x: f64,
}

/// A cumulative distribution given by knots (specs/insane-workloads.md 2.1).
#[derive(Clone, PartialEq, Debug)]
pub struct Empirical {
    kind: Kind,
    interp: Interp,
    knots: Vec<Knot>,
}

/// Values from here on lose whole numbers in a double, or overflow a time.
const TOO_LARGE: f64 = 1e15;

impl Empirical {
    /// A distribution of these knots, or the index of the knot that is wrong and what is.
    pub fn new(
        unit: Unit,
        kind: Kind,
        interp: Interp,
        knots: Vec<Knot>,
    ) -> Result<Empirical, (usize, Problem)> {
        let first = *knots.first().ok_or((0, Problem::Empty))?;
        let mut before = Knot { p: 0.0, x: first.x };
        for (index, &knot) in knots.iter().enumerate() {
            let wrong = |problem| Err((index, problem));
            if !(0.0..=1.0).contains(&knot.p) {
                return wrong(Problem::Probability(knot.p));
            }
            if !(0.0..TOO_LARGE).contains(&knot.x) {
                return wrong(Problem::Value(knot.x));
            }
            if knot.p < before.p {
                return wrong(Problem::FallingProbability(before.p, knot.p));
            }
            if knot.x < before.x {
                return wrong(Problem::FallingValue(before.x, knot.x));
            }
            if kind == Kind::Int && knot.x.fract() != 0.0 {
                return wrong(Problem::Fraction(knot.x));
            }
            if interp == Interp::Loglinear && (kind == Kind::Int || knot.x == 0.0) {
                return wrong(Problem::Loglinear);
            }
            before = knot;
        }
        if before.p != 1.0 {
            return Err((knots.len() - 1, Problem::Last(before.p)));
        }
        if unit.dimension() == crate::dist::Dimension::Count && first.x < 1.0 {
            return Err((0, Problem::Nothing(unit, first.x)));
        }
        Ok(Empirical {
            kind,
            interp,
            knots,
        })
    }

    /// The knots, by rising probability.
    pub fn knots(&self) -> &[Knot] {
        &self.knots
    }

    /// Whether values are whole.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// How values between knots are found.
    pub fn interp(&self) -> Interp {
        self.interp
    }

    /// The value below which a share `u` of all values lies, 0 to 1.
    pub fn quantile(&self, u: f64) -> f64 {
        let index = self.knots.partition_point(|knot| knot.p < u);
        let Some(&high) = self.knots.get(index) else {
            return self.max();
        };
        let Some(&low) = index.checked_sub(1).and_then(|low| self.knots.get(low)) else {
            return high.x;
        };
        let share = (u - low.p) / (high.p - low.p);
        let value = match self.interp {
            Interp::Step => high.x,
            Interp::Linear => low.x + (high.x - low.x) * share,
            Interp::Loglinear => low.x * libm::pow(high.x / low.x, share),
        };
        match self.kind {
            Kind::Cont => value,
            Kind::Int => value.ceil(),
        }
    }

    /// `P(X <= x)`.
    pub fn cdf(&self, x: f64) -> f64 {
        let x = match self.kind {
            Kind::Cont => x,
            Kind::Int => x.floor(),
        };
        let index = self.knots.partition_point(|knot| knot.x <= x);
        self.between(index, x)
    }

    /// `P(X < x)`.
    pub fn cdf_below(&self, x: f64) -> f64 {
        if self.kind == Kind::Int {
            return self.cdf(x.ceil() - 1.0);
        }
        let index = self.knots.partition_point(|knot| knot.x < x);
        self.between(index, x)
    }

    /// The cumulative probability at `x`, which lies between knot `index - 1` and knot `index`.
    fn between(&self, index: usize, x: f64) -> f64 {
        let Some(&low) = index.checked_sub(1).and_then(|low| self.knots.get(low)) else {
            return 0.0;
        };
        let Some(&high) = self.knots.get(index) else {
            return 1.0;
        };
        let share = match self.interp {
            Interp::Step => 0.0,
            Interp::Linear => (x - low.x) / (high.x - low.x),
            Interp::Loglinear => libm::log(x / low.x) / libm::log(high.x / low.x),
        };
        low.p + (high.p - low.p) * share
    }

    /// The mean of what [`quantile`](Empirical::quantile) gives for uniform `u`.
    pub fn mean(&self) -> f64 {
        let atom = self.knots.first().map_or(0.0, |knot| knot.p * knot.x);
        let pieces = self.knots.windows(2).map(|pair| {
            let (a, b) = (pair[0], pair[1]);
            let middle = match self.interp {
                _ if a.x == b.x => b.x,
                Interp::Step => b.x,
                Interp::Loglinear => (b.x - a.x) / libm::log(b.x / a.x),
                Interp::Linear if self.kind == Kind::Int => (a.x + b.x + 1.0) / 2.0,
                Interp::Linear => (a.x + b.x) / 2.0,
            };
            (b.p - a.p) * middle
        });
        atom + pieces.sum::<f64>()
    }

    /// The largest value.
    pub fn max(&self) -> f64 {
        self.knots.last().map_or(0.0, |knot| knot.x)
    }
}
