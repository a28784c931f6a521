use std::fmt;
use std::sync::Arc;

use layercast_mets::PlayedFrame;
use tokio::sync::mpsc;

use crate::frame::Played;
use crate::join::Session;

/// The media socket of a sink: frames, each handed over when it is due (specs/mets.md 2.2).
///
/// Frames that are not taken wait, some seconds of video; then the newest are dropped. The flow is left
/// when the media, the control and the management socket are all gone, or by
/// [`ManagementSocket::leave`](crate::ManagementSocket::leave).
#[derive(Debug)]
pub struct MediaSocket {
    pub(crate) frames: mpsc::Receiver<PlayedFrame>,
    pub(crate) handle: MediaHandle,
}

/// Names a media socket to a [`ManagementSocket`](crate::ManagementSocket), while another task takes its
/// frames; keeps the flow joined as the socket does.
#[derive(Clone)]
pub struct MediaHandle {
    pub(crate) session: Arc<Session>,
}

impl MediaSocket {
    /// The next frame, when it is due; `None` once the flow is over.
    pub async fn recv(&mut self) -> Option<Played> {
        self.frames.recv().await.map(Played::from)
    }

    /// The next frame if one is due, without waiting.
    pub fn try_recv(&mut self) -> Option<Played> {
        self.frames.try_recv().ok().map(Played::from)
    }

    /// Name of the flow.
    pub fn flow(&self) -> &str {
        &self.handle.session.flow
    }

    /// What names the socket.
    pub fn handle(&self) -> MediaHandle {
        self.handle.clone()
    }
}

impl MediaHandle {
    /// Name of the flow.
    pub fn flow(&self) -> &str {
        &self.session.flow
    }
}

impl AsRef<MediaHandle> for MediaSocket {
    fn as_ref(&self) -> &MediaHandle {
        &self.handle
    }
}

impl AsRef<MediaHandle> for MediaHandle {
    fn as_ref(&self) -> &MediaHandle {
        self
    }
}

impl fmt::Debug for MediaHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MediaHandle")
            .field("flow", &self.session.flow)
            .finish_non_exhaustive()
    }
}
