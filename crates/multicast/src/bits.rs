/// A set of numbers below a bound, one bit each.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Bits {
    words: Box<[u64]>,
    len: u64,
    ones: u64,
}

impl Bits {
    /// The empty set of numbers below `len`.
    pub fn new(len: u64) -> Bits {
        Bits {
            words: vec![0; len.div_ceil(64) as usize].into(),
            len,
            ones: 0,
        }
    }

    /// All numbers below `len`.
    pub fn full(len: u64) -> Bits {
        let mut words = vec![u64::MAX; len.div_ceil(64) as usize];
        if let Some(last) = words.last_mut() {
            *last >>= (64 - len % 64) % 64;
        }
        Bits {
            words: words.into(),
            len,
            ones: len,
        }
    }

    /// Adds a number; gives false if it was there already or is not below the bound.
    #[inline]
    pub fn set(&mut self, at: u64) -> bool {
        if at >= self.len || self.get(at) {
            return false;
        }
        self.words[(at / 64) as usize] |= 1 << (at % 64);
        self.ones += 1;
        true
    }

    /// Whether a number is in it.
    #[inline]
    pub fn get(&self, at: u64) -> bool {
        at < self.len && self.words[(at / 64) as usize] >> (at % 64) & 1 == 1
    }

    /// How many are in it.
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

    /// Whether all below the bound are in it.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.ones == self.len
    }

    /// Takes all out.
    pub fn clear(&mut self) {
        self.words.fill(0);
        self.ones = 0;
    }

    /// The first number from `at` on that is not in it, at most the bound.
    pub fn next_zero(&self, at: u64) -> u64 {
        self.next(at, u64::MAX)
    }

    /// The first number from `at` on that is in it, or the bound.
    pub fn next_one(&self, at: u64) -> u64 {
        self.next(at, 0)
    }

    /// The first from `at` on whose bit is set after the words were turned by `flip`.
    fn next(&self, at: u64, flip: u64) -> u64 {
        let mut mask = u64::MAX << (at % 64);
        for word in (at / 64)..self.words.len() as u64 {
            let bits = (self.words[word as usize] ^ flip) & mask;
            if bits != 0 {
                return (word * 64 + u64::from(bits.trailing_zeros())).min(self.len);
            }
            mask = u64::MAX;
        }
        self.len
    }

    /// Ranges of numbers of `from..to` that are not in it.
    pub fn gaps(&self, from: u64, to: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        let to = to.min(self.len);
        let mut at = from;
        core::iter::from_fn(move || {
            let start = self.next_zero(at);
            if start >= to {
                return None;
            }
            at = self.next_one(start).min(to);
            Some((start, at))
        })
    }
}

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
}
