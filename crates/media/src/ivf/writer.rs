use layercast_core::{Layer, Media, PerLayer, Serial, Time};

use super::Header;
use crate::output::Received;
use crate::{WriterStats, av1, vpx};

/// Ticks a second of the times that are written.
const HZ: u64 = 90_000;

/// Turns received frames of AV1, VP8 or VP9 back into a stream that a decoder accepts.
///
/// It begins at the first frame a receiver can start at. Frames do not say to which ones they refer: after a loss in the base
/// layer nothing is written up to the next start, and after one in another layer nothing of that and of those above it, unless
/// no picture of that layer is one that others refer to.
#[derive(Debug)]
pub(crate) struct PictureWriter {
    codec: Media,
    /// AV1 without a container.
    is_bare: bool,
    state: av1::State,
    last: Option<Serial>,
    /// Layers of which a picture is missing since the last start to which others may refer.
    broken: PerLayer<bool>,
    /// Whether pictures of a layer came, and whether others refer to one of them.
    seen: PerLayer<bool>,
    refers: PerLayer<bool>,
    /// When the last frame was emitted, and its time in ticks.
    clock: Option<(Time, u64)>,
    stats: WriterStats,
}

impl PictureWriter {
    /// A writer of IVF, or of AV1 without a container.
    pub fn new(codec: Media, is_bare: bool) -> PictureWriter {
        PictureWriter {
            codec,
            is_bare,
            state: av1::State::default(),
            last: None,
            broken: PerLayer::default(),
            seen: PerLayer::default(),
            refers: PerLayer::default(),
            clock: None,
            stats: WriterStats::default(),
        }
    }

    /// What it did so far; nothing is repeated.
    pub fn stats(&self) -> WriterStats {
        self.stats
    }

    /// Appends a received frame to `out`, or leaves it out. Any bytes are safe.
    pub fn frame(&mut self, frame: &Received, out: &mut Vec<u8>) {
        let Some((unit, is_first)) = self.taken(frame) else {
            return;
        };
        if is_first && !self.is_bare {
            Header::write(self.fourcc(), self.size(unit), out);
        }
        match self.is_bare {
            true => out.extend_from_slice(frame.data),
            false => super::put(frame.data, self.ticks(frame.emitted), out),
        }
    }

    /// The time in ticks of a received frame that is to be sent; `None` if it is left out.
    pub fn time_of(&mut self, frame: &Received) -> Option<u64> {
        self.taken(frame)?;
        Some(self.ticks(frame.emitted))
    }

    /// What a frame is that is to be written, and whether it is the first.
    fn taken(&mut self, frame: &Received) -> Option<(vpx::Unit, bool)> {
        let (seq, layer) = (frame.seq, frame.layer);
        if self.last.is_some_and(|last| !seq.is_after(last)) {
            self.stats.stale += 1;
            return None;
        }
        let read = self.read(frame.data);
        let starts = read.is_some_and(|it| it.is_start) && frame.gop_start && layer == Layer::Base;
        if self.last.is_none() && !starts {
            self.stats.skipped += 1;
            return None;
        }
        let is_first = self.last.is_none();
        self.last = Some(seq);
        for (of, &count) in frame.missing.iter() {
            let may_refer = of == Layer::Base || !self.seen[of] || self.refers[of];
            self.broken[of] |= count > 0 && may_refer;
        }
        if starts {
            self.broken = PerLayer::default();
        }
        let lacks = self
            .broken
            .iter()
            .any(|(of, broken)| of <= layer && *broken);
        let Some(unit) = read.filter(|_| !lacks) else {
            self.broken[layer] |= read.is_none();
            self.stats.undecodable += 1;
            return None;
        };
        self.seen[layer] = true;
        self.refers[layer] |= unit.is_reference;
        if is_first {
            self.stats.first = Some(seq);
        }
        self.stats.written += 1;
        Some((unit, is_first))
    }

    fn read(&mut self, data: &[u8]) -> Option<vpx::Unit> {
        match self.codec {
            Media::Vp8 => vpx::Unit::vp8(data),
            Media::Vp9 => vpx::Unit::vp9(data),
            _ => {
                let unit = av1::Unit::read(data, &mut self.state)?;
                Some(vpx::Unit {
                    is_start: unit.is_start,
                    is_reference: unit.is_reference,
                    size: None,
                })
            }
        }
    }

    fn fourcc(&self) -> [u8; 4] {
        match self.codec {
            Media::Vp8 => *b"VP80",
            Media::Vp9 => *b"VP90",
            _ => *b"AV01",
        }
    }

    fn size(&self, unit: vpx::Unit) -> (u32, u32) {
        let of_sequence = self.state.sequence.as_ref().map(|it| (it.width, it.height));
        unit.size.or(of_sequence).unwrap_or_default()
    }

    /// The time of a frame by its emission, later than that of the frame before. A clock that has begun again continues from
    /// there.
    fn ticks(&mut self, emitted: Time) -> u64 {
        let ticks = match self.clock {
            None => 0,
            Some((last, ticks)) => {
                let passed = emitted.as_us().saturating_sub(last.as_us()) * HZ / 1_000_000;
                ticks + passed.max(1)
            }
        };
        // What was cut off by rounding comes with the next frame.
        let exact = match self.clock {
            Some((last, before)) if emitted > last => last.saturating_add(
                layercast_core::Span::from_us((ticks - before) * 1_000_000 / HZ),
            ),
            _ => emitted,
        };
        self.clock = Some((exact.min(emitted), ticks));
        ticks
    }
}
