//! How base layers are admitted, and what links promise them.

use std::fmt;

use layercast_core::Span;
use layercast_link::LatePromise;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::error::ScenarioError;
use super::form;
use super::resolve::config_error;
use super::units::text;
use crate::text::Text;

/// How joins are tested.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Admission {
    /// Not at all: every base layer is granted.
    Off,
    /// Against what flows declare.
    #[default]
    Declared,
    /// On links against the measured rate of the base layers; elsewhere as declared.
    Measured,
}

const ACCEPTED: &str = "true, false, \"declared\" or \"measured\"";

impl Admission {
    /// Whether there is any test.
    pub fn is_on(self) -> bool {
        self != Admission::Off
    }
}

impl Serialize for Admission {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Admission::Off => to.serialize_bool(false),
            Admission::Declared => to.serialize_bool(true),
            Admission::Measured => to.serialize_str("measured"),
        }
    }
}

impl<'de> Deserialize<'de> for Admission {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Admission, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Admission;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(ACCEPTED)
            }

            fn visit_bool<E: de::Error>(self, on: bool) -> Result<Admission, E> {
                Ok(match on {
                    true => Admission::Declared,
                    false => Admission::Off,
                })
            }

            fn visit_str<E: de::Error>(self, word: &str) -> Result<Admission, E> {
                match word {
                    "declared" => Ok(Admission::Declared),
                    "measured" => Ok(Admission::Measured),
                    other => Err(E::invalid_value(de::Unexpected::Str(other), &self)),
                }
            }
        }
        from.deserialize_any(Visitor)
    }
}

/// The values of `admission`.
pub fn schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "oneOf": [
        { "const": true, "description": "as \"declared\"" },
        { "const": "declared", "description": "against what flows declare" },
        { "const": "measured", "description": "on links against the measured rate of the base layers, with the promise of `promise`; elsewhere as \"declared\"" },
        { "const": false, "description": "not at all" },
    ] })
}

/// What links promise their base layers where `admission` is `"measured"`.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PromiseSpec {
    /// Largest share of base-layer bits that are late or lost at a port, as a fraction.
    #[schemars(extend("exclusiveMinimum" = 0, "exclusiveMaximum" = 1))]
    pub late: f64,
    /// Time in the queue and on the line after which a bit is late, at least 10 us and shorter than the period.
    #[serde(with = "text")]
    #[schemars(with = "Text<Span>", extend("pattern" = form::time_to(form::DAY)))]
    pub within: Span,
    /// Time over which the promise holds, at least 10 s.
    #[serde(with = "text")]
    #[schemars(with = "Text<Span>", extend("pattern" = form::time_to(form::DAY)))]
    pub period: Span,
}

impl Default for PromiseSpec {
    fn default() -> PromiseSpec {
        let LatePromise {
            late_ppm,
            within,
            period,
        } = LatePromise::default();
        PromiseSpec {
            late: f64::from(late_ppm) / 1e6,
            within,
            period,
        }
    }
}

impl PromiseSpec {
    /// Whether it is what a scenario has that says nothing.
    pub fn is_default(&self) -> bool {
        *self == PromiseSpec::default()
    }

    /// The promise of each port.
    pub fn promise(&self, admission: Admission) -> Result<Option<LatePromise>, ScenarioError> {
        if !(self.late > 0.0 && self.late < 1.0) {
            let accepted = "a fraction above 0 and below 1, like 0.001 for 0.1 %";
            return Err(ScenarioError::value("promise.late", self.late, accepted));
        }
        let promise = LatePromise {
            // Parts in a million: less than one is one.
            late_ppm: ((self.late * 1e6).round() as u32).clamp(1, 999_999),
            within: self.within,
            period: self.period,
        };
        config_error("promise", promise.validate())?;
        Ok((admission == Admission::Measured).then_some(promise))
    }
}
