use std::collections::VecDeque;

use layercast_core::DataClass;

use super::source::{DISTANCE, class_of};

/// Pictures after which no cell of one can still be lost: two GOPs, more than any buffer holds.
const SETTLED: usize = 24;

/// Which pictures of a video can be decoded: those that came whole, with all that they refer to.
///
/// A P picture refers to the reference before it, a B picture to the two that were sent before it: GOPs are open.
#[derive(Debug)]
pub(super) struct Decoding {
    /// The pictures that are not settled, from this one on.
    first: u32,
    open: VecDeque<Picture>,
    /// Whether the last two references can be decoded, the younger one last.
    references: [bool; 2],
    /// Pictures, those that can be decoded, and the cells of these.
    counts: [u64; 3],
}

#[derive(Clone, Copy, Debug)]
struct Picture {
    cells: u64,
    is_whole: bool,
    is_counted: bool,
}

impl Default for Decoding {
    fn default() -> Decoding {
        Decoding {
            first: 0,
            open: VecDeque::new(),
            references: [true; 2],
            counts: [0; 3],
        }
    }
}

impl Decoding {
    /// A cell of a picture was sent; pictures come in order. It counts if all its cells do.
    pub fn sent(&mut self, picture: u32, is_counted: bool) {
        if picture == self.first + self.open.len() as u32 {
            self.open.push_back(Picture {
                cells: 0,
                is_whole: true,
                is_counted,
            });
            if self.open.len() > SETTLED {
                self.settle();
            }
        }
        if let Some(last) = self.open.back_mut() {
            last.cells += 1;
        }
    }

    /// A cell of a picture was lost.
    pub fn lost(&mut self, picture: u32) {
        let place = picture.wrapping_sub(self.first) as usize;
        debug_assert!(
            place < self.open.len(),
            "a cell of a picture that is settled"
        );
        if let Some(picture) = self.open.get_mut(place) {
            picture.is_whole = false;
        }
    }

    /// Pictures, those that can be decoded, and the cells of these.
    pub fn count(&self) -> [u64; 3] {
        self.counts
    }

    /// The oldest picture is settled.
    fn settle(&mut self) {
        let Some(picture) = self.open.pop_front() else {
            return;
        };
        let [older, younger] = self.references;
        let can_decode = picture.is_whole
            && match class_of(self.first) {
                DataClass::Intra => true,
                DataClass::Predicted => younger,
                _ => older && younger,
            };
        if self.first.is_multiple_of(DISTANCE) {
            self.references = [younger, can_decode];
        }
        if picture.is_counted {
            let [pictures, decodable, cells] = &mut self.counts;
            *pictures += 1;
            *decodable += u64::from(can_decode);
            *cells += if can_decode { picture.cells } else { 0 };
        }
        self.first += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pictures of two GOPs that can be decoded if cells of these are lost, `+` each.
    fn decodable(lost: &[u32]) -> String {
        let mut decoding = Decoding::default();
        let mut found = String::new();
        for picture in 0..24 + SETTLED as u32 {
            let before = decoding.count();
            decoding.sent(picture, true);
            let after = decoding.count();
            if after[0] > before[0] {
                found.push(if after[1] > before[1] { '+' } else { '-' });
            }
            if lost.contains(&picture) {
                decoding.lost(picture);
            }
        }
        found
    }

    #[test]
    fn what_refers_to_a_lost_picture_cannot_be_decoded() {
        let whole = "+".repeat(24);
        assert_eq!(decodable(&[]), whole);
        // I BB P BB P BB P BB | I BB ..
        assert_eq!(decodable(&[1]), format!("+-{}", &whole[2..]));
        // The last P: its B pictures, and those behind the next I picture, which refer to it.
        assert_eq!(decodable(&[9]), "+++++++++---+--+++++++++");
        // The first P takes all up to the next I picture with it.
        assert_eq!(decodable(&[3]), "+++---------+--+++++++++");
        assert_eq!(decodable(&[0]), "------------+--+++++++++");
    }
}
