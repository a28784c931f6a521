//! TCP of the hosts: the users of the connections, and the events of the endpoints.

use core::net::{Ipv4Addr, SocketAddrV4};
use std::collections::BTreeMap;

use layercast_core::{Machine, Time, prefetch};
use layercast_tcp::{ConnId, Endpoint, TcpEvent};
use layercast_workload::app;

use super::network::NodeIndex;
use super::packet::{Body, IP_HEADER, NO_STEP, PacketId, TTL};
use super::stream::hand_over;
use super::world::Internet;
use super::xtp::XtpHost;
use crate::kernel::SourceId;

/// Connections not yet accepted, for each port: we accept immediately.
const BACKLOG: usize = 1 << 20;
/// How much is written at a time to a connection without end.
const CHUNK: u64 = 1 << 20;

/// A host with TCP.
#[derive(Debug)]
pub(super) struct Host {
    pub node: NodeIndex,
    pub endpoint: Endpoint,
    address: Ipv4Addr,
    /// The last destination; the host itself, until it sends.
    peer: Peer,
    /// Only where a flow of XTP begins or ends.
    pub xtp: Option<Box<XtpHost>>,
    timer: SourceId,
    /// For when the timer is scheduled.
    pub scheduled: Option<Time>,
    /// By the slot of the connection.
    sockets: Vec<Socket>,
    /// The users that expect a connection from a peer to one of our ports.
    expected: BTreeMap<(SocketAddrV4, u16), User>,
    is_touched: bool,
    /// Next port for a connection that the other side opens.
    next_port: u16,
}

/// Where a host is found.
#[derive(Clone, Copy, Debug)]
struct Peer {
    address: Ipv4Addr,
    node: NodeIndex,
    /// The first step there.
    step: u32,
}

/// One side of a connection.
#[derive(Clone, Copy, Debug)]
struct Socket {
    user: User,
    /// Bytes to be written yet; `u64::MAX`: without end.
    unsent: u64,
    /// Nothing will be written after these.
    shut: bool,
}

/// The user of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum User {
    Nobody,
    Sender(u32),
    Receiver(u32),
    Conversation {
        slot: u32,
        number: u64,
        conn: app::ConnId,
        end: app::End,
    },
}

impl Host {
    pub fn new(endpoint: Endpoint, node: NodeIndex, address: Ipv4Addr, timer: SourceId) -> Host {
        Host {
            node,
            endpoint,
            address,
            peer: Peer {
                address,
                node,
                step: NO_STEP,
            },
            xtp: None,
            timer,
            scheduled: None,
            sockets: Vec::new(),
            expected: BTreeMap::new(),
            is_touched: false,
            next_port: 0,
        }
    }

    /// The addresses of another node and of itself, if it has sent to that one last.
    #[inline]
    pub fn ends(&self, other: NodeIndex) -> Option<(Ipv4Addr, Ipv4Addr)> {
        (self.peer.node == other).then_some((self.peer.address, self.address))
    }

    /// The first step to the last destination.
    #[inline]
    pub fn last_step(&self) -> u32 {
        self.peer.step
    }

    /// Segments come soon.
    #[inline]
    pub fn prepare_sockets(&self) {
        self.sockets.first().map(prefetch);
    }

    fn attach(&mut self, id: ConnId, user: User) {
        let place = id.index();
        let empty = Socket {
            user: User::Nobody,
            unsent: 0,
            shut: false,
        };
        if self.sockets.len() <= place {
            self.sockets.resize(place + 1, empty);
        }
        self.sockets[place] = Socket { user, ..empty };
    }

    /// The user of a connection; a failed one is gone, but still has its socket.
    fn user(&self, id: ConnId) -> User {
        self.sockets
            .get(id.index())
            .map_or(User::Nobody, |it| it.user)
    }

    fn detach(&mut self, id: ConnId) {
        self.attach(id, User::Nobody);
    }

    /// A port for the other side to connect to.
    fn own_port(&mut self) -> u16 {
        // Below the ephemeral ports, above the well-known ones.
        self.next_port = (self.next_port + 1) % 40_000;
        5_000 + self.next_port
    }
}

impl Internet {
    /// The TCP of a host may have something to say.
    pub(super) fn touch(&mut self, host: u32) {
        let state = &mut self.hosts[host as usize];
        if !std::mem::replace(&mut state.is_touched, true) {
            self.touched.push(host);
        }
    }

    /// Lets all that was touched say what it has to say.
    pub(super) fn settle_hosts(&mut self) {
        while let Some(host) = self.touched.pop() {
            self.hosts[host as usize].is_touched = false;
            self.settle(host);
        }
    }

    #[inline]
    fn settle(&mut self, host: u32) {
        loop {
            // What arrived is read before anything is sent, as a user process would be woken first.
            while let Some(event) = self.hosts[host as usize].endpoint.poll_event() {
                self.tcp_event(host, event);
            }
            // A segment is made where it stays: it is large, and there are many.
            let (id, segment) = self.packets.reserve();
            let state = &mut self.hosts[host as usize];
            let Some((_, dst)) = state
                .endpoint
                .poll_segment(self.now, segment, &mut self.obs)
            else {
                self.packets.remove(id);
                break;
            };
            self.send_segment(host, id, dst);
        }
        let state = &self.hosts[host as usize];
        let next = state.endpoint.next_timeout().map(|at| at.max(self.now));
        if next != state.scheduled {
            self.kernel.schedule(state.timer, next);
            self.hosts[host as usize].scheduled = next;
        }
        if self.hosts[host as usize].xtp.is_some() {
            self.settle_xtp(host);
        }
    }

    #[inline]
    fn send_segment(&mut self, host: u32, id: PacketId, dst: Ipv4Addr) {
        let state = &self.hosts[host as usize];
        let (src, mut peer) = (state.node, state.peer);
        if peer.address != dst {
            let Some(node) = self.addresses.find(dst) else {
                self.drops.no_route += 1;
                return self.packets.remove(id);
            };
            peer = Peer {
                address: dst,
                node,
                step: self.path(src, node),
            };
            self.hosts[host as usize].peer = peer;
        }
        let packet = self.packets.get_mut(id);
        if let Body::Tcp(segment) = &packet.body {
            packet.bytes = IP_HEADER + segment.encoded_len() as u32;
        }
        (packet.src, packet.dst) = (src, peer.node);
        (packet.step, packet.ttl) = (peer.step, TTL);
        self.set_out(src, id);
    }

    fn tcp_event(&mut self, host: u32, event: TcpEvent) {
        let state = &mut self.hosts[host as usize];
        match event {
            TcpEvent::Incoming(port) => {
                while let Some((id, peer)) = self.hosts[host as usize].endpoint.accept(port) {
                    self.accepted(host, id, peer, port);
                }
            }
            TcpEvent::Connected(id) => match state.user(id) {
                User::Sender(_) => self.pump(host, id),
                User::Conversation {
                    slot, number, conn, ..
                } => self.tell(slot, number, app::AppInput::Established { conn }),
                _ => {}
            },
            TcpEvent::Readable(id) => {
                let bytes = state.endpoint.discard(id).unwrap_or(0) as u64;
                match state.user(id) {
                    User::Receiver(flow) => self.flow_received(flow, bytes),
                    User::Conversation {
                        slot,
                        number,
                        conn,
                        end,
                    } => self.tell(slot, number, app::AppInput::Received { conn, end, bytes }),
                    _ => {}
                }
            }
            TcpEvent::Writable(id) => self.pump(host, id),
            TcpEvent::PeerClosed(id) => match state.user(id) {
                User::Receiver(flow) => {
                    self.flow_completed(flow);
                    self.shut(host, id);
                }
                User::Conversation {
                    slot,
                    number,
                    conn,
                    end,
                } => self.tell(slot, number, app::AppInput::Ended { conn, end }),
                _ => self.shut(host, id),
            },
            TcpEvent::Closed(id) => {
                if let User::Conversation {
                    slot, number, conn, ..
                } = self.released(host, id)
                {
                    self.forget_connection(slot, number, conn);
                }
                let _ = self.hosts[host as usize].endpoint.close(self.now, id);
                self.touch(host);
            }
            TcpEvent::Failed(id, _) => {
                // The connection is gone already: nothing can be done to it when its user hears of it.
                if let User::Conversation {
                    slot, number, conn, ..
                } = self.released(host, id)
                {
                    self.tell(slot, number, app::AppInput::Failed { conn });
                }
            }
        }
    }

    /// Releases a connection; returns its user.
    fn released(&mut self, host: u32, id: ConnId) -> User {
        let state = &mut self.hosts[host as usize];
        let user = state.user(id);
        state.detach(id);
        match user {
            User::Sender(flow) => self.flow_closes(flow),
            User::Conversation {
                slot,
                number,
                conn,
                end,
            } => self.parted(slot, number, conn, end),
            _ => {}
        }
        user
    }

    fn accepted(&mut self, host: u32, id: ConnId, peer: SocketAddrV4, port: u16) {
        let state = &mut self.hosts[host as usize];
        let user = state.expected.remove(&(peer, port));
        state.attach(id, user.unwrap_or(User::Nobody));
        match user {
            Some(User::Conversation {
                slot,
                number,
                conn,
                end,
            }) => self.joined(slot, number, conn, end, host, id),
            Some(_) => {}
            None => self.shut(host, id),
        }
    }

    /// Opens a connection; both its sides have their users from now on. Port 0 of the peer: it chooses one.
    pub(super) fn connect(
        &mut self,
        (from, from_port): (u32, u16),
        (to, to_port): (u32, u16),
        users: (User, User),
    ) -> Option<ConnId> {
        let local = self.hosts[from as usize].address;
        let remote = self.hosts[to as usize].address;
        let server = &mut self.hosts[to as usize];
        let to_port = match to_port {
            0 => server.own_port(),
            port => port,
        };
        let now = self.now;
        let client = &mut self.hosts[from as usize];
        let (local, remote) = (
            SocketAddrV4::new(local, from_port),
            SocketAddrV4::new(remote, to_port),
        );
        let id = client.endpoint.connect(now, local, remote).ok()?;
        client.attach(id, users.0);
        let local = client.endpoint.info(id)?.local;
        self.expect(to, local, to_port, users.1);
        self.touch(from);
        Some(id)
    }

    /// Registers the user of an expected connection from a peer to one of a host's ports.
    pub(super) fn expect(&mut self, host: u32, peer: SocketAddrV4, port: u16, user: User) {
        if self.is_elsewhere(self.hosts[host as usize].node) {
            return self.announce(host, peer, port, user);
        }
        let state = &mut self.hosts[host as usize];
        // It may listen there already.
        let _ = state.endpoint.listen(port, BACKLOG);
        state.expected.insert((peer, port), user);
    }

    /// Queues bytes on a connection; `u64::MAX`: without end.
    pub(super) fn write(&mut self, host: u32, id: ConnId, bytes: u64) {
        if let Some(socket) = self.hosts[host as usize].sockets.get_mut(id.index()) {
            socket.unsent = socket.unsent.saturating_add(bytes);
            self.pump(host, id);
        }
    }

    /// Nothing more will be written after what was.
    pub(super) fn shut(&mut self, host: u32, id: ConnId) {
        if let Some(socket) = self.hosts[host as usize].sockets.get_mut(id.index()) {
            socket.shut = true;
            if socket.unsent == u64::MAX {
                socket.unsent = 0;
            }
            self.pump(host, id);
        }
    }

    fn pump(&mut self, host: u32, id: ConnId) {
        let state = &mut self.hosts[host as usize];
        let Some(socket) = state.sockets.get_mut(id.index()) else {
            return;
        };
        let endpoint = &mut state.endpoint;
        hand_over(&mut socket.unsent, CHUNK, |data| endpoint.write(id, data));
        if socket.shut && socket.unsent == 0 {
            let _ = state.endpoint.shutdown(id);
        }
        self.touch(host);
    }
}
