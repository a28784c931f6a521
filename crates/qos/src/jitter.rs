use std::collections::VecDeque;

use layercast_core::{FrameRate, Span, Time};

use crate::jitter_config::{GUARD, LOSSY_LEAST};
use crate::outage::OutageDetector;
use crate::recent::{COMMON, RecentDelays};
use crate::stall::StallDetector;
use crate::{JitterConfig, Margin, SignedSpan, SourceTime};

/// When to play one frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Playout {
    /// When it is due.
    pub deadline: Time,
    /// How long after its deadline it came, if it did: drop it.
    pub late_by: Option<Span>,
}

/// Why the playout delay moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MoveCause {
    /// A frame came after its deadline.
    Late,
    /// The same, because its media came late to the source.
    Source,
    /// The same, because it left the source late: it was complete late, or queued there.
    Queue,
    /// The same, because this host did not run the receiver when it arrived.
    Stopped,
    /// The path loses frames, and a repair needs a round trip.
    Loss,
    /// The delays of the last frames call for it, or the configuration.
    Estimate,
}

/// What the filter tells flow management.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JitterEvent {
    /// The playout delay moved.
    PlayoutMoved {
        /// Old playout delay.
        from: SignedSpan,
        /// New playout delay.
        to: SignedSpan,
        /// Why.
        cause: MoveCause,
    },
    /// The delay bound is too tight for the delays seen.
    DelayBound {
        /// The playout delay that would be needed.
        needed: SignedSpan,
    },
    /// No GOP start for two GOP lengths: the playout point was allowed to move without one.
    GopStartMissing,
}

/// Gives back the timing of the source: a frame emitted at T is played at T + D, and D moves only
/// at the start of a GOP (specs/mets.md 2.8).
///
/// One-way delays may be negative (clock offset): the offset cancels in T + D. The caller drops
/// duplicates; every arrival, late or not, updates the estimate.
#[derive(Clone, Debug)]
pub struct JitterFilter {
    config: JitterConfig,
    /// Mean delay and mean deviation in picoseconds.
    d: f64,
    s: f64,
    /// Margin in deviations now in use.
    r: f64,
    /// Under [`Margin::Quantile`].
    recent: Option<RecentDelays>,
    stalls: StallDetector,
    outages: OutageDetector,
    play: Option<Schedule>,
    /// In force from the next GOP start on.
    next: Option<JitterConfig>,
    /// When frames were missing last.
    lossy: Option<Time>,
    /// What repairs may take, of which no delay shows anything yet.
    repairs: Span,
    /// How much longer than others the first frames of GOPs may take, of which none has shown it yet.
    spread: Span,
    /// What the source is late with the next frame, and for how long it then queues it; `None` for longer than it can state.
    source_late: Span,
    source_queued: Option<Span>,
    /// When a frame came to the source in time last.
    in_time: Option<Time>,
    /// From when to when this host did not run the receiver, the last time.
    stopped: Option<(Time, Time)>,
    /// That held up the last frame.
    was_stopped: bool,
    late_in_period: u32,
    clean_periods: u32,
    late: u64,
    clamped: u64,
    events: VecDeque<JitterEvent>,
}

/// What is known once the first packet came.
#[derive(Clone, Copy, Debug)]
struct Schedule {
    delay: SignedSpan,
    /// Least delay seen, without the lateness of the source.
    floor: i64,
    /// Newest frame, by emission, and its deadline.
    newest: SourceTime,
    deadline: Time,
    /// When the period began that ends with the next GOP start.
    period_start: SourceTime,
    /// The playout point was pulled in and the old schedule has not run out yet.
    catching_up: bool,
    /// When a smaller delay was looked for last; `None` if the next frame is to look.
    looked: Option<Time>,
}

/// Errors above this are outliers (specs/mets.md 7).
const HUGE: f64 = 10e12;
/// Most that the first packet may set as deviation: half of a larger delay is a clock offset, and
/// would hold back the playout by as much.
const FIRST_DEVIATION_MOST: f64 = 0.25e12;
/// How many deviations of an outlier count, and at least how much of it.
const OUTLIER_DEVIATIONS: f64 = 20.0;
const OUTLIER_LEAST: f64 = 1e9;
/// How much one late frame raises r under [`Margin::TargetLate`], and its range.
const TARGET_GAIN: f64 = 0.2;
const TARGET_START: f64 = 3.0;
const TARGET_RANGE: (f64, f64) = (0.5, 50.0);
/// Time without a late frame after which [`Margin::Smallest`] looks for a smaller delay.
const CALM: Span = Span::from_secs(5);
/// How far the playout point moves for a late frame where no bound is set.
const FARTHEST: Span = Span::from_secs(2);
/// How long a path counts as lossy after a loss.
const LOSSY: Span = Span::from_secs(60);
/// Events kept for a caller that does not poll.
const MAX_EVENTS: usize = 64;

impl JitterFilter {
    /// A filter that has seen nothing.
    pub fn new(config: JitterConfig) -> JitterFilter {
        let r = match config.margin {
            Margin::Fixed(r) => r,
            Margin::TargetLate { .. } | Margin::Quantile { .. } | Margin::Smallest { .. } => {
                TARGET_START
            }
        };
        JitterFilter {
            config,
            d: 0.0,
            s: 0.0,
            r,
            recent: config.recent(),
            stalls: StallDetector::default(),
            outages: OutageDetector::default(),
            lossy: None,
            repairs: Span::ZERO,
            spread: Span::ZERO,
            source_late: Span::ZERO,
            source_queued: Some(Span::ZERO),
            in_time: None,
            stopped: None,
            was_stopped: false,
            play: None,
            next: None,
            late_in_period: 0,
            clean_periods: 0,
            late: 0,
            clamped: 0,
            events: VecDeque::new(),
        }
    }

    /// Changes how it works from the next GOP start on; estimates stay.
    pub fn reconfigure(&mut self, config: JitterConfig) {
        if self.play.is_none() {
            *self = JitterFilter::new(config);
        } else {
            self.next = (config != self.config).then_some(config);
        }
    }

    /// Takes a frame emitted at `emission` that is complete at `now`, and says when to play it.
    pub fn on_arrival(&mut self, now: Time, emission: SourceTime, gop_start: bool) -> Playout {
        let delay = emission.age(now).as_ps();
        let range = self
            .play
            .map_or(0, |play| play.delay.as_ps().saturating_sub(play.floor));
        let held_up = self.stalls.on_arrival(now, delay, range) && self.config.spares_stalls;
        let is_smallest = self.keeps_smallest();
        self.was_stopped = self
            .play
            .is_some_and(|play| self.is_stopped(emission, play.floor));
        let floor = self.play.map_or(i64::MAX, |play| play.floor);
        let held = self.held(delay, floor.min(self.of_path(delay)));
        let in_outage = self.play.is_some_and(|play| {
            let playout = play.delay.as_ps();
            self.outages.on_arrival(now, delay, held, playout)
        });
        if self.source_late == Span::ZERO {
            self.in_time = Some(now);
        } else if now.since(*self.in_time.get_or_insert(now)) > COMMON {
            self.outages.no_outage();
        }
        let mut play = match self.play {
            None => self.first(now, delay, emission),
            Some(mut play) => {
                play.floor = play.floor.min(self.of_path(delay));
                let is_spared = held_up || is_smallest && in_outage;
                if !is_spared {
                    self.estimate_from(now, delay, held);
                }
                play
            }
        };
        let overdue = emission.since(play.period_start) > self.gop().times(2);
        if gop_start || overdue {
            if !gop_start {
                self.emit(JitterEvent::GopStartMissing);
            }
            play.period_start = emission;
            self.end_period(now, &mut play);
            if let Some(config) = self.next.take() {
                self.change(now, config, &mut play);
            }
        }
        if self.keeps_smallest() {
            self.keep_smallest(now, &mut play, emission, delay);
        }
        if gop_start {
            // From here on the delays show it.
            self.spread = Span::ZERO;
        }
        let deadline = match self.config.holds {
            true => self.schedule(&mut play, now, emission),
            false => self.at_once(&mut play, now, emission),
        };
        self.play = Some(play);
        let late_by = (now > deadline).then(|| now.since(deadline));
        self.late_in_period += u32::from(late_by.is_some());
        self.late += u64::from(late_by.is_some());
        if !held_up {
            self.adapt_margin(late_by.is_some());
        }
        Playout { deadline, late_by }
    }

    fn gop(&self) -> Span {
        self.config.frame_rate.due(u64::from(self.config.gop_n))
    }

    /// Whether the playout point is kept frame by frame.
    fn keeps_smallest(&self) -> bool {
        let is_smallest = matches!(self.config.margin, Margin::Smallest { .. });
        is_smallest && self.config.moves && self.config.bound.is_none()
    }

    /// The playout delay D; zero before the first frame.
    pub fn playout(&self) -> SignedSpan {
        self.play.map_or(SignedSpan::ZERO, |play| play.delay)
    }

    /// For how long after the least delay seen a frame may arrive and still be played: until the playout point, or as
    /// far as the playout point moves for a late frame. `None` before the first frame.
    pub fn spare(&self) -> Option<Span> {
        let play = self.play?;
        let most = match self.keeps_smallest() {
            true => self.config.longest.unwrap_or(FARTHEST).into(),
            false => play.delay,
        };
        let spare = most.as_ps().saturating_sub(play.floor);
        Some(SignedSpan::from_ps(spare).clamped())
    }

    /// For how long a frame that is due may wait for frames before it, as a repair of them may be on its way; `None` if the
    /// playout point does not move for a late frame.
    pub fn longest_wait(&self) -> Option<Span> {
        self.keeps_smallest()
            .then(|| self.config.longest.unwrap_or(FARTHEST))
    }

    /// Mean delay d and mean deviation s.
    pub fn estimate(&self) -> (SignedSpan, Span) {
        let s = SignedSpan::from_ps(self.s as i64);
        (SignedSpan::from_ps(self.d as i64), s.clamped())
    }

    /// Frames that must fit into the playout buffer: D times the frame rate, and one GOP.
    pub fn buffer_frames(&self) -> usize {
        let FrameRate { num, den } = self.config.frame_rate;
        let playout = self
            .playout()
            .clamped()
            .mul_div(u64::from(num), u64::from(den.max(1)));
        let frames = playout.as_ps().div_ceil(Span::from_secs(1).as_ps());
        usize::try_from(frames)
            .unwrap_or(usize::MAX)
            .saturating_add(usize::from(self.config.gop_n))
    }

    /// Frames that came late since the start.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// Samples that were cut because they were absurd.
    pub fn clamped(&self) -> u64 {
        self.clamped
    }

    /// The next thing to tell flow management.
    pub fn poll_event(&mut self) -> Option<JitterEvent> {
        self.events.pop_front()
    }

    fn first(&mut self, now: Time, delay: i64, emission: SourceTime) -> Schedule {
        self.d = delay as f64;
        self.s = (self.d.abs() / 2.0).min(FIRST_DEVIATION_MOST);
        let floor = self.of_path(delay);
        self.note(now, delay, self.held(delay, floor));
        let mut play = Schedule {
            delay: SignedSpan::ZERO,
            floor,
            newest: emission,
            deadline: Time::ZERO,
            period_start: emission,
            catching_up: false,
            looked: Some(now),
        };
        play.delay = self.target(now, &play);
        play
    }

    /// The delay of the next frame without what it came late to its source.
    fn of_path(&self, delay: i64) -> i64 {
        delay.saturating_sub(ps(self.source_late))
    }

    /// What a frame with this delay was held up outside the path: at its source, or by this host.
    fn held(&self, delay: i64, floor: i64) -> i64 {
        let late = ps(self.source_late);
        let queued = match self.was_stopped {
            true => i64::MAX,
            false => self.source_queued.map_or(i64::MAX, ps),
        };
        late.saturating_add(queued)
            .min(delay.saturating_sub(floor).max(late))
    }

    /// Whether a frame whose delay is the least one arrived while this host did not run the receiver. What was lost for that reason
    /// and repaired later is among these.
    fn is_stopped(&self, emission: SourceTime, floor: i64) -> bool {
        let queued = self.source_queued.map_or(0, ps);
        let least = floor
            .saturating_add(ps(self.source_late))
            .saturating_add(queued);
        let arrived = emission.plus(SignedSpan::from_ps(least));
        self.stopped
            .is_some_and(|(since, until)| since <= arrived && arrived < until)
    }

    /// Whether the last frame arrived while this host did not run the receiver.
    pub fn was_stopped(&self) -> bool {
        self.was_stopped
    }

    /// This host did not run the receiver from `since` until `now`: what arrived in between was read at `now` or later.
    pub fn on_stop(&mut self, since: Time, now: Time) {
        self.stopped = Some((since, now));
    }

    fn note(&mut self, now: Time, delay: i64, held: i64) {
        if let Some(recent) = &mut self.recent {
            recent.push(now, delay, ps(self.source_late), held);
        }
    }

    /// Jacobson's estimator: the error against the old mean in both lines.
    fn estimate_from(&mut self, now: Time, delay: i64, held: i64) {
        self.note(now, delay, held);
        let mut err = delay as f64 - self.d;
        if err.abs() > HUGE {
            let most = (OUTLIER_DEVIATIONS * self.s).clamp(OUTLIER_LEAST, HUGE);
            err = err.clamp(-most, most);
            self.clamped += 1;
        }
        self.d += self.config.a * err;
        self.s += self.config.beta * (err.abs() - self.s);
    }

    /// Ends a monitoring period: too many late frames or long without any move the playout point.
    fn end_period(&mut self, now: Time, play: &mut Schedule) {
        let late = std::mem::take(&mut self.late_in_period);
        let mut recompute = false;
        if late >= self.config.late_threshold {
            self.clean_periods = 0;
            recompute = true;
        } else if late == 0 {
            self.clean_periods += 1;
            if self.clean_periods >= self.config.hold_gops {
                self.clean_periods = 0;
                recompute = true;
            }
        } else {
            self.clean_periods = 0;
        }
        // The smallest delay is kept frame by frame.
        let is_smallest = matches!(self.config.margin, Margin::Smallest { .. });
        if !recompute || !self.config.moves || is_smallest {
            return;
        }
        self.retarget(now, play);
    }

    /// Moves the playout point to where the estimate calls for it.
    fn retarget(&mut self, now: Time, play: &mut Schedule) {
        let to = self.target(now, play);
        self.move_to(play, to, MoveCause::Estimate);
    }

    fn move_to(&mut self, play: &mut Schedule, to: SignedSpan, cause: MoveCause) {
        let from = play.delay;
        if from != to {
            play.catching_up = to < from;
            play.delay = to;
            self.emit(JitterEvent::PlayoutMoved { from, to, cause });
        }
    }

    /// A new configuration: the playout point goes where it now belongs.
    fn change(&mut self, now: Time, config: JitterConfig, play: &mut Schedule) {
        let old = std::mem::replace(&mut self.config, config);
        if let Margin::Fixed(r) = config.margin {
            self.r = r;
        } else if matches!(old.margin, Margin::Fixed(_)) {
            self.r = TARGET_START;
        }
        if config.margin != old.margin {
            self.recent = config.recent();
        }
        let bounds = |config: &JitterConfig| (config.bound, config.longest, config.margin);
        let moved = bounds(&old) != bounds(&config) || old.holds != config.holds;
        if !moved || !config.holds {
            return;
        }
        self.retarget(now, play);
    }

    /// Without the filter: a frame is played when it is here, in order.
    fn at_once(&self, play: &mut Schedule, now: Time, emission: SourceTime) -> Time {
        if emission < play.newest {
            return now.max(play.deadline);
        }
        play.newest = emission;
        play.deadline = now.max(play.deadline);
        play.deadline
    }

    /// The playout delay that the estimate calls for, within its bounds.
    fn target(&mut self, now: Time, play: &Schedule) -> SignedSpan {
        let gop = self.gop();
        let behind = self.recent.as_mut().map_or(0, |recent| {
            recent.look(now, gop);
            recent.behind(now)
        });
        let needed = match self.config.margin {
            Margin::Smallest { .. } => self.smallest(play).saturating_add(behind),
            _ => {
                let quantile = self.recent.as_mut().and_then(RecentDelays::quantile);
                let quantile = quantile.map(|it| it.saturating_add(behind));
                quantile.unwrap_or((self.d + self.r * self.s) as i64)
            }
        };
        let needed = SignedSpan::from_ps(needed);
        let bound = self.config.bound.map(SignedSpan::from);
        let most = bound.or(self.longest().map(SignedSpan::from_ps));
        if most.is_some_and(|most| needed > most) {
            self.emit(JitterEvent::DelayBound { needed });
        }
        if let Some(bound) = bound {
            return bound;
        }
        let floored = needed.max(SignedSpan::from_ps(play.floor));
        most.map_or(floored, |most| floored.min(most))
    }

    /// Frames of the flow are missing: the path loses packets.
    pub fn on_loss(&mut self, now: Time) {
        if self.lossy.replace(now).is_none()
            && let Some(play) = &mut self.play
        {
            play.looked = None;
        }
    }

    /// The path loses packets, and repairs of them took up to `longest`, before the frames whose delays count. Until these
    /// show more, the playout delay has room for such a repair and for another round of it.
    pub fn on_repair(&mut self, now: Time, longest: Span) {
        let longest = longest.min(FARTHEST);
        let wanted = longest + longest.min(LOSSY_LEAST) + GUARD;
        self.lossy = Some(now);
        self.repairs = self.repairs.max(wanted);
        if let Some(play) = &mut self.play {
            play.looked = None;
        }
    }

    /// The first frames whose delays count start no GOP. The packets of one that does may leave over a time of `spread`: until
    /// one has arrived, the playout delay has room for that.
    pub fn on_spread(&mut self, spread: Span) {
        self.spread = spread.min(FARTHEST);
    }

    /// The next frame came to its source `late` after the time that it is stamped with, and left `queued` later; `None` for longer
    /// than it can state. The path has no part in that: the longest playout delay is longer by what it was late. If the source was
    /// behind with all frames, the playout delay is longer by both, and for some seconds after that.
    pub fn on_source(&mut self, late: Span, queued: Option<Span>) {
        self.source_late = late.min(FARTHEST);
        self.source_queued = queued.map(|it| it.min(FARTHEST));
    }

    /// From the next frame on the source stamps its frames `by` later than before: delays are shorter by that, and the
    /// playout point stays where it is.
    pub fn on_jump(&mut self, by: SignedSpan) {
        let earlier = |delay: i64| delay.saturating_sub(by.as_ps());
        self.d -= by.as_ps() as f64;
        if let Some(recent) = &mut self.recent {
            recent.begin_again(by.as_ps());
        }
        self.stalls = self.stalls.shifted(earlier);
        // The source stayed behind until now.
        self.outages.no_outage();
        if let Some(play) = &mut self.play {
            play.period_start =
                SourceTime::from_ps(play.period_start.as_ps().saturating_add(by.as_ps()));
            if self.config.bound.is_none() {
                play.delay = SignedSpan::from_ps(earlier(play.delay.as_ps()));
            }
        }
    }

    /// From the next frame on emissions are stated `by` later than before, since the clock of the source is known better: delays
    /// are shorter by that. A fixed playout delay stays, and the playout point moves with it; any other one keeps its place.
    pub fn on_clock(&mut self, by: SignedSpan) {
        self.on_jump(by);
        if let Some(play) = &mut self.play {
            play.floor = play.floor.saturating_sub(by.as_ps());
            play.newest = SourceTime::from_ps(play.newest.as_ps().saturating_add(by.as_ps()));
        }
    }

    /// The longest playout delay of the next frame, in picoseconds.
    fn longest(&self) -> Option<i64> {
        let longest = self.config.longest?;
        Some(ps(longest).saturating_add(ps(self.source_late)))
    }

    /// The delay that [`Margin::Smallest`] calls for, in picoseconds.
    fn smallest(&mut self, play: &Schedule) -> i64 {
        let kept_to = self.recent.as_mut().and_then(RecentDelays::kept_to);
        let spread = play.floor.saturating_add(ps(self.spread));
        let kept_to = kept_to.unwrap_or(play.floor).max(spread);
        let kept_to = kept_to.saturating_add(ps(GUARD));
        match self.lossy {
            Some(_) => {
                let least = LOSSY_LEAST.max(std::mem::take(&mut self.repairs));
                kept_to.max(play.floor.saturating_add(ps(least)))
            }
            None => kept_to,
        }
    }

    /// Moves the playout point under [`Margin::Smallest`]: up with a frame that comes late, down after
    /// [`CALM`] without one, and no further than the bound.
    fn keep_smallest(&mut self, now: Time, play: &mut Schedule, emission: SourceTime, delay: i64) {
        let most = self.longest().unwrap_or(i64::MAX);
        let late = now > emission.plus(play.delay);
        if late && delay <= most {
            let to = delay.saturating_add(ps(GUARD)).min(most);
            let cause = match self.was_stopped {
                true => MoveCause::Stopped,
                false => MoveCause::Late,
            };
            self.move_to(play, SignedSpan::from_ps(to), cause);
            play.looked = Some(now);
            return;
        }
        if play.looked.is_some_and(|looked| now.since(looked) < CALM) {
            return;
        }
        play.looked = Some(now);
        self.lossy = self.lossy.filter(|&at| now.since(at) < LOSSY);
        let to = self.target(now, play);
        let (from, step) = (play.delay.as_ps(), ps(GUARD) / 2);
        // A move that gains less than half the guard disturbs more than it helps.
        if to.as_ps() > from || to.as_ps() < from.saturating_sub(step) {
            let cause = match self.lossy {
                _ if self.was_stopped && to.as_ps() > from => MoveCause::Stopped,
                Some(_) if to.as_ps() > from => MoveCause::Loss,
                _ => MoveCause::Estimate,
            };
            self.move_to(play, to, cause);
        }
    }

    /// The deadline of a frame; deadlines of frames in order never run backwards.
    fn schedule(&self, play: &mut Schedule, now: Time, emission: SourceTime) -> Time {
        let natural = emission.plus(play.delay);
        if emission < play.newest {
            // The playout point may have moved for it: frames behind it may be due already.
            return natural.min(play.deadline.max(now));
        }
        let half_period = self.config.frame_rate.due(1).mul_div(1, 2);
        let spaced = play.deadline.saturating_add(half_period);
        play.catching_up &= natural < spaced;
        let earliest = if play.catching_up {
            spaced
        } else {
            play.deadline
        };
        debug_assert!(earliest >= play.deadline, "deadlines run backwards");
        play.newest = emission;
        play.deadline = natural.max(earliest);
        play.deadline
    }

    /// Integral control of the share of late frames: in the long run it can only settle at the
    /// target.
    fn adapt_margin(&mut self, late: bool) {
        if let Margin::TargetLate { permille } = self.config.margin {
            let error = f64::from(u8::from(late)) - f64::from(permille) / 1_000.0;
            let (least, most) = TARGET_RANGE;
            self.r = (self.r + TARGET_GAIN * error).clamp(least, most);
        }
    }

    fn emit(&mut self, event: JitterEvent) {
        if self.events.len() < MAX_EVENTS {
            self.events.push_back(event);
        }
    }
}

fn ps(span: Span) -> i64 {
    i64::try_from(span.as_ps()).unwrap_or(i64::MAX)
}

#[cfg(test)]
#[path = "jitter_tests.rs"]
mod tests;
