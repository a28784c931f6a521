use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr, UdpSocket as StdSocket};
use std::task::{Context, Poll};

use bytes::Bytes;
use layercast_wire::{IPV4_HEADER, IpBody, Ipv4Packet, PROTOCOL_XTP, Payload};
use quinn_udp::{BATCH_SIZE, RecvMeta};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::UdpSocket;

use crate::outbox::Outbox;
use crate::udp::{Inbound, Packets};

/// Asked of the kernel for each direction.
const SOCKET_BUFFER: usize = 4 << 20;

/// XTP in IP packets of its own protocol number, 36; the right to do that is CAP_NET_RAW.
pub(super) struct RawIp {
    /// The runtime's socket of datagrams, which is all that it needs to know of this one.
    socket: UdpSocket,
    local: SocketAddr,
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
        Ok(RawIp { socket, local })
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

impl Packets for RawIp {
    fn take(
        &mut self,
        slices: [Option<IoSliceMut<'_>>; BATCH_SIZE],
        meta: &mut [RecvMeta; BATCH_SIZE],
    ) -> usize {
        let mut taken = 0;
        for (mut slice, meta) in slices.into_iter().flatten().zip(meta) {
            // An error is one that another host caused (ICMP), or that there is nothing.
            let Ok((len, addr)) = self.socket.try_recv_from(&mut slice) else {
                break;
            };
            (meta.addr, meta.len, meta.stride) = (addr, len, len);
            taken += 1;
        }
        taken
    }

    fn inner<'a>(&self, packet: &'a [u8]) -> &'a [u8] {
        match self.local.is_ipv6() {
            true => packet,
            false => packet.get(IPV4_HEADER..).unwrap_or(&[]),
        }
    }

    fn hand_on<I: Inbound>(&mut self, key: I::Key, _: &RecvMeta, packet: &mut [u8], to: &mut I) {
        if let Some(packet) = self.without_header(Bytes::copy_from_slice(packet)) {
            to.deliver(key, packet, false);
        }
    }

    /// XTP takes packets from any address.
    fn count_unknown(&mut self, _: &RecvMeta) {}

    /// The endpoint counts them.
    fn count_crowded_out(&mut self, _: &RecvMeta) {}
}
