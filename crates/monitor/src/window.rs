//! Sums over the last time: what happened at x counts at t if t - window < x <= t (specs/user-to-user-qos.md 2.3).

use std::collections::VecDeque;

/// Events that are kept one by one. Beyond them, those of one step, a thousandth of the window, become one.
const SINGLE: usize = 1_024;
const STEPS: u64 = 1_000;

#[derive(Clone, Copy, Debug)]
struct Entry {
    t: u64,
    /// Two amounts, such as bits on the wire and bits of new data.
    amounts: [u64; 2],
    count: u64,
}

/// Two sums over a sliding window, in bounded memory.
#[derive(Clone, Debug)]
pub(crate) struct SlidingSum {
    span: u64,
    entries: VecDeque<Entry>,
    sums: [u128; 2],
    count: u64,
}

impl SlidingSum {
    /// A window of `span` nanoseconds.
    pub(crate) fn new(span: u64) -> SlidingSum {
        SlidingSum {
            span,
            entries: VecDeque::new(),
            sums: [0; 2],
            count: 0,
        }
    }

    /// Its length in nanoseconds.
    pub(crate) fn span(&self) -> u64 {
        self.span
    }

    /// Adds amounts at `t`, which is not before the last.
    pub(crate) fn add(&mut self, t: u64, amounts: [u64; 2]) {
        self.expire(t);
        let step = (self.span / STEPS).max(1);
        self.count += 1;
        if self.entries.len() >= SINGLE
            && let Some(last) = self.entries.back_mut()
            && last.t / step == t / step
        {
            last.t = t;
            last.count += 1;
            for ((sum, known), new) in self.sums.iter_mut().zip(&mut last.amounts).zip(amounts) {
                let both = known.saturating_add(new);
                *sum += u128::from(both - *known);
                *known = both;
            }
            return;
        }
        for (sum, new) in self.sums.iter_mut().zip(amounts) {
            *sum += u128::from(new);
        }
        self.entries.push_back(Entry {
            t,
            amounts,
            count: 1,
        });
        debug_assert!(self.entries.len() as u64 <= SINGLE as u64 + STEPS + 2);
    }

    /// Forgets what is outside the window that ends at `t`.
    pub(crate) fn expire(&mut self, t: u64) {
        while let Some(first) = self.entries.front() {
            if first.t.saturating_add(self.span) > t {
                break;
            }
            for (sum, old) in self.sums.iter_mut().zip(first.amounts) {
                *sum -= u128::from(old);
            }
            self.count -= first.count;
            self.entries.pop_front();
        }
    }

    /// The sums.
    pub(crate) fn sums(&self) -> [u128; 2] {
        self.sums
    }

    /// Events in the window.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The sums per second over the window.
    pub(crate) fn rates(&self) -> [f64; 2] {
        self.sums.map(|sum| sum as f64 * 1e9 / self.span as f64)
    }

    /// The first sum by the time from the first to the last event; none of a single instant.
    pub(crate) fn burst_rate(&self) -> Option<f64> {
        let span = self.entries.back()?.t - self.entries.front()?.t;
        (span > 0).then(|| self.sums[0] as f64 * 1e9 / span as f64)
    }
}

/// Least and largest of the values of the last time, each step of it one value.
#[derive(Clone, Debug)]
pub(crate) struct Spread {
    span: u64,
    entries: VecDeque<(u64, i64, i64)>,
}

impl Spread {
    const STEPS: u64 = 128;

    pub(crate) fn new(span: u64) -> Spread {
        Spread {
            span,
            entries: VecDeque::new(),
        }
    }

    pub(crate) fn add(&mut self, t: u64, value: i64) {
        self.expire(t);
        let step = (self.span / Spread::STEPS).max(1);
        match self.entries.back_mut() {
            Some(last) if last.0 / step == t / step => {
                *last = (t, last.1.min(value), last.2.max(value));
            }
            _ => self.entries.push_back((t, value, value)),
        }
    }

    pub(crate) fn expire(&mut self, t: u64) {
        while self
            .entries
            .front()
            .is_some_and(|it| it.0.saturating_add(self.span) <= t)
        {
            self.entries.pop_front();
        }
    }

    /// Largest less least.
    pub(crate) fn width(&self) -> Option<u64> {
        let least = self.entries.iter().map(|it| it.1).min()?;
        let most = self.entries.iter().map(|it| it.2).max()?;
        Some(most.abs_diff(least))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_window_is_open_at_its_beginning() {
        let mut sum = SlidingSum::new(1_000);
        for t in [0, 500, 1_000] {
            sum.add(t, [8, 4]);
        }
        assert_eq!((sum.sums(), sum.count()), ([16, 8], 2));
        assert_eq!(sum.burst_rate(), Some(16.0 * 1e9 / 500.0));
        sum.expire(1_500);
        assert_eq!((sum.sums(), sum.burst_rate()), ([8, 4], None));
        sum.expire(u64::MAX);
        assert_eq!((sum.sums(), sum.rates()), ([0, 0], [0.0; 2]));
    }

    #[test]
    fn many_events_take_bounded_memory_and_err_by_a_step() {
        let mut sum = SlidingSum::new(1_000_000);
        for t in 0..5_000_000 {
            sum.add(t, [1, u64::MAX]);
        }
        assert!(sum.entries.len() <= SINGLE + STEPS as usize + 2);
        let [found, _] = sum.sums();
        assert!(found.abs_diff(1_000_000) <= 1_000, "{found}");
    }

    proptest! {
        #[test]
        fn sums_are_those_of_the_definition(gaps in prop::collection::vec((0u64..400, 0u64..10_000), 1..60)) {
            let (mut sum, mut t, mut all) = (SlidingSum::new(1_000), 0, Vec::new());
            for (gap, bits) in gaps {
                t += gap;
                sum.add(t, [bits, bits / 2]);
                all.push((t, bits));
                let inside = all.iter().filter(|(x, _)| x + 1_000 > t);
                let expected: u64 = inside.clone().map(|(_, bits)| bits).sum();
                prop_assert_eq!(sum.sums()[0], u128::from(expected));
                prop_assert_eq!(sum.count(), inside.count() as u64);
            }
        }
    }
}
