/// A queue of small values in a ring buffer. A `VecDeque` would move each value through memory and read it there
/// before its recently written parts have arrived.
#[derive(Debug)]
pub(crate) struct Ring<T> {
    /// The places, a power of two or none.
    places: Vec<T>,
    head: usize,
    len: usize,
}

impl<T: Copy> Ring<T> {
    pub const fn new() -> Ring<T> {
        Ring {
            places: Vec::new(),
            head: 0,
            len: 0,
        }
    }

    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }

    #[inline(always)]
    fn place(&self, n: usize) -> usize {
        self.head.wrapping_add(n) & self.places.len().wrapping_sub(1)
    }

    /// The value at position `n` from the front.
    #[inline(always)]
    pub fn get(&self, n: usize) -> Option<&T> {
        let place = self.place(n);
        (n < self.len).then(|| self.places.get(place))?
    }

    #[inline(always)]
    pub fn get_mut(&mut self, n: usize) -> Option<&mut T> {
        let place = self.place(n);
        (n < self.len).then(|| self.places.get_mut(place))?
    }

    #[inline(always)]
    pub fn front(&self) -> Option<&T> {
        self.get(0)
    }

    #[inline(always)]
    pub fn front_mut(&mut self) -> Option<&mut T> {
        self.get_mut(0)
    }

    #[inline(always)]
    pub fn back_mut(&mut self) -> Option<&mut T> {
        self.get_mut(self.len.wrapping_sub(1))
    }

    #[inline(always)]
    pub fn push_back(&mut self, value: T) {
        if self.len == self.places.len() {
            self.grow(value);
        }
        debug_assert!(self.places.len().is_power_of_two() && self.len < self.places.len());
        let place = self.place(self.len);
        self.places[place] = value;
        self.len += 1;
    }

    /// Enlarges the ring; new places are filled with `value`, which has no meaning.
    #[cold]
    #[inline(never)]
    fn grow(&mut self, value: T) {
        self.places.rotate_left(self.head);
        self.head = 0;
        let room = (2 * self.places.len()).max(4);
        self.places.resize(room, value);
    }

    /// Removes the front value, if there is one.
    #[inline(always)]
    pub fn drop_front(&mut self) {
        if self.len > 0 {
            self.head = self.place(1);
            self.len -= 1;
        }
    }

    /// Inserts a value before position `n`, or at the end.
    pub fn insert(&mut self, n: usize, value: T) {
        self.push_back(value);
        for n in (n + 1..self.len).rev() {
            let (one, other) = (self.place(n - 1), self.place(n));
            self.places.swap(one, other);
        }
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &T> {
        let (late, early) = self.places.split_at(self.head);
        let wrapped = self.len.saturating_sub(early.len());
        early[..self.len - wrapped].iter().chain(&late[..wrapped])
    }

    pub fn clear(&mut self) {
        self.len = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_queue(steps in prop::collection::vec((0u32..8, 0usize..20), 1..200)) {
            let (mut ring, mut model) = (Ring::new(), VecDeque::new());
            for (n, (what, place)) in steps.into_iter().enumerate() {
                match what {
                    0..4 => {
                        ring.push_back(n);
                        model.push_back(n);
                    }
                    4..6 => {
                        ring.drop_front();
                        model.pop_front();
                    }
                    6 => {
                        let place = place.min(model.len());
                        ring.insert(place, n);
                        model.insert(place, n);
                    }
                    _ if place == 0 => {
                        ring.clear();
                        model.clear();
                    }
                    _ => {}
                }
                prop_assert!(ring.iter().eq(&model));
                prop_assert!(ring.iter().rev().eq(model.iter().rev()));
                prop_assert_eq!(ring.len(), model.len());
                prop_assert_eq!((ring.front(), ring.get(place)), (model.front(), model.get(place)));
                prop_assert_eq!(ring.front_mut(), model.front_mut());
                prop_assert_eq!(ring.back_mut(), model.back_mut());
            }
        }
    }
}
