use layercast_core::{Serial, Span, Time};
use layercast_qos::{SignedSpan, SourceTime, TimestampUnwrapper};
use layercast_wire::{ClockReading, SourceClockReport};

use crate::heard_clock::HeardClock;

/// Change of the one-way delay from frame to frame that no network makes.
const MAX_DELAY_STEP: Span = Span::from_secs(60);

/// A frame leaves before its time by this at most, in picoseconds: what a source may be ahead, and the error of the clock.
const MOST_LEAD: i64 = 15_000_000_000_000;

/// How long the least delay is looked for before the drift of the clocks is corrected by it.
const DRIFT_WINDOW: Span = Span::from_secs(10);

/// A time line that is off by more than this steps at the next GOP start; otherwise it follows the clock of the source by as much
/// in a second as the second span: no viewer sees that, and no clock drifts faster.
const STEP: i64 = 5_000_000_000;
const SLEW: (u64, u64) = (1, 1_000);

/// The source's clock on the receiver's time line.
///
/// Clocks that are not synchronised drift, too: 100 ppm are 360 ms in an hour, more than a fixed
/// playout delay has to spare. The least delay of each window shows the drift, because queues do not
/// change it (specs/mets.md 6.2, 5); the time line follows it at GOP starts.
///
/// Where the nodes of the path have measured their clocks, a [`ClockReading`] shows the true delay; the time line follows it if it is to.
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
    /// What the clock of the source shows.
    heard: HeardClock,
    /// The time line is to be that of the source.
    follows: bool,
    /// What is added to the time of the source since it is, and as of when.
    followed: Option<(i64, Time)>,
    /// By how much the time line moved with the last frame, in picoseconds.
    stepped: Option<i64>,
}

#[derive(Clone, Copy, Debug)]
struct Window {
    start: Time,
    least: SignedSpan,
}

impl SourceClock {
    /// A clock of which nothing is known; `follows`: the time line is to be that of the source as soon as it is.
    pub fn new(follows: bool) -> SourceClock {
        SourceClock {
            follows,
            ..SourceClock::default()
        }
    }

    /// The time line begins again; what the clock shows stays.
    pub fn begin_anew(&mut self) {
        *self = SourceClock {
            heard: self.heard,
            ..SourceClock::new(self.follows)
        };
    }

    /// A node upstream says what the clock of the source shows. Returns whether that is believed.
    pub fn hear(&mut self, reading: ClockReading) -> bool {
        self.heard.hear(reading)
    }

    /// What a former life of the flow was stamped with may be another clock.
    pub fn forget(&mut self) {
        self.heard = HeardClock::default();
        self.followed = None;
    }

    /// What is known of the clock of the source.
    pub fn report(&self) -> Option<SourceClockReport> {
        self.heard.reading().map(SourceClockReport::from)
    }

    /// How long ago the clock of the source showed `us`, the time of a frame that has come; `None` if that is not known, or what is said
    /// of the clock cannot be true.
    pub fn age(&self, now: Time, us: u32) -> Option<SignedSpan> {
        let here = self.heard.reading()?.here_at(us);
        let age = Serial(now.as_us() as u32).diff(Serial(here));
        let age = SignedSpan::from_ps(i64::from(age) * 1_000_000);
        let is_possible = age <= MAX_DELAY_STEP.into() && age >= SignedSpan::from_ps(-MOST_LEAD);
        is_possible.then_some(age)
    }

    /// By how much the time line moved with the last frame; the first time it follows the source, with nothing before, by nothing.
    pub fn take_step(&mut self) -> Option<SignedSpan> {
        self.stepped.take().map(SignedSpan::from_ps)
    }

    /// What has to be added to the time of the source, if the time line follows it.
    fn follow(&mut self, now: Time, gop_start: bool, raw: SourceTime, us: u32) -> Option<i64> {
        if !self.follows {
            return None;
        }
        let Some(age) = self.age(now, us) else {
            // It stays where it was.
            return self.followed.map(|(offset, _)| offset);
        };
        let emitted = SourceTime::from(now).as_ps() - age.as_ps();
        let wanted = emitted.saturating_sub(raw.as_ps());
        let (offset, since) = match (self.followed, self.offset) {
            (Some((offset, since)), _) => (offset, since),
            (None, Some(offset)) => (offset.as_ps(), now),
            (None, None) => {
                self.stepped = Some(0);
                self.followed = Some((wanted, now));
                return Some(wanted);
            }
        };
        let off = wanted.saturating_sub(offset);
        let by = if off.abs() <= STEP {
            let most = now.since(since).mul_div(SLEW.0, SLEW.1).as_ps() as i64;
            off.clamp(-most, most)
        } else if gop_start {
            off
        } else {
            0
        };
        let begins = self.followed.is_none();
        if begins && by == 0 && off.abs() > STEP {
            // Not before the next GOP start.
            return None;
        }
        if begins || by.abs() > STEP {
            self.stepped = Some(if by.abs() > STEP { by } else { 0 });
        }
        let offset = offset.saturating_add(by);
        self.followed = Some((offset, now.max(since)));
        Some(offset)
    }

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
        if let Some(offset) = self.follow(now, gop_start, raw, us) {
            return Some(SourceTime::from_ps(raw.as_ps().saturating_add(offset)));
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

    /// A source whose clock is ahead of that of the receiver by an hour and gains 200 ppm.
    fn source_us(true_us: u64) -> u32 {
        (true_us + 3_600_000_000 + true_us / 5_000) as u32
    }

    fn reading(true_us: u64, error_us: u32) -> ClockReading {
        ClockReading {
            source_us: source_us(true_us).wrapping_add(error_us),
            drift_ppb: 200_000,
            bound_us: 20_000,
            hops: 2,
            ..ClockReading::own(true_us as u32)
        }
    }

    /// Reads frames of 25 a second from `from` to `to`, which take 80 ms, with a GOP start each second; gives by how much each is
    /// taken to have been emitted later than it was, and the steps.
    fn follow(clock: &mut SourceClock, from: u64, to: u64) -> (Vec<i64>, Vec<(u64, i64)>) {
        let (mut off, mut steps) = (Vec::new(), Vec::new());
        for frame in from * 25..to * 25 {
            let emitted = frame * 40_000;
            let now = Time::ZERO + Span::from_us(emitted + 80_000);
            let us = source_us(emitted);
            let read = clock.read(now, us, frame % 25 == 0, Span::ZERO, false);
            let age = read.expect("a time").age(now).as_ps() / 1_000_000;
            off.push(80_000 - age);
            if let Some(by) = clock.take_step() {
                steps.push((frame, by.as_ps() / 1_000_000));
            }
        }
        (off, steps)
    }

    #[test]
    fn the_time_line_steps_to_the_source_at_a_gop_start_once_and_then_follows_its_drift() {
        let mut clock = SourceClock::new(true);
        let (off, steps) = follow(&mut clock, 10, 11);
        assert_eq!((off[0], steps.len()), (80_000, 0));
        // In the midst of a GOP.
        let (_, none) = follow(&mut clock, 11, 12);
        assert_eq!(none, []);
        clock.hear(reading(12_100_000, 0));
        let (off, steps) = follow(&mut clock, 12, 13);
        // The time line was not corrected for 2 s of drift.
        let [(frame, by)] = steps[..] else {
            panic!("{steps:?}")
        };
        assert!(
            frame == 300 && (-80_500..-79_500).contains(&by),
            "{steps:?}"
        );
        assert!(off.iter().all(|off| off.abs() < 10), "{off:?}");
        for second in 13..100 {
            // Readings vary by up to 300 us.
            let error = (second as u32 * 97) % 300;
            clock.hear(reading(second * 1_000_000, error));
            let (off, steps) = follow(&mut clock, second, second + 1);
            assert!(off.iter().all(|off| off.abs() < 1_000), "{second}: {off:?}");
            assert_eq!(steps, []);
        }
    }

    #[test]
    fn a_time_line_follows_only_where_it_is_to_and_delays_are_known_all_the_same() {
        let mut clock = SourceClock::new(false);
        clock.hear(reading(9_000_000, 0));
        let (off, steps) = follow(&mut clock, 10, 20);
        assert!(off.iter().all(|off| (70_000..90_000).contains(off)) && steps.is_empty());
        let age = clock.age(at(20_000), source_us(19_920_000)).expect("known");
        assert!(age.as_ps().abs_diff(80_000_000_000) < 10_000_000, "{age:?}");
        clock.begin_anew();
        assert!(clock.report().is_some_and(|it| it.hops == 2));
        clock.forget();
        assert_eq!((clock.age(at(20_000), 0), clock.report()), (None, None));
    }

    #[test]
    fn a_clock_by_which_frames_come_from_the_future_or_the_distant_past_is_not_followed() {
        for error_us in [-3_000_000_000_i64, -120_000_000, 90_000_000, 1_800_000_000] {
            let mut clock = SourceClock::new(true);
            assert!(clock.hear(reading(9_000_000, error_us as u32)));
            let (off, steps) = follow(&mut clock, 10, 20);
            // As without a clock: 80 ms that cannot be seen.
            assert!(
                off.iter().all(|off| (70_000..90_000).contains(off)),
                "{off:?}"
            );
            assert_eq!(
                (steps, clock.age(at(20_000), source_us(19_920_000))),
                (vec![], None)
            );
        }
    }

    #[test]
    fn with_the_clock_known_before_the_first_frame_nothing_moves() {
        let mut clock = SourceClock::new(true);
        clock.hear(reading(9_000_000, 0));
        let (off, steps) = follow(&mut clock, 10, 20);
        assert!(off.iter().all(|off| off.abs() < 10), "{off:?}");
        assert_eq!(steps, [(250, 0)]);
        // A forged message, and then the clock of the source is set.
        clock.hear(reading(19_000_000, 500_000));
        let (off, steps) = follow(&mut clock, 20, 21);
        assert!(off.iter().all(|off| off.abs() < 10) && steps.is_empty());
        for _ in 0..2 {
            clock.hear(reading(19_000_000, 500_000));
        }
        let (_, steps) = follow(&mut clock, 21, 30);
        assert!(
            matches!(steps[..], [(525, -500_100..=-499_900)]),
            "{steps:?}"
        );
    }
}
