//! Quantities as people write them: `"100 Mbit/s"`, `"0.5 us"`, `"256 cells"`, `"64 KiB"`.
//!
//! Command line, scenario files and JSON Schema share this parser. Decimal numbers are read without floating
//! point: a value that is written and read again is the same value.

mod number;
mod pattern;
mod serde_text;
mod units;

use std::fmt;

pub use pattern::{Least, alternatives, pattern};
pub use serde_text::{text, text_opt};
pub use units::{BITS, BYTES, CELL_RATES, CELLS, PACKETS, TIME, UnitTable};

use crate::{CellRate, Rate, Span};

/// A type that is written as a number with a unit.
pub trait Quantity: Sized {
    /// The accepted forms, for error messages.
    const ACCEPTED: &'static str;

    /// Reads `text`.
    fn parse(text: &str) -> Result<Self, QuantityError>;

    /// Writes the value so that [`Quantity::parse`] returns it.
    fn write(&self) -> String;

    /// A regular expression (ECMA 262, no look-around) for the accepted texts.
    ///
    /// It bounds the magnitude, except of numbers with a positive exponent.
    fn pattern() -> String;
}

/// Why a text is not the wanted quantity: the cause and the accepted forms.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{cause}{} expected {accepted}", if cause.ends_with('?') { "" } else { ";" })]
pub struct QuantityError {
    /// What is wrong with the text.
    pub cause: String,
    /// The accepted forms.
    pub accepted: &'static str,
}

impl QuantityError {
    /// The error of a [`Quantity`].
    pub fn new<T: Quantity>(cause: impl Into<String>) -> QuantityError {
        QuantityError {
            cause: cause.into(),
            accepted: T::ACCEPTED,
        }
    }
}

/// Longest time: 200 days, a round number below the range of [`Span`].
pub const LONGEST: Span = Span::from_secs(200 * 86_400);

/// Highest rate: 10 Tbit/s.
pub const FASTEST: Rate = Rate::from_bps(10_000_000_000_000);

/// Most bytes of a size: 1 PiB.
pub const MOST_BYTES: u64 = 1 << 50;

/// Capacity of a port queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QueueSize {
    /// Cells, or 48-byte units of datagrams.
    Cells(u32),
    /// Bytes.
    Bytes(u64),
    /// The bytes that the link carries in this time.
    Time(Span),
}

/// A number of bytes, written with a unit.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ByteCount(pub u64);

fn read<T: Quantity>(text: &str, units: &[UnitTable], most: u128) -> Result<u128, QuantityError> {
    number::read(text, units, most).map_err(QuantityError::new::<T>)
}

impl Quantity for Span {
    const ACCEPTED: &'static str =
        "a time such as \"1.5s\", \"250ms\", \"10us\", \"5 ns\", \"2 min\" or \"1 h\"";

    fn parse(text: &str) -> Result<Span, QuantityError> {
        let ps = read::<Span>(text, &[TIME], u128::from(LONGEST.as_ps()))?;
        Ok(Span::from_ps(ps as u64))
    }

    fn write(&self) -> String {
        if *self == Span::ZERO {
            // Zero has no largest unit.
            return "0s".to_owned();
        }
        number::write(u128::from(self.as_ps()), units::WRITTEN_TIME).replace(' ', "")
    }

    fn pattern() -> String {
        Span::pattern_to(Least::Zero, LONGEST)
    }
}

impl Span {
    /// The pattern of times up to `most`.
    pub fn pattern_to(least: Least, most: Span) -> String {
        pattern(&[(TIME, u128::from(most.as_ps()))], least)
    }
}

impl Quantity for Rate {
    const ACCEPTED: &'static str = "a rate above 0 such as \"100 Mbit/s\", \"64 kbit/s\" or \"3500 cells/s\", at most \
                                    \"10 Tbit/s\"";

    fn parse(text: &str) -> Result<Rate, QuantityError> {
        let zero = || {
            Err(QuantityError::new::<Rate>(format!(
                "{text:?} is zero, a link of rate zero carries nothing"
            )))
        };
        // Zero has no unit that could be missing.
        if text.trim().parse() == Ok(0.0) {
            return zero();
        }
        match read::<Rate>(text, &[BITS], u128::from(FASTEST.as_bps()))? {
            0 => zero(),
            bps => Ok(Rate::from_bps(bps as u64)),
        }
    }

    fn write(&self) -> String {
        number::write(u128::from(self.as_bps()), units::WRITTEN_BITS)
    }

    fn pattern() -> String {
        pattern(&[(BITS, u128::from(FASTEST.as_bps()))], Least::AboveZero)
    }
}

impl Quantity for CellRate {
    const ACCEPTED: &'static str = "a cell rate such as \"3500 cells/s\"";

    fn parse(text: &str) -> Result<CellRate, QuantityError> {
        let rate = read::<CellRate>(text, &[CELL_RATES], u128::from(u32::MAX))?;
        Ok(CellRate(rate as u32))
    }

    fn write(&self) -> String {
        self.to_string()
    }

    fn pattern() -> String {
        pattern(&[(CELL_RATES, u128::from(u32::MAX))], Least::Zero)
    }
}

impl Quantity for QueueSize {
    const ACCEPTED: &'static str =
        "a queue size such as \"256 cells\", \"64 KiB\", \"1500 B\" or \"500 ms\"";

    fn parse(text: &str) -> Result<QueueSize, QuantityError> {
        let unit = number::unit_of(text);
        if CELLS.has(unit) {
            let cells = read::<QueueSize>(text, &[CELLS], u128::from(u32::MAX))?;
            Ok(QueueSize::Cells(cells as u32))
        } else if TIME.has(unit) {
            let ps = read::<QueueSize>(text, &[TIME], u128::from(LONGEST.as_ps()))?;
            Ok(QueueSize::Time(Span::from_ps(ps as u64)))
        } else {
            // Every other unit is one of bytes or an error that names all of them.
            let bytes = read::<QueueSize>(text, &[BYTES, CELLS, TIME], u128::from(MOST_BYTES))?;
            Ok(QueueSize::Bytes(bytes as u64))
        }
    }

    fn write(&self) -> String {
        match self {
            QueueSize::Cells(cells) => format!("{cells} cells"),
            QueueSize::Bytes(bytes) => ByteCount(*bytes).write(),
            QueueSize::Time(span) => span.write(),
        }
    }

    fn pattern() -> String {
        let forms = [
            (CELLS, u128::from(u32::MAX)),
            (BYTES, u128::from(MOST_BYTES)),
            (TIME, u128::from(LONGEST.as_ps())),
        ];
        pattern(&forms, Least::Zero)
    }
}

impl Quantity for ByteCount {
    const ACCEPTED: &'static str = "a size such as \"1500 B\", \"64 kB\", \"64 KiB\" or \"100 MB\"";

    fn parse(text: &str) -> Result<ByteCount, QuantityError> {
        let bytes = read::<ByteCount>(text, &[BYTES], u128::from(MOST_BYTES))?;
        Ok(ByteCount(bytes as u64))
    }

    fn write(&self) -> String {
        number::write(u128::from(self.0), units::WRITTEN_BYTES)
    }

    fn pattern() -> String {
        ByteCount::pattern_to(MOST_BYTES)
    }
}

impl ByteCount {
    /// The pattern of sizes up to `most` bytes.
    pub fn pattern_to(most: u64) -> String {
        pattern(&[(BYTES, u128::from(most))], Least::Zero)
    }
}

/// A whole number of packets, such as `"200 packets"`, at most `most`.
pub fn packets<T: Quantity>(text: &str, most: u32) -> Result<u32, QuantityError> {
    let packets = read::<T>(text, &[PACKETS, BYTES], u128::from(most))?;
    Ok(packets as u32)
}

/// A time such as `"15s"`, or `"0"`: zero is the same in every unit.
pub fn time_or_zero(text: &str) -> Result<Span, QuantityError> {
    match text {
        "0" => Ok(Span::ZERO),
        text => Span::parse(text),
    }
}

/// Whether the unit of `text` is one of `units`.
pub fn is_in(text: &str, units: UnitTable) -> bool {
    units.has(number::unit_of(text))
}

/// Why a text is no probability.
pub const PROBABILITY: &str = "a probability from 0 to 1, such as 0.03 or 3%";

/// Reads a probability: `0.03` or `3%`.
pub fn probability(text: &str) -> Result<f64, String> {
    let (number, scale) = match text.trim().strip_suffix('%') {
        Some(percent) => (percent, 100.0),
        None => (text, 1.0),
    };
    let value: Option<f64> = number.trim().parse().ok();
    match value.map(|value| value / scale) {
        Some(p) if (0.0..=1.0).contains(&p) => Ok(p),
        Some(p) if p.is_finite() => {
            Err(format!("{text:?} is out of range; expected {PROBABILITY}"))
        }
        _ => Err(format!("{text:?} is not a number; expected {PROBABILITY}")),
    }
}

impl fmt::Display for QueueSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.write())
    }
}

#[cfg(test)]
mod tests;
