//! Quantities that scenarios write as text.

use std::borrow::Cow;

use layercast_core::Span;
use layercast_core::quantity::{self as units, LONGEST, Least, Quantity, QuantityError};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The message of `error` where more is accepted than the quantity.
pub(crate) fn among(error: QuantityError, accepted: &'static str) -> String {
    QuantityError { accepted, ..error }.to_string()
}

/// A [`Quantity`], written as text with its unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Text<T>(pub T);

impl<T: Quantity> Serialize for Text<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        units::text::serialize(&self.0, to)
    }
}

impl<'de, T: Quantity> Deserialize<'de> for Text<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Text<T>, D::Error> {
        units::text::deserialize(from).map(Text)
    }
}

impl<T: Quantity> JsonSchema for Text<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Text".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "title": T::ACCEPTED, "pattern": T::pattern() })
    }
}

/// The pattern of times of at most `secs` seconds, for the JSON Schema.
pub(crate) fn up_to(secs: u64) -> String {
    Span::pattern_to(Least::Zero, Span::from_secs(secs))
}

/// The pattern of times above zero of at most `secs` seconds.
pub(crate) fn above_zero_to(secs: u64) -> String {
    Span::pattern_to(Least::AboveZero, Span::from_secs(secs))
}

/// The pattern of times above zero.
pub(crate) fn above_zero() -> String {
    Span::pattern_to(Least::AboveZero, LONGEST)
}
