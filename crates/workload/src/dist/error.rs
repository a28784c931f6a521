use crate::dist::{Dimension, Unit};

/// What is wrong with a distribution, and where.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[error("{place}{}: {problem}", match .line { 0 => String::new(), line => format!(":{line}") })]
pub struct DistError {
    /// The file, or the formula.
    pub place: String,
    /// Line in the file, from 1; zero if it is about the whole.
    pub line: usize,
    /// What is wrong.
    pub problem: Problem,
}

/// What can be wrong with a distribution.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum Problem {
    /// The first line is not `# dist v1`.
    #[error("not a distribution: the first line must be \"# dist v1\"")]
    Magic,
    /// A line is neither `key = value` nor two numbers.
    #[error("expected {0}")]
    Syntax(&'static str),
    /// An unknown key.
    #[error("unknown key {0:?}; there are name, unit, kind, interp, source and mean")]
    Key(String),
    /// A key is there twice.
    #[error("{0:?} is given twice")]
    Twice(&'static str),
    /// A key is missing.
    #[error("{0:?} is missing")]
    Missing(&'static str),
    /// No such unit.
    #[error("unknown unit {0:?}; use ms, s, B, files, pages, articles or packets")]
    Unit(String),
    /// No such kind.
    #[error("unknown kind {0:?}; use cont or int")]
    Kind(String),
    /// No such interpolation.
    #[error("unknown interpolation {0:?}; use linear, step or loglinear")]
    Interp(String),
    /// A probability outside 0..=1, or not a number.
    #[error("the probability {0} is not between 0 and 1")]
    Probability(f64),
    /// Probabilities go down.
    #[error("the probability falls from {0} to {1}; knots must not decrease")]
    FallingProbability(f64, f64),
    /// Values go down.
    #[error("the value falls from {0} to {1}; knots must not decrease")]
    FallingValue(f64, f64),
    /// The last probability is not one.
    #[error("the last probability is {0}, it must be 1")]
    Last(f64),
    /// No knots.
    #[error("there is no knot")]
    Empty,
    /// A value that cannot be: negative, infinite, not a number, too large.
    #[error("the value {0} is impossible: it must be at least 0 and below 1e15")]
    Value(f64),
    /// A whole quantity with a fraction.
    #[error("the value {0} is not a whole number, though kind = \"int\"")]
    Fraction(f64),
    /// A count of nothing.
    #[error("a count of {0} must be at least 1, this starts with {1}")]
    Nothing(Unit, f64),
    /// Logarithmic interpolation from zero, or of whole numbers.
    #[error("loglinear interpolation needs kind = \"cont\" and values above 0")]
    Loglinear,
    /// The mean does not fit the knots.
    #[error("the mean is given as {given}, the knots have {found:.4}: more than 1 % off")]
    Mean {
        /// In the file.
        given: f64,
        /// Of the sampler.
        found: f64,
    },
    /// An unknown formula.
    #[error(
        "unknown distribution; write the name of one of `layercast workload list`, a file that ends in .dist, \
         or a formula with its unit: exp(mean), pareto(alpha,k), lomax(alpha,sigma,max), geometric(p,max), \
         zipf(n), uniform(a,b), const(c), lognormal(mu,sigma), as in \"exp(300) s\""
    )]
    Unknown,
    /// A formula without a unit.
    #[error(
        "the formula has no unit: write \"{0} s\" for seconds, or ms, B, files, pages, articles or packets"
    )]
    NoUnit(String),
    /// A formula with parameters that give no distribution.
    #[error("{0}")]
    Parameter(&'static str),
    /// It is of the wrong sort for its place.
    #[error("is in {found}, {wanted} is needed here")]
    Dimension {
        /// Its unit.
        found: Unit,
        /// What is needed.
        wanted: Dimension,
    },
    /// The file cannot be read.
    #[error("{0}")]
    Read(String),
}
