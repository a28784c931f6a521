use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::task::{Context, Poll};

use bytes::Bytes;
use layercast_core::{Off, Time};
use layercast_wire::XTP_HEADER;
use layercast_xtp::Endpoint;

use super::raw::RawIp;
use crate::intake::Intake;
use crate::outbox::Outbox;
use crate::udp::{Inbound, Packets, Udp};

/// Bytes of an IP packet that an Ethernet takes.
const MTU: usize = 1_500;

/// What carries the packets of XTP.
pub(super) enum Carrier {
    /// Datagrams of UDP, without a header of their own (specs/xtp.md 6 (15)).
    Udp {
        /// Sends everything, and receives datagrams to it.
        own: Box<Port<Udp>>,
        /// Receive datagrams to groups.
        groups: Vec<Port<Udp>>,
    },
    /// IP packets of protocol 36.
    Raw(Box<Port<RawIp>>),
}

/// A socket, and the queues of the associations whose packets come to it.
pub(super) struct Port<S> {
    pub(super) socket: S,
    intake: Intake,
}

impl<S: Packets> Port<S> {
    pub(super) fn new(socket: S) -> Port<S> {
        Port {
            socket,
            intake: Intake::new(),
        }
    }

    /// Takes what has arrived, but not forever; says whether there may be more.
    fn receive(&mut self, taker: &mut Taker<'_>) -> bool {
        let Port { socket, intake } = self;
        intake.receive(taker.now, socket, taker, |_, _| ())
    }
}

/// The endpoint as one that takes datagrams.
struct Taker<'a> {
    endpoint: &'a mut Endpoint,
    now: Time,
    local: SocketAddr,
}

impl Inbound for Taker<'_> {
    type Key = SocketAddr;

    /// A peer may have several associations.
    const IS_MERGED: bool = true;

    fn known(&mut self, addr: SocketAddr) -> Option<SocketAddr> {
        Some(addr)
    }

    /// The association of the packet. Packets of no association have one client: requests for an association, and those of strangers.
    fn client(&self, from: SocketAddr, datagram: &[u8]) -> u32 {
        let id = self.endpoint.context_of(from, datagram);
        id.map_or(0, |id| id.slot().saturating_add(1))
    }

    fn crowded_out(&mut self, from: SocketAddr, datagrams: &[u8], count: u64) {
        self.endpoint.crowded_out(from, datagrams, count);
    }

    fn deliver(&mut self, from: SocketAddr, datagram: Bytes, _: bool) {
        let ends = (from, self.local);
        self.endpoint
            .handle_bytes(self.now, ends, datagram, &mut Off);
    }
}

impl Carrier {
    /// The address it is bound to.
    pub(super) fn local_addr(&self) -> SocketAddr {
        match self {
            Carrier::Udp { own, .. } => own.socket.local_addr(),
            Carrier::Raw(raw) => raw.socket.local_addr(),
        }
    }

    /// Receives datagrams to a multicast group, too.
    pub(super) fn join_group(
        &mut self,
        group: SocketAddrV4,
        interface: Ipv4Addr,
    ) -> io::Result<()> {
        match self {
            Carrier::Udp { groups, .. } => {
                let socket = Udp::join_group(group, interface)?.without_ecn();
                groups.push(Port::new(socket));
                Ok(())
            }
            Carrier::Raw(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Sends packets to multicast groups through an interface, at most `hops` hops far.
    pub(super) fn send_to_groups(&self, interface: Ipv4Addr, hops: u8) -> io::Result<()> {
        match self {
            Carrier::Udp { own, .. } => own.socket.send_to_groups(interface, hops),
            Carrier::Raw(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// User bytes of a packet that fits into one IP packet of Ethernet.
    pub(super) fn max_data(&self) -> u32 {
        let ip = if self.local_addr().is_ipv6() { 40 } else { 20 };
        let udp = match self {
            Carrier::Udp { .. } => 8,
            Carrier::Raw(_) => 0,
        };
        (MTU - ip - udp - XTP_HEADER) as u32
    }

    /// Gives what has arrived by `now` to `endpoint`, but not without end; says whether there may be more.
    pub(super) fn receive(&mut self, endpoint: &mut Endpoint, now: Time) -> bool {
        let local = self.local_addr();
        let mut taker = Taker {
            endpoint,
            now,
            local,
        };
        match self {
            Carrier::Udp { own, groups } => {
                let mut more = own.receive(&mut taker);
                for group in groups {
                    more |= group.receive(&mut taker);
                }
                more
            }
            Carrier::Raw(raw) => raw.receive(&mut taker),
        }
    }

    /// Hands `outbox` to the kernel; `false` if it must be tried again.
    pub(super) fn flush(&mut self, outbox: &mut Outbox) -> bool {
        match self {
            Carrier::Udp { own, .. } => own.socket.flush(outbox),
            Carrier::Raw(raw) => raw.socket.flush(outbox),
        }
    }

    /// Whether there is something to read; if not, the task of `context` is woken when there is.
    pub(super) fn poll_readable(&self, context: &mut Context<'_>) -> Poll<()> {
        match self {
            Carrier::Udp { own, groups } => {
                let mut ready = own.socket.poll_readable(context).is_ready();
                for group in groups {
                    ready |= group.socket.poll_readable(context).is_ready();
                }
                if ready {
                    Poll::Ready(())
                } else {
                    Poll::Pending
                }
            }
            Carrier::Raw(raw) => raw.socket.poll_readable(context),
        }
    }

    /// Whether the kernel takes packets; if not, the task of `context` is woken when it does.
    pub(super) fn poll_writable(&self, context: &mut Context<'_>) -> Poll<()> {
        match self {
            Carrier::Udp { own, .. } => own.socket.poll_writable(context),
            Carrier::Raw(raw) => raw.socket.poll_writable(context),
        }
    }
}
