use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// A random stream of its own name: adding a variable never moves another.
///
/// The same run seed and name give the same numbers on every machine (xoshiro256++, seeded by
/// SplitMix64 of the seed and the FNV-1a hash of the name). Implements [`RngCore`], so the
/// distributions of `rand_distr` draw from it.
///
/// ```
/// use layercast_core::Stream;
///
/// let draw = |seed, name| Stream::new(seed, name).below(1_000_000);
/// assert_eq!(draw(1, "a-b/loss"), draw(1, "a-b/loss"));
/// assert_ne!(draw(1, "a-b/loss"), draw(1, "a-b/jitter"));
/// ```
#[derive(Clone, Debug)]
pub struct Stream(Xoshiro256PlusPlus);

impl Stream {
    /// The stream `name` of the run with this `seed`; names look like `"chuff/era"`.
    pub fn new(seed: u64, name: &str) -> Stream {
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        // A rotation keeps ("a", 1) and ("b", 2) apart where a bare XOR could cancel.
        Stream(Xoshiro256PlusPlus::seed_from_u64(
            hash ^ seed.rotate_left(32),
        ))
    }

    /// Uniform in `[0, 1)` with 53 random bits.
    pub fn unit(&mut self) -> f64 {
        let drawn = (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        debug_assert!((0.0..1.0).contains(&drawn));
        drawn
    }

    /// Uniform in `0..n` without modulo bias (Lemire 2019); zero for `n = 0`.
    pub fn below(&mut self, n: u64) -> u64 {
        if n == 0 {
            return 0;
        }
        loop {
            let product = u128::from(self.0.next_u64()) * u128::from(n);
            if (product as u64) >= n.wrapping_neg() % n {
                let drawn = (product >> 64) as u64;
                debug_assert!(drawn < n);
                return drawn;
            }
        }
    }

    /// `true` with probability `p`. What is certain takes no draw.
    pub fn chance(&mut self, p: f64) -> bool {
        p > 0.0 && (p >= 1.0 || self.unit() < p)
    }

    /// Exponentially distributed with the given mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * libm::log(1.0 - self.unit())
    }

    /// Standard normal (Marsaglia's polar method).
    pub fn normal(&mut self) -> f64 {
        loop {
            let (u, v) = (2.0 * self.unit() - 1.0, 2.0 * self.unit() - 1.0);
            let s = u * u + v * v;
            if s > 0.0 && s < 1.0 {
                return u * (-2.0 * libm::log(s) / s).sqrt();
            }
        }
    }
}

impl RngCore for Stream {
    fn next_u32(&mut self) -> u32 {
        self.0.next_u32()
    }
    fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }
    fn fill_bytes(&mut self, dest: &mut [u8]) {
        self.0.fill_bytes(dest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_reproducible_and_independent() {
        let draw = |seed, name: &str| Stream::new(seed, name).next_u64();
        assert_eq!(draw(1, "a"), draw(1, "a"));
        assert_ne!(draw(1, "a"), draw(1, "b"));
        assert_ne!(draw(1, "a"), draw(2, "a"));
    }

    #[test]
    fn below_stays_below() {
        let mut stream = Stream::new(7, "below");
        let mut seen = [0u32; 3];
        for _ in 0..3_000 {
            seen[stream.below(3) as usize] += 1;
        }
        assert!(seen.iter().all(|&n| n > 850), "{seen:?}");
        assert_eq!(stream.below(0), 0);
    }

    #[test]
    fn normal_has_unit_variance() {
        let mut stream = Stream::new(7, "normal");
        let n = 20_000;
        let squares: f64 = (0..n).map(|_| stream.normal().powi(2)).sum();
        assert!((squares / f64::from(n) - 1.0).abs() < 0.05);
    }
}
