use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Buf, Bytes, BytesMut};
use layercast_wire::Payload;
use serde::Serialize;

use super::FrameError;

/// Most bytes of data in a frame.
pub const MAX_DATA: usize = 64 << 10;
/// Most bytes of a frame without its length: data, and the longest message with a list of all users.
pub const MAX_FRAME: usize = MAX_DATA + (16 << 10);
/// Bytes of the length before a frame, little-endian.
const LENGTH: usize = 4;
/// Data up to this many bytes are copied to their neighbours: a call of the kernel takes few pieces.
const COPIED: usize = 4 << 10;

/// Frames on their way out.
#[derive(Debug, Default)]
pub struct Frames {
    whole: VecDeque<Bytes>,
    tail: BytesMut,
    len: usize,
}

impl Frames {
    /// Appends a message, and the data that belong to it.
    pub fn push(&mut self, message: &impl Serialize, data: &Payload) {
        // Every message of ours can be written: a test tries each.
        let head = postcard::to_allocvec(message).unwrap_or_default();
        let len = head.len() + data.len();
        self.len += LENGTH + len;
        self.tail.extend_from_slice(&(len as u32).to_le_bytes());
        self.tail.extend_from_slice(&head);
        match data {
            Payload::Bytes(bytes) if bytes.len() > COPIED => {
                self.cut();
                self.whole.push_back(bytes.clone());
            }
            Payload::Bytes(bytes) => self.tail.extend_from_slice(bytes),
            Payload::Zeros(len) => self.tail.resize(self.tail.len() + *len as usize, 0),
        }
    }

    /// Bytes that wait.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The first pieces, as many as there is place for; gives their number.
    pub fn slices<'a>(&'a self, out: &mut [IoSlice<'a>]) -> usize {
        let pieces = self.whole.iter().map(|it| &it[..]);
        let pieces = pieces.chain(Some(&self.tail[..]).filter(|it| !it.is_empty()));
        let mut used = 0;
        for (place, piece) in out.iter_mut().zip(pieces) {
            *place = IoSlice::new(piece);
            used += 1;
        }
        used
    }

    /// The first `count` bytes have left.
    pub fn advance(&mut self, count: usize) {
        let mut left = count.min(self.len);
        self.len -= left;
        while let Some(first) = self.whole.front_mut().filter(|_| left > 0) {
            let part = left.min(first.len());
            first.advance(part);
            left -= part;
            if first.is_empty() {
                self.whole.pop_front();
            }
        }
        self.tail.advance(left);
    }

    fn cut(&mut self) {
        if !self.tail.is_empty() {
            self.whole.push_back(self.tail.split().freeze());
        }
    }
}

/// Whether [`take_frame`] has something to give, be it an error.
pub fn has_frame(from: &[u8]) -> bool {
    from.first_chunk::<LENGTH>().is_some_and(|length| {
        let len = u32::from_le_bytes(*length) as usize;
        len > MAX_FRAME || from.len() >= LENGTH + len
    })
}

/// The next frame of what came in, without its length, if it is there as a whole.
///
/// # Errors
/// It is longer than any message.
pub fn take_frame(from: &mut BytesMut) -> Result<Option<Bytes>, FrameError> {
    let Some(length) = from.first_chunk::<LENGTH>() else {
        return Ok(None);
    };
    let len = u32::from_le_bytes(*length) as usize;
    if len > MAX_FRAME {
        return Err(FrameError::TooLong(len));
    }
    if from.len() < LENGTH + len {
        return Ok(None);
    }
    from.advance(LENGTH);
    Ok(Some(from.split_to(len).freeze()))
}
