use layercast_core::{Layer, Serial};

use super::annexb::nals;
use super::layers::{Inspector, Slice, UnitInfo};
use super::references::{Missing, References};
use crate::WriterStats;

/// Turns received H.264 frames back into a stream that a decoder accepts.
///
/// The stream begins at the first frame a receiver can start at. Frames that nothing can decode,
/// because a picture they refer to is missing, are left out up to the next random access point:
/// H.264 has no cheap repeat picture. Pictures that others refer to are known by `frame_num`
/// (7.4.3), so that missing E2 frames are no reason to stop.
#[derive(Default, Debug)]
pub struct H264Writer {
    inspector: Inspector,
    last: Option<Serial>,
    references: References,
    /// Frames of BL and E1 that are missing before the next frame, if that is known.
    missing: Option<Missing>,
    last_slice: Option<Slice>,
    stats: WriterStats,
}

impl H264Writer {
    /// A writer that waits for a frame to start at.
    pub fn new() -> H264Writer {
        H264Writer::default()
    }

    /// What it did so far; nothing is repeated.
    pub fn stats(&self) -> WriterStats {
        self.stats
    }

    /// Appends a received frame to `out`, or leaves it out.
    ///
    /// `seq` counts the frames of all layers in coded order; `data` is one [`crate::Frame::data`].
    /// Any bytes are safe.
    pub fn frame(
        &mut self,
        seq: Serial,
        layer: Layer,
        gop_start: bool,
        data: &[u8],
        out: &mut Vec<u8>,
    ) {
        if self.last.is_some_and(|last| !seq.is_after(last)) {
            self.stats.stale += 1;
            return;
        }
        let mut info = UnitInfo::default();
        for (_, nal) in nals(data) {
            self.inspector.look(nal, &mut info);
        }
        let starts = gop_start && info.gop_start() && layer == Layer::Base;
        let slice = info.first.take();
        let Some(last) = self.last else {
            match slice {
                Some(slice) if starts => {
                    self.stats.first = Some(seq);
                    self.last = Some(seq);
                    self.references.begin(&slice);
                    self.write(slice, data, out);
                }
                _ => self.stats.skipped += 1,
            }
            return;
        };
        let gap = u32::try_from(seq.diff(last) - 1).unwrap_or(0);
        let missing = std::mem::take(&mut self.missing).unwrap_or(Missing { all: gap, base: 0 });
        self.last = Some(seq);
        let Some(slice) = slice else {
            self.stats.undecodable += 1;
            return;
        };
        match self.references.take(&slice, starts, missing) {
            true => self.write(slice, data, out),
            false => self.stats.undecodable += 1,
        }
    }

    /// Of the frames that are missing before the next one, these numbers are of the base layer and of E1: no picture refers to
    /// others. Without this, a picture may refer to each of them, and none is taken for a start.
    pub(crate) fn set_missing(&mut self, base: u32, e1: u32) {
        let all = base.saturating_add(e1);
        self.missing = Some(Missing { all, base });
    }

    /// A part of the picture that was written last is missing: nothing can be decoded up to the next start.
    pub(crate) fn lose(&mut self) {
        self.references.lose();
    }

    fn write(&mut self, slice: Slice, data: &[u8], out: &mut Vec<u8>) {
        self.last_slice = Some(slice);
        out.extend_from_slice(data);
        self.stats.written += 1;
    }

    /// The first slice of the last frame written.
    pub(crate) fn last_slice(&self) -> Option<&Slice> {
        self.last_slice.as_ref()
    }
}
