use layercast_core::{Level, LevelSet};

/// Which layers of a flow pass a link: the upper half of octet 3 of the METS data header.
///
/// The source states the level of the frames that it sends. Each switch lowers the statement, packet by packet, to the
/// level that it lets through to the branch. So a receiver tells frames that were withheld from frames that were lost,
/// and the node that withheld them, without a message that may itself be lost. The statement belongs to one link: sealing and
/// parities do not cover it.
///
/// The lower three bits are 0 without a statement, and otherwise `1 + s (s + 1) / 2 + h` with the level `s` of the source
/// and the level `h` of the link. Of a flow of alternative layers they are the levels that pass, level `l` as bit `l`. The upper bit marks a packet of a fast start: a copy that a node sends again later.
#[derive(Clone, Copy, PartialEq, Eq, Default, Hash, Debug)]
pub struct Passing(u8);

/// The pairs of levels of the source and of the link, in the order of their numbers from 1 on.
const PAIRS: [(Level, Level); 6] = [
    (Level::BASE, Level::BASE),
    (Level::E1, Level::BASE),
    (Level::E1, Level::E1),
    (Level::FULL, Level::BASE),
    (Level::FULL, Level::E1),
    (Level::FULL, Level::FULL),
];
const AGAIN: u8 = 8;

impl Passing {
    /// A source sends the frames of `level`.
    pub fn of(level: Level) -> Passing {
        Passing::pair(level, level)
    }

    fn pair(source: Level, here: Level) -> Passing {
        let at = PAIRS.iter().position(|&pair| pair == (source, here));
        Passing(at.map_or(0, |at| at as u8 + 1))
    }

    /// A link carries these levels of a flow of alternative layers.
    pub fn carrying(set: LevelSet) -> Passing {
        Passing(set.bits())
    }

    /// The four bits of an octet.
    pub(crate) fn from_bits(bits: u8) -> Passing {
        Passing(bits & 15)
    }

    pub(crate) fn bits(self) -> u8 {
        self.0
    }

    fn levels(self) -> Option<(Level, Level)> {
        let at = usize::from(self.0 & !AGAIN).checked_sub(1)?;
        PAIRS.get(at).copied()
    }

    /// The level that the source sends, if it is stated.
    pub fn source(self) -> Option<Level> {
        Some(self.levels()?.0)
    }

    /// The level that passes this link, if it is stated.
    pub fn here(self) -> Option<Level> {
        Some(self.levels()?.1)
    }

    /// The levels that pass this link, of a flow of alternative layers, if they are stated.
    pub fn set(self) -> Option<LevelSet> {
        LevelSet::from_bits(self.0 & !AGAIN).filter(|set| !set.is_empty())
    }

    /// The same behind a switch that lets these of alternative levels through.
    #[must_use]
    pub fn limited_to_set(self, set: LevelSet) -> Passing {
        match self.set() {
            Some(_) => Passing(set.bits() | self.0 & AGAIN),
            None => self,
        }
    }

    /// The same behind a switch that lets `level` through at most.
    #[must_use]
    pub fn limited_to(self, level: Level) -> Passing {
        let Some((source, here)) = self.levels() else {
            return self;
        };
        let limited = Passing::pair(source, here.min(level));
        Passing(limited.0 | self.0 & AGAIN)
    }

    /// The same in a packet of a fast start.
    #[must_use]
    pub fn again(self) -> Passing {
        Passing(self.0 | AGAIN)
    }

    /// Whether the packet is one of a fast start.
    pub fn is_again(self) -> bool {
        self.0 & AGAIN != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_switch_lowers_the_level_of_the_link_and_keeps_that_of_the_source() {
        let levels = [Level::BASE, Level::E1, Level::FULL];
        for source in levels {
            for (first, second) in levels.iter().flat_map(|&a| levels.map(|b| (a, b))) {
                let passing = Passing::of(source).limited_to(first).limited_to(second);
                assert_eq!(passing.source(), Some(source));
                assert_eq!(passing.here(), Some(source.min(first).min(second)));
                for passing in [passing, passing.again()] {
                    assert_eq!(Passing::from_bits(passing.bits()), passing);
                }
                assert!(passing.again().limited_to(first).is_again());
            }
        }
        let none = Passing::default();
        assert_eq!((none.source(), none.here()), (None, None));
        assert_eq!(none.limited_to(Level::BASE), none);
    }

    #[test]
    fn of_alternative_layers_the_set_of_levels_is_stated() {
        for bits in 1..8 {
            let set = LevelSet::from_bits(bits).unwrap();
            let passing = Passing::carrying(set).again();
            assert_eq!(passing.set(), Some(set));
            assert!(Passing::from_bits(passing.bits()).is_again());
            let one = LevelSet::of(Level::E1);
            assert_eq!(passing.limited_to_set(one).set(), Some(one));
        }
        let none = Passing::default();
        assert_eq!(
            (none.set(), none.limited_to_set(LevelSet::ALL)),
            (None, none)
        );
        // No pair of levels.
        assert_eq!(Passing::carrying(LevelSet::ALL).here(), None);
    }
}
