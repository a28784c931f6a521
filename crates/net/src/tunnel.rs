//! One end of a tunnel of parities between two hosts: [`FecEdge`] on sockets.

use std::io;
use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use layercast_core::{AddressBudget, Span, Time, earliest};
use layercast_fec::{ConfigError, EdgeStats, FecEdge, FecEdgeConfig};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::error::NetError;
use crate::outbox::Outbox;
use crate::timer::Timer;
use crate::udp::{Inbound, Udp};

/// Interval of reports.
const SECOND: Span = Span::from_secs(1);

/// One end of a tunnel.
#[derive(Clone, Debug)]
pub struct FecTunnelConfig {
    /// Where datagrams of the peer come.
    pub listen: SocketAddr,
    /// The other end; datagrams from elsewhere are dropped.
    pub peer: SocketAddr,
    /// Where programs of this side send to, and what they get comes from.
    pub inside: SocketAddr,
    /// The program that gets the output; `None`: the one that sent to `inside` last. One on another host, whose
    /// address can be forged, then gets at most three times the octets that came from it.
    pub out: Option<SocketAddr>,
    /// What protects the packets.
    pub edge: FecEdgeConfig,
}

/// What one end of a tunnel did since its start.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct FecTunnelStats {
    /// Packets, loss and parities.
    #[serde(flatten)]
    pub edge: EdgeStats,
    /// Datagrams from other addresses than that of the peer; dropped.
    pub strangers: u64,
    /// Packets without a known program as destination; dropped.
    pub nobody: u64,
    /// Packets for a program on another host, beyond three times the bytes received from it; dropped.
    pub limited: u64,
    /// Datagrams of the tunnel that this host dropped before they could be read.
    pub host_lost: u64,
    /// Datagrams, to the peer or to programs, that this host could not send.
    pub send_failed: u64,
}

/// One end of a tunnel that is bound to its addresses and ready to run.
pub struct FecTunnel {
    edge: FecEdge,
    tunnel: Side,
    inside: Side,
    /// The program that gets the output.
    user: Option<User>,
    fixed: bool,
    nobody: u64,
    limited: u64,
    peer: SocketAddr,
    datagram: Vec<u8>,
    /// What the host had dropped a second ago.
    host_lost: u64,
}

/// A program of this side.
#[derive(Clone, Copy)]
struct User {
    addr: SocketAddr,
    /// The address of this host that it sends to, where the socket has several.
    here: Option<IpAddr>,
    budget: AddressBudget,
}

impl User {
    /// A program that sent something. Addresses of this host are not forged: the kernel takes none of them from
    /// outside.
    fn heard(addr: SocketAddr) -> User {
        let budget = match addr.ip().is_loopback() {
            true => AddressBudget::VALIDATED,
            false => AddressBudget::default(),
        };
        User {
            addr,
            here: None,
            budget,
        }
    }

    /// A program that the configuration names.
    fn named(addr: SocketAddr) -> User {
        User {
            addr,
            here: None,
            budget: AddressBudget::VALIDATED,
        }
    }
}

/// A socket and its queue.
struct Side {
    udp: Udp,
    outbox: Outbox,
}

/// Why a tunnel cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum FecTunnelError {
    /// An address is not to be had.
    #[error(transparent)]
    Net(#[from] NetError),
    /// Packets cannot be protected so.
    #[error(transparent)]
    Code(#[from] ConfigError),
}

impl FecTunnel {
    /// Takes both addresses. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// An address is in use or not one of this machine, or the code has no room in such datagrams.
    pub fn bind(config: &FecTunnelConfig) -> Result<FecTunnel, FecTunnelError> {
        let edge = FecEdge::new(config.edge)?;
        Ok(FecTunnel {
            edge,
            tunnel: Side::bind(config.listen, config.peer)?,
            inside: Side::bind(config.inside, config.out.unwrap_or(config.inside))?,
            user: config.out.map(User::named),
            fixed: config.out.is_some(),
            nobody: 0,
            limited: 0,
            peer: config.peer,
            datagram: Vec::new(),
            host_lost: 0,
        })
    }

    /// Where datagrams of the peer come.
    pub fn local_addr(&self) -> SocketAddr {
        self.tunnel.udp.local_addr()
    }

    /// Where programs of this side send to.
    pub fn inside_addr(&self) -> SocketAddr {
        self.inside.udp.local_addr()
    }

    /// Carries packets until `shutdown`; calls `report` with the counters once a second.
    ///
    /// Where this host drops datagrams of the tunnel, because it is too slow, the next second goes without decoding
    /// ([`FecEdge::set_bypass`]).
    ///
    /// # Errors
    /// The system refuses timers.
    pub async fn run(
        mut self,
        shutdown: CancellationToken,
        mut report: impl FnMut(&FecTunnelStats),
    ) -> Result<FecTunnelStats, NetError> {
        let clock = Clock::get();
        let mut timer = Timer::new().map_err(NetError::system("creating a timer"))?;
        let mut report_at = clock.now() + SECOND;
        loop {
            let now = clock.now();
            timer.served(now);
            let more = self.receive(now);
            self.edge.on_timeout(now);
            self.send();
            if shutdown.is_cancelled() {
                return Ok(self.stats());
            }
            if report_at <= now {
                report_at = now + SECOND;
                let stats = self.stats();
                self.edge.set_bypass(stats.host_lost > self.host_lost);
                self.host_lost = stats.host_lost;
                report(&stats);
            }
            if more {
                tokio::task::yield_now().await;
                continue;
            }
            timer
                .arm(earliest(self.edge.next_timeout(), Some(report_at)))
                .map_err(NetError::system("setting a timer"))?;
            tokio::select! {
                expired = timer.expired() => expired.map_err(NetError::system("waiting for a timer"))?,
                // An error of a socket is one that another host caused: reading clears it.
                _ = self.tunnel.udp.readable() => {}
                _ = self.inside.udp.readable() => {}
                _ = self.tunnel.drained() => {}
                _ = self.inside.drained() => {}
                () = shutdown.cancelled() => {}
            }
        }
    }

    /// What happened so far.
    pub fn stats(&self) -> FecTunnelStats {
        let (tunnel, inside) = (self.tunnel.udp.stats(), self.inside.udp.stats());
        FecTunnelStats {
            edge: self.edge.stats(),
            strangers: tunnel.unknown,
            nobody: self.nobody,
            limited: self.limited,
            host_lost: tunnel.host_lost,
            send_failed: tunnel.send_failed + inside.send_failed,
        }
    }

    /// Takes what the sockets have, but not forever; says whether there may be more.
    fn receive(&mut self, now: Time) -> bool {
        let Side { udp, outbox } = &mut self.tunnel;
        let mut from_peer = FromPeer {
            now,
            peer: self.peer,
            edge: &mut self.edge,
            outbox,
        };
        let mut more = udp.receive_turn(&mut from_peer);
        let mut from_user = FromUser {
            now,
            user: (!self.fixed).then_some(&mut self.user),
            edge: &mut self.edge,
        };
        more |= self.inside.udp.receive_turn(&mut from_user);
        more
    }

    /// Hands everything that the machine has to the kernel.
    fn send(&mut self) {
        while self.edge.poll_transmit(&mut self.datagram) {
            self.tunnel.push(&self.datagram);
        }
        self.tunnel.flush();
        if let Some(user) = self.user {
            // Datagrams queued for a former program are still sent to it.
            self.inside.outbox.redirect(user.addr);
            self.inside.outbox.send_from(user.here);
        }
        while let Some(packet) = self.edge.poll_packet() {
            let user = self.user.as_mut();
            match user.map(|user| user.budget.send(packet.len())) {
                Some(true) => self.inside.push(&packet),
                Some(false) => self.limited += 1,
                None => self.nobody += 1,
            }
        }
        self.inside.flush();
    }
}

impl Side {
    fn bind(local: SocketAddr, to: SocketAddr) -> Result<Side, NetError> {
        let failed = |source| NetError::bind(local, source);
        // Marks of congestion do not cross the tunnel: routers are to drop instead.
        let udp = Udp::bind(local).map_err(failed)?.without_ecn();
        let outbox = Outbox::new(to);
        Ok(Side { udp, outbox })
    }

    fn push(&mut self, datagram: &[u8]) {
        let write = |out: &mut Vec<u8>| out.extend_from_slice(datagram);
        if !self.outbox.push(datagram.len(), false, write) {
            self.udp.count_send_failed(1);
        }
    }

    fn flush(&mut self) {
        // What the kernel does not take waits in the box.
        let _ = self.udp.flush(&mut self.outbox);
    }

    /// Waits until the kernel takes the queue; forever if it is empty.
    async fn drained(&self) -> io::Result<()> {
        match self.outbox.waiting() {
            0 => std::future::pending().await,
            _ => self.udp.writable().await,
        }
    }
}

/// Datagrams of the tunnel.
struct FromPeer<'a> {
    now: Time,
    peer: SocketAddr,
    edge: &'a mut FecEdge,
    /// Datagrams to the peer.
    outbox: &'a mut Outbox,
}

impl Inbound for FromPeer<'_> {
    type Key = ();

    fn known(&mut self, addr: SocketAddr) -> Option<()> {
        (addr == self.peer).then_some(())
    }

    fn called_at(&mut self, (): (), here: IpAddr) {
        self.outbox.send_from(Some(here));
    }

    fn deliver(&mut self, (): (), datagram: Bytes, _congestion: bool) {
        self.edge.receive(self.now, &datagram);
    }
}

/// Packets of the programs of this side.
struct FromUser<'a> {
    now: Time,
    /// The program that gets the answers, if that is the last sender.
    user: Option<&'a mut Option<User>>,
    edge: &'a mut FecEdge,
}

impl Inbound for FromUser<'_> {
    type Key = ();

    fn known(&mut self, addr: SocketAddr) -> Option<()> {
        if let Some(user) = &mut self.user
            && user.is_none_or(|user| user.addr != addr)
        {
            **user = Some(User::heard(addr));
        }
        Some(())
    }

    fn called_at(&mut self, (): (), here: IpAddr) {
        if let Some(Some(user)) = &mut self.user {
            user.here = Some(here);
        }
    }

    fn deliver(&mut self, (): (), packet: Bytes, _congestion: bool) {
        if let Some(Some(user)) = &mut self.user {
            user.budget.receive(packet.len());
        }
        self.edge.send(self.now, &packet);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_elsewhere_gets_three_times_what_it_sent_and_one_here_everything() {
        let mut elsewhere = User::heard(([192, 0, 2, 1], 5_000).into());
        elsewhere.budget.receive(100);
        assert!(elsewhere.budget.send(300) && !elsewhere.budget.send(1));
        for mut user in [
            User::heard(([127, 0, 0, 1], 5_000).into()),
            User::named(([192, 0, 2, 1], 5_000).into()),
        ] {
            assert!(user.budget.send(1 << 20));
        }
    }
}
