use std::collections::BTreeMap;

use layercast_core::{
    CellRate, FlowSpec, FrameRate, Layer, LayerRate, Media, PerLayer, Rate, Span, aal5_cells,
};
use serde::{Deserialize, Serialize};

use crate::advice::advice_of;
use crate::ts::DataStream;
use crate::ts::contents::Contents;
use crate::{
    Advice, Clip, Container, Frame, LevelSummary, Picture, Rendition, StoredRenditions, VideoCodec,
};

/// Bytes of the METS header before each frame (specs/mets.md 2.6).
pub(crate) const METS_HEADER: usize = 24;

/// What `layercast probe FILE --json` prints.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Summary {
    /// The container.
    pub container: Container,
    /// The codec of the video elementary stream, or the kind of content.
    pub codec: Media,
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// Pictures per second.
    pub fps: f64,
    /// The codec of the video in a transport stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub video: Option<VideoCodec>,
    /// Pictures by type.
    pub pictures: PictureCounts,
    /// GOPs: pictures at which a receiver can start.
    pub gops: u64,
    /// The layers: rates of the media alone.
    pub layers: Vec<LayerSummary>,
    /// The levels: what each shows, and rates on a link, with all headers.
    #[serde(default)]
    pub levels: Vec<LevelSummary>,
    /// The largest key frame in mean pictures.
    #[serde(default)]
    pub key_frame_ratio: f64,
    /// Frames of sound and data, which are in the base layer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<DataSummary>,
    /// The layers that receivers do not get, and the setting of the encoder that helps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub advice: Vec<String>,
    /// Of a clip whose levels are whole renditions, these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub renditions: Vec<RenditionSummary>,
    /// Byte offset of an incomplete last picture; of a transport stream, of the picture or packet that it ends inside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncated: Option<u64>,
    /// Pictures of a transport stream of which packets or octets are missing, or before which pictures may be missing; of AV1, VP8 and
    /// VP9 frames that are cut.
    #[serde(default, skip_serializing_if = "is_none")]
    pub damaged: u64,
}

fn is_none(count: &u64) -> bool {
    *count == 0
}

/// Pictures by type.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct PictureCounts {
    /// I pictures.
    #[serde(rename = "I")]
    pub i: u64,
    /// P pictures.
    #[serde(rename = "P")]
    pub p: u64,
    /// B pictures.
    #[serde(rename = "B")]
    pub b: u64,
}

/// What one layer of a clip carries, in payload bits (no headers, no cells).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LayerSummary {
    /// `BL`, `E1` or `E2`.
    pub name: String,
    /// Frames.
    pub frames: u64,
    /// Bytes.
    pub bytes: u64,
    /// Mean rate over the clip.
    pub mean_bps: Rate,
    /// Rate of the largest GOP.
    pub peak_bps: Rate,
}

/// A rendition that is a level of its own.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RenditionSummary {
    /// The level.
    pub level: String,
    /// `program 1`, or `input 1`.
    pub source: String,
    /// Width in pixels; 0 if unknown.
    pub width: u32,
    /// Height in pixels; 0 if unknown.
    pub height: u32,
    /// Pictures per second.
    pub fps: f64,
    /// Mean rate of its video alone.
    pub mean_bps: Rate,
    /// Its largest key frame in mean pictures.
    pub key_frame_ratio: f64,
    /// Key frames at times at which each rendition has one: levels change there.
    pub aligned: u64,
    /// Other key frames.
    pub alone: u64,
}

/// The renditions of a clip from the lowest level upwards.
pub fn renditions_of(stored: &StoredRenditions) -> Vec<RenditionSummary> {
    let clip = &stored.clip;
    let rate = clip.info.frame_rate;
    let of = |rendition: &Rendition| {
        let own = |it: &Frame| it.layer == rendition.layer && !it.sound;
        let bits: u64 = clip
            .frames
            .iter()
            .filter(|it| own(it))
            .map(|it| u64::from(it.size) * 8)
            .sum();
        let pictures = clip.frames.iter().filter(|it| own(it)).count();
        let fps = rate.as_f64() * pictures as f64 / clip.frames.len().max(1) as f64;
        RenditionSummary {
            level: rendition.layer.to_string(),
            source: rendition.id.to_string(),
            width: rendition.width,
            height: rendition.height,
            fps: (fps * 100.0).round() / 100.0,
            mean_bps: Rate::from_bps(per_second(bits, clip.frames.len(), rate)),
            key_frame_ratio: clip.key_frame_ratio_of(own),
            aligned: rendition.aligned,
            alone: rendition.alone,
        }
    };
    stored.renditions.iter().map(of).collect()
}

impl StoredRenditions {
    /// The clip, and its renditions.
    pub fn summary(&self) -> Summary {
        Summary {
            renditions: renditions_of(self),
            ..self.clip.summary()
        }
    }
}

/// Sound, data and tables beside the video, which are in the base layer.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct DataSummary {
    /// Frames that are no pictures.
    pub frames: u64,
    /// Bytes.
    pub bytes: u64,
    /// Of these, bytes of the tables of a transport stream, and of its stuffing.
    #[serde(default)]
    pub table_bytes: u64,
    /// The streams of a transport stream that are sound and data.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub streams: Vec<DataStream>,
}

/// `units` in `frames` frame times, per second, rounded up.
fn per_second(units: u64, frames: usize, rate: FrameRate) -> u64 {
    let product = u128::from(units) * u128::from(rate.num);
    let seconds = (frames as u128 * u128::from(rate.den)).max(1);
    u64::try_from(product.div_ceil(seconds)).unwrap_or(u64::MAX)
}

/// Cells of a frame of `size` bytes that is one METS packet.
pub(crate) fn frame_cells(size: u32) -> u32 {
    aal5_cells(size as usize + METS_HEADER)
}

fn cells_of(frame: &Frame) -> u64 {
    frame_cells(frame.size).into()
}

/// The length that occurs most often, the longer of two; from 1 to 255.
fn commonest(lengths: impl Iterator<Item = usize>) -> u8 {
    let mut seen = [0u32; 256];
    for length in lengths {
        seen[length.clamp(1, 255)] += 1;
    }
    let most = (1..=255u8).max_by_key(|&length| seen[usize::from(length)]);
    most.unwrap_or(1)
}

/// Mean over the clip and peak over the worst GOP of one layer, in `unit`s per second.
struct LayerLoad {
    total: u64,
    mean: u64,
    peak: u64,
}

impl Clip {
    /// The GOPs of the clip: frames from one random access point to the next.
    fn gops(&self) -> impl Iterator<Item = &[Frame]> {
        let additive = self.info.composition.is_additive();
        // Key frames of renditions come together, the lowest first.
        let begins = move |it: &Frame| it.gop_start && (additive || it.layer == Layer::Base);
        self.frames.chunk_by(move |_, next| !begins(next))
    }

    fn counts(&self) -> PictureCounts {
        let mut counts = PictureCounts::default();
        for frame in &self.frames {
            match frame.picture {
                Picture::I => counts.i += 1,
                Picture::P => counts.p += 1,
                Picture::B => counts.b += 1,
                Picture::Data => {}
            }
        }
        counts
    }

    fn load(&self, unit: impl Fn(&Frame) -> u64) -> PerLayer<LayerLoad> {
        let gops = self.gops().count();
        let top = self.frames.iter().map(|it| it.layer).max();
        let levels = Layer::ALL.map(|it| it.min(top.unwrap_or(Layer::Base)));
        let levels = &levels[..=top.unwrap_or(Layer::Base).index()];
        let mut totals = PerLayer::<u64>::default();
        let mut peaks = PerLayer::<u64>::default();
        for (index, gop) in self.gops().enumerate() {
            let mut sums = PerLayer::<u64>::default();
            for frame in gop {
                match self.info.composition.is_additive() || !frame.sound {
                    true => sums[frame.layer()] += unit(frame),
                    // It goes with each level.
                    false => levels.iter().for_each(|&it| sums[it] += unit(frame)),
                }
            }
            for (layer, &sum) in sums.iter() {
                totals[layer] += sum;
                // A last GOP cut short by the end of the clip is all I picture and no worst case.
                if index + 1 < gops || gops == 1 {
                    let rate = per_second(sum, gop.len(), self.info.frame_rate);
                    peaks[layer] = peaks[layer].max(rate);
                }
            }
        }
        let load = |total, peak: u64| {
            let mean = per_second(total, self.frames.len(), self.info.frame_rate);
            LayerLoad {
                total,
                mean,
                peak: peak.max(mean),
            }
        };
        PerLayer {
            base: load(totals.base, peaks.base),
            e1: load(totals.e1, peaks.e1),
            e2: load(totals.e2, peaks.e2),
        }
    }

    /// What the flow of this clip needs, measured from its frames (specs/mets.md 2.3).
    ///
    /// A frame of n bytes takes `aal5_cells(n + 24)` cells. The mean is taken over the clip, the peak
    /// over the worst GOP, the burst is the largest frame. GOP length and anchor distance are the
    /// commonest of the clip, 255 at most.
    pub fn flow_spec(&self) -> FlowSpec {
        let mut bursts = PerLayer::<u32>::default();
        for frame in &self.frames {
            let burst = &mut bursts[frame.layer()];
            *burst = (*burst).max(cells_of(frame) as u32);
        }
        let load = self.load(cells_of);
        let cell_rate = |rate: u64| CellRate(u32::try_from(rate).unwrap_or(u32::MAX));
        let mut layers = PerLayer::<LayerRate>::default();
        for (layer, load) in load.iter() {
            layers[layer] = LayerRate {
                kind: 0,
                mean: cell_rate(load.mean),
                peak: cell_rate(load.peak),
                burst: bursts[layer],
            };
        }
        let gop_n = commonest(self.gops().map(<[Frame]>::len));
        let lowest = |it: &&Frame| self.info.composition.is_additive() || it.layer == Layer::Base;
        let kinds: Vec<Picture> = self
            .frames
            .iter()
            .filter(lowest)
            .map(|it| it.picture)
            .collect();
        let anchors = kinds
            .chunk_by(|_, next| matches!(next, Picture::B | Picture::Data))
            .map(<[Picture]>::len);
        let mut spec = FlowSpec {
            media: self.info.codec,
            composition: self.info.composition,
            frame_rate: self.info.frame_rate,
            picture_rate: Some(self.picture_rate()).filter(|it| *it != self.info.frame_rate),
            gop_n,
            gop_m: commonest(anchors).min(gop_n),
            max_frame: self
                .frames
                .iter()
                .map(|frame| frame.size)
                .max()
                .unwrap_or(0)
                .max(1),
            layers,
            ..FlowSpec::default()
        };
        crate::live::keep_order(&mut spec);
        spec
    }

    /// What receivers of the clip do not get, and which setting of the encoder helps. Traces and synthetic clips
    /// have no encoder.
    pub fn advice(&self) -> Vec<Advice> {
        match self.info.container {
            Container::Trace | Container::Synthetic => Vec::new(),
            _ => advice_of(
                &self.flow_spec(),
                self.info.video,
                self.peak(),
                (self.gop(), false),
            ),
        }
    }

    /// How far key frames are apart most often, the longest of those.
    fn gop(&self) -> Span {
        let mut lengths = BTreeMap::<usize, u32>::new();
        for gop in self.gops() {
            *lengths.entry(gop.len()).or_default() += 1;
        }
        let commonest = lengths
            .iter()
            .max_by_key(|(length, count)| (**count, **length));
        let frames = commonest.map_or(0, |(length, _)| *length as u64);
        self.info.frame_rate.due(frames)
    }

    /// Cells per second of the worst GOP, all layers together.
    fn peak(&self) -> CellRate {
        let gops = self.gops().count();
        // As in `load`.
        let whole = self.gops().take(gops.saturating_sub(1).max(1));
        let top = self.flow_spec().top_level();
        let of_top = |it: &&Frame| {
            self.info.composition.is_additive() || it.sound || it.layer.level() == top
        };
        let rates = whole.map(|gop| {
            let cells = gop.iter().filter(of_top).map(cells_of).sum();
            per_second(cells, gop.len(), self.info.frame_rate)
        });
        let mean = self.frames.iter().filter(of_top).map(cells_of).sum();
        let mean = per_second(mean, self.frames.len(), self.info.frame_rate);
        let peak = rates.max().unwrap_or(0).max(mean);
        CellRate(u32::try_from(peak).unwrap_or(u32::MAX))
    }

    /// Frames that are no pictures.
    fn data(&self) -> Option<DataSummary> {
        let mut summary = DataSummary::default();
        let mut contents = Contents::default();
        for frame in &self.frames {
            let is_data = frame.picture == Picture::Data;
            if let Some(data) = frame
                .data
                .as_ref()
                .filter(|_| self.info.codec == Media::MpegTs)
            {
                contents.push(data, is_data);
            }
            if is_data {
                summary.frames += 1;
                summary.bytes += u64::from(frame.size);
            }
        }
        summary.table_bytes = contents.table_bytes();
        summary.streams = contents.streams();
        (summary.frames > 0).then_some(summary)
    }

    /// Counts and payload rates by layer.
    pub fn summary(&self) -> Summary {
        let mut frames = PerLayer::<u64>::default();
        for frame in &self.frames {
            frames[frame.layer] += 1;
        }
        let load = self.load(|frame| u64::from(frame.size) * 8);
        let layers = load.iter().map(|(layer, load)| LayerSummary {
            name: layer.to_string(),
            frames: frames[layer],
            bytes: load.total / 8,
            mean_bps: Rate::from_bps(load.mean),
            peak_bps: Rate::from_bps(load.peak),
        });
        Summary {
            container: self.info.container,
            codec: self.info.codec,
            width: self.info.width,
            height: self.info.height,
            fps: self.picture_rate().as_f64(),
            video: self.info.video,
            pictures: self.counts(),
            gops: self.gops().count() as u64,
            layers: layers.collect(),
            levels: self.levels(),
            key_frame_ratio: self.key_frame_ratio(),
            data: self.data(),
            advice: self.advice().iter().map(ToString::to_string).collect(),
            renditions: Vec::new(),
            truncated: self.info.truncated,
            damaged: self.damaged(),
        }
    }
}
