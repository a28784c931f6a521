use std::collections::VecDeque;

use layercast_core::{Span, Time};

/// The delays of the last frames, for the one that few of them exceeded.
///
/// Frames that come late to their source arrive late whatever the path does. Where all frames do so for [`COMMON`] before or
/// after a frame, the source is behind, as one that is slower than real time: the lateness of the frame is no part of its
/// delay here, and is needed for [`BEHIND`] only. So is its time in the queue of the source: what is late is not sent as evenly
/// as what is in time. The same holds for all frames of [`BEHIND`] before and after that: a source falls behind by and by, and
/// one that is restarted holds up the last frame of before.
///
/// At other times the time for which single frames are held up outside the path is jitter like that of the path, for as long as
/// it recurs: [`Recurrence`].
#[derive(Clone, Debug)]
pub(crate) struct RecentDelays {
    permille: usize,
    window: usize,
    delays: VecDeque<Delay>,
    ranked: Vec<i64>,
    /// The last of these frames, with which it is not decided whether the source is behind.
    newest: VecDeque<Newest>,
    /// When the source was behind last.
    was_behind: Option<Time>,
    /// When the source was behind in the last [`BEHIND`], and by how much: later ones are smaller, by a millisecond or more.
    behind: VecDeque<(Time, i64)>,
}

#[derive(Clone, Copy, Debug)]
struct Delay {
    at: Time,
    delay: i64,
    /// The part of it that is no time on the path.
    held: i64,
    /// What held it up is over.
    is_over: bool,
}

impl Delay {
    /// What it is without the time outside the path.
    fn settle(&mut self) {
        self.delay = self.delay.saturating_sub(std::mem::take(&mut self.held));
    }

    /// What it says of the frames to come.
    fn counts(&self) -> i64 {
        self.delay
            .saturating_sub(if self.is_over { self.held } else { 0 })
    }

    /// The length of the time outside the path in milliseconds, in powers of two; 0 if it is too short to matter.
    fn height(&self) -> usize {
        let ms = u64::try_from(self.held / MS).unwrap_or(0);
        let height = ms.checked_ilog2().map_or(0, |log| log as usize + 1);
        height.min(HEIGHTS - 1)
    }
}

const MS: i64 = 1_000_000_000;
/// Up to 2 s, and longer.
const HEIGHTS: usize = 12;

/// When frames were held up outside the path for a time of one height or more.
///
/// That has a cause of its own, which is over some time after the last of these frames: after [`OVER`] and longer than a GOP, as key
/// frames may be the ones that are held up. If it happened at least four times, each within [`APART`] of the one before, it is over after
/// twice the interval: of an encoder that delivers a segment every 10 s it is not over after 5.
#[derive(Clone, Copy, Default, Debug)]
struct Recurrence {
    last: Option<Time>,
    /// The three longest intervals, the longest one first.
    intervals: [Span; 3],
}

impl Recurrence {
    fn note(&mut self, at: Time) {
        let interval = at.since(self.last.replace(at).unwrap_or(at));
        if interval > APART {
            self.intervals = Default::default();
            return;
        }
        let place = self.intervals.iter().position(|&it| it < interval);
        if let Some(place) = place {
            self.intervals[place..].rotate_right(1);
            self.intervals[place] = interval;
        }
    }

    /// Whether it is over at `now`, on a flow with GOPs of `gop`.
    fn is_over(&self, now: Time, gop: Span) -> bool {
        let hold = OVER
            .max(gop + Span::from_secs(1))
            .max(self.intervals[2].times(2));
        self.last.is_some_and(|last| now.since(last) > hold)
    }
}

/// A frame of the last [`COMMON`].
#[derive(Clone, Copy, Debug)]
struct Newest {
    at: Time,
    late: i64,
}

/// For how long all frames come late to a source that is behind, and most frames that are looked at for that.
pub(crate) const COMMON: Span = Span::from_ms(500);
const COMMON_FRAMES: usize = WINDOW.0;
/// How long after that the lateness of a source is kept to.
const BEHIND: Span = Span::from_secs(5);
/// How long after the last frame that was held up outside the path its cause is over, at least. It is less than the time after which
/// a smaller playout delay is looked for, so that frames that came up to 1 s after the last late one are over by then.
const OVER: Span = Span::from_secs(4);
/// Events further apart than this do not recur.
pub(crate) const APART: Span = Span::from_secs(30);
/// Frames in the window of which one may be late.
const LATE_IN_WINDOW: usize = 4;
/// Shortest and longest window in frames.
const WINDOW: (usize, usize) = (64, 4_096);

impl RecentDelays {
    /// Remembers enough frames that `permille` of them are about four.
    pub fn new(permille: u16) -> RecentDelays {
        let permille = usize::from(permille.clamp(1, 1_000));
        let (shortest, longest) = WINDOW;
        let window = (LATE_IN_WINDOW * 1_000 / permille).clamp(shortest, longest);
        RecentDelays {
            permille,
            window,
            delays: VecDeque::with_capacity(window),
            ranked: Vec::with_capacity(window),
            newest: VecDeque::new(),
            was_behind: None,
            behind: VecDeque::new(),
        }
    }

    /// Takes a frame that arrived at `now` with `delay`, of which it was `late` when it came to its source, and `held` outside the
    /// path with that; all in picoseconds.
    pub fn push(&mut self, now: Time, delay: i64, late: i64, held: i64) {
        if self.delays.len() == self.window {
            self.delays.pop_front();
        }
        let at = now;
        self.delays.push_back(Delay {
            at,
            delay,
            held,
            is_over: false,
        });
        debug_assert!(self.delays.len() <= self.window);
        self.newest.push_back(Newest { at, late });
        let is_late = self.newest.iter().all(|it| it.late > 0);
        let since = self.newest.front().map_or(now, |it| it.at);
        let is_long = now.since(since) >= COMMON || self.newest.len() > COMMON_FRAMES;
        if is_late && is_long {
            self.was_behind = Some(now);
        }
        if self.is_near(now) {
            let before = self.settle(now);
            self.note_behind(now, before);
        }
        while let Some(first) = self.newest.front()
            && (now.since(first.at) >= COMMON || self.newest.len() > COMMON_FRAMES)
        {
            self.newest.pop_front();
        }
    }

    /// Whether the source was behind in the last [`BEHIND`].
    fn is_near(&self, now: Time) -> bool {
        self.was_behind.is_some_and(|at| now.since(at) <= BEHIND)
    }

    /// The frames of the last seconds are those of a source that is behind. Gives how long they were held there at most.
    fn settle(&mut self, now: Time) -> i64 {
        let mut most = 0;
        for delay in self.delays.iter_mut().rev() {
            if now.since(delay.at) > BEHIND {
                break;
            }
            most = most.max(delay.held);
            delay.settle();
        }
        most
    }

    fn note_behind(&mut self, at: Time, by: i64) {
        while self.behind.back().is_some_and(|it| it.1 <= by) {
            self.behind.pop_back();
        }
        if by > 0 {
            self.behind.push_back((at, by));
        }
    }

    /// What the source was behind in the last seconds before `now`, at most.
    pub fn behind(&mut self, now: Time) -> i64 {
        while let Some(&(at, _)) = self.behind.front()
            && now.since(at) > BEHIND
        {
            self.behind.pop_front();
        }
        self.behind.front().map_or(0, |it| it.1)
    }

    /// From the next frame on lateness counts from `by` later than before.
    pub fn begin_again(&mut self, by: i64) {
        if let Some(last) = self.delays.back().map(|it| it.at) {
            // The timeline begins again since the source stays behind.
            self.was_behind = Some(last);
            self.settle(last);
        }
        self.newest.clear();
        for (_, behind) in &mut self.behind {
            *behind = behind.saturating_sub(by);
        }
        self.behind.retain(|it| it.1 > 0);
    }

    /// Looks at `now` which causes of frames that were held up outside the path are over, on a flow with GOPs of `gop`.
    pub fn look(&mut self, now: Time, gop: Span) {
        let mut heights = [Recurrence::default(); HEIGHTS];
        for delay in &self.delays {
            for recurrence in &mut heights[..=delay.height()] {
                recurrence.note(delay.at);
            }
        }
        let is_over = heights.map(|it| it.is_over(now, gop));
        for delay in &mut self.delays {
            let height = delay.height();
            delay.is_over = height > 0 && is_over[height];
        }
    }

    /// As [`quantile`](RecentDelays::quantile); the largest of them as long as they are too few to tell.
    pub fn kept_to(&mut self) -> Option<i64> {
        self.quantile()
            .or_else(|| self.delays.iter().map(Delay::counts).max())
    }

    /// The least delay that all but `permille` of these frames kept to; `None` as long as they are too few
    /// to tell.
    pub fn quantile(&mut self) -> Option<i64> {
        let count = self.delays.len();
        let late = count * self.permille / 1_000;
        if late == 0 {
            return None;
        }
        self.ranked.clear();
        self.ranked.extend(self.delays.iter().map(Delay::counts));
        let place = count - 1 - late.min(count - 1);
        let (_, delay, _) = self.ranked.select_nth_unstable(place);
        Some(*delay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_per_cent_of_the_last_four_hundred_are_above_the_quantile() {
        let mut recent = RecentDelays::new(10);
        let now = Time::ZERO;
        for delay in 0..99 {
            recent.push(now, delay, 0, 0);
            assert_eq!(
                recent.quantile(),
                None,
                "one of fewer than 100 frames is more"
            );
        }
        recent.push(now, 99, 0, 0);
        assert_eq!(recent.quantile(), Some(98));
        for delay in (0..400).rev() {
            recent.push(now, 1_000 + delay, 0, 0);
        }
        assert_eq!(
            recent.quantile(),
            Some(1_395),
            "the first hundred are forgotten"
        );
    }

    #[test]
    fn any_share_has_a_window() {
        for permille in [0, 1, 500, 1_000, u16::MAX] {
            let mut recent = RecentDelays::new(permille);
            (0..10_000).for_each(|delay| recent.push(Time::ZERO, delay, 0, 0));
            let quantile = recent.quantile().expect("enough frames");
            assert!(
                (10_000 - 4_096..10_000).contains(&quantile),
                "{permille}: {quantile}"
            );
        }
    }

    /// Frames every 40 ms that come `late(k)` to their source, wait there for 40 if they are late, and take 7 on the path. Gives the largest delay that is kept, and
    /// what the source was behind at last.
    fn kept(frames: u64, late: impl Fn(u64) -> i64) -> (Option<i64>, i64) {
        let mut recent = RecentDelays::new(1);
        let mut now = Time::ZERO;
        for k in 0..frames {
            now = Time::ZERO + Span::from_ms(1_000 + 40 * k);
            let queued = if late(k) > 0 { 40 } else { 0 };
            recent.push(now, late(k) + queued + 7, late(k), late(k) + queued);
        }
        (
            recent.delays.iter().map(|it| it.delay).max(),
            recent.behind(now),
        )
    }

    #[test]
    fn the_lateness_of_a_source_that_is_behind_is_no_delay_of_the_path_and_that_of_single_frames_is()
     {
        // It falls behind by 6 a frame to 1,200, and catches up by 8.
        let late = |k: u64| (6 * k as i64).min(2_800 - 8 * k as i64).max(0);
        assert_eq!(kept(200, late), (Some(7), 1_234));
        assert_eq!(kept(300, late), (Some(7), 1_240));
        assert_eq!(kept(400, late), (Some(7), 2_840 - 8 * 274));
        assert_eq!(kept(500, late), (Some(7), 0));
        // One frame in ten of a source that is in time.
        assert_eq!(
            kept(600, |k| if k % 10 == 3 { 90 } else { 0 }),
            (Some(137), 0)
        );
        // Of a source that is behind, too: then both are needed.
        let both = |k: u64| 500 + if k % 10 == 3 { 90 } else { 0 };
        assert_eq!(kept(600, both), (Some(7), 630));
    }

    #[test]
    fn a_timeline_that_begins_again_leaves_what_is_known_of_the_path() {
        let mut recent = RecentDelays::new(1);
        let mut at = (0..).map(|k| Time::ZERO + Span::from_ms(40 * k));
        for late in (0..1_200).step_by(6) {
            recent.push(at.next().unwrap(), late + 7, late, late);
        }
        recent.begin_again(1_234);
        let now = at.next().unwrap();
        assert_eq!(recent.behind(now), 0);
        recent.push(now, 7, 0, 0);
        assert_eq!(recent.kept_to(), Some(7));
    }

    /// Frames every 40 ms for 100 s that take 7 ms on the path and are held up for `held(ms)` outside it. Gives the delay that is kept to
    /// at each second, on a flow with GOPs of `gop_s` seconds.
    fn each_second(gop_s: u64, held: impl Fn(u64) -> i64) -> Vec<i64> {
        let mut recent = RecentDelays::new(1);
        let mut seconds = Vec::new();
        for at in (0..100_000).step_by(40) {
            let now = Time::ZERO + Span::from_ms(1_000 + at);
            recent.push(now, (held(at) + 7) * MS, 0, held(at) * MS);
            if at % 1_000 == 0 {
                recent.look(now, Span::from_secs(gop_s));
                seconds.push(recent.kept_to().unwrap_or(0) / MS);
            }
        }
        seconds
    }

    #[test]
    fn what_held_frames_up_outside_the_path_is_kept_to_until_it_is_over() {
        // Bursts for 10 s, behind pauses of 0.7 s.
        let bursts = |at: u64| match at % 1_400 {
            since @ 0..280 if (20_000..34_000).contains(&at) => 600 - 2 * since as i64,
            _ => 3,
        };
        let kept = each_second(1, bursts);
        assert!(kept[22..=36].iter().all(|it| *it > 550), "{kept:?}");
        assert!(kept[38..].iter().all(|it| *it == 10), "{kept:?}");
        // One frame is over 4 s later, and longer than a GOP later.
        let once = |at: u64| if at == 20_000 { 600 } else { 3 };
        for (gop_s, over) in [(1, 24), (8, 29)] {
            let kept = each_second(gop_s, once);
            assert_eq!((kept[over], kept[over + 1]), (607, 10), "{kept:?}");
        }
        // Frames that are always held up, and key frames every 8 s.
        assert_eq!(each_second(1, |_| 300)[99], 307);
        let key_frames = |at: u64| if at.is_multiple_of(8_000) { 300 } else { 3 };
        let kept = each_second(8, key_frames);
        assert!(kept.iter().all(|it| *it == 307), "{kept:?}");
    }

    #[test]
    fn what_recurs_is_kept_to_for_twice_the_interval() {
        // A segment every 10 s, until 60 s.
        let segments = |at: u64| match at % 10_000 {
            0 if at <= 60_000 => 300,
            _ => 3,
        };
        let kept = each_second(1, segments);
        assert_eq!((kept[4], kept[5]), (307, 10), "{kept:?}");
        assert!(kept[30..=80].iter().all(|it| *it == 307), "{kept:?}");
        assert!(kept[81..].iter().all(|it| *it == 10), "{kept:?}");
        // Less than half of it does not keep it.
        let lesser = |at: u64| match at % 2_000 {
            0 if at == 20_000 => 300,
            0 => 100,
            _ => 3,
        };
        let kept = each_second(1, lesser);
        assert_eq!((kept[24], kept[25], kept[99]), (307, 107, 107), "{kept:?}");
    }
}
