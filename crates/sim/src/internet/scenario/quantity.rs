//! What a scenario writes as text: `"100 Mbit/s"`, `"200 packets"`, `"exp(1ms)"`.

use std::borrow::Cow;
use std::fmt;

use layercast_core::Span;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::internet::network::{Law, Limit, SizeLaw};
use crate::scenario::units::{self, Quantity, QueueSize};

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
        json_schema!({ "type": "string", "title": T::ACCEPTED })
    }
}

/// A number of bytes: an integer, or text such as `"64 KiB"`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Bytes(pub u64);

const BYTES: &str = "a number of bytes like 8192, or text like \"64 KiB\" or \"100 MB\"";

/// The bytes that `text` says.
fn bytes(text: &str) -> Option<u64> {
    match QueueSize::parse(text) {
        Some(QueueSize::Bytes(bytes)) => Some(bytes),
        _ => None,
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        // An integer of TOML has 63 bits.
        match i64::try_from(self.0) {
            Ok(number) => to.serialize_i64(number),
            Err(_) => to.serialize_str(&QueueSize::Bytes(self.0).write()),
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
                Ok(Bytes(number))
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Bytes, E> {
                let found = u64::try_from(number).map(Bytes);
                found.map_err(|_| E::invalid_value(de::Unexpected::Signed(number), &self))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Bytes, E> {
                let found = bytes(text).map(Bytes);
                found.ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
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
        json_schema!({ "type": ["integer", "string"], "minimum": 0, "title": BYTES })
    }
}

/// A quantity that can be `"off"`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OrOff<T>(pub Option<T>);

impl Quantity for OrOff<Span> {
    const ACCEPTED: &'static str = "a duration like \"200ms\", or \"off\"";

    fn parse(text: &str) -> Option<OrOff<Span>> {
        match text {
            "off" => Some(OrOff(None)),
            text => Span::parse(text).map(|span| OrOff(Some(span))),
        }
    }

    fn write(&self) -> String {
        self.0.map_or("off".to_owned(), |span| span.write())
    }
}

impl Quantity for OrOff<u32> {
    const ACCEPTED: &'static str = "bytes below 4 GiB like \"64 KiB\", or \"off\"";

    fn parse(text: &str) -> Option<OrOff<u32>> {
        match text {
            "off" => Some(OrOff(None)),
            text => u32::try_from(bytes(text)?).ok().map(Some).map(OrOff),
        }
    }

    fn write(&self) -> String {
        let bytes = self.0.map(|bytes| QueueSize::Bytes(u64::from(bytes)));
        bytes.map_or("off".to_owned(), |bytes| bytes.write())
    }
}

/// Most packets or bytes that a queue may be told to hold.
pub const MOST_QUEUED: u64 = 1_000_000_000;

impl Quantity for Limit {
    const ACCEPTED: &'static str =
        "a queue like \"200 packets\" or \"64 KiB\" (at most 10^9 of either), or \"unlimited\"";

    fn parse(text: &str) -> Option<Limit> {
        let text = text.trim();
        if text == "unlimited" {
            return Some(Limit::Unlimited);
        }
        let packets = text.strip_suffix("packets").or(text.strip_suffix("packet"));
        match packets {
            Some(number) => {
                let number: u32 = number.trim_end().parse().ok()?;
                (u64::from(number) <= MOST_QUEUED).then_some(Limit::Packets(number))
            }
            None => bytes(text)
                .filter(|&bytes| bytes <= MOST_QUEUED)
                .map(Limit::Bytes),
        }
    }

    fn write(&self) -> String {
        match self {
            Limit::Unlimited => "unlimited".to_owned(),
            Limit::Packets(packets) => format!("{packets} packets"),
            Limit::Bytes(bytes) => QueueSize::Bytes(*bytes).write(),
        }
    }
}

/// What stands between the brackets of `exp(...)`.
fn exponential(text: &str) -> Option<&str> {
    text.trim().strip_prefix("exp(")?.strip_suffix(')')
}

impl Quantity for Law {
    const ACCEPTED: &'static str =
        "a time like \"1ms\", or \"exp(1ms)\": exponential with this mean";

    fn parse(text: &str) -> Option<Law> {
        match exponential(text) {
            Some(mean) => Span::parse(mean).map(Law::Exponential),
            None => Span::parse(text).map(Law::Constant),
        }
    }

    fn write(&self) -> String {
        match self {
            Law::Constant(span) => span.write(),
            Law::Exponential(mean) => format!("exp({})", mean.write()),
        }
    }
}

impl Quantity for SizeLaw {
    const ACCEPTED: &'static str = "a size like \"200 B\", or \"exp(200 B)\": exponential with this mean, or \"cells(20, 200)\": \
                                    what fills cells, a geometric number with this mean and maximum";

    fn parse(text: &str) -> Option<SizeLaw> {
        if let Some(pair) = text.trim().strip_prefix("cells(") {
            let (mean, most) = pair.strip_suffix(')')?.split_once(',')?;
            let (mean, most): (f64, u32) = (mean.trim().parse().ok()?, most.trim().parse().ok()?);
            return mean.is_finite().then_some(SizeLaw::Cells { mean, most });
        }
        match exponential(text) {
            Some(mean) => {
                let number = mean.trim().strip_suffix('B')?.trim_end();
                let mean: f64 = number.parse().ok()?;
                mean.is_finite().then_some(SizeLaw::Exponential(mean))
            }
            None => u32::try_from(bytes(text)?).ok().map(SizeLaw::Constant),
        }
    }

    fn write(&self) -> String {
        match self {
            SizeLaw::Constant(size) => format!("{size} B"),
            SizeLaw::Exponential(mean) => format!("exp({mean} B)"),
            SizeLaw::Cells { mean, most } => format!("cells({mean}, {most})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read<T: Quantity>(text: &str) -> Option<T> {
        T::parse(text)
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
        fn what_is_written_reads_back(ps: u64, size: u32, mean in 0.0..1e9_f64, queued in 0..=1_000_000_000_u32) {
            let span = Span::from_ps(ps);
            for law in [Law::Constant(span), Law::Exponential(span)] {
                prop_assert_eq!(Law::parse(&law.write()), Some(law));
            }
            for law in [SizeLaw::Constant(size), SizeLaw::Exponential(mean), SizeLaw::Cells { mean, most: size }] {
                prop_assert_eq!(SizeLaw::parse(&law.write()), Some(law));
            }
            for limit in [Limit::Unlimited, Limit::Packets(queued), Limit::Bytes(u64::from(queued))] {
                prop_assert_eq!(Limit::parse(&limit.write()), Some(limit));
            }
            for off in [OrOff(None), OrOff(Some(span))] {
                prop_assert_eq!(OrOff::<Span>::parse(&off.write()), Some(off));
            }
            for off in [OrOff(None), OrOff(Some(size))] {
                prop_assert_eq!(OrOff::<u32>::parse(&off.write()), Some(off));
            }
        }
    }
}
