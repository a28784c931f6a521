//! Losses of a path whose queue is too short to show, or that drops without one.

use layercast_core::{Span, Time};

/// Datagrams over which losses are counted.
const OVER: u32 = 256;
/// Share of them from which on the path is taken for full, beyond what is known to have other reasons.
const FULL: f64 = 0.1;
/// How long after a lower rate its losses count, and over how many datagrams at least.
const AFTER: Span = Span::from_ms(300);
const JUDGED: u32 = 96;
/// A lower rate is in vain if it leaves more than this share of the losses.
const IN_VAIN: f64 = 0.5;

/// What losses say of the path.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Verdict {
    /// They are many: the path may be full.
    Full,
    /// They are as many at a lower rate: they have other reasons, and the rate is to be this again.
    Other(f64),
}

/// Counts losses, and finds out by a lower rate whether the path is full.
#[derive(Default, Debug)]
pub(super) struct Drops {
    datagrams: u32,
    lost: u32,
    /// Octets that arrived of them, and since when.
    octets: u64,
    since: Option<Time>,
    /// Share of losses that has other reasons.
    other: f64,
    /// A lower rate is tried: since when, the share of losses before, and the rate before.
    tried: Option<(Time, f64, f64)>,
}

impl Drops {
    /// Takes what became of datagrams.
    pub fn note(&mut self, now: Time, (datagrams, lost): (u32, u32), octets: u64) {
        if self.tried.is_some_and(|it| now.since(it.0) < AFTER) {
            return;
        }
        let Some(since) = self.since else {
            self.since = Some(now);
            return;
        };
        self.datagrams += datagrams;
        self.lost += lost.min(datagrams);
        self.octets += octets;
        if self.datagrams >= 2 * OVER {
            self.datagrams /= 2;
            self.lost /= 2;
            self.octets /= 2;
            self.since = Some(since.saturating_add(now.since(since).mul_div(1, 2)));
        }
    }

    /// The rate at which datagrams arrived while losses were counted, in bit/s.
    pub fn arrives(&self, now: Time) -> Option<f64> {
        let passed = now.since(self.since?).as_secs_f64();
        (passed > 0.0).then(|| self.octets as f64 * 8.0 / passed)
    }

    fn begin(&mut self) {
        (self.datagrams, self.lost, self.octets, self.since) = (0, 0, 0, None);
    }

    /// What the losses say, once.
    pub fn judge(&mut self) -> Option<Verdict> {
        let share = f64::from(self.lost) / f64::from(self.datagrams.max(1));
        match self.tried {
            None => {
                let is_full = self.datagrams >= OVER && share > self.other + FULL;
                is_full.then_some(Verdict::Full)
            }
            Some(_) if self.datagrams < JUDGED => None,
            Some((_, before, rate)) => {
                self.tried = None;
                let was_in_vain = share > self.other + IN_VAIN * (before - self.other);
                self.begin();
                was_in_vain.then(|| {
                    self.other = share;
                    Verdict::Other(rate)
                })
            }
        }
    }

    /// The losses were those of datagrams too long for the path, and say nothing of its rate. Gives the rate before a lower one was tried.
    pub fn excuse(&mut self) -> Option<f64> {
        std::mem::take(self).tried.map(|it| it.2)
    }

    /// A lower rate than this is tried.
    pub fn tries(&mut self, now: Time, rate: f64) {
        let share = f64::from(self.lost) / f64::from(self.datagrams.max(1));
        self.tried = Some((now, share, rate));
        self.begin();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::from_ms(ms)
    }

    #[test]
    fn what_arrives_is_measured_over_the_time_in_which_losses_are_counted() {
        let mut drops = Drops::default();
        // 1 kB each 4 ms, 2 Mbit/s, beyond the number of datagrams that are remembered.
        for n in 0..2_000 {
            drops.note(at(4 * n), (1, 0), 1_000);
        }
        let bps = drops.arrives(at(7_996)).unwrap();
        assert!((1.95e6..2.05e6).contains(&bps), "{bps}");
    }

    #[test]
    fn losses_that_a_lower_rate_ends_show_a_full_path_and_others_do_not() {
        let mut drops = Drops::default();
        let mut note = |from: u64, lost| {
            (0..=10).for_each(|n| drops.note(at(from + n), (32, lost), 40_000));
            let verdict = drops.judge();
            if verdict == Some(Verdict::Full) {
                drops.tries(at(from + 10), 2e6);
            }
            verdict
        };
        assert_eq!(note(0, 1), None);
        assert_eq!(note(100, 8), Some(Verdict::Full));
        assert_eq!(note(120, 32), None, "on the way");
        assert_eq!(note(1_000, 0), None);
        assert_eq!(note(2_000, 8), Some(Verdict::Full));
        assert_eq!(note(3_000, 8), Some(Verdict::Other(2e6)));
        assert_eq!(note(4_000, 9), None, "known");
        assert_eq!(note(5_000, 16), Some(Verdict::Full));
    }
}
