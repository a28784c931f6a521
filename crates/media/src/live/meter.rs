use layercast_core::{
    CellRate, Composition, FlowSpec, Layer, LayerRate, Level, Media, PerLayer, Rate, Span,
};

use super::TimedFrame;
use super::stamp::{Timed, before_the_last, on_a_timeline};
use crate::rates::frame_cells;
use crate::{Clip, ClipInfo, Container, Frame, LevelSummary, Picture};

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
    composition: Composition,
}

impl SpecMeter {
    /// A meter that wants to see at least `window` of media and two whole GOPs.
    pub fn new(window: Span) -> SpecMeter {
        SpecMeter {
            frames: Vec::new(),
            window,
            composition: Composition::Additive,
        }
    }

    /// The layers of the stream are this to each other.
    pub fn set_composition(&mut self, composition: Composition) {
        self.composition = composition;
    }

    /// Whether a GOP begins here: key frames of renditions come together, the lowest first.
    fn begins(&self, it: &TimedFrame) -> bool {
        it.frame.gop_start && (self.composition.is_additive() || it.frame.layer == Layer::Base)
    }

    /// Takes a frame. Bytes are not kept.
    pub fn push(&mut self, timed: &TimedFrame) {
        if self.is_full() {
            return;
        }
        let mut timed = timed.clone();
        timed.frame.data = None;
        self.frames.push(timed);
    }

    /// Starts seen so far.
    pub fn gops(&self) -> usize {
        self.frames.iter().filter(|it| self.begins(it)).count()
    }

    /// Mean length of the whole GOPs that were seen.
    pub fn gop(&self) -> Option<Span> {
        let (begin, end) = self.whole_gops()?;
        Some(span(&self.frames[begin..=end]).mul_div(1, self.gops() as u64 - 1))
    }

    /// The first GOP start and the last, if there are two: whole GOPs lie between them.
    fn whole_gops(&self) -> Option<(usize, usize)> {
        let starts = |it: &TimedFrame| self.begins(it);
        let begin = self.frames.iter().position(starts)?;
        let end = self.frames.iter().rposition(starts)?;
        (end > begin).then_some((begin, end))
    }

    /// Whether enough was seen.
    pub fn is_done(&self) -> bool {
        let full = self.is_full();
        let started = || self.frames.iter().position(|it| self.begins(it));
        let long = || started().is_some_and(|at| span(&self.frames[at..]) >= self.window);
        (full || self.gops() >= 3 && long()) && self.gops() >= 2
    }

    /// Whether the meter takes no more frames.
    pub fn is_full(&self) -> bool {
        self.frames.len() >= MAX_FRAMES
    }

    /// Media time from the first frame to the last.
    pub fn seen(&self) -> Span {
        span(&self.frames)
    }

    /// Whether pictures came, so that [`estimate`](SpecMeter::estimate) has something to go by.
    pub fn has_pictures(&self) -> bool {
        self.first_picture().is_some()
    }

    /// The frames as a clip.
    fn clip_of(&self, timed: Timed, media: Media) -> Clip {
        Clip {
            info: ClipInfo {
                container: Container::MpegTs,
                codec: media,
                composition: self.composition,
                width: 0,
                height: 0,
                frame_rate: timed.rate,
                video: None,
                truncated: None,
            },
            frames: timed.frames,
        }
    }

    fn first_picture(&self) -> Option<usize> {
        let is_picture = |it: &TimedFrame| it.frame.picture != Picture::Data;
        self.frames.iter().position(is_picture)
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
        let (begin, end) = self.whole_gops()?;
        let clip = self.clip_of(before_the_last(self.frames[begin..=end].to_vec()), media);
        Some(with_headroom(clip.flow_spec(), headroom_percent, rates))
    }

    /// What each level shows and takes, of the whole GOPs that were seen, or of all that was seen before there is one.
    pub fn levels(&self, media: Media) -> Vec<LevelSummary> {
        let timed = match (self.whole_gops(), self.first_picture()) {
            (Some((begin, end)), _) => before_the_last(self.frames[begin..=end].to_vec()),
            (None, Some(first)) => on_a_timeline(self.frames[first..].to_vec()),
            (None, None) => return Vec::new(),
        };
        self.clip_of(timed, media).levels()
    }

    /// What a stream needs of which no whole GOP has been seen; `None` without pictures, and after a whole GOP.
    ///
    /// Frame rate, layers and the rates of the layers are those of the frames from the first picture on. The key frame
    /// is apart: one came, or none, in `watched`, the time since the stream was recognised (the media time seen counts
    /// where it is longer). So key frames are at least as far apart as the longer of the times before and after it,
    /// and the base layer takes at most one in this time. A key frame that has not been seen counts as ten mean
    /// pictures.
    pub fn estimate(
        &self,
        media: Media,
        headroom_percent: u32,
        rates: Option<PerLayer<Rate>>,
        watched: Span,
    ) -> Option<Estimate> {
        if self.gops() > 1 {
            return None;
        }
        let timed = on_a_timeline(self.frames[self.first_picture()?..].to_vec());
        let seen = timed.length;
        let clip = self.clip_of(timed, media);
        let mut spec = clip.flow_spec();
        let frames = &clip.frames;
        let unseen = watched.saturating_sub(seen);
        let key = frames.iter().find(|it| it.gop_start);
        let gop = match key {
            Some(key) => {
                let before = key.time.unwrap_or_default();
                (before + unseen).max(seen.saturating_sub(before))
            }
            None => seen + unseen,
        };
        let key_size = key.map_or_else(|| unseen_key_frame(frames), |key| key.size);
        let key_cells = frame_cells(key_size);
        let others = frames.iter().filter(|it| !it.gop_start);
        let mut sums = PerLayer::<u64>::default();
        let additive = self.composition.is_additive();
        for frame in others {
            let cells = u64::from(frame_cells(frame.size));
            match additive || !frame.sound {
                true => sums[frame.layer()] += cells,
                // It goes with each level.
                false => Layer::ALL.into_iter().for_each(|it| sums[it] += cells),
            }
        }
        let top = spec.top_level();
        for (layer, sum) in sums.iter() {
            let mut mean = per_second(*sum, seen);
            if !additive && !top.includes(layer) {
                continue;
            }
            let own = frames.iter().find(|it| it.gop_start && it.layer == layer);
            let key = match additive {
                true => (layer == Layer::Base).then_some(key_cells),
                false => Some(own.map_or(key_cells, |it| frame_cells(it.size))),
            };
            mean = mean.saturating_add(per_second(key.unwrap_or(0).into(), gop));
            let rate = &mut spec.layers[layer];
            (rate.mean, rate.peak) = (CellRate(mean), CellRate(mean));
        }
        let burst = &mut spec.layers.base.burst;
        *burst = (*burst).max(key_cells);
        let length = clip.info.frame_rate.frames_in(gop).clamp(1, 255);
        spec.gop_n = u8::try_from(length).unwrap_or(u8::MAX);
        spec.gop_m = spec.gop_m.min(spec.gop_n);
        spec.max_frame = match key {
            Some(_) => spec.max_frame,
            None => spec.max_frame.max(UNSEEN_MAX_FRAME),
        };
        Some(Estimate {
            spec: with_headroom(spec, headroom_percent, rates),
            seen,
            gop,
        })
    }
}

/// What is known of a stream before its first whole GOP ([`SpecMeter::estimate`]).
#[derive(Clone, PartialEq, Debug)]
pub struct Estimate {
    /// What it needs.
    pub spec: FlowSpec,
    /// The media time from which the rates are taken.
    pub seen: Span,
    /// Key frames are at least this far apart.
    pub gop: Span,
}

/// Size of a key frame that has not been seen, from the pictures that have.
fn unseen_key_frame(frames: &[Frame]) -> u32 {
    let pictures = frames.iter().filter(|it| it.picture != Picture::Data);
    let (count, sum) = pictures.fold((0u64, 0u64), |(count, sum), it| {
        (count + 1, sum + u64::from(it.size))
    });
    let mean = sum / count.max(1);
    let size = u32::try_from(mean * u64::from(KEY_FRAME)).unwrap_or(u32::MAX);
    size.min(UNSEEN_MAX_FRAME)
}

/// `count` in `time`, per second, rounded up.
fn per_second(count: u64, time: Span) -> u32 {
    let ps = u128::from(time.as_ps().max(1));
    let rate = (u128::from(count) * 1_000_000_000_000).div_ceil(ps);
    u32::try_from(rate).unwrap_or(u32::MAX)
}

/// What is reserved for a stream that needs `spec`.
fn with_headroom(
    mut spec: FlowSpec,
    headroom_percent: u32,
    rates: Option<PerLayer<Rate>>,
) -> FlowSpec {
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
    spec.max_frame = max_frame_for(spec.max_frame).max(MIN_MAX_FRAME);
    debug_assert!(spec.top_level() <= Level::FULL);
    spec
}

/// The limit for frames of a stream of which the largest frame so far has this number of bytes.
pub(super) fn max_frame_for(largest: u32) -> u32 {
    largest.saturating_mul(4).min(FlowSpec::MAX_FRAME)
}

/// Media time from the first of these frames that has a stamp to the last; without stamps none.
fn span(frames: &[TimedFrame]) -> Span {
    let first = frames.iter().find_map(|it| it.stamp);
    let last = frames.iter().rev().find_map(|it| it.stamp);
    match (first, last) {
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

/// Alternative levels take no less than those below them: where a lower rendition came out larger, the higher one is
/// reserved the same.
pub(crate) fn keep_order(spec: &mut FlowSpec) {
    if spec.composition.is_additive() {
        return;
    }
    let mut least = LayerRate::default();
    for layer in Layer::ALL {
        let rate = &mut spec.layers[layer];
        if rate.mean.0 == 0 {
            return;
        }
        rate.mean = rate.mean.max(least.mean);
        if rate.peak.0 > 0 {
            rate.peak = rate.peak.max(least.peak).max(rate.mean);
        }
        least = *rate;
    }
}

/// Layers are cumulative: a stream without E1 frames has a place for them all the same.
pub(super) fn fill_gap(spec: &mut FlowSpec) {
    keep_order(spec);
    if spec.layers.e2.mean.0 > 0 && spec.layers.e1.mean.0 == 0 {
        spec.layers.e1.mean = CellRate(1);
        spec.layers.e1.peak = CellRate(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stamp;

    /// Pictures of a GOP of 8 s at 25 pictures/s, and their sizes.
    const GOP: u64 = 200;
    const SIZES: [(Picture, u32); 4] = [
        (Picture::I, 60_000),
        (Picture::P, 5_000),
        (Picture::B, 1_000),
        (Picture::Data, 500),
    ];

    fn size(picture: Picture) -> u32 {
        let found = SIZES.into_iter().find(|(kind, _)| *kind == picture);
        found.expect("a size").1
    }

    fn picture(n: u64) -> Picture {
        match n % GOP {
            0 => Picture::I,
            n if n % 3 == 1 => Picture::P,
            _ => Picture::B,
        }
    }

    /// The frames of pictures `from` to `to`, each with a frame of sound before it. Of sound before the first picture
    /// no time is known, as in a transport stream.
    fn frames(from: u64, to: u64) -> Vec<TimedFrame> {
        let one = |picture, stamp| TimedFrame {
            frame: Frame {
                gop_start: picture == Picture::I,
                ..Frame::sized(picture, size(picture))
            },
            stamp,
            arrived: None,
        };
        (from..to)
            .flat_map(|n| {
                let picture = picture(n);
                // The stamps wrap.
                let stamp = Stamp::pes(((1 << 33) - 500_000 + n * 3_600) & ((1 << 33) - 1));
                let sound = Some(stamp).filter(|_| n > from);
                [one(Picture::Data, sound), one(picture, Some(stamp))]
            })
            .collect()
    }

    fn meter(frames: &[TimedFrame]) -> SpecMeter {
        let mut meter = SpecMeter::new(Span::from_secs(3));
        frames.iter().for_each(|it| meter.push(it));
        meter
    }

    #[test]
    fn a_stream_that_begins_anywhere_in_a_long_gop_is_estimated_from_what_came() {
        let whole = meter(&frames(0, 2 * GOP + 1));
        let truth = whole.flow_spec(Media::MpegTs, 0, None).expect("whole GOPs");
        assert_eq!(whole.gop(), Some(Span::from_secs(8)));
        assert_eq!(truth.pictures_per_second().as_f64(), 25.0);
        let ratio = |a: CellRate, b: CellRate| f64::from(a.0) / f64::from(b.0);
        // From 1 s of pictures up to all but one of a GOP.
        for length in [25, 60, 125, GOP - 1] {
            for begin in 0..GOP {
                let meter = meter(&frames(begin, begin + length));
                let at = format!("{length} pictures from {begin} on");
                assert_eq!((meter.is_done(), meter.gop()), (false, None), "{at}");
                let seen = Span::from_ms(40 * length);
                let estimate = meter
                    .estimate(Media::MpegTs, 0, None, seen)
                    .expect("pictures");
                let spec = &estimate.spec;
                spec.validate().expect("valid");
                assert_eq!(estimate.seen, seen, "{at}");
                let fps = spec.pictures_per_second().as_f64();
                assert!((24.9..25.1).contains(&fps), "{at}: {fps}");
                for (layer, kind) in [(Layer::E1, Picture::P), (Layer::E2, Picture::B)] {
                    let came = (begin..begin + length).filter(|&n| picture(n) == kind);
                    let came = came.count() as u64 * u64::from(frame_cells(size(kind)));
                    let mean = spec.layers[layer].mean;
                    assert_eq!(mean.0, per_second(came, seen), "{at}: {layer}");
                    // In 25 pictures one more or less of a kind is already 12 %.
                    let of_truth = ratio(mean, truth.layers[layer].mean);
                    let is_near = (0.93..1.07).contains(&of_truth);
                    assert!(length == 25 || is_near, "{at}: {layer} {of_truth}");
                }
                // The longer the look, the nearer to the truth: a key frame counts in the time in which no other came.
                let (least, most) = (Span::from_ms(20 * length), Span::from_secs(8));
                assert!((least..=most).contains(&estimate.gop), "{at}: {estimate:?}");
                let gop = spec.gop().as_secs_f64().min(5.1);
                let expected = estimate.gop.as_secs_f64().min(5.1);
                assert!((gop - expected).abs() < 0.05, "{at}: {gop} {expected}");
                let shown = ratio(spec.layers.base.mean, truth.layers.base.mean);
                let key = f64::from(size(Picture::I));
                let sound = f64::from(size(Picture::Data)) * 25.0;
                let most = (key / least.as_secs_f64() + sound) / (key / 8.0 + sound) * 1.1;
                assert!((0.6..most).contains(&shown), "{at}: {shown}, {most}");
            }
        }
    }

    #[test]
    fn time_without_a_picture_says_how_far_apart_key_frames_are() {
        // RTP gives no picture before the first key frame, which came 7 s after the first packet.
        let meter = meter(&frames(GOP, GOP + 25));
        let watched = Span::from_secs(8);
        let estimate = meter
            .estimate(Media::H264, 0, None, watched)
            .expect("pictures");
        assert_eq!(
            (estimate.seen, estimate.gop),
            (Span::from_secs(1), Span::from_secs(7))
        );
        assert_eq!(estimate.spec.pictures_per_second().as_f64(), 25.0);
        // Sound from long before the first picture has no time and does not count.
        let mut frames = frames(GOP, GOP + 50);
        let sound = frames[0].clone();
        frames.splice(..0, std::iter::repeat_n(sound, 300));
        let estimate = self::meter(&frames).estimate(Media::MpegTs, 0, None, Span::ZERO);
        let estimate = estimate.expect("pictures");
        assert_eq!(estimate.spec.pictures_per_second().as_f64(), 25.0);
        assert_eq!(
            (estimate.seen, estimate.gop),
            (Span::from_secs(2), Span::from_secs(2))
        );
    }

    #[test]
    fn nothing_is_estimated_without_pictures_or_after_a_whole_gop() {
        let estimate =
            |frames: &[TimedFrame]| meter(frames).estimate(Media::MpegTs, 0, None, Span::ZERO);
        let mut sound = frames(1, 50);
        sound.retain(|it| it.frame.picture == Picture::Data);
        assert_eq!(estimate(&sound), None);
        assert_eq!(estimate(&frames(0, GOP + 1)), None);
    }
}
