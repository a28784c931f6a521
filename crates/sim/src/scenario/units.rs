//! Quantities as people write them: `"100 Mbit/s"`, `"0.5 us"`, `"256 cells"`, `"3500 cells/s"`.
//!
//! Decimal numbers are read exactly (no floating point), so writing a value back and reading it
//! again gives the same value.

use std::fmt;

use layercast_core::{CELL_BITS, CellRate, Rate, Span};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A type that is written as a number with a unit.
pub trait Quantity: Sized {
    /// What is accepted, for error messages.
    const ACCEPTED: &'static str;

    /// Reads `text`, or `None` if it is no such quantity or does not fit.
    fn parse(text: &str) -> Option<Self>;

    /// Writes the value so that [`Quantity::parse`] gives it back.
    fn write(&self) -> String;
}

/// How much a port queue holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QueueSize {
    /// So many cells, or 48-byte units of datagrams.
    Cells(u32),
    /// So many bytes.
    Bytes(u64),
    /// What the link carries in this time.
    Time(Span),
}

const TIME: &[(&str, u128)] = &[
    ("s", 1_000_000_000_000),
    ("ms", 1_000_000_000),
    ("us", 1_000_000),
    ("µs", 1_000_000),
    ("ns", 1_000),
    ("ps", 1),
    ("min", 60_000_000_000_000),
    ("h", 3_600_000_000_000_000),
];

const BITS: &[(&str, u128)] = &[
    ("Gbit/s", 1_000_000_000),
    ("Mbit/s", 1_000_000),
    ("kbit/s", 1_000),
    ("bit/s", 1),
    ("Gb/s", 1_000_000_000),
    ("Mb/s", 1_000_000),
    ("kb/s", 1_000),
    ("b/s", 1),
    ("cells/s", CELL_BITS as u128),
];

const BYTES: &[(&str, u128)] = &[
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("B", 1),
];

const CELLS: &[(&str, u128)] = &[("cells", 1), ("cell", 1)];
const CELL_RATES: &[(&str, u128)] = &[("cells/s", 1)];

/// Reads a decimal number followed by one of `units`; the result is in the smallest unit, rounded
/// down.
fn read(text: &str, units: &[(&str, u128)]) -> Option<u128> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = (&text[..end], text[end..].trim_start());
    let factor = units.iter().find(|(name, _)| *name == unit)?.1;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || whole.len() > 20 || fraction.len() > 12 {
        return None;
    }
    let digits: u128 = format!("0{whole}{fraction}").parse().ok()?;
    let scale = 10_u128.pow(fraction.len() as u32);
    Some(digits.checked_mul(factor)? / scale)
}

/// Writes `value` in the largest unit of `units` (sorted by size) that divides it.
fn write(value: u128, units: &[(&str, u128)]) -> String {
    let fits = |(_, factor): &&(&str, u128)| value.is_multiple_of(*factor) && value >= *factor;
    match units.iter().find(fits).or(units.last()) {
        Some((name, factor)) => format!("{} {name}", value / factor),
        None => value.to_string(),
    }
}

impl Quantity for Span {
    const ACCEPTED: &'static str = "a duration like \"1.5s\", \"250ms\", \"0.5 us\" or \"10 ns\"";

    fn parse(text: &str) -> Option<Span> {
        u64::try_from(read(text, TIME)?).ok().map(Span::from_ps)
    }

    fn write(&self) -> String {
        write(u128::from(self.as_ps()), &TIME[..6]).replace(' ', "")
    }
}

impl Quantity for Rate {
    const ACCEPTED: &'static str = "a rate like \"100 Mbit/s\", \"64 kb/s\" or \"3500 cells/s\"";

    fn parse(text: &str) -> Option<Rate> {
        u64::try_from(read(text, BITS)?).ok().map(Rate::from_bps)
    }

    fn write(&self) -> String {
        write(u128::from(self.as_bps()), &BITS[..4])
    }
}

impl Quantity for CellRate {
    const ACCEPTED: &'static str = "a cell rate like \"3500 cells/s\"";

    fn parse(text: &str) -> Option<CellRate> {
        u32::try_from(read(text, CELL_RATES)?).ok().map(CellRate)
    }

    fn write(&self) -> String {
        self.to_string()
    }
}

impl Quantity for QueueSize {
    const ACCEPTED: &'static str = "a queue size like \"256 cells\", \"64 KiB\" or \"500 ms\"";

    fn parse(text: &str) -> Option<QueueSize> {
        if let Some(cells) = read(text, CELLS) {
            u32::try_from(cells).ok().map(QueueSize::Cells)
        } else if let Some(bytes) = read(text, BYTES) {
            u64::try_from(bytes).ok().map(QueueSize::Bytes)
        } else {
            Span::parse(text).map(QueueSize::Time)
        }
    }

    fn write(&self) -> String {
        match self {
            QueueSize::Cells(cells) => format!("{cells} cells"),
            QueueSize::Bytes(bytes) => write(u128::from(*bytes), &[BYTES[0], BYTES[1], BYTES[4]]),
            QueueSize::Time(span) => span.write(),
        }
    }
}

/// For `#[serde(with = "text")]`: a [`Quantity`] as a string.
pub mod text {
    use super::*;

    /// Writes the quantity.
    pub fn serialize<T: Quantity, S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&value.write())
    }

    /// Reads the quantity; the error quotes the value and says what is accepted.
    pub fn deserialize<'de, T: Quantity, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
        struct Visitor<T>(std::marker::PhantomData<T>);
        impl<T: Quantity> de::Visitor<'_> for Visitor<T> {
            type Value = T;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(T::ACCEPTED)
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
                T::parse(text).ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
            }
        }
        from.deserialize_str(Visitor(std::marker::PhantomData))
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_examples_of_the_manual_are_read() {
        assert_eq!(Span::parse("250ms"), Some(Span::from_ms(250)));
        assert_eq!(Span::parse("0.5 us"), Some(Span::from_ns(500)));
        assert_eq!(Span::parse("1.5 min"), Some(Span::from_secs(90)));
        let mbps = |n: u64| Some(Rate::from_bps(n * 1_000_000));
        assert_eq!(Rate::parse("100 Mbit/s"), mbps(100));
        assert_eq!(Rate::parse("1.5 Mb/s"), Some(Rate::from_bps(1_500_000)));
        assert_eq!(Rate::parse("3500 cells/s"), Some(CellRate(3_500).rate()));
        assert_eq!(CellRate::parse("3500 cells/s"), Some(CellRate(3_500)));
        assert_eq!(QueueSize::parse("256 cells"), Some(QueueSize::Cells(256)));
        assert_eq!(QueueSize::parse("64 KiB"), Some(QueueSize::Bytes(65_536)));
        let half = QueueSize::Time(Span::from_ms(500));
        assert_eq!(QueueSize::parse("500 ms"), Some(half));
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "",
            "s",
            ".",
            ".s",
            "1",
            "-1 s",
            "1 lightyear",
            "1e3 s",
            "NaN s",
            "1..2 s",
            "99999999999999999999 h",
            "5 Mbit",
            "1 s s",
        ] {
            assert_eq!(Span::parse(text), None, "{text:?}");
            assert_eq!(Rate::parse(text), None, "{text:?}");
            assert_eq!(QueueSize::parse(text), None, "{text:?}");
        }
        assert_eq!(CellRate::parse("5000000000 cells/s"), None);
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(ps: u64, bps: u64, cells: u32) {
            prop_assert_eq!(Span::parse(&Span::from_ps(ps).write()), Some(Span::from_ps(ps)));
            prop_assert_eq!(Rate::parse(&Rate::from_bps(bps).write()), Some(Rate::from_bps(bps)));
            prop_assert_eq!(CellRate::parse(&CellRate(cells).write()), Some(CellRate(cells)));
            for queue in [QueueSize::Cells(cells), QueueSize::Bytes(bps), QueueSize::Time(Span::from_ps(ps))] {
                prop_assert_eq!(QueueSize::parse(&queue.write()), Some(queue));
            }
        }

        #[test]
        fn any_text_is_read_or_refused(text: String) {
            let _ = (Span::parse(&text), Rate::parse(&text), QueueSize::parse(&text));
        }
    }
}
