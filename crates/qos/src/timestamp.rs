use std::fmt;

use layercast_core::{Serial, Span, Time};
use serde::{Deserialize, Serialize};

/// A length of time that may be negative, in picoseconds: a delay measured between two clocks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SignedSpan(i64);

/// An instant of the sender's clock in picoseconds on the receiver's time line; it may lie before
/// the receiver's start.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SourceTime(i64);

/// Turns the wrapping 32-bit microsecond timestamps of the wire into instants that do not wrap
/// (specs/mets.md 2.6 and 7: they wrap every 71.6 min).
///
/// The first one is taken to be within 35.8 min of the local clock (serial arithmetic, RFC 1982),
/// which fixes the offset of the two clocks; every other is taken to be within 35.8 min of the local
/// clock and that offset. So reordering, long silences and forged timestamps do no lasting harm.
#[derive(Clone, Copy, Default, Debug)]
pub struct TimestampUnwrapper {
    /// Sender's clock at the first packet less ours, in microseconds.
    offset: Option<i64>,
}

impl SignedSpan {
    /// No time at all.
    pub const ZERO: SignedSpan = SignedSpan(0);

    /// `ps` picoseconds.
    pub const fn from_ps(ps: i64) -> SignedSpan {
        SignedSpan(ps)
    }

    /// Picoseconds.
    pub const fn as_ps(self) -> i64 {
        self.0
    }

    /// Milliseconds, for printing and plotting only.
    pub fn as_ms_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Whether it is below zero.
    pub const fn is_negative(self) -> bool {
        self.0 < 0
    }

    /// The length, or zero if negative.
    pub fn clamped(self) -> Span {
        Span::from_ps(u64::try_from(self.0).unwrap_or(0))
    }

    /// The length whatever the sign.
    pub const fn abs(self) -> Span {
        Span::from_ps(self.0.unsigned_abs())
    }
}

impl From<Span> for SignedSpan {
    fn from(span: Span) -> SignedSpan {
        SignedSpan(i64::try_from(span.as_ps()).unwrap_or(i64::MAX))
    }
}

impl SourceTime {
    /// `ps` picoseconds after the receiver's start.
    pub const fn from_ps(ps: i64) -> SourceTime {
        SourceTime(ps)
    }

    /// Picoseconds after the receiver's start.
    pub const fn as_ps(self) -> i64 {
        self.0
    }

    /// How long ago this was at `now`; negative if the sender's clock is ahead.
    pub fn age(self, now: Time) -> SignedSpan {
        SignedSpan(SourceTime::from(now).0.saturating_sub(self.0))
    }

    /// The time from `earlier` to `self`, or zero.
    pub fn since(self, earlier: SourceTime) -> Span {
        SignedSpan(self.0.saturating_sub(earlier.0)).clamped()
    }

    /// `self + span` on the receiver's clock, not before its start.
    pub fn plus(self, span: SignedSpan) -> Time {
        Time::from_ps(u64::try_from(self.0.saturating_add(span.0)).unwrap_or(0))
    }
}

impl From<Time> for SourceTime {
    fn from(time: Time) -> SourceTime {
        SourceTime(i64::try_from(time.as_ps()).unwrap_or(i64::MAX))
    }
}

impl TimestampUnwrapper {
    /// No timestamp seen yet.
    pub fn new() -> TimestampUnwrapper {
        TimestampUnwrapper::default()
    }

    /// The instant meant by the wire timestamp `us` that arrived at `now`.
    pub fn unwrap_us(&mut self, now: Time, us: u32) -> SourceTime {
        // 64-bit picoseconds are less than 2^45 us.
        let local = now.as_us() as i64;
        let expected = local + self.offset.unwrap_or(0);
        let unwrapped = expected + i64::from(Serial(us).diff(Serial(expected as u32)));
        self.offset.get_or_insert(unwrapped - local);
        SourceTime(unwrapped.saturating_mul(1_000_000))
    }
}

impl fmt::Debug for SignedSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.6}ms", self.as_ms_f64())
    }
}

impl fmt::Display for SignedSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} ms", self.as_ms_f64())
    }
}

impl fmt::Debug for SourceTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.6}s", self.0 as f64 / 1e12)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at_us(us: u64) -> Time {
        Time::ZERO + Span::from_us(us)
    }

    #[test]
    fn delays_are_right_across_the_wrap() {
        let mut unwrapper = TimestampUnwrapper::new();
        for step in 0..10u64 {
            let sent = (1 << 32) - 100_000 + step * 20_000;
            let now = at_us(sent + 3_000);
            let emission = unwrapper.unwrap_us(now, sent as u32);
            assert_eq!(emission, SourceTime::from(at_us(sent)), "step {step}");
            assert_eq!(emission.age(now), Span::from_us(3_000).into());
        }
    }

    #[test]
    fn a_reordered_packet_from_before_the_wrap_stays_before_it() {
        let mut unwrapper = TimestampUnwrapper::new();
        let now = at_us((1 << 32) + 50);
        let after = unwrapper.unwrap_us(now, 10);
        let before = unwrapper.unwrap_us(now, u32::MAX - 9);
        assert_eq!(after.since(before), Span::from_us(20));
        assert_eq!(unwrapper.unwrap_us(now, 30).since(after), Span::from_us(20));
    }

    #[test]
    fn a_silence_of_hours_and_a_forged_timestamp_do_no_harm() {
        let mut unwrapper = TimestampUnwrapper::new();
        unwrapper.unwrap_us(at_us(500), 100);
        for _ in 0..10 {
            unwrapper.unwrap_us(at_us(600), 1 << 30);
        }
        let later = 5 * (1 << 32) + 7;
        let emission = unwrapper.unwrap_us(at_us(later + 400), later as u32);
        assert_eq!(emission, SourceTime::from(at_us(later)));
    }

    #[test]
    fn a_sender_clock_ahead_of_ours_gives_a_negative_delay() {
        let mut unwrapper = TimestampUnwrapper::new();
        let now = at_us(1_000);
        let age = unwrapper.unwrap_us(now, 5_000).age(now);
        assert!(age.is_negative());
        assert_eq!(age.abs(), Span::from_us(4_000));
        let first = TimestampUnwrapper::new().unwrap_us(at_us(5), u32::MAX);
        assert_eq!(first.age(at_us(5)), Span::from_us(6).into());
        assert_eq!(first.plus(SignedSpan::ZERO), Time::ZERO);
    }

    proptest! {
        #[test]
        fn any_monotone_sequence_unwraps_to_itself(
            start in 0u64..1 << 40,
            steps in prop::collection::vec(0u64..1 << 30, 1..50),
        ) {
            let mut unwrapper = TimestampUnwrapper::new();
            let mut sent = start;
            for step in steps {
                sent += step;
                let emission = unwrapper.unwrap_us(at_us(sent), sent as u32);
                prop_assert_eq!(emission, SourceTime::from(at_us(sent)));
            }
        }
    }
}
