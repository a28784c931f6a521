//! An emulated path between two programs that speak UDP.
//!
//! Datagrams to one address are forwarded to another, and the answers back, through a [`Path`] each way: the
//! queue and line of a switch port, delay, jitter, loss. Each client gets a socket of its own towards the other
//! side, as a NAT does it, and all share the two paths. TCP connections to the same port number are carried as
//! well, late but without loss.

mod carry;
mod sessions;

use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use layercast_core::{Machine, Off, Span, Time, earliest};
use layercast_link::{Path, PathConfig, PathDatagram, PathStats};
use serde::Serialize;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::error::NetError;
use crate::node::bind_both;
use crate::relay::carry::{Carrier, Wanted};
use crate::relay::sessions::{SessionId, Sessions};
use crate::timer::Timer;
use crate::udp::{Inbound, Udp};

/// What UDP and IP add to a datagram on the line.
const UDP_IP_HEADER: usize = 28;
/// Interval of reports.
const SECOND: Span = Span::from_secs(1);

/// An emulated path.
#[derive(Clone, Debug)]
pub struct RelayConfig {
    /// Where clients send to.
    pub listen: SocketAddr,
    /// Where their datagrams go.
    pub to: SocketAddr,
    /// The way of the clients' datagrams.
    pub there: PathConfig,
    /// The way of the answers.
    pub back: PathConfig,
    /// Seed of all randomness.
    pub seed: u64,
    /// Clients at a time; the one silent for longest makes room.
    pub max_clients: usize,
    /// Whether the addresses of clients are believed. If not, a client on another host gets at most three times
    /// the octets that came from it, unless a TCP connection came from its address (RFC 9000, 8.1).
    pub believe_clients: bool,
    /// Port from which the datagrams of the only client continue; `None`: any, and another for each client.
    pub from_port: Option<u16>,
}

/// Counters of an emulated path.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct RelayStats {
    /// The path from the clients.
    pub there: PathStats,
    /// The path to the clients.
    pub back: PathStats,
    /// Clients since the start.
    pub clients: u64,
    /// TCP connections since the start.
    pub connections: u64,
    /// Datagrams from the far side for clients that are gone.
    pub strangers: u64,
    /// Answers dropped because they exceed three times the bytes received from a client whose address is not
    /// validated.
    pub limited: u64,
}

/// A datagram on its way: whose it is.
type Item = (SessionId, Bytes);

/// An emulated path that is bound to its address and ready to run.
pub struct Relay {
    listener: TcpListener,
    paths: Paths,
}

/// Both paths and their users.
struct Paths {
    config: RelayConfig,
    front: Udp,
    there: Path<Item>,
    back: Path<Item>,
    sessions: Sessions,
    connections: u64,
}

impl Relay {
    /// Takes the TCP and the UDP port.
    ///
    /// # Errors
    /// They are in use, the address is not one of this machine, or the path is impossible.
    pub async fn bind(config: RelayConfig) -> Result<Relay, NetError> {
        let there = Path::new(config.there.clone(), config.seed, "there")?;
        let back = Path::new(config.back.clone(), config.seed, "back")?;
        let (listener, front) = bind_both(config.listen, Udp::bind).await?;
        let paths = Paths {
            sessions: Sessions::new(
                config.to,
                config.max_clients,
                (config.believe_clients, config.from_port),
            ),
            front,
            there,
            back,
            connections: 0,
            config,
        };
        Ok(Relay { listener, paths })
    }

    /// Where clients reach it.
    pub fn local_addr(&self) -> SocketAddr {
        self.paths.front.local_addr()
    }

    /// Carries datagrams until `shutdown`; sends the counters to `statistics` once a second.
    ///
    /// # Errors
    /// The system refuses timers.
    pub async fn run(
        self,
        shutdown: CancellationToken,
        statistics: mpsc::Sender<RelayStats>,
    ) -> Result<RelayStats, NetError> {
        let Relay { listener, paths } = self;
        let carrier = Carrier {
            to: paths.config.to,
            there: paths.config.there.link.delay,
            back: paths.config.back.link.delay,
        };
        let wanted = carrier.listen(listener, &shutdown);
        paths.run(wanted, shutdown, statistics).await
    }
}

impl Paths {
    async fn run(
        mut self,
        mut wanted: mpsc::Receiver<Wanted>,
        shutdown: CancellationToken,
        statistics: mpsc::Sender<RelayStats>,
    ) -> Result<RelayStats, NetError> {
        let clock = Clock::get();
        let mut timer = Timer::new().map_err(NetError::system("creating a timer"))?;
        let failed = |source| NetError::System {
            what: "setting a timer",
            source,
        };
        let mut report_at = clock.now() + SECOND;
        let front_port = self.front.local_addr().port();
        loop {
            let now = clock.now();
            timer.served(now);
            let more = self.receive(now);
            self.deliver(now);
            if shutdown.is_cancelled() {
                return Ok(self.stats());
            }
            if report_at <= now {
                // There may be no listener.
                let _ = statistics.try_send(self.stats());
                report_at += SECOND;
            }
            if more {
                tokio::task::yield_now().await;
                continue;
            }
            let paths = earliest(self.there.next_timeout(), self.back.next_timeout());
            let wake = earliest(paths, Some(report_at));
            timer.arm(wake).map_err(failed)?;
            tokio::select! {
                expired = timer.expired() => expired.map_err(failed)?,
                () = self.sessions.readable(&self.front) => {}
                Some(wanted) = wanted.recv() => {
                    self.connections += u64::from(wanted.client.is_none());
                    self.place(now, wanted, front_port);
                }
                () = shutdown.cancelled() => {}
            }
        }
    }

    /// Finds the datagram port of a client that speaks over TCP which port it has.
    fn place(&mut self, now: Time, wanted: Wanted, front_port: u16) {
        let Wanted {
            client,
            here,
            far,
            reply,
        } = wanted;
        let port = match client {
            Some(client) => self.sessions.for_caller(now, client),
            None => None,
        };
        if let (Some(id), Some(here)) = (port, here) {
            self.sessions.called_at(id, here);
        }
        if let (Some(id), Some(far)) = (port, far) {
            self.sessions.redirect(id, far);
        }
        let port = port.and_then(|id| self.sessions.port(id));
        // A connection that is gone needs no answer.
        let _ = reply.send((port.unwrap_or(0), front_port));
    }

    /// Takes what the sockets have, but not forever; says whether there may be more.
    fn receive(&mut self, now: Time) -> bool {
        let mut more = false;
        let mut from_clients = FromClients {
            now,
            sessions: &mut self.sessions,
            path: &mut self.there,
        };
        more |= self.front.receive_turn(&mut from_clients);
        let path = &mut self.back;
        more | self.sessions.receive(|id, bytes, congestion| {
            path.handle(now, on_line((id, bytes), congestion), &mut Off);
        })
    }

    /// Hands on what has arrived at the ends of the paths.
    fn deliver(&mut self, now: Time) {
        while let Some(out) = self.there.poll_transmit(now, &mut Off) {
            let (id, bytes) = out.item;
            self.sessions.send_far(id, &bytes, out.congestion);
        }
        while let Some(out) = self.back.poll_transmit(now, &mut Off) {
            let (id, bytes) = out.item;
            self.sessions.send_near(id, &bytes, out.congestion);
        }
        self.sessions.flush(&mut self.front);
    }

    fn stats(&self) -> RelayStats {
        RelayStats {
            there: self.there.stats(),
            back: self.back.stats(),
            clients: self.sessions.opened(),
            connections: self.connections,
            strangers: self.sessions.strangers(),
            limited: self.sessions.limited(),
        }
    }
}

/// Datagrams of the clients, on their way into the path.
struct FromClients<'a> {
    now: Time,
    sessions: &'a mut Sessions,
    path: &'a mut Path<Item>,
}

impl Inbound for FromClients<'_> {
    type Key = SessionId;

    fn known(&mut self, addr: SocketAddr) -> Option<SessionId> {
        self.sessions.for_client(self.now, addr)
    }

    fn called_at(&mut self, from: SessionId, here: IpAddr) {
        self.sessions.called_at(from, here);
    }

    fn deliver(&mut self, from: SessionId, datagram: Bytes, congestion: bool) {
        self.sessions.heard(from, datagram.len());
        self.path
            .handle(self.now, on_line((from, datagram), congestion), &mut Off);
    }
}

fn on_line(item: Item, congestion: bool) -> PathDatagram<Item> {
    PathDatagram {
        wire_len: item.1.len() + UDP_IP_HEADER,
        item,
        congestion,
    }
}
