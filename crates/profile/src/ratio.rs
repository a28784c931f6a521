//! Exact factors.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A positive factor as a fraction: what is written `1/2` or `0.5`; `2:1` is a compression, and means 1/2.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Ratio {
    numerator: u64,
    denominator: u64,
}

impl Ratio {
    /// No change.
    pub const ONE: Ratio = Ratio {
        numerator: 1,
        denominator: 1,
    };

    /// `numerator / denominator`; `None` if one of them is 0.
    pub fn new(numerator: u64, denominator: u64) -> Option<Ratio> {
        (numerator > 0 && denominator > 0).then_some(Ratio {
            numerator,
            denominator,
        })
    }

    /// `value` times the factor, rounded up; `None` beyond 2^64.
    pub fn times(self, value: u64) -> Option<u64> {
        let product = u128::from(value) * u128::from(self.numerator);
        u64::try_from(product.div_ceil(u128::from(self.denominator))).ok()
    }

    /// The largest value that times the factor is at most `limit`; `None` beyond 2^64.
    pub fn within(self, limit: u64) -> Option<u64> {
        let product = u128::from(limit) * u128::from(self.denominator);
        u64::try_from(product / u128::from(self.numerator)).ok()
    }

    /// Whether it makes nothing smaller.
    pub fn is_one_or_more(self) -> bool {
        self.numerator >= self.denominator
    }
}

impl FromStr for Ratio {
    type Err = String;

    fn from_str(text: &str) -> Result<Ratio, String> {
        let whole = |text: &str| text.trim().parse::<u64>().ok();
        let read = if let Some((left, right)) = text.split_once('/') {
            whole(left).zip(whole(right))
        } else if let Some((left, right)) = text.split_once(':') {
            // A compression of n to m.
            whole(right).zip(whole(left))
        } else {
            let (left, right) = text.trim().split_once('.').unwrap_or((text, ""));
            let digits = right.len() as u32;
            let one = 10_u64.checked_pow(digits);
            let all = format!("{}{right}", left.trim());
            whole(&all).zip(one)
        };
        read.and_then(|(numerator, denominator)| Ratio::new(numerator, denominator))
            .ok_or_else(|| {
                format!("{text:?} is no positive factor: 1/2, 0.5, or 2:1 for a compression")
            })
    }
}

impl TryFrom<String> for Ratio {
    type Error = String;

    fn try_from(text: String) -> Result<Ratio, String> {
        text.parse()
    }
}

impl From<Ratio> for String {
    fn from(ratio: Ratio) -> String {
        ratio.to_string()
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.denominator {
            1 => write!(f, "{}", self.numerator),
            denominator => write!(f, "{}/{denominator}", self.numerator),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_decimals_and_compressions_are_factors() {
        let half = Ratio::new(1, 2).unwrap();
        assert_eq!("2:1".parse(), Ok(half));
        assert_eq!("1/2".parse(), Ok(half));
        let decimal: Ratio = "0.5".parse().unwrap();
        assert_eq!(decimal.times(160), Some(80));
        assert_eq!("1".parse(), Ok(Ratio::ONE));
        for text in [
            "",
            "0",
            "1/0",
            "0/1",
            "-1",
            "a",
            "1.2.3",
            "NaN",
            "inf",
            "0.00000000000000000000001",
        ] {
            assert!(text.parse::<Ratio>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn products_are_rounded_up_and_never_wrap() {
        assert_eq!(Ratio::new(1, 3).unwrap().times(10), Some(4));
        assert_eq!(Ratio::new(3, 1).unwrap().times(u64::MAX), None);
        assert_eq!(Ratio::new(1, 3).unwrap().within(u64::MAX), None);
        assert_eq!(Ratio::new(2, 1).unwrap().within(7), Some(3));
    }
}
