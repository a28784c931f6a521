//! Names of variables.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// Numbers of a name at most (RFC 2578 section 3.5).
const MOST: usize = 128;

/// The name of a variable: numbers, ordered one after the other.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Oid(Vec<u32>);

/// A text is no name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error(
    "an object identifier is 2 to {MOST} numbers below 2^32 with dots between, of which the first are 0 to 2 and 0 to 39"
)]
pub struct OidError;

impl Oid {
    /// The name of these numbers.
    ///
    /// # Errors
    /// They are too many or too few, or cannot begin a name.
    pub fn new(numbers: impl Into<Vec<u32>>) -> Result<Oid, OidError> {
        let numbers = numbers.into();
        match numbers[..] {
            [0..=2, 0..=39, ..] if numbers.len() <= MOST => Ok(Oid(numbers)),
            _ => Err(OidError),
        }
    }

    /// The name with more numbers behind it; what is beyond the most is left out.
    pub fn with(&self, more: impl IntoIterator<Item = u32>) -> Oid {
        let numbers = self.0.iter().copied().chain(more);
        Oid(numbers.take(MOST).collect())
    }

    /// Its numbers.
    pub fn numbers(&self) -> &[u32] {
        &self.0
    }

    /// Whether `other` is this one, or below it.
    pub fn is_above(&self, other: &Oid) -> bool {
        other.0.starts_with(&self.0)
    }
}

impl FromStr for Oid {
    type Err = OidError;

    fn from_str(text: &str) -> Result<Oid, OidError> {
        let text = text.strip_prefix('.').unwrap_or(text);
        let numbers = text.split('.').map(|it| it.parse().map_err(|_| OidError));
        Oid::new(numbers.collect::<Result<Vec<u32>, _>>()?)
    }
}

impl fmt::Display for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, number) in self.0.iter().enumerate() {
            let dot = if place > 0 { "." } else { "" };
            write!(f, "{dot}{number}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_ordered_by_numbers() {
        let oid = |text: &str| text.parse::<Oid>().unwrap();
        assert_eq!(oid(".1.3.6.1").to_string(), "1.3.6.1");
        assert!(oid("1.3.9") < oid("1.3.10"));
        assert!(oid("1.3") < oid("1.3.0"));
        assert!(oid("1.3").is_above(&oid("1.3.6")) && !oid("1.3").is_above(&oid("1.4")));
        for text in ["", "1", "3.1", "1.40", "1.3.x", "1.3.4294967296", "1..3"] {
            assert_eq!(text.parse::<Oid>(), Err(OidError), "{text}");
        }
        assert!(Oid::new(vec![1; MOST + 1]).is_err());
        assert_eq!(oid("1.3").with([1; 200]).numbers().len(), MOST);
    }
}
