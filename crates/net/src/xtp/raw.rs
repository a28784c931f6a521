use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket as StdSocket};
use std::task::{Context, Poll};

use bytes::Bytes;
use layercast_wire::{IpBody, Ipv4Packet, PROTOCOL_XTP, Payload};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::UdpSocket;

use crate::outbox::Outbox;
use crate::udp::Inbound;

/// Asked of the kernel for each direction.
const SOCKET_BUFFER: usize = 4 << 20;
/// Packets taken before anything is sent.
const BATCH: usize = 32;

/// XTP in IP packets of its own protocol number, 36; the right to do that is CAP_NET_RAW.
pub(super) struct RawIp {
    /// The runtime's socket of datagrams, which is all that it needs to know of this one.
    socket: UdpSocket,
    local: SocketAddr,
    buffer: Vec<u8>,
}

impl RawIp {
    /// Binds to the address of a host; `EPERM` without CAP_NET_RAW.
    pub(super) fn bind(local: IpAddr) -> io::Result<RawIp> {
        let local = SocketAddr::new(local, 0);
        let protocol = Protocol::from(i32::from(PROTOCOL_XTP));
        let socket = Socket::new(Domain::for_address(local), Type::RAW, Some(protocol))?;
        socket.bind(&local.into())?;
        socket.set_nonblocking(true)?;
        // Best effort: an unprivileged process gets what net.core.rmem_max allows.
        let _ = socket.set_recv_buffer_size(SOCKET_BUFFER);
        let _ = socket.set_send_buffer_size(SOCKET_BUFFER);
        let socket = UdpSocket::from_std(StdSocket::from(socket))?;
        Ok(RawIp {
            socket,
            local,
            buffer: vec![0; 1 << 16],
        })
    }

    pub(super) fn local_addr(&self) -> SocketAddr {
        self.local
    }

    pub(super) fn poll_readable(&self, context: &mut Context<'_>) -> Poll<()> {
        self.socket.poll_recv_ready(context).map(drop)
    }

    pub(super) fn poll_writable(&self, context: &mut Context<'_>) -> Poll<()> {
        self.socket.poll_send_ready(context).map(drop)
    }

    /// Gives the packets that have arrived to `inbound`; `false` if there was none.
    pub(super) fn receive<I: Inbound>(&mut self, inbound: &mut I) -> bool {
        for taken in 0..BATCH {
            // An error is one that another host caused (ICMP), or that there is nothing.
            let Ok((len, from)) = self.socket.try_recv_from(&mut self.buffer) else {
                return taken > 0;
            };
            let Some(key) = inbound.known(from) else {
                continue;
            };
            let bytes = Bytes::copy_from_slice(&self.buffer[..len]);
            if let Some(packet) = self.without_header(bytes) {
                inbound.deliver(key, packet, false);
            }
        }
        true
    }

    /// Of IPv4 the kernel gives the header, too.
    fn without_header(&self, bytes: Bytes) -> Option<Bytes> {
        if self.local.is_ipv6() {
            return Some(bytes);
        }
        match Ipv4Packet::decode_outer(bytes).ok()?.body {
            IpBody::Other {
                payload: Payload::Bytes(body),
                ..
            } => Some(body),
            _ => None,
        }
    }

    /// Hands `outbox` to the kernel packet by packet; `false` if it must be tried again.
    pub(super) fn flush(&mut self, outbox: &mut Outbox) -> bool {
        while let Some((batch, bytes)) = outbox.next() {
            let packet = &bytes[..batch.segment.min(bytes.len())];
            match self.socket.try_send_to(packet, outbox.to()) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
                // To the machine one that could not leave is one that got lost.
                _ => outbox.pop_first(),
            }
        }
        true
    }
}
