//! Filters that lower the rate of MPEG-1 and MPEG-2 video (specs/mets.md 2.13).

mod account;
mod clip;
mod drop;
mod emit;
mod error;
mod flow;
mod headers;
mod picture;
mod quant;
mod rule;
mod shape;
#[cfg(test)]
mod tests;
mod vectors;

pub use clip::Filtered;
pub use drop::{DropRule, PictureDrop};
pub use error::FilterError;
pub use flow::{FlowFilter, FlowFilterStats};
pub use rule::{FilterRule, RuleError};

use bytes::Bytes;

use self::headers::Headers;
use self::picture::CodedPicture;
use crate::Frame;
use crate::mpeg::bits::BitWriter;

/// What a [`CoefficientFilter`] does to a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shaping {
    /// Low-pass: in every block, keep the first n of the 64 places of its scan (zig-zag, or the alternate one
    /// if the picture says so); 0 counts as 1, for the DC coefficient of intra blocks always stays.
    LowPass(u8),
    /// Dynamic rate shaping: drop the ends of blocks so that the frame has at most `budget` bytes and
    /// the sum of squared dropped coefficients is least.
    Drs {
        /// Bytes of the frame, headers included.
        budget: u32,
    },
}

/// What a [`CoefficientFilter`] did so far.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, serde::Serialize, serde::Deserialize)]
pub struct FilterStats {
    /// Frames filtered.
    pub frames: u64,
    /// Their bytes before.
    pub bytes_in: u64,
    /// Their bytes after.
    pub bytes_out: u64,
    /// Frames whose headers, vectors and DC coefficients alone exceed their budget: nothing else is
    /// left of them.
    pub over_budget: u64,
}

/// Drops DCT coefficients of MPEG-1 and of MPEG-2 4:2:0 frame pictures, progressive or interlaced.
///
/// The codes of the coefficients kept, and all headers, types and vectors, are passed on as they came;
/// nothing is decoded or coded again. Shaping is open-loop: what is dropped from a picture is also
/// missing in the pictures predicted from it, up to the next I picture.
#[derive(Debug)]
pub struct CoefficientFilter {
    shaping: Shaping,
    headers: Headers,
    stats: FilterStats,
    picture: CodedPicture,
    keep: Vec<u8>,
}

impl CoefficientFilter {
    /// A filter that waits for a frame with a sequence header.
    pub fn new(shaping: Shaping) -> CoefficientFilter {
        CoefficientFilter {
            shaping,
            headers: Headers::default(),
            stats: FilterStats::default(),
            picture: CodedPicture::default(),
            keep: Vec::new(),
        }
    }

    /// Changes what is done to the frames to come.
    pub fn set_shaping(&mut self, shaping: Shaping) {
        self.shaping = shaping;
    }

    /// What it did so far.
    pub fn stats(&self) -> FilterStats {
        self.stats
    }

    /// Reads the next frame in coded order and gives the bytes of it that cannot be dropped.
    ///
    /// # Errors
    /// As [`apply`](CoefficientFilter::apply), which may still be asked for the same frame.
    pub(crate) fn bare(&mut self, frame: &Frame) -> Result<u32, FilterError> {
        let data = frame.data.as_ref().ok_or(FilterError::NoData)?;
        self.picture.read(data, &mut self.headers)?;
        let bits = self.picture.bare(data, &mut self.keep);
        Ok(u32::try_from(bits.div_ceil(8)).unwrap_or(u32::MAX))
    }

    /// Filters the next frame in coded order.
    ///
    /// # Errors
    /// A frame that is malformed, unsupported, without bytes or without a sequence header before it;
    /// the next frame may be filtered nevertheless.
    pub fn apply(&mut self, frame: &Frame) -> Result<Frame, FilterError> {
        let data = frame.data.as_ref().ok_or(FilterError::NoData)?;
        self.picture.read(data, &mut self.headers)?;
        match self.shaping {
            Shaping::LowPass(k) => self.picture.low_pass(k.max(1), &mut self.keep),
            Shaping::Drs { budget } => {
                let budget = budget as usize * 8;
                let bits = self.picture.shape(data, budget, &mut self.keep);
                self.stats.over_budget += u64::from(bits > budget);
            }
        }
        let mut writer = BitWriter::default();
        self.picture.write(data, &self.keep, &mut writer);
        let bytes = Bytes::from(writer.finish());
        self.stats.frames += 1;
        self.stats.bytes_in += data.len() as u64;
        self.stats.bytes_out += bytes.len() as u64;
        Ok(Frame {
            size: u32::try_from(bytes.len()).unwrap_or(u32::MAX),
            data: Some(bytes),
            ..frame.clone()
        })
    }
}
