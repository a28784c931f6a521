//! What carries the datagrams of a connection.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use layercast_core::Time;
use quinn::{Connection, Endpoint};
use tokio::net::UdpSocket;

use super::PartialOrderError;
use crate::clock::Clock;

/// Longest wait when no timer runs.
const IDLE: Duration = Duration::from_secs(3_600);
/// Pause after an error of the socket, so that an error that persists does not occupy a processor.
const PAUSE: Duration = Duration::from_millis(1);
/// Largest datagram of UDP, bytes.
const MAX_DATAGRAM: usize = 1 << 16;

pub(super) enum Carrier {
    Udp(UdpCarrier),
    Quic {
        connection: Connection,
        /// Keeps the socket.
        _endpoint: Endpoint,
    },
}

/// A UDP socket with one peer.
pub(super) struct UdpCarrier {
    socket: UdpSocket,
    /// The only address whose datagrams are taken; of a receiver unknown until an OPEN proved it.
    peer: Option<SocketAddr>,
    buffer: Vec<u8>,
    strangers: u64,
}

impl UdpCarrier {
    pub(super) async fn bind(
        local: SocketAddr,
        peer: Option<SocketAddr>,
    ) -> Result<UdpCarrier, PartialOrderError> {
        let socket = UdpSocket::bind(local).await;
        let socket = socket.map_err(|error| PartialOrderError::Socket(local, error))?;
        Ok(UdpCarrier {
            socket,
            peer,
            buffer: vec![0; MAX_DATAGRAM],
            strangers: 0,
        })
    }

    pub(super) fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    async fn receive(&mut self) -> (Bytes, SocketAddr) {
        loop {
            match self.socket.recv_from(&mut self.buffer).await {
                Ok((len, from)) if self.peer.is_none_or(|peer| peer == from) => {
                    return (Bytes::copy_from_slice(&self.buffer[..len]), from);
                }
                Ok(_) => self.strangers += 1,
                // It reports earlier datagrams, such as an unreachable port; the machine notices a dead peer.
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }
}

impl Carrier {
    /// The next datagram of the peer, with its address if that may be forged; `None`: the path is gone.
    ///
    /// Cancel safe: no datagram is lost if the future is dropped.
    pub(super) async fn receive(&mut self) -> Option<(Bytes, Option<SocketAddr>)> {
        match self {
            Carrier::Udp(udp) => {
                let (datagram, from) = udp.receive().await;
                Some((datagram, udp.peer.is_none().then_some(from)))
            }
            Carrier::Quic { connection, .. } => {
                Some((connection.read_datagram().await.ok()?, None))
            }
        }
    }

    /// Sends a datagram to the peer, or to `to` as long as there is none. A datagram that the system does not take is
    /// lost, and recovered as any other.
    pub(super) async fn send(&self, datagram: Bytes, to: Option<SocketAddr>) {
        match self {
            Carrier::Udp(udp) => {
                if let Some(to) = udp.peer.or(to) {
                    let _ = udp.socket.send_to(&datagram, to).await;
                }
            }
            Carrier::Quic { connection, .. } => {
                let _ = connection.send_datagram(datagram);
            }
        }
    }

    /// From now on takes the datagrams of this address only.
    pub(super) fn bind_to(&mut self, from: SocketAddr) {
        if let Carrier::Udp(udp) = self {
            udp.peer.get_or_insert(from);
        }
    }

    /// Datagrams of other addresses.
    pub(super) fn strangers(&self) -> u64 {
        match self {
            Carrier::Udp(udp) => udp.strangers,
            Carrier::Quic { .. } => 0,
        }
    }
}

/// Waits until a timer is due.
pub(super) async fn until(timer: Option<Time>) {
    let now = Clock::get().now();
    let wait = timer.map_or(IDLE, |at| {
        Duration::from_nanos(at.since(now).as_ps().div_ceil(1_000))
    });
    tokio::time::sleep(wait).await;
}

/// Whether a timer is due.
pub(super) fn is_due(timer: Option<Time>) -> bool {
    timer.is_some_and(|at| at <= Clock::get().now())
}
