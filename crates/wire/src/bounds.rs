use layercast_core::{Contract, ContractError, Parameter, Term};
use serde::{Deserialize, Serialize};

/// What an answer or an agreement changes of an offered contract, by parameter: the worst value that is accepted and the one that
/// is wanted, in the unit of the [`Parameter`]. What is absent is as offered (specs/user-to-user-qos.md 2.4).
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Bounds {
    /// In bit/s: the least, and the most that is sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throughput: Option<[f64; 2]>,
    /// In seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<[f64; 2]>,
    /// In seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter: Option<[f64; 2]>,
    /// Share of the bits, up to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_rate: Option<[f64; 2]>,
}

impl Bounds {
    /// Whether everything is as offered.
    pub fn is_empty(&self) -> bool {
        *self == Bounds::default()
    }

    /// The values of a parameter.
    pub fn get(&self, parameter: Parameter) -> Option<[f64; 2]> {
        match parameter {
            Parameter::Throughput => self.throughput,
            Parameter::Delay => self.delay,
            Parameter::Jitter => self.jitter,
            Parameter::ErrorRate => self.error_rate,
        }
    }

    /// Puts the values of a parameter in place.
    pub fn set(&mut self, parameter: Parameter, values: Option<[f64; 2]>) {
        let place = match parameter {
            Parameter::Throughput => &mut self.throughput,
            Parameter::Delay => &mut self.delay,
            Parameter::Jitter => &mut self.jitter,
            Parameter::ErrorRate => &mut self.error_rate,
        };
        *place = values;
    }

    /// The contract that these values make of an offered one. The worst value counts, as in what is offered.
    pub fn over(&self, offered: &Contract) -> Contract {
        let mut contract = *offered;
        for parameter in Parameter::ALL {
            let Some([worst, target]) = self.get(parameter) else {
                continue;
            };
            let known = offered.term(parameter).copied();
            let term = Term {
                agreed: worst,
                worst: Some(worst),
                target: Some(target),
                ..known.unwrap_or(Term::agreed(worst))
            };
            contract.set(parameter, Some(term));
        }
        contract
    }

    /// Whether all values are possible.
    ///
    /// # Errors
    /// One is not: the error names parameter and field.
    pub fn check(&self) -> Result<(), ContractError> {
        self.over(&Contract::default()).check()
    }
}
