//! The streams that receivers play, as programs on sockets would write them.

use std::io;

use layercast_core::Serial;
use layercast_media::{OutputForm, Undecodable};
use layercast_mets::{PlayedStream, SinkEvent, StreamKind};

/// Where the stream of a receiver goes.
pub(crate) struct StreamOut<'a> {
    stream: PlayedStream,
    to: &'a mut (dyn io::Write + Send),
    octets: Vec<u8>,
    /// Only RTP packets have ends.
    ends: Vec<usize>,
    error: Option<io::Error>,
}

impl<'a> StreamOut<'a> {
    /// The stream of a receiver, in the form in which the flow is.
    pub fn new(to: &'a mut (dyn io::Write + Send)) -> StreamOut<'a> {
        StreamOut {
            stream: PlayedStream::new(OutputForm::Native, Undecodable::LeaveOut),
            to,
            octets: Vec::new(),
            ends: Vec::new(),
            error: None,
        }
    }

    /// Writes what an event adds to the stream; after an error nothing more is written.
    pub fn on_event(&mut self, event: &SinkEvent) {
        match event {
            SinkEvent::Joined { flow } => {
                // As it is, everything can be written.
                let _ = self.stream.set_kind(StreamKind::of(flow), &mut self.octets);
            }
            SinkEvent::Frame(frame) => {
                self.stream.frame(frame, &mut self.octets, &mut self.ends);
            }
            SinkEvent::End { last } => self.end_at(*last),
            _ => return,
        }
        self.flush();
    }

    fn end_at(&mut self, last: Serial) {
        self.stream.end_at(last, &mut self.octets, &mut self.ends);
    }

    fn flush(&mut self) {
        if self.error.is_none() && !self.octets.is_empty() {
            self.error = self.to.write_all(&self.octets).err();
        }
        self.octets.clear();
        self.ends.clear();
    }

    /// Ends the stream, or tells what went wrong on the way.
    pub fn finish(mut self) -> io::Result<()> {
        self.stream.finish(&mut self.octets);
        self.flush();
        match self.error {
            Some(error) => Err(error),
            None => self.to.flush(),
        }
    }
}
