//! Regular expressions for quantities: the syntax of numbers and units, and the range of the number.

use super::units::UnitTable;

/// The lower bound of a quantity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Least {
    /// Zero is allowed.
    Zero,
    /// Zero is not allowed.
    AboveZero,
}

/// Exponents as the parser takes them, without the sign.
const EXPONENT: &str = "0*(?:[12]?[0-9]|30)";

/// The pattern of numbers with a unit; each table has its largest value in smallest units.
///
/// Units of equal bound share one branch. A number with a negative exponent is held against the bound without
/// its exponent; one with a positive exponent is not bounded.
pub fn pattern(forms: &[(UnitTable, u128)], least: Least) -> String {
    format!("^\\s*(?:{})\\s*$", alternatives(forms, least))
}

/// The same without anchors and outer spaces.
pub fn alternatives(forms: &[(UnitTable, u128)], least: Least) -> String {
    let mut branches: Vec<(u128, bool, Vec<&str>)> = Vec::new();
    for (table, most) in forms {
        for (name, factor) in table.0 {
            let (bound, exact) = (most / factor, most % factor == 0);
            match branches
                .iter_mut()
                .find(|it| (it.0, it.1) == (bound, exact))
            {
                Some((.., names)) => names.push(name),
                None => branches.push((bound, exact, vec![name])),
            }
        }
    }
    let branch = |(bound, exact, names): &(u128, bool, Vec<&str>)| {
        let number = number(*bound, *exact, least);
        format!("{number}\\s*(?:{})", names.join("|"))
    };
    let branches: Vec<String> = branches.iter().map(branch).collect();
    branches.join("|")
}

/// Decimal numbers up to `bound`; `exact`: the bound itself has no fraction.
fn number(bound: u128, exact: bool, least: Least) -> String {
    const FRACTION_ABOVE_ZERO: &str = "0*\\.[0-9]*[1-9][0-9]*";
    let mut bounded = vec![FRACTION_ABOVE_ZERO.to_owned()];
    if bound > 0 {
        let fraction = if exact { "0" } else { "[0-9]" };
        bounded.push(format!("0*{bound}(?:\\.{fraction}*)?"));
    }
    if bound > 1 {
        bounded.push(format!("0*(?:{})(?:\\.[0-9]*)?", below(bound)));
    }
    let mut forms = vec![
        format!("(?:{})(?:[eE]-{EXPONENT})?", bounded.join("|")),
        format!("(?:0*[1-9][0-9]*(?:\\.[0-9]*)?|{FRACTION_ABOVE_ZERO})[eE]\\+?{EXPONENT}"),
    ];
    if least == Least::Zero {
        forms.push(format!("(?:0+\\.?|0*\\.0+)(?:[eE][+-]?{EXPONENT})?"));
    }
    format!("(?:{})", forms.join("|"))
}

/// Whole numbers from 1 to `bound` - 1 without leading zeros; `bound` is above 1.
fn below(bound: u128) -> String {
    debug_assert!(bound > 1);
    let digits = bound.to_string();
    let mut forms = Vec::new();
    match digits.len() {
        1 => {}
        2 => forms.push("[1-9]".to_owned()),
        length => forms.push(format!("[1-9][0-9]{{0,{}}}", length - 2)),
    }
    for (place, digit) in digits.bytes().enumerate() {
        let first = if place == 0 { b'1' } else { b'0' };
        if digit <= first {
            continue;
        }
        let range = match digit - 1 {
            last if last == first => char::from(first).to_string(),
            last => format!("[{}-{}]", char::from(first), char::from(last)),
        };
        let rest = match digits.len() - place - 1 {
            0 => String::new(),
            1 => "[0-9]".to_owned(),
            count => format!("[0-9]{{{count}}}"),
        };
        forms.push(format!("{}{range}{rest}", &digits[..place]));
    }
    forms.join("|")
}
