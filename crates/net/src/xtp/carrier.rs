use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::task::{Context, Poll};

use bytes::Bytes;
use layercast_core::{Off, Time};
use layercast_wire::XTP_HEADER;
use layercast_xtp::Endpoint;

use super::raw::RawIp;
use crate::outbox::Outbox;
use crate::udp::{Inbound, Udp};

/// Bytes of an IP packet that an Ethernet takes.
const MTU: usize = 1_500;

/// What carries the packets of XTP.
pub(super) enum Carrier {
    /// Datagrams of UDP, without a header of their own (specs/xtp.md 6 (15)).
    Udp {
        /// Sends everything, and receives datagrams to it.
        own: Udp,
        /// Receive datagrams to groups.
        groups: Vec<Udp>,
    },
    /// IP packets of protocol 36.
    Raw(RawIp),
}

/// The endpoint as one that takes datagrams.
struct Taker<'a> {
    endpoint: &'a mut Endpoint,
    now: Time,
    local: SocketAddr,
}

impl Inbound for Taker<'_> {
    type Key = SocketAddr;

    fn known(&mut self, addr: SocketAddr) -> Option<SocketAddr> {
        Some(addr)
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
            Carrier::Udp { own, .. } => own.local_addr(),
            Carrier::Raw(raw) => raw.local_addr(),
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
                groups.push(Udp::join_group(group, interface)?.without_ecn());
                Ok(())
            }
            Carrier::Raw(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Sends packets to multicast groups through an interface, at most `hops` hops far.
    pub(super) fn send_to_groups(&self, interface: Ipv4Addr, hops: u8) -> io::Result<()> {
        match self {
            Carrier::Udp { own, .. } => own.send_to_groups(interface, hops),
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

    /// Gives what has arrived by `now` to `endpoint`, one batch of it; `false` if there was none.
    pub(super) fn receive(&mut self, endpoint: &mut Endpoint, now: Time) -> bool {
        let local = self.local_addr();
        let mut taker = Taker {
            endpoint,
            now,
            local,
        };
        match self {
            Carrier::Udp { own, groups } => {
                let mut some = own.receive(&mut taker);
                for group in groups {
                    some |= group.receive(&mut taker);
                }
                some
            }
            Carrier::Raw(raw) => raw.receive(&mut taker),
        }
    }

    /// Hands `outbox` to the kernel; `false` if it must be tried again.
    pub(super) fn flush(&mut self, outbox: &mut Outbox) -> bool {
        match self {
            Carrier::Udp { own, .. } => own.flush(outbox),
            Carrier::Raw(raw) => raw.flush(outbox),
        }
    }

    /// Whether there is something to read; if not, the task of `context` is woken when there is.
    pub(super) fn poll_readable(&self, context: &mut Context<'_>) -> Poll<()> {
        match self {
            Carrier::Udp { own, groups } => {
                let mut ready = own.poll_readable(context).is_ready();
                for group in groups {
                    ready |= group.poll_readable(context).is_ready();
                }
                if ready {
                    Poll::Ready(())
                } else {
                    Poll::Pending
                }
            }
            Carrier::Raw(raw) => raw.poll_readable(context),
        }
    }

    /// Whether the kernel takes packets; if not, the task of `context` is woken when it does.
    pub(super) fn poll_writable(&self, context: &mut Context<'_>) -> Poll<()> {
        match self {
            Carrier::Udp { own, .. } => own.poll_writable(context),
            Carrier::Raw(raw) => raw.poll_writable(context),
        }
    }
}
