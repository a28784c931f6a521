use std::io::{self, ErrorKind, IoSlice};
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use layercast_xtp::remote::{FrameError, Frames, MAX_FRAME, has_frame, take_frame};
use tokio::net::UnixStream;

/// Pieces that one call of the kernel takes.
const PIECES: usize = 64;

/// Frames over a Unix socket, in batches.
pub(super) struct Pipe {
    stream: UnixStream,
    input: BytesMut,
}

impl Pipe {
    pub(super) fn new(stream: UnixStream) -> Pipe {
        Pipe {
            stream,
            input: BytesMut::new(),
        }
    }

    /// Reads what is there, as much as the longest frame; `false` at the end.
    pub(super) fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<io::Result<bool>> {
        loop {
            ready!(self.stream.poll_read_ready(context))?;
            self.input.reserve(MAX_FRAME);
            match self.stream.try_read_buf(&mut self.input) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                read => return Poll::Ready(read.map(|count| count > 0)),
            }
        }
    }

    /// Whether there is a frame of what was read.
    pub(super) fn has_frame(&self) -> bool {
        has_frame(&self.input)
    }

    /// The next frame of what was read.
    pub(super) fn frame(&mut self) -> Result<Option<Bytes>, FrameError> {
        take_frame(&mut self.input)
    }

    /// Writes what there is room for; ready when that was everything.
    pub(super) fn poll_write(
        &mut self,
        frames: &mut Frames,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        while !self.write(frames)? {
            ready!(self.stream.poll_write_ready(context))?;
        }
        Poll::Ready(Ok(()))
    }

    /// Writes what there is room for; `false` if that was not everything.
    pub(super) fn write(&mut self, frames: &mut Frames) -> io::Result<bool> {
        while !frames.is_empty() {
            let mut pieces = [IoSlice::new(&[]); PIECES];
            let used = frames.slices(&mut pieces);
            match self.stream.try_write_vectored(&pieces[..used]) {
                Ok(count) => frames.advance(count),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}
