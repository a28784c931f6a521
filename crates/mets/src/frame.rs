use layercast_core::{EndToEnd, Layer, PerLayer, Serial, Span, Time};
use layercast_wire::{Payload, Waited};

use super::Awaited;

/// A media frame as the application hands it over: one picture, one ALF.
#[derive(Clone, PartialEq, Debug)]
pub struct AppFrame {
    /// Its layer.
    pub layer: Layer,
    /// Whether it opens a group of pictures: where receivers join and layers change.
    pub gop_start: bool,
    /// Whether it is sound or other data beside the pictures, in the base layer: nothing refers from one to the other.
    pub sound: bool,
    /// When it is due, counted from the start of the flow: media time, of live input or of a
    /// container with time stamps. `None`: at the next slot of the frame rate.
    pub time: Option<Span>,
    /// Its bytes, at least one.
    pub payload: Payload,
}

/// A media frame as the receiver plays it.
#[derive(Clone, PartialEq, Debug)]
pub struct PlayedFrame {
    /// Number of the frame among all frames of its life of the flow.
    pub seq: Serial,
    /// How often the count of frames had begun again before: its source was started again, or another took its
    /// place. Numbers of different counts say nothing of one another.
    pub count: u32,
    /// Its layer.
    pub layer: Layer,
    /// Whether it opens a group of pictures.
    pub gop_start: bool,
    /// Whether it is sound, or other data beside the pictures. Pictures are handed over in the order of their numbers, and so
    /// is sound; while pictures wait for a missing one, sound may overtake them, and the other way round.
    pub sound: bool,
    /// Pictures that were not handed over, lost or withheld, between the picture handed over before and this one; of sound,
    /// the same of its frames.
    pub missing: PerLayer<u32>,
    /// Whether a fast start sent it: it is older than the frames that play.
    pub again: bool,
    /// Its bytes.
    pub payload: Payload,
    /// Whether lost cells in it were replaced by zeros (specs/mets.md 2.6).
    pub damaged: bool,
    /// When the source emitted it, on the receiver's clock.
    pub emitted: Time,
    /// When it was here whole.
    pub arrived: Time,
    /// When it was due, which is when it is handed over, unless it waits for a frame before it.
    pub deadline: Time,
    /// How long it waited after its deadline for frames before it, and for which.
    pub awaited: Option<(Span, Awaited)>,
    /// One-way delay from emission to arrival; zero if the clocks make it negative. Without
    /// synchronised clocks it counts from the delay of the first frame.
    pub delay: Span,
    /// How long it waited at its source, if it is live.
    pub waited: Waited,
}

impl PlayedFrame {
    /// Where its delay arose, if it was handed over at `handed`.
    pub fn end_to_end(&self, handed: Time) -> EndToEnd {
        let early = self.waited.early_ps();
        let early_by = Span::from_ps(u64::try_from(early).unwrap_or(0));
        let away = self.delay.saturating_sub(self.waited.late());
        let queue = self.waited.queued().min(away);
        EndToEnd {
            ingest: early_by,
            queue,
            path: away.saturating_sub(queue),
            playout: handed.since(self.arrived),
        }
    }
}
