use bytes::Bytes;
use layercast_core::{CellRate, FlowSpec, Layer, Level, PerLayer};
use serde::{Deserialize, Serialize};

use super::account::RateAccount;
use super::{CoefficientFilter, DropRule, FilterRule, PictureDrop, Shaping};
use crate::mpeg::headers::Sequence;
use crate::mpeg::unit::AccessUnit;
use crate::rates::{METS_HEADER, frame_cells};
use crate::repeat::{Repeat, Repeats};
use crate::{Frame, Picture};

/// Bytes that stand for a dropped picture where there are no real ones.
const PLACEHOLDER: u32 = 16;
/// Bytes of the last cell that are not the frame's: METS header and AAL5 trailer.
const OVERHEAD: u32 = (METS_HEADER + layercast_core::AAL5_TRAILER) as u32;
/// Size of a frame after a low-pass of n coefficients, as a share of its size before, in permille: measured on
/// one clip (docs/src/how-to/filters.md), for frames without bytes.
const LOW_PASS: [(u8, u32); 7] = [
    (1, 322),
    (3, 486),
    (6, 635),
    (10, 755),
    (20, 928),
    (40, 985),
    (64, 1_000),
];
/// Share of a new frame in the mean ratios.
const GAIN: f64 = 1.0 / 16.0;

/// A filter in a flow: takes each of its frames in coded order and gives it back smaller, with the
/// label it had (specs/mets.md 2.13).
///
/// Frames without bytes (traces, synthetic clips) get the size that the same arithmetic gives them.
/// What cannot be filtered, because it is no MPEG video or the headers before it were lost, passes as
/// it is and is counted.
pub struct FlowFilter {
    rule: FilterRule,
    coefficients: CoefficientFilter,
    drop: PictureDrop,
    repeats: Option<Repeats>,
    sequence: Option<Sequence>,
    /// Of the last I picture: its temporal reference, if its GOP is closed.
    closed: Option<u16>,
    account: RateAccount,
    rate: CellRate,
    level: Level,
    ratios: PerLayer<Option<f64>>,
    stats: FlowFilterStats,
}

/// What a [`FlowFilter`] did so far.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct FlowFilterStats {
    /// Frames that entered the filter.
    pub frames: u64,
    /// Bytes that entered the filter.
    pub bytes_in: u64,
    /// Bytes that left the filter.
    pub bytes_out: u64,
    /// Frames that could not be filtered and passed unchanged.
    pub passed: u64,
    /// Frames that exceed their budget although nothing is left to drop.
    pub over_budget: u64,
}

impl std::fmt::Debug for FlowFilter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FlowFilter")
            .field("rule", &self.rule)
            .field("stats", &self.stats)
            .finish_non_exhaustive()
    }
}

impl FlowFilter {
    /// A filter that has seen nothing of a flow of `spec`.
    pub fn new(rule: FilterRule, spec: &FlowSpec) -> FlowFilter {
        let picture = Picture::B;
        let (keep, of) = match rule {
            FilterRule::Thin { keep, of } => (u32::from(keep), u32::from(of)),
            _ => (1, 1),
        };
        let shaping = match rule {
            FilterRule::LowPass(k) => Shaping::LowPass(k),
            _ => Shaping::LowPass(64),
        };
        FlowFilter {
            rule,
            coefficients: CoefficientFilter::new(shaping),
            drop: PictureDrop::new(DropRule::Thin { picture, keep, of }),
            repeats: None,
            sequence: None,
            closed: None,
            account: RateAccount::new(spec),
            rate: CellRate(0),
            level: Level::BASE,
            // Of thinning it is known before any picture was thinned.
            ratios: PerLayer {
                e2: (keep < of).then(|| f64::from(keep) / f64::from(of)),
                ..PerLayer::default()
            },
            stats: FlowFilterStats::default(),
        }
    }

    /// What it does.
    pub fn rule(&self) -> FilterRule {
        self.rule
    }

    /// What it did so far.
    pub fn stats(&self) -> FlowFilterStats {
        self.stats
    }

    /// From the next GOP on, frames of `level` are to take `rate` above the base layer; only
    /// [`FilterRule::Drs`] heeds it.
    pub fn set_rate(&mut self, rate: CellRate, level: Level) {
        (self.rate, self.level) = (rate, level);
    }

    /// The highest level whose headers, vectors and DC coefficients fit `rate` above the base layer, as
    /// far as frames were seen.
    pub fn level_for(&self, rate: CellRate) -> Level {
        self.account.level_for(rate)
    }

    /// What E1 takes of `rate` where E2 is sent too.
    pub fn e1_part(&self, rate: CellRate) -> CellRate {
        self.account.e1_part(rate)
    }

    /// Cells/s that the layers of `level` above the base layer have behind it, by the frames seen so
    /// far; of a layer not seen yet, as the layer below it.
    pub fn above_base(&self, spec: &FlowSpec, level: Level) -> CellRate {
        let mut ratio = self.ratios.base.unwrap_or(1.0);
        let mut rate = 0.0;
        for layer in [Layer::E1, Layer::E2] {
            ratio = self.ratios[layer].unwrap_or(ratio);
            if level.includes(layer) {
                rate += f64::from(spec.layers[layer].mean.0) * ratio;
            }
        }
        CellRate(rate.ceil() as u32)
    }

    /// Looks at a frame that is not sent on.
    pub fn look(&mut self, frame: &Frame) {
        if self.rule == FilterRule::Drs {
            self.begin(frame);
            self.account.pass();
            if frame.layer() != Layer::Base
                && let Some((whole, bare)) = self.sizes(frame)
            {
                self.account.learn(frame.layer(), whole, bare);
            }
        }
    }

    /// Filters the next frame in coded order that is sent on.
    pub fn apply(&mut self, frame: Frame) -> Frame {
        let before = frame.size;
        let layer = frame.layer();
        self.begin(&frame);
        let after = match self.rule {
            FilterRule::Keep(_) => frame,
            FilterRule::Thin { .. } => self.thin(frame),
            FilterRule::LowPass(k) => self.low_pass(frame, k),
            FilterRule::Drs => self.shape(frame),
        };
        self.stats.frames += 1;
        self.stats.bytes_in += u64::from(before);
        self.stats.bytes_out += u64::from(after.size);
        let ratio = f64::from(frame_cells(after.size)) / f64::from(frame_cells(before));
        let mean = self.ratios[layer].get_or_insert(ratio);
        *mean += GAIN * (ratio - *mean);
        after
    }

    fn begin(&mut self, frame: &Frame) {
        if frame.gop_start && self.rule == FilterRule::Drs {
            self.account.begin_gop(self.rate, self.level);
        }
    }

    fn low_pass(&mut self, frame: Frame, k: u8) -> Frame {
        if frame.data.is_none() {
            let size = u64::from(frame.size) * u64::from(low_pass_permille(k)) / 1_000;
            return resized(frame, size as u32);
        }
        match self.coefficients.apply(&frame) {
            Ok(filtered) => filtered,
            Err(_) => self.unfiltered(frame),
        }
    }

    fn shape(&mut self, frame: Frame) -> Frame {
        self.account.pass();
        let layer = frame.layer();
        let Some((whole, bare)) = self.sizes(&frame) else {
            // The base layer has its own reservation: its headers are all that is needed of it.
            return frame;
        };
        if layer == Layer::Base {
            return frame;
        }
        let budget = self.account.budget(layer, whole, bare);
        let bytes = (budget * layercast_core::CELL_PAYLOAD as u32)
            .saturating_sub(OVERHEAD)
            .max(1);
        let shaped = match &frame.data {
            None => {
                let size = frame.size.min(bytes);
                resized(frame, size)
            }
            Some(_) if bare >= whole => frame,
            Some(_) => {
                self.coefficients
                    .set_shaping(Shaping::Drs { budget: bytes });
                match self.coefficients.apply(&frame) {
                    Ok(filtered) => filtered,
                    Err(_) => self.unfiltered(frame),
                }
            }
        };
        let out = frame_cells(shaped.size);
        self.stats.over_budget += u64::from(out > budget.max(1));
        self.account.spend(layer, whole, bare, out);
        shaped
    }

    /// Cells of the frame whole, and with nothing left to drop; `None` if it cannot be read and is of
    /// the base layer.
    fn sizes(&mut self, frame: &Frame) -> Option<(u32, u32)> {
        let whole = frame_cells(frame.size);
        if frame.data.is_none() {
            return Some((whole, frame_cells(1)));
        }
        match self.coefficients.bare(frame) {
            Ok(bare) => Some((whole, frame_cells(bare).min(whole))),
            // What cannot be filtered is all or nothing.
            Err(_) if frame.layer() != Layer::Base => Some((whole, whole)),
            Err(_) => None,
        }
    }

    fn thin(&mut self, frame: Frame) -> Frame {
        let unit = frame.data.as_deref().and_then(AccessUnit::scan);
        if let Some(unit) = unit.filter(|unit| unit.picture.kind == Picture::I) {
            self.sequence = unit.sequence.or(self.sequence);
            let closed = unit.gop.is_some_and(|gop| gop.closed);
            self.closed = closed.then_some(unit.picture.temporal_reference);
        }
        if self.drop.keeps(&frame) {
            return frame;
        }
        if frame.data.is_none() {
            return resized(frame, PLACEHOLDER);
        }
        let (Some(unit), Some(sequence)) = (unit, self.sequence) else {
            return self.unfiltered(frame);
        };
        let reference = unit.picture.temporal_reference;
        let top_field_first = unit.coding.is_some_and(|coding| coding.top_field_first);
        let made = self.repeats.take();
        let made = made.filter(|made| made.fits(&sequence, top_field_first));
        let repeats = made.unwrap_or_else(|| Repeats::new(sequence, top_field_first));
        // Before the I picture of a closed GOP there is nothing to repeat.
        let repeat = match self.closed {
            Some(first) if reference < first => Repeat::Backward,
            _ => Repeat::Forward,
        };
        let mut bytes = Vec::new();
        repeats.write(repeat, reference, &mut bytes);
        self.repeats = Some(repeats);
        match bytes.len() < frame.size as usize {
            true => Frame {
                size: bytes.len() as u32,
                data: Some(Bytes::from(bytes)),
                ..frame
            },
            false => frame,
        }
    }

    fn unfiltered(&mut self, frame: Frame) -> Frame {
        self.stats.passed += 1;
        frame
    }
}

fn resized(frame: Frame, size: u32) -> Frame {
    Frame {
        size: size.clamp(1, frame.size.max(1)),
        ..frame
    }
}

/// The table of the low-pass, straight lines between.
fn low_pass_permille(k: u8) -> u32 {
    let k = k.clamp(1, 64);
    let at = LOW_PASS.partition_point(|&(known, _)| known < k);
    let (high_k, high) = LOW_PASS[at];
    let Some(&(low_k, low)) = at.checked_sub(1).map(|at| &LOW_PASS[at]) else {
        return high;
    };
    low + (high - low) * u32::from(k - low_k) / u32::from(high_k - low_k)
}

#[cfg(test)]
#[path = "flow_tests.rs"]
mod tests;
