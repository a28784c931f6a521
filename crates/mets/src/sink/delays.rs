use std::collections::VecDeque;

use layercast_core::{EndToEnd, Serial, Span, Time};
use layercast_qos::{DelayHistogram, MoveCause, SignedSpan};
use layercast_wire::{EndToEndMs, Waited};
use serde::Serialize;

use crate::PlayedFrame;

/// Delay of late frames after their deadline, in milliseconds.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize)]
pub struct LateMs {
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
}

/// Delay of late frames after their deadline, since the start.
#[derive(Clone, Default, Debug)]
pub(super) struct Lateness(DelayHistogram);

impl Lateness {
    /// Takes a frame that came `by` after its deadline; one that was overtaken and was not late does not count.
    pub fn frame(&mut self, by: Span) {
        if by > Span::ZERO {
            self.0.record(by);
        }
    }

    /// The figures; `None` without late frames.
    pub fn figures(&self) -> Option<LateMs> {
        let quantile = |q| self.0.quantile(q).map(Span::as_ms_f64);
        Some(LateMs {
            p50: quantile(0.5)?,
            p99: quantile(0.99)?,
        })
    }
}

/// How long after their time live frames come to the source.
///
/// A source whose frames stay late begins its timeline again: from one frame to the next they come in time, and their time
/// stamps jump by what they were late before. The playout point jumps with them, so that the time from arrival to hand-over
/// stays as it was.
#[derive(Clone, Default, Debug)]
pub(super) struct SourceLateness {
    /// When the running second began, and the least delay of its frames and of those of the second before.
    begun: Option<Time>,
    running: Option<i64>,
    before: Option<i64>,
    /// Of the last frame, and when it arrived.
    last: i64,
    at: Time,
    /// The largest since the playout delay was moved last, and for which it was moved: of the frame that it rose for, or of
    /// those that it was kept to.
    largest: AtSource,
    covered: AtSource,
    /// What the last frame took at the source.
    taken: AtSource,
    /// The first frame of the timeline, and by how much it is behind the one before.
    restart: Option<(Serial, i64)>,
    /// What the playout delay rises by until then follows from that.
    settles: Time,
    /// By how much all timelines together are behind the first.
    skipped: i64,
}

/// The part of the source in the delay of a frame, in picoseconds.
#[derive(Clone, Copy, Default, Debug)]
struct AtSource {
    /// How long after its time it came.
    late: i64,
    /// How long after its time it left.
    left: i64,
}

impl AtSource {
    /// The part in `delay`. A frame that was queued for longer than can be stated spent all of it there.
    fn of(waited: Waited, delay: SignedSpan) -> AtSource {
        let (late, queued) = (late(waited).max(0), waited.queued());
        let left = late.saturating_add(SignedSpan::from(queued).as_ps());
        let left = match queued >= Waited::LONGEST_QUEUED {
            true => left.max(delay.as_ps()),
            false => left,
        };
        AtSource { late, left }
    }

    fn max(self, other: AtSource) -> AtSource {
        AtSource {
            late: self.late.max(other.late),
            left: self.left.max(other.left),
        }
    }

    /// On a timeline that begins `by` later.
    fn on_timeline(self, by: i64) -> AtSource {
        AtSource {
            late: (self.late - by).max(0),
            left: (self.left - by).max(0),
        }
    }
}

/// Lateness, for a second or two, from which a frame in time is the first of another timeline.
const STAYS_LATE: i64 = 500_000_000_000;
/// For how long after that the playout delay may rise, because the jitter of the source went into the jump.
const SETTLES: Span = Span::from_secs(1);

impl SourceLateness {
    /// The next frame may come from another source: it is no measure of what came before.
    pub fn begin_anew(&mut self) {
        *self = SourceLateness {
            skipped: self.skipped,
            ..SourceLateness::default()
        };
    }

    /// Takes a frame that arrives `now`, `delay` after it was emitted. If the timeline of the source begins again with it,
    /// gives by how much the time stamps jump.
    pub fn frame(
        &mut self,
        now: Time,
        seq: Serial,
        waited: Waited,
        delay: SignedSpan,
    ) -> Option<SignedSpan> {
        if !waited.is_live() || self.is_of_the_timeline_before(seq, waited) {
            return None;
        }
        let late = late(waited);
        let begun = *self.begun.get_or_insert(now);
        if now.since(begun) >= Span::from_secs(1) {
            self.before = self.running.take();
            self.begun = Some(now);
        }
        let least = self.before.into_iter().chain(self.running).min();
        let jumps = late <= 0 && least.is_some_and(|least| least >= STAYS_LATE);
        let jump = jumps.then(|| self.last - late);
        if let Some(jump) = jump {
            self.restart = Some((seq, jump));
            self.settles = now.saturating_add(SETTLES);
            self.skipped = self.skipped.saturating_add(jump);
            (self.begun, self.before, self.running) = (Some(now), None, None);
            self.covered = self.covered.on_timeline(jump);
            self.largest = AtSource::default();
        }
        self.running = Some(self.running.map_or(late, |least| least.min(late)));
        (self.last, self.at) = (late, now);
        self.taken = AtSource::of(waited, delay);
        self.largest = self.largest.max(self.taken);
        jump.map(SignedSpan::from_ps)
    }

    /// By how much the time stamp of a frame has to move to be of the running timeline.
    pub fn onto_the_timeline(&self, seq: Serial, waited: Waited) -> SignedSpan {
        match self.restart {
            Some((_, jump)) if self.is_of_the_timeline_before(seq, waited) => {
                SignedSpan::from_ps(jump)
            }
            _ => SignedSpan::ZERO,
        }
    }

    fn is_of_the_timeline_before(&self, seq: Serial, waited: Waited) -> bool {
        self.restart
            .is_some_and(|(first, jump)| first.is_after(seq) && late(waited) > jump / 2)
    }

    /// The least delay in the last seconds, in milliseconds; 0 if frames come in time, `None` without live frames.
    pub fn ms(&self) -> Option<f64> {
        let least = self.before.or(self.running)?;
        Some(least.max(0) as f64 / 1e9)
    }

    /// By how much the timeline of the source moved in all, when it began again since its frames stayed late; in
    /// milliseconds.
    pub fn skipped_ms(&self) -> f64 {
        self.skipped as f64 / 1e9
    }

    /// Takes a move of the playout delay at the last frame. Gives why it rises if that follows the source: the frame came
    /// later to the source, or left it later, by at least half of the rise, than those for which the playout delay was moved
    /// before.
    ///
    /// The frames between may have used the guard of the playout delay, so they are no measure.
    pub fn explains(&mut self, rise: i64) -> Option<MoveCause> {
        let (taken, covered) = (self.taken, self.covered);
        let largest = std::mem::take(&mut self.largest);
        self.covered = if rise > 0 { taken } else { largest };
        if rise <= 0 {
            return None;
        }
        if taken.late - covered.late >= rise / 2 || self.at < self.settles {
            return Some(MoveCause::Source);
        }
        (taken.left - covered.left >= rise / 2).then_some(MoveCause::Queue)
    }
}

/// How long after its time a frame came to the source, in picoseconds; less than zero if it came before.
fn late(waited: Waited) -> i64 {
    -waited.early_ps()
}

/// The end-to-end delays of live frames since the start, and of the last of them.
#[derive(Clone, Default, Debug)]
pub(super) struct Delays {
    frames: u64,
    /// Picoseconds of each part; centuries of them fit.
    sums: [u128; 4],
    totals: DelayHistogram,
    /// The last frames, with the time at which each was handed over.
    recent: VecDeque<(Time, EndToEnd)>,
}

/// Time and number of the frames whose delays are reported.
const RECENT: Span = Span::from_secs(10);
const RECENT_FRAMES: usize = 1_024;

impl Delays {
    /// Takes a frame that is handed over at `now` and gives its delay; one that is not live does not count.
    pub fn frame(&mut self, now: Time, frame: &PlayedFrame) -> Option<EndToEnd> {
        if !frame.waited.is_live() {
            return None;
        }
        let delay = frame.end_to_end(now);
        self.add(&delay);
        if self.recent.len() == RECENT_FRAMES {
            self.recent.pop_front();
        }
        self.recent.push_back((now, delay));
        Some(delay)
    }

    /// The figures of the frames of the last [`RECENT`] seconds before `now`; `None` without live frames in them.
    pub fn recent(&self, now: Time) -> Option<EndToEndMs> {
        let is_recent = |(at, _): &&(Time, EndToEnd)| now.since(*at) <= RECENT;
        let mut window = Delays::default();
        for (_, delay) in self.recent.iter().filter(is_recent) {
            window.add(delay);
        }
        window.figures()
    }

    fn add(&mut self, delay: &EndToEnd) {
        let EndToEnd {
            ingest,
            queue,
            path,
            playout,
        } = *delay;
        self.frames += 1;
        for (sum, part) in self.sums.iter_mut().zip([ingest, queue, path, playout]) {
            *sum += u128::from(part.as_ps());
        }
        self.totals.record(delay.total());
    }

    /// Their figures; `None` without live frames.
    pub fn figures(&self) -> Option<EndToEndMs> {
        let frames = self.frames.max(1) as f64;
        let [ingest, queue, path, playout] = self.sums.map(|sum| sum as f64 / 1e9 / frames);
        let quantile = |q| self.totals.quantile(q).map_or(0.0, Span::as_ms_f64);
        (self.frames > 0).then(|| EndToEndMs {
            p50: quantile(0.5),
            p99: quantile(0.99),
            mean: ingest + queue + path + playout,
            ingest,
            queue,
            path,
            playout,
        })
    }
}

#[cfg(test)]
mod tests {
    use layercast_core::{Layer, PerLayer, Serial};
    use layercast_wire::Payload;

    use super::*;

    #[test]
    fn the_lateness_of_the_source_is_that_of_its_frames_in_time() {
        let at = |ms| Time::ZERO + Span::from_ms(1_000_000 + ms);
        let mut source = SourceLateness::default();
        source.frame(at(0), Serial(0), Waited::default(), SignedSpan::ZERO);
        assert_eq!(source.ms(), None);
        // Jitter of 300 ms is no lateness.
        for k in 0..50u32 {
            let late = if k % 5 == 0 { 300 } else { 0 };
            assert_eq!(in_time(&mut source, at(40 * u64::from(k)), k, late), None);
        }
        assert_eq!(source.ms(), Some(0.0));
        // From then on a frame is 6 ms later than the one before.
        for k in 0..100u32 {
            let late = 6 * i64::from(k);
            in_time(&mut source, at(2_000 + 40 * u64::from(k)), 50 + k, late);
        }
        let ms = source.ms().expect("live frames");
        assert!((300.0..=450.0).contains(&ms), "{ms}");
    }

    /// Takes a frame that came `late` ms after its time and spent no time elsewhere.
    fn in_time(source: &mut SourceLateness, now: Time, k: u32, late: i64) -> Option<SignedSpan> {
        let delay = SignedSpan::from_ps(late * 1_000_000_000);
        source.frame(now, Serial(k), waited(late), delay)
    }

    /// Of a frame that came `late` ms after its time.
    fn waited(late: i64) -> Waited {
        let due = 5_000_000_000_000u64;
        Waited::new(due.saturating_add_signed(late * 1_000_000_000), due)
    }

    /// Rises of a playout delay of `SourceLateness` and what is above it: `late(k)` and `path(k)` are what the source and the path
    /// add to frame `k`, in milliseconds. Gives for each whether the source explains it.
    fn rises(late: impl Fn(u32) -> i64, path: impl Fn(u32) -> i64) -> Vec<Option<MoveCause>> {
        let at = |ms| Time::ZERO + Span::from_ms(1_000_000 + ms);
        let (mut source, mut playout, mut explained) = (SourceLateness::default(), 10, Vec::new());
        for k in 0..500u32 {
            in_time(&mut source, at(40 * u64::from(k)), k, late(k));
            let delay = late(k).max(0) + path(k);
            if delay > playout {
                let to = delay + 10;
                explained.push(source.explains((to - playout) * 1_000_000_000));
                playout = to;
            }
        }
        explained
    }

    #[test]
    fn every_rise_behind_a_slow_source_is_explained_and_none_of_the_path() {
        let all = rises(|k| 6 * i64::from(k) - 40, |_| 3);
        assert!(all.len() > 100, "{all:?}");
        assert!(
            all.iter().all(|it| *it == Some(MoveCause::Source)),
            "{all:?}"
        );
        // With jitter of the path by far most of them are.
        let all = rises(|k| 6 * i64::from(k) - 40, |k| i64::from(k * 7_919 % 9));
        let explained = all.iter().filter(|it| it.is_some()).count();
        assert!(
            explained * 10 > all.len() * 7,
            "{explained} of {}",
            all.len()
        );
        // A path that fills, behind a source in time and behind one that is always late.
        for late in [-20, 700] {
            let all = rises(|_| late, i64::from);
            let path = all.iter().skip(usize::from(late > 0));
            assert!(path.clone().count() > 20, "{all:?}");
            assert!(path.clone().all(Option::is_none), "{late}: {all:?}");
        }
    }

    #[test]
    fn a_fall_leaves_room_for_what_the_source_was_late_since_the_move_before() {
        let at = |ms| Time::ZERO + Span::from_ms(1_000_000 + ms);
        let ms = |ms: i64| ms * 1_000_000_000;
        let mut source = SourceLateness::default();
        for (k, late) in [0, 300, 0].into_iter().enumerate() {
            in_time(&mut source, at(40 * k as u64), k as u32, late);
        }
        assert_eq!(source.explains(ms(-200)), None);
        // 320 ms late, of which there was room for 300: a rise of 200 is of the path.
        in_time(&mut source, at(160), 4, 320);
        assert_eq!(source.explains(ms(200)), None);
        in_time(&mut source, at(200), 5, 520);
        assert_eq!(source.explains(ms(200)), Some(MoveCause::Source));
    }

    #[test]
    fn a_frame_that_leaves_its_source_late_is_not_of_the_path() {
        let ms = |ms: i64| SignedSpan::from_ps(ms * 1_000_000_000);
        let span = |ms| Span::from_ms(ms);
        let mut source = SourceLateness::default();
        let mut rise = |k: u32, queued, delay, by: i64| {
            let now = Time::ZERO + Span::from_ms(40 * u64::from(k));
            let waited = waited(-57).left_after(span(queued));
            source.frame(now, Serial(k), waited, ms(delay));
            source.explains(by * 1_000_000_000)
        };
        // Of an encoder in bursts, whose picture is complete when the next one begins: 254 ms is all that fits.
        assert_eq!(rise(0, 300, 320, 240), Some(MoveCause::Queue));
        // As long once more, of which there is room for 320.
        assert_eq!(rise(1, 300, 400, 80), Some(MoveCause::Queue));
        assert_eq!(rise(2, 40, 500, 100), None);
        assert_eq!(rise(3, 40, 20, -460), None);
        // A picture that takes 90 ms, and then the path.
        assert_eq!(rise(4, 130, 140, 90), Some(MoveCause::Queue));
        assert_eq!(rise(5, 130, 240, 100), None);
    }

    #[test]
    fn a_timeline_that_begins_again_is_seen_once_and_frames_of_the_one_before_are_moved() {
        let at = |ms| Time::ZERO + Span::from_ms(1_000_000 + ms);
        let mut source = SourceLateness::default();
        let mut feed = |k: u32, late| in_time(&mut source, at(40 * u64::from(k)), k, late);
        for k in 0..50 {
            assert_eq!(feed(k, 1_000 + 6 * i64::from(k)), None);
        }
        assert_eq!(
            feed(51, -40),
            Some(SignedSpan::from_ps((1_294 + 40) * 1_000_000_000))
        );
        // One that was overtaken.
        assert_eq!(feed(50, 1_300), None);
        assert_eq!(feed(52, -40), None);
        assert_eq!((source.skipped_ms(), source.ms()), (1_334.0, Some(0.0)));
        let moved = |seq, late| source.onto_the_timeline(Serial(seq), waited(late)).as_ps();
        assert_eq!(moved(50, 1_300), 1_334_000_000_000);
        assert_eq!((moved(50, -40), moved(53, 1_300)), (0, 0));
        // What went into the jump by mistake is not of the path; a second later a rise is.
        assert_eq!(source.explains(100_000_000_000), Some(MoveCause::Source));
        for k in 54..90u32 {
            in_time(&mut source, at(40 * u64::from(k)), k, -40);
        }
        assert_eq!(source.explains(100_000_000_000), None);
        // An encoder that catches up begins nothing again.
        let mut source = SourceLateness::default();
        for k in 0..100u32 {
            let late = if k < 50 {
                1_200
            } else {
                1_200 - 40 * (i64::from(k) - 50)
            };
            let now = at(40 * u64::from(k.min(50)) + u64::from(k));
            let jump = in_time(&mut source, now, k, late);
            assert_eq!(jump, None, "{k}");
        }
    }

    #[test]
    fn the_recent_figures_forget_what_was_before() {
        let mut delays = Delays::default();
        let at = |s| Time::ZERO + Span::from_secs(s);
        assert_eq!(delays.recent(at(100)), None);
        // 500 ms for 20 s, then 50 ms.
        for second in 100..140 {
            let playout = Span::from_ms(if second < 120 { 500 } else { 50 });
            let live = PlayedFrame {
                seq: Serial(0),
                count: 0,
                layer: Layer::Base,
                gop_start: true,
                sound: false,
                missing: PerLayer::default(),
                again: false,
                awaited: None,
                damaged: false,
                payload: Payload::Zeros(1),
                emitted: at(second),
                arrived: at(second),
                deadline: at(second) + playout,
                delay: Span::ZERO,
                waited: Waited::new(1, 1),
            };
            delays.frame(at(second) + playout, &live);
        }
        let (all, recent) = (delays.figures(), delays.recent(at(140)));
        let (all, recent) = (all.expect("frames"), recent.expect("frames"));
        assert!(all.mean > 250.0 && recent.mean < 60.0, "{all:?} {recent:?}");
        assert!(recent.p50 < 60.0 && recent.p99 < 60.0);
        assert_eq!(delays.recent(at(200)), None);
    }
}
