use layercast_core::Time;

use super::{AppFrame, Source, SubmitError};

/// Fills the queue of `source` from `frames`, and ends the flow when there are no more.
///
/// Call it at the start and at each [`SourceEvent::NeedFrames`](super::SourceEvent::NeedFrames).
/// A frame that the source refuses as too large is left out and counted in its statistics.
pub fn feed(source: &mut Source, now: Time, frames: &mut impl Iterator<Item = AppFrame>) {
    while source.room() > 0 {
        let Some(frame) = frames.next() else {
            source.end(now);
            return;
        };
        match source.submit(now, frame) {
            Ok(()) | Err(SubmitError::TooLarge { .. }) => {}
            // Neither can happen while there is room; stop rather than lose frames.
            Err(SubmitError::QueueFull(_) | SubmitError::Closed | SubmitError::NotRegistered) => {
                return;
            }
        }
    }
}
