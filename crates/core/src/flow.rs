use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{CellRate, Layer, Level, LevelSet, PerLayer, Span};

/// A media flow, unique along its tree; 0 asks the source to assign one.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct FlowId(pub u32);

/// A group of receivers of one flow.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct GroupId(pub u32);

/// A node of the network, as it signs its RES and ADAPT messages (`origin`).
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct NodeId(pub u32);

/// What a flow carries (specs/mets.md 2.3).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Media {
    /// MPEG-1 video.
    Mpeg1,
    /// MPEG-2 video.
    Mpeg2,
    /// H.264 video.
    H264,
    /// H.265 video.
    H265,
    /// AV1 video.
    Av1,
    /// VP8 video.
    Vp8,
    /// VP9 video.
    Vp9,
    /// Anything in an MPEG transport stream.
    MpegTs,
    /// H.261 video.
    H261,
    /// Audio.
    Audio,
    /// Anything else.
    #[default]
    Opaque,
}

impl Media {
    /// What it is, in words.
    pub const fn name(self) -> &'static str {
        match self {
            Media::Mpeg1 => "MPEG-1 video",
            Media::Mpeg2 => "MPEG-2 video",
            Media::H264 => "H.264 video",
            Media::H265 => "H.265 video",
            Media::Av1 => "AV1 video",
            Media::Vp8 => "VP8 video",
            Media::Vp9 => "VP9 video",
            Media::MpegTs => "MPEG-TS",
            Media::H261 => "H.261 video",
            Media::Audio => "audio",
            Media::Opaque => "data",
        }
    }
}

/// How firmly the network promises the flow (specs/mets.md 2.3). [`FlowSpec::validate`] accepts `Adaptive` only.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Commitment {
    /// Every packet of every layer.
    Deterministic,
    /// At least this share of the packets, in percent.
    Statistical(u8),
    /// Base layer hard, enhancement layers soft.
    #[default]
    Adaptive,
    /// Nothing.
    BestEffort,
}

/// What the layers of a flow are to each other.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Composition {
    /// A level is the sum of its layers: a higher layer adds to the lower ones.
    #[default]
    Additive,
    /// A level is one layer: each is a whole rendition, and a higher one replaces the lower ones. What all have in
    /// common, such as sound, goes with each.
    Alternative,
}

/// Media frames per second, all layers together, as an exact fraction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct FrameRate {
    /// Frames ...
    pub num: u32,
    /// ... per this number of seconds.
    pub den: u32,
}

/// What one layer of a flow needs, in ATM cells (specs/mets.md 2.3).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug, Serialize, Deserialize)]
pub struct LayerRate {
    /// 16-bit frame type on the wire; 0 means the default of the layer (BL 1, E1 2, E2 3).
    #[serde(default)]
    pub kind: u16,
    /// Long-run mean.
    pub mean: CellRate,
    /// Highest rate over one GOP; 0 means the mean.
    #[serde(default)]
    pub peak: CellRate,
    /// Largest frame in cells.
    #[serde(default)]
    pub burst: u32,
}

/// What a flow needs from the network and the hosts (specs/mets.md 2.3).
///
/// ```
/// use layercast_core::{CellRate, FlowSpec, Level};
///
/// let mut spec = FlowSpec::default();
/// spec.layers.base.mean = CellRate(480);
/// spec.layers.e1.mean = CellRate(960);
/// assert_eq!(spec.rate_at(Level::BASE), CellRate(480));
/// assert_eq!(spec.rate_at(Level::E1), CellRate(1_440));
/// spec.validate()?;
/// // A second enhancement layer needs the first one.
/// spec.layers.e1.mean = CellRate(0);
/// spec.layers.e2.mean = CellRate(960);
/// assert_eq!(spec.validate().unwrap_err().field, "layers");
/// # Ok::<(), layercast_core::SpecError>(())
/// ```
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FlowSpec {
    /// The flow; 0 = assign.
    pub flow_id: FlowId,
    /// What it carries.
    pub media: Media,
    /// What the layers are to each other.
    #[serde(skip_serializing_if = "Composition::is_additive")]
    pub composition: Composition,
    /// How firmly it is promised.
    pub commitment: Commitment,
    /// Frames per second, all layers together.
    pub frame_rate: FrameRate,
    /// Pictures per second, where frames carry sound and data too; `None`: every frame is a picture.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub picture_rate: Option<FrameRate>,
    /// Pictures in a GOP (N).
    pub gop_n: u8,
    /// Anchor distance (M).
    pub gop_m: u8,
    /// Largest frame in bytes that `send` accepts.
    pub max_frame: u32,
    /// Rates by layer; unused layers are zero. Of alternative layers each is the rate of its level as a whole.
    pub layers: PerLayer<LayerRate>,
    /// End-to-end delay bound in milliseconds; 0 = unspecified. If set it is the playout delay.
    pub delay_max_ms: u32,
    /// Jitter bound in milliseconds; 0 = unspecified.
    pub jitter_max_ms: u32,
    /// Packet loss bound in permille.
    pub loss_max_permille: u16,
    /// How much more than measured the rates of the layers are, in permille of what was measured; 0 if they are
    /// as measured, or were given.
    #[serde(skip_serializing_if = "is_zero")]
    pub headroom_permille: u16,
}

fn is_zero(number: &u16) -> bool {
    *number == 0
}

/// A flow specification that cannot be meant; names the field (specs/mets.md 7).
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("flow specification: {field} {problem}")]
pub struct SpecError {
    /// The offending field.
    pub field: &'static str,
    /// What is wrong with it.
    pub problem: String,
}

impl Composition {
    /// Whether levels are sums of layers.
    pub const fn is_additive(&self) -> bool {
        matches!(self, Composition::Additive)
    }
}

impl fmt::Display for Composition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Composition::Additive => "additive",
            Composition::Alternative => "alternative",
        })
    }
}

impl Default for FlowSpec {
    fn default() -> FlowSpec {
        FlowSpec {
            flow_id: FlowId(0),
            media: Media::Opaque,
            composition: Composition::Additive,
            commitment: Commitment::Adaptive,
            frame_rate: FrameRate { num: 24, den: 1 },
            picture_rate: None,
            gop_n: 12,
            gop_m: 3,
            max_frame: FlowSpec::MAX_FRAME_CELLS,
            layers: PerLayer::default(),
            delay_max_ms: 0,
            jitter_max_ms: 0,
            loss_max_permille: 10,
            headroom_permille: 0,
        }
    }
}

impl FlowSpec {
    /// Largest frame of the 1996 system, one AAL5 frame: 32 KiB.
    pub const MAX_FRAME_CELLS: u32 = 32_768;
    /// Largest frame of any carriage (24-bit length in the METS header).
    pub const MAX_FRAME: u32 = (1 << 24) - 1;

    /// Pictures per second.
    pub fn pictures_per_second(&self) -> FrameRate {
        self.picture_rate.unwrap_or(self.frame_rate)
    }

    /// How long a GOP lasts. GOPs of more frames than `gop_n` can say last longer.
    pub fn gop(&self) -> Span {
        self.frame_rate.due(u64::from(self.gop_n))
    }

    /// Checks every field against every other (specs/mets.md 7, first row).
    pub fn validate(&self) -> Result<(), SpecError> {
        let fail = |field, problem: String| Err(SpecError { field, problem });
        if self.frame_rate.num == 0 || self.frame_rate.den == 0 {
            return fail("frame_rate", "must not be zero".into());
        }
        if self.gop_n == 0 || self.gop_m == 0 || self.gop_m > self.gop_n {
            return fail(
                "gop_n",
                format!("{} with gop_m {} is no GOP", self.gop_n, self.gop_m),
            );
        }
        if self.max_frame == 0 || self.max_frame > FlowSpec::MAX_FRAME {
            return fail(
                "max_frame",
                format!("{} is not in 1..={}", self.max_frame, FlowSpec::MAX_FRAME),
            );
        }
        for (layer, rate) in self.layers.iter() {
            if rate.peak.0 != 0 && rate.mean > rate.peak {
                let (mean, peak) = (rate.mean, rate.peak);
                return fail(
                    "layers",
                    format!("{layer} has mean {mean} above its peak {peak}"),
                );
            }
        }
        if self.layers.e2.mean.0 > 0 && self.layers.e1.mean.0 == 0 {
            return fail("layers", "have E2 without E1".into());
        }
        if self.layers.base.mean.0 == 0 && self.layers.e1.mean.0 > 0 {
            return fail("layers", "have E1 without a base layer".into());
        }
        if !self.composition.is_additive() {
            let rates = [Level::BASE, Level::E1, Level::FULL].map(|level| self.rate_at(level));
            let used = &rates[..=usize::from(self.top_level().get())];
            if let Some(pair) = used.windows(2).find(|pair| pair[0] > pair[1]) {
                let (lower, higher) = (pair[0], pair[1]);
                return fail(
                    "layers",
                    format!("are alternative, and a level of {higher} is above one of {lower}"),
                );
            }
        }
        if self.loss_max_permille > 1000 {
            return fail("loss_max_permille", "is above 1000".into());
        }
        if self.commitment != Commitment::Adaptive {
            let problem = "is not adaptive: nodes reserve the mean rate of the base layer for every flow, and nothing else";
            return fail("commitment", problem.into());
        }
        Ok(())
    }

    /// Cells/s above the base layer that `level` takes: `L0 = 0`, `L1`, `L2` (specs/mets.md 2.11).
    pub fn above_base(&self, level: Level) -> CellRate {
        if !self.composition.is_additive() {
            return self.rate_at(level).saturating_sub(self.layers.base.mean);
        }
        let mut rate = CellRate(0);
        if level.includes(Layer::E1) {
            rate = rate.saturating_add(self.layers.e1.mean);
        }
        if level.includes(Layer::E2) {
            rate = rate.saturating_add(self.layers.e2.mean);
        }
        rate
    }

    /// Cells/s that `level` as measured takes besides what is reserved for the base layer: headroom is for the
    /// base layer to grow into, and costs the flow no level that its measured rates fit.
    pub fn measured_above_base(&self, level: Level) -> CellRate {
        let whole = 1_000 + u64::from(self.headroom_permille);
        let measured = (u64::from(self.rate_at(level).0) * 1_000).div_ceil(whole);
        let measured = CellRate(u32::try_from(measured).unwrap_or(u32::MAX));
        measured.saturating_sub(self.layers.base.mean)
    }

    /// The flow with all its rates, and its largest frames, at this share of what they are.
    pub fn at_share(&self, share: f64) -> FlowSpec {
        let part = |cells: u32| (f64::from(cells) * share).ceil() as u32;
        let mut spec = self.clone();
        for layer in Layer::ALL {
            let rate = &mut spec.layers[layer];
            (rate.mean, rate.peak) = (CellRate(part(rate.mean.0)), CellRate(part(rate.peak.0)));
            rate.burst = part(rate.burst);
        }
        spec
    }

    /// Cells/s of all layers as they were measured, without headroom.
    pub fn measured(&self) -> CellRate {
        let whole = 1_000 + u64::from(self.headroom_permille);
        let measured = u64::from(self.rate_at(Level::FULL).0) * 1_000 / whole;
        CellRate(u32::try_from(measured).unwrap_or(u32::MAX))
    }

    /// Cells/s of everything delivered at `level`, base layer included.
    pub fn rate_at(&self, level: Level) -> CellRate {
        if !self.composition.is_additive() {
            return self.of_level(level).mean;
        }
        self.layers.base.mean.saturating_add(self.above_base(level))
    }

    /// Cells/s as measured that a link takes which carries `wanted` of alternative levels up to `most`, besides what is
    /// reserved for the base layer. What all levels have in common counts in each.
    pub fn measured_set_above_base(&self, wanted: LevelSet, most: Level) -> CellRate {
        let whole = 1_000 + u64::from(self.headroom_permille);
        let rate = u64::from(self.rate_of_set(wanted.served(most, LevelSet::ALL)).0);
        let measured = u32::try_from((rate * 1_000).div_ceil(whole)).unwrap_or(u32::MAX);
        CellRate(measured).saturating_sub(self.layers.base.mean)
    }

    /// Cells/s of all these alternative levels together, as far as the flow has them.
    pub fn rate_of_set(&self, set: LevelSet) -> CellRate {
        let used = LevelSet::up_to(self.top_level());
        let rates = set
            .served(Level::FULL, used)
            .iter()
            .map(|level| self.rate_at(level));
        rates.fold(CellRate(0), CellRate::saturating_add)
    }

    /// The layer that is this level, of alternative ones.
    fn of_level(&self, level: Level) -> &LayerRate {
        let level = level.min(self.top_level());
        let at = |layer: &&Layer| layer.level() == level;
        let layer = Layer::ALL.iter().find(at);
        &self.layers[*layer.unwrap_or(&Layer::Base)]
    }

    /// Declared peaks of all layers of `level` together, in cells/s: what it takes while each has its busiest GOP.
    pub fn peak_at(&self, level: Level) -> CellRate {
        if !self.composition.is_additive() {
            return self.of_level(level).peak;
        }
        let layers = self.layers.iter().filter(|(it, _)| level.includes(*it));
        let peaks = layers.map(|(_, rate)| rate.peak);
        peaks.fold(CellRate(0), CellRate::saturating_add)
    }

    /// Frames per second delivered at `level`: of a GOP one of the base layer, the other anchors of E1. Each of alternative
    /// levels has all pictures.
    pub fn frames_at(&self, level: Level) -> FrameRate {
        if !self.composition.is_additive() {
            return self.pictures_per_second();
        }
        let n = u32::from(self.gop_n.max(1));
        let delivered = match level.get() {
            0 => 1,
            1 => n.div_ceil(u32::from(self.gop_m.max(1))),
            _ => n,
        };
        FrameRate {
            num: self.frame_rate.num.saturating_mul(delivered),
            den: self.frame_rate.den.saturating_mul(n),
        }
    }

    /// The highest level for which the flow has frames at all.
    pub fn top_level(&self) -> Level {
        match (self.layers.e1.mean.0, self.layers.e2.mean.0) {
            (0, _) => Level::BASE,
            (_, 0) => Level::E1,
            _ => Level::FULL,
        }
    }
}

impl FrameRate {
    /// When frame `k` is due after the first, computed from the fraction, never by repeated
    /// addition (specs/mets.md 2.4).
    pub fn due(self, k: u64) -> Span {
        let ps = 1_000_000_000_000_u128 * u128::from(k) * u128::from(self.den)
            / u128::from(self.num.max(1));
        Span::from_ps(u64::try_from(ps).unwrap_or(u64::MAX))
    }

    /// Whole frames that fall into `span`.
    pub fn frames_in(self, span: Span) -> u64 {
        let second = 1_000_000_000_000_u128 * u128::from(self.den.max(1));
        let frames = u128::from(span.as_ps()) * u128::from(self.num) / second;
        u64::try_from(frames).unwrap_or(u64::MAX)
    }

    /// Frames per second, for printing.
    pub fn as_f64(self) -> f64 {
        f64::from(self.num) / f64::from(self.den)
    }
}

impl fmt::Display for FlowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

impl fmt::Display for FrameRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.den == 1 {
            write!(f, "{}", self.num)
        } else {
            write!(f, "{:.3}", self.as_f64())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canyon() -> FlowSpec {
        let layer = |mean| LayerRate {
            mean: CellRate(mean),
            ..LayerRate::default()
        };
        let layers = PerLayer {
            base: layer(480),
            e1: layer(960),
            e2: layer(1_920),
        };
        FlowSpec {
            layers,
            ..FlowSpec::default()
        }
    }

    #[test]
    fn levels_are_cumulative() {
        let spec = canyon();
        assert_eq!(spec.above_base(Level::BASE), CellRate(0));
        assert_eq!(spec.above_base(Level::E1), CellRate(960));
        assert_eq!(spec.above_base(Level::FULL), CellRate(2_880));
        assert_eq!(spec.rate_at(Level::FULL), CellRate(3_360));
        assert_eq!(spec.top_level(), Level::FULL);
    }

    #[test]
    fn an_alternative_level_is_one_layer() {
        let mut spec = FlowSpec {
            composition: Composition::Alternative,
            ..canyon()
        };
        assert_eq!(spec.validate(), Ok(()));
        assert_eq!(spec.rate_at(Level::E1), CellRate(960));
        assert_eq!(spec.rate_at(Level::FULL), CellRate(1_920));
        assert_eq!(spec.above_base(Level::FULL), CellRate(1_440));
        assert_eq!(spec.frames_at(Level::BASE), spec.frame_rate);
        spec.layers.e2.peak = CellRate(3_000);
        assert_eq!(spec.peak_at(Level::FULL), CellRate(3_000));
        let text = serde_json::to_string(&spec).expect("JSON");
        assert!(text.contains("\"composition\":\"alternative\""), "{text}");
        assert!(
            !serde_json::to_string(&canyon())
                .expect("JSON")
                .contains("composition")
        );
        spec.layers.e1.mean = CellRate(400);
        let error = spec.validate().expect_err("E1 is below the base");
        assert!(error.problem.contains("are alternative"), "{error}");
    }

    #[test]
    fn nonsense_is_named() {
        let field = |change: fn(&mut FlowSpec)| {
            let mut spec = canyon();
            change(&mut spec);
            spec.validate().map_err(|error| error.field)
        };
        assert_eq!(field(|_| ()), Ok(()));
        assert_eq!(field(|s| s.frame_rate.num = 0), Err("frame_rate"));
        assert_eq!(field(|s| s.max_frame = 0), Err("max_frame"));
        assert_eq!(field(|s| s.layers.e1.mean = CellRate(0)), Err("layers"));
        assert_eq!(field(|s| s.layers.e1.peak = CellRate(1)), Err("layers"));
        assert_eq!(field(|s| s.gop_m = 13), Err("gop_n"));
        for other in [
            Commitment::Deterministic,
            Commitment::Statistical(90),
            Commitment::BestEffort,
        ] {
            let mut spec = canyon();
            spec.commitment = other;
            let error = spec.validate().expect_err("nothing acts on it");
            assert_eq!(error.field, "commitment");
        }
    }

    #[test]
    fn frame_times_do_not_drift() {
        let ntsc = FrameRate {
            num: 30_000,
            den: 1_001,
        };
        assert_eq!(ntsc.frames_in(ntsc.due(1_000)), 999);
        assert_eq!(ntsc.due(30_000), Span::from_secs(1_001));
    }
}
