/// A set of numbers kept as disjoint half-open ranges in order, such as the octets of a stream that have
/// arrived or are selectively acknowledged.
///
/// Adjacent ranges are merged. Memory grows with the number of gaps, so code that inserts numbers from the
/// network bounds [`len`](RangeSet::len).
///
/// ```
/// use layercast_core::RangeSet;
///
/// let mut arrived = RangeSet::new();
/// arrived.insert(0, 100);
/// arrived.insert(150, 200);
/// assert_eq!(arrived.gaps(0, 200).collect::<Vec<_>>(), [(100, 150)]);
/// arrived.insert(100, 150);
/// assert_eq!(arrived.holding(42), Some((0, 200)));
/// ```
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct RangeSet(Vec<(u64, u64)>);

impl RangeSet {
    /// The empty set.
    pub const fn new() -> RangeSet {
        RangeSet(Vec::new())
    }

    /// Adds `from..to`; an empty range adds nothing.
    pub fn insert(&mut self, from: u64, to: u64) {
        if from >= to {
            return;
        }
        let first = self.0.partition_point(|&(_, end)| end < from);
        let last = self.0.partition_point(|&(start, _)| start <= to);
        if first == last {
            self.0.insert(first, (from, to));
            debug_assert!(self.is_separate(first), "ranges touch");
            return;
        }
        let merged = (from.min(self.0[first].0), to.max(self.0[last - 1].1));
        self.0[first] = merged;
        self.0.drain(first + 1..last);
        debug_assert!(self.is_separate(first), "ranges touch");
    }

    /// Whether the range at `place` touches neither of its neighbours.
    fn is_separate(&self, place: usize) -> bool {
        let (start, end) = self.0[place];
        let before = place.checked_sub(1).is_none_or(|n| self.0[n].1 < start);
        start < end && before && self.0.get(place + 1).is_none_or(|next| end < next.0)
    }

    /// Removes everything below `at`.
    #[inline]
    pub fn remove_below(&mut self, at: u64) {
        if self.0.first().is_some_and(|&(_, end)| end <= at) {
            let gone = self.0.partition_point(|&(_, end)| end <= at);
            self.0.drain(..gone);
        }
        if let Some(first) = self.0.first_mut() {
            first.0 = first.0.max(at);
            debug_assert!(first.0 < first.1, "an empty range");
        }
    }

    /// Removes everything.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// The range that holds `at`.
    #[inline]
    pub fn holding(&self, at: u64) -> Option<(u64, u64)> {
        let place = self.0.partition_point(|&(_, end)| end <= at);
        self.0.get(place).copied().filter(|&(start, _)| start <= at)
    }

    /// What of `from..to` is not in the set, in order.
    #[inline]
    pub fn gaps(&self, from: u64, to: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        let place = self.0.partition_point(|&(_, end)| end <= from);
        let mut at = from;
        let ends = self.0[place..].iter().copied().chain([(to, to)]);
        ends.filter_map(move |(start, end)| {
            let gap = (at, start.min(to));
            at = at.max(end);
            (gap.0 < gap.1).then_some(gap)
        })
    }

    /// How many numbers of `from..to` are in the set.
    #[inline]
    pub fn covered(&self, from: u64, to: u64) -> u64 {
        let place = self.0.partition_point(|&(_, end)| end <= from);
        let inside = self.0[place..].iter().take_while(|range| range.0 < to);
        inside
            .map(|&(start, end)| end.min(to) - start.max(from))
            .sum()
    }

    /// The ranges in order.
    #[inline]
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (u64, u64)> + ExactSizeIterator + '_ {
        self.0.iter().copied()
    }

    /// Number of ranges.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing is in the set.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Bytes of memory behind the set.
    pub fn memory(&self) -> usize {
        self.0.capacity() * size_of::<(u64, u64)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stream;

    #[test]
    fn agrees_with_a_set_of_single_numbers() {
        let mut random = Stream::new(1, "ranges");
        for _ in 0..200 {
            let (mut set, mut model) = (RangeSet::new(), [false; 64]);
            for _ in 0..20 {
                let (from, len) = (random.below(60), random.below(8));
                let to = (from + len).min(64);
                if random.chance(0.1) {
                    set.remove_below(from);
                    model[..from as usize].fill(false);
                } else {
                    set.insert(from, to);
                    model[from as usize..to as usize].fill(true);
                }
                check(&set, &model, from, to);
            }
        }
    }

    fn check(set: &RangeSet, model: &[bool; 64], from: u64, to: u64) {
        for at in 0..64 {
            let holding = set.holding(at);
            assert_eq!(holding.is_some(), model[at as usize]);
            assert!(holding.is_none_or(|(start, end)| (start..end).contains(&at)));
        }
        let apart = |pair: &[(u64, u64)]| pair[0].1 < pair[1].0;
        assert!(set.iter().collect::<Vec<_>>().windows(2).all(apart));
        let inside = &model[from as usize..to as usize];
        let held = inside.iter().filter(|&&held| held).count() as u64;
        assert_eq!(set.covered(from, to), held);
        let missing: u64 = set.gaps(from, to).map(|(start, end)| end - start).sum();
        assert_eq!(missing + held, to - from);
        assert!(set.gaps(from, to).all(|(start, _)| !model[start as usize]));
    }
}
