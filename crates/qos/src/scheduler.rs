use std::collections::VecDeque;

use layercast_core::{FrameRate, Span, Time};

use crate::DeadlineWindow;

/// How a [`FlowScheduler`] keeps time (specs/mets.md 2.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SchedulerConfig {
    /// Frames per second.
    pub frame_rate: FrameRate,
    /// Granularity of the sleeping clock; wake-ups round up to it. Zero is an exact clock.
    pub clock_tick: Span,
    /// When the clock ticks first after time zero, less than a tick.
    pub clock_phase: Span,
    /// Lateness above which a deadline counts as missed.
    pub slack: Span,
    /// Most frames released in one wake-up.
    pub max_catchup: u32,
    /// Lateness above which the schedule starts again.
    pub resync: Span,
    /// Missed deadlines in a window that raise an event.
    pub missed_threshold: u32,
    /// Deadlines in a window.
    pub window: u32,
    /// Most frames waiting.
    pub queue_frames: usize,
}

/// What the scheduler tells flow management (specs/mets.md 2.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SchedulerEvent {
    /// This number of the last `window` deadlines was missed.
    MissedDeadline {
        /// Deadlines missed.
        missed: u32,
        /// Deadlines in the window.
        window: u32,
    },
    /// The application paused; the schedule starts again.
    Resync {
        /// How late the frame was.
        late: Span,
    },
    /// Three bad windows in a row: the application should send its base layer only.
    SendBaseOnly,
    /// Three clean windows and two eras without congestion: back to the original rate.
    ResumeRate,
}

/// A frame whose time has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Released<T> {
    /// Its number since the start.
    pub k: u64,
    /// When it was due.
    pub deadline: Time,
    /// When its last byte arrived, if it came with a deadline of its own.
    pub arrived: Option<Time>,
    /// The frame.
    pub frame: T,
}

/// When a live frame leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LiveTime {
    /// When it is due.
    pub due: Time,
    /// When its last byte arrived.
    pub arrived: Time,
}

/// When a queued frame is due.
#[derive(Clone, Copy, Debug)]
enum When {
    /// At the next slot of the frame rate.
    Slot,
    /// At a media time, counted from the first frame.
    Media(Span),
    /// At a time of the clock. It was submitted at `since`, perhaps later than it is due.
    Live { live: LiveTime, since: Time },
}

/// Releases frames at absolute deadlines `t0 + k * period`, so that drift cannot accumulate
/// (specs/mets.md 2.4).
///
/// `t0` is the time of the first frame. Every slot of the frame rate takes one frame: a source that
/// sends fewer layers submits all frames and discards after release. A frame with a media time of
/// its own is due at `t0 + time` instead; it may share its instant with others.
///
/// A live frame has a deadline on the clock. It leaves then, or when it is submitted if that is later: that deadline
/// counts as met, no catch-up limit applies to it, and no schedule starts again.
#[derive(Clone, Debug)]
pub struct FlowScheduler<T> {
    config: SchedulerConfig,
    queue: VecDeque<(When, T)>,
    /// What the schedule counts from.
    anchor: Option<Anchor>,
    /// Number of the next frame to release.
    k: u64,
    /// Frames released in this wake-up, and when the next may start.
    burst: u32,
    not_before: Time,
    deadlines: DeadlineWindow,
    bad_windows: u32,
    clean_windows: u32,
    clear_eras: u32,
    base_only: bool,
    events: VecDeque<SchedulerEvent>,
}

/// An instant with the number and the media time of the frame that was, or should have been, due.
#[derive(Clone, Copy, Debug)]
struct Anchor {
    at: Time,
    k: u64,
    media: Span,
}

/// Windows in a row that make lateness, or its absence, consistent.
const CONSISTENT_WINDOWS: u32 = 3;
/// Eras without congestion before the rate is resumed.
const CLEAR_ERAS: u32 = 2;
/// Events kept for a caller that does not poll.
const MAX_EVENTS: usize = 64;

impl SchedulerConfig {
    /// Today's defaults: exact clock, 1 ms slack, a queue of two GOPs of `gop_n` frames.
    pub fn new(frame_rate: FrameRate, gop_n: u8) -> SchedulerConfig {
        SchedulerConfig {
            frame_rate,
            clock_tick: Span::ZERO,
            clock_phase: Span::ZERO,
            slack: Span::from_ms(1),
            max_catchup: 2,
            resync: Span::from_secs(1),
            missed_threshold: 3,
            window: 24,
            queue_frames: 2 * usize::from(gop_n.max(1)),
        }
    }

    /// The Linux timer of 1996: 10 ms clock and slack.
    pub fn jiffies(frame_rate: FrameRate, gop_n: u8) -> SchedulerConfig {
        SchedulerConfig {
            clock_tick: Span::from_ms(10),
            slack: Span::from_ms(10),
            ..SchedulerConfig::new(frame_rate, gop_n)
        }
    }
}

impl<T> FlowScheduler<T> {
    /// An empty scheduler.
    pub fn new(config: SchedulerConfig) -> FlowScheduler<T> {
        FlowScheduler {
            deadlines: DeadlineWindow::new(config.window),
            config,
            queue: VecDeque::new(),
            anchor: None,
            k: 0,
            burst: 0,
            not_before: Time::ZERO,
            bad_windows: 0,
            clean_windows: 0,
            clear_eras: 0,
            base_only: false,
            events: VecDeque::new(),
        }
    }

    /// Queues a frame for the next slot; gives it back if the queue is full.
    pub fn submit(&mut self, now: Time, frame: T) -> Result<(), T> {
        self.submit_at(now, None, frame)
    }

    /// Queues a frame that is due at media time `time`, counted from the first frame submitted; gives
    /// it back if the queue is full.
    pub fn submit_at(&mut self, now: Time, time: Option<Span>, frame: T) -> Result<(), T> {
        if self.queue.len() >= self.config.queue_frames {
            return Err(frame);
        }
        self.anchor.get_or_insert(Anchor {
            at: now,
            k: 0,
            media: Span::ZERO,
        });
        let when = time.map_or(When::Slot, When::Media);
        self.queue.push_back((when, frame));
        Ok(())
    }

    /// Queues a live frame; gives it back if the queue is full.
    pub fn submit_live(&mut self, now: Time, live: LiveTime, frame: T) -> Result<(), T> {
        if self.queue.len() >= self.config.queue_frames {
            return Err(frame);
        }
        self.queue
            .push_back((When::Live { live, since: now }, frame));
        Ok(())
    }

    /// The next frame that is due at `now`; at most `max_catchup` per wake-up.
    pub fn pop_due(&mut self, now: Time) -> Option<Released<T>> {
        if self.next_wake().is_none_or(|wake| now < wake) {
            return None;
        }
        let mut deadline = self.deadline()?;
        let (when, frame) = self.queue.pop_front()?;
        if let When::Live { live, since } = when {
            self.account(now.since(deadline.max(since)) > self.config.slack);
            let k = self.k;
            self.k += 1;
            return Some(Released {
                k,
                deadline,
                arrived: Some(live.arrived),
                frame,
            });
        }
        let late = now.since(deadline);
        if late > self.config.resync {
            self.anchor = Some(Anchor {
                at: now,
                k: self.k,
                media: match when {
                    When::Media(time) => time,
                    _ => Span::ZERO,
                },
            });
            deadline = now;
            self.emit(SchedulerEvent::Resync { late });
        }
        debug_assert!(deadline <= now, "a frame before its deadline");
        let k = self.k;
        self.k += 1;
        self.pace(now);
        self.account(late > self.config.slack);
        Some(Released {
            k,
            deadline,
            arrived: None,
            frame,
        })
    }

    /// Changes the frame rate: the frame released last, or else the next one, keeps its deadline,
    /// those after it follow at the new rate.
    pub fn set_rate(&mut self, frame_rate: FrameRate, gop_n: u8) {
        let last = self.k.saturating_sub(1);
        if let Some(anchor) = self.anchor.as_mut().filter(|anchor| last > anchor.k) {
            let passed = self.config.frame_rate.due(last - anchor.k);
            // Media times of their own stay where they are.
            *anchor = Anchor {
                at: anchor.at.saturating_add(passed),
                k: last,
                media: Span::from_ps(anchor.media.as_ps().saturating_add(passed.as_ps())),
            };
        }
        self.config.frame_rate = frame_rate;
        self.config.queue_frames = 2 * usize::from(gop_n.max(1));
    }

    /// When [`pop_due`](FlowScheduler::pop_due) has something to give; `None` while nothing waits.
    pub fn next_wake(&self) -> Option<Time> {
        if self.queue.is_empty() {
            return None;
        }
        let due = self.config.round_up(self.deadline()?);
        match self.queue.front() {
            Some((When::Live { .. }, _)) => Some(due),
            _ => Some(due.max(self.not_before)),
        }
    }

    /// Discards the queued frames and returns their count.
    pub fn clear(&mut self) -> usize {
        self.queue.drain(..).count()
    }

    /// Tells whether the era that ends saw congestion; needed for [`SchedulerEvent::ResumeRate`].
    pub fn on_era(&mut self, congested: bool) {
        self.clear_eras = if congested {
            0
        } else {
            self.clear_eras.saturating_add(1)
        };
        self.resume_if_clear();
    }

    /// The next thing to tell flow management.
    pub fn poll_event(&mut self) -> Option<SchedulerEvent> {
        self.events.pop_front()
    }

    /// Deadlines missed since the start.
    pub fn missed_total(&self) -> u64 {
        self.deadlines.total()
    }

    /// Frames waiting.
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether no frame waits.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// The deadline of the next frame, whether or not it is here.
    fn deadline(&self) -> Option<Time> {
        let front = self.queue.front().map(|(when, _)| *when);
        if let Some(When::Live { live, .. }) = front {
            return Some(live.due);
        }
        let anchor = self.anchor?;
        let after = match front {
            // A media time before the anchor's is due with it.
            Some(When::Media(time)) => {
                Span::from_ps(time.as_ps().saturating_sub(anchor.media.as_ps()))
            }
            _ => {
                debug_assert!(anchor.k <= self.k, "the anchor is a released frame");
                self.config.frame_rate.due(self.k - anchor.k)
            }
        };
        Some(anchor.at.saturating_add(after))
    }

    /// Ends the wake-up after `max_catchup` frames if the schedule is still behind.
    fn pace(&mut self, now: Time) {
        self.burst += 1;
        if self.deadline().is_some_and(|deadline| deadline > now) {
            self.burst = 0;
        } else if self.burst >= self.config.max_catchup {
            self.burst = 0;
            // A sleep of zero lasts one clock tick; an exact clock has the slack for its tick.
            let tick = if self.config.clock_tick == Span::ZERO {
                self.config.slack
            } else {
                self.config.clock_tick
            };
            self.not_before = now.saturating_add(tick);
        }
    }

    fn account(&mut self, missed: bool) {
        let Some(missed) = self.deadlines.record(missed) else {
            return;
        };
        let window = self.deadlines.length();
        if missed >= self.config.missed_threshold {
            self.clean_windows = 0;
            self.bad_windows = self.bad_windows.saturating_add(1);
            self.emit(SchedulerEvent::MissedDeadline { missed, window });
            if self.bad_windows >= CONSISTENT_WINDOWS && !self.base_only {
                self.base_only = true;
                self.emit(SchedulerEvent::SendBaseOnly);
            }
        } else {
            self.bad_windows = 0;
            self.clean_windows = self.clean_windows.saturating_add(1);
            self.resume_if_clear();
        }
    }

    fn resume_if_clear(&mut self) {
        if self.base_only
            && self.clean_windows >= CONSISTENT_WINDOWS
            && self.clear_eras >= CLEAR_ERAS
        {
            self.base_only = false;
            self.emit(SchedulerEvent::ResumeRate);
        }
    }

    fn emit(&mut self, event: SchedulerEvent) {
        if self.events.len() < MAX_EVENTS {
            self.events.push_back(event);
        }
    }
}

impl SchedulerConfig {
    /// The first instant of the clock that is not before `time`.
    fn round_up(&self, time: Time) -> Time {
        let first = Time::ZERO + self.clock_phase;
        if time <= first {
            return first;
        }
        let ticks = (Time::ZERO + time.since(first)).next_multiple_of(self.clock_tick);
        first.saturating_add(ticks.since(Time::ZERO))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FPS: FrameRate = FrameRate { num: 24, den: 1 };

    fn ms(ms: u64) -> Time {
        Time::ZERO + Span::from_ms(ms)
    }

    fn filled(config: SchedulerConfig, frames: u32) -> FlowScheduler<u32> {
        let mut scheduler = FlowScheduler::new(SchedulerConfig {
            queue_frames: frames as usize,
            ..config
        });
        for frame in 0..frames {
            scheduler.submit(Time::ZERO, frame).unwrap();
        }
        scheduler
    }

    fn events<T>(scheduler: &mut FlowScheduler<T>) -> Vec<SchedulerEvent> {
        std::iter::from_fn(|| scheduler.poll_event()).collect()
    }

    #[test]
    fn an_hour_of_ntsc_does_not_drift() {
        let ntsc = FrameRate {
            num: 30_000,
            den: 1_001,
        };
        let mut scheduler = FlowScheduler::new(SchedulerConfig::new(ntsc, 12));
        let mut now = Time::ZERO;
        for k in 0..108_000 {
            scheduler.submit(now, ()).unwrap();
            now = scheduler.next_wake().unwrap();
            let released = scheduler.pop_due(now).unwrap();
            assert_eq!(released.k, k);
            assert_eq!(released.deadline, Time::ZERO + ntsc.due(k));
        }
        assert_eq!(now, Time::ZERO + ntsc.due(107_999));
        assert_eq!(scheduler.missed_total(), 0);
    }

    #[test]
    fn a_coarse_clock_slips_but_keeps_the_rate() {
        let mut scheduler = filled(SchedulerConfig::jiffies(FPS, 12), 240);
        for k in 0..240 {
            let now = scheduler.next_wake().unwrap();
            assert_eq!(now.as_ps() % Span::from_ms(10).as_ps(), 0);
            let released = scheduler.pop_due(now).unwrap();
            assert_eq!(released.deadline, Time::ZERO + FPS.due(k));
            assert!(now.since(released.deadline) < Span::from_ms(10));
        }
        assert_eq!(scheduler.missed_total(), 0);
    }

    #[test]
    fn a_clock_ticks_from_its_phase_on() {
        let config = SchedulerConfig {
            clock_phase: Span::from_ms(3),
            ..SchedulerConfig::jiffies(FPS, 12)
        };
        let rounded = [0, 3, 4, 13, 14].map(|at| config.round_up(ms(at)));
        assert_eq!(rounded, [3, 3, 13, 13, 23].map(ms));
        let mut scheduler = filled(config, 24);
        for k in 0..24 {
            let now = scheduler.next_wake().unwrap();
            assert_eq!(now.as_us() % 10_000, 3_000);
            assert_eq!(
                scheduler.pop_due(now).unwrap().deadline,
                Time::ZERO + FPS.due(k)
            );
        }
    }

    #[test]
    fn a_missed_deadline_is_caught_up_two_frames_at_a_time() {
        let mut scheduler = filled(SchedulerConfig::new(FPS, 12), 24);
        let late = ms(200);
        assert_eq!(scheduler.pop_due(late).unwrap().k, 0);
        assert_eq!(scheduler.pop_due(late).unwrap().k, 1);
        assert_eq!(scheduler.pop_due(late), None);
        assert_eq!(scheduler.next_wake(), Some(ms(201)));
        assert_eq!(scheduler.pop_due(ms(201)).unwrap().k, 2);
        assert_eq!(scheduler.pop_due(ms(201)).unwrap().k, 3);
        assert_eq!(scheduler.pop_due(ms(202)).unwrap().k, 4);
        // Frame 5 is due at 208.3 ms: caught up, back on the absolute schedule.
        assert_eq!(scheduler.pop_due(ms(202)), None);
        assert_eq!(scheduler.next_wake(), Some(Time::ZERO + FPS.due(5)));
        assert_eq!(scheduler.missed_total(), 5);
    }

    #[test]
    fn a_pause_of_more_than_a_second_starts_the_schedule_anew() {
        let mut scheduler = filled(SchedulerConfig::new(FPS, 12), 3);
        assert_eq!(scheduler.pop_due(ms(0)).unwrap().k, 0);
        let released = scheduler.pop_due(ms(5_000)).unwrap();
        assert_eq!((released.k, released.deadline), (1, ms(5_000)));
        assert_eq!(scheduler.next_wake(), Some(ms(5_000) + FPS.due(1)));
        assert!(matches!(
            events(&mut scheduler)[..],
            [SchedulerEvent::Resync { .. }]
        ));
    }

    #[test]
    fn a_live_frame_leaves_when_it_is_due_and_a_late_one_when_it_comes() {
        let mut scheduler = FlowScheduler::new(SchedulerConfig::new(FPS, 12));
        let live = |due, arrived| LiveTime {
            due: ms(due),
            arrived: ms(arrived),
        };
        // The first frames of a stream that has run for an hour: nothing waits for a GOP.
        let hour = 3_600_000;
        for (n, late) in [(0, 0), (1, 0), (2, 70), (3, 0)] {
            let arrived = hour + n * 40 + late;
            let frame = scheduler.submit_live(ms(arrived), live(hour + n * 40 + 20, arrived), n);
            frame.unwrap();
        }
        let mut left = Vec::new();
        for now in [20, 60, 150] {
            let now = ms(hour + now);
            assert!(scheduler.next_wake().is_some_and(|wake| wake <= now));
            while let Some(released) = scheduler.pop_due(now) {
                left.push((
                    released.frame,
                    now.since(released.deadline).as_ms(),
                    now.since(released.arrived.unwrap()).as_ms(),
                ));
            }
        }
        assert_eq!(left, [(0, 0, 20), (1, 0, 20), (2, 50, 0), (3, 10, 30)]);
        // The third came late: that is no missed deadline. The fourth was 10 ms late because of the wake-up.
        assert_eq!(scheduler.missed_total(), 1);
        assert_eq!(events(&mut scheduler), []);
    }

    #[test]
    fn media_times_make_the_deadlines() {
        let mut scheduler = FlowScheduler::new(SchedulerConfig::new(FPS, 12));
        let times = [200, 200, 240, 1_000, 960, 6_000];
        for time in times {
            let time = Some(Span::from_ms(time));
            scheduler.submit_at(ms(100), time, ()).unwrap();
        }
        for time in &times[..5] {
            let wake = scheduler.next_wake().unwrap();
            assert_eq!(scheduler.pop_due(wake).unwrap().deadline, ms(100 + time));
        }
        // A second and more too late: the schedule continues from there.
        assert_eq!(scheduler.next_wake(), Some(ms(6_100)));
        assert_eq!(scheduler.pop_due(ms(9_000)).unwrap().deadline, ms(9_000));
        for time in [6_040, 5_000] {
            let time = Some(Span::from_ms(time));
            scheduler.submit_at(ms(9_001), time, ()).unwrap();
        }
        assert_eq!(scheduler.next_wake(), Some(ms(9_040)));
        assert!(scheduler.pop_due(ms(9_040)).is_some());
        assert_eq!(scheduler.pop_due(ms(9_040)).unwrap().deadline, ms(9_000));
    }

    #[test]
    fn a_new_rate_counts_from_the_frame_released_last() {
        let mut scheduler = filled(SchedulerConfig::new(FPS, 12), 24);
        let fast = FrameRate { num: 48, den: 1 };
        let start = Time::ZERO;
        for k in 0..=12 {
            assert_eq!(scheduler.pop_due(start + FPS.due(k)).unwrap().k, k);
        }
        scheduler.set_rate(fast, 24);
        let gop = start + FPS.due(12);
        for k in 1..12 {
            assert_eq!(scheduler.next_wake(), Some(gop + fast.due(k)));
            scheduler.pop_due(gop + fast.due(k)).unwrap();
        }
        assert_eq!(events(&mut scheduler), []);
    }

    #[test]
    fn consistent_misses_ask_for_the_base_layer_and_clean_windows_resume() {
        let mut scheduler = filled(SchedulerConfig::new(FPS, 12), 24 * 6);
        let mut seen = Vec::new();
        for k in 0..24 * 6 {
            // The first three windows are 5 ms late at every eighth deadline.
            let late = if k < 72 && k % 8 == 0 { 5 } else { 0 };
            let now = Time::ZERO + FPS.due(k) + Span::from_ms(late);
            assert_eq!(scheduler.pop_due(now).unwrap().k, k);
            seen.extend(events(&mut scheduler));
        }
        let bad = SchedulerEvent::MissedDeadline {
            missed: 3,
            window: 24,
        };
        assert_eq!(seen, [bad, bad, bad, SchedulerEvent::SendBaseOnly]);
        scheduler.on_era(false);
        scheduler.on_era(true);
        scheduler.on_era(false);
        assert_eq!(scheduler.poll_event(), None);
        scheduler.on_era(false);
        assert_eq!(events(&mut scheduler), [SchedulerEvent::ResumeRate]);
    }

    #[test]
    fn clear_eras_alone_do_not_resume_the_rate() {
        let mut scheduler = filled(SchedulerConfig::new(FPS, 12), 24 * 6);
        scheduler.on_era(false);
        scheduler.on_era(false);
        let resumed = (0..24 * 6).find(|&k| {
            let late = if k < 72 { 5 } else { 0 };
            scheduler.pop_due(Time::ZERO + FPS.due(k) + Span::from_ms(late));
            events(&mut scheduler).contains(&SchedulerEvent::ResumeRate)
        });
        assert_eq!(resumed, Some(143));
    }

    #[test]
    fn a_full_queue_gives_the_frame_back() {
        let mut scheduler = filled(SchedulerConfig::new(FPS, 12), 2);
        assert_eq!(scheduler.submit(ms(0), 7), Err(7));
        assert_eq!(scheduler.len(), 2);
    }

    #[test]
    fn an_empty_scheduler_never_wakes() {
        let mut scheduler = FlowScheduler::<()>::new(SchedulerConfig::new(FPS, 12));
        assert_eq!(scheduler.next_wake(), None);
        assert_eq!(scheduler.pop_due(ms(1)), None);
        assert!(scheduler.is_empty());
    }
}
