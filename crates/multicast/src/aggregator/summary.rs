use std::collections::BTreeMap;

use layercast_core::RangeSet;
use layercast_wire::multicast::{MAX_LIST, Needs, Spans, State, Tally};

/// What a set of receivers has and lacks, according to its reports. Merging is associative and commutative: the order
/// and grouping of the reports do not matter.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Summary {
    /// Receivers by state.
    pub tally: Tally,
    /// Largest share of lost packets, in 1/65535.
    pub loss: u16,
    /// Least free buffer of a receiver in packets; `None` if none reported it.
    pub buffer: Option<u32>,
    /// Least rseq and dseq.
    pub levels: Option<(u64, u64)>,
    /// Source packets that at least one receiver misses.
    pub missing: RangeSet,
    /// For each block, the symbols that the worst receiver lacks.
    pub needs: BTreeMap<u32, u16>,
}

impl Summary {
    /// Merges another set into this one.
    pub fn merge(&mut self, other: &Summary) {
        self.tally.alive = self.tally.alive.saturating_add(other.tally.alive);
        self.tally.complete = self.tally.complete.saturating_add(other.tally.complete);
        self.tally.failed = self.tally.failed.saturating_add(other.tally.failed);
        self.loss = self.loss.max(other.loss);
        self.buffer = least(self.buffer, other.buffer, u32::min);
        let both = |a: (u64, u64), b: (u64, u64)| (a.0.min(b.0), a.1.min(b.1));
        self.levels = least(self.levels, other.levels, both);
        for (from, to) in other.missing.iter() {
            self.missing.insert(from, to);
        }
        for (&block, &count) in &other.needs {
            self.need(block, count);
        }
    }

    /// Adds the state in a report; returns the blocks whose need has grown.
    pub fn add(&mut self, state: &State) -> Needs {
        let mut news = Needs::new();
        match state {
            State::Levels {
                received,
                delivered,
                gaps,
            } => {
                let both = |a: (u64, u64), b: (u64, u64)| (a.0.min(b.0), a.1.min(b.1));
                self.levels = least(self.levels, Some((*received, *delivered)), both);
                self.miss(gaps);
            }
            State::Missing(spans) => self.miss(spans),
            State::Need(needs) => {
                for (block, count) in needs.iter() {
                    if self.need(block, count) {
                        news.push(block, count);
                    }
                }
            }
            // A receiver that was busy repeats this at its next poll.
            State::Ready(_) | State::Complete { .. } | State::Busy | State::Corrupt => {}
        }
        news
    }

    fn miss(&mut self, spans: &Spans) {
        for (from, to) in spans.iter() {
            self.missing.insert(from, to);
        }
    }

    /// Whether no receiver lacks anything.
    pub fn is_whole(&self) -> bool {
        self.missing.is_empty() && self.needs.values().all(|count| *count == 0)
    }

    /// Records the need of a block; returns whether it has grown.
    pub(super) fn need(&mut self, block: u32, count: u16) -> bool {
        let known = self.needs.entry(block).or_default();
        let more = count > *known;
        *known = (*known).max(count);
        more
    }

    /// What is missing, split into as many states as needed, at least one.
    pub fn states(&self, counts: bool) -> Vec<State> {
        if counts {
            let needs: Vec<(u32, u16)> = self.needs.iter().map(|(a, b)| (*a, *b)).collect();
            let state = |part: &[(u32, u16)]| State::Need(Needs::of(part.iter().copied()).0);
            return match needs.is_empty() {
                true => vec![State::Need(Needs::new())],
                false => needs.chunks(MAX_LIST).map(state).collect(),
            };
        }
        let ranges: Vec<(u64, u64)> = self.missing.iter().collect();
        let spans = |part: &[(u64, u64)]| Spans::of(part.iter().copied()).0;
        if let Some((received, delivered)) = self.levels {
            let gaps = spans(&ranges[..ranges.len().min(MAX_LIST)]);
            return vec![State::Levels {
                received,
                delivered,
                gaps,
            }];
        }
        ranges
            .chunks(MAX_LIST)
            .map(|part| State::Missing(spans(part)))
            .collect()
    }
}

fn least<T: Copy>(a: Option<T>, b: Option<T>, less: impl Fn(T, T) -> T) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(less(a, b)),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn summary() -> impl Strategy<Value = Summary> {
        let needs = vec((0u32..8, 1u16..9), 0..5);
        let missing = vec((0u64..50, 1u64..9), 0..5);
        let levels = proptest::option::of((0u64..50, 0u64..50));
        let numbers = (0u32..9, 0u32..9, 0u32..9, any::<u16>());
        (needs, missing, levels, numbers, any::<Option<u32>>()).prop_map(
            |(needs, missing, levels, (alive, complete, failed, loss), buffer)| {
                let mut summary = Summary {
                    tally: Tally {
                        alive,
                        complete,
                        failed,
                    },
                    loss,
                    buffer,
                    levels,
                    ..Summary::default()
                };
                for (block, count) in needs {
                    summary.need(block, count);
                }
                for (from, len) in missing {
                    summary.missing.insert(from, from + len);
                }
                summary
            },
        )
    }

    fn merged(a: &Summary, b: &Summary) -> Summary {
        let mut both = a.clone();
        both.merge(b);
        both
    }

    proptest! {
        #[test]
        fn merging_is_associative_and_commutative(a in summary(), b in summary(), c in summary()) {
            prop_assert_eq!(merged(&merged(&a, &b), &c), merged(&a, &merged(&b, &c)));
            prop_assert_eq!(merged(&a, &b), merged(&b, &a));
            prop_assert_eq!(merged(&a, &Summary::default()), a);
        }

        #[test]
        fn states_say_it_all(a in summary(), counts: bool) {
            let mut union = Summary::default();
            for state in a.states(counts) {
                union.add(&state);
            }
            match counts {
                true => prop_assert_eq!(union.needs, a.needs),
                false => prop_assert_eq!((union.missing, union.levels), (a.missing, a.levels)),
            }
        }
    }
}
