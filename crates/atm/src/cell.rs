use serde::{Deserialize, Serialize};

/// A virtual circuit on one link; two links of a circuit need not call it the same.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Vcid(pub u16);

/// What a cell is a part of: a handle of the driver, which keeps the packet or the signalling message.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FrameId(pub u32);

/// The marks of a cell.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct CellFlags(u8);

impl CellFlags {
    /// First of its AAL5 frame.
    pub const FIRST: CellFlags = CellFlags(1);
    /// Last of its AAL5 frame (ATM user to user).
    pub const LAST: CellFlags = CellFlags(2);
    /// May be discarded first (CLP = 1).
    pub const LOW: CellFlags = CellFlags(4);

    /// All the marks of both.
    pub const fn with(self, other: CellFlags) -> CellFlags {
        CellFlags(self.0 | other.0)
    }

    /// Its marks but for those of `other`.
    pub const fn without(self, other: CellFlags) -> CellFlags {
        CellFlags(self.0 & !other.0)
    }

    /// Whether it has all the marks of `other`.
    pub const fn has(self, other: CellFlags) -> bool {
        self.0 & other.0 == other.0
    }
}

/// A cell in the simulator: eight bytes that say where it belongs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cell {
    /// The frame it is a part of.
    pub frame: FrameId,
    /// The circuit on the link where it is now.
    pub vc: Vcid,
    /// Its marks.
    pub flags: CellFlags,
}

impl Cell {
    /// The `index`th of the `count` cells of a frame.
    pub const fn of(frame: FrameId, vc: Vcid, index: u32, count: u32) -> Cell {
        let first = if index == 0 {
            CellFlags::FIRST
        } else {
            CellFlags(0)
        };
        let last = if index + 1 == count {
            CellFlags::LAST
        } else {
            CellFlags(0)
        };
        Cell {
            frame,
            vc,
            flags: first.with(last),
        }
    }

    /// Whether it is the first of its frame.
    pub const fn is_first(self) -> bool {
        self.flags.has(CellFlags::FIRST)
    }

    /// Whether it may be discarded first.
    pub const fn is_low(self) -> bool {
        self.flags.has(CellFlags::LOW)
    }

    /// Whether it is the last of its frame.
    pub const fn is_last(self) -> bool {
        self.flags.has(CellFlags::LAST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_small_and_knows_its_place() {
        assert_eq!(size_of::<Cell>(), 8);
        let cell = |index, count| Cell::of(FrameId(7), Vcid(1), index, count);
        assert!(cell(0, 1).is_first() && cell(0, 1).is_last());
        assert!(cell(0, 2).is_first() && !cell(0, 2).is_last());
        assert!(!cell(1, 2).is_first() && cell(1, 2).is_last());
    }
}
