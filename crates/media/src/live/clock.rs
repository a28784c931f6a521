use layercast_core::{Span, Time};

use super::Stamp;
use super::stamp::{HZ, span_of};

/// Media and arrival may come apart by this between two frames; more is a pause or a new clock.
const RESYNC: i64 = HZ;
/// Stamps that go back by no more than this are those of pictures that are not in decoding order.
const REORDERED: i64 = HZ / 2;
/// Over how long the earliest arrival is looked for, in ticks.
const WINDOW: i64 = 5 * HZ;
/// The same after the timeline began, for this number of windows: what arrived late is over then.
const FIRST_WINDOW: i64 = HZ;
const FIRST_WINDOWS: u8 = 3;
/// How fast the timeline is moved, in parts of the time that passes.
const SLEW: i64 = 200;
/// The same while frames wait longer than the lead by more than `BEHIND`, as after a pause whose media arrive together.
const CATCH_UP: i64 = 4;
const BEHIND: i64 = HZ / 50;
/// A timeline begins again whose frames all come by more than `LATE` after they are due, for `LATE_FOR`.
const LATE: i64 = HZ;
const LATE_FOR: i64 = HZ;
/// It may begin again at a key frame if its frames have all been due by more than the lead and `EARLY` after they arrived, for
/// `EARLY_FOR`.
const EARLY: i64 = HZ;
const EARLY_FOR: i64 = HZ;

/// Gives frames that arrive live the time at which they leave: as evenly spaced as their time stamps, and no later
/// than a lead after the one of them that arrives last.
///
/// The lead absorbs the jitter of the encoder and of the path from it. With a lead of zero there is no timeline: a
/// frame is due when it arrives. The clocks of encoder and host drift apart: the timeline follows, by at most half a
/// per cent of the time that passes. After a pause, a jump or a restart of the stamps it begins again. If the media of
/// the pause arrive together, frames leave a quarter closer together until the delay is as before.
///
/// It also begins again if for 1 s every frame arrives more than 1 s after it was due, as those of an encoder that is
/// slower than real time or pauses for less than a second again and again: the next frame is due a lead after it arrives.
///
/// The same holds on the other side. If for 1 s every frame is due more than 1 s and the lead after it arrives, the media come
/// faster than real time, those of a pause came together, or their stamps jump forward again and again. Then the timeline [begins again](LiveClock::catch_up)
/// at the next frame that receivers can start at, and the queue before that frame is not sent.
#[derive(Clone, Debug)]
pub struct LiveClock {
    /// In ticks; also all that follows.
    lead: i64,
    start: Option<Time>,
    last: Option<Last>,
    /// Due minus media time.
    offset: i64,
    /// Since when, and by how much at least, frames of the window were early.
    window: i64,
    margin: i64,
    /// Short windows that are left.
    first_windows: u8,
    /// Still to be moved.
    correction: i64,
    /// No frame has left yet, so that the timeline may jump.
    learns: bool,
    /// Since when all frames have come late by more than `LATE`.
    late_since: Option<i64>,
    /// Since when all frames have been due too long after they arrived.
    early_since: Option<i64>,
    resyncs: u64,
    restart: Option<Restart>,
    /// Of the last break.
    broken: Option<Broken>,
    clock_jumps: u64,
}

/// A break of the timeline.
#[derive(Clone, Copy, Debug)]
struct Broken {
    /// Of its frame.
    arrival: i64,
    /// The stamps jumped with it, or less than a second after it.
    jumped: bool,
}

/// Why the timeline of a live stream begins again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Restart {
    /// The stream paused, jumped or was started again.
    Break {
        /// What its stamps did.
        cause: BreakCause,
        /// Less than a second after a break that had this cause, or a jump: it is one break, and `cause` is no news.
        again: bool,
    },
    /// Its frames came this long after they were due.
    Late(Span),
    /// Its frames came this long before they would have left, beyond the lead.
    Early(Span),
}

/// What the time stamps of a stream did at a break of its timeline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BreakCause {
    /// They continued, and the media came this much later than they say.
    Paused(Span),
    /// They jumped back by this.
    Back(Span),
    /// They jumped ahead by this, compared with the time that passed.
    Ahead(Span),
}

impl BreakCause {
    /// The cause of a break at which the stamps moved by `step` while `elapsed` passed, in ticks.
    fn of(step: i64, elapsed: i64) -> BreakCause {
        let apart = step.saturating_sub(elapsed);
        if apart > 0 {
            BreakCause::Ahead(span_of(apart))
        } else if step < -REORDERED {
            BreakCause::Back(span_of(step.saturating_neg()))
        } else {
            BreakCause::Paused(span_of(apart.saturating_neg()))
        }
    }

    fn is_jump(self) -> bool {
        !matches!(self, BreakCause::Paused(_))
    }
}

#[derive(Clone, Copy, Debug)]
struct Last {
    stamp: Stamp,
    media: i64,
    arrival: i64,
    due: i64,
}

impl LiveClock {
    /// A clock whose frames are due `lead` after they arrived, if they arrive in time.
    pub fn new(lead: Span) -> LiveClock {
        LiveClock {
            lead: ticks(lead),
            start: None,
            last: None,
            offset: 0,
            window: 0,
            margin: i64::MAX,
            first_windows: FIRST_WINDOWS,
            correction: 0,
            learns: false,
            late_since: None,
            early_since: None,
            resyncs: 0,
            restart: None,
            broken: None,
            clock_jumps: 0,
        }
    }

    /// A clock that looks at the arrival of frames that do not leave, until [`settle`](LiveClock::settle).
    pub fn learning(lead: Span) -> LiveClock {
        LiveClock {
            learns: true,
            ..LiveClock::new(lead)
        }
    }

    /// Frames leave from now on: the one that arrived last of those seen so far would have had half the lead.
    pub fn settle(&mut self) {
        if !std::mem::take(&mut self.learns) || self.margin == i64::MAX {
            return;
        }
        let early = self.margin - self.lead / 2;
        self.offset -= early;
        if let Some(last) = &mut self.last {
            last.due = last.media + self.offset;
            (self.window, self.margin) = (last.arrival, i64::MAX);
            self.first_windows = FIRST_WINDOWS;
        }
    }

    /// How often the timeline began again.
    pub fn resyncs(&self) -> u64 {
        self.resyncs
    }

    /// How often that was since the stamps jumped.
    pub fn clock_jumps(&self) -> u64 {
        self.clock_jumps
    }

    /// That the timeline began again since the last call, and why.
    pub fn poll_restart(&mut self) -> Option<Restart> {
        self.restart.take()
    }

    /// When a frame is due that arrives `now`, counted from the arrival of the first; never before
    /// the frame before it. Without a stamp it is due with the frame before it.
    pub fn due(&mut self, now: Time, stamp: Option<Stamp>) -> Span {
        let start = *self.start.get_or_insert(now);
        let arrival = ticks(now.since(start));
        let due = match (stamp, self.last) {
            (None, Some(last)) if self.lead == 0 => arrival.max(last.due),
            (None, Some(last)) => last.due,
            (None, None) => arrival + self.lead,
            (Some(stamp), None) => self.anchor(stamp, arrival, 0),
            (Some(stamp), Some(last)) => {
                let step = stamp.since(last.stamp);
                let elapsed = arrival - last.arrival;
                if step.saturating_sub(elapsed).abs() > RESYNC {
                    let why = self.break_off(BreakCause::of(step, elapsed), arrival);
                    self.begin_again(why, stamp, arrival, last.due)
                } else {
                    self.follow(stamp, arrival, last, step)
                }
            }
        };
        self.note_early(due, arrival);
        span_of(due)
    }

    /// As [`due`](LiveClock::due), on the clock of `now`.
    pub fn due_at(&mut self, now: Time, stamp: Option<Stamp>) -> Time {
        let due = self.due(now, stamp);
        self.start.unwrap_or(now).saturating_add(due)
    }

    /// Begins the timeline again at the last frame, if the media stay early or if `held` says that too many wait: it is due a
    /// lead after it arrived, and not before `after`, when what was sent before it is due. Gives when; the frames
    /// that wait are to be dropped.
    ///
    /// To be called for frames that a receiver can start at.
    pub fn catch_up(&mut self, after: Time, held: bool) -> Option<Time> {
        let (start, last) = (self.start?, self.last?);
        let since = self.early_since.unwrap_or(last.arrival);
        if self.lead == 0 || !held && last.arrival - since < EARLY_FOR {
            return None;
        }
        let by = last.due - last.arrival - self.lead;
        let why = Restart::Early(span_of(by));
        self.resyncs += 1;
        let least = ticks(after.since(start));
        let due = self.begin_again(why, last.stamp, last.arrival, least);
        self.note_early(due, last.arrival);
        // Ticks are rounded.
        Some(start.saturating_add(span_of(due)).max(after))
    }

    fn note_early(&mut self, due: i64, arrival: i64) {
        if due - arrival > self.lead + EARLY {
            self.early_since.get_or_insert(arrival);
        } else {
            self.early_since = None;
        }
    }

    /// A break with a frame. Frames of before and after it may come together, as the last one of an encoder that was killed
    /// and the first one of the next: that is one break, whose cause is the jump.
    fn break_off(&mut self, cause: BreakCause, arrival: i64) -> Restart {
        let before = self.broken.filter(|it| arrival - it.arrival < RESYNC);
        let jumped = before.is_some_and(|it| it.jumped);
        let again = before.is_some() && (jumped || !cause.is_jump());
        self.resyncs += u64::from(before.is_none());
        self.clock_jumps += u64::from(cause.is_jump() && !jumped);
        self.broken = Some(Broken {
            arrival,
            jumped: jumped || cause.is_jump(),
        });
        Restart::Break { cause, again }
    }

    fn begin_again(&mut self, why: Restart, stamp: Stamp, arrival: i64, after: i64) -> i64 {
        self.restart = Some(why);
        self.anchor(stamp, arrival, after)
    }

    /// By how much a frame is late that was due at `due`, if all frames have been late for `LATE_FOR`.
    fn stays_late(&mut self, due: i64, arrival: i64) -> Option<Span> {
        let late = arrival - due;
        if late <= LATE || self.lead == 0 {
            self.late_since = None;
            return None;
        }
        let since = *self.late_since.get_or_insert(arrival);
        (arrival - since >= LATE_FOR).then(|| span_of(late))
    }

    /// Begins a timeline at a frame.
    fn anchor(&mut self, stamp: Stamp, arrival: i64, after: i64) -> i64 {
        let due = (arrival + self.lead).max(after);
        self.offset = due;
        let margin = match self.learns {
            true => due - arrival,
            false => i64::MAX,
        };
        (self.window, self.margin, self.correction) = (arrival, margin, 0);
        self.first_windows = FIRST_WINDOWS;
        self.late_since = None;
        self.last = Some(Last {
            stamp,
            media: 0,
            arrival,
            due,
        });
        due
    }

    fn follow(&mut self, stamp: Stamp, arrival: i64, last: Last, step: i64) -> i64 {
        let media = last.media + step;
        if let Some(by) = self.stays_late(media + self.offset, arrival) {
            self.resyncs += 1;
            return self.begin_again(Restart::Late(by), stamp, arrival, last.due);
        }
        self.margin = self.margin.min(media + self.offset - arrival);
        let window = match self.first_windows {
            0 => WINDOW,
            _ => FIRST_WINDOW,
        };
        if arrival - self.window > window && !self.learns {
            self.first_windows = self.first_windows.saturating_sub(1);
            // The latest frame should come a good part of the lead before it is due, and not more.
            self.correction = if self.margin < self.lead / 4 {
                self.lead / 2 - self.margin
            } else if self.margin > self.lead {
                self.lead - self.margin
            } else {
                0
            };
            (self.window, self.margin) = (arrival, i64::MAX);
        }
        let speed = match self.correction < -BEHIND {
            true => CATCH_UP,
            false => SLEW,
        };
        let most = step.max(0) / speed;
        let moved = self.correction.clamp(-most, most);
        self.correction -= moved;
        self.offset += moved;
        let due = match self.lead {
            0 => arrival,
            _ => media + self.offset,
        };
        let due = due.max(last.due);
        self.last = Some(Last {
            stamp,
            media,
            arrival,
            due,
        });
        due
    }
}

fn ticks(span: Span) -> i64 {
    i64::try_from(span.mul_div(HZ as u64, 1_000_000_000_000).as_ps()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAD: Span = Span::from_ms(200);

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::from_ms(1_000_000 + ms)
    }

    fn stamp(ms: u64) -> Option<Stamp> {
        Some(Stamp::pes(((1 << 33) - 90_000 + ms * 90) & ((1 << 33) - 1)))
    }

    #[test]
    fn jitter_does_not_show_and_the_wrap_is_passed() {
        let mut clock = LiveClock::new(LEAD);
        for k in 0..200 {
            let late = (k * 37) % 90;
            let due = clock.due(at(k * 40 + if k == 0 { 0 } else { late }), stamp(k * 40));
            assert_eq!(due, Span::from_ms(200 + k * 40), "{k}");
        }
        assert_eq!(clock.resyncs(), 0);
        assert_eq!(clock.due(at(8_000), None), Span::from_ms(200 + 199 * 40));
    }

    #[test]
    fn frames_of_before_and_after_a_break_that_come_together_are_one_break() {
        let mut clock = LiveClock::new(LEAD);
        for k in 0..50 {
            clock.due(at(k * 40), stamp(90_000 + k * 40));
        }
        assert_eq!(clock.poll_restart(), None);
        // The encoder is killed and started again 6 s later: its last frame is known to be whole only then.
        clock.due(at(8_000), stamp(92_000));
        let paused = BreakCause::Paused(Span::from_ms(6_000));
        let back = BreakCause::Back(Span::from_ms(92_000));
        let breaks = |cause, again| Some(Restart::Break { cause, again });
        assert_eq!(clock.poll_restart(), breaks(paused, false));
        clock.due(at(8_000), stamp(0));
        assert_eq!(clock.poll_restart(), breaks(back, false));
        assert_eq!((clock.resyncs(), clock.clock_jumps()), (1, 1));
        for k in 1..50 {
            clock.due(at(8_000 + k * 40), stamp(k * 40));
            assert_eq!(clock.poll_restart(), None, "{k}");
        }
        // Another one.
        clock.due(at(20_000), stamp(2_000));
        let paused = BreakCause::Paused(Span::from_ms(10_000));
        assert_eq!(clock.poll_restart(), breaks(paused, false));
        assert_eq!((clock.resyncs(), clock.clock_jumps()), (2, 1));
    }

    #[test]
    fn a_break_has_the_cause_that_its_stamps_show() {
        let ms = |ms| Span::from_ms(ms);
        for (stamped, arrived, cause) in [
            // A camera that rebooted, or a recording that is played from its start again.
            (0, 0, BreakCause::Back(ms(91_960))),
            (89_000, 0, BreakCause::Back(ms(2_960))),
            // Another clock.
            (900_000, 0, BreakCause::Ahead(ms(808_000))),
            (100_000, 5_000, BreakCause::Ahead(ms(3_000))),
            // The encoder was stopped; its clock too, or it made up for a part of the pause.
            (92_000, 5_000, BreakCause::Paused(ms(5_000))),
            (94_000, 5_000, BreakCause::Paused(ms(3_000))),
            // The same, and the picture is one that is shown before the last.
            (91_880, 5_000, BreakCause::Paused(ms(5_120))),
        ] {
            let mut clock = LiveClock::new(LEAD);
            for k in 0..50 {
                clock.due(at(k * 40), stamp(90_000 + k * 40));
            }
            clock.due(at(2_000 + arrived), stamp(stamped));
            let again = false;
            assert_eq!(clock.poll_restart(), Some(Restart::Break { cause, again }));
            assert_eq!(clock.clock_jumps(), u64::from(cause.is_jump()));
            // The same again immediately, as of streams of two clocks, is no news.
            clock.due(at(2_500 + arrived), stamp(stamped + 50_000));
            let Some(Restart::Break { again, .. }) = clock.poll_restart() else {
                panic!("{cause:?}: no restart");
            };
            assert_eq!((again, clock.resyncs()), (cause.is_jump(), 1), "{cause:?}");
            assert_eq!(clock.clock_jumps(), 1, "{cause:?}");
        }
    }

    #[test]
    fn drift_is_followed_both_ways() {
        for ppm in [-1_000i64, 1_000] {
            let mut clock = LiveClock::new(LEAD);
            let mut last = Span::ZERO;
            for k in 0..90_000u64 {
                let true_us = k * 40_000;
                let arrival = true_us.saturating_add_signed(true_us as i64 * ppm / 1_000_000);
                let now = at(0) + Span::from_us(arrival);
                let due = clock.due(now, stamp(k * 40));
                let early = due.as_us() as i64 - arrival as i64;
                assert!((20_000..=260_000).contains(&early), "{ppm} {k}: {early} us");
                assert!(due >= last);
                last = due;
            }
            assert_eq!(clock.resyncs(), 0);
        }
    }

    #[test]
    fn a_clock_that_learns_gives_the_latest_frame_half_the_lead() {
        let mut clock = LiveClock::learning(LEAD);
        for k in 0..200u64 {
            // The first frame is the latest of all: by 90 ms.
            let late = if k == 0 { 90 } else { (k * 37) % 60 };
            clock.due_at(at(k * 40 + late), stamp(k * 40));
        }
        clock.settle();
        for k in 200..210u64 {
            let due = clock.due_at(at(k * 40), stamp(k * 40));
            assert_eq!(due, at(k * 40 + 90 + 100), "{k}");
        }
    }

    /// Media that arrive together after a pause, while the stream is looked at or later, delay what follows for seconds only.
    #[test]
    fn after_a_pause_whose_media_arrive_together_the_delay_returns() {
        for (pause, while_learning) in [(600, false), (4_000, false), (800, true), (4_000, true)] {
            let mut clock = match while_learning {
                true => LiveClock::learning(LEAD),
                false => LiveClock::new(LEAD),
            };
            // From 2 s on nothing arrives; at the end of the pause all of it does.
            let arrival = |k: u64| match k * 40 {
                media if (2_000..2_000 + pause).contains(&media) => 2_000 + pause,
                media => media,
            };
            let (mut last, mut settled) = (at(0), !while_learning);
            for k in 0..1_000u64 {
                if !settled && k * 40 > 2_000 + pause + 500 {
                    clock.settle();
                    (settled, last) = (true, at(0));
                }
                let (now, before) = (at(arrival(k)), last);
                last = clock.due_at(now, stamp(k * 40));
                if k * 40 > 2_000 + pause + 1_000 {
                    assert!(last.since(before) >= Span::from_ms(29), "{pause} {k}");
                }
                if k * 40 > 2_000 + 5 * pause + 9_000 {
                    let wait = last.since(now);
                    assert!(wait <= LEAD + Span::from_ms(41), "{pause} {k}: {wait:?}");
                    assert!(wait >= Span::from_ms(50), "{pause} {k}: {wait:?}");
                }
            }
        }
    }

    #[test]
    fn without_a_lead_a_frame_is_due_when_it_arrives() {
        let mut clock = LiveClock::new(Span::ZERO);
        for (k, late) in [(0, 0), (1, 30), (2, 0), (3, 5)] {
            let due = clock.due_at(at(k * 40 + late), stamp(k * 40));
            assert_eq!(due, at(k * 40 + late), "{k}");
        }
        assert_eq!(clock.due_at(at(130), None), at(130));
        assert_eq!(clock.resyncs(), 0);
    }

    #[test]
    fn a_pause_and_a_restart_begin_anew() {
        let mut clock = LiveClock::new(LEAD);
        clock.due(at(0), stamp(0));
        clock.due(at(40), stamp(40));
        // The encoder stood still for ten seconds.
        assert_eq!(clock.due(at(10_080), stamp(80)), Span::from_ms(10_280));
        assert_eq!(clock.due(at(10_120), stamp(120)), Span::from_ms(10_320));
        // It was started again, with other stamps.
        assert_eq!(
            clock.due(at(12_000), stamp(5_000_000)),
            Span::from_ms(12_200)
        );
        assert_eq!(clock.resyncs(), 2);
    }

    /// Time stamps of pictures every 40 ms and the time at which each arrives, in milliseconds.
    fn lateness(
        clock: &mut LiveClock,
        arrivals: impl Iterator<Item = (u64, u64)>,
    ) -> Vec<(u64, i64)> {
        let late = |(media, arrival): (u64, u64)| {
            let due = clock.due_at(at(arrival), stamp(media));
            (
                arrival,
                at(arrival).as_ps() as i64 / 1_000_000_000 - due.as_ps() as i64 / 1_000_000_000,
            )
        };
        arrivals.map(late).collect()
    }

    #[test]
    fn a_stream_that_stays_late_begins_anew_and_is_in_time_when_its_encoder_recovers() {
        // 17 s of media at 0.85 of real time, then real time.
        let slow = |media: u64| media + media.min(17_000) * 15 / 85;
        // Pauses of 900 ms, none of which is a break, every 2 s: the media of them do not follow.
        let pauses = |media: u64| media + media.min(18_000) / 2_000 * 900;
        // The stamps fall back by 0.9 s twice.
        let back = |media: u64| {
            media
                + if media < 4_000 {
                    0
                } else if media < 8_000 {
                    900
                } else {
                    1_800
                }
        };
        for (name, arrival) in [
            ("slow", &slow as &dyn Fn(u64) -> u64),
            ("pauses", &pauses),
            ("back", &back),
        ] {
            let mut clock = LiveClock::new(LEAD);
            let media = (0..1_000u64).map(|k| k * 40);
            let all = lateness(&mut clock, media.map(|media| (media, arrival(media))));
            assert!(clock.resyncs() > 0, "{name}");
            assert!(
                matches!(clock.poll_restart(), Some(Restart::Late(by)) if by > Span::from_ms(1_000)),
                "{name}"
            );
            assert_eq!(clock.poll_restart(), None, "{name}");
            let most = all.iter().map(|it| it.1).max();
            assert!(most < Some(2_900), "{name}: {most:?}");
            let recovered = all.iter().filter(|it| it.0 > 28_000);
            assert!(
                recovered.clone().all(|it| it.1 <= 1_000),
                "{name}: {:?}",
                recovered.max_by_key(|it| it.1)
            );
        }
    }

    #[test]
    fn one_late_burst_and_one_late_stream_of_two_begin_nothing_anew() {
        // Pictures come in bursts of 900 ms. From 4 s on they are 0.6 s late, and the sound of their time 1.5 s.
        let mut clock = LiveClock::new(LEAD);
        let mut all = Vec::new();
        for k in 0..1_000u64 {
            let media = k * 40;
            let arrival = (media / 900 + 1) * 900 + if media < 4_000 { 0 } else { 600 };
            all.push((media, arrival));
            all.extend(media.checked_sub(900).map(|sound| (sound, arrival)));
        }
        lateness(&mut clock, all.into_iter());
        let late = clock
            .poll_restart()
            .filter(|it| matches!(it, Restart::Late(_)));
        assert_eq!(late, None);
        // Without a lead nothing is late.
        let mut clock = LiveClock::new(Span::ZERO);
        lateness(&mut clock, (0..1_000).map(|k| (k * 40, k * 50)));
        assert_eq!(clock.resyncs(), 0);
    }

    /// Pictures every 40 ms with these stamps and arrivals, and a start every second. Gives when each arrives and by how much it
    /// waits longer than the lead, `None` if it is dropped; frames are sent 200 ms before they have only the lead to wait.
    fn waits(
        clock: &mut LiveClock,
        media: impl Iterator<Item = (u64, u64)>,
    ) -> Vec<(u64, Option<i64>)> {
        let mut all: Vec<(u64, Time, bool)> = Vec::new();
        let mut passed = Time::ZERO;
        for (k, (media, arrival)) in media.enumerate() {
            let now = at(arrival);
            let leaves = |due: Time| due.since(now) <= LEAD + Span::from_ms(200);
            for (_, due, _) in all.iter().filter(|it| !it.2 && leaves(it.1)) {
                passed = passed.max(*due);
            }
            let mut due = clock.due_at(now, stamp(media));
            let next = (k % 25 == 0).then(|| clock.catch_up(passed, false));
            if let Some(next) = next.flatten() {
                due = next;
                for it in all.iter_mut().filter(|it| it.1 > passed) {
                    it.2 = true;
                }
            }
            assert!(due >= passed, "{k}");
            all.push((arrival, due, false));
        }
        let wait = |(arrival, due, dropped): (u64, Time, bool)| {
            let by = due.since(at(arrival)).as_ms() as i64 - LEAD.as_ms() as i64;
            (arrival, (!dropped).then_some(by))
        };
        all.into_iter().map(wait).collect()
    }

    #[test]
    fn a_stream_that_stays_early_begins_anew_at_a_start_and_is_in_time_when_that_is_over() {
        let real = |k: u64| (40 * k, 40 * k);
        // The stamps jump by 0.9 s every 2 s.
        let jumps = |k: u64| (40 * k + (40 * k).min(20_000) / 2_000 * 900, 40 * k);
        // 20 s of media at ten times real time.
        let burst = |k: u64| {
            (
                40 * k,
                40 * k + 4_500 - (40 * k).clamp(5_000, 25_000) * 9 / 10,
            )
        };
        // 3 s of media arrive together.
        let pause = |k: u64| match 40 * k {
            media @ 5_000..8_000 => (media, 8_000),
            media => (media, media),
        };
        type Arrivals<'a> = &'a dyn Fn(u64) -> (u64, u64);
        let cases: [(&str, Arrivals<'_>, u64); 4] = [
            ("real", &real, 0),
            ("jumps", &jumps, 4),
            ("burst", &burst, 1),
            ("pause", &pause, 1),
        ];
        for (name, of, least) in cases {
            let mut clock = LiveClock::new(LEAD);
            let all = waits(&mut clock, (0..1_250).map(of));
            assert!(clock.resyncs() >= least, "{name}: {}", clock.resyncs());
            let early = |it| matches!(it, Some(Restart::Early(by)) if by > Span::from_secs(1));
            assert_eq!(early(clock.poll_restart()), least > 0, "{name}");
            // What is sent waits until the next start after a second, at most.
            let most = all.iter().filter_map(|it| it.1).max();
            assert!(most < Some(3_000), "{name}: {most:?}");
            // The jumps end at 20 s, the others earlier.
            let after = all.iter().filter(|it| it.0 > 25_000);
            assert!(after.clone().count() > 100, "{name}");
            let most = after.clone().filter_map(|it| it.1).max();
            assert!(most <= Some(300), "{name}: {most:?}");
            assert!(after.clone().all(|it| it.1.is_some()), "{name}");
            let dropped = all.iter().filter(|it| it.1.is_none()).count();
            assert_eq!(dropped > 0, least > 0, "{name}");
        }
    }

    #[test]
    fn bursts_of_segments_and_a_few_early_frames_begin_nothing_anew() {
        // Segments of 4 s arrive together; the stamps jump by 0.9 s once.
        let segments = |k: u64| (40 * k, (40 * k).next_multiple_of(4_000));
        let jump = |k: u64| (40 * k + if k > 200 { 900 } else { 0 }, 40 * k);
        for of in [&segments as &dyn Fn(u64) -> (u64, u64), &jump] {
            let mut clock = LiveClock::new(LEAD);
            let all = waits(&mut clock, (0..1_000).map(of));
            assert!(all.iter().all(|it| it.1.is_some()));
            let restart = clock.poll_restart();
            assert!(!matches!(restart, Some(Restart::Early(_))), "{restart:?}");
        }
        // Too many wait: it begins again immediately. Without a lead nothing is early.
        let mut clock = LiveClock::new(LEAD);
        assert_eq!(clock.catch_up(at(0), true), None);
        for k in 0..50 {
            clock.due_at(at(0), stamp(40 * k));
        }
        assert_eq!(clock.catch_up(at(0), false), None);
        assert_eq!(clock.catch_up(at(0), true), Some(at(200)));
        assert_eq!(clock.due_at(at(0), stamp(2_000)), at(240));
        let mut clock = LiveClock::new(Span::ZERO);
        clock.due_at(at(0), stamp(0));
        assert_eq!(clock.catch_up(at(0), true), None);
    }
}
