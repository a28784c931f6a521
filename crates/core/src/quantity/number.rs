//! Exact decimal numbers with a unit.

use super::units::{UnitTable, suggest};

/// Digits behind the decimal point that count; the rest is below every resolution.
const FRACTION: usize = 18;
/// Digits before the decimal point.
const WHOLE: usize = 20;
/// Largest exponent, either way.
const EXPONENT: i32 = 30;

/// A decimal number: `digits * 10^exponent`.
struct Decimal {
    digits: u128,
    exponent: i32,
    /// Whether a digit other than 0 was cut off.
    more: bool,
}

/// Where the unit begins: after digits, point and exponent.
fn split(text: &str) -> (&str, &str) {
    let bytes = text.as_bytes();
    let digits = |from: usize| {
        let rest = bytes.get(from..).unwrap_or_default();
        from + rest.iter().take_while(|byte| byte.is_ascii_digit()).count()
    };
    let mut end = digits(0);
    if bytes.get(end) == Some(&b'.') {
        end = digits(end + 1);
    }
    // "5e-6 s" has an exponent; "5 e" has a unit that does not exist.
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent = digits(end + 1 + sign);
        if exponent > end + 1 + sign {
            end = exponent;
        }
    }
    text.split_at(end)
}

/// The unit of `text`, which may be none.
pub(super) fn unit_of(text: &str) -> &str {
    split(text.trim()).1.trim_start()
}

fn decimal(number: &str) -> Option<Decimal> {
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let exponent: i32 = exponent.parse().ok()?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let whole = whole.trim_start_matches('0');
    if exponent.abs() > EXPONENT || whole.len() > WHOLE {
        return None;
    }
    let (kept, cut) = fraction.split_at(fraction.len().min(FRACTION));
    Some(Decimal {
        digits: format!("0{whole}{kept}").parse().ok()?,
        exponent: exponent - kept.len() as i32,
        more: cut.bytes().any(|digit| digit != b'0'),
    })
}

impl Decimal {
    /// The number times `factor`, rounded to the nearest; a number above 0 is at least 1. `None` if it does not fit.
    fn times(&self, factor: u128) -> Option<u128> {
        let product = self.digits.checked_mul(factor)?;
        let value = match self.exponent {
            up @ 0.. => product.checked_mul(10_u128.checked_pow(up.unsigned_abs())?)?,
            down => match 10_u128.checked_pow(down.unsigned_abs()) {
                Some(scale) => (product / scale)
                    .checked_add(u128::from(product % scale >= scale.div_ceil(2)))?,
                None => 0,
            },
        };
        Some(value.max(u128::from(self.digits > 0 || self.more)))
    }
}

/// Reads a number with one of the units of `tables`, the first of which counts; at most `most` smallest units.
pub(super) fn read(text: &str, tables: &[UnitTable], most: u128) -> Result<u128, String> {
    let trimmed = text.trim();
    if trimmed.is_empty() {
        return Err("the text is empty".to_owned());
    }
    if trimmed.starts_with('-') {
        return Err(format!("{text:?} is negative"));
    }
    let (number, unit) = split(trimmed);
    let unit = unit.trim_start();
    if !number.bytes().any(|byte| byte.is_ascii_digit()) {
        return Err(format!("{text:?} does not start with a number"));
    }
    let first = tables.first().and_then(|table| table.factor(unit));
    let Some(factor) = first else {
        return Err(wrong_unit(text, number, unit, tables));
    };
    let value = decimal(number).and_then(|decimal| decimal.times(factor));
    value
        .filter(|&value| value <= most)
        .ok_or_else(|| format!("{text:?} is too large"))
}

fn wrong_unit(text: &str, number: &str, unit: &str, tables: &[UnitTable]) -> String {
    if unit.is_empty() {
        return format!("{text:?} has no unit");
    }
    if unit.starts_with(',') {
        return format!("{text:?} has a comma; write a decimal point");
    }
    let bits = tables.iter().any(|table| table.has("bit/s"));
    if let Some(prefix) = unit.strip_suffix("B/s").filter(|_| bits) {
        return format!(
            "{text:?} is in bytes, rates are in bits: 1 {prefix}B/s is \"8 {prefix}bit/s\""
        );
    }
    let names = suggest(unit, tables);
    let names: Vec<String> = names
        .iter()
        .map(|name| format!("\"{number} {name}\""))
        .collect();
    match names.is_empty() {
        true => format!("{text:?} has the unknown unit {unit:?}"),
        false => format!(
            "{text:?} has the unknown unit {unit:?}; did you mean {}?",
            names.join(" or ")
        ),
    }
}

/// Writes `value` in the largest unit of `units` (the largest first) that divides it.
pub(super) fn write(value: u128, units: &[(&str, u128)]) -> String {
    let fits = |(_, factor): &&(&str, u128)| value.is_multiple_of(*factor) && value >= *factor;
    match units.iter().find(fits).or(units.last()) {
        Some((name, factor)) => format!("{} {name}", value / factor),
        None => value.to_string(),
    }
}
