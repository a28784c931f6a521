use layercast_core::{Layer, Serial};

use crate::Picture;
use crate::mpeg::headers::{PictureHeader, Sequence};
use crate::mpeg::startcode::{code, start_codes};
use crate::mpeg::unit::{AccessUnit, GopHeader};
use crate::repeat::{Repeat, Repeats};

/// Seconds of repeats written for one gap at most: no sequence number may fill the memory.
const MAX_GAP_SECONDS: u64 = 10;
/// The same in frames, for unrealistic frame rates.
const MAX_GAP: u64 = 1_200;
/// Leading B pictures believed of an I picture without GOP header after a loss.
const MAX_LEADING: i64 = 16;

/// Turns received frames back into a video elementary stream that any decoder accepts.
///
/// The stream begins at the first frame a receiver can start at. For each frame that is missing, or
/// that nothing can decode because a frame it depends on is missing, it gets one *repeat picture*,
/// so it has as many pictures as the source, at the same rate, each in its place.
///
/// Display order is kept by slots. An anchor (I or P) with temporal reference `t` opens slots for
/// the B pictures between the anchor before and `t`. B pictures follow their anchor in coded
/// order, so the first missing frames after an anchor belong into its free slots: they become B
/// repeats. Any more missing frames include an anchor: they become P repeats behind the last anchor,
/// and all up to the next I picture is undecodable.
#[derive(Default, Debug)]
pub struct StreamWriter {
    last: Option<Serial>,
    sequence: Option<Sequence>,
    /// Of the last picture written.
    top_field_first: bool,
    repeats: Option<Repeats>,
    display: Display,
    stats: WriterStats,
}

/// Counters of a [`StreamWriter`], in frames.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, serde::Serialize, serde::Deserialize)]
pub struct WriterStats {
    /// Number of the first frame of the stream. Earlier pictures of the source are not in it.
    pub first: Option<Serial>,
    /// Frames written.
    pub written: u64,
    /// Repeat pictures written in place of missing and undecodable frames.
    pub repeated: u64,
    /// Frames left out, marked or replaced by a repeat picture, because they are malformed or a frame on which they depend
    /// is missing.
    pub undecodable: u64,
    /// Of those, pictures of which something was lost on the way to the source.
    #[serde(default)]
    pub damaged: u64,
    /// Frames before the first one at which a receiver can start; dropped.
    pub skipped: u64,
    /// Frames with a sequence number not after the last one; dropped.
    pub stale: u64,
    /// Missing frames beyond the longest gap that is filled.
    pub unfilled: u64,
}

impl WriterStats {
    /// What this stream and another behind it did together.
    #[must_use]
    pub fn plus(self, next: WriterStats) -> WriterStats {
        WriterStats {
            first: self.first.or(next.first),
            written: self.written + next.written,
            repeated: self.repeated + next.repeated,
            undecodable: self.undecodable + next.undecodable,
            damaged: self.damaged + next.damaged,
            skipped: self.skipped + next.skipped,
            stale: self.stale + next.stale,
            unfilled: self.unfilled + next.unfilled,
        }
    }
}

/// The positions of pictures in display order, counted from the last GOP header without wrapping.
#[derive(Default, Debug)]
struct Display {
    /// The last anchor.
    anchor: i64,
    /// The first free slot; there are none from `anchor` on.
    free: i64,
    /// What to add to temporal references of the source, modulo 1024.
    shift: i64,
    /// The last anchor is what it should be.
    anchor_ok: bool,
    /// So is the anchor before it, or B pictures do not need it.
    previous_ok: bool,
    /// B pictures before the last anchor may only refer to it: a closed GOP.
    closed: bool,
}

impl StreamWriter {
    /// A writer that waits for a frame to start at.
    pub fn new() -> StreamWriter {
        StreamWriter::default()
    }

    /// What it did so far.
    pub fn stats(&self) -> WriterStats {
        self.stats
    }

    /// Appends a received frame to `out`, and before it repeats of the frames missing since the last.
    ///
    /// `seq` counts the frames of all layers in coded order; `data` is one [`crate::Frame::data`].
    /// Any bytes are safe: what is not an access unit of `layer` is replaced by a repeat.
    pub fn frame(
        &mut self,
        seq: Serial,
        layer: Layer,
        gop_start: bool,
        data: &[u8],
        out: &mut Vec<u8>,
    ) {
        let unit = AccessUnit::scan(data).filter(|unit| self.accepts(unit, layer));
        let Some(last) = self.last else {
            match unit {
                Some(unit) if gop_start && unit.picture.kind == Picture::I => {
                    self.last = Some(seq);
                    self.stats.first = Some(seq);
                    self.start(&unit, data, out);
                }
                _ => self.stats.skipped += 1,
            }
            return;
        };
        if !seq.is_after(last) {
            self.stats.stale += 1;
            return;
        }
        self.last = Some(seq);
        let missing = u64::from(seq.diff(last).unsigned_abs()) - 1;
        let gap = missing.min(self.max_gap());
        self.stats.unfilled += missing - gap;
        match unit {
            Some(unit) => match unit.picture.kind {
                Picture::I => self.intra(&unit, gap, data, out),
                Picture::P => self.predicted(&unit, gap, data, out),
                Picture::B | Picture::Data => self.bidirectional(&unit, gap, data, out),
            },
            // It may have been an anchor.
            None => {
                self.stats.undecodable += 1;
                self.fill(gap + 1, out);
            }
        }
    }

    /// The flow is over, and `last` was its last frame: writes repeats of the frames missing since the last one
    /// received. Writes nothing if nothing began.
    pub fn end_at(&mut self, last: Serial, out: &mut Vec<u8>) {
        let Some(known) = self.last.filter(|&known| last.is_after(known)) else {
            return;
        };
        self.last = Some(last);
        let missing = u64::from(last.diff(known).unsigned_abs());
        let gap = missing.min(self.max_gap());
        self.stats.unfilled += missing - gap;
        self.fill(gap, out);
    }

    /// Fills the slots known to be free, and ends the sequence. Writes nothing if nothing began.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        if self.last.take().is_some() {
            let free = (self.display.anchor - self.display.free).max(0) as u64;
            self.fill(free.min(self.max_gap()), out);
            out.extend([0, 0, 1, code::SEQUENCE_END]);
        }
    }

    fn max_gap(&self) -> u64 {
        self.sequence.map_or(0, |sequence| {
            let rate = sequence.frame_rate;
            (MAX_GAP_SECONDS * u64::from(rate.num))
                .div_ceil(u64::from(rate.den.max(1)))
                .min(MAX_GAP)
        })
    }

    /// Whether the unit is what its label says and fits the sequence it is in.
    fn accepts(&self, unit: &AccessUnit, layer: Layer) -> bool {
        let sequence = unit.sequence.or(self.sequence);
        // Without P pictures, B pictures are in E1.
        let usual = unit.picture.kind.layer();
        let is_in_place = usual == layer || usual == Layer::E2 && layer == Layer::E1;
        is_in_place
            && sequence.is_some_and(|sequence| {
                sequence.height_is_legal() && sequence.mpeg2 == unit.coding.is_some()
            })
    }

    fn start(&mut self, unit: &AccessUnit, data: &[u8], out: &mut Vec<u8>) {
        let at = out.len();
        // No anchor is before: leading B pictures can only refer to this one.
        self.display = Display::default();
        match unit.gop {
            Some(gop) => {
                self.display.begin_gop(unit, gop);
                self.write(unit, data, out);
                if self.display.anchor > 0 {
                    self.display.closed = true;
                    GopHeader::set_closed(&mut out[at + gop.at..]);
                }
            }
            // How many B pictures lead is unknown: leave them no slot.
            None => {
                self.display.shift = -i64::from(unit.picture.temporal_reference);
                self.display.anchor_ok = true;
                self.write(unit, data, out);
            }
        }
    }

    fn intra(&mut self, unit: &AccessUnit, gap: u64, data: &[u8], out: &mut Vec<u8>) {
        self.fill(gap, out);
        match unit.gop {
            Some(gop) => self.display.begin_gop(unit, gop),
            None => {
                let display = &mut self.display;
                let mut index = display.index(unit);
                let leading = index - (display.anchor + 1);
                if !display.anchor_ok && !(0..=MAX_LEADING).contains(&leading) {
                    display.shift -= leading;
                    index = display.anchor + 1;
                }
                display.next_anchor(index, true);
            }
        }
        self.write(unit, data, out);
    }

    fn predicted(&mut self, unit: &AccessUnit, gap: u64, data: &[u8], out: &mut Vec<u8>) {
        self.fill(gap, out);
        if !self.display.anchor_ok {
            return self.replace(out);
        }
        match unit.gop {
            Some(gop) => self.display.begin_gop(unit, gop),
            None => self.display.next_anchor(self.display.index(unit), true),
        }
        self.write(unit, data, out);
    }

    fn bidirectional(&mut self, unit: &AccessUnit, gap: u64, data: &[u8], out: &mut Vec<u8>) {
        let display = &self.display;
        let index = display.index(unit);
        let in_slot = (display.free..display.anchor).contains(&index);
        let only_b_missing = gap == 0 || in_slot && gap as i64 <= index - display.free;
        let decodable = display.anchor_ok && display.previous_ok && only_b_missing;
        self.fill(gap, out);
        if !decodable {
            return self.replace(out);
        }
        if in_slot {
            self.display.free = index + 1;
        }
        self.write(unit, data, out);
    }

    /// Writes a received frame, its temporal references shifted if need be.
    fn write(&mut self, unit: &AccessUnit, data: &[u8], out: &mut Vec<u8>) {
        if unit.sequence.is_some() {
            self.sequence = unit.sequence;
        }
        self.top_field_first = unit.coding.is_some_and(|coding| coding.top_field_first);
        let at = out.len();
        out.extend_from_slice(data);
        if self.display.shift & 1_023 != 0 {
            let reference = self.display.shifted(unit);
            for (picture, code) in start_codes(data) {
                if code == code::PICTURE {
                    PictureHeader::set_temporal_reference(&mut out[at + picture..], reference);
                }
            }
        }
        self.stats.written += 1;
    }

    /// Writes `missing` repeats: first into the free slots, then behind the last anchor.
    fn fill(&mut self, missing: u64, out: &mut Vec<u8>) {
        for _ in 0..missing {
            if !self.repeat_in_slot(out) {
                self.display.next_anchor(self.display.anchor + 1, false);
                self.repeat(Repeat::P, self.display.anchor, out);
            }
        }
    }

    /// Writes a repeat instead of a received frame.
    fn replace(&mut self, out: &mut Vec<u8>) {
        self.stats.undecodable += 1;
        if !self.repeat_in_slot(out) {
            // A copy of the anchor is as good as the anchor to all that follows.
            self.display.anchor += 1;
            self.display.free = self.display.anchor;
            self.display.closed = false;
            self.repeat(Repeat::P, self.display.anchor, out);
        }
    }

    fn repeat_in_slot(&mut self, out: &mut Vec<u8>) -> bool {
        let slot = self.display.free;
        if slot >= self.display.anchor {
            return false;
        }
        self.display.free += 1;
        let direction = if self.display.closed {
            Repeat::Backward
        } else {
            Repeat::Forward
        };
        self.repeat(direction, slot, out);
        true
    }

    fn repeat(&mut self, repeat: Repeat, index: i64, out: &mut Vec<u8>) {
        let Some(sequence) = self.sequence else {
            return;
        };
        let made = self.repeats.take();
        let fits = |made: &Repeats| made.fits(&sequence, self.top_field_first);
        let repeats = self.repeats.insert(
            made.filter(fits)
                .unwrap_or_else(|| Repeats::new(sequence, self.top_field_first)),
        );
        repeats.write(repeat, (index & 1_023) as u16, out);
        self.stats.repeated += 1;
    }
}

impl Display {
    /// The temporal reference of a picture in the output.
    fn shifted(&self, unit: &AccessUnit) -> u16 {
        ((i64::from(unit.picture.temporal_reference) + self.shift) & 1_023) as u16
    }

    /// The place of a picture: the one with its temporal reference nearest to the last anchor.
    fn index(&self, unit: &AccessUnit) -> i64 {
        let ahead = (i64::from(self.shifted(unit)) - self.anchor) & 1_023;
        self.anchor + if ahead < 512 { ahead } else { ahead - 1_024 }
    }

    /// Restarts the count at a GOP header, whose first picture is `unit`, an intact anchor.
    fn begin_gop(&mut self, unit: &AccessUnit, gop: GopHeader) {
        self.shift = 0;
        self.anchor = -1;
        self.next_anchor(self.index(unit), true);
        self.closed = gop.closed;
        self.previous_ok |= gop.closed;
    }

    /// Makes the picture at `index` the last anchor.
    fn next_anchor(&mut self, index: i64, ok: bool) {
        self.free = (self.anchor + 1).min(index);
        self.anchor = index;
        self.previous_ok = self.anchor_ok;
        self.anchor_ok = ok;
        self.closed = false;
    }
}
