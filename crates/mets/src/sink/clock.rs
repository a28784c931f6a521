use layercast_core::{Span, Time};
use layercast_qos::{SignedSpan, SourceTime, TimestampUnwrapper};

/// Change of the one-way delay from frame to frame that no network makes.
const MAX_DELAY_STEP: Span = Span::from_secs(60);

/// How long the least delay is looked for before the drift of the clocks is corrected by it.
const DRIFT_WINDOW: Span = Span::from_secs(10);

/// The source's clock on the receiver's time line.
///
/// Clocks that are not synchronised drift, too: 100 ppm are 360 ms in an hour, more than a fixed
/// playout delay has to spare. The least delay of each window shows the drift, because queues do not
/// change it (specs/mets.md 6.2, 5); the time line follows it at GOP starts.
#[derive(Debug, Default)]
pub(super) struct SourceClock {
    unwrapper: TimestampUnwrapper,
    /// Delay of the first frame, if clocks are not synchronised: delays count from it.
    offset: Option<SignedSpan>,
    last_delay: Option<SignedSpan>,
    window: Option<Window>,
    /// Least delay of the window before.
    least: Option<SignedSpan>,
    /// How far the time line has to move at the next GOP start, in picoseconds.
    drift_ps: i64,
}

#[derive(Clone, Copy, Debug)]
struct Window {
    start: Time,
    least: SignedSpan,
}

impl SourceClock {
    /// When the frame was emitted; `None` if that cannot be. Without synchronised clocks the first
    /// frame counts as emitted when it came. A frame that came `late` to the source says nothing of the clocks by that.
    pub fn read(
        &mut self,
        now: Time,
        us: u32,
        gop_start: bool,
        late: Span,
        synchronised: bool,
    ) -> Option<SourceTime> {
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
        let on_the_way = delay.as_ps().saturating_sub(SignedSpan::from(late).as_ps());
        self.watch(now, SignedSpan::from_ps(on_the_way));
        let offset = self.offset.get_or_insert(delay);
        if gop_start {
            let drift = std::mem::take(&mut self.drift_ps);
            *offset = SignedSpan::from_ps(offset.as_ps().saturating_add(drift));
        }
        Some(SourceTime::from_ps(
            raw.as_ps().saturating_add(offset.as_ps()),
        ))
    }

    /// Compares the least delays of successive windows.
    fn watch(&mut self, now: Time, delay: SignedSpan) {
        let window = self.window.get_or_insert(Window {
            start: now,
            least: delay,
        });
        window.least = window.least.min(delay);
        if now.since(window.start) < DRIFT_WINDOW {
            return;
        }
        let least = window.least;
        self.window = None;
        if let Some(before) = self.least.replace(least) {
            let drift = least.as_ps().saturating_sub(before.as_ps());
            self.drift_ps = self.drift_ps.saturating_add(drift);
        }
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
            clock
                .read(at(15), 10_000, true, Span::ZERO, true)
                .map(|t| t.age(at(15))),
            Some(Span::from_ms(5).into())
        );
        assert_eq!(clock.read(at(20), 61_000_000, true, Span::ZERO, true), None);
        assert_eq!(
            clock.read(at(25), 2_000_000_000, true, Span::ZERO, true),
            None
        );
        assert_eq!(
            clock
                .read(at(26), 20_000, true, Span::ZERO, true)
                .map(|t| t.age(at(26))),
            Some(Span::from_ms(6).into())
        );
    }

    #[test]
    fn without_a_common_clock_the_first_frame_has_no_delay() {
        let mut clock = SourceClock::default();
        let hour = 3_600_000_000;
        assert_eq!(
            clock.read(at(10), hour, true, Span::ZERO, false),
            Some(at(10).into())
        );
        let later = clock
            .read(at(55), hour + 40_000, true, Span::ZERO, false)
            .map(|t| t.age(at(55)));
        assert_eq!(later, Some(Span::from_ms(5).into()));
    }
    #[test]
    fn clocks_that_drift_for_hours_stay_together_and_move_at_gop_starts_only() {
        for ppm in [-200i64, 200] {
            let mut clock = SourceClock::default();
            let mut offset = None;
            for frame in 0..7_200 * 24u64 {
                let sent = frame * 1_000_000 / 24;
                let us = sent as i64 + sent as i64 * ppm / 1_000_000;
                // Queues of up to 30 ms.
                let now = Time::ZERO + Span::from_us(1_000_000 + sent + frame * 7_919 % 30_000);
                let gop_start = frame % 12 == 0;
                let emission = clock
                    .read(now, us as u32, gop_start, Span::ZERO, false)
                    .unwrap();
                let delay = emission.age(now).as_ms_f64();
                assert!(
                    (-8.0..40.0).contains(&delay),
                    "{ppm} ppm, frame {frame}: {delay}"
                );
                let moved = offset.replace(clock.offset) != Some(clock.offset);
                assert!(gop_start || !moved, "frame {frame}");
            }
        }
    }

    #[test]
    fn a_source_that_comes_ever_later_is_no_drift_of_the_clocks() {
        let mut clock = SourceClock::default();
        for frame in 0..2_000u64 {
            // At 0.85 of real time, on a path of 7 ms.
            let late = frame * 7;
            let (due, now) = (1_000 + frame * 40, at(1_007 + frame * 47));
            let emission = clock.read(
                now,
                due as u32 * 1_000,
                frame % 25 == 0,
                Span::from_ms(late),
                false,
            );
            let delay = emission.expect("a time").age(now);
            assert_eq!(delay, Span::from_ms(late).into(), "{frame}");
        }
    }
}
