use std::future::poll_fn;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::Path;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use layercast_xtp::remote::{Changed, Link};
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::call::XtpCallError;
use super::pipe::Pipe;

/// Bytes that may wait before they leave in the call that added them; fewer leave when the task waits.
const BATCH: usize = 64 << 10;
/// How long the daemon may take for its first word.
const PATIENCE: Duration = Duration::from_secs(30);

/// The endpoint of a daemon, instead of one's own.
pub(super) struct Far {
    pub(super) link: Link,
    pipe: Pipe,
    local: SocketAddr,
    max_data: u32,
}

impl Far {
    /// Greets the daemon at `path`.
    pub(super) async fn connect(path: &Path) -> Result<Far, XtpCallError> {
        let stream = UnixStream::connect(path).await;
        let stream =
            stream.map_err(|error| XtpCallError::NoDaemon(path.to_owned(), error.kind()))?;
        let mut far = Far {
            link: Link::new(),
            pipe: Pipe::new(stream),
            local: SocketAddr::from(([0; 4], 0)),
            max_data: 0,
        };
        let greeted = poll_fn(|context| far.poll_changed(context));
        match timeout(PATIENCE, greeted).await {
            Ok(changed) => changed?,
            Err(_) => return Err(XtpCallError::Socket(ErrorKind::TimedOut)),
        };
        // It speaks of nothing else before it has answered.
        (far.local, far.max_data) = far
            .link
            .welcome()
            .ok_or(XtpCallError::Socket(ErrorKind::InvalidData))?;
        Ok(far)
    }

    pub(super) fn local_addr(&self) -> SocketAddr {
        self.local
    }

    pub(super) fn max_data(&self) -> u32 {
        self.max_data
    }

    /// The next thing that changed; until then frames come and go.
    pub(super) fn poll_changed(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Changed, XtpCallError>> {
        loop {
            // The rest leaves when the kernel has woken us. A daemon that reads no more has given the reason,
            // and the end follows.
            let written = self.pipe.poll_write(self.link.frames(), context);
            while let Some(frame) = self.pipe.frame().map_err(|_| nonsense())? {
                match self.link.handle(frame).map_err(|_| nonsense())? {
                    Changed::Nothing => {}
                    Changed::Parted(why) => return Poll::Ready(Err(why.into())),
                    changed => return Poll::Ready(Ok(changed)),
                }
            }
            if !ready!(self.pipe.poll_read(context))? {
                let end = XtpCallError::Socket(ErrorKind::UnexpectedEof);
                return Poll::Ready(Err(match written {
                    Poll::Ready(Err(error)) => error.into(),
                    _ => end,
                }));
            }
        }
    }

    /// After a call; `true` if the task of the socket has something to do.
    pub(super) fn hurry(&mut self) -> bool {
        let frames = self.link.frames();
        // An error is for the task of the socket, which finds it, too.
        let done = frames.len() >= BATCH && matches!(self.pipe.write(frames), Ok(true));
        !done && self.link.has_frames()
    }

    /// Sends the queue; `true` if it is empty, or the daemon is gone.
    pub(super) fn flush(&mut self) -> bool {
        !matches!(self.pipe.write(self.link.frames()), Ok(false))
    }
}

fn nonsense() -> XtpCallError {
    XtpCallError::Socket(ErrorKind::InvalidData)
}
