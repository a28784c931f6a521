//! What a receiver writes: the frames that it plays, as a stream of their flow.

use layercast_core::{Composition, FrameRate, Media, Serial, Span};
use layercast_media::{FlowWriter, OutputForm, Received, Undecodable, WriterStats};
use layercast_wire::{FlowInfo, Payload};

use crate::PlayedFrame;

/// Frames per second of a flow without an announcement.
const DEFAULT_RATE: FrameRate = FrameRate { num: 25, den: 1 };

/// What the frames of a flow are.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct StreamKind {
    /// Their media.
    pub media: Media,
    /// Frames per second.
    pub rate: FrameRate,
    /// How far key frames are apart.
    pub gop: Span,
    /// What its layers are to each other.
    pub composition: Composition,
}

impl StreamKind {
    /// Those of a flow as advertised.
    pub fn of(flow: &FlowInfo) -> StreamKind {
        StreamKind {
            media: flow.spec.media,
            rate: flow.spec.frame_rate,
            gop: flow.spec.frame_rate.due(flow.spec.gop_n.into()),
            composition: flow.spec.composition,
        }
    }
}

impl Default for StreamKind {
    fn default() -> StreamKind {
        StreamKind {
            media: Media::Opaque,
            rate: DEFAULT_RATE,
            gop: Span::ZERO,
            composition: Composition::default(),
        }
    }
}

/// Makes a stream of played frames, on sockets and in the simulator.
///
/// Each call appends what it adds to the stream; of RTP packets it also appends where each of them ends.
#[derive(Debug)]
pub struct PlayedStream {
    form: OutputForm,
    undecodable: Undecodable,
    kind: StreamKind,
    writer: Option<FlowWriter>,
    numbers: Numbers,
    /// Of the streams before this one.
    ended: WriterStats,
}

impl PlayedStream {
    /// A stream of this form, that begins with the first frame.
    pub fn new(form: OutputForm, undecodable: Undecodable) -> PlayedStream {
        PlayedStream {
            form,
            undecodable,
            kind: StreamKind::default(),
            writer: None,
            numbers: Numbers::default(),
            ended: WriterStats::default(),
        }
    }

    /// Says what the frames to come are. A flow stays what it is: if it is announced again, the stream continues. One of other
    /// media is another stream behind the first, whose end is appended.
    ///
    /// # Errors
    /// Such media cannot be written in this form: the reason, and what to do.
    pub fn set_kind(&mut self, kind: StreamKind, out: &mut Vec<u8>) -> Result<(), String> {
        let is_other = kind.media != self.kind.media || kind.composition != self.kind.composition;
        if is_other {
            self.finish(out);
        }
        self.kind = kind;
        self.form.misfit(kind.media).map_or(Ok(()), Err)
    }

    /// What the frames are.
    pub fn kind(&self) -> StreamKind {
        self.kind
    }

    /// Appends what a frame adds.
    pub fn frame(&mut self, frame: &PlayedFrame, out: &mut Vec<u8>, ends: &mut Vec<usize>) {
        let seq = self.numbers.of(frame);
        let StreamKind {
            media,
            rate,
            gop,
            composition,
        } = self.kind;
        let writer = self.writer.get_or_insert_with(|| {
            let mut writer = FlowWriter::new(media, rate, self.form);
            writer.set_undecodable(self.undecodable);
            writer.set_composition(composition);
            if gop > Span::ZERO {
                writer.set_gop(gop);
            }
            writer
        });
        // Synthetic frames are no video.
        if let Payload::Bytes(data) = &frame.payload {
            let received = Received {
                seq,
                layer: frame.layer,
                gop_start: frame.gop_start,
                sound: frame.sound,
                missing: frame.missing,
                emitted: frame.emitted,
                data,
            };
            writer.frame(&received, out, ends);
        }
    }

    /// The flow is over, and `last` was its last frame.
    pub fn end_at(&mut self, last: Serial, out: &mut Vec<u8>, ends: &mut Vec<usize>) {
        if let Some(writer) = &mut self.writer {
            writer.end_at(self.numbers.in_count(last), out, ends);
        }
    }

    /// Ends the stream.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        if let Some(mut writer) = self.writer.take() {
            writer.finish(out);
            self.ended = self.ended.plus(writer.stats());
        }
    }

    /// What was written so far.
    pub fn stats(&self) -> WriterStats {
        match &self.writer {
            Some(writer) => self.ended.plus(writer.stats()),
            None => self.ended,
        }
    }
}

/// Numbers the frames of all counts in one count: the writers compare numbers, and those of two lives of a
/// flow say nothing of one another.
#[derive(Default, Debug)]
struct Numbers {
    count: u32,
    /// What to add to the numbers of this count.
    offset: u32,
    last: Option<Serial>,
}

/// A new count begins this far behind the one before, so that the writers see a gap: there are no references to
/// earlier frames.
const BREAK: u32 = 2;

impl Numbers {
    /// A number of the count at hand.
    fn in_count(&self, seq: Serial) -> Serial {
        Serial(seq.0.wrapping_add(self.offset))
    }

    fn of(&mut self, frame: &PlayedFrame) -> Serial {
        if let Some(last) = self.last.filter(|_| frame.count != self.count) {
            self.offset = last.plus(BREAK).0.wrapping_sub(frame.seq.0);
        }
        self.count = frame.count;
        let seq = self.in_count(frame.seq);
        if self.last.is_none_or(|last| seq.is_after(last)) {
            self.last = Some(seq);
        }
        seq
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use layercast_core::{Layer, PerLayer, Time};
    use layercast_wire::Waited;

    fn number(numbers: &mut Numbers, count: u32, seq: u32) -> u32 {
        let frame = PlayedFrame {
            seq: Serial(seq),
            count,
            layer: Layer::Base,
            gop_start: true,
            sound: false,
            missing: PerLayer::default(),
            again: false,
            awaited: None,
            payload: Payload::Zeros(1),
            damaged: false,
            emitted: Time::ZERO,
            arrived: Time::ZERO,
            deadline: Time::ZERO,
            delay: Span::ZERO,
            waited: Waited::default(),
        };
        numbers.of(&frame).0
    }

    #[test]
    fn numbers_of_another_count_go_on_behind_a_gap() {
        let mut numbers = Numbers::default();
        let mut all = |frames: &[(u32, u32)]| -> Vec<u32> {
            let frames = frames.iter();
            frames
                .map(|&(count, seq)| number(&mut numbers, count, seq))
                .collect()
        };
        assert_eq!(all(&[(0, 600), (0, 601), (0, 605)]), [600, 601, 605]);
        assert_eq!(all(&[(1, 0), (1, 1), (1, 4)]), [607, 608, 611]);
        // A frame of which others were dropped on the way here tells of its count all the same.
        assert_eq!(all(&[(3, u32::MAX), (3, 0)]), [613, 614]);
    }
}
