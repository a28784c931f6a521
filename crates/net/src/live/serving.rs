//! A live stream on its way into a flow.

use layercast_core::{FlowSpec, Layer, Media, Span, Time};
use layercast_fec::SmpteReceiverStats;
use layercast_media::{
    GopWatch, IngestStats, InputLoss, LiveClock, LiveLoad, LoadReport, MediaTimeline, Restart,
    SpecMeter, StreamState, TimedFrame,
};
use layercast_mets::AppFrame;
use layercast_qos::LiveTime;
use layercast_wire::Payload;
use tokio::sync::mpsc;
use tokio::time::{Duration, Instant, timeout_at};

use super::ahead::Ahead;
use super::growth::{Growth, LiveFlow};
use super::{LiveEvent, LiveInput, SILENT};
use crate::clock::Clock;
use crate::frames::LiveFrame;

/// Interval of reports about the input.
const COUNTED_EVERY: Duration = Duration::from_secs(1);
/// Reports that losses wait for their cause at most, while no picture comes.
const UNEXPLAINED: u32 = 3;

/// A change of the pace of a slow source that is reported, in milliseconds of media for each second.
const PACE_STEP: u16 = 20;

/// A stream on its way into a flow.
pub(super) struct Serving {
    pub clock: LiveClock,
    pub timeline: MediaTimeline,
    pub load: LiveLoad,
    /// Asks for other rates of the flow, if any may be asked for.
    pub growth: Option<Growth>,
    /// The flow follows what its stream takes.
    pub grows: bool,
    /// The flow at the full rate of the encoder.
    pub full: FlowSpec,
    pub flow: LiveFlow,
    /// The pace of a slow source that was reported last.
    pub pace: Option<u16>,
    /// Damaged pictures that were reported last, and all that was lost so far.
    pub damaged: u64,
    pub loss: InputLoss,
    pub gops: GopWatch,
    pub frames: mpsc::Sender<LiveFrame>,
    pub events: mpsc::Sender<LiveEvent>,
    /// When the first live frame that was passed on is due.
    pub first_due: Option<Time>,
    /// A frame was passed on.
    pub started: bool,
    /// Its video comes.
    pub pictures: bool,
    /// For a frame to start at.
    pub waiting: bool,
    pub dropped: u64,
    /// Frames dropped in all.
    pub lost: u64,
    /// Frames that came long before they are due.
    pub ahead: Ahead,
    /// How often the timeline began again while the stream was looked at.
    pub resyncs: u64,
    /// How often of these its time stamps jumped.
    pub clock_jumps: u64,
    /// What parities of the input did so far.
    pub repaired: Option<SmpteReceiverStats>,
    /// Of a stream whose rates are estimated, until a whole GOP was seen.
    pub meter: Option<SpecMeter>,
    pub media: Option<Media>,
    /// The stream comes through a pipe.
    pub is_pipe: bool,
}

impl Serving {
    pub async fn run(mut self, mut input: LiveInput) {
        let live = input.is_live;
        for timed in std::mem::take(&mut input.kept) {
            if !self.frame(timed, live).await {
                return;
            }
        }
        let (mut silent, mut failed) = (false, false);
        let mut unexplained = 0;
        let mut counted = Instant::now();
        let mut until = Instant::now() + SILENT;
        loop {
            match timeout_at(self.wake(input.due(until)), input.bytes.next()).await {
                Ok(Ok(Some((number, Some(piece))))) => {
                    until = Instant::now() + SILENT;
                    if std::mem::take(&mut silent) {
                        self.tell(LiveEvent::Back);
                    }
                    input.ingest.push_from(Clock::get().now(), number, &piece);
                }
                Ok(Ok(Some((number, None)))) => input.ingest.finish_input(number),
                Ok(Ok(None)) => break,
                Ok(Err(_)) if input.bytes.is_pipe() => {
                    failed = true;
                    break;
                }
                // A socket that cannot be read now may be read later.
                Ok(Err(_)) => tokio::time::sleep(Duration::from_millis(10)).await,
                Err(_) if Instant::now() < until => input.ingest.on_timeout(Clock::get().now()),
                Err(_) => {
                    until = Instant::now() + SILENT;
                    if !std::mem::replace(&mut silent, true) {
                        self.tell(LiveEvent::Silent);
                    }
                    if self.frames.is_closed() {
                        return;
                    }
                }
            }
            if !self.pass_on() {
                return;
            }
            if counted.elapsed() >= COUNTED_EVERY {
                counted = Instant::now();
                let stats = self.stats(&input);
                // What is missing may be another codec, which has a note of its own.
                unexplained = match input.ingest.awaits_picture() {
                    true => unexplained + 1,
                    false => 0,
                };
                if !(1..=UNEXPLAINED).contains(&unexplained) {
                    if live {
                        self.report_input(&stats);
                    }
                    self.report_loss(stats.loss());
                }
                self.tell(LiveEvent::Counted { stats });
                self.report_repair(input.bytes.repaired());
            }
            if let Some(change) = input.ingest.poll_pace().filter(|_| live) {
                self.tell(LiveEvent::Pace(change));
            }
            while let Some(note) = input.ingest.poll_note() {
                self.tell(LiveEvent::Source(note));
            }
            while let Some(note) = input.ingest.poll_rendition_note() {
                self.tell(LiveEvent::Rendition(note));
            }
            while let Some(change) = input.ingest.poll_change() {
                if let Some(pictures) = change.has_pictures() {
                    // Without pictures there is no GOP.
                    self.pictures = pictures;
                    self.gops.begin_again();
                }
                // That a stored stream in a pipe has nothing of one of its streams for some time is no fault.
                if live || change.state != StreamState::Stopped {
                    self.tell(LiveEvent::Stream(change));
                }
            }
            while let Some(timed) = input.ingest.poll() {
                self.measure(&timed);
                if !self.frame(timed, live).await {
                    return;
                }
            }
        }
        input.ingest.finish();
        // The input may end inside a picture.
        self.report_loss(input.ingest.stats().loss());
        while let Some(timed) = input.ingest.poll() {
            if !self.frame(timed, live).await {
                return;
            }
        }
        if failed {
            self.flow.report_failure().await;
        }
        let stats = self.stats(&input);
        self.tell(LiveEvent::End { stats });
    }

    /// Tells what was lost on the way here since the last time, if anything was.
    fn report_loss(&mut self, loss: InputLoss) {
        let before = std::mem::replace(&mut self.loss, loss);
        let new = InputLoss {
            packets: loss.packets.saturating_sub(before.packets),
            pictures: loss.pictures.saturating_sub(before.pictures),
        };
        if new != InputLoss::default() {
            let is_pipe = self.is_pipe;
            self.tell(LiveEvent::Lost { loss: new, is_pipe });
        }
    }

    /// Reports what parities brought back since the last time, or could not.
    fn report_repair(&mut self, now: Option<SmpteReceiverStats>) {
        let before = std::mem::replace(&mut self.repaired, now);
        let (Some(now), Some(before)) = (now, before) else {
            return;
        };
        if (now.recovered, now.lost) != (before.recovered, before.lost) {
            self.tell(LiveEvent::Repaired(now));
        }
    }

    /// Reports to the node that the source is slower than real time, or that pictures are damaged, if that is news.
    fn report_input(&mut self, stats: &IngestStats) {
        let pace = stats.media_ms_per_s.filter(|_| stats.slow);
        let pace = pace.map(|ms| u16::try_from(ms).unwrap_or(u16::MAX));
        let damaged = stats.loss().pictures;
        let is_pace_news = match (self.pace, pace) {
            (Some(before), Some(now)) => before.abs_diff(now) >= PACE_STEP,
            (before, now) => before != now,
        };
        let is_news = is_pace_news || damaged != self.damaged;
        if is_news && self.flow.report_input(pace, damaged) {
            (self.pace, self.damaged) = (pace, damaged);
        }
    }

    /// What was seen of the stream so far.
    fn stats(&self, input: &LiveInput) -> IngestStats {
        IngestStats {
            restarts: self.clock.resyncs() - self.resyncs,
            clock_jumps: self.clock.clock_jumps() - self.clock_jumps,
            dropped: self.lost,
            ..input.ingest.stats()
        }
    }

    /// When to stop waiting for bytes: at `limit`, or earlier if a frame is to be passed on.
    fn wake(&self, limit: Instant) -> Instant {
        let wait = self.ahead.wait(Clock::get().now());
        wait.map_or(limit, |wait| limit.min(Instant::now() + rounded_up(wait)))
    }

    /// When a live frame is due. The timeline may begin again with it; then frames that wait are dropped.
    fn due(&mut self, now: Time, frame: &TimedFrame) -> Time {
        let due = self.clock.due_at(now, frame.stamp);
        // A pipe is held back instead. The media of a frame without a stamp are those of the frame before it.
        if self.is_pipe || !frame.frame.gop_start || frame.stamp.is_none() {
            return due;
        }
        let (after, is_full) = (self.ahead.passed(), self.ahead.is_full());
        match self.clock.catch_up(after, is_full) {
            None => due,
            Some(due) => {
                self.dropped += self.ahead.drop_all();
                due
            }
        }
    }

    /// Passes on a frame; `false` if the receiver is gone.
    async fn frame(&mut self, timed: TimedFrame, live: bool) -> bool {
        let now = Clock::get().now();
        let due = live.then(|| self.due(now, &timed));
        let TimedFrame {
            frame,
            stamp,
            arrived,
        } = timed;
        let media = self.timeline.due(stamp);
        if let Some(restart) = self.clock.poll_restart() {
            if let Restart::Break { .. } = restart {
                // Stamps before and after it are no measure.
                self.load.begin_again();
                self.gops.begin_again();
            }
            if !matches!(restart, Restart::Break { again: true, .. }) {
                self.tell(LiveEvent::Restart(restart));
            }
        }
        let stamp = stamp.filter(|_| self.pictures);
        if let Some(long) = self.gops.frame(stamp, frame.gop_start) {
            self.tell(LiveEvent::LongGop(long));
        }
        self.hold_against(media, arrived.filter(|_| live), &frame);
        let Some(data) = frame.data else { return true };
        // Media times of a live stream count from its first frame.
        let time = due.map_or(media, |due| due.since(*self.first_due.get_or_insert(due)));
        let frame = LiveFrame {
            frame: AppFrame {
                layer: frame.layer,
                gop_start: frame.gop_start,
                sound: frame.sound,
                time: Some(time),
                payload: Payload::Bytes(data),
            },
            live: due.map(|due| LiveTime {
                due,
                arrived: arrived.unwrap_or(now),
            }),
        };
        if self.is_pipe {
            // A pipe waits for its reader, and for its time.
            self.waiting = false;
            if let Some(live) = frame.live {
                tokio::time::sleep(rounded_up(self.ahead.early(now, live.due))).await;
            }
            return self.frames.send(frame).await.is_ok();
        }
        self.dropped += self.ahead.push(frame);
        self.pass_on()
    }

    /// Passes on what is about to leave; `false` if the receiver is gone.
    fn pass_on(&mut self) -> bool {
        let now = Clock::get().now();
        while let Some(frame) = self.ahead.pop(now) {
            if !self.pass(frame) {
                return false;
            }
        }
        true
    }

    fn pass(&mut self, frame: LiveFrame) -> bool {
        // Of renditions, the lowest comes first: all begin with their key frames.
        let is_first = self.full.composition.is_additive() || frame.frame.layer == Layer::Base;
        let begins = frame.frame.gop_start && is_first;
        if self.waiting && !begins {
            self.dropped += 1;
            return true;
        }
        match self.frames.try_send(frame) {
            Ok(()) => {
                self.waiting = false;
                let frames = std::mem::take(&mut self.dropped);
                // Frames before the first key frame are not a loss.
                if std::mem::replace(&mut self.started, true) && frames > 0 {
                    self.lost += frames;
                    self.tell(LiveEvent::Dropped { frames });
                }
                true
            }
            Err(mpsc::error::TrySendError::Full(_)) => {
                self.waiting = true;
                self.dropped += 1;
                true
            }
            Err(mpsc::error::TrySendError::Closed(_)) => false,
        }
    }

    /// Measures a stream whose rates are estimated, and asks for what it takes once a whole GOP was seen.
    fn measure(&mut self, timed: &TimedFrame) {
        let Some(meter) = &mut self.meter else {
            return;
        };
        meter.push(timed);
        let whole = timed.frame.gop_start && meter.gops() > 1;
        let is_asking = self.growth.as_ref().is_some_and(Growth::is_asking);
        if !whole && !meter.is_full() || is_asking {
            return;
        }
        let (Some(meter), Some(media)) = (self.meter.take(), self.media) else {
            return;
        };
        let Some(gop) = meter.gop() else {
            return;
        };
        self.tell(LiveEvent::Measured { gop });
        if let Some(growth) = &mut self.growth {
            growth.ask(
                move |spec, headroom| match meter.flow_spec(media, headroom, None) {
                    Some(measured) => measured_as(spec, measured),
                    None => spec.clone(),
                },
            );
        }
    }

    /// Sees to it that what the stream takes is reserved.
    fn hold_against(&mut self, time: Span, arrived: Option<Time>, frame: &layercast_media::Frame) {
        let report = self.load.push(time, arrived, frame);
        if let Some(LoadReport::Above(overload)) = report {
            self.tell(LiveEvent::Overload(overload));
        }
        if let (Some(report), Some(growth)) = (report, self.growth.as_mut().filter(|_| self.grows))
        {
            growth.follow(report, &self.load);
        }
        self.follow_share();
        match self.growth.as_mut().and_then(Growth::answer) {
            None => {}
            Some(Ok(spec)) => {
                self.load.granted(&spec);
                if spec.measured() > self.full.measured() {
                    self.full = spec.clone();
                }
                self.tell(LiveEvent::Granted(Box::new(spec)));
            }
            Some(Err(status)) => {
                self.load.refused();
                self.tell(LiveEvent::Refused(status));
            }
        }
    }

    /// The encoder is to send at another share of its full rate: the flow is to be had at that share.
    fn follow_share(&mut self) {
        let (Some(share), Some(growth)) = (&mut self.flow.share, &mut self.growth) else {
            return;
        };
        // A sender that is gone says nothing more.
        if growth.is_asking() || !share.has_changed().unwrap_or(false) {
            return;
        }
        let (full, share) = (self.full.clone(), *share.borrow_and_update());
        growth.ask(move |spec, _| FlowSpec {
            layers: full.at_share(share).layers,
            headroom_permille: full.headroom_permille,
            ..spec.clone()
        });
    }

    fn tell(&self, event: LiveEvent) {
        let _ = self.events.try_send(event);
    }
}

/// At least this time.
fn rounded_up(time: Span) -> Duration {
    Duration::from_nanos(time.as_ps().div_ceil(1_000))
}

/// The flow `spec` with what was measured of its media.
fn measured_as(spec: &FlowSpec, measured: FlowSpec) -> FlowSpec {
    FlowSpec {
        frame_rate: measured.frame_rate,
        picture_rate: measured.picture_rate,
        gop_n: measured.gop_n,
        gop_m: measured.gop_m,
        max_frame: measured.max_frame.max(spec.max_frame),
        layers: measured.layers,
        headroom_permille: measured.headroom_permille,
        ..spec.clone()
    }
}
