use layercast_core::Level;
use serde::{Deserialize, Serialize};

/// How the demands of several branches become one (specs/mets.md 2.11, 6.2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Merge {
    /// The higher of both levels each: never leaves the chain `{0,0} < {0,E1} < {E1,E2}`.
    #[default]
    Join,
    /// The lowest `min` and the highest `max`: `{0,E2}` is legal then.
    Hull,
}

/// What a branch asks for: the level it wants and the one it falls back to (specs/mets.md 2.11).
///
/// Receivers emit only the chain `{0,0} < {0,E1} < {E1,E2}`, which [`Merge::Join`] and reducing
/// never leave.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug, Serialize, Deserialize)]
pub struct LevelPair {
    min: Level,
    max: Level,
}

impl LevelPair {
    /// Base layer only: `{0,0}`.
    pub const BASE: LevelPair = LevelPair::wanting(Level::BASE);

    /// A pair from the wire; `None` if `min` is above `max`.
    pub fn new(min: Level, max: Level) -> Option<LevelPair> {
        (min <= max).then_some(LevelPair { min, max })
    }

    /// What a receiver that wants `level` sends: `{max(level - 1, 0), level}`.
    pub const fn wanting(level: Level) -> LevelPair {
        LevelPair {
            min: level.down(),
            max: level,
        }
    }

    /// The level to fall back to.
    pub const fn min(self) -> Level {
        self.min
    }

    /// The highest level wanted.
    pub const fn max(self) -> Level {
        self.max
    }

    /// The demand of two branches together.
    #[must_use]
    pub fn merge(self, other: LevelPair, how: Merge) -> LevelPair {
        LevelPair {
            min: match how {
                Merge::Join => self.min.max(other.min),
                Merge::Hull => self.min.min(other.min),
            },
            max: self.max.max(other.max),
        }
    }

    /// What is left of the demand when the link grants `level`: unchanged if that is enough, else
    /// what a receiver wanting `level` would ask.
    #[must_use]
    pub fn reduce_to(self, level: Level) -> LevelPair {
        if level >= self.max {
            self
        } else {
            LevelPair::wanting(level)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CHAIN: [LevelPair; 3] = [
        LevelPair::BASE,
        LevelPair::wanting(Level::E1),
        LevelPair::wanting(Level::FULL),
    ];

    #[test]
    fn receivers_ask_for_the_three_printed_pairs() {
        let levels = CHAIN.map(|pair| (pair.min().get(), pair.max().get()));
        assert_eq!(levels, [(0, 0), (0, 1), (1, 2)]);
    }

    #[test]
    fn merging_is_the_join_of_the_chain() {
        for (i, a) in CHAIN.into_iter().enumerate() {
            for (j, b) in CHAIN.into_iter().enumerate() {
                assert_eq!(a.merge(b, Merge::Join), CHAIN[i.max(j)]);
            }
        }
    }

    #[test]
    fn the_hull_spans_from_the_least_to_the_most() {
        let hull = CHAIN[0].merge(CHAIN[2], Merge::Hull);
        assert_eq!((hull.min(), hull.max()), (Level::BASE, Level::FULL));
        assert_eq!(hull.reduce_to(Level::E1), CHAIN[1]);
        assert_eq!(hull.reduce_to(Level::FULL), hull);
    }

    fn pair() -> impl Strategy<Value = LevelPair> {
        let level = |level| Level::new(level).unwrap();
        (0u8..=2, 0u8..=2)
            .prop_map(move |(a, b)| LevelPair::new(level(a.min(b)), level(a.max(b))).unwrap())
    }

    proptest! {
        #[test]
        fn merging_does_not_depend_on_the_order_or_on_repetition(
            (a, b, c) in (pair(), pair(), pair()), hull in any::<bool>(),
        ) {
            let how = if hull { Merge::Hull } else { Merge::Join };
            prop_assert_eq!(a.merge(b, how), b.merge(a, how));
            prop_assert_eq!(a.merge(b, how).merge(c, how), a.merge(b.merge(c, how), how));
            prop_assert_eq!(a.merge(a, how), a);
            prop_assert!(a.merge(b, how).max() >= a.max() && a.merge(b, how).min() <= a.merge(b, how).max());
        }
    }

    #[test]
    fn reducing_steps_down_the_chain_and_never_up() {
        for (i, pair) in CHAIN.into_iter().enumerate() {
            for (j, level) in [Level::BASE, Level::E1, Level::FULL]
                .into_iter()
                .enumerate()
            {
                assert_eq!(pair.reduce_to(level), CHAIN[i.min(j)]);
            }
        }
    }

    #[test]
    fn an_inverted_pair_is_refused() {
        assert_eq!(LevelPair::new(Level::FULL, Level::E1), None);
        assert!(LevelPair::new(Level::BASE, Level::FULL).is_some());
    }
}
