use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

/// A 32-bit number that wraps, compared by serial-number arithmetic (RFC 1982).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Serial(pub u32);

impl Serial {
    /// The number `n` later, wrapping.
    pub const fn plus(self, n: u32) -> Serial {
        Serial(self.0.wrapping_add(n))
    }

    /// How far `self` is ahead of `other`; negative if behind. Exactly half the circle is negative.
    pub const fn diff(self, other: Serial) -> i32 {
        self.0.wrapping_sub(other.0) as i32
    }

    /// Whether `self` comes after `other`.
    pub const fn is_after(self, other: Serial) -> bool {
        self.diff(other) > 0
    }
}

impl PartialOrd for Serial {
    fn partial_cmp(&self, other: &Serial) -> Option<Ordering> {
        Some(self.diff(*other).cmp(&0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparison_wraps() {
        let last = Serial(u32::MAX);
        assert!(last.plus(1).is_after(last));
        assert_eq!(Serial(2).diff(last), 3);
        assert!(last < Serial(5));
    }
}
