use layercast_core::DataClass;
use serde::{Deserialize, Serialize};

/// Number of a virtual circuit on one link; it may differ from link to link.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Vcid(pub u16);

/// Handle of the driver for the packet or signalling message that a cell belongs to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FrameId(pub u32);

/// Flags of a cell.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct CellFlags(u8);

impl CellFlags {
    /// First cell of its AAL5 frame.
    pub const FIRST: CellFlags = CellFlags(1);
    /// Last cell of its AAL5 frame (ATM user to user).
    pub const LAST: CellFlags = CellFlags(2);
    /// Eligible for discard (CLP = 1).
    pub const LOW: CellFlags = CellFlags(4);
    /// The second bit of ExCLP: discarded before cells of the same CLP without it.
    pub const SECOND: CellFlags = CellFlags(8);

    /// The union of both sets of flags.
    pub const fn with(self, other: CellFlags) -> CellFlags {
        CellFlags(self.0 | other.0)
    }

    /// The flags without those of `other`.
    pub const fn without(self, other: CellFlags) -> CellFlags {
        CellFlags(self.0 & !other.0)
    }

    /// Whether all flags of `other` are set.
    pub const fn has(self, other: CellFlags) -> bool {
        self.0 & other.0 == other.0
    }
}

/// A cell in the simulator: eight bytes that identify its frame and circuit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cell {
    /// The frame it belongs to.
    pub frame: FrameId,
    /// The circuit on its current link.
    pub vc: Vcid,
    /// Its flags.
    pub flags: CellFlags,
}

impl Cell {
    /// Cell number `index` of a frame of `count` cells.
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

    /// Whether it is the first cell of its frame.
    pub const fn is_first(self) -> bool {
        self.flags.has(CellFlags::FIRST)
    }

    /// Whether it is eligible for discard.
    pub const fn is_low(self) -> bool {
        self.flags.has(CellFlags::LOW)
    }

    /// Its class by CLP and the second bit of ExCLP (specs/mpeg-picture-quality.md 2.1).
    pub const fn class(self) -> DataClass {
        let clp = self.flags.has(CellFlags::LOW) as u8;
        DataClass::of_rank(clp << 1 | self.flags.has(CellFlags::SECOND) as u8)
    }

    /// The cell with CLP and the second bit of ExCLP of this class.
    #[must_use]
    pub const fn with_class(self, class: DataClass) -> Cell {
        let mut flags = self.flags.without(CellFlags::LOW.with(CellFlags::SECOND));
        if class.clp() {
            flags = flags.with(CellFlags::LOW);
        }
        if class.low_bit() {
            flags = flags.with(CellFlags::SECOND);
        }
        Cell { flags, ..self }
    }

    /// Whether it is the last cell of its frame.
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

    #[test]
    fn the_class_is_in_two_bits_and_changes_nothing_else() {
        let cell = Cell::of(FrameId(7), Vcid(1), 1, 2);
        assert_eq!(cell.class(), DataClass::System);
        for from in DataClass::ALL {
            for to in DataClass::ALL {
                let marked = cell.with_class(from).with_class(to);
                assert_eq!((marked.class(), marked.is_low()), (to, to.clp()));
                assert!(marked.is_last() && !marked.is_first());
            }
        }
    }
}
