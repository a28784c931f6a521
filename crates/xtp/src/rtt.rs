use layercast_core::Span;

/// Smoothed round trip and its mean deviation (Jacobson 1988): gains of 1/8 and 1/4.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rtt {
    smoothed: Option<Span>,
    deviation: Span,
    first: Span,
    least: Span,
}

impl Rtt {
    /// `first` is waited before there is a sample, `least` always.
    pub(crate) fn new(first: Span, least: Span) -> Rtt {
        Rtt {
            smoothed: None,
            deviation: Span::ZERO,
            first,
            least,
        }
    }

    pub(crate) fn sample(&mut self, sample: Span) {
        let Some(smoothed) = self.smoothed else {
            self.smoothed = Some(sample);
            self.deviation = sample.mul_div(1, 2);
            return;
        };
        let error = match sample > smoothed {
            true => sample - smoothed,
            false => smoothed - sample,
        };
        self.deviation = self.deviation.mul_div(3, 4) + error.mul_div(1, 4);
        self.smoothed = Some(smoothed.mul_div(7, 8) + sample.mul_div(1, 8));
    }

    /// Zero without a sample.
    pub(crate) fn smoothed(&self) -> Span {
        self.smoothed.unwrap_or_default()
    }

    /// How long an answer is waited for (specs/xtp.md 2.11).
    pub(crate) fn wait(&self) -> Span {
        match self.smoothed {
            Some(smoothed) => (smoothed + self.deviation.times(4)).max(self.least),
            None => self.first,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_path_is_waited_for_little_longer_than_it_takes() {
        let mut rtt = Rtt::new(Span::from_ms(500), Span::from_ms(1));
        assert_eq!(rtt.wait(), Span::from_ms(500));
        rtt.sample(Span::from_ms(100));
        assert_eq!(rtt.wait(), Span::from_ms(300));
        for _ in 0..100 {
            rtt.sample(Span::from_ms(100));
        }
        assert!(rtt.wait() < Span::from_ms(101), "{:?}", rtt.wait());
        rtt.sample(Span::from_ms(200));
        assert_eq!(rtt.smoothed().as_us(), 112_500);
    }
}
