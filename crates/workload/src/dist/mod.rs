//! Distributions: knots in data files, formulas, and what is drawn from them.

mod empirical;
mod error;
mod file;
mod formula;
mod import;
mod ks;
mod library;
mod unit;

use std::path::Path;
use std::sync::Arc;

use layercast_core::{Span, Stream};

pub use empirical::{Empirical, Interp, Kind, Knot};
pub use error::{DistError, Problem};
pub use formula::Formula;
pub use import::{Columns, condense, import};
pub use ks::{Fit, fit};
pub use library::names;
pub use unit::{Dimension, Unit};

/// A distribution with its name, unit and source.
#[derive(Clone, PartialEq, Debug)]
pub struct Distribution {
    /// As in `telnet.interarrival`, or the formula.
    pub name: String,
    /// What its values are.
    pub unit: Unit,
    /// Where it comes from.
    pub source: String,
    /// How values are found.
    pub law: Law,
}

/// How the values of a distribution are found.
#[derive(Clone, PartialEq, Debug)]
pub enum Law {
    /// From knots.
    Knots(Arc<Empirical>),
    /// From a formula.
    Formula(Formula),
}

impl Distribution {
    /// The distribution of this name in the library, of the file with this path (it ends in `.dist`), or
    /// of this formula with its unit, as in `"exp(300) s"`. Files are read with `read`.
    pub fn find(
        text: &str,
        read: &dyn Fn(&str) -> Result<String, String>,
    ) -> Result<Distribution, DistError> {
        if let Some(found) = library::get(text) {
            return found;
        }
        if Path::new(text).extension().is_some_and(|it| it == "dist") {
            let content = read(text).map_err(|problem| DistError {
                place: text.to_owned(),
                line: 0,
                problem: Problem::Read(problem),
            })?;
            return Distribution::parse(text, &content);
        }
        let wrong = |problem| DistError {
            place: text.to_owned(),
            line: 0,
            problem,
        };
        let Some((formula, unit)) = text.rsplit_once(char::is_whitespace) else {
            return Err(wrong(match Formula::parse(text) {
                Ok(_) => Problem::NoUnit(text.to_owned()),
                Err(problem) => problem,
            }));
        };
        let formula = Formula::parse(formula).map_err(wrong)?;
        let unit: Unit = unit
            .parse()
            .map_err(|()| wrong(Problem::Unit(unit.to_owned())))?;
        if unit.dimension() == Dimension::Count && formula.quantile(0.0) < 1.0 {
            return Err(wrong(Problem::Nothing(unit, formula.quantile(0.0))));
        }
        Ok(Distribution {
            name: text.to_owned(),
            unit,
            source: "formula".to_owned(),
            law: Law::Formula(formula),
        })
    }

    /// An error if it is not of this dimension.
    pub fn of(self, wanted: Dimension) -> Result<Distribution, DistError> {
        if self.unit.dimension() == wanted {
            return Ok(self);
        }
        Err(DistError {
            place: self.name,
            line: 0,
            problem: Problem::Dimension {
                found: self.unit,
                wanted,
            },
        })
    }

    /// The next value, in the unit of the distribution.
    pub fn sample(&self, stream: &mut Stream) -> f64 {
        match &self.law {
            Law::Knots(knots) => knots.quantile(stream.unit()),
            Law::Formula(formula) => formula.sample(stream),
        }
    }

    /// The next value of a time.
    pub fn span(&self, stream: &mut Stream) -> Span {
        let value = self.sample(stream);
        Span::from_secs_f64(match self.unit {
            Unit::Millis => value / 1e3,
            _ => value,
        })
    }

    /// The next value of a count or a size; fractions are rounded up.
    pub fn whole(&self, stream: &mut Stream) -> u64 {
        self.sample(stream).ceil() as u64
    }

    /// The mean of the sampler, in the unit of the distribution.
    pub fn mean(&self) -> f64 {
        match &self.law {
            Law::Knots(knots) => knots.mean(),
            Law::Formula(formula) => formula.mean(),
        }
    }

    /// The value below which a share `u` of all values lies.
    pub fn quantile(&self, u: f64) -> f64 {
        match &self.law {
            Law::Knots(knots) => knots.quantile(u),
            Law::Formula(formula) => formula.quantile(u),
        }
    }

    /// `P(X <= x)`.
    pub fn cdf(&self, x: f64) -> f64 {
        match &self.law {
            Law::Knots(knots) => knots.cdf(x),
            Law::Formula(formula) => formula.cdf(x),
        }
    }

    /// `P(X < x)`.
    pub fn cdf_below(&self, x: f64) -> f64 {
        match &self.law {
            Law::Knots(knots) => knots.cdf_below(x),
            Law::Formula(formula) => formula.cdf_below(x),
        }
    }
}

#[cfg(test)]
mod tests;
