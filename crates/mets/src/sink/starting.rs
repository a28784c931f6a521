use std::collections::VecDeque;

use layercast_core::{Serial, Time};
use layercast_wire::WholeFrame;

/// Most frames and octets that are kept: what a fast start sends of a GOP with sound, or half a second of 100 Mbit/s.
const MAX_FRAMES: usize = 2_048;
const MAX_OCTETS: usize = 8 << 20;

/// Frames that are complete before the GOP start that precedes them: a repair of the GOP start may be on its way.
#[derive(Default, Debug)]
pub(super) struct Starting {
    frames: VecDeque<Kept>,
    octets: usize,
}

/// A frame, when it was complete, and the epoch of its key.
#[derive(Debug)]
pub(super) struct Kept {
    pub came: Time,
    pub epoch: u32,
    pub frame: WholeFrame,
}

impl Starting {
    /// Keeps a frame; beyond the limits the oldest frames are given up.
    pub fn keep(&mut self, kept: Kept) {
        self.octets += kept.frame.payload.len();
        self.frames.push_back(kept);
        while self.frames.len() > MAX_FRAMES || self.octets > MAX_OCTETS {
            self.pop();
        }
    }

    /// The oldest of the frames after frame `start`; earlier ones are given up.
    pub fn pop_after(&mut self, start: Serial) -> Option<Kept> {
        while let Some(kept) = self.pop() {
            if kept.frame.header.seq.is_after(start) {
                return Some(kept);
            }
        }
        None
    }

    fn pop(&mut self) -> Option<Kept> {
        let kept = self.frames.pop_front()?;
        self.octets -= kept.frame.payload.len();
        Some(kept)
    }
}
