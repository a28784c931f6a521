use std::collections::VecDeque;

/// A queue that is empty or has one item most of the time, which then needs no memory of its own.
#[derive(Debug)]
#[allow(clippy::box_collection)]
pub struct Line<T> {
    first: Option<T>,
    /// Those behind the first; empty if there is no first.
    rest: Option<Box<VecDeque<T>>>,
}

impl<T> Default for Line<T> {
    fn default() -> Line<T> {
        Line {
            first: None,
            rest: None,
        }
    }
}

impl<T> Line<T> {
    /// Appends an item.
    #[inline]
    pub fn push_back(&mut self, item: T) {
        match self.first {
            None => self.first = Some(item),
            Some(_) => self.rest.get_or_insert_default().push_back(item),
        }
    }

    /// The first item.
    #[inline]
    pub fn front(&self) -> Option<&T> {
        self.first.as_ref()
    }

    /// Takes the first item.
    #[inline]
    pub fn pop_front(&mut self) -> Option<T> {
        let first = self.first.take()?;
        if let Some(rest) = &mut self.rest {
            self.first = rest.pop_front();
        }
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use layercast_core::Stream;

    #[test]
    fn behaves_like_a_queue() {
        let (mut line, mut model) = (Line::default(), VecDeque::new());
        let mut random = Stream::new(1, "line");
        for n in 0..10_000 {
            if random.below(2) == 0 {
                line.push_back(n);
                model.push_back(n);
            } else {
                assert_eq!(line.pop_front(), model.pop_front());
            }
            assert_eq!(line.front(), model.front());
        }
    }
}
