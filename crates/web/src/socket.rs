//! A viewer over a WebSocket.
//!
//! What is sent waits in buffers of the system on both sides, so that a viewer of a slow flow that has stopped reading is not noticed by
//! messages that do not get through. It is asked by pings, whose answers come behind all that was sent before.

use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, WebSocket};
use bytes::Bytes;
use futures_util::{Sink, SinkExt, Stream, StreamExt};
use tokio::time::{Instant, timeout, timeout_at};

use crate::transport::READ_WITHIN;
use crate::watch::{Pipe, Refusal};

/// Codes of refusals are these and the status of HTTP (RFC 6455, 7.4.2: codes of applications).
const REFUSED: u16 = 4_000;

/// A viewer; `S` is its WebSocket.
pub struct Viewer<S> {
    socket: S,
    /// Pings that were sent.
    asked: u64,
    /// When the last ping was sent, until it is answered.
    since: Option<Instant>,
    /// Time that the viewer has to take a message, and to answer a ping.
    patience: Duration,
}

impl<S, E> Viewer<S>
where
    S: Stream<Item = Result<Message, E>> + Sink<Message> + Unpin,
{
    /// A viewer that was admitted.
    pub fn new(socket: S, patience: Duration) -> Viewer<S> {
        Viewer {
            socket,
            asked: 0,
            since: None,
            patience,
        }
    }

    async fn send(&mut self, message: Message) -> bool {
        matches!(
            timeout(self.patience, self.socket.send(message)).await,
            Ok(Ok(()))
        )
    }

    /// The next message, unless the answer to a ping is due before.
    async fn next(&mut self) -> Option<Message> {
        let next = self.socket.next();
        let next = match self.since {
            Some(since) => timeout_at(since + self.patience, next).await.ok()?,
            None => next.await,
        };
        next?.ok()
    }
}

impl<S, E> Pipe for Viewer<S>
where
    S: Stream<Item = Result<Message, E>> + Sink<Message> + Send + Unpin,
    E: Send,
{
    async fn text(&mut self, text: String) -> bool {
        self.send(Message::Text(text.into())).await
    }

    async fn media(&mut self, message: Bytes, _: bool) -> bool {
        self.send(Message::Binary(message)).await
    }

    async fn ask(&mut self) -> bool {
        if self.since.is_some() {
            return true;
        }
        self.asked += 1;
        self.since = Some(Instant::now());
        let number = Bytes::copy_from_slice(&self.asked.to_be_bytes());
        self.send(Message::Ping(number)).await
    }

    async fn gone(&mut self) {
        // A viewer says nothing but that it is there.
        while let Some(message) = self.next().await {
            match message {
                Message::Pong(number) if *number == self.asked.to_be_bytes() => self.since = None,
                Message::Ping(_) | Message::Pong(_) => {}
                _ => return,
            }
        }
    }
}

/// Closes the WebSocket of a viewer that is not admitted, and says why.
pub async fn refuse(mut socket: WebSocket, refusal: Refusal) {
    let frame = CloseFrame {
        code: REFUSED + refusal.status().as_u16(),
        reason: refusal.to_string().into(),
    };
    let closing = async {
        if socket.send(Message::Close(Some(frame))).await.is_ok() {
            while let Some(Ok(_)) = socket.recv().await {}
        }
    };
    let _ = timeout(READ_WITHIN, closing).await;
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use tokio::time::interval;

    use super::*;

    /// The other end of a WebSocket.
    struct Peer {
        /// Octets that it, and the systems between, still take.
        takes: usize,
        /// Whether it answers pings.
        answers: bool,
        answered: VecDeque<Bytes>,
    }

    impl Stream for Peer {
        type Item = Result<Message, ()>;

        fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
            match self.answered.pop_front() {
                Some(number) => Poll::Ready(Some(Ok(Message::Pong(number)))),
                None => Poll::Pending,
            }
        }
    }

    impl Sink<Message> for Peer {
        type Error = ();

        fn poll_ready(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), ()>> {
            match self.takes {
                0 => Poll::Pending,
                _ => Poll::Ready(Ok(())),
            }
        }

        fn start_send(mut self: Pin<&mut Self>, message: Message) -> Result<(), ()> {
            self.takes = self.takes.saturating_sub(message.clone().into_data().len());
            if let Message::Ping(number) = message
                && self.answers
            {
                self.answered.push_back(number);
            }
            Ok(())
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), ()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), ()>> {
            Poll::Ready(Ok(()))
        }
    }

    const PATIENCE: Duration = Duration::from_millis(100);

    /// Whether a viewer of a message a millisecond, of 1000 octets, still has its place after `time`.
    async fn stays(peer: Peer, time: Duration) -> bool {
        let mut viewer = Viewer::new(peer, PATIENCE);
        let mut asks = interval(PATIENCE / 10);
        let mut media = interval(Duration::from_millis(1));
        let serving = async {
            loop {
                let sent = tokio::select! {
                    biased;
                    () = viewer.gone() => return,
                    _ = asks.tick() => viewer.ask().await,
                    _ = media.tick() => viewer.media(Bytes::from_static(&[0; 1_000]), false).await,
                };
                if !sent {
                    return;
                }
            }
        };
        timeout(time, serving).await.is_err()
    }

    #[tokio::test]
    async fn a_viewer_that_takes_nothing_or_answers_nothing_loses_its_place() {
        let peer = |takes, answers| Peer {
            takes,
            answers,
            answered: VecDeque::new(),
        };
        // Whatever the systems between keep for it; the last one answers, and does not read on.
        let stopped = [
            (1, false),
            (50_000, false),
            (usize::MAX, false),
            (50_000, true),
        ];
        for (takes, answers) in stopped {
            let stayed = stays(peer(takes, answers), 100 * PATIENCE).await;
            assert!(!stayed, "{takes} {answers}");
        }
        assert!(stays(peer(usize::MAX, true), 8 * PATIENCE).await);
    }
}
