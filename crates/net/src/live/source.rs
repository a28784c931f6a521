//! Where the bytes of a live stream come from.

use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::thread;

use bytes::Bytes;
use layercast_fec::SmpteReceiverStats;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::UdpSocket;
use tokio::sync::mpsc;

use super::protected::Protected;
use crate::error::NetError;
use crate::taken::Taken;

/// Asked of the kernel, so that a busy moment costs no datagram.
const SOCKET_BUFFER: usize = 4 << 20;
/// Pieces of a pipe that are read ahead.
const READ_AHEAD: usize = 16;
/// Until a socket is read again that could not be read.
const RETRY: std::time::Duration = std::time::Duration::from_millis(10);

/// A socket, or a pipe that is read on a thread of its own.
pub(super) enum Source {
    Udp(UdpSocket, Vec<u8>),
    Pipe(mpsc::Receiver<io::Result<Bytes>>),
    /// RTP with parities.
    Protected(Box<Protected>),
    /// Several of them, with their numbers.
    Several(mpsc::Receiver<(usize, Option<Bytes>)>),
}

impl Source {
    /// Whether what cannot be read now cannot be read later either.
    pub fn is_pipe(&self) -> bool {
        matches!(self, Source::Pipe(_))
    }

    /// What parities did, if it has some.
    pub fn repaired(&self) -> Option<SmpteReceiverStats> {
        match self {
            Source::Protected(input) => Some(input.stats()),
            _ => None,
        }
    }

    /// The next bytes, and of which input they are; without bytes this one is over. `None` at the end of all.
    pub async fn next(&mut self) -> io::Result<Option<(usize, Option<Bytes>)>> {
        if let Source::Several(pieces) = self {
            return Ok(pieces.recv().await);
        }
        let piece = self.next_of_one().await?;
        Ok(piece.map(|piece| (0, Some(piece))))
    }

    async fn next_of_one(&mut self) -> io::Result<Option<Bytes>> {
        match self {
            Source::Udp(socket, buffer) => {
                let (len, _) = socket.recv_from(buffer).await?;
                Ok(Some(Bytes::copy_from_slice(&buffer[..len])))
            }
            Source::Protected(input) => input.next().await.map(Some),
            Source::Pipe(pieces) => pieces.recv().await.transpose(),
            // A source of several is one of a list, not a list itself.
            Source::Several(_) => Ok(None),
        }
    }
}

/// Reads several sources together.
pub(super) fn several(sources: Vec<Source>) -> Source {
    let (pieces, read) = mpsc::channel(READ_AHEAD);
    for (number, mut source) in sources.into_iter().enumerate() {
        let pieces = pieces.clone();
        tokio::spawn(async move {
            loop {
                let piece = match source.next_of_one().await {
                    Ok(piece) => piece,
                    // A socket that cannot be read now may be read later.
                    Err(_) => {
                        tokio::time::sleep(RETRY).await;
                        continue;
                    }
                };
                let is_over = piece.is_none();
                if pieces.send((number, piece)).await.is_err() || is_over {
                    return;
                }
            }
        });
    }
    Source::Several(read)
}

/// A socket for datagrams to `address`; if that is a group, it is joined.
pub(super) fn bind(address: SocketAddr) -> Result<UdpSocket, NetError> {
    let refused = |source| NetError::bind(address, source);
    let domain = Domain::for_address(address);
    let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP)).map_err(refused)?;
    // Smaller than asked for is no reason to stop.
    let _ = socket.set_recv_buffer_size(SOCKET_BUFFER);
    let group = address.ip().is_multicast();
    if group {
        socket.set_reuse_address(true).map_err(refused)?;
    }
    let mut taken = Taken::default();
    while let Err(error) = socket.bind(&address.into()) {
        match taken.pause(&error) {
            Some(pause) => thread::sleep(pause),
            None => return Err(refused(error)),
        }
    }
    let joined = |source| NetError::Group {
        group: address,
        source,
    };
    match address.ip() {
        IpAddr::V4(ip) if group => socket
            .join_multicast_v4(&ip, &Ipv4Addr::UNSPECIFIED)
            .map_err(joined)?,
        IpAddr::V6(ip) if group && ip != Ipv6Addr::UNSPECIFIED => {
            socket.join_multicast_v6(&ip, 0).map_err(joined)?;
        }
        _ => {}
    }
    socket.set_nonblocking(true).map_err(refused)?;
    UdpSocket::from_std(socket.into()).map_err(refused)
}

/// Reads a pipe on a thread of its own, no further ahead than its frames are taken.
pub(super) fn read_pipe(
    first: Bytes,
    mut rest: Box<dyn Read + Send>,
) -> Result<mpsc::Receiver<io::Result<Bytes>>, NetError> {
    let (pieces, taken) = mpsc::channel(READ_AHEAD);
    thread::Builder::new()
        .name("input".into())
        .spawn(move || {
            if !first.is_empty() && pieces.blocking_send(Ok(first)).is_err() {
                return;
            }
            let mut buffer = vec![0; 64 * 188];
            loop {
                let piece = match rest.read(&mut buffer) {
                    Ok(0) => return,
                    Ok(len) => Ok(Bytes::copy_from_slice(&buffer[..len])),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) => Err(error),
                };
                let is_last = piece.is_err();
                if pieces.blocking_send(piece).is_err() || is_last {
                    return;
                }
            }
        })
        .map_err(NetError::system("starting the input thread"))?;
    Ok(taken)
}
