use layercast_core::{CellRate, Span};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// How much faster than their mean rate frames leave, by default (specs/mets.md 2.5).
pub const PEAK_FACTOR: f64 = 2.4;

/// Depth and refresh interval of a token bucket (specs/mets.md 2.5).
///
/// ```
/// use layercast_core::{CellRate, Span};
/// use layercast_qos::BucketParams;
///
/// let bucket = BucketParams::for_rate(CellRate(4_000));
/// assert_eq!((bucket.b(), bucket.p()), (4, 1));
/// // 240 cells leave in 60 ticks of 1 ms.
/// assert_eq!(bucket.drain(240), Span::from_ms(60));
/// assert!(BucketParams::new(0, 1).is_err());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct BucketParams {
    b: u32,
    p: u32,
}

/// A token bucket that could never send.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("token bucket (b = {b}, p = {p}): both must be at least 1")]
pub struct BucketError {
    /// Credits per refresh.
    pub b: u32,
    /// Ticks between refreshes.
    pub p: u32,
}

impl BucketParams {
    /// Sends nothing; the queue is kept.
    pub const PAUSED: BucketParams = BucketParams { b: 0, p: 1 };

    /// `b` credits every `p` ticks; both at least 1.
    pub fn new(b: u32, p: u32) -> Result<BucketParams, BucketError> {
        if b == 0 || p == 0 {
            return Err(BucketError { b, p });
        }
        Ok(BucketParams { b, p })
    }

    /// The shortest interval of 1 ms ticks that gives `rate` within 1 % (specs/mets.md 2.5); rate 0 pauses.
    pub fn for_rate(rate: CellRate) -> BucketParams {
        let rate = u64::from(rate.0);
        if rate == 0 {
            return BucketParams::PAUSED;
        }
        (1..=100u64)
            .map(|p| ((rate * p + 500) / 1_000, p))
            .find(|&(b, p)| b >= 1 && (1_000 * b).abs_diff(rate * p) * 100 <= rate * p)
            .map_or(
                BucketParams {
                    b: 1,
                    p: ((1_000 + rate / 2) / rate) as u32,
                },
                // b is at most u32::MAX / 1000 * 100, p at most 100.
                |(b, p)| BucketParams {
                    b: b as u32,
                    p: p as u32,
                },
            )
    }

    /// Credits per refresh: the depth of the bucket.
    pub const fn b(self) -> u32 {
        self.b
    }

    /// Ticks between refreshes.
    pub const fn p(self) -> u32 {
        self.p
    }

    /// Whether it sends nothing.
    pub const fn is_paused(self) -> bool {
        self.b == 0
    }

    /// The long-run rate of a backlogged flow at 1 ms ticks.
    pub const fn rate(self) -> CellRate {
        CellRate((self.b as u64 * 1_000 / self.p as u64) as u32)
    }

    /// The longest time that `cells` take through an otherwise empty queue at 1 ms ticks; forever
    /// if paused.
    pub const fn drain(self, cells: u32) -> Span {
        if self.b == 0 {
            return Span::MAX;
        }
        Span::from_ms(cells.div_ceil(self.b) as u64 * self.p as u64)
    }
}

/// The credit of one flow, brought forward tick by tick or over many ticks in one step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    params: BucketParams,
    /// New parameters, in force from the next refresh.
    pending: Option<BucketParams>,
    /// Credits left; negative after a datagram that cost more than was left.
    credit: i64,
    /// Number of the tick that refreshes next.
    refresh: u64,
}

impl Bucket {
    pub(super) fn new(params: BucketParams, tick: u64) -> Bucket {
        Bucket {
            params,
            pending: None,
            credit: i64::from(params.b),
            refresh: tick + u64::from(params.p),
        }
    }

    pub(super) fn reconfigure(&mut self, params: BucketParams) {
        debug_assert!(params.p > 0, "no time between refreshes");
        self.credit = self.credit.min(i64::from(params.b));
        self.pending = (params != self.params).then_some(params);
    }

    pub(super) fn may_send(&self) -> bool {
        self.credit > 0
    }

    pub(super) fn take(&mut self, cost: u32) {
        self.credit -= i64::from(cost);
    }

    /// Runs the refreshes of every tick up to and including `tick`.
    pub(super) fn advance(&mut self, tick: u64) {
        if tick < self.refresh {
            return;
        }
        self.params = self.pending.take().unwrap_or(self.params);
        let p = u64::from(self.params.p);
        let refreshes = 1 + (tick - self.refresh) / p;
        self.refresh += refreshes * p;
        // The cap makes each refresh a set, not an add: only debt is carried over.
        let b = i64::from(self.params.b);
        let refilled = i64::try_from(refreshes)
            .unwrap_or(i64::MAX)
            .saturating_mul(b);
        self.credit = self.credit.saturating_add(refilled).min(b);
        debug_assert!(self.refresh > tick, "a refresh in the past");
        debug_assert!(self.credit <= b, "more credit than the bucket holds");
    }

    /// The tick after `tick` at which it may send next; `None` while paused.
    pub(super) fn next_chance(&self, tick: u64) -> Option<u64> {
        if self.may_send() {
            Some(tick + 1)
        } else if self.pending.unwrap_or(self.params).is_paused() {
            None
        } else {
            Some(self.refresh)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_rates_of_the_paper_choose_the_printed_buckets() {
        let choose = |rate| {
            let params = BucketParams::for_rate(CellRate(rate));
            (params.b(), params.p())
        };
        assert_eq!(choose(17_500), (35, 2));
        assert_eq!(choose(4_000), (4, 1));
        assert_eq!(choose(480), (10, 21));
        assert_eq!(choose(3), (1, 333));
        assert_eq!(choose(0), (0, 1));
    }

    #[test]
    fn zero_depth_or_interval_is_refused() {
        assert!(BucketParams::new(0, 1).is_err());
        assert!(BucketParams::new(1, 0).is_err());
    }

    #[test]
    fn draining_counts_whole_refresh_intervals() {
        let params = BucketParams::new(4, 2).unwrap();
        assert_eq!(params.drain(9), Span::from_ms(6));
        assert_eq!(BucketParams::PAUSED.drain(1), Span::MAX);
    }

    proptest! {
        #[test]
        fn the_chosen_rate_is_within_one_per_cent(rate in 10u32..=u32::MAX) {
            let params = BucketParams::for_rate(CellRate(rate));
            let got = 1_000.0 * f64::from(params.b()) / f64::from(params.p());
            prop_assert!((got - f64::from(rate)).abs() <= 0.010_001 * f64::from(rate));
            prop_assert!(params.p() <= 100);
        }

        #[test]
        fn one_leap_equals_many_ticks(
            b in 0u32..6, p in 1u32..6, debt in 0u32..40, ticks in 1u64..60,
            change in prop::option::of((0u32..6, 1u32..6)),
        ) {
            let mut leap = Bucket::new(BucketParams { b, p }, 0);
            leap.take(debt);
            if let Some((b, p)) = change {
                leap.reconfigure(BucketParams { b, p });
            }
            let mut walk = leap;
            leap.advance(ticks);
            for tick in 1..=ticks {
                walk.advance(tick);
            }
            prop_assert_eq!((leap.credit, leap.refresh), (walk.credit, walk.refresh));
        }
    }
}
