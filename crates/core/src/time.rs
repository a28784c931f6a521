use std::fmt;
use std::ops::{Add, AddAssign, Sub, SubAssign};

use serde::{Deserialize, Serialize};

/// An instant: picoseconds since the start of the run (213 days fit into 64 bits).
///
/// The simulator starts at [`Time::ZERO`]; the socket runtime maps `CLOCK_MONOTONIC` onto it.
/// The operators of `Time` and [`Span`] stop at the least and at the largest value: none of them panics or wraps, whatever
/// a peer or a file says.
///
/// ```
/// use layercast_core::{Span, Time};
///
/// let sent = Time::ZERO + Span::from_ms(40);
/// let arrived = sent + Span::from_us(1_500);
/// assert_eq!(arrived.since(sent), Span::from_us(1_500));
/// // A difference never becomes negative, and a sum never wraps.
/// assert_eq!(sent.since(arrived), Span::ZERO);
/// assert_eq!(sent - Span::from_secs(1), Time::ZERO);
/// assert_eq!(sent + Span::MAX, Time::MAX);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Time(u64);

/// A length of time in picoseconds.
///
/// ```
/// use layercast_core::Span;
///
/// let frame = Span::from_secs(1).mul_div(1, 24);
/// assert_eq!(frame.as_us(), 41_666);
/// // Rounded down to a picosecond.
/// assert!(frame.times(24) < Span::from_secs(1));
/// assert_eq!(frame - Span::from_secs(1), Span::ZERO);
/// assert_eq!(frame + Span::MAX, Span::MAX);
/// assert_eq!(frame.times(u64::MAX), Span::MAX);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Span(u64);

impl Time {
    /// The start of the run.
    pub const ZERO: Time = Time(0);
    /// Later than anything that happens.
    pub const MAX: Time = Time(u64::MAX);

    /// The instant `ps` picoseconds after the start.
    pub const fn from_ps(ps: u64) -> Time {
        Time(ps)
    }

    /// Picoseconds since the start.
    pub const fn as_ps(self) -> u64 {
        self.0
    }

    /// Whole microseconds since the start.
    pub const fn as_us(self) -> u64 {
        self.0 / 1_000_000
    }

    /// Seconds since the start, for printing and plotting only.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e12
    }

    /// The first instant from this one on that is a whole number of steps after time zero; this one if a step is zero or
    /// the instant too late to be represented.
    #[must_use]
    pub const fn next_multiple_of(self, step: Span) -> Time {
        let ps = self.as_ps();
        match step.as_ps() {
            0 => self,
            step => match ps.checked_next_multiple_of(step) {
                Some(ps) => Time::from_ps(ps),
                None => self,
            },
        }
    }

    /// The time from `earlier` to `self`, or zero if `earlier` is later.
    pub const fn since(self, earlier: Time) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }

    /// `self + span`, stopping at [`Time::MAX`].
    pub const fn saturating_add(self, span: Span) -> Time {
        Time(self.0.saturating_add(span.0))
    }

    /// `self - span`, stopping at [`Time::ZERO`].
    pub const fn saturating_sub(self, span: Span) -> Time {
        Time(self.0.saturating_sub(span.0))
    }
}

impl Span {
    /// No time at all.
    pub const ZERO: Span = Span(0);
    /// The longest span.
    pub const MAX: Span = Span(u64::MAX);

    /// `ps` picoseconds.
    pub const fn from_ps(ps: u64) -> Span {
        Span(ps)
    }

    /// `ns` nanoseconds.
    pub const fn from_ns(ns: u64) -> Span {
        Span(ns.saturating_mul(1_000))
    }

    /// `us` microseconds.
    pub const fn from_us(us: u64) -> Span {
        Span(us.saturating_mul(1_000_000))
    }

    /// `ms` milliseconds.
    pub const fn from_ms(ms: u64) -> Span {
        Span(ms.saturating_mul(1_000_000_000))
    }

    /// `s` seconds.
    pub const fn from_secs(s: u64) -> Span {
        Span(s.saturating_mul(1_000_000_000_000))
    }

    /// `s` seconds, rounded to a picosecond; negative values and NaN give zero.
    pub fn from_secs_f64(s: f64) -> Span {
        Span((s * 1e12).round() as u64)
    }

    /// Picoseconds.
    pub const fn as_ps(self) -> u64 {
        self.0
    }

    /// Whole nanoseconds.
    pub const fn as_ns(self) -> u64 {
        self.0 / 1_000
    }

    /// Whole microseconds.
    pub const fn as_us(self) -> u64 {
        self.0 / 1_000_000
    }

    /// Whole milliseconds.
    pub const fn as_ms(self) -> u64 {
        self.0 / 1_000_000_000
    }

    /// Seconds, for printing and plotting only.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e12
    }

    /// Milliseconds, for printing and plotting only.
    pub fn as_ms_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// `self * n`, stopping at [`Span::MAX`].
    pub const fn times(self, n: u64) -> Span {
        Span(self.0.saturating_mul(n))
    }

    /// `self * num / den` without overflow in between; `den` must not be zero.
    pub const fn mul_div(self, num: u64, den: u64) -> Span {
        // Nearly always it fits, and dividing 128 bits costs ten times as much.
        if let Some(product) = self.0.checked_mul(num) {
            return Span(product / den);
        }
        let ps = self.0 as u128 * num as u128 / den as u128;
        Span(if ps > u64::MAX as u128 {
            u64::MAX
        } else {
            ps as u64
        })
    }

    /// `self - other`, or zero.
    pub const fn saturating_sub(self, other: Span) -> Span {
        Span(self.0.saturating_sub(other.0))
    }
}

/// The instant `span` later, at most [`Time::MAX`].
impl Add<Span> for Time {
    type Output = Time;
    fn add(self, span: Span) -> Time {
        self.saturating_add(span)
    }
}

impl AddAssign<Span> for Time {
    fn add_assign(&mut self, span: Span) {
        *self = *self + span;
    }
}

/// The instant `span` earlier, at least [`Time::ZERO`].
impl Sub<Span> for Time {
    type Output = Time;
    fn sub(self, span: Span) -> Time {
        self.saturating_sub(span)
    }
}

/// The sum, at most [`Span::MAX`].
impl Add for Span {
    type Output = Span;
    fn add(self, other: Span) -> Span {
        Span(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Span {
    fn add_assign(&mut self, other: Span) {
        *self = *self + other;
    }
}

/// The difference, at least [`Span::ZERO`].
impl Sub for Span {
    type Output = Span;
    fn sub(self, other: Span) -> Span {
        self.saturating_sub(other)
    }
}

impl SubAssign for Span {
    fn sub_assign(&mut self, other: Span) {
        *self = *self - other;
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.6}s", self.as_secs_f64())
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.6}ms", self.as_ms_f64())
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} s", self.as_secs_f64())
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} ms", self.as_ms_f64())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn spans_convert_between_units() {
        assert_eq!(Span::from_ms(3).as_us(), 3_000);
        assert_eq!(Span::from_secs_f64(0.001), Span::from_ms(1));
        assert_eq!(Span::from_secs_f64(-1.0), Span::ZERO);
        assert_eq!(Span::from_secs_f64(f64::NAN), Span::ZERO);
        assert_eq!(Span::from_secs(u64::MAX), Span::MAX);
    }

    #[test]
    fn since_never_goes_negative() {
        let early = Time::ZERO + Span::from_ms(1);
        assert_eq!(Time::ZERO.since(early), Span::ZERO);
        assert_eq!(early.since(Time::ZERO), Span::from_ms(1));
    }

    #[test]
    fn slots_begin_at_multiples_of_a_step() {
        let next = |ps, step| {
            Time::from_ps(ps)
                .next_multiple_of(Span::from_ps(step))
                .as_ps()
        };
        assert_eq!(
            [next(0, 7), next(1, 7), next(7, 7), next(8, 7)],
            [0, 7, 7, 14]
        );
        assert_eq!([next(5, 0), next(u64::MAX, 2)], [5, u64::MAX]);
    }

    #[test]
    fn mul_div_survives_the_product() {
        assert_eq!(
            Span::from_secs(100_000).mul_div(1_000, 24),
            Span::from_ps(4_166_666_666_666_666_666)
        );
    }

    /// Any number, often near an end.
    fn ps() -> impl Strategy<Value = u64> {
        prop_oneof![any::<u64>(), 0..3u64, (u64::MAX - 3)..=u64::MAX]
    }

    proptest! {
        #[test]
        fn operators_stop_at_the_ends(a in ps(), b in ps()) {
            let bounded = |exact: i128| u64::try_from(exact.clamp(0, u64::MAX.into())).unwrap_or(0);
            let (wide_a, wide_b) = (i128::from(a), i128::from(b));
            let (sum, difference) = (bounded(wide_a + wide_b), bounded(wide_a - wide_b));
            let (time, span, other) = (Time::from_ps(a), Span::from_ps(a), Span::from_ps(b));
            prop_assert_eq!((time + other, span + other), (Time(sum), Span(sum)));
            prop_assert_eq!((time - other, span - other), (Time(difference), Span(difference)));
            let (mut later, mut longer, mut shorter) = (time, span, span);
            later += other;
            longer += other;
            shorter -= other;
            prop_assert_eq!((later, longer, shorter), (Time(sum), Span(sum), Span(difference)));
            prop_assert_eq!(time.since(Time(b)), Span(difference));
            prop_assert_eq!(span.times(b).as_ps(), a.saturating_mul(b));
            let scaled = u128::from(a) * u128::from(b) / 7;
            prop_assert_eq!(u128::from(span.mul_div(b, 7).as_ps()), scaled.min(u64::MAX.into()));
        }
    }
}
