use std::collections::VecDeque;

use layercast_core::{Span, Time};

/// Length of a part of the window, and the number of parts.
const PART: Span = Span::from_secs(2);
const PARTS: usize = 5;
/// Parts after which a slow source is known to keep real time again.
const RECOVERED: usize = 4;
/// A step of the media that differs by this from the time that passed is a pause, a jump or a restart.
const BREAK_MS: f64 = 2_000.0;
/// Media per second below which the source is too slow, and from which it is not.
const SLOW: f64 = 0.97;
const REAL_TIME: f64 = 0.985;

/// Why a source delivers less than a second of media per second, and what helps.
pub const TOO_SLOW: &str = "the encoder is too slow (a faster preset or a lower resolution helps), or the sender reads its input slower than \
                            real time; a longer delay does not help";

/// Measures how much media time arrives for each second of time, over 10 s.
///
/// The window has five parts. The least delayed frame of each counts, so that jitter and bursts do not show. The part with
/// the largest loss of time is left out of the judgement, so that one pause whose media do not follow is no slow source.
/// After a pause of more than 2 s, a jump or a restart the window begins again. A source that was too slow keeps real time again
/// once the last parts show it: what came before them no longer counts.
#[derive(Clone, Debug, Default)]
pub struct PaceMeter {
    origin: Option<Time>,
    last: Option<Point>,
    /// The least delayed frame of each part; the last part is not over.
    parts: VecDeque<Part>,
    /// Media per second of the last whole window.
    ratio: Option<f64>,
    slow: bool,
}

/// A frame, in milliseconds since the first one.
#[derive(Clone, Copy, Debug)]
struct Point {
    arrived: f64,
    media: f64,
}

#[derive(Clone, Copy, Debug)]
struct Part {
    begun: f64,
    best: Point,
}

/// A change of the pace of a source, with the media that it delivers per second.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum PaceChange {
    /// It is slower than real time.
    Slow(f64),
    /// It keeps real time again.
    RealTime(f64),
}

impl Point {
    fn delay(self) -> f64 {
        self.arrived - self.media
    }
}

impl PaceMeter {
    /// Takes a frame of the media time `media` in milliseconds, counted from anywhere, that arrived at `arrived`.
    pub fn push(&mut self, arrived: Time, media: f64) -> Option<PaceChange> {
        let origin = *self.origin.get_or_insert(arrived);
        let point = Point {
            arrived: arrived.since(origin).as_ms_f64(),
            media,
        };
        let step = |last: Point| point.delay() - last.delay();
        if self.last.is_some_and(|last| step(last).abs() > BREAK_MS) {
            self.parts.clear();
        }
        self.last = Some(point);
        match self.parts.back_mut() {
            Some(part) if point.arrived - part.begun < PART.as_ms_f64() => {
                if point.delay() < part.best.delay() {
                    part.best = point;
                }
                return None;
            }
            _ => {}
        }
        let change = self.judge();
        if self.parts.len() == PARTS {
            self.parts.pop_front();
        }
        self.parts.push_back(Part {
            begun: point.arrived,
            best: point,
        });
        change
    }

    /// Media per second over the last whole window.
    pub fn ratio(&self) -> Option<f64> {
        self.ratio
    }

    /// Whether the source is slower than real time.
    pub fn is_slow(&self) -> bool {
        self.slow
    }

    /// Looks at the window, if it is whole.
    fn judge(&mut self) -> Option<PaceChange> {
        if let Some(ratio) = self.recovers() {
            (self.ratio, self.slow) = (Some(ratio), false);
            self.parts.drain(..self.parts.len() - 1);
            return Some(PaceChange::RealTime(ratio));
        }
        let (first, last) = (self.parts.front()?.best, self.parts.back()?.best);
        if self.parts.len() < PARTS {
            return None;
        }
        let time = last.arrived - first.arrived;
        let ratio = (last.media - first.media) / time;
        self.ratio = Some(ratio);
        let rises = self.parts.iter().zip(self.parts.iter().skip(1));
        let largest = rises
            .map(|(a, b)| {
                (
                    b.best.delay() - a.best.delay(),
                    b.best.arrived - a.best.arrived,
                )
            })
            .max_by(|a, b| a.0.total_cmp(&b.0));
        let (rise, took) = largest?;
        let steady = (last.media - first.media - took + rise) / (time - took);
        let slow = self.slow || ratio < SLOW && steady < SLOW;
        let was_slow = std::mem::replace(&mut self.slow, slow);
        (slow && !was_slow).then_some(PaceChange::Slow(ratio))
    }

    /// The media per second of a slow source over the last parts, if it keeps real time in each of them.
    fn recovers(&self) -> Option<f64> {
        let begin = self.parts.len().checked_sub(RECOVERED)?;
        let last = self.parts.range(begin..);
        let pace = |from: &Part, to: &Part| {
            let (from, to) = (from.best, to.best);
            (to.media - from.media) / (to.arrived - from.arrived)
        };
        let mut each = last.clone().zip(last.clone().skip(1));
        let (first, newest) = (self.parts.get(begin)?, self.parts.back()?);
        let ratio = pace(first, newest);
        let keeps = ratio >= REAL_TIME && each.all(|(from, to)| pace(from, to) >= SLOW);
        (self.slow && keeps).then_some(ratio)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Changes of a source of 25 pictures/s whose picture of media time `ms` arrives at `arrival(ms)`, with their seconds.
    fn changes(seconds: u64, arrival: impl Fn(u64) -> u64) -> (Vec<(u64, PaceChange)>, PaceMeter) {
        let mut meter = PaceMeter::default();
        let mut changes = Vec::new();
        for ms in (0..seconds * 1_000).step_by(40) {
            let at = arrival(ms);
            let now = Time::ZERO + Span::from_ms(7_000 + at);
            let change = meter.push(now, ms as f64);
            changes.extend(change.map(|it| (at / 1_000, it)));
        }
        (changes, meter)
    }

    #[test]
    fn a_slow_source_is_told_once_with_its_ratio_and_when_it_is_over() {
        // 30 s of media at 0.85, with jitter, then real time.
        let arrival = |ms: u64| (ms + ms.min(30_000) * 15 / 85) + ms * 37 % 90;
        let (all, meter) = changes(90, arrival);
        let [
            (at, PaceChange::Slow(ratio)),
            (over, PaceChange::RealTime(_)),
        ] = all[..]
        else {
            panic!("{all:?}");
        };
        assert!((9..13).contains(&at), "{all:?}");
        assert!((ratio - 0.85).abs() < 0.02, "{all:?}");
        // Real time begins after 35.3 s.
        assert!((41..45).contains(&over), "{all:?}");
        assert!(!meter.is_slow());
        assert!(meter.ratio().is_some_and(|it| (it - 1.0).abs() < 0.02));
        for permille in [500, 700, 950, 965] {
            let (all, meter) = changes(60, |ms| ms * 1_000 / permille);
            assert!(
                matches!(all[..], [(_, PaceChange::Slow(_))]),
                "{permille}: {all:?}"
            );
            let ratio = meter.ratio().expect("a window") * 1_000.0;
            assert!((ratio - permille as f64).abs() < 5.0, "{permille}: {ratio}");
        }
    }

    #[test]
    fn jitter_bursts_pauses_and_restarts_are_no_slow_source() {
        let none = |name: &str, arrival: &dyn Fn(u64) -> u64| {
            let (all, _) = changes(120, arrival);
            assert_eq!(all, [], "{name}");
        };
        none("real time", &|ms| ms);
        none("0.98", &|ms| ms * 100 / 98);
        none("fast", &|ms| ms / 2);
        none("jitter", &|ms| ms + ms * 7_919 / 40 % 400);
        none("bursts", &|ms| ms.div_ceil(1_500) * 1_500);
        // Of 1.5 s without the media of it, of 1.5 s and of 20 s with it.
        none("short pause", &|ms| {
            ms + if ms > 33_000 { 1_500 } else { 0 }
        });
        for pause in [1_500, 20_000] {
            none("caught up", &|ms| match ms {
                33_000.. => ms.max(33_000 + pause),
                _ => ms,
            });
        }
        none("long pause", &|ms| {
            ms + if ms > 33_000 { 20_000 } else { 0 }
        });
    }

    #[test]
    fn a_restart_of_the_stamps_does_not_hide_a_slow_source() {
        let mut meter = PaceMeter::default();
        let mut told = Vec::new();
        for k in 0..1_500u64 {
            let media = if k < 500 { 900_000 + k * 40 } else { k * 40 };
            let now = Time::ZERO + Span::from_ms(k * 50);
            told.extend(meter.push(now, media as f64));
        }
        assert!(matches!(told[..], [PaceChange::Slow(_)]), "{told:?}");
        assert!(meter.is_slow());
        // With another restart it is fast enough.
        let over = (0..500u64).find_map(|k| {
            let now = Time::ZERO + Span::from_ms(75_000 + k * 40);
            let change = meter.push(now, (k * 40) as f64)?;
            matches!(change, PaceChange::RealTime(_)).then_some(k * 40)
        });
        assert!(over.is_some_and(|ms| ms <= 8_000), "{over:?}");
    }

    #[test]
    fn a_source_that_is_too_slow_now_and_then_is_told_rarely() {
        // 5 s at 0.7, then 5 s at real time.
        let lost = |ms: u64| (ms / 10_000 * 5_000 + (ms % 10_000).min(5_000)) * 3 / 7;
        let (all, _) = changes(120, |ms| ms + lost(ms));
        assert!(matches!(all[..], [(_, PaceChange::Slow(_))]), "{all:?}");
    }
}
