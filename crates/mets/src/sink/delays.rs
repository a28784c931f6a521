use std::collections::VecDeque;

use layercast_core::{EndToEnd, Span, Time};
use layercast_qos::DelayHistogram;
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
#[derive(Clone, Default, Debug)]
pub(super) struct SourceLateness {
    /// When the running second began, and the least delay of its frames and of those of the second before.
    begun: Option<Time>,
    running: Option<i64>,
    before: Option<i64>,
    /// Of the last frame, and when the playout delay was moved last.
    last: i64,
    moved: i64,
}

impl SourceLateness {
    /// Takes a frame that arrives `now`.
    pub fn frame(&mut self, now: Time, waited: Waited) {
        if !waited.is_live() {
            return;
        }
        let late = -waited.early_ps();
        let begun = *self.begun.get_or_insert(now);
        if now.since(begun) >= Span::from_secs(1) {
            self.before = self.running.take();
            self.begun = Some(now);
        }
        self.running = Some(self.running.map_or(late, |least| least.min(late)));
        self.last = late;
    }

    /// The least delay in the last seconds, in milliseconds; 0 if frames come in time, `None` without live frames.
    pub fn ms(&self) -> Option<f64> {
        let least = self.before.or(self.running)?;
        Some(least.max(0) as f64 / 1e9)
    }

    /// Whether a playout delay that rises by `rise` follows the source.
    pub fn explains(&mut self, rise: i64) -> bool {
        let since = self.last - std::mem::replace(&mut self.moved, self.last.max(0));
        rise > 0 && since >= rise / 2
    }
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
        source.frame(at(0), Waited::default());
        assert_eq!(source.ms(), None);
        // Jitter of 300 ms is no lateness.
        for k in 0..50u64 {
            let late = if k % 5 == 0 { 300 } else { 0 };
            source.frame(
                at(40 * k),
                Waited::new((5_000 + late) * 1_000_000_000, 5_000_000_000_000),
            );
        }
        assert_eq!(source.ms(), Some(0.0));
        // From then on a frame is 6 ms later than the one before.
        for k in 0..100u64 {
            let arrived = (5_000 + 6 * k) * 1_000_000_000;
            source.frame(at(2_000 + 40 * k), Waited::new(arrived, 5_000_000_000_000));
        }
        let ms = source.ms().expect("live frames");
        assert!((300.0..=450.0).contains(&ms), "{ms}");
        let rise = 500_000_000_000;
        assert!(source.explains(rise));
        // It explains a rise once.
        assert!(!source.explains(rise));
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
