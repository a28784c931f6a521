use layercast_core::Span;

/// A histogram of delays with buckets that grow with the value: quantiles within 1.6 % of the value,
/// from 1 us to 71 min, in a fixed 3.5 kB.
#[derive(Clone, Debug)]
pub struct DelayHistogram {
    counts: Vec<u64>,
    total: u64,
}

/// Buckets per octave, as a power of two.
const SUB_BITS: u32 = 5;
const SUB: u64 = 1 << SUB_BITS;
const BUCKETS: usize = ((32 - SUB_BITS + 1) as usize) << SUB_BITS;

impl Default for DelayHistogram {
    fn default() -> DelayHistogram {
        DelayHistogram {
            counts: vec![0; BUCKETS],
            total: 0,
        }
    }
}

impl DelayHistogram {
    /// Counts one delay.
    pub fn record(&mut self, delay: Span) {
        let bucket = bucket(delay.as_us());
        debug_assert!(bucket < BUCKETS);
        self.counts[bucket] += 1;
        self.total += 1;
        debug_assert!(self.counts[bucket] <= self.total);
    }

    /// How many delays were counted.
    pub fn count(&self) -> u64 {
        self.total
    }

    /// The delay below which the share `q` (0 to 1) of all delays lies; `None` if there are none.
    pub fn quantile(&self, q: f64) -> Option<Span> {
        if self.total == 0 {
            return None;
        }
        let rank = ((q.clamp(0.0, 1.0) * self.total as f64).ceil() as u64).max(1);
        let mut seen = 0;
        let at = self.counts.iter().position(|count| {
            seen += count;
            seen >= rank
        })?;
        Some(middle(at))
    }
}

/// The first 32 buckets are 1 us wide, then 32 per octave.
fn bucket(us: u64) -> usize {
    let us = us.min(u64::from(u32::MAX));
    if us < SUB {
        return us as usize;
    }
    let octave = us.ilog2() - SUB_BITS;
    (u64::from(octave) * SUB + (us >> octave)) as usize
}

fn middle(bucket: usize) -> Span {
    let bucket = bucket as u64;
    if bucket < SUB {
        return Span::from_us(bucket);
    }
    let octave = bucket / SUB - 1;
    let low = (bucket - octave * SUB) << octave;
    Span::from_us(low + (1 << octave) / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_falls_into_a_bucket_near_it() {
        for us in (0..2_000).chain((0..1_000).map(|i| i * 4_294_967)) {
            let middle = middle(bucket(us)).as_us();
            assert!(middle.abs_diff(us) * 60 <= us, "{us} -> {middle}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_of_a_uniform_distribution_are_right() {
        let mut histogram = DelayHistogram::default();
        assert_eq!(histogram.quantile(0.5), None);
        for us in 1..=100_000 {
            histogram.record(Span::from_us(us));
        }
        let near = |q: f64, us: f64| {
            let got = histogram.quantile(q).unwrap().as_us() as f64;
            assert!((got / us - 1.0).abs() < 0.02, "q {q}: {got}");
        };
        near(0.5, 50_000.0);
        near(0.99, 99_000.0);
        near(1.0, 100_000.0);
        assert_eq!(histogram.count(), 100_000);
    }
}
