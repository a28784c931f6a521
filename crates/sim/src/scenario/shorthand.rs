//! Fields that are either one word or a table: `rate = "100 Mbit/s"` or `rate = { fits = ... }`.

use std::fmt;
use std::marker::PhantomData;

use layercast_core::Rate;
use serde::de::value::MapAccessDeserializer;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::schema::{FitSpec, RateSpec, ShapingSpec};
use super::units::Quantity;
use crate::text::among;

/// A type that is written as one word or as a table.
pub trait WordOrTable: Sized {
    /// What the table form is read as.
    type Table: for<'de> Deserialize<'de>;
    /// What is accepted, for error messages.
    const ACCEPTED: &'static str;

    /// Reads the word.
    fn of_word(word: &str) -> Result<Self, String>;

    /// Takes the table.
    fn of_table(table: Self::Table) -> Result<Self, String>;

    /// The value as a word, or else as a table.
    fn write(&self) -> Written<impl Serialize>;
}

/// A value as it is written.
#[derive(Serialize)]
#[serde(untagged)]
pub enum Written<T> {
    /// One word.
    Word(String),
    /// A table.
    Table(T),
}

/// Reads one or the other; errors inside the table keep their place.
pub fn word_or_table<'de, T: WordOrTable, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
    struct Visitor<T>(PhantomData<T>);
    impl<'de, T: WordOrTable> de::Visitor<'de> for Visitor<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(T::ACCEPTED)
        }

        fn visit_str<E: de::Error>(self, word: &str) -> Result<T, E> {
            T::of_word(word).map_err(E::custom)
        }

        fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
            let table = T::Table::deserialize(MapAccessDeserializer::new(map))?;
            T::of_table(table).map_err(de::Error::custom)
        }
    }
    from.deserialize_any(Visitor(PhantomData))
}

/// Writes one or the other.
pub fn word_or_table_out<T: WordOrTable, S: Serializer>(
    value: &T,
    to: S,
) -> Result<S::Ok, S::Error> {
    value.write().serialize(to)
}

impl WordOrTable for RateSpec {
    type Table = FitSpec;
    const ACCEPTED: &'static str =
        "a rate like \"100 Mbit/s\" or a table { fits = \"flow\", level = 1, spare = 0.05 }";

    fn of_word(word: &str) -> Result<RateSpec, String> {
        Rate::parse(word)
            .map(RateSpec::Fixed)
            .map_err(|error| among(error, RateSpec::ACCEPTED))
    }

    fn of_table(table: FitSpec) -> Result<RateSpec, String> {
        Ok(RateSpec::Fits(table))
    }

    fn write(&self) -> Written<impl Serialize> {
        match self {
            RateSpec::Fixed(rate) => Written::Word(rate.write()),
            RateSpec::Fits(fit) => Written::Table(fit),
        }
    }
}

/// The table form of [`ShapingSpec`]; which fields are there says which kind it is.
#[derive(Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ShapingTable {
    #[serde(skip_serializing_if = "Option::is_none")]
    peak_factor: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    b: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p: Option<u32>,
}

impl WordOrTable for ShapingSpec {
    type Table = ShapingTable;
    const ACCEPTED: &'static str =
        "\"serial\", \"off\", a table { peak_factor = 2.4 } or a table { b = 4, p = 1 }";

    fn of_word(word: &str) -> Result<ShapingSpec, String> {
        match word {
            "serial" => Ok(ShapingSpec::Serial),
            "off" => Ok(ShapingSpec::Off),
            _ => Err(format!(
                "it is {word:?}; expected {}",
                ShapingSpec::ACCEPTED
            )),
        }
    }

    fn of_table(table: ShapingTable) -> Result<ShapingSpec, String> {
        match (table.peak_factor, table.b, table.p) {
            (Some(peak_factor), None, None) => Ok(ShapingSpec::PeakFactor(peak_factor)),
            (None, Some(b), Some(p)) => Ok(ShapingSpec::Bucket { b, p }),
            _ => Err(format!("expected {}", ShapingSpec::ACCEPTED)),
        }
    }

    fn write(&self) -> Written<impl Serialize> {
        match *self {
            ShapingSpec::Serial => Written::Word("serial".into()),
            ShapingSpec::Off => Written::Word("off".into()),
            ShapingSpec::PeakFactor(peak_factor) => Written::Table(ShapingTable {
                peak_factor: Some(peak_factor),
                ..ShapingTable::default()
            }),
            ShapingSpec::Bucket { b, p } => Written::Table(ShapingTable {
                b: Some(b),
                p: Some(p),
                ..ShapingTable::default()
            }),
        }
    }
}
