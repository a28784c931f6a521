use layercast_core::{Span, Time};
use layercast_qos::{SignedSpan, SourceTime, TimestampUnwrapper};

/// Change of the one-way delay from frame to frame that no network makes.
const MAX_DELAY_STEP: Span = Span::from_secs(60);

/// The source's clock on the receiver's time line.
#[derive(Debug, Default)]
pub(super) struct SourceClock {
    unwrapper: TimestampUnwrapper,
    /// Delay of the first frame, if clocks are not synchronised: delays count from it.
    offset: Option<SignedSpan>,
    last_delay: Option<SignedSpan>,
}

impl SourceClock {
    /// When the frame was emitted; `None` if that cannot be. Without synchronised clocks the first
    /// frame counts as emitted when it came.
    pub fn read(&mut self, now: Time, us: u32, synchronised: bool) -> Option<SourceTime> {
        let mut unwrapper = self.unwrapper;
        let raw = unwrapper.unwrap_us(now, us);
        let delay = raw.age(now);
        let step = |last: SignedSpan| {
            SignedSpan::from_ps(delay.as_ps().saturating_sub(last.as_ps())).abs()
        };
        if self
            .last_delay
            .is_some_and(|last| step(last) > MAX_DELAY_STEP)
        {
            return None;
        }
        self.unwrapper = unwrapper;
        self.last_delay = Some(delay);
        if synchronised {
            return Some(raw);
        }
        let offset = *self.offset.get_or_insert(delay);
        Some(SourceTime::from_ps(
            raw.as_ps().saturating_add(offset.as_ps()),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::from_ms(ms)
    }

    #[test]
    fn a_delay_that_jumps_by_minutes_is_refused_and_forgotten() {
        let mut clock = SourceClock::default();
        assert_eq!(
            clock.read(at(15), 10_000, true).map(|t| t.age(at(15))),
            Some(Span::from_ms(5).into())
        );
        assert_eq!(clock.read(at(20), 61_000_000, true), None);
        assert_eq!(clock.read(at(25), 2_000_000_000, true), None);
        assert_eq!(
            clock.read(at(26), 20_000, true).map(|t| t.age(at(26))),
            Some(Span::from_ms(6).into())
        );
    }

    #[test]
    fn without_a_common_clock_the_first_frame_has_no_delay() {
        let mut clock = SourceClock::default();
        let hour = 3_600_000_000;
        assert_eq!(clock.read(at(10), hour, false), Some(at(10).into()));
        let later = clock
            .read(at(55), hour + 40_000, false)
            .map(|t| t.age(at(55)));
        assert_eq!(later, Some(Span::from_ms(5).into()));
    }
}
