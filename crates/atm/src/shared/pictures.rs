use layercast_core::DataClass;

/// Pictures of a circuit that are remembered: more than wait in any buffer.
const REMEMBERED: usize = 64;

/// What is known of a picture.
#[derive(Clone, Copy, Debug)]
struct Picture {
    class: DataClass,
    /// It refers to no other.
    is_key: bool,
    /// A part of it is lost, or of one that it refers to.
    is_useless: bool,
}

/// The pictures of a circuit in the order in which they are sent, and which of them can still be decoded.
///
/// A B picture refers to the two pictures of other classes that were sent before it; another picture to the one before it that is
/// not of a lower class: a P picture to the I or P picture before it. Key pictures refer to none.
#[derive(Clone, Debug)]
pub(super) struct Pictures {
    last: [Picture; REMEMBERED],
    /// The number of the newest; 0 before the first.
    newest: u32,
}

impl Default for Pictures {
    fn default() -> Pictures {
        let none = Picture {
            class: DataClass::System,
            is_key: true,
            is_useless: false,
        };
        Pictures {
            last: [none; REMEMBERED],
            newest: 0,
        }
    }
}

impl Pictures {
    /// The number of the newest picture.
    pub fn newest(&self) -> u32 {
        self.newest
    }

    /// The class of the newest picture; S before the first.
    pub fn class(&self) -> DataClass {
        self.at(self.newest).class
    }

    /// Whether a picture cannot be decoded, as far as it is remembered; 0 is none.
    pub fn is_useless(&self, picture: u32) -> bool {
        self.remembers(picture) && self.at(picture).is_useless
    }

    fn remembers(&self, picture: u32) -> bool {
        let age = self.newest.wrapping_sub(picture);
        picture != 0 && (age as usize) < REMEMBERED
    }

    /// A picture begins.
    pub fn begin(&mut self, class: DataClass, is_key: bool) {
        self.newest = self.newest.wrapping_add(1).max(1);
        self.last[place(self.newest)] = Picture {
            class,
            is_key,
            is_useless: false,
        };
        self.last[place(self.newest)].is_useless = self.refers_to_useless(self.newest);
    }

    /// A part of a picture is lost: it is useless, and so is what refers to it. `false` if it was before.
    pub fn lose(&mut self, picture: u32) -> bool {
        if !self.remembers(picture) || self.at(picture).is_useless {
            return false;
        }
        self.last[place(picture)].is_useless = true;
        for number in picture + 1..=self.newest {
            let is_useless = self.refers_to_useless(number);
            self.last[place(number)].is_useless |= is_useless;
        }
        true
    }

    fn refers_to_useless(&self, picture: u32) -> bool {
        let Picture { class, is_key, .. } = self.at(picture);
        if is_key {
            return false;
        }
        let (highest, count) = match class {
            DataClass::Bidirectional => (DataClass::Predicted, 2),
            class => (class, 1),
        };
        let before = (1..picture).rev().take_while(|&it| self.remembers(it));
        let mut references = before
            .filter(|&it| self.at(it).class <= highest)
            .take(count);
        references.any(|it| self.at(it).is_useless)
    }

    fn at(&self, number: u32) -> Picture {
        self.last[place(number)]
    }
}

fn place(number: u32) -> usize {
    number as usize % REMEMBERED
}

#[cfg(test)]
mod tests {
    use super::*;
    use DataClass::{Bidirectional, Intra, Predicted};

    /// Which pictures are useless at the end: `-` each. The picture `lost` loses a part while picture `at` comes.
    fn left(order: &str, lost: u32, at: u32) -> String {
        let mut pictures = Pictures::default();
        let mut found = Vec::new();
        for (number, letter) in (1..).zip(order.chars()) {
            let class = match letter {
                'I' | 'i' => Intra,
                'P' => Predicted,
                _ => Bidirectional,
            };
            pictures.begin(class, letter == 'I');
            if number == at {
                pictures.lose(lost);
            }
            found.push(number);
        }
        let useless = |number: &u32| pictures.at(*number).is_useless;
        found
            .iter()
            .map(|it| if useless(it) { '-' } else { '+' })
            .collect()
    }

    #[test]
    fn what_refers_to_a_lost_picture_is_useless_whenever_the_loss_is_known() {
        let order = "IBBPBBPBBIBBPBB";
        for at in [4, 6, 9] {
            // The first P takes all up to the next I with it, and the B pictures behind that, which refer to it, too.
            assert_eq!(left(order, 4, at), "+++------+--+++", "at {at}");
        }
        assert_eq!(left(order, 2, 3), "+-+++++++++++++");
        assert_eq!(left(order, 7, 12), "++++++---+--+++");
        assert_eq!(left(order, 1, 12), "---------+--+++");
        assert_eq!(left("IPPIPP", 2, 2), "+--+++");
        assert_eq!(left("IIII", 2, 3), "+-++");
        // Pictures of a base layer that are no keys refer to each other, and not to those of higher layers.
        assert_eq!(left("IPiPiPI", 2, 2), "+-+++++");
        assert_eq!(left("IPiPiPI", 3, 4), "++----+");
    }

    #[test]
    fn old_pictures_and_none_are_no_loss() {
        let mut pictures = Pictures::default();
        assert!(!pictures.lose(0) && !pictures.is_useless(0));
        (0..100).for_each(|_| pictures.begin(Predicted, false));
        assert!(!pictures.lose(30) && !pictures.is_useless(100));
        assert!(pictures.lose(40) && pictures.is_useless(100));
        assert!(!pictures.lose(50), "it was useless before");
    }
}
