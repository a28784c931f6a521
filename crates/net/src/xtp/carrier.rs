use std::net::SocketAddr;
use std::task::{Context, Poll};

use bytes::Bytes;
use layercast_core::{Off, Time};
use layercast_transport::xtp::Endpoint;
use layercast_wire::XTP_HEADER;

use super::raw::RawIp;
use crate::outbox::Outbox;
use crate::udp::{Inbound, Udp};

/// Bytes of an IP packet that an Ethernet takes.
const MTU: usize = 1_500;

/// What carries the packets of XTP.
pub(super) enum Carrier {
    /// Datagrams of UDP, without a header of their own (xtp.md 6.15).
    Udp(Udp),
    /// IP packets of protocol 36.
    Raw(RawIp),
}

/// The endpoint as one who takes datagrams.
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
            Carrier::Udp(udp) => udp.local_addr(),
            Carrier::Raw(raw) => raw.local_addr(),
        }
    }

    /// User bytes of a packet that fits into one IP packet of Ethernet.
    pub(super) fn max_data(&self) -> u32 {
        let ip = if self.local_addr().is_ipv6() { 40 } else { 20 };
        let udp = match self {
            Carrier::Udp(_) => 8,
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
            Carrier::Udp(udp) => udp.receive(&mut taker),
            Carrier::Raw(raw) => raw.receive(&mut taker),
        }
    }

    /// Hands `outbox` to the kernel; `false` if it must be tried again.
    pub(super) fn flush(&mut self, outbox: &mut Outbox) -> bool {
        match self {
            Carrier::Udp(udp) => udp.flush(outbox),
            Carrier::Raw(raw) => raw.flush(outbox),
        }
    }

    /// Whether there is something to read; if not, the task of `context` is woken when there is.
    pub(super) fn poll_readable(&self, context: &mut Context<'_>) -> Poll<()> {
        match self {
            Carrier::Udp(udp) => udp.poll_readable(context),
            Carrier::Raw(raw) => raw.poll_readable(context),
        }
    }

    /// Whether the kernel takes packets; if not, the task of `context` is woken when it does.
    pub(super) fn poll_writable(&self, context: &mut Context<'_>) -> Poll<()> {
        match self {
            Carrier::Udp(udp) => udp.poll_writable(context),
            Carrier::Raw(raw) => raw.poll_writable(context),
        }
    }
}
