use layercast_core::{Layer, Serial};

use super::references::References;
use crate::WriterStats;
use crate::order::Place;
use crate::output::Received;

/// Turns received H.265 frames back into a stream that a decoder accepts.
///
/// The stream begins at the first frame a receiver can start at. Pictures that refer to what did not come are left out, as
/// those that lead a start in an open GOP.
#[derive(Default, Debug)]
pub(crate) struct H265Writer {
    references: References,
    last: Option<Serial>,
    stats: WriterStats,
}

impl H265Writer {
    /// What it did so far; nothing is repeated.
    pub fn stats(&self) -> WriterStats {
        self.stats
    }

    /// Appends a received frame to `out`, or leaves it out; gives its place in display order, if that can be read. Any
    /// bytes are safe.
    pub fn frame(&mut self, frame: &Received, out: &mut Vec<u8>) -> Option<Place> {
        let seq = frame.seq;
        if self.last.is_some_and(|last| !seq.is_after(last)) {
            self.stats.stale += 1;
            return None;
        }
        let judged = self.references.take(frame.data);
        let starts =
            frame.gop_start && frame.layer == Layer::Base && judged.is_some_and(|it| it.starts);
        if self.last.is_none() && !starts {
            self.stats.skipped += 1;
            return None;
        }
        if self.last.is_none() {
            self.stats.first = Some(seq);
        }
        self.last = Some(seq);
        let Some(judged) = judged.filter(|it| it.decodable) else {
            self.stats.undecodable += 1;
            return None;
        };
        out.extend_from_slice(frame.data);
        self.stats.written += 1;
        judged.place
    }
}
