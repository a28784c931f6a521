//! A [`Quantity`] as text in serde.

use std::fmt;
use std::marker::PhantomData;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::Quantity;

/// For `#[serde(with = "text")]`: a [`Quantity`] as a string.
pub mod text {
    use super::*;

    /// Writes the quantity.
    pub fn serialize<T: Quantity, S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&value.write())
    }

    /// Reads the quantity; the error quotes the value and names the accepted forms.
    pub fn deserialize<'de, T: Quantity, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
        struct Visitor<T>(PhantomData<T>);
        impl<T: Quantity> de::Visitor<'_> for Visitor<T> {
            type Value = T;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(T::ACCEPTED)
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
                T::parse(text).map_err(E::custom)
            }
        }
        from.deserialize_str(Visitor(PhantomData))
    }
}

/// For `#[serde(with = "text_opt")]`: an optional [`Quantity`].
pub mod text_opt {
    use super::*;

    /// Writes the quantity, if any.
    pub fn serialize<T: Quantity, S: Serializer>(
        value: &Option<T>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        value.as_ref().map(Quantity::write).serialize(to)
    }

    /// Reads the quantity, if any.
    pub fn deserialize<'de, T: Quantity, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<T>, D::Error> {
        #[derive(Deserialize)]
        #[serde(bound = "T: Quantity")]
        struct Text<T: Quantity>(#[serde(with = "text")] T);
        Ok(Option::<Text<T>>::deserialize(from)?.map(|text| text.0))
    }
}
