use layercast_core::{Span, Time};

/// The generic cell rate algorithm GCRA(T, tau) in its virtual scheduling form (ITU-T I.371; specs/vbr-atm-lan.md 2.1).
///
/// Times are whole picoseconds: with fractions, a cell that arrives exactly on time would fail at random. Arrivals
/// may go backwards in time; such a cell is only more likely to be refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gcra {
    period: Span,
    tolerance: Span,
    /// Theoretical arrival time of the next cell.
    expected: Time,
}

impl Gcra {
    /// Creates an idle GCRA of one cell per `period`, with `tolerance`.
    pub fn new(period: Span, tolerance: Span) -> Gcra {
        Gcra {
            period,
            tolerance,
            expected: Time::ZERO,
        }
    }

    /// Creates a GCRA of one cell per `period` on average, for bursts of `burst` cells spaced by `peak`.
    pub fn with_burst(period: Span, burst: u32, peak: Span) -> Gcra {
        Gcra::new(period, burst_tolerance(burst, period, peak))
    }

    /// Mean interval between cells.
    pub fn period(&self) -> Span {
        self.period
    }

    /// Tolerance: how much too early a cell may arrive.
    pub fn tolerance(&self) -> Span {
        self.tolerance
    }

    /// Whether a cell at `at` would conform.
    pub fn peek(&self, at: Time) -> bool {
        self.fill(at) <= self.tolerance
    }

    /// Whether `n` cells would all conform, the first at `at` and the others spaced by `spacing`.
    pub fn peek_n(&self, at: Time, n: u32, spacing: Span) -> bool {
        n == 0 || self.fill(at) <= self.tolerance && self.growth(n, spacing) <= self.slack(at)
    }

    /// Accounts for a cell at `at`.
    pub fn commit(&mut self, at: Time) {
        self.commit_n(at, 1);
    }

    /// Accounts for `n` cells from `at` on, with at most one period between them.
    pub fn commit_n(&mut self, at: Time, n: u32) {
        let from = self.expected.max(at);
        self.expected = from.saturating_add(self.period.times(u64::from(n)));
    }

    /// Accounts for a cell at `at` if it conforms; returns whether it does.
    pub fn offer(&mut self, at: Time) -> bool {
        let conforms = self.peek(at);
        if conforms {
            self.commit(at);
        }
        conforms
    }

    /// Earliest time at which the next cell conforms.
    pub fn next(&self) -> Time {
        self.expected.saturating_sub(self.tolerance)
    }

    /// Earliest time at which `n` cells with this spacing all conform; `None` if an idle bucket does not accept them
    /// either.
    pub fn earliest(&self, n: u32, spacing: Span) -> Option<Time> {
        let growth = self.growth(n, spacing);
        let room = self.tolerance.saturating_sub(growth);
        (growth <= self.tolerance).then(|| self.expected.saturating_sub(room))
    }

    /// Fill of the bucket at `at`, as the time that it takes to empty.
    pub fn fill(&self, at: Time) -> Span {
        self.expected.since(at)
    }

    /// How much earlier than expected the last of `n` cells arrives, if the first is on time.
    fn growth(&self, n: u32, spacing: Span) -> Span {
        let each = self.period.saturating_sub(spacing);
        each.times(u64::from(n.saturating_sub(1)))
    }

    fn slack(&self, at: Time) -> Span {
        self.tolerance.saturating_sub(self.fill(at))
    }
}

/// Tolerance for bursts of `burst` cells at the peak rate, Eq (1): `(MBS - 1) * (T_SCR - T_PCR)`.
pub fn burst_tolerance(burst: u32, sustained: Span, peak: Span) -> Span {
    let each = sustained.saturating_sub(peak);
    each.times(u64::from(burst.saturating_sub(1)))
}

/// Longest burst at the peak rate from an idle bucket, the inverse of [`burst_tolerance`]; `None` if it is unlimited
/// because the two rates are equal.
pub fn burst_size(tolerance: Span, sustained: Span, peak: Span) -> Option<u64> {
    let each = sustained.saturating_sub(peak).as_ps();
    Some(1 + tolerance.as_ps().checked_div(each)?)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The continuous-state leaky bucket of I.371, an equivalent form.
    struct LeakyBucket {
        content: i128,
        last: i128,
    }

    impl LeakyBucket {
        fn offer(&mut self, at: u64, period: u64, tolerance: u64) -> bool {
            let left = self.content - (i128::from(at) - self.last);
            let conforms = left <= i128::from(tolerance);
            if conforms {
                self.content = left.max(0) + i128::from(period);
                self.last = i128::from(at);
            }
            conforms
        }
    }

    fn ps(ps: u64) -> Span {
        Span::from_ps(ps)
    }

    fn used(period: u64, tolerance: u64, gaps: &[u64]) -> (Gcra, Time) {
        let mut gcra = Gcra::new(ps(period), ps(tolerance));
        let mut now = Time::ZERO;
        for gap in gaps {
            now += ps(*gap);
            gcra.offer(now);
        }
        (gcra, now)
    }

    proptest! {
        #[test]
        fn virtual_scheduling_is_a_leaky_bucket(
            period in 0u64..60, tolerance in 0u64..300,
            gaps in prop::collection::vec(0u64..90, 1..200),
        ) {
            let mut gcra = Gcra::new(ps(period), ps(tolerance));
            let mut bucket = LeakyBucket { content: 0, last: 0 };
            let mut now = Time::ZERO;
            for gap in gaps {
                now += ps(gap);
                let conforms = bucket.offer(now.as_ps(), period, tolerance);
                prop_assert_eq!(gcra.offer(now), conforms);
                let content = bucket.content - (i128::from(now.as_ps()) - bucket.last);
                prop_assert_eq!(i128::from(gcra.fill(now).as_ps()), content.max(0));
            }
        }

        #[test]
        fn a_row_of_cells_is_judged_as_one_by_one(
            period in 1u64..60, tolerance in 0u64..300, spacing in 0u64..90, n in 1u32..20,
            gaps in prop::collection::vec(0u64..90, 0..30),
        ) {
            let (gcra, now) = used(period, tolerance, &gaps);
            let all = |at: Time| {
                let mut copy = gcra;
                (0..n).all(|index| copy.offer(at + ps(spacing).times(u64::from(index))))
            };
            prop_assert_eq!(gcra.peek_n(now, n, ps(spacing)), all(now));
            match gcra.earliest(n, ps(spacing)) {
                Some(at) => {
                    prop_assert!(all(at));
                    prop_assert!(at == Time::ZERO || !all(at - ps(1)));
                }
                None => prop_assert!(!all(now + ps(1_000_000))),
            }
            prop_assert_eq!(gcra.earliest(1, ps(spacing)), Some(gcra.next()));
            if spacing <= period && all(now) {
                let (mut one_by_one, mut at_once) = (gcra, gcra);
                (0..n).for_each(|i| one_by_one.commit(now + ps(spacing).times(u64::from(i))));
                at_once.commit_n(now, n);
                prop_assert_eq!(one_by_one, at_once);
            }
        }

        #[test]
        fn a_burst_and_its_tolerance_are_inverse(
            burst in 1u32..5_000, peak in 1u64..100, more in 1u64..1_000,
        ) {
            let (peak, sustained) = (ps(peak), ps(peak + more));
            let tolerance = burst_tolerance(burst, sustained, peak);
            prop_assert_eq!(burst_size(tolerance, sustained, peak), Some(u64::from(burst)));
            let gcra = Gcra::with_burst(sustained, burst, peak);
            prop_assert!(gcra.peek_n(Time::ZERO, burst, peak));
            prop_assert!(!gcra.peek_n(Time::ZERO, burst + 1, peak));
            // The full burst conforms again after an idle time of tolerance and period from the start of the last
            // cell.
            let mut gcra = gcra;
            gcra.commit_n(Time::ZERO, burst);
            let last = Time::ZERO + peak.times(u64::from(burst - 1));
            let again = last + tolerance + sustained;
            prop_assert!(gcra.peek_n(again, burst, peak));
            prop_assert!(burst == 1 || !gcra.peek_n(again - ps(1), burst, peak));
        }
    }

    #[test]
    fn the_tolerances_of_the_paper() {
        // 10 Mbit/s of 155.52 Mbit/s, specs/vbr-atm-lan.md 3.
        let (sustained, peak) = (Span::from_ns(42_400), Span::from_ns(2_726));
        for (burst, us) in [(1_000, 39_634), (2_000, 79_308), (4_000, 158_656)] {
            assert_eq!(burst_tolerance(burst, sustained, peak).as_us(), us);
        }
        assert_eq!(burst_size(Span::ZERO, peak, peak), None);
        assert_eq!(burst_tolerance(0, sustained, peak), Span::ZERO);
    }

    #[test]
    fn the_end_of_time_is_no_overflow() {
        let mut gcra = Gcra::new(Span::MAX, Span::MAX);
        assert!(gcra.offer(Time::MAX) && gcra.offer(Time::MAX));
        assert!(gcra.peek_n(Time::MAX, u32::MAX, Span::ZERO));
        assert_eq!(gcra.earliest(u32::MAX, Span::MAX), Some(Time::ZERO));
    }
}
