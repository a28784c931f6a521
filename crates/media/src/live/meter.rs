use layercast_core::{CellRate, FlowSpec, Layer, Level, Media, PerLayer, Rate, Span};

use super::TimedFrame;
use super::stamp::on_a_timeline;
use crate::{Clip, ClipInfo, Container, Frame, Picture};

/// Frames kept while measuring.
const MAX_FRAMES: usize = 16_384;
/// Smallest limit for a frame: the next scene may be harder than the measured one.
const MIN_MAX_FRAME: u32 = 256 * 1_024;

/// Estimated size of a key frame that has not been seen, in mean pictures.
const KEY_FRAME: u32 = 10;
/// Limit for a frame of a stream of which no key frame has been seen.
const UNSEEN_MAX_FRAME: u32 = 4 << 20;

/// Learns the flow specification of a live stream from a look at it: rates of the layers with
/// head-room, GOP, frame rate.
#[derive(Debug)]
pub struct SpecMeter {
    frames: Vec<TimedFrame>,
    window: Span,
}

impl SpecMeter {
    /// A meter that wants to see at least `window` of media and two whole GOPs.
    pub fn new(window: Span) -> SpecMeter {
        SpecMeter {
            frames: Vec::new(),
            window,
        }
    }

    /// Takes a frame. Bytes are not kept.
    pub fn push(&mut self, timed: &TimedFrame) {
        if self.frames.len() >= MAX_FRAMES {
            return;
        }
        let mut timed = timed.clone();
        timed.frame.data = None;
        self.frames.push(timed);
    }

    /// Starts seen so far.
    pub fn gops(&self) -> usize {
        self.frames.iter().filter(|it| it.frame.gop_start).count()
    }

    /// Whether enough was seen.
    pub fn is_done(&self) -> bool {
        let full = self.frames.len() >= MAX_FRAMES;
        let started = || self.frames.iter().position(|it| it.frame.gop_start);
        let long = || started().is_some_and(|at| span(&self.frames[at..]) >= self.window);
        (full || self.gops() >= 3 && long()) && self.gops() >= 2
    }

    /// Media time that was seen.
    pub fn seen(&self) -> Span {
        span(&self.frames)
    }

    /// Whether pictures came, so that [`estimate`](SpecMeter::estimate) has something to go by.
    pub fn has_pictures(&self) -> bool {
        let mut frames = self.frames.iter();
        frames.any(|it| it.frame.picture != Picture::Data)
    }

    /// What the stream needs: means of whole GOPs and the worst of them, each `headroom_percent` more
    /// than seen; `rates` are taken as they are given. `None` before a whole GOP was seen. Frames before the first
    /// start do not count.
    pub fn flow_spec(
        &self,
        media: Media,
        headroom_percent: u32,
        rates: Option<PerLayer<Rate>>,
    ) -> Option<FlowSpec> {
        let starts = |it: &TimedFrame| it.frame.gop_start;
        let begin = self.frames.iter().position(starts)?;
        let end = self.frames.iter().rposition(starts)?;
        (end > begin)
            .then(|| self.spec_of(&self.frames[begin..end], media, headroom_percent, rates))
    }

    /// What a stream needs of which no whole GOP has been seen: the mean rates of all that was seen. The key frame
    /// counts once in this time; one that was not seen counts as ten mean pictures. The GOP is as long as this time.
    /// `None` without pictures.
    pub fn estimate(
        &self,
        media: Media,
        headroom_percent: u32,
        rates: Option<PerLayer<Rate>>,
    ) -> Option<FlowSpec> {
        if !self.has_pictures() {
            return None;
        }
        let mut frames = self.frames.clone();
        if self.gops() == 0 {
            let is_picture = |it: &&TimedFrame| it.frame.picture != Picture::Data;
            let sizes = frames
                .iter()
                .filter(is_picture)
                .map(|it| u64::from(it.frame.size));
            let mean = sizes.clone().sum::<u64>() / sizes.count().max(1) as u64;
            let size = u32::try_from(mean * u64::from(KEY_FRAME)).unwrap_or(u32::MAX);
            let first = &mut frames[0];
            let frame = Frame {
                gop_start: true,
                ..Frame::sized(Picture::I, size.min(UNSEEN_MAX_FRAME))
            };
            *first = TimedFrame {
                frame,
                ..first.clone()
            };
        }
        let mut spec = self.spec_of(&frames, media, headroom_percent, rates);
        spec.gop_n = u8::try_from(frames.len()).unwrap_or(u8::MAX);
        if self.gops() == 0 {
            spec.max_frame = spec.max_frame.max(UNSEEN_MAX_FRAME);
        }
        Some(spec)
    }

    fn spec_of(
        &self,
        frames: &[TimedFrame],
        media: Media,
        headroom_percent: u32,
        rates: Option<PerLayer<Rate>>,
    ) -> FlowSpec {
        let (frames, frame_rate) = on_a_timeline(frames.to_vec());
        let clip = Clip {
            info: ClipInfo {
                container: Container::MpegTs,
                codec: media,
                width: 0,
                height: 0,
                frame_rate,
                video: None,
                truncated: None,
            },
            frames,
        };
        let mut spec = clip.flow_spec();
        let more = |n| more(n, headroom_percent);
        for layer in Layer::ALL {
            let rate = &mut spec.layers[layer];
            rate.mean = CellRate(more(rate.mean.0));
            rate.peak = CellRate(more(rate.peak.0));
            rate.burst = more(rate.burst);
            if let Some(rates) = &rates {
                rate.mean = rates[layer].cells();
                rate.peak = rate.peak.max(rate.mean);
            }
        }
        spec.headroom_permille = match rates {
            None => headroom_permille(headroom_percent),
            Some(_) => 0,
        };
        fill_gap(&mut spec);
        let largest = spec.max_frame.saturating_mul(4).max(MIN_MAX_FRAME);
        spec.max_frame = largest.min(FlowSpec::MAX_FRAME);
        debug_assert!(spec.top_level() <= Level::FULL);
        spec
    }
}

/// Media time from the first of these frames to the last; without stamps none.
fn span(frames: &[TimedFrame]) -> Span {
    let stamp = |it: Option<&TimedFrame>| it.and_then(|it| it.stamp);
    match (stamp(frames.first()), stamp(frames.last())) {
        (Some(first), Some(last)) => super::stamp::span_of(last.since(first)),
        _ => Span::ZERO,
    }
}

/// `n` increased by this percentage.
pub(super) fn more(n: u32, headroom_percent: u32) -> u32 {
    let more = u64::from(n) * (100 + u64::from(headroom_percent)) / 100;
    u32::try_from(more).unwrap_or(u32::MAX)
}

/// Headroom as a flow specification has it.
pub(super) fn headroom_permille(percent: u32) -> u16 {
    u16::try_from(percent.saturating_mul(10)).unwrap_or(u16::MAX)
}

/// Layers are cumulative: a stream without E1 frames has a place for them all the same.
pub(super) fn fill_gap(spec: &mut FlowSpec) {
    if spec.layers.e2.mean.0 > 0 && spec.layers.e1.mean.0 == 0 {
        spec.layers.e1.mean = CellRate(1);
        spec.layers.e1.peak = CellRate(1);
    }
}
