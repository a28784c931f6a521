use crate::{MAX_LINE, Signal, SignalError};

/// Finds the lines in a byte stream; holds at most one unfinished line.
#[derive(Default, Debug)]
pub struct SignalReader {
    buffer: Vec<u8>,
    start: usize,
    /// Where the search for the next newline continues.
    seen: usize,
    too_long: bool,
}

impl SignalReader {
    /// Takes the next bytes of the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.too_long {
            return;
        }
        self.buffer.drain(..self.start);
        self.seen -= self.start;
        self.start = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// The next message, if a whole line of it is there; call until `None` after each push.
    ///
    /// A bad line is skipped. After [`SignalError::TooLong`] nothing follows: close the stream.
    pub fn poll(&mut self) -> Option<Result<Signal, SignalError>> {
        if self.too_long {
            return None;
        }
        let newline = self.buffer[self.seen..].iter().position(|&b| b == b'\n');
        self.seen = newline.map_or(self.buffer.len(), |at| self.seen + at);
        let line = &self.buffer[self.start..self.seen];
        if line.len() >= MAX_LINE {
            *self = SignalReader {
                too_long: true,
                ..SignalReader::default()
            };
            return Some(Err(SignalError::TooLong));
        }
        newline?;
        let result = Signal::from_line(line);
        self.seen += 1;
        self.start = self.seen;
        Some(result)
    }
}
