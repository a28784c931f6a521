use layercast_core::{CellRate, FlowSpec, Layer, Level, Media, PerLayer, Rate, Span};

use super::TimedFrame;
use super::stamp::on_a_timeline;
use crate::{Clip, ClipInfo, Container};

/// Frames kept while measuring.
const MAX_FRAMES: usize = 16_384;
/// Smallest limit for a frame: the next scene may be harder than the measured one.
const MIN_MAX_FRAME: u32 = 256 * 1_024;

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

    /// Takes a frame; those before the first start do not count. Bytes are not kept.
    pub fn push(&mut self, timed: &TimedFrame) {
        if self.frames.is_empty() && !timed.frame.gop_start || self.frames.len() >= MAX_FRAMES {
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
        let ends = (self.frames.first(), self.frames.last());
        let long = match ends {
            (Some(first), Some(last)) => match (first.stamp, last.stamp) {
                (Some(first), Some(last)) => {
                    super::stamp::span_of(last.since(first)) >= self.window
                }
                _ => self.frames.len() >= MAX_FRAMES,
            },
            _ => false,
        };
        let full = self.frames.len() >= MAX_FRAMES;
        (long && self.gops() >= 3 || full) && self.gops() >= 2
    }

    /// What the stream needs: means of whole GOPs and the worst of them, each `headroom_percent` more
    /// than seen; `rates` are taken as they are given. `None` before a whole GOP was seen.
    pub fn flow_spec(
        &self,
        media: Media,
        headroom_percent: u32,
        rates: Option<PerLayer<Rate>>,
    ) -> Option<FlowSpec> {
        let starts = |it: &TimedFrame| it.frame.gop_start;
        let end = self
            .frames
            .iter()
            .rposition(starts)
            .filter(|&end| end > 0)?;
        let (frames, frame_rate) = on_a_timeline(self.frames[..end].to_vec());
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
        Some(spec)
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
