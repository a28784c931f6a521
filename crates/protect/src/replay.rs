/// Words of the bitmap; one of them is always being refilled.
const WORDS: usize = 32;
/// Bits of a word.
const BITS: u64 = u64::BITS as u64;

/// Which of the last counters were seen: a sliding bitmap in which whole words are cleared as it moves
/// (RFC 6479).
///
/// A counter is fresh once. One that is more than [`SIZE`](Self::SIZE) behind the highest is not fresh:
/// whether it was seen is no longer known.
#[derive(Clone, Debug, Default)]
pub struct ReplayWindow {
    highest: Option<u64>,
    bits: [u64; WORDS],
}

impl ReplayWindow {
    /// How far behind the highest counter one may be and still be fresh.
    pub const SIZE: u64 = (WORDS as u64 - 1) * BITS;

    /// Whether `counter` was not seen yet, as far as that is known.
    pub fn is_fresh(&self, counter: u64) -> bool {
        match self.highest {
            None => true,
            Some(highest) if counter > highest => true,
            Some(highest) if highest - counter > Self::SIZE => false,
            Some(_) => self.bits[word(counter)] & bit(counter) == 0,
        }
    }

    /// Marks `counter` as seen; `false` if it was not fresh. Only counters that are known to be authentic
    /// may move the window.
    pub fn accept(&mut self, counter: u64) -> bool {
        if !self.is_fresh(counter) {
            return false;
        }
        let last = self.highest.map_or(0, |highest| highest / BITS);
        if self.highest.is_none_or(|highest| counter > highest) {
            let skipped = (counter / BITS - last).min(WORDS as u64);
            for step in 1..=skipped {
                self.bits[((last + step) % WORDS as u64) as usize] = 0;
            }
            self.highest = Some(counter);
        }
        self.bits[word(counter)] |= bit(counter);
        debug_assert!(!self.is_fresh(counter));
        true
    }
}

fn word(counter: u64) -> usize {
    (counter / BITS % WORDS as u64) as usize
}

fn bit(counter: u64) -> u64 {
    1 << (counter % BITS)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_counter_is_fresh_once() {
        let mut window = ReplayWindow::default();
        assert!(window.accept(5) && window.accept(3) && window.accept(4));
        assert!(!window.accept(5) && !window.accept(3));
        assert!(window.accept(0), "the first counter may come last");
    }

    #[test]
    fn what_is_too_old_is_not_fresh() {
        let mut window = ReplayWindow::default();
        let highest = 1 << 40;
        assert!(window.accept(highest));
        assert!(!window.accept(highest - ReplayWindow::SIZE - 1));
        assert!(window.accept(highest - ReplayWindow::SIZE));
    }

    #[test]
    fn a_window_that_moves_forgets_nothing_within_its_size() {
        let mut window = ReplayWindow::default();
        let last = 2 * ReplayWindow::SIZE;
        for counter in 0..=last {
            assert!(window.accept(counter), "{counter}");
        }
        for counter in 0..=last {
            assert!(!window.is_fresh(counter), "{counter}");
        }
    }

    #[test]
    fn the_last_counter_there_is_does_no_harm() {
        let mut window = ReplayWindow::default();
        assert!(window.accept(u64::MAX) && window.accept(u64::MAX - 1));
        assert!(!window.accept(u64::MAX) && !window.accept(0));
    }

    proptest! {
        #[test]
        fn it_agrees_with_a_set_that_forgets_nothing(
            start in 0..u64::MAX / 2,
            steps in prop::collection::vec((0_u64..5_000, 0_u64..3_000), 1..300),
        ) {
            let mut window = ReplayWindow::default();
            let (mut seen, mut highest) = (BTreeSet::new(), start);
            for (ahead, behind) in steps {
                let counter = (highest + ahead).saturating_sub(behind);
                let old = !seen.is_empty()
                    && counter < highest
                    && highest - counter > ReplayWindow::SIZE;
                let fresh = !old && !seen.contains(&counter);
                prop_assert_eq!(window.is_fresh(counter), fresh);
                prop_assert_eq!(window.accept(counter), fresh);
                if fresh {
                    highest = if seen.is_empty() { counter } else { highest.max(counter) };
                    seen.insert(counter);
                }
            }
        }
    }
}
