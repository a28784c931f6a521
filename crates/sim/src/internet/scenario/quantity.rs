//! What a scenario writes as text: `"100 Mbit/s"`, `"200 packets"`, `"exp(1ms)"`.

use std::borrow::Cow;
use std::fmt;

use layercast_core::Span;
use layercast_core::quantity::{
    BYTES as BYTES_UNITS, ByteCount, Least, MOST_BYTES, PACKETS, QuantityError, TIME, UnitTable,
    alternatives, is_in, packets, pattern,
};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::internet::network::{Law, Limit, SizeLaw};
use crate::scenario::units::Quantity;
use crate::text::among;

/// A number of bytes: an integer, or text such as `"64 KiB"`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Bytes(pub u64);

const BYTES: &str = "a number of bytes such as 8192, or text such as \"64 KiB\" or \"100 MB\"";

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        // An integer of TOML has 63 bits.
        match i64::try_from(self.0) {
            Ok(number) => to.serialize_i64(number),
            Err(_) => to.serialize_str(&ByteCount(self.0).write()),
        }
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Bytes, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Bytes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(BYTES)
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Bytes, E> {
                let found = (number <= MOST_BYTES).then_some(Bytes(number));
                found.ok_or_else(|| E::invalid_value(de::Unexpected::Unsigned(number), &self))
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Bytes, E> {
                match u64::try_from(number) {
                    Ok(number) => self.visit_u64(number),
                    Err(_) => Err(E::invalid_value(de::Unexpected::Signed(number), &self)),
                }
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Bytes, E> {
                match ByteCount::parse(text) {
                    Ok(count) => Ok(Bytes(count.0)),
                    Err(error) => Err(E::custom(among(error, BYTES))),
                }
            }
        }
        from.deserialize_any(Visitor)
    }
}

impl JsonSchema for Bytes {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Bytes".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": ["integer", "string"],
            "minimum": 0,
            "maximum": MOST_BYTES,
            "pattern": ByteCount::pattern(),
            "title": BYTES,
        })
    }
}

/// A quantity that can be `"off"`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OrOff<T>(pub Option<T>);

impl Quantity for OrOff<Span> {
    const ACCEPTED: &'static str = "a time such as \"200ms\", or \"off\"";

    fn parse(text: &str) -> Result<OrOff<Span>, QuantityError> {
        match text {
            "off" => Ok(OrOff(None)),
            text => match Span::parse(text) {
                Ok(span) => Ok(OrOff(Some(span))),
                Err(error) => Err(QuantityError::new::<OrOff<Span>>(error.cause)),
            },
        }
    }

    fn write(&self) -> String {
        self.0.map_or("off".to_owned(), |span| span.write())
    }

    fn pattern() -> String {
        format!("^off$|{}", Span::pattern())
    }
}

/// A number of bytes, or `"off"`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BytesOrOff(pub Option<Bytes>);

const BYTES_OR_OFF: &str = "a number of bytes such as 65536, text such as \"64 KiB\", or \"off\"";

impl Serialize for BytesOrOff {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            None => to.serialize_str("off"),
            Some(bytes) => bytes.serialize(to),
        }
    }
}

impl<'de> Deserialize<'de> for BytesOrOff {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<BytesOrOff, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form {
            Number(i64),
            Text(String),
        }
        let wrong = |cause: String| de::Error::custom(format!("{cause}; expected {BYTES_OR_OFF}"));
        let count = match Form::deserialize(from) {
            Ok(Form::Text(text)) if text == "off" => return Ok(BytesOrOff(None)),
            Ok(Form::Text(text)) => {
                ByteCount::parse(&text)
                    .map_err(|error| de::Error::custom(among(error, BYTES_OR_OFF)))?
                    .0
            }
            Ok(Form::Number(number)) => match u64::try_from(number) {
                Ok(number) if number <= MOST_BYTES => number,
                _ => return Err(wrong(format!("it is {number}"))),
            },
            Err(_) => return Err(wrong("it is neither a number nor a text".to_owned())),
        };
        Ok(BytesOrOff(Some(Bytes(count))))
    }
}

impl JsonSchema for BytesOrOff {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "BytesOrOff".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": ["integer", "string"],
            "minimum": 0,
            "maximum": MOST_BYTES,
            "pattern": format!("^off$|{}", ByteCount::pattern()),
            "title": BYTES_OR_OFF,
        })
    }
}

/// Most packets or bytes that a queue holds.
pub const MOST_QUEUED: u64 = 1_000_000_000;

impl Quantity for Limit {
    const ACCEPTED: &'static str = "a queue such as \"200 packets\" or \"64 KiB\" (above 0, at most 10^9 packets or \
                                    bytes), or \"unlimited\"";

    fn parse(text: &str) -> Result<Limit, QuantityError> {
        let text = text.trim();
        if text == "unlimited" {
            return Ok(Limit::Unlimited);
        }
        let zero = || QuantityError::new::<Limit>(format!("{text:?} is zero"));
        let too_large = || QuantityError::new::<Limit>(format!("{text:?} is too large"));
        if !is_in(text, BYTES_UNITS) {
            return match packets::<Limit>(text, MOST_QUEUED as u32)? {
                0 => Err(zero()),
                packets => Ok(Limit::Packets(packets)),
            };
        }
        match ByteCount::parse(text) {
            Ok(ByteCount(0)) => Err(zero()),
            Ok(ByteCount(bytes)) if bytes <= MOST_QUEUED => Ok(Limit::Bytes(bytes)),
            Ok(_) => Err(too_large()),
            Err(error) => Err(QuantityError::new::<Limit>(error.cause)),
        }
    }

    fn write(&self) -> String {
        match self {
            Limit::Unlimited => "unlimited".to_owned(),
            Limit::Packets(packets) => format!("{packets} packets"),
            Limit::Bytes(bytes) => ByteCount(*bytes).write(),
        }
    }

    fn pattern() -> String {
        let most = u128::from(MOST_QUEUED);
        let forms = pattern(&[(PACKETS, most), (BYTES_UNITS, most)], Least::AboveZero);
        format!("^\\s*unlimited\\s*$|{forms}")
    }
}

/// The text between the brackets of `exp(...)`.
fn exponential(text: &str) -> Option<&str> {
    text.trim().strip_prefix("exp(")?.strip_suffix(')')
}

/// The pattern of texts of `forms`, plain and as the mean of `exp(...)`.
fn plain_or_exponential(forms: &[(UnitTable, u128)], least: Least) -> String {
    let forms = alternatives(forms, least);
    format!("^\\s*(?:{forms})\\s*$|^\\s*exp\\(\\s*(?:{forms})\\s*\\)\\s*$")
}

impl Quantity for Law {
    const ACCEPTED: &'static str =
        "a time such as \"1ms\", or \"exp(1ms)\": exponential with this mean";

    fn parse(text: &str) -> Result<Law, QuantityError> {
        let law = match exponential(text) {
            Some(mean) => Span::parse(mean).map(Law::Exponential),
            None => Span::parse(text).map(Law::Constant),
        };
        law.map_err(|error| QuantityError::new::<Law>(error.cause))
    }

    fn write(&self) -> String {
        match self {
            Law::Constant(span) => span.write(),
            Law::Exponential(mean) => format!("exp({})", mean.write()),
        }
    }

    fn pattern() -> String {
        let most = u128::from(Span::from_secs(86_400).as_ps());
        plain_or_exponential(&[(TIME, most)], Least::AboveZero)
    }
}

/// Largest IP packet, in bytes.
const LARGEST_PACKET: u64 = 65_535;
/// Most cells of a packet.
const MOST_CELLS: u32 = 1_365;

impl Quantity for SizeLaw {
    const ACCEPTED: &'static str = "a size from 29 B to 65535 B such as \"200 B\", or \"exp(200 B)\": exponential with this \
                                    mean, or \"cells(20, 200)\": a geometric number of full cells with this mean and maximum";

    fn parse(text: &str) -> Result<SizeLaw, QuantityError> {
        let wrong = |cause: String| QuantityError::new::<SizeLaw>(cause);
        if let Some(pair) = text.trim().strip_prefix("cells(") {
            let numbers = pair.strip_suffix(')').and_then(|it| it.split_once(','));
            let numbers = numbers.and_then(|(mean, most)| {
                let mean: f64 = plain_decimal(mean)?.parse().ok()?;
                Some((mean, most.trim().parse::<u32>().ok()?))
            });
            let no_cells = || wrong(format!("{text:?} is not \"cells(MEAN, MOST)\""));
            let (mean, most) = numbers.ok_or_else(no_cells)?;
            return Ok(SizeLaw::Cells { mean, most });
        }
        match exponential(text) {
            Some(mean) => {
                // A mean may have a fraction.
                let number = mean.trim().strip_suffix('B').and_then(plain_decimal);
                let number = number.and_then(|number| number.parse().ok());
                let no_mean = || wrong(format!("{text:?} has no mean in bytes"));
                number.map(SizeLaw::Exponential).ok_or_else(no_mean)
            }
            None => match ByteCount::parse(text) {
                Ok(ByteCount(size)) if size <= LARGEST_PACKET => Ok(SizeLaw::Constant(size as u32)),
                Ok(_) => Err(wrong(format!("{text:?} is too large"))),
                Err(error) => Err(wrong(error.cause)),
            },
        }
    }

    fn write(&self) -> String {
        match self {
            SizeLaw::Constant(size) => format!("{size} B"),
            SizeLaw::Exponential(mean) => format!("exp({mean} B)"),
            SizeLaw::Cells { mean, most } => format!("cells({mean}, {most})"),
        }
    }

    fn pattern() -> String {
        let size = alternatives(
            &[(BYTES_UNITS, u128::from(LARGEST_PACKET))],
            Least::AboveZero,
        );
        let cells = alternatives(&[(NO_UNIT, u128::from(MOST_CELLS))], Least::AboveZero);
        let mean = alternatives(&[(BYTE, u128::from(LARGEST_PACKET))], Least::AboveZero);
        format!(
            "^\\s*(?:{size})\\s*$|^\\s*exp\\(\\s*(?:{mean})\\s*\\)\\s*$|^\\s*cells\\(\\s*(?:{cells}),\\s*0*[1-9][0-9]{{0,3}}\\s*\\)\\s*$"
        )
    }
}

/// The unit of means.
const BYTE: UnitTable = UnitTable(&[("B", 1)]);
/// Numbers without a unit.
const NO_UNIT: UnitTable = UnitTable(&[("", 1)]);

/// A decimal number of digits, point and exponent, without sign, "inf" and "nan".
fn plain_decimal(text: &str) -> Option<&str> {
    let text = text.trim();
    let start = text.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    let fine = |c: char| c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E' | '+' | '-');
    (start && text.chars().all(fine)).then_some(text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read<T: Quantity>(text: &str) -> Option<T> {
        T::parse(text).ok()
    }

    #[test]
    fn the_examples_of_the_manual_are_read() {
        assert_eq!(read("200 packets"), Some(Limit::Packets(200)));
        assert_eq!(read("64 KiB"), Some(Limit::Bytes(65_536)));
        assert_eq!(read("unlimited"), Some(Limit::Unlimited));
        assert_eq!(read("exp(1ms)"), Some(Law::Exponential(Span::from_ms(1))));
        assert_eq!(read("1ms"), Some(Law::Constant(Span::from_ms(1))));
        assert_eq!(read("exp(587.5 B)"), Some(SizeLaw::Exponential(587.5)));
        assert_eq!(read("200 B"), Some(SizeLaw::Constant(200)));
        let (mean, most) = (20.0, 200);
        assert_eq!(read("cells(20, 200)"), Some(SizeLaw::Cells { mean, most }));
        assert_eq!(read("off"), Some(OrOff::<Span>(None)));
    }

    #[test]
    fn absurd_and_senseless_texts_are_refused() {
        for text in [
            "1000000000000 packets",
            "-1 packets",
            "2 GB",
            "5",
            "many",
            "packets",
            "0 packets",
            "0 B",
        ] {
            assert_eq!(read::<Limit>(text), None, "{text:?}");
        }
        for text in [
            "exp(NaN B)",
            "exp(inf B)",
            "exp()",
            "exp(1",
            "5",
            "5 GB",
            "1ms",
            "cells(20)",
            "cells(NaN, 200)",
            "cells(20, -1)",
            "cells(20, 200",
        ] {
            assert_eq!(read::<SizeLaw>(text), None, "{text:?}");
        }
        for text in ["exp(1)", "exp(-1ms)", "exp 1ms", "1"] {
            assert_eq!(read::<Law>(text), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(
            ps in 0..1_u64 << 60, size in 0..=65_535_u32, mean in 0.0..1e9_f64, queued in 1..=1_000_000_000_u32,
        ) {
            let span = Span::from_ps(ps);
            for law in [Law::Constant(span), Law::Exponential(span)] {
                prop_assert_eq!(Law::parse(&law.write()), Ok(law));
            }
            for law in [SizeLaw::Constant(size), SizeLaw::Exponential(mean), SizeLaw::Cells { mean, most: size }] {
                prop_assert_eq!(SizeLaw::parse(&law.write()), Ok(law));
            }
            for limit in [Limit::Unlimited, Limit::Packets(queued), Limit::Bytes(u64::from(queued))] {
                prop_assert_eq!(Limit::parse(&limit.write()), Ok(limit));
            }
            for off in [OrOff(None), OrOff(Some(span))] {
                prop_assert_eq!(OrOff::<Span>::parse(&off.write()), Ok(off));
            }
        }
    }
}
