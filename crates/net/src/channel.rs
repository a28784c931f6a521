use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use layercast_wire::{MAX_LINE, Signal, SignalError, SignalReader};
use socket2::{SockRef, TcpKeepalive};
use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

/// How long a neighbour may stay silent on a dead connection before the kernel gives up.
const DEAD_AFTER: Duration = Duration::from_secs(3);
/// How long one write may take: a neighbour that reads nothing is a dead one.
const WRITE_WITHIN: Duration = Duration::from_secs(5);
/// How many unreadable lines a neighbour may send before it is cut off.
const MAX_BAD_LINES: u32 = 16;

/// A reliable, ordered channel of signals between two neighbours.
///
/// The nodes see only this; a channel over QUIC streams would implement it as well.
pub trait SignalChannel: Send + 'static {
    /// The half that receives.
    type Receiver: SignalReceiver;
    /// The half that sends.
    type Sender: SignalSender;

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
    #[error("connection lost: {0}")]
    Io(#[from] io::Error),
    /// The neighbour sends what cannot be read.
    #[error("{0}")]
    Signal(#[from] SignalError),
    /// The neighbour does not read what it is sent.
    #[error("does not read what it is sent")]
    Slow,
}

/// A [`SignalChannel`] of one JSON object per line over TCP.
#[derive(Debug)]
pub struct TcpChannel {
    stream: TcpStream,
}

/// Receiving half of a [`TcpChannel`].
#[derive(Debug)]
pub struct TcpReceiver {
    stream: OwnedReadHalf,
    reader: SignalReader,
    buffer: Vec<u8>,
    malformed: u32,
}

/// Sending half of a [`TcpChannel`].
#[derive(Debug)]
pub struct TcpSender {
    stream: OwnedWriteHalf,
}

impl TcpChannel {
    /// Calls `addr`, from the address `from` if there is a choice.
    pub async fn connect(addr: SocketAddr, from: Option<IpAddr>) -> io::Result<TcpChannel> {
        let socket = match addr {
            SocketAddr::V4(_) => TcpSocket::new_v4()?,
            SocketAddr::V6(_) => TcpSocket::new_v6()?,
        };
        if let Some(from) = from {
            socket.bind(SocketAddr::new(from, 0))?;
        }
        let stream = timeout(DEAD_AFTER, socket.connect(addr))
            .await
            .map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "no answer within 3 s"))??;
        Ok(TcpChannel::new(stream))
    }

    /// Speaks over an accepted connection.
    pub fn new(stream: TcpStream) -> TcpChannel {
        // Best effort each: without them a dead neighbour is only noticed later.
        let _ = stream.set_nodelay(true);
        let socket = SockRef::from(&stream);
        let _ = socket.set_tcp_user_timeout(Some(DEAD_AFTER));
        let keepalive = TcpKeepalive::new()
            .with_time(Duration::from_secs(1))
            .with_interval(Duration::from_secs(1))
            .with_retries(2);
        let _ = socket.set_tcp_keepalive(&keepalive);
        TcpChannel { stream }
    }
}

impl SignalChannel for TcpChannel {
    type Receiver = TcpReceiver;
    type Sender = TcpSender;

    fn split(self) -> (TcpReceiver, TcpSender) {
        let (read, write) = self.stream.into_split();
        let receiver = TcpReceiver {
            stream: read,
            reader: SignalReader::default(),
            buffer: vec![0; 8 << 10],
            malformed: 0,
        };
        (receiver, TcpSender { stream: write })
    }
}

impl SignalReceiver for TcpReceiver {
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

impl SignalSender for TcpSender {
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
        let _ = timeout(WRITE_WITHIN, self.stream.shutdown()).await;
    }
}

impl TcpSender {
    async fn write(&mut self, bytes: &[u8]) -> Result<(), ChannelError> {
        match timeout(WRITE_WITHIN, self.stream.write_all(bytes)).await {
            Ok(written) => Ok(written?),
            Err(_) => Err(ChannelError::Slow),
        }
    }
}
