use std::task::{Context, Poll};

use layercast_mets::AppFrame;
use layercast_qos::LiveTime;
use tokio::sync::mpsc;

/// Where the frames of a source come from.
pub enum Frames {
    /// A clip: frames are there whenever there is room for them. The flow ends with the last one.
    Iter(Box<dyn Iterator<Item = AppFrame> + Send>),
    /// A live producer, held back by the bound of the channel when it runs ahead of the flow. The
    /// flow ends once all senders are gone and what they sent has been taken.
    Channel(mpsc::Receiver<AppFrame>),
    /// A live stream ([`LiveInput`](crate::LiveInput)): as a channel, with frames that are due on the clock.
    Live(mpsc::Receiver<LiveFrame>),
}

/// A frame of a live stream.
#[derive(Clone, PartialEq, Debug)]
pub struct LiveFrame {
    /// The frame.
    pub frame: AppFrame,
    /// When it arrived and when it is due; `None` if its media time counts, of a stored stream.
    pub live: Option<LiveTime>,
}

impl From<AppFrame> for LiveFrame {
    fn from(frame: AppFrame) -> LiveFrame {
        LiveFrame { frame, live: None }
    }
}

/// A frame, if there is one now.
pub(crate) enum Next {
    Frame(LiveFrame),
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
            Frames::Iter(frames) => frames
                .next()
                .map(LiveFrame::from)
                .map_or(Next::End, Next::Frame),
            Frames::Channel(frames) => received(frames.try_recv()),
            Frames::Live(frames) => received(frames.try_recv()),
        }
    }

    /// Takes the next frame of a live producer as soon as there is one. Those of a clip are taken when the source needs them: there
    /// is nothing to wait for, and its end would be ready at every poll.
    pub(crate) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<LiveFrame>> {
        match self {
            Frames::Iter(_) => Poll::Pending,
            Frames::Channel(frames) => frames
                .poll_recv(context)
                .map(|frame| frame.map(LiveFrame::from)),
            Frames::Live(frames) => frames.poll_recv(context),
        }
    }

    /// Takes no more from a live producer than it has sent so far; a clip ends immediately.
    pub(crate) fn close(&mut self) {
        match self {
            Frames::Iter(frames) => *frames = Box::new(std::iter::empty()),
            Frames::Channel(frames) => frames.close(),
            Frames::Live(frames) => frames.close(),
        }
    }

    /// Whether frames come when they come.
    pub(crate) fn live(&self) -> bool {
        matches!(self, Frames::Channel(_) | Frames::Live(_))
    }

    /// Frames of a live producer that have not been taken.
    pub(crate) fn waiting(&self) -> usize {
        match self {
            Frames::Iter(_) => 0,
            Frames::Channel(frames) => frames.len(),
            Frames::Live(frames) => frames.len(),
        }
    }
}

fn received<T: Into<LiveFrame>>(frame: Result<T, mpsc::error::TryRecvError>) -> Next {
    match frame {
        Ok(frame) => Next::Frame(frame.into()),
        Err(mpsc::error::TryRecvError::Empty) => Next::NotYet,
        Err(mpsc::error::TryRecvError::Disconnected) => Next::End,
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    #[test]
    fn a_clip_wakes_nobody_and_a_live_producer_does_so_for_its_frames_and_its_end() {
        let mut context = Context::from_waker(Waker::noop());
        let mut clip = Frames::of(std::iter::empty());
        assert_eq!(clip.poll_next(&mut context), Poll::Pending);
        let (producer, frames) = mpsc::channel(1);
        let mut live = Frames::Live(frames);
        assert_eq!(live.poll_next(&mut context), Poll::Pending);
        drop(producer);
        assert_eq!(live.poll_next(&mut context), Poll::Ready(None));
    }
}
