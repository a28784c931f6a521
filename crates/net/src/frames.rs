use std::task::{Context, Poll};

use layercast_transport::mets::AppFrame;
use tokio::sync::mpsc;

/// Where the frames of a source come from.
pub enum Frames {
    /// A clip: frames are there whenever there is room for them. The flow ends with the last one.
    Iter(Box<dyn Iterator<Item = AppFrame> + Send>),
    /// A live producer, held back by the bound of the channel when it runs ahead of the flow. The
    /// flow ends once all senders are gone and what they sent has been taken.
    Channel(mpsc::Receiver<AppFrame>),
}

/// A frame, if there is one now.
pub(crate) enum Next {
    Frame(AppFrame),
    NotYet,
    End,
}

impl Frames {
    /// The frames of a clip.
    pub fn of(frames: impl Iterator<Item = AppFrame> + Send + 'static) -> Frames {
        Frames::Iter(Box::new(frames))
    }

    /// Takes the next frame without waiting.
    pub(crate) fn next(&mut self) -> Next {
        match self {
            Frames::Iter(frames) => frames.next().map_or(Next::End, Next::Frame),
            Frames::Channel(frames) => match frames.try_recv() {
                Ok(frame) => Next::Frame(frame),
                Err(mpsc::error::TryRecvError::Empty) => Next::NotYet,
                Err(mpsc::error::TryRecvError::Disconnected) => Next::End,
            },
        }
    }

    /// Takes the next frame as soon as there is one.
    pub(crate) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<AppFrame>> {
        match self {
            Frames::Iter(frames) => Poll::Ready(frames.next()),
            Frames::Channel(frames) => frames.poll_recv(context),
        }
    }

    /// Takes no more from a live producer than it has sent so far; a clip ends immediately.
    pub(crate) fn close(&mut self) {
        match self {
            Frames::Iter(frames) => *frames = Box::new(std::iter::empty()),
            Frames::Channel(frames) => frames.close(),
        }
    }

    /// Whether frames come when they come.
    pub(crate) fn live(&self) -> bool {
        matches!(self, Frames::Channel(_))
    }

    /// Frames of a live producer that have not been taken.
    pub(crate) fn waiting(&self) -> usize {
        match self {
            Frames::Iter(_) => 0,
            Frames::Channel(frames) => frames.len(),
        }
    }
}
