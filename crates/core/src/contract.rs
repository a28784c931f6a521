//! What was negotiated of a connection, and the zones of what is measured beside it (specs/user-to-user-qos.md 2.4).

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::FlowSpec;
use crate::quantity::FASTEST;

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

    /// The parameter of a number in an event.
    pub fn of(number: u32) -> Option<Parameter> {
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

    /// The sum of two rates.
    pub fn plus(&self, other: &Term) -> Term {
        let sum = |a: Option<f64>, b: Option<f64>| match (a, b) {
            (None, None) => None,
            _ => Some(a.unwrap_or(0.0) + b.unwrap_or(0.0)),
        };
        Term {
            agreed: self.agreed + other.agreed,
            mean: sum(self.mean, other.mean),
            peak: sum(self.peak, other.peak),
            worst: sum(self.worst, other.worst),
            target: sum(self.target, other.target),
        }
    }
}

/// The negotiated values of one direction of a connection.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
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

/// How the answers of the members of a flow make a contract (specs/user-to-user-qos.md 2.4).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mediation {
    /// Each member has a contract of its own: layers beyond it are not sent to it.
    PerMember,
    /// All members have one: the least of what they take.
    SingleRate,
}

/// How a member answered an offer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answered {
    /// It takes what is offered.
    Accept,
    /// It named other values, within the offer.
    Counter,
}

impl Answered {
    /// Its name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Answered::Accept => "accept",
            Answered::Counter => "counter",
        }
    }
}

/// Greatest throughput: that of the fastest link that can be named.
const MOST_BPS: f64 = FASTEST.as_bps() as f64;
/// Greatest delay and jitter, in seconds.
const MOST_S: f64 = 86_400.0;

/// Why a contract is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum ContractError {
    /// NaN, infinite or negative.
    #[error("{0}.{1}: a finite number of at least 0")]
    Number(&'static str, &'static str),
    /// Beyond what a link can carry, or a flow can last.
    #[error("{0}.{1}: at most {2}")]
    Bound(&'static str, &'static str, &'static str),
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
    /// What the bounds of a flow specification promise.
    pub fn of(spec: &FlowSpec) -> Contract {
        let bound = |ms: u32| (ms > 0).then(|| Term::agreed(f64::from(ms) / 1e3));
        Contract {
            throughput: None,
            delay: bound(spec.delay_max_ms),
            jitter: bound(spec.jitter_max_ms),
            error_rate: Some(Term::agreed(f64::from(spec.loss_max_permille) / 1e3)),
        }
    }

    /// The same for somebody whose bounds are those of `to` in place of those of `from`.
    pub fn moved(mut self, from: &FlowSpec, to: &FlowSpec) -> Contract {
        let (before, after) = (Contract::of(from), Contract::of(to));
        for parameter in Parameter::ALL {
            if before.term(parameter) != after.term(parameter) {
                self.set(parameter, after.term(parameter).copied());
            }
        }
        self
    }

    /// The term of a parameter.
    pub fn term(&self, parameter: Parameter) -> Option<&Term> {
        match parameter {
            Parameter::Throughput => self.throughput.as_ref(),
            Parameter::Delay => self.delay.as_ref(),
            Parameter::Jitter => self.jitter.as_ref(),
            Parameter::ErrorRate => self.error_rate.as_ref(),
        }
    }

    /// Puts a term in place, or takes it away.
    pub fn set(&mut self, parameter: Parameter, term: Option<Term>) {
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
                let (most, error) = match parameter {
                    Parameter::Throughput => {
                        let most = "10 Tbit/s, which no link exceeds";
                        (MOST_BPS, ContractError::Bound(name, field, most))
                    }
                    Parameter::Delay | Parameter::Jitter => {
                        let most = "a day, which is longer than anything waits for a frame";
                        (MOST_S, ContractError::Bound(name, field, most))
                    }
                    Parameter::ErrorRate => (1.0, ContractError::Share(name, field)),
                };
                if value > most {
                    return Err(error);
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

/// A traffic light.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug, Serialize, Deserialize)]
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
    /// Its name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Zone::Grey => "grey",
            Zone::Green => "green",
            Zone::Yellow => "yellow",
            Zone::Red => "red",
        }
    }

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

/// A value beside the one that was agreed, in the unit of its [`Parameter`].
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Judged {
    /// The agreed value.
    pub agreed: f64,
    /// The measured value that makes the zone: one of the last three windows.
    pub measured: f64,
    /// The zone that follows.
    pub zone: Zone,
}

/// What a receiver gets of what was agreed.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct Quality {
    /// The worst zone; grey: nothing is known, or nothing came for some time.
    pub zone: Zone,
    /// In bit/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput_bps: Option<Judged>,
    /// Mean delay in the network, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_s: Option<Judged>,
    /// In seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter_s: Option<Judged>,
    /// Share of the bits that were lost, or came after their deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_rate: Option<Judged>,
}

impl Quality {
    /// The values in the order of [`Parameter::ALL`].
    pub fn judged(&self) -> impl Iterator<Item = (Parameter, Judged)> {
        let all = [
            self.throughput_bps,
            self.delay_s,
            self.jitter_s,
            self.error_rate,
        ];
        let all = Parameter::ALL.into_iter().zip(all);
        all.filter_map(|(parameter, judged)| Some((parameter, judged?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bounds_of_a_flow_are_a_contract_and_follow_its_changes() {
        let spec = FlowSpec {
            delay_max_ms: 250,
            loss_max_permille: 20,
            ..FlowSpec::default()
        };
        let contract = Contract::of(&spec);
        let agreed =
            |it: Contract| Parameter::ALL.map(|parameter| Some(it.term(parameter)?.agreed));
        assert_eq!(agreed(contract), [None, Some(0.25), None, Some(0.02)]);
        let told = Contract {
            error_rate: Some(Term::agreed(1e-11)),
            ..contract
        };
        let changed = FlowSpec {
            delay_max_ms: 0,
            jitter_max_ms: 30,
            ..spec.clone()
        };
        let moved = told.moved(&spec, &changed);
        assert_eq!(agreed(moved), [None, None, Some(0.03), Some(1e-11)]);
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
