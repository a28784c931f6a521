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

/// The newest of numbers that arrive without authentication, and those that are believed (the validation of sequence numbers of
/// RFC 3550, A.1).
///
/// A number far from the newest one is held until a second one follows it: one that is forged or damaged moves nothing, and after
/// some that were forged one behind another, those of the sender are believed again.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Newest {
    newest: Option<Serial>,
    /// A number far from the newest one.
    stray: Option<Serial>,
}

/// A number that a [`Newest`] has judged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Numbered {
    /// It is the newest one from now on.
    Next,
    /// It is the newest one again.
    Again,
    /// It is a little behind the newest one: it was overtaken.
    Behind,
    /// It is far from the newest one, and is not believed.
    Stray,
}

impl Newest {
    /// Judges a number. It may be `ahead` of the newest one, or overtaken by as much.
    pub fn judge(&mut self, number: Serial, ahead: u32) -> Numbered {
        let Some(newest) = self.newest else {
            return self.accept(number);
        };
        let reach = i32::try_from(ahead).unwrap_or(i32::MAX);
        let diff = number.diff(newest);
        match diff {
            0 => return Numbered::Again,
            1.. if diff <= reach => return self.accept(number),
            ..0 if diff.unsigned_abs() <= ahead => return Numbered::Behind,
            _ => {}
        }
        let follows = |stray| (1..=reach).contains(&number.diff(stray));
        if self.stray.is_some_and(follows) {
            return self.accept(number);
        }
        self.stray = Some(number);
        Numbered::Stray
    }

    fn accept(&mut self, number: Serial) -> Numbered {
        (self.newest, self.stray) = (Some(number), None);
        Numbered::Next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_far_ahead_is_believed_when_a_second_one_follows_it() {
        let mut numbers = Newest::default();
        let mut judge = |number| numbers.judge(Serial(number), 16);
        assert_eq!(judge(7), Numbered::Next);
        assert_eq!(judge(23), Numbered::Next);
        // One that is repeated is no second one.
        assert!((0..20).all(|_| judge(1 << 30) == Numbered::Stray));
        assert_eq!(
            (judge(24), judge(24), judge(20)),
            (Numbered::Next, Numbered::Again, Numbered::Behind)
        );
        // The one before no longer counts.
        assert_eq!(
            (judge(1 << 30 | 1), judge(1 << 29)),
            (Numbered::Stray, Numbered::Stray)
        );
        assert_eq!(judge(1 << 29 | 2), Numbered::Next);
        // The sender, as far behind, is believed again with its second one.
        assert_eq!(
            (judge(25), judge(26), judge(27)),
            (Numbered::Stray, Numbered::Next, Numbered::Next)
        );
    }

    #[test]
    fn numbers_wrap_and_half_the_circle_is_far() {
        let mut numbers = Newest::default();
        let mut judge = |number, ahead| numbers.judge(Serial(number), ahead);
        assert_eq!(judge(u32::MAX, 2), Numbered::Next);
        assert_eq!(judge(1, 2), Numbered::Next);
        assert_eq!(judge(1 ^ 1 << 31, u32::MAX), Numbered::Behind);
        assert_eq!(judge(1 ^ 1 << 31, 5), Numbered::Stray);
    }

    #[test]
    fn comparison_wraps() {
        let last = Serial(u32::MAX);
        assert!(last.plus(1).is_after(last));
        assert_eq!(Serial(2).diff(last), 3);
        assert!(last < Serial(5));
    }
}
