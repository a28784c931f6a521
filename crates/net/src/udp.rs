use std::io::{self, IoSliceMut};
use std::mem;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::AsFd;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use layercast_protect::OpenError;
use layercast_wire::UdpStats;
use quinn_udp::{BATCH_SIZE, EcnCodepoint, RecvMeta, Transmit, UdpSocketState};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::io::Interest;
use tokio::net::UdpSocket;

use crate::outbox::{Batch, Outbox};

/// Asked of the kernel for each direction; specs/mets.md 3.3 wants it never to be the bottleneck.
const SOCKET_BUFFER: usize = 4 << 20;
/// Largest datagram, or batch of datagrams merged by the kernel, in bytes.
pub(crate) const MAX_RECV: usize = 65_536;
/// Received datagrams are packed into arenas of this many bytes, so that a queued datagram does
/// not keep a 64 KiB receive buffer alive.
const ARENA: usize = 256 << 10;
/// Batches of datagrams taken from a socket before the next look at others, timers and signals.
pub const BATCHES_PER_ITERATION: usize = 8;

/// One UDP socket with batched, congestion-marked input and output.
pub struct Udp {
    socket: UdpSocket,
    state: UdpSocketState,
    local: SocketAddr,
    /// Where datagrams come that have no queue of their own; made for the first one.
    buffer: Vec<u8>,
    arena: BytesMut,
    stats: UdpStats,
    /// The last datagram that the kernel refused to send, and why.
    refusal: Option<Box<(SocketAddr, io::Error)>>,
    /// ECN codepoint of datagrams without a congestion mark.
    unmarked: Option<EcnCodepoint>,
}

/// The consumer of the datagrams of a socket.
pub trait Inbound {
    /// The owner of an address.
    type Key: Copy;

    /// The owner of `addr`, checked before any other part of a datagram; datagrams of strangers are counted and
    /// dropped.
    fn known(&mut self, addr: SocketAddr) -> Option<Self::Key>;

    /// An address has several clients of an [`Intake`](crate::intake::Intake), whose datagrams the kernel may merge.
    const IS_MERGED: bool = false;

    /// The number of the client of an [`Intake`](crate::intake::Intake) that this datagram from there is for.
    fn client(&self, from: Self::Key, datagram: &[u8]) -> u32 {
        let _ = (from, datagram);
        0
    }

    /// Datagrams of one client, `count` of them, were dropped because it had used up its share of the buffers.
    fn crowded_out(&mut self, from: Self::Key, datagrams: &[u8], count: u64) {
        let _ = (from, datagrams, count);
    }

    /// Takes note that `from` knows this host by the address `here`, if the socket is bound to all addresses:
    /// answers from another one are not taken for answers.
    fn called_at(&mut self, from: Self::Key, here: IpAddr) {
        let _ = (from, here);
    }

    /// What is in a datagram, opened in place if it is sealed; one that does not open is counted
    /// and dropped.
    fn open<'a>(&mut self, _: Self::Key, datagram: &'a mut [u8]) -> Result<&'a [u8], OpenError> {
        Ok(datagram)
    }

    /// Takes what was in a datagram; `congestion` is its ECN mark.
    fn deliver(&mut self, from: Self::Key, datagram: Bytes, congestion: bool);
}

/// A socket whose packets an [`Intake`](crate::intake::Intake) takes.
pub(crate) trait Packets {
    /// Takes one batch off the socket into `slices`; gives how many came.
    fn take(
        &mut self,
        slices: [Option<IoSliceMut<'_>>; BATCH_SIZE],
        meta: &mut [RecvMeta; BATCH_SIZE],
    ) -> usize;

    /// What a datagram is for [`Inbound`], without headers of the carrier.
    fn inner<'a>(&self, datagram: &'a [u8]) -> &'a [u8];

    /// Gives `inbound` one packet of the owner of an address, datagram by datagram.
    fn hand_on<I: Inbound>(
        &mut self,
        key: I::Key,
        meta: &RecvMeta,
        packet: &mut [u8],
        inbound: &mut I,
    );

    /// Counts what came from a stranger.
    fn count_unknown(&mut self, meta: &RecvMeta);

    /// Counts what was for a client that had no buffer left.
    fn count_crowded_out(&mut self, meta: &RecvMeta);
}

impl Udp {
    /// Binds to `local`; `EADDRINUSE` and the like are for the caller to explain.
    pub fn bind(local: SocketAddr) -> io::Result<Udp> {
        let socket = Socket::new(Domain::for_address(local), Type::DGRAM, Some(Protocol::UDP))?;
        socket.bind(&local.into())?;
        Udp::from_socket(socket)
    }

    /// Binds to the multicast group and joins it on the interface with the address `interface`;
    /// several sockets of one machine may do so.
    pub fn join_group(group: SocketAddrV4, interface: Ipv4Addr) -> io::Result<Udp> {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
        socket.set_reuse_address(true)?;
        socket.bind(&SocketAddr::V4(group).into())?;
        socket.join_multicast_v4(group.ip(), &interface)?;
        Udp::from_socket(socket)
    }

    fn from_socket(socket: Socket) -> io::Result<Udp> {
        socket.set_nonblocking(true)?;
        // Best effort: an unprivileged process gets what net.core.rmem_max allows.
        let _ = socket.set_recv_buffer_size(SOCKET_BUFFER);
        let _ = socket.set_send_buffer_size(SOCKET_BUFFER);
        let socket = UdpSocket::from_std(socket.into())?;
        let state = UdpSocketState::new((&socket).into())?;
        Ok(Udp {
            local: socket.local_addr()?,
            state,
            buffer: Vec::new(),
            arena: BytesMut::with_capacity(ARENA),
            stats: UdpStats::default(),
            refusal: None,
            unmarked: Some(EcnCodepoint::Ect0),
            socket,
        })
    }

    /// Sends datagrams as not ECN-capable, for a transport that does not answer marks: routers drop instead (RFC 3168 6.1.1).
    pub fn without_ecn(mut self) -> Udp {
        self.unmarked = None;
        self
    }

    /// Lets this socket send to multicast groups through the interface with the address
    /// `interface`: `hops` far, and seen by members on this machine too.
    pub fn send_to_groups(&self, interface: Ipv4Addr, hops: u8) -> io::Result<()> {
        let socket = SockRef::from(&self.socket);
        socket.set_multicast_if_v4(&interface)?;
        socket.set_multicast_ttl_v4(hops.into())?;
        socket.set_multicast_loop_v4(true)
    }

    /// The address it is bound to, with the port the kernel chose.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Waits until there is something to read.
    pub async fn readable(&self) -> io::Result<()> {
        self.socket.readable().await
    }

    /// Whether there is something to read; if not, the task of `context` is woken when there is.
    pub fn poll_readable(&self, context: &mut Context<'_>) -> Poll<()> {
        // An error is one of the socket's error queue: receiving clears it.
        self.socket.poll_recv_ready(context).map(drop)
    }

    /// Whether the kernel takes datagrams; if not, the task of `context` is woken when it does.
    pub fn poll_writable(&self, context: &mut Context<'_>) -> Poll<()> {
        // An error is one of the socket's error queue: receiving clears it.
        self.socket.poll_send_ready(context).map(drop)
    }

    /// Waits until the kernel takes datagrams again.
    pub async fn writable(&self) -> io::Result<()> {
        self.socket.writable().await
    }

    /// Takes one batch of datagrams off the socket and gives them to `inbound`; `false` if there
    /// was none. Allocates nothing per datagram.
    pub fn receive<I: Inbound>(&mut self, inbound: &mut I) -> bool {
        let mut buffer = mem::take(&mut self.buffer);
        buffer.resize(BATCH_SIZE * MAX_RECV, 0);
        let mut meta = [RecvMeta::default(); BATCH_SIZE];
        let mut slices = [const { None::<IoSliceMut<'_>> }; BATCH_SIZE];
        for (slice, chunk) in slices.iter_mut().zip(buffer.chunks_mut(MAX_RECV)) {
            *slice = Some(IoSliceMut::new(chunk));
        }
        let count = self.take(slices, &mut meta);
        for (meta, chunk) in meta[..count].iter().zip(buffer.chunks_mut(MAX_RECV)) {
            match inbound.known(meta.addr) {
                Some(key) => self.hand_on(key, meta, &mut chunk[..meta.len], inbound),
                None => self.count_unknown(meta),
            }
        }
        self.buffer = buffer;
        count > 0
    }

    /// Takes what is there, but not forever: [`BATCHES_PER_ITERATION`] batches at most; says whether there may be more.
    pub fn receive_turn<I: Inbound>(&mut self, inbound: &mut I) -> bool {
        (0..BATCHES_PER_ITERATION).all(|_| self.receive(inbound))
    }

    /// Hands `outbox` to the kernel; `false` if the kernel is full and it must be tried again.
    pub fn flush(&mut self, outbox: &mut Outbox) -> bool {
        while let Some((batch, bytes)) = outbox.next() {
            if !self.send_batch((outbox.from(), outbox.to()), batch, bytes) {
                return false;
            }
            outbox.pop();
        }
        true
    }

    /// Hands datagrams of one size to the kernel; `false` if it is full and must be tried again. They are sent from
    /// the first address, if there is one and the socket is bound to all addresses.
    pub fn send_batch(
        &mut self,
        (from, to): (Option<IpAddr>, SocketAddr),
        batch: Batch,
        bytes: &[u8],
    ) -> bool {
        let whole = Transmit {
            destination: to,
            ecn: match batch.congestion {
                true => Some(EcnCodepoint::Ce),
                false => self.unmarked,
            },
            contents: bytes,
            segment_size: (batch.count > 1).then_some(batch.segment),
            src_ip: from.filter(|_| self.local.ip().is_unspecified()),
        };
        match self.try_send(&whole) {
            Ok(()) => self.stats.sent += batch.count as u64,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
            Err(_) if batch.count > 1 => {
                // Segmentation may be what this interface cannot do: send them one by one.
                for contents in bytes.chunks(batch.segment.max(1)) {
                    let one = Transmit {
                        contents,
                        segment_size: None,
                        ..whole.clone()
                    };
                    match self.try_send(&one) {
                        Ok(()) => self.stats.sent += 1,
                        Err(error) => self.refused(to, error),
                    }
                }
            }
            Err(error) => self.refused(to, error),
        }
        true
    }

    fn refused(&mut self, to: SocketAddr, error: io::Error) {
        self.stats.send_failed += 1;
        // One allocation, however many are refused.
        match &mut self.refusal {
            Some(last) => **last = (to, error),
            None => self.refusal = Some(Box::new((to, error))),
        }
    }

    /// Where the last datagram was to go that the kernel refused to send, and why.
    pub fn refusal(&self) -> Option<&(SocketAddr, io::Error)> {
        self.refusal.as_deref()
    }

    /// Counts datagrams that [`Outbox::push`] refused.
    pub fn count_send_failed(&mut self, count: u64) {
        self.stats.send_failed += count;
    }

    /// What was moved and lost so far; asks the kernel for its drops.
    pub fn stats(&self) -> UdpStats {
        UdpStats {
            host_lost: self.kernel_drops(),
            ..self.stats
        }
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let sent = self.state.try_send((&self.socket).into(), transmit);
        match sent {
            // Through the runtime once more, so that it forgets the socket was writable.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.socket.try_io(Interest::WRITABLE, || Err(error))
            }
            sent => sent,
        }
    }

    /// The `drops` column of /proc/net/udp for this socket (the ancillary message SO_RXQ_OVFL
    /// carries the same count, but the socket library does not pass it on).
    fn kernel_drops(&self) -> u64 {
        let table = match self.local.ip() {
            IpAddr::V4(_) => "/proc/net/udp",
            IpAddr::V6(_) => "/proc/net/udp6",
        };
        let Ok(stat) = rustix::fs::fstat(self.socket.as_fd()) else {
            return 0;
        };
        let inode = stat.st_ino.to_string();
        let text = std::fs::read_to_string(table).unwrap_or_default();
        text.lines()
            .skip(1)
            .find(|line| line.split_whitespace().nth(9) == Some(&inode))
            .and_then(|line| line.split_whitespace().last()?.parse().ok())
            .unwrap_or(0)
    }
}

impl Packets for Udp {
    fn take(
        &mut self,
        slices: [Option<IoSliceMut<'_>>; BATCH_SIZE],
        meta: &mut [RecvMeta; BATCH_SIZE],
    ) -> usize {
        let mut slices = slices.map(|slice| slice.unwrap_or_else(|| IoSliceMut::new(&mut [])));
        let (socket, state) = (&self.socket, &self.state);
        let received = socket.try_io(Interest::READABLE, || {
            state.recv(socket.into(), &mut slices, meta)
        });
        // Nothing there, or an error another host caused (ICMP): neither ends the node.
        let count = received.unwrap_or(0);
        self.stats.received += meta[..count].iter().map(datagrams).sum::<u64>();
        count
    }

    fn inner<'a>(&self, datagram: &'a [u8]) -> &'a [u8] {
        datagram
    }

    fn hand_on<I: Inbound>(
        &mut self,
        key: I::Key,
        meta: &RecvMeta,
        mut rest: &mut [u8],
        inbound: &mut I,
    ) {
        if let Some(here) = meta.dst_ip.filter(|_| self.local.ip().is_unspecified()) {
            inbound.called_at(key, here);
        }
        let congestion = meta.ecn == Some(EcnCodepoint::Ce);
        loop {
            let len = meta.stride.clamp(1, MAX_RECV).min(rest.len());
            let (datagram, after) = rest.split_at_mut(len);
            match inbound.open(key, datagram) {
                Ok(datagram) => {
                    if self.arena.capacity() < datagram.len() {
                        self.arena.reserve(ARENA);
                    }
                    self.arena.extend_from_slice(datagram);
                    inbound.deliver(key, self.arena.split().freeze(), congestion);
                }
                Err(OpenError::Replayed { .. }) => self.stats.replayed += 1,
                Err(_) => self.stats.forged += 1,
            }
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
    }

    fn count_unknown(&mut self, meta: &RecvMeta) {
        self.stats.unknown += datagrams(meta);
    }

    fn count_crowded_out(&mut self, meta: &RecvMeta) {
        self.stats.crowded_out += datagrams(meta);
    }
}

/// Datagrams that the kernel merged to what `meta` describes.
pub(crate) fn datagrams(meta: &RecvMeta) -> u64 {
    meta.len.div_ceil(meta.stride.max(1)).max(1) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCALHOST: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

    fn push(outbox: &mut Outbox, bytes: &[u8], congestion: bool) {
        assert!(outbox.push(bytes.len(), congestion, |out| out.extend_from_slice(bytes)));
    }

    #[derive(Default)]
    struct Got {
        stranger: bool,
        datagrams: Vec<(Bytes, bool)>,
    }

    impl Inbound for Got {
        type Key = ();
        fn known(&mut self, _: SocketAddr) -> Option<()> {
            (!self.stranger).then_some(())
        }
        fn deliver(&mut self, (): (), datagram: Bytes, congestion: bool) {
            self.datagrams.push((datagram, congestion));
        }
    }

    async fn receive_all(udp: &mut Udp, wanted: usize) -> Vec<(Bytes, bool)> {
        let mut got = Got::default();
        while got.datagrams.len() < wanted {
            udp.readable().await.unwrap();
            while udp.receive(&mut got) {}
        }
        got.datagrams
    }

    #[tokio::test]
    async fn a_batch_arrives_datagram_by_datagram_with_its_mark() {
        let mut a = Udp::bind(LOCALHOST).unwrap();
        let mut b = Udp::bind(LOCALHOST).unwrap();
        let mut outbox = Outbox::new(b.local_addr());
        for i in 0..10 {
            push(&mut outbox, &[i; 100], true);
        }
        push(&mut outbox, &[99; 7], true);
        push(&mut outbox, b"clear", false);
        push(&mut outbox, b"long again", false);
        assert!(a.flush(&mut outbox));
        let got = receive_all(&mut b, 13).await;
        assert_eq!(got[3], (Bytes::from_static(&[3; 100]), true));
        assert_eq!(got[10], (Bytes::from_static(&[99; 7]), true));
        assert_eq!(got[11], (Bytes::from_static(b"clear"), false));
        assert_eq!(got[12], (Bytes::from_static(b"long again"), false));
        assert_eq!(a.stats().sent, 13);
    }

    #[tokio::test]
    async fn datagrams_come_from_the_address_that_the_neighbour_knows() {
        let peer = std::net::UdpSocket::bind(LOCALHOST).unwrap();
        let known = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 5));
        let own = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let any = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        // A socket with an address of its own keeps to that.
        for (bound, from, seen) in [
            (any, Some(known), known),
            (any, None, own),
            (own, Some(known), own),
        ] {
            let mut udp = Udp::bind(SocketAddr::new(bound, 0)).unwrap();
            let mut outbox = Outbox::new(peer.local_addr().unwrap());
            outbox.send_from(from);
            for _ in 0..3 {
                push(&mut outbox, b"media", false);
            }
            assert!(udp.flush(&mut outbox));
            for _ in 0..3 {
                let (_, addr) = peer.recv_from(&mut [0; 9]).unwrap();
                assert_eq!(addr, SocketAddr::new(seen, udp.local_addr().port()));
            }
        }
    }

    #[tokio::test]
    async fn strangers_are_counted_and_not_delivered() {
        let mut a = Udp::bind(LOCALHOST).unwrap();
        let mut b = Udp::bind(LOCALHOST).unwrap();
        let mut outbox = Outbox::new(b.local_addr());
        push(&mut outbox, b"", false);
        assert!(a.flush(&mut outbox));
        b.readable().await.unwrap();
        let mut got = Got {
            stranger: true,
            ..Got::default()
        };
        assert!(b.receive(&mut got));
        assert_eq!(got.datagrams, []);
        assert_eq!((b.stats().received, b.stats().unknown), (1, 1));
    }

    #[tokio::test]
    async fn what_the_kernel_drops_is_host_loss() {
        let mut a = Udp::bind(LOCALHOST).unwrap();
        let b = Udp::bind(LOCALHOST).unwrap();
        SockRef::from(&b.socket)
            .set_recv_buffer_size(4_096)
            .unwrap();
        let mut outbox = Outbox::new(b.local_addr());
        for _ in 0..50 {
            push(&mut outbox, &[0; 1_000], false);
            assert!(a.flush(&mut outbox));
        }
        assert!(b.stats().host_lost > 0);
    }
}
