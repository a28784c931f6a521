use std::fmt;
use std::ops::{AddAssign, Index, IndexMut};

use serde::{Deserialize, Serialize};

/// A layer of a layered medium: base, first and second enhancement (specs/mets.md 1, 2.6).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Layer {
    /// Base layer: I pictures. Reserved end to end, never adapted.
    #[serde(rename = "BL")]
    Base,
    /// First enhancement layer: P pictures.
    E1,
    /// Second enhancement layer: B pictures.
    E2,
}

/// How many enhancement layers a branch gets: 0 = BL, 1 = BL+E1, 2 = BL+E1+E2 (specs/mets.md 2.11).
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug, Serialize, Deserialize,
)]
#[serde(try_from = "u8", into = "u8")]
pub struct Level(u8);

/// A set of levels: of a flow of alternative layers, those that a link carries or a branch wants.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct LevelSet(u8);

/// One value for each of BL, E1, E2.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug, Serialize, Deserialize)]
pub struct PerLayer<T> {
    /// Base layer.
    #[serde(rename = "BL")]
    pub base: T,
    /// First enhancement layer.
    #[serde(rename = "E1")]
    pub e1: T,
    /// Second enhancement layer.
    #[serde(rename = "E2")]
    pub e2: T,
}

impl Layer {
    /// All layers, base first.
    pub const ALL: [Layer; 3] = [Layer::Base, Layer::E1, Layer::E2];

    /// 0 for BL, 1 for E1, 2 for E2.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The level at which this layer is the highest one delivered.
    pub const fn level(self) -> Level {
        Level(self as u8)
    }
}

impl Level {
    /// Base layer only.
    pub const BASE: Level = Level(0);
    /// Base layer and E1.
    pub const E1: Level = Level(1);
    /// All layers.
    pub const FULL: Level = Level(2);

    /// Level `n`, or `None` above 2.
    pub const fn new(n: u8) -> Option<Level> {
        if n <= 2 { Some(Level(n)) } else { None }
    }

    /// 0, 1 or 2.
    pub const fn get(self) -> u8 {
        self.0
    }

    /// One level lower, or BL.
    pub const fn down(self) -> Level {
        Level(self.0.saturating_sub(1))
    }

    /// One level higher, or all layers.
    pub const fn up(self) -> Level {
        if self.0 < 2 { Level(self.0 + 1) } else { self }
    }

    /// Whether `layer` is delivered at this level.
    pub const fn includes(self, layer: Layer) -> bool {
        layer as u8 <= self.0
    }
}

impl LevelSet {
    /// No level.
    pub const EMPTY: LevelSet = LevelSet(0);
    /// Every level.
    pub const ALL: LevelSet = LevelSet(7);

    /// One level alone.
    pub const fn of(level: Level) -> LevelSet {
        LevelSet(1 << level.0)
    }

    /// Every level up to `top`.
    pub const fn up_to(top: Level) -> LevelSet {
        LevelSet((2 << top.0) - 1)
    }

    /// The set whose level `l` is bit `l`; `None` if another bit is set.
    pub const fn from_bits(bits: u8) -> Option<LevelSet> {
        if bits <= LevelSet::ALL.0 {
            Some(LevelSet(bits))
        } else {
            None
        }
    }

    /// Level `l` as bit `l`.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Whether there is no level in it.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether `level` is in it.
    pub const fn contains(self, level: Level) -> bool {
        self.0 & (1 << level.0) != 0
    }

    /// The levels of either.
    #[must_use]
    pub const fn union(self, other: LevelSet) -> LevelSet {
        LevelSet(self.0 | other.0)
    }

    /// Its levels, lowest first.
    pub fn iter(self) -> impl DoubleEndedIterator<Item = Level> {
        let all = [Level::BASE, Level::E1, Level::FULL].into_iter();
        all.filter(move |&level| self.contains(level))
    }

    /// Its highest level.
    pub fn highest(self) -> Option<Level> {
        self.iter().next_back()
    }

    /// The level of these that a receiver gets which wants `level`: the highest that is not above it.
    pub fn nearest(self, level: Level) -> Option<Level> {
        self.iter().rev().find(|&other| other <= level)
    }

    /// The levels that receivers get of `offered` which want these, none above `most`.
    #[must_use]
    pub fn served(self, most: Level, offered: LevelSet) -> LevelSet {
        let gets = |level: Level| offered.nearest(level.min(most));
        let all = self.iter().filter_map(gets);
        all.fold(LevelSet::EMPTY, |set, level| set.union(LevelSet::of(level)))
    }
}

impl TryFrom<u8> for Level {
    type Error = String;
    fn try_from(n: u8) -> Result<Level, String> {
        Level::new(n).ok_or_else(|| format!("level {n} is not 0, 1 or 2"))
    }
}

impl From<Level> for u8 {
    fn from(level: Level) -> u8 {
        level.0
    }
}

impl<T> PerLayer<T> {
    /// Values and their layers, base first.
    pub fn iter(&self) -> impl Iterator<Item = (Layer, &T)> {
        [
            (Layer::Base, &self.base),
            (Layer::E1, &self.e1),
            (Layer::E2, &self.e2),
        ]
        .into_iter()
    }
}

impl PerLayer<u64> {
    /// The sum of all layers, at most the largest number.
    pub fn total(&self) -> u64 {
        self.base.saturating_add(self.e1).saturating_add(self.e2)
    }
}

impl AddAssign for PerLayer<u64> {
    fn add_assign(&mut self, other: PerLayer<u64>) {
        self.base = self.base.saturating_add(other.base);
        self.e1 = self.e1.saturating_add(other.e1);
        self.e2 = self.e2.saturating_add(other.e2);
    }
}

impl<T> Index<Layer> for PerLayer<T> {
    type Output = T;
    fn index(&self, layer: Layer) -> &T {
        match layer {
            Layer::Base => &self.base,
            Layer::E1 => &self.e1,
            Layer::E2 => &self.e2,
        }
    }
}

impl<T> IndexMut<Layer> for PerLayer<T> {
    fn index_mut(&mut self, layer: Layer) -> &mut T {
        match layer {
            Layer::Base => &mut self.base,
            Layer::E1 => &mut self.e1,
            Layer::E2 => &mut self.e2,
        }
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Layer::Base => "BL",
            Layer::E1 => "E1",
            Layer::E2 => "E2",
        })
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            0 => "BL",
            1 => "BL+E1",
            _ => "BL+E1+E2",
        })
    }
}

impl fmt::Display for LevelSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for level in self.iter() {
            write!(f, "{separator}{}", level.get())?;
            separator = ",";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receivers_get_the_nearest_level_that_is_offered_below_them() {
        let set = |bits| LevelSet::from_bits(bits).unwrap();
        assert_eq!(LevelSet::from_bits(8), None);
        assert_eq!(LevelSet::up_to(Level::E1), set(0b011));
        assert_eq!(set(0b101).to_string(), "0,2");
        // Wanted, the most that may be had, offered, served.
        for (wanted, most, offered, served) in [
            (0b101, Level::FULL, 0b111, 0b101),
            (0b101, Level::E1, 0b111, 0b011),
            (0b101, Level::BASE, 0b111, 0b001),
            (0b100, Level::FULL, 0b011, 0b010),
            (0b010, Level::FULL, 0b101, 0b001),
            (0b001, Level::FULL, 0b110, 0b000),
            (0b111, Level::FULL, 0b000, 0b000),
        ] {
            let got = set(wanted).served(most, set(offered));
            assert_eq!(got, set(served), "{wanted:03b} {most} {offered:03b}");
        }
    }
}
