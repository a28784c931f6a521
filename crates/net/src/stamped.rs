//! A UDP socket whose datagrams have the time of their arrival.

use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;

use layercast_core::{Span, Time};
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, setsockopt, sockopt,
};
use rustix::time::{ClockId, clock_gettime};
use tokio::io::Interest;
use tokio::net::UdpSocket;

use crate::classed::address;
use crate::clock::{Clock, monotonic_ns};
use crate::error::NetError;

/// How finely arrivals are stamped where the kernel does not: this process reads several together.
pub const COARSE: Span = Span::from_ms(1);
/// Largest datagram that is read whole; longer ones are no probes.
const LARGEST: usize = 2_048;
/// The two clocks are read again if that takes longer: the process was interrupted.
const READ_WITHIN_NS: u64 = 20_000;
const READINGS: u32 = 4;

/// A UDP socket that stamps arrivals by the kernel where it does that.
#[derive(Debug)]
pub struct StampedUdp {
    socket: UdpSocket,
    local: SocketAddr,
    buffer: Vec<u8>,
    control: Vec<u8>,
    /// Whether the last datagram had a stamp of the kernel.
    is_stamped: bool,
}

impl StampedUdp {
    /// Binds to an address; within a tokio runtime.
    pub fn bind(local: SocketAddr) -> Result<StampedUdp, NetError> {
        let open = || {
            let socket = std::net::UdpSocket::bind(local)?;
            socket.set_nonblocking(true)?;
            // Without stamps of the kernel, those of this process are used.
            let _ = setsockopt(&socket, sockopt::ReceiveTimestampns, &true);
            let local = socket.local_addr()?;
            Ok((UdpSocket::from_std(socket)?, local))
        };
        let (socket, local) = open().map_err(|error| NetError::bind(local, error))?;
        Ok(StampedUdp {
            socket,
            local,
            buffer: vec![0; LARGEST],
            control: nix::cmsg_space!(nix::sys::time::TimeSpec),
            is_stamped: false,
        })
    }

    /// The address it is bound to.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// How finely the last datagram was stamped; zero: by the kernel.
    pub fn resolution(&self) -> Span {
        match self.is_stamped {
            true => Span::ZERO,
            false => COARSE,
        }
    }

    /// Waits until there is something to read.
    pub async fn readable(&self) -> io::Result<()> {
        self.socket.readable().await
    }

    /// The next datagram that is there, with its arrival and its sender.
    pub fn try_receive(&mut self) -> Option<(Time, SocketAddr, &[u8])> {
        let (socket, buffer, control) = (&self.socket, &mut self.buffer, &mut self.control);
        let fd = socket.as_raw_fd();
        let got = socket.try_io(Interest::READABLE, || {
            let mut parts = [IoSliceMut::new(buffer)];
            let flags = MsgFlags::MSG_DONTWAIT;
            let message = recvmsg::<SockaddrStorage>(fd, &mut parts, Some(control), flags)?;
            let stamp = message.cmsgs()?.find_map(|it| match it {
                ControlMessageOwned::ScmTimestampns(stamp) => Some(stamp),
                _ => None,
            });
            Ok((message.bytes, message.address, stamp))
        });
        // Nothing there, or an error that another host caused (ICMP).
        let (length, from, stamp) = got.ok()?;
        let from = address(&from?)?;
        let at = stamp.and_then(|it| {
            let seconds = u64::try_from(it.tv_sec()).ok()?;
            let ns = u64::try_from(it.tv_nsec()).ok()?;
            at_realtime(seconds.checked_mul(1_000_000_000)?.checked_add(ns)?)
        });
        self.is_stamped = at.is_some();
        let at = at.unwrap_or_else(|| Clock::get().now());
        Some((at, from, &self.buffer[..length]))
    }

    /// Sends a datagram; one that the kernel refuses is lost like one on the path.
    pub async fn send(&self, to: SocketAddr, datagram: &[u8]) {
        let _ = self.socket.send_to(datagram, to).await;
    }
}

/// The instant at which `CLOCK_REALTIME` showed `ns`; `None`: that is later than now, because the clock was set.
fn at_realtime(ns: u64) -> Option<Time> {
    let mut best: Option<(u64, u64, u64)> = None;
    for _ in 0..READINGS {
        let before = monotonic_ns();
        let now = clock_gettime(ClockId::Realtime);
        let took = monotonic_ns().saturating_sub(before);
        let realtime = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
        if best.is_none_or(|it| took < it.0) {
            best = Some((took, before + took / 2, realtime));
        }
        if took <= READ_WITHIN_NS {
            break;
        }
    }
    let (_, monotonic, realtime) = best?;
    let ago = realtime.checked_sub(ns)?;
    // A clock that was set after the arrival: the stamp says nothing.
    (ago < 60_000_000_000).then(|| Clock::get().at_monotonic(monotonic.saturating_sub(ago)))
}
