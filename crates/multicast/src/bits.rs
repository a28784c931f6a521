/// Numbers of a chunk of a large set.
const CHUNK: u64 = 4_096;
/// Sets of at most this many numbers are one chunk, which is allocated with the set.
const SMALL: u64 = 1 << 16;

/// A set of numbers below a bound, one bit each.
///
/// A large set is kept in chunks of 4,096 numbers. Chunks without a number and chunks with all numbers take no
/// memory for their bits, so the set of the packets of a file of 1 TB takes 4 MB before the first packet.
#[derive(Clone, Default, Debug)]
pub struct Bits {
    chunks: Box<[Chunk]>,
    /// Numbers of a chunk, a multiple of 64.
    chunk: u64,
    len: u64,
    ones: u64,
}

#[derive(Clone, Debug)]
enum Chunk {
    Empty,
    Full,
    Mixed(Box<[u64]>),
}

impl Bits {
    /// The empty set of numbers below `len`.
    pub fn new(len: u64) -> Bits {
        let (chunk, first) = match len <= SMALL {
            true => {
                let words = len.div_ceil(64).max(1);
                let bits = vec![0; words as usize].into();
                (words * 64, Chunk::Mixed(bits))
            }
            false => (CHUNK, Chunk::Empty),
        };
        Bits {
            chunks: vec![first; len.div_ceil(chunk) as usize].into(),
            chunk,
            len,
            ones: 0,
        }
    }

    /// All numbers below `len`.
    pub fn full(len: u64) -> Bits {
        let mut bits = Bits::new(len);
        bits.set_range(0, len);
        bits
    }

    /// Adds a number; returns false if it was present or is not below the bound.
    #[inline]
    pub fn set(&mut self, at: u64) -> bool {
        if at >= self.len {
            return false;
        }
        let (index, within) = (at / self.chunk, at % self.chunk);
        let words = self.words(index);
        let chunk = &mut self.chunks[index as usize];
        if let Chunk::Empty = chunk {
            *chunk = Chunk::Mixed(vec![0; words].into());
        }
        let Chunk::Mixed(bits) = chunk else {
            return false;
        };
        let (word, bit) = (&mut bits[(within / 64) as usize], 1 << (within % 64));
        if *word & bit != 0 {
            return false;
        }
        *word |= bit;
        self.ones += 1;
        // A complete chunk does not need its bits.
        let is_word_full = *word == u64::MAX && self.len > SMALL;
        if is_word_full && bits.iter().all(|it| *it == u64::MAX) {
            *chunk = Chunk::Full;
        }
        true
    }

    /// Adds the numbers `from..to` that are below the bound.
    pub fn set_range(&mut self, from: u64, to: u64) {
        let to = to.min(self.len);
        let mut at = from;
        while at < to {
            let index = at / self.chunk;
            let (first, end) = (index * self.chunk, ((index + 1) * self.chunk).min(self.len));
            let upto = to.min(end);
            if at == first && upto == end && self.len > SMALL {
                self.ones += (end - first) - self.count_of(index, end - first);
                self.chunks[index as usize] = Chunk::Full;
            } else {
                (at..upto).for_each(|number| {
                    self.set(number);
                });
            }
            at = upto;
        }
        debug_assert!(self.ones <= self.len, "each number counts once");
    }

    /// Number of words of a chunk.
    fn words(&self, index: u64) -> usize {
        let numbers = (self.len - index * self.chunk).min(self.chunk);
        numbers.div_ceil(64) as usize
    }

    /// How many of the `all` numbers of a chunk are in the set.
    fn count_of(&self, index: u64, all: u64) -> u64 {
        match &self.chunks[index as usize] {
            Chunk::Empty => 0,
            Chunk::Full => all,
            Chunk::Mixed(bits) => bits.iter().map(|it| u64::from(it.count_ones())).sum(),
        }
    }

    /// Whether a number is in the set.
    #[inline]
    pub fn get(&self, at: u64) -> bool {
        if at >= self.len {
            return false;
        }
        let within = at % self.chunk;
        match &self.chunks[(at / self.chunk) as usize] {
            Chunk::Empty => false,
            Chunk::Full => true,
            Chunk::Mixed(bits) => bits[(within / 64) as usize] >> (within % 64) & 1 == 1,
        }
    }

    /// How many numbers are in the set.
    #[inline]
    pub fn count(&self) -> u64 {
        self.ones
    }

    /// The bound.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether the bound is 0.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether all numbers below the bound are in the set.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.ones == self.len
    }

    /// Removes all numbers.
    pub fn clear(&mut self) {
        *self = Bits::new(self.len);
    }

    /// The first number from `at` on that is not in the set, or the bound.
    pub fn next_zero(&self, at: u64) -> u64 {
        self.next(at, self.len, false)
    }

    /// The first number from `at` on that is in the set, or the bound.
    pub fn next_one(&self, at: u64) -> u64 {
        self.next(at, self.len, true)
    }

    /// The first number of `at..to` that is in the set, or not in it; `to` if there is none.
    fn next(&self, at: u64, to: u64, is_in: bool) -> u64 {
        let to = to.min(self.len);
        let mut at = at;
        while at < to {
            let index = at / self.chunk;
            let first = index * self.chunk;
            let found = match &self.chunks[index as usize] {
                Chunk::Empty => (!is_in).then_some(at),
                Chunk::Full => is_in.then_some(at),
                Chunk::Mixed(bits) => {
                    next_in(bits, at - first, to - first, is_in).map(|it| it + first)
                }
            };
            if let Some(found) = found {
                return found.min(to);
            }
            at = first + self.chunk;
        }
        to
    }

    /// Ranges of numbers of `from..to` that are not in the set.
    pub fn gaps(&self, from: u64, to: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        let to = to.min(self.len);
        let mut at = from;
        core::iter::from_fn(move || {
            let start = self.next(at, to, false);
            if start >= to {
                return None;
            }
            at = self.next(start, to, true);
            Some((start, at))
        })
    }

    /// Ranges of numbers of `from..to` that are in the set.
    pub fn runs(&self, from: u64, to: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        let to = to.min(self.len);
        let mut at = from;
        core::iter::from_fn(move || {
            let start = self.next(at, to, true);
            if start >= to {
                return None;
            }
            at = self.next(start, to, false);
            Some((start, at))
        })
    }
}

/// The first bit of `at..to` that is set, or not set.
fn next_in(words: &[u64], at: u64, to: u64, is_set: bool) -> Option<u64> {
    let flip = if is_set { 0 } else { u64::MAX };
    let mut mask = u64::MAX << (at % 64);
    let end = to.div_ceil(64).min(words.len() as u64);
    for word in (at / 64)..end {
        let bits = (words[word as usize] ^ flip) & mask;
        if bits != 0 {
            return Some(word * 64 + u64::from(bits.trailing_zeros()));
        }
        mask = u64::MAX;
    }
    None
}

impl PartialEq for Bits {
    fn eq(&self, other: &Bits) -> bool {
        self.len == other.len
            && self.ones == other.ones
            && self.gaps(0, self.len).eq(other.gaps(0, other.len))
    }
}

impl Eq for Bits {}

#[cfg(test)]
mod tests {
    use super::*;
    use layercast_core::Stream;

    #[test]
    fn agrees_with_a_set_of_single_numbers() {
        let mut random = Stream::new(3, "bits");
        for len in [0, 1, 63, 64, 65, 200] {
            let (mut bits, mut model) = (Bits::new(len), vec![false; len as usize]);
            for _ in 0..len {
                let at = random.below(len);
                assert_eq!(bits.set(at), !model[at as usize]);
                model[at as usize] = true;
                let ones = model.iter().filter(|&&bit| bit).count() as u64;
                assert_eq!((bits.count(), bits.is_full()), (ones, ones == len));
                let from = random.below(len);
                let missing: Vec<u64> = bits.gaps(from, len).flat_map(|(a, b)| a..b).collect();
                let wanted: Vec<u64> = (from..len).filter(|&n| !model[n as usize]).collect();
                assert_eq!(missing, wanted);
            }
            assert!(!bits.set(len) && !bits.get(len));
            for at in 0..len {
                bits.set(at);
            }
            assert_eq!(bits, Bits::full(len));
        }
    }

    #[test]
    fn a_large_set_agrees_with_single_numbers_across_its_chunks() {
        let len = SMALL + 2 * CHUNK + 77;
        let mut random = Stream::new(5, "bits");
        let (mut bits, mut model) = (Bits::new(len), vec![false; len as usize]);
        for _ in 0..60 {
            let (a, b) = (random.below(len), random.below(3 * CHUNK));
            let end = (a + b).min(len);
            bits.set_range(a, a + b);
            model[a as usize..end as usize].fill(true);
            let single = random.below(len);
            assert_eq!(bits.set(single), !model[single as usize]);
            model[single as usize] = true;
            let ones = model.iter().filter(|&&bit| bit).count() as u64;
            assert_eq!(bits.count(), ones);
            let (from, to) = (random.below(len), random.below(len + 9));
            let limit = to.min(len);
            let all = |ranges: Vec<(u64, u64)>| ranges.into_iter().flat_map(|(a, b)| a..b);
            let wanted = |is_in: bool| {
                let model = &model;
                (from..limit).filter(move |&n| model[n as usize] == is_in)
            };
            assert!(all(bits.gaps(from, to).collect()).eq(wanted(false)));
            assert!(all(bits.runs(from, to).collect()).eq(wanted(true)));
        }
        for at in 0..len {
            bits.set(at);
        }
        assert!(bits.is_full() && bits == Bits::full(len));
        bits.clear();
        assert_eq!(bits, Bits::new(len));
    }

    #[test]
    fn the_gaps_of_every_block_of_a_large_set_are_found_without_looking_beyond_it() {
        // The packets of 1 TB; with a search to the end of the set for each block this takes hours.
        let bits = Bits::new(714_285_715);
        let blocks = bits.len().div_ceil(256);
        let missing: u64 = (0..blocks)
            .step_by(97)
            .flat_map(|block| bits.gaps(block * 256, block * 256 + 256))
            .map(|(from, to)| to - from)
            .sum();
        assert!(missing > bits.len() / 100);
    }
}
