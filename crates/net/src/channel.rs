use std::io;
use std::net::IpAddr;
use std::time::Duration;

use layercast_protect::Fingerprint;
use layercast_wire::{MAX_LINE, Signal, SignalError, SignalReader};
use thiserror::Error;
use tokio::time::timeout;

/// How long a neighbour may stay silent on a dead connection before it is given up.
pub(crate) const DEAD_AFTER: Duration = Duration::from_secs(3);
/// How often a silent neighbour is asked whether it is still there.
pub(crate) const ASK_EVERY: Duration = Duration::from_secs(1);
/// How long one write may take: a neighbour that reads nothing is a dead one.
const WRITE_WITHIN: Duration = Duration::from_secs(5);
/// How many unreadable lines a neighbour may send before it is cut off.
const MAX_BAD_LINES: u32 = 16;

/// A reliable, ordered channel of signals between two neighbours.
///
/// The nodes see only this, whether it runs over TCP ([`TcpChannel`](crate::TcpChannel)), QUIC
/// ([`QuicChannel`](crate::QuicChannel)) or XTP ([`XtpChannel`](crate::XtpChannel)).
pub trait SignalChannel: Send + 'static {
    /// The half that receives.
    type Receiver: SignalReceiver;
    /// The half that sends.
    type Sender: SignalSender;

    /// The proven identity of the peer, if the channel is protected.
    fn identity(&self) -> Option<Fingerprint> {
        None
    }

    /// The address of this host that the peer called, or was called from, if it is known.
    fn local(&self) -> Option<IpAddr> {
        None
    }

    /// Both halves, to be used at the same time.
    fn split(self) -> (Self::Receiver, Self::Sender);
}

/// The receiving half of a [`SignalChannel`].
pub trait SignalReceiver: Send + 'static {
    /// The next signal; `None` when the neighbour closed the channel in order. Holds at most one
    /// line of [`MAX_LINE`] bytes. Safe to drop and call again.
    fn recv(&mut self) -> impl Future<Output = Result<Option<Signal>, ChannelError>> + Send;

    /// How many messages were unreadable so far.
    fn malformed(&self) -> u32;
}

/// The sending half of a [`SignalChannel`].
pub trait SignalSender: Send + 'static {
    /// Sends the signals in order, and fails if the neighbour does not take them in time.
    fn send(&mut self, signals: &[Signal])
    -> impl Future<Output = Result<(), ChannelError>> + Send;

    /// Sends nothing more.
    fn close(&mut self) -> impl Future<Output = ()> + Send;
}

/// Why a channel ended.
#[derive(Debug, Error)]
pub enum ChannelError {
    /// The connection broke.
    #[error("{}", lost(.0))]
    Io(#[from] io::Error),
    /// The neighbour sends what cannot be read.
    #[error("{0}")]
    Signal(#[from] SignalError),
    /// The neighbour does not read what it is sent.
    #[error("does not read what it is sent")]
    Slow,
    /// The neighbour does not answer, although the connection stands.
    #[error("said nothing for {} s: it was stopped, or its host has no time for it", DEAD_AFTER.as_secs())]
    Silent,
    /// The neighbour asks again and again whether this node still runs.
    #[error("sends more than {MOST_PULSES} pings and answers to pings a second")]
    Pings,
}

/// Questions whether the other end runs, and answers to them, that a neighbour may send in a second; it has reason for one or two.
pub(crate) const MOST_PULSES: u32 = 16;

/// What the loss of a connection is called.
const LOST: &str = "connection lost";

/// The loss of a connection and its cause; some causes, such as those of QUIC streams, say that themselves.
fn lost(cause: &io::Error) -> String {
    let text = innermost(cause);
    match text.strip_prefix(LOST) {
        Some(_) => text,
        None => format!("{LOST}: {text}"),
    }
}

/// The cause of a cause, as far as errors name theirs.
fn innermost(error: &io::Error) -> String {
    let mut cause: &dyn std::error::Error = match error.get_ref() {
        Some(inner) => inner,
        None => return error.to_string(),
    };
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

/// Receives one JSON object per line from a byte stream.
#[derive(Debug)]
pub struct LineReceiver<R> {
    stream: R,
    reader: SignalReader,
    buffer: Vec<u8>,
    malformed: u32,
}

/// Sends one JSON object per line to a byte stream.
#[derive(Debug)]
pub struct LineSender<W> {
    stream: W,
}

/// A byte stream in.
pub trait BytesIn: Send + 'static {
    /// Waits for bytes and puts them into `buffer`; how many, 0 after the last. Safe to drop and call again.
    fn read(&mut self, buffer: &mut [u8]) -> impl Future<Output = io::Result<usize>> + Send;
}

/// A byte stream out.
pub trait BytesOut: Send + 'static {
    /// Waits until there was room for all of `bytes`.
    fn write(&mut self, bytes: &[u8]) -> impl Future<Output = io::Result<()>> + Send;

    /// Ends the stream; returns when what was written before will arrive, or nothing more will.
    fn end(&mut self) -> impl Future<Output = ()> + Send;
}

impl<R> LineReceiver<R> {
    pub(crate) fn new(stream: R) -> LineReceiver<R> {
        LineReceiver {
            stream,
            reader: SignalReader::default(),
            buffer: vec![0; 8 << 10],
            malformed: 0,
        }
    }
}

impl<R: BytesIn> SignalReceiver for LineReceiver<R> {
    async fn recv(&mut self) -> Result<Option<Signal>, ChannelError> {
        loop {
            match self.reader.poll() {
                Some(Ok(signal)) => return Ok(Some(signal)),
                Some(Err(error)) => {
                    self.malformed += 1;
                    let hopeless = matches!(error, SignalError::TooLong);
                    if hopeless || self.malformed >= MAX_BAD_LINES {
                        return Err(error.into());
                    }
                    continue;
                }
                None => {}
            }
            let count = self.stream.read(&mut self.buffer).await?;
            if count == 0 {
                return Ok(None);
            }
            self.reader.push(&self.buffer[..count]);
        }
    }

    fn malformed(&self) -> u32 {
        self.malformed
    }
}

impl<W: BytesOut> SignalSender for LineSender<W> {
    async fn send(&mut self, signals: &[Signal]) -> Result<(), ChannelError> {
        let mut bytes = Vec::new();
        for signal in signals {
            let line = signal.to_line().or_else(|error| {
                // A list that outgrew a line: the asker learns why there is no answer.
                let message = format!("cannot be said: {error}");
                Signal::Error { message }.to_line()
            });
            bytes.extend_from_slice(&line?);
            if bytes.len() >= MAX_LINE {
                self.write(&bytes).await?;
                bytes.clear();
            }
        }
        self.write(&bytes).await
    }

    async fn close(&mut self) {
        let _ = timeout(WRITE_WITHIN, self.stream.end()).await;
    }
}

impl<W: BytesOut> LineSender<W> {
    pub(crate) fn new(stream: W) -> LineSender<W> {
        LineSender { stream }
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), ChannelError> {
        match timeout(WRITE_WITHIN, self.stream.write(bytes)).await {
            Ok(written) => Ok(written?),
            Err(_) => Err(ChannelError::Slow),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_named_once() {
        let said = |error| ChannelError::Io(error).to_string();
        let quic = io::Error::new(
            io::ErrorKind::NotConnected,
            quinn::ReadError::ConnectionLost(quinn::ConnectionError::TimedOut),
        );
        assert_eq!(said(quic), "connection lost: timed out");
        assert_eq!(said(io::Error::other("connection lost")), "connection lost");
        let tcp = io::Error::from(io::ErrorKind::ConnectionReset);
        assert_eq!(said(tcp), "connection lost: connection reset");
    }
}
