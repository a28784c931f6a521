use std::pin::pin;
use std::time::Duration;

use layercast_wire::Signal;
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::channel::{ASK_EVERY, ChannelError, DEAD_AFTER};

/// Waits for a silent neighbour until it counts as gone; it is asked after each but the last.
const WAITS: u64 = DEAD_AFTER.as_secs() / ASK_EVERY.as_secs();

/// Whether the process at the other end of a connection still runs.
///
/// The kernel of its host keeps a TCP connection, and acknowledges data, also while the process is stopped. So each end
/// asks the other one after a silence, as QUIC does, and gives it up if it does not answer.
#[derive(Debug)]
pub(crate) struct Pulse {
    /// Whether the neighbour answers.
    answers: bool,
    /// How long one wait is.
    every: Duration,
    ask: Notify,
    answer: Notify,
}

impl Pulse {
    /// Of a neighbour that answers, or does not: one of an older version, or one that only asks a question.
    pub fn new(answers: bool) -> Pulse {
        Pulse {
            answers,
            every: ASK_EVERY,
            ask: Notify::new(),
            answer: Notify::new(),
        }
    }

    /// The next signal of the neighbour; an error if it is silent although it is asked.
    ///
    /// Waits are counted, and not the time: a wait in which this host did not run is one wait, however long it took.
    pub async fn hear<T>(
        &self,
        next: impl Future<Output = Result<T, ChannelError>>,
    ) -> Result<T, ChannelError> {
        if !self.answers {
            return next.await;
        }
        let mut next = pin!(next);
        for wait in 1..=WAITS {
            if let Ok(heard) = timeout(self.every, &mut next).await {
                return heard;
            }
            if wait < WAITS {
                self.ask.notify_one();
            }
        }
        Err(ChannelError::Silent)
    }

    /// Whether a signal is a question or an answer of this kind, which the node does not see. Questions that come faster than
    /// answers leave get one answer.
    pub fn takes(&self, signal: &Signal) -> bool {
        match signal {
            Signal::Ping => self.answer.notify_one(),
            Signal::Pong => {}
            _ => return false,
        }
        true
    }

    /// Waits for what is to be sent: a question or an answer.
    pub async fn due(&self) -> Signal {
        tokio::select! {
            () = self.answer.notified() => Signal::Pong,
            () = self.ask.notified() => Signal::Ping,
        }
    }
}

#[cfg(test)]
mod tests;
