use layercast_core::{Span, Stream};

/// When a host stalls on account of one flow that it receives, and for how long (specs/mets.md 3.2): a
/// Poisson process, lengths uniform in (0, longest].
#[derive(Debug)]
pub struct Stalls {
    rate: f64,
    longest: Span,
    stream: Stream,
}

impl Stalls {
    /// `rate` stalls a second on average, drawn from `stream`.
    pub fn new(rate: f64, longest: Span, stream: Stream) -> Stalls {
        Stalls {
            rate,
            longest,
            stream,
        }
    }

    /// From now until the next stall begins; `None` if there is none.
    pub fn wait(&mut self) -> Option<Span> {
        let any = self.rate > 0.0 && self.longest > Span::ZERO;
        any.then(|| Span::from_secs_f64(self.stream.exponential(1.0 / self.rate)))
    }

    /// How long the stall that begins lasts.
    pub fn length(&mut self) -> Span {
        Span::from_ps(self.stream.below(self.longest.as_ps()) + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stalls_come_at_their_rate_and_end_in_time() {
        let longest = Span::from_ms(16);
        let mut stalls = Stalls::new(1.5, longest, Stream::new(1, "stalls"));
        let (mut waited, mut stalled) = (0.0, 0.0);
        for _ in 0..3_000 {
            waited += stalls.wait().unwrap().as_secs_f64();
            let length = stalls.length();
            assert!(length > Span::ZERO && length <= longest);
            stalled += length.as_secs_f64();
        }
        let (rate, mean_ms) = (3_000.0 / waited, stalled / 3.0);
        assert!((1.4..1.6).contains(&rate), "{rate}");
        assert!((7.6..8.4).contains(&mean_ms), "{mean_ms}");
    }

    #[test]
    fn without_a_rate_or_a_length_there_are_none() {
        let none = |rate, longest| Stalls::new(rate, longest, Stream::new(1, "stalls")).wait();
        assert_eq!(none(0.0, Span::from_ms(16)), None);
        assert_eq!(none(1.5, Span::ZERO), None);
    }
}
