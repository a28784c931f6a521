use serde::{Deserialize, Serialize};

/// What octets of a coded video are to its pictures, from those that everything needs to those that only one picture
/// needs (specs/mpeg-picture-quality.md 2.1).
///
/// The rank is the order of discard, and the value of the two bits of ExCLP: a switch that looks at the upper bit alone
/// (CLP) still tells [`System`](DataClass::System) and [`Intra`](DataClass::Intra) from the others.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug, Serialize, Deserialize,
)]
pub enum DataClass {
    /// Headers of packets, sequences, pictures and slices, tables, and sound: discarded last.
    #[default]
    #[serde(rename = "S")]
    System,
    /// Data of I pictures.
    #[serde(rename = "I")]
    Intra,
    /// Data of P pictures.
    #[serde(rename = "P")]
    Predicted,
    /// Data of B pictures, and padding: discarded first.
    #[serde(rename = "B")]
    Bidirectional,
}

impl DataClass {
    /// All classes, the most important first.
    pub const ALL: [DataClass; 4] = [
        DataClass::System,
        DataClass::Intra,
        DataClass::Predicted,
        DataClass::Bidirectional,
    ];

    /// The order of discard: 0 last, 3 first.
    pub const fn rank(self) -> u8 {
        self as u8
    }

    /// The class of a rank; bits above the second are ignored.
    pub const fn of_rank(rank: u8) -> DataClass {
        DataClass::ALL[(rank & 3) as usize]
    }

    /// As a place in an array of four.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The cell loss priority bit: the upper bit of the rank.
    pub const fn clp(self) -> bool {
        self.rank() & 2 != 0
    }

    /// The lower bit of the rank.
    pub const fn low_bit(self) -> bool {
        self.rank() & 1 != 0
    }

    /// The class one step nearer to discard; the last one stays.
    #[must_use]
    pub const fn demoted(self) -> DataClass {
        match self {
            DataClass::System => DataClass::Intra,
            DataClass::Intra => DataClass::Predicted,
            DataClass::Predicted | DataClass::Bidirectional => DataClass::Bidirectional,
        }
    }

    /// Its letter: S, I, P or B.
    pub const fn letter(self) -> char {
        match self {
            DataClass::System => 'S',
            DataClass::Intra => 'I',
            DataClass::Predicted => 'P',
            DataClass::Bidirectional => 'B',
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_the_two_bits_of_table_1() {
        // Class, CLP, second bit, as in Table 1 of the paper.
        let table = [('S', 0, 0), ('I', 0, 1), ('P', 1, 0), ('B', 1, 1)];
        for (rank, (class, row)) in DataClass::ALL.into_iter().zip(table).enumerate() {
            let bits = (u8::from(class.clp()), u8::from(class.low_bit()));
            assert_eq!((class.letter(), bits.0, bits.1), row);
            assert_eq!(usize::from(class.rank()), rank);
            assert_eq!(DataClass::of_rank(bits.0 << 1 | bits.1), class);
        }
    }

    #[test]
    fn a_demoted_class_is_discarded_one_step_earlier() {
        let steps = DataClass::ALL.map(|class| class.demoted().rank());
        assert_eq!(steps, [1, 2, 3, 3]);
    }
}
