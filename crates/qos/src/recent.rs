use std::collections::VecDeque;

/// The delays of the last frames, for the one that few of them exceeded.
#[derive(Clone, Debug)]
pub(crate) struct RecentDelays {
    permille: usize,
    window: usize,
    delays: VecDeque<i64>,
    ranked: Vec<i64>,
}

/// Frames in the window of which one may be late.
const LATE_IN_WINDOW: usize = 4;
/// Shortest and longest window in frames.
const WINDOW: (usize, usize) = (64, 4_096);

impl RecentDelays {
    /// Remembers enough frames that `permille` of them are about four.
    pub fn new(permille: u16) -> RecentDelays {
        let permille = usize::from(permille.clamp(1, 1_000));
        let (shortest, longest) = WINDOW;
        let window = (LATE_IN_WINDOW * 1_000 / permille).clamp(shortest, longest);
        RecentDelays {
            permille,
            window,
            delays: VecDeque::with_capacity(window),
            ranked: Vec::with_capacity(window),
        }
    }

    pub fn push(&mut self, delay: i64) {
        if self.delays.len() == self.window {
            self.delays.pop_front();
        }
        self.delays.push_back(delay);
        debug_assert!(self.delays.len() <= self.window);
    }

    /// Counts the same delays from elsewhere.
    pub fn shift(&mut self, shifted: impl Fn(i64) -> i64) {
        for delay in &mut self.delays {
            *delay = shifted(*delay);
        }
    }

    /// As [`quantile`](RecentDelays::quantile); the largest of them as long as they are too few to tell.
    pub fn kept_to(&mut self) -> Option<i64> {
        self.quantile()
            .or_else(|| self.delays.iter().max().copied())
    }

    /// The least delay that all but `permille` of these frames kept to; `None` as long as they are too few
    /// to tell.
    pub fn quantile(&mut self) -> Option<i64> {
        let count = self.delays.len();
        let late = count * self.permille / 1_000;
        if late == 0 {
            return None;
        }
        self.ranked.clear();
        self.ranked.extend(&self.delays);
        let place = count - 1 - late.min(count - 1);
        let (_, delay, _) = self.ranked.select_nth_unstable(place);
        Some(*delay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_per_cent_of_the_last_four_hundred_are_above_the_quantile() {
        let mut recent = RecentDelays::new(10);
        for delay in 0..99 {
            recent.push(delay);
            assert_eq!(
                recent.quantile(),
                None,
                "one of fewer than 100 frames is more"
            );
        }
        recent.push(99);
        assert_eq!(recent.quantile(), Some(98));
        for delay in (0..400).rev() {
            recent.push(1_000 + delay);
        }
        assert_eq!(
            recent.quantile(),
            Some(1_395),
            "the first hundred are forgotten"
        );
    }

    #[test]
    fn any_share_has_a_window() {
        for permille in [0, 1, 500, 1_000, u16::MAX] {
            let mut recent = RecentDelays::new(permille);
            (0..10_000).for_each(|delay| recent.push(delay));
            let quantile = recent.quantile().expect("enough frames");
            assert!(
                (10_000 - 4_096..10_000).contains(&quantile),
                "{permille}: {quantile}"
            );
        }
    }
}
