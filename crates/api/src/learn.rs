use layercast_core::{Composition, FlowSpec, FrameRate, Layer, Media, Status};
use layercast_media::{Clip, ClipInfo, Container, LiveLoad};
use layercast_net::{Growth, LOAD_WINDOW, LiveFlow};

use crate::frame::Frame;

/// Frames after which a flow without groups of pictures is known well enough.
const ENOUGH: usize = 255;
/// What later groups of pictures may take more than the first, in percent: what is learned from one
/// is no promise for all.
const HEADROOM: u32 = 25;
/// Smallest limit for a frame, in bytes: the first pictures may be black, and the next ones are not.
const MIN_MAX_FRAME: u32 = 256 << 10;

/// Learns what a flow needs from its first group of pictures.
#[derive(Debug)]
pub(crate) struct Learner {
    composition: Composition,
    frames: Vec<Frame>,
    groups: usize,
}

impl Learner {
    /// For a flow whose layers are `composition` to each other.
    pub fn new(composition: Composition) -> Learner {
        Learner {
            composition,
            frames: Vec::new(),
            groups: 0,
        }
    }

    /// Takes the next frame; says whether enough have been seen.
    pub fn take(&mut self, frame: Frame) -> bool {
        // Key frames of alternative layers come together, the lowest first.
        let is_first = self.composition.is_additive() || frame.layer == Layer::Base;
        let begins = (frame.gop_start && is_first) || self.frames.is_empty();
        self.groups += usize::from(begins);
        self.frames.push(frame);
        self.groups > 1 || self.frames.len() >= ENOUGH
    }

    /// What they need, and the frames themselves; `None` if there are none.
    pub fn finish(self, frame_rate: FrameRate) -> Option<(FlowSpec, Vec<Frame>)> {
        // The frame that opens the second group only tells that the first is over.
        let whole = match self.groups {
            0 => return None,
            1 => &self.frames[..],
            _ => &self.frames[..self.frames.len() - 1],
        };
        let frames = whole.iter().map(sized);
        let clip = Clip {
            info: ClipInfo {
                container: Container::MpegEs,
                codec: Media::Opaque,
                composition: self.composition,
                width: 0,
                height: 0,
                frame_rate,
                video: None,
                truncated: None,
            },
            frames: frames.collect(),
        };
        let mut spec = clip.flow_spec();
        let more = |n: u32| n.saturating_add(n / 100 * HEADROOM + n % 100 * HEADROOM / 100);
        for layer in Layer::ALL {
            let rate = &mut spec.layers[layer];
            (rate.mean.0, rate.peak.0) = (more(rate.mean.0), more(rate.peak.0));
            rate.burst = more(rate.burst);
        }
        let largest = spec.max_frame.saturating_mul(4);
        spec.max_frame = largest.clamp(MIN_MAX_FRAME, FlowSpec::MAX_FRAME);
        Some((spec, self.frames))
    }
}

/// Has a flow whose rates were learned renegotiated when its frames take more: the pictures that it was learned from
/// may have been black.
#[derive(Debug)]
pub(crate) struct Grower {
    load: LiveLoad,
    growth: Growth,
    frame_rate: FrameRate,
    /// Frames seen.
    count: u64,
    /// Largest frame that the flow accepts, in bytes.
    max_frame: u32,
}

impl Grower {
    /// For `flow`, of which `spec` was learned.
    pub fn new(spec: &FlowSpec, flow: LiveFlow) -> Grower {
        Grower {
            load: LiveLoad::new(spec, LOAD_WINDOW),
            growth: Growth::new(flow, HEADROOM),
            frame_rate: spec.frame_rate,
            count: 0,
            max_frame: spec.max_frame,
        }
    }

    /// Takes the next frame, before it is sent, and asks for more if the flow needs it.
    pub fn push(&mut self, frame: &Frame) {
        if let Some(answer) = self.growth.answer() {
            self.answered(answer);
        }
        let slot = self.frame_rate.due(self.count);
        self.count += 1;
        let time = frame.time.unwrap_or(slot);
        let report = self.load.push(time, None, &sized(frame));
        if let Some(report) = report {
            self.growth.follow(report, &self.load);
        }
    }

    /// Largest frame that the flow accepts, once one of `bytes` has been asked for if that is larger.
    pub async fn room_for(&mut self, bytes: usize) -> u32 {
        let wanted = u32::try_from(bytes).unwrap_or(u32::MAX);
        if wanted <= self.max_frame || wanted > FlowSpec::MAX_FRAME {
            return self.max_frame;
        }
        // An answer to another question comes first.
        while let Some(answer) = self.growth.answered().await {
            self.answered(answer);
        }
        if wanted > self.max_frame {
            let max_frame = wanted.saturating_mul(4).min(FlowSpec::MAX_FRAME);
            self.growth.ask(move |spec, _| FlowSpec {
                max_frame: spec.max_frame.max(max_frame),
                ..spec.clone()
            });
            if let Some(answer) = self.growth.answered().await {
                self.answered(answer);
            }
        }
        self.max_frame
    }

    fn answered(&mut self, answer: Result<FlowSpec, Status>) {
        match answer {
            Ok(spec) => {
                self.max_frame = spec.max_frame;
                self.load.granted(&spec);
            }
            Err(_) => self.load.refused(),
        }
    }
}

/// The frame as media know it, without its bytes.
fn sized(frame: &Frame) -> layercast_media::Frame {
    let size = u32::try_from(frame.data.len()).unwrap_or(u32::MAX);
    layercast_media::Frame {
        time: frame.time,
        ..layercast_media::Frame::of_layer(frame.layer, frame.gop_start, size)
    }
}

#[cfg(test)]
mod tests {
    use layercast_core::CellRate;

    use super::*;

    const RATE: FrameRate = FrameRate { num: 24, den: 1 };

    #[test]
    fn one_group_of_pictures_tells_rates_and_length() {
        let mut learner = Learner::new(Composition::Additive);
        assert!(!learner.take(Frame::base(vec![0; 4_776])));
        assert!(!learner.take(Frame::e2(vec![0; 456])));
        assert!(!learner.take(Frame::e1(vec![0; 936])));
        assert!(learner.take(Frame::base(vec![0; 9_999])));
        let (spec, frames) = learner.finish(RATE).unwrap();
        assert_eq!((spec.gop_n, frames.len()), (3, 4));
        assert_eq!(spec.validate(), Ok(()));
        // 4776 bytes with header and trailer are 101 cells, eight times a second, and a quarter.
        assert_eq!(spec.layers.base.mean, CellRate(1_010));
        assert!(spec.layers.e1.mean > spec.layers.e2.mean);
    }

    #[test]
    fn alternative_layers_have_the_rates_of_their_levels() {
        let mut learner = Learner::new(Composition::Alternative);
        let sizes = [440, 920, 2_840].map(|size| vec![0; size]);
        let time = |key: bool| {
            let frames = Layer::ALL.into_iter().zip(sizes.clone());
            frames.map(move |(layer, data)| Frame {
                gop_start: key,
                ..Frame::of(layer, data)
            })
        };
        let group = time(true).chain(time(false)).chain(time(false));
        assert!(group.map(|frame| learner.take(frame)).all(|enough| !enough));
        assert!(learner.take(time(true).next().unwrap()));
        let rate = FrameRate { num: 75, den: 1 };
        let (spec, frames) = learner.finish(rate).unwrap();
        assert_eq!(
            (spec.composition, frames.len()),
            (Composition::Alternative, 10)
        );
        assert_eq!(spec.validate(), Ok(()));
        assert_eq!(spec.pictures_per_second(), FrameRate { num: 25, den: 1 });
        // 10, 20 and 60 cells, 25 times a second, and a quarter; nothing is summed.
        let rates = Layer::ALL.map(|it| spec.rate_at(it.level()).0);
        assert_eq!(rates, [312, 625, 1_875]);
    }

    #[test]
    fn frames_without_groups_are_learned_too() {
        let mut learner = Learner::new(Composition::Additive);
        let taken = (0..1_000).take_while(|_| !learner.take(Frame::of(Layer::Base, vec![0; 10])));
        assert_eq!(taken.count(), ENOUGH - 1);
        let (spec, frames) = learner.finish(RATE).unwrap();
        assert_eq!((spec.gop_n, frames.len()), (255, ENOUGH));
        assert!(Learner::new(Composition::Additive).finish(RATE).is_none());
    }
}
