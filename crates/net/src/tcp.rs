use std::io;
use std::net::{IpAddr, SocketAddr};

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use crate::channel::{
    ASK_EVERY, BytesIn, BytesOut, DEAD_AFTER, LineReceiver, LineSender, SignalChannel,
};

/// A [`SignalChannel`] of one JSON object per line over TCP, in the clear.
#[derive(Debug)]
pub struct TcpChannel {
    stream: TcpStream,
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
            .with_time(ASK_EVERY)
            .with_interval(ASK_EVERY)
            .with_retries(2);
        let _ = socket.set_tcp_keepalive(&keepalive);
        TcpChannel { stream }
    }
}

impl SignalChannel for TcpChannel {
    type Receiver = LineReceiver<OwnedReadHalf>;
    type Sender = LineSender<OwnedWriteHalf>;

    fn local(&self) -> Option<IpAddr> {
        self.stream.local_addr().ok().map(|addr| addr.ip())
    }

    fn split(self) -> (Self::Receiver, Self::Sender) {
        let (read, write) = self.stream.into_split();
        (LineReceiver::new(read), LineSender::new(write))
    }
}

impl BytesIn for OwnedReadHalf {
    async fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        AsyncReadExt::read(self, buffer).await
    }
}

impl BytesOut for OwnedWriteHalf {
    async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes).await
    }

    async fn end(&mut self) {
        // The kernel delivers what it has, or the connection is lost anyway.
        let _ = self.shutdown().await;
    }
}
