//! XTP in UDP datagrams: the machine of `transport` on a socket.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use layercast_core::{Machine, Off, Span};
use layercast_transport::xtp::{
    ContextId, Endpoint, XtpConfig, XtpError, XtpEvent, XtpSocket, XtpStats,
};
use tokio::net::UdpSocket;
use tokio::time::sleep;

use crate::clock::Clock;
use crate::random::random_seed;

/// Contexts of a socket.
const MOST: usize = 1 << 16;
/// What the timer of the runtime can tell apart.
const TIMER: Span = Span::from_ms(1);
/// Datagrams taken before anything is sent.
const BATCH: usize = 32;

/// The XTP of one UDP socket: bare packets in the datagrams, without a header of their own (xtp.md 6.15).
///
/// One task owns it: it calls the [`endpoint`](Self::endpoint), and waits in [`event`](Self::event), which is where
/// packets come and go. Where nobody waits, nothing moves.
#[derive(Debug)]
pub struct XtpUdp {
    socket: UdpSocket,
    local: SocketAddr,
    clock: Clock,
    endpoint: Endpoint,
    buffer: Vec<u8>,
    /// A datagram that the socket had no room for.
    held: Option<(Vec<u8>, SocketAddr)>,
}

impl XtpUdp {
    /// Binds a socket; port 0 lets the system choose one. Must be called within a tokio runtime.
    pub async fn bind(local: SocketAddr) -> io::Result<XtpUdp> {
        let socket = UdpSocket::bind(local).await?;
        let local = socket.local_addr()?;
        Ok(XtpUdp {
            endpoint: Endpoint::new(MOST, &local.to_string(), &random_seed().0),
            clock: Clock::get(),
            buffer: vec![0; 1 << 16],
            held: None,
            socket,
            local,
        })
    }

    /// The address of the socket.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Takes associations to a port of XTP, up to `backlog` that are not accepted yet.
    pub fn listen(&mut self, port: u16, backlog: usize, config: XtpConfig) -> Result<(), XtpError> {
        self.endpoint.listen(port, backlog, on_sockets(config))
    }

    /// Opens an association with a port of XTP behind a UDP socket.
    pub fn connect(
        &mut self,
        remote: SocketAddr,
        port: u16,
        config: XtpConfig,
    ) -> Result<ContextId, XtpError> {
        let socket = |net, port| XtpSocket { net, port };
        let (local, remote) = (socket(self.local, 0), socket(remote, port));
        let now = self.clock.now();
        self.endpoint
            .connect(now, local, remote, &on_sockets(config))
    }

    /// The machine: what is sent, received and closed.
    pub fn endpoint(&mut self) -> &mut Endpoint {
        &mut self.endpoint
    }

    /// Good-bye to a context, as [`Endpoint::close`].
    pub fn close(&mut self, id: ContextId) -> Result<(), XtpError> {
        self.endpoint.close(self.clock.now(), id)
    }

    /// Breaks a context off, as [`Endpoint::abort`].
    pub fn abort(&mut self, id: ContextId) -> Result<(), XtpError> {
        self.endpoint.abort(self.clock.now(), id)
    }

    /// What was counted so far.
    pub fn stats(&self) -> XtpStats {
        self.endpoint.stats()
    }

    /// The next thing to know; until then packets come and go. Whoever stops waiting for it loses nothing.
    pub async fn event(&mut self) -> io::Result<XtpEvent> {
        loop {
            self.take_all()?;
            if let Some(event) = self.endpoint.poll_event() {
                return Ok(event);
            }
            let blocked = !self.send_all()?;
            if let Some(event) = self.endpoint.poll_event() {
                return Ok(event);
            }
            let now = self.clock.now();
            let next = self.endpoint.next_timeout().map(|at| at.since(now));
            let wait = Duration::from_nanos(next.map_or(u64::MAX, |wait| wait.as_ns()));
            tokio::select! {
                ready = self.socket.readable() => ready?,
                ready = self.socket.writable(), if blocked => ready?,
                () = sleep(wait), if next.is_some() => {
                    self.endpoint.on_timeout(self.clock.now(), &mut Off);
                }
            }
        }
    }

    /// Takes what has arrived.
    fn take_all(&mut self) -> io::Result<()> {
        for _ in 0..BATCH {
            match self.socket.try_recv_from(&mut self.buffer) {
                Ok((len, from)) => {
                    let bytes = Bytes::copy_from_slice(&self.buffer[..len]);
                    let ends = (from, self.local);
                    self.endpoint
                        .handle_bytes(self.clock.now(), ends, bytes, &mut Off);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if is_about_a_peer(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Sends what may leave; `false` if the socket has no room for it.
    fn send_all(&mut self) -> io::Result<bool> {
        loop {
            let next = self.held.take().or_else(|| {
                let datagram = self.endpoint.poll_transmit(self.clock.now(), &mut Off)?;
                let mut bytes = Vec::with_capacity(datagram.packet.encoded_len());
                datagram.packet.encode_into(&mut bytes);
                Some((bytes, datagram.dst))
            });
            let Some((bytes, to)) = next else {
                return Ok(true);
            };
            match self.socket.try_send_to(&bytes, to) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.held = Some((bytes, to));
                    return Ok(false);
                }
                // To the machine it is a packet that got lost.
                Err(error) if is_about_a_peer(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// A configuration whose bursts the runtime can time.
fn on_sockets(config: XtpConfig) -> XtpConfig {
    XtpConfig {
        timer: config.timer.max(TIMER),
        ..config
    }
}

/// Whether a peer, or the way to it, is the matter, and not the socket.
fn is_about_a_peer(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    matches!(
        error.kind(),
        Kind::ConnectionRefused
            | Kind::ConnectionReset
            | Kind::HostUnreachable
            | Kind::NetworkUnreachable
            | Kind::PermissionDenied
            | Kind::InvalidInput
    ) || error.raw_os_error() == Some(rustix::io::Errno::MSGSIZE.raw_os_error())
}
