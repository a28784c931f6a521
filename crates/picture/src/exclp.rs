use layercast_core::DataClass;
use layercast_wire::{Cell, Pti};

/// Where the two bits of a class are (specs/mpeg-picture-quality.md 2.2). The upper one is always CLP.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub enum ExclpMapping {
    /// The lower bit is the middle bit of the payload type (EFCI). AAL5 stays as it is; switches must not set the bit on this
    /// circuit.
    #[default]
    Efci,
    /// The lower bit is the last one of the payload type (AUU), next to CLP, as the paper has it. It marks the end of an AAL5
    /// frame, so that none can be found on such a circuit.
    AuuLiteral,
    /// The class travels beside the cell; the cell has CLP alone.
    SideBand,
}

impl ExclpMapping {
    /// Whether the end of an AAL5 frame can still be marked.
    pub fn keeps_frames(self) -> bool {
        self != ExclpMapping::AuuLiteral
    }

    /// Puts a class into the header of a cell; cells of management and resource management have none and stay as they are.
    pub fn stamp(self, cell: &mut Cell, class: DataClass) {
        if !cell.pti.is_data() {
            return;
        }
        cell.clp = class.clp();
        cell.pti = match self {
            ExclpMapping::Efci => Pti::data(class.low_bit(), cell.pti.auu()),
            ExclpMapping::AuuLiteral => Pti::data(cell.pti.congestion(), class.low_bit()),
            ExclpMapping::SideBand => cell.pti,
        };
    }

    /// The class in the header of a cell: with [`SideBand`](ExclpMapping::SideBand) S or P, as far as CLP tells.
    pub fn read(self, cell: &Cell) -> DataClass {
        let low = match self {
            ExclpMapping::Efci => cell.pti.congestion(),
            ExclpMapping::AuuLiteral => cell.pti.auu(),
            ExclpMapping::SideBand => false,
        };
        DataClass::of_rank(u8::from(cell.clp) << 1 | u8::from(low))
    }
}

/// A cell and its class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MarkedCell {
    /// The cell.
    pub cell: Cell,
    /// Its class.
    pub class: DataClass,
}

impl MarkedCell {
    /// A cell from a link: the class is in its header.
    pub fn of(cell: Cell, mapping: ExclpMapping) -> MarkedCell {
        let class = mapping.read(&cell);
        MarkedCell { cell, class }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(auu: bool) -> Cell {
        Cell {
            vpi: 0,
            vci: 40,
            pti: Pti::data(false, auu),
            clp: false,
            payload: [0; 48],
        }
    }

    #[test]
    fn efci_keeps_the_end_of_the_frame() {
        for class in DataClass::ALL {
            for auu in [false, true] {
                let mut marked = cell(auu);
                ExclpMapping::Efci.stamp(&mut marked, class);
                assert_eq!(
                    (ExclpMapping::Efci.read(&marked), marked.pti.auu()),
                    (class, auu)
                );
                // Octet 4 of the header: VCI, PTI, CLP.
                let low = marked.encode()[3] & 0x0F;
                let expected =
                    u8::from(class.low_bit()) << 2 | u8::from(auu) << 1 | u8::from(class.clp());
                assert_eq!(low, expected);
            }
        }
    }

    #[test]
    fn the_literal_mapping_takes_the_bit_beside_clp() {
        for class in DataClass::ALL {
            let mut marked = cell(true);
            ExclpMapping::AuuLiteral.stamp(&mut marked, class);
            assert_eq!(ExclpMapping::AuuLiteral.read(&marked), class);
            let expected = u8::from(class.low_bit()) << 1 | u8::from(class.clp());
            assert_eq!(marked.encode()[3] & 0x0F, expected);
        }
        assert!(!ExclpMapping::AuuLiteral.keeps_frames());
    }

    #[test]
    fn a_switch_that_knows_clp_alone_tells_headers_and_i_from_p_and_b() {
        for mapping in [
            ExclpMapping::Efci,
            ExclpMapping::AuuLiteral,
            ExclpMapping::SideBand,
        ] {
            let clp = DataClass::ALL.map(|class| {
                let mut marked = cell(false);
                mapping.stamp(&mut marked, class);
                marked.clp
            });
            assert_eq!(clp, [false, false, true, true], "{mapping:?}");
        }
    }

    #[test]
    fn cells_of_management_are_not_marked() {
        let mut oam = cell(false);
        oam.pti = Pti::new(5);
        let before = oam;
        ExclpMapping::Efci.stamp(&mut oam, DataClass::Bidirectional);
        assert_eq!(oam, before);
    }
}
