//! Where frames begin in octets of a pipe behind a frame that has fewer octets than it says.

use super::FRAME_HEADER;
use super::frames::MAX_STEP;
use crate::bare::MAX_FRAME;

/// Steps between two frames of a stream, at most, of its longest one so far.
const STEPS: u64 = 8;

/// The times of the frames so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Times {
    last: Option<u64>,
    /// The longest step between two frames.
    step: u64,
}

/// The header of a frame.
#[derive(Clone, Copy)]
pub(super) struct Head {
    pub len: usize,
    pub time: u64,
}

impl Head {
    /// Reads the one that begins `at`, if it is there.
    pub fn read(data: &[u8], at: usize) -> Option<Head> {
        let (&[a, b, c, d, time @ ..], _) = data.get(at..)?.split_first_chunk::<FRAME_HEADER>()?;
        Some(Head {
            len: u32::from_le_bytes([a, b, c, d]) as usize,
            time: u64::from_le_bytes(time),
        })
    }

    fn is_behind(self, time: u64) -> bool {
        let after = self.time.wrapping_sub(time);
        (1..=MAX_FRAME).contains(&self.len) && (1..MAX_STEP).contains(&after)
    }
}

impl Times {
    /// Takes the time of a frame.
    pub fn push(&mut self, time: u64) {
        let step = self.last.and_then(|last| time.checked_sub(last));
        self.step = self.step.max(step.filter(|&it| it < MAX_STEP).unwrap_or(0));
        self.last = Some(time);
    }

    /// Whether a frame with this time may be the next one.
    pub fn is_near(&self, time: u64) -> bool {
        self.last.is_none_or(|last| time.abs_diff(last) < MAX_STEP)
    }

    /// Whether a frame with this time comes after a later one.
    pub fn goes_back(&self, time: u64) -> bool {
        self.last.is_some_and(|last| time < last)
    }

    /// Where the first frame begins that is followed by another one, in octets of which more come. Gives otherwise from
    /// where on it may begin.
    pub fn next(&self, data: &[u8]) -> Result<usize, usize> {
        let mut open = None;
        for at in 0..data.len() {
            let is_next = match Head::read(data, at) {
                Some(head) if self.last.is_some_and(|last| !head.is_behind(last)) => Some(false),
                Some(head) => is_followed(data, at, head),
                None => None,
            };
            match is_next {
                Some(true) => return Ok(at),
                Some(false) => {}
                None => _ = open.get_or_insert(at),
            }
        }
        Err(open.unwrap_or(data.len()))
    }

    /// Where the next frame may begin in the octets of one with the time `time`.
    pub fn within(&self, octets: &[u8], time: u64) -> Option<usize> {
        let most = self.step.saturating_mul(STEPS);
        let may_be = |head: Head| head.is_behind(time) && head.time - time <= most;
        (0..octets.len()).find(|&at| Head::read(octets, at).is_some_and(may_be))
    }
}

/// Whether a later frame follows the one that begins `at`; `None` if too little has come.
pub(super) fn is_followed(data: &[u8], at: usize, head: Head) -> Option<bool> {
    if !(1..=MAX_FRAME).contains(&head.len) {
        return Some(false);
    }
    let next = Head::read(data, at + FRAME_HEADER + head.len)?;
    Some(next.is_behind(head.time))
}
