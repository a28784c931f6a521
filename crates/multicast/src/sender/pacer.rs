use layercast_core::{Rate, Span, Time};

/// Largest delay that a late sender makes up for.
const CATCH_UP: Span = Span::from_ms(5);

/// Time of the next data packet.
#[derive(Clone, Debug)]
pub(crate) struct Pacer {
    rate: Option<Rate>,
    next: Time,
}

impl Pacer {
    pub fn new(rate: Option<Rate>) -> Pacer {
        Pacer {
            rate,
            next: Time::ZERO,
        }
    }

    pub fn rate(&self) -> Option<Rate> {
        self.rate
    }

    pub fn set_rate(&mut self, rate: Rate) {
        self.rate = Some(rate);
    }

    #[inline]
    pub fn next(&self) -> Time {
        self.next
    }

    #[inline]
    pub fn ready(&self, now: Time) -> bool {
        self.next <= now
    }

    /// Accounts for octets sent now.
    #[inline]
    pub fn sent(&mut self, now: Time, octets: u64) {
        if let Some(rate) = self.rate {
            let from = self.next.max(now.saturating_sub(CATCH_UP));
            self.next = from + rate.time_for(octets);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_kept_without_drift_and_bursts_are_bounded() {
        let mut pacer = Pacer::new(Some(Rate::from_bps(8_000_000)));
        let start = Time::from_ps(1_000_000_000_000);
        let mut sent = 0;
        for ms in 0..100 {
            let now = start + Span::from_ms(ms);
            while pacer.ready(now) {
                pacer.sent(now, 300);
                sent += 300;
            }
        }
        assert!((99_000 + 5_000..=99_000 + 5_600).contains(&sent), "{sent}");
    }
}
