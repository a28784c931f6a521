/// Counters that are remembered below the newest one.
pub const SPAN: u64 = 16_384;
const WORDS: usize = (SPAN / 64) as usize;

/// Which of the last [`SPAN`] counters were seen: one bit each.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    words: Box<[u64; WORDS]>,
    /// The counter after the newest one.
    next: u64,
}

impl Seen {
    pub fn new() -> Seen {
        Seen {
            words: Box::new([0; WORDS]),
            next: 0,
        }
    }

    /// All counters below `next` are unseen.
    pub fn below(next: u64) -> Seen {
        Seen {
            next,
            ..Seen::new()
        }
    }

    /// Forgets counters so that those below `next` are the newest ones; new counters are unseen.
    pub fn advance(&mut self, next: u64) {
        if next.saturating_sub(self.next) >= SPAN {
            self.words.fill(0);
        } else {
            for counter in self.next..next {
                self.words[word(counter)] &= !bit(counter);
            }
        }
        self.next = self.next.max(next);
    }

    /// Whether the counter is within what is remembered.
    pub fn holds(&self, counter: u64) -> bool {
        counter < self.next && self.next - counter <= SPAN
    }

    pub fn get(&self, counter: u64) -> bool {
        self.holds(counter) && self.words[word(counter)] & bit(counter) != 0
    }

    pub fn set(&mut self, counter: u64) {
        debug_assert!(self.holds(counter));
        self.words[word(counter)] |= bit(counter);
    }
}

fn word(counter: u64) -> usize {
    (counter / 64 % WORDS as u64) as usize
}

fn bit(counter: u64) -> u64 {
    1 << (counter % 64)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use layercast_core::Stream;

    use super::*;

    #[test]
    fn agrees_with_a_set_that_forgets_nothing() {
        let mut random = Stream::new(1, "seen");
        let (mut seen, mut model, mut next) = (Seen::new(), BTreeSet::new(), 0);
        for _ in 0..20_000 {
            let step = if random.chance(0.01) { 20_000 } else { 40 };
            next += random.below(step);
            seen.advance(next);
            let Some(counter) = next.checked_sub(1 + random.below(30_000)) else {
                continue;
            };
            assert_eq!(seen.holds(counter), next - counter <= SPAN);
            if seen.holds(counter) {
                assert_eq!(seen.get(counter), model.contains(&counter));
                seen.set(counter);
                model.insert(counter);
            }
        }
    }
}
