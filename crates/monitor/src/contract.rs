//! What was negotiated, and how far what is measured deviates from it (specs/user-to-user-qos.md 2.4).

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// What is compared.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Parameter {
    /// bit/s, with all headers.
    Throughput,
    /// Seconds, the mean of a window.
    Delay,
    /// Seconds, by RFC 3550.
    Jitter,
    /// Share of the bits.
    ErrorRate,
}

impl Parameter {
    /// All, in the order of their numbers in an event, which begin with 1.
    pub const ALL: [Parameter; 4] = [
        Parameter::Throughput,
        Parameter::Delay,
        Parameter::Jitter,
        Parameter::ErrorRate,
    ];

    pub(crate) fn of(number: u32) -> Option<Parameter> {
        Parameter::ALL
            .get((number as usize).checked_sub(1)?)
            .copied()
    }

    /// Its name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Parameter::Throughput => "throughput",
            Parameter::Delay => "delay",
            Parameter::Jitter => "jitter",
            Parameter::ErrorRate => "error_rate",
        }
    }
}

/// A negotiated value, and what it was negotiated from.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Term {
    /// The value that counts.
    pub agreed: f64,
    /// Of a rate: mean and peak.
    #[serde(default)]
    pub mean: Option<f64>,
    /// At least the mean.
    #[serde(default)]
    pub peak: Option<f64>,
    /// What is just accepted.
    #[serde(default)]
    pub worst: Option<f64>,
    /// What is wanted.
    #[serde(default)]
    pub target: Option<f64>,
}

impl Term {
    /// One with this value alone.
    pub const fn agreed(agreed: f64) -> Term {
        Term {
            agreed,
            mean: None,
            peak: None,
            worst: None,
            target: None,
        }
    }
}

/// The negotiated values of one direction of a connection.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Contract {
    /// In bit/s.
    pub throughput: Option<Term>,
    /// In seconds.
    pub delay: Option<Term>,
    /// In seconds.
    pub jitter: Option<Term>,
    /// Share of the bits, up to 1.
    pub error_rate: Option<Term>,
}

/// Why a contract is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum ContractError {
    /// NaN, infinite or negative.
    #[error("{0}.{1}: a finite number of at least 0")]
    Number(&'static str, &'static str),
    /// An error rate beyond 1.
    #[error("{0}.{1}: a share of at most 1")]
    Share(&'static str, &'static str),
    /// The peak is below the mean.
    #[error("{0}.peak: at least the mean")]
    Peak(&'static str),
    /// The worst accepted value is better than the target.
    #[error("{0}.worst: not better than the target")]
    Worst(&'static str),
}

impl Contract {
    /// The term of a parameter.
    pub fn term(&self, parameter: Parameter) -> Option<&Term> {
        match parameter {
            Parameter::Throughput => self.throughput.as_ref(),
            Parameter::Delay => self.delay.as_ref(),
            Parameter::Jitter => self.jitter.as_ref(),
            Parameter::ErrorRate => self.error_rate.as_ref(),
        }
    }

    pub(crate) fn set(&mut self, parameter: Parameter, term: Option<Term>) {
        let place = match parameter {
            Parameter::Throughput => &mut self.throughput,
            Parameter::Delay => &mut self.delay,
            Parameter::Jitter => &mut self.jitter,
            Parameter::ErrorRate => &mut self.error_rate,
        };
        *place = term;
    }

    /// Whether it has no term at all.
    pub fn is_empty(&self) -> bool {
        *self == Contract::default()
    }

    /// Whether all values are possible.
    ///
    /// # Errors
    /// One is not: the error names parameter and field.
    pub fn check(&self) -> Result<(), ContractError> {
        for parameter in Parameter::ALL {
            let Some(term) = self.term(parameter) else {
                continue;
            };
            let name = parameter.name();
            let fields = [
                ("agreed", Some(term.agreed)),
                ("mean", term.mean),
                ("peak", term.peak),
                ("worst", term.worst),
                ("target", term.target),
            ];
            for (field, value) in fields {
                let Some(value) = value else { continue };
                if !(value.is_finite() && value >= 0.0) {
                    return Err(ContractError::Number(name, field));
                }
                if parameter == Parameter::ErrorRate && value > 1.0 {
                    return Err(ContractError::Share(name, field));
                }
            }
            if let (Some(mean), Some(peak)) = (term.mean, term.peak)
                && peak < mean
            {
                return Err(ContractError::Peak(name));
            }
            if let (Some(worst), Some(target)) = (term.worst, term.target) {
                let better = match parameter {
                    Parameter::Throughput => worst > target,
                    _ => worst < target,
                };
                if better {
                    return Err(ContractError::Worst(name));
                }
            }
        }
        Ok(())
    }
}

/// Which deviations count.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Comparison {
    /// Those that harm: less throughput, more of all else.
    #[default]
    Adverse,
    /// Those to either side, as the paper says it.
    Literal,
}

/// A traffic light.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Zone {
    /// Nothing to compare.
    #[default]
    Grey,
    /// A deviation below 5 %.
    Green,
    /// 5 to 15 %.
    Yellow,
    /// Above 15 %.
    Red,
}

/// Limits of yellow.
const LIMITS: [f64; 2] = [0.05, 0.15];

impl Zone {
    /// The zone of a deviation.
    pub fn of(deviation: f64) -> Zone {
        // A limit is not missed by the last bits of a division.
        let deviation = (deviation * 1e9).round() / 1e9;
        match deviation {
            it if it < LIMITS[0] => Zone::Green,
            it if it <= LIMITS[1] => Zone::Yellow,
            _ => Zone::Red,
        }
    }
}

impl Comparison {
    /// How far `measured` deviates from `agreed`, as a share of it; infinite against 0.
    pub fn deviation(self, parameter: Parameter, agreed: f64, measured: f64) -> f64 {
        let harm = match parameter {
            Parameter::Throughput => agreed - measured,
            _ => measured - agreed,
        };
        let harm = match self {
            Comparison::Adverse => harm.max(0.0),
            Comparison::Literal => harm.abs(),
        };
        match (harm > 0.0, agreed > 0.0) {
            (false, _) => 0.0,
            (true, true) => harm / agreed,
            (true, false) => f64::INFINITY,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_yellow() {
        let zone = |share: f64| {
            let measured = 1_000_000.0 * share;
            Zone::of(Comparison::Adverse.deviation(Parameter::Throughput, 1e6, measured))
        };
        let shares = [1.2, 1.0, 0.96, 0.95, 0.90, 0.85, 0.84, 0.0];
        let (green, yellow, red) = (Zone::Green, Zone::Yellow, Zone::Red);
        assert_eq!(
            shares.map(zone),
            [green, green, green, yellow, yellow, yellow, red, red]
        );
        let delay =
            |ms: f64| Zone::of(Comparison::Adverse.deviation(Parameter::Delay, 0.1, ms / 1e3));
        assert_eq!(
            [50.0, 104.0, 105.0, 115.0, 116.0].map(delay),
            [green, green, yellow, yellow, red]
        );
    }

    #[test]
    fn literal_counts_both_sides_and_zero_permits_nothing() {
        let of = |mode: Comparison, agreed, measured| {
            mode.deviation(Parameter::Throughput, agreed, measured)
        };
        assert_eq!(of(Comparison::Literal, 100.0, 120.0), 0.2);
        assert_eq!(of(Comparison::Adverse, 100.0, 120.0), 0.0);
        let errors = |measured| Comparison::Adverse.deviation(Parameter::ErrorRate, 0.0, measured);
        assert_eq!(Zone::of(errors(0.0)), Zone::Green);
        assert_eq!(Zone::of(errors(1e-12)), Zone::Red);
    }

    #[test]
    fn impossible_contracts_are_refused_with_their_field() {
        let one = |term| {
            Contract {
                throughput: Some(term),
                ..Contract::default()
            }
            .check()
        };
        assert_eq!(one(Term::agreed(1.0)), Ok(()));
        for value in [f64::NAN, f64::INFINITY, -1.0] {
            assert_eq!(
                one(Term::agreed(value)),
                Err(ContractError::Number("throughput", "agreed"))
            );
        }
        let term = Term {
            mean: Some(2.0),
            peak: Some(1.0),
            ..Term::agreed(1.0)
        };
        assert_eq!(one(term), Err(ContractError::Peak("throughput")));
        let term = Term {
            worst: Some(2.0),
            target: Some(1.0),
            ..Term::agreed(1.0)
        };
        assert_eq!(one(term), Err(ContractError::Worst("throughput")));
        let delay = Contract {
            delay: Some(Term {
                worst: Some(1.0),
                target: Some(2.0),
                ..Term::agreed(1.0)
            }),
            ..Contract::default()
        };
        assert_eq!(delay.check(), Err(ContractError::Worst("delay")));
        let errors = Contract {
            error_rate: Some(Term::agreed(1.5)),
            ..Contract::default()
        };
        assert_eq!(
            errors.check(),
            Err(ContractError::Share("error_rate", "agreed"))
        );
        assert_eq!(
            ContractError::Number("delay", "worst").to_string(),
            "delay.worst: a finite number of at least 0"
        );
    }
}
