//! TCP of the hosts: the users of the connections, and the events of the endpoints.
//!
//! What users have to know is returned as [`Upcall`]s: the world gives it to them.

use core::net::{Ipv4Addr, SocketAddrV4};
use std::collections::BTreeMap;

use layercast_core::{Machine, Time, prefetch};
use layercast_tcp::{ConnId, Ecn, Endpoint, TcpCounts, TcpEvent};
use layercast_wire::TcpSegment;
use layercast_workload::app::{self, AppInput};

use super::stream::hand_over;
use crate::internet::discipline::Dscp;
use crate::internet::engine::{Engine, PacketId, Source};
use crate::internet::medium::Medium;
use crate::internet::medium::ecmp::{Conversation, FlowMark};
use crate::internet::medium::packet::{Body, IP_HEADER, TTL};
use crate::internet::medium::paths::First;
use crate::internet::medium::user::User;
use crate::internet::network::NodeIndex;
use crate::internet::series::TcpState;
use crate::kernel::SourceId;

/// Connections not yet accepted, for each port: we accept immediately.
const BACKLOG: usize = 1 << 20;
/// How much is written at a time to a connection without end.
const CHUNK: u64 = 1 << 20;

/// A host with TCP.
#[derive(Debug)]
pub(crate) struct Host {
    pub node: NodeIndex,
    pub endpoint: Endpoint,
    address: Ipv4Addr,
    /// The last destination; the host itself, until it sends.
    peer: Peer,
    timer: SourceId,
    /// For when the timer is scheduled.
    scheduled: Option<Time>,
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
    /// The ports of the last segment there.
    ports: (u16, u16),
    flow: FlowMark,
    dscp: Dscp,
    first: First,
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

/// What happened to a connection and is for its user to know.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Upcall {
    /// The receiver of a flow has everything.
    Completed(u32),
    /// The connection of the sender of a flow is about to go, or failed; this is what it counted, if it still knows.
    Closes(u32, Option<TcpCounts>, End),
    /// The receiver of a transfer has everything.
    Arrived(u32),
    /// The connection of the sender of a transfer failed.
    GaveUp(u32),
    /// A conversation hears of one of its connections.
    Tells {
        slot: u32,
        number: u64,
        input: AppInput,
    },
    /// One side of a connection of a conversation is there: at a host, by this id.
    Joined(Side, u32, ConnId),
    /// One side closed in good order.
    Closed(Side),
    /// One side failed.
    Failed(Side),
}

/// How a connection ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    InOrder,
    Failed,
}

/// One side of a connection of a conversation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Side {
    pub slot: u32,
    pub number: u64,
    pub conn: app::ConnId,
    pub end: app::End,
}

/// All hosts with TCP.
#[derive(Debug)]
pub(crate) struct TcpHosts {
    all: Vec<Host>,
    /// Those that have been touched and may have something to say.
    touched: Vec<u32>,
    /// For the users, in the order in which it happened.
    pub upcalls: Vec<Upcall>,
    /// What the receiver of each flow has got, in bytes: each segment counts.
    pub received: Vec<u64>,
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
                ports: (0, 0),
                flow: FlowMark::default(),
                dscp: Dscp::default(),
                first: First::UNKNOWN,
            },
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
        self.peer.first.step
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

    #[inline]
    fn send_segment(&mut self, id: PacketId, dst: Ipv4Addr, ecn: Ecn, medium: &mut Medium) {
        let packet = medium.packets.get_mut(id);
        let Body::Tcp(segment) = &packet.body else {
            return medium.packets.remove(id);
        };
        packet.bytes = IP_HEADER + segment.encoded_len() as u32;
        let ports = (segment.src_port, segment.dst_port);
        let is_of_all = self.peer.first.is_of_all && medium.dscps.is_empty();
        let is_known = self.peer.address == dst && (is_of_all || self.peer.ports == ports);
        if !is_known && !self.find_peer(dst, ports, medium) {
            medium.drops.no_route += 1;
            return medium.packets.remove(id);
        }
        let (src, peer) = (self.node, self.peer);
        let packet = medium.packets.get_mut(id);
        (packet.src, packet.dst) = (src, peer.node);
        (packet.step, packet.flow) = (peer.first.step, peer.flow);
        (packet.ttl, packet.ecn, packet.dscp) = (TTL, ecn, peer.dscp);
        medium.set_out(src, id);
    }

    /// Another destination, or another flow to the last one; `false` if no node has that address.
    fn find_peer(&mut self, address: Ipv4Addr, ports: (u16, u16), medium: &mut Medium) -> bool {
        let Some(node) = medium.addresses.find(address) else {
            return false;
        };
        let conversation = Conversation::tcp(ports);
        let flow = conversation.mark(self.address, address);
        self.peer = Peer {
            address,
            node,
            ports,
            flow,
            dscp: medium.dscp(conversation, (self.node, node)),
            first: medium.path(self.node, node, flow),
        };
        true
    }

    /// A port for the other side to connect to.
    fn own_port(&mut self) -> u16 {
        // Below the ephemeral ports, above the well-known ones.
        self.next_port = (self.next_port + 1) % 40_000;
        5_000 + self.next_port
    }
}

impl TcpHosts {
    /// None yet, for a network with this many flows.
    pub fn new(flows: usize) -> TcpHosts {
        TcpHosts {
            all: Vec::new(),
            touched: Vec::new(),
            upcalls: Vec::new(),
            received: vec![0; flows],
        }
    }

    /// Adds a host; gives its number.
    pub fn add(
        &mut self,
        endpoint: Endpoint,
        node: NodeIndex,
        name: &str,
        medium: &mut Medium,
    ) -> u32 {
        let number = self.all.len() as u32;
        let timer = medium.engine.add(Source::Tcp(number), name);
        let address = medium.node_addresses[node.0 as usize];
        self.all.push(Host::new(endpoint, node, address, timer));
        number
    }

    /// The host with this number.
    #[inline(always)]
    pub fn get(&self, host: u32) -> &Host {
        &self.all[host as usize]
    }

    /// The name of a host.
    pub fn name(&self, host: u32) -> &str {
        self.all[host as usize].endpoint.name()
    }

    /// Swaps the hosts that `is_swapped` with those of another world.
    pub fn swap(&mut self, other: &mut TcpHosts, is_swapped: impl Fn(NodeIndex) -> bool) {
        for (host, others) in self.all.iter_mut().zip(&mut other.all) {
            if is_swapped(host.node) {
                std::mem::swap(host, others);
            }
        }
    }

    /// A port of a host for a connection to be opened later, as long as there is one that is not given yet.
    pub fn reserve_port(&mut self, host: u32) -> Option<u16> {
        self.all[host as usize].endpoint.reserve_port()
    }

    /// What a connection counted, if it is still there.
    pub fn counts(&self, host: u32, id: ConnId) -> Option<TcpCounts> {
        self.all[host as usize].endpoint.counts(id)
    }

    /// What a connection is now, for a series, if it is still there.
    pub fn state(&self, host: u32, id: ConnId) -> Option<TcpState> {
        let endpoint = &self.all[host as usize].endpoint;
        let (info, counts) = (endpoint.info(id)?, endpoint.counts(id)?);
        Some(TcpState::new(&info, &counts))
    }

    /// The TCP of a host may have something to say.
    #[inline]
    fn touch(&mut self, host: u32) {
        let state = &mut self.all[host as usize];
        if !std::mem::replace(&mut state.is_touched, true) {
            self.touched.push(host);
        }
    }

    /// Whether a host is touched.
    #[inline(always)]
    pub fn is_touched(&self) -> bool {
        !self.touched.is_empty()
    }

    /// A touched host, which is to be [settled](Self::settle).
    #[inline(always)]
    pub fn next_touched(&mut self) -> Option<u32> {
        let host = self.touched.pop()?;
        self.all[host as usize].is_touched = false;
        Some(host)
    }

    /// A timer of a host is due.
    pub fn wake(&mut self, host: u32, engine: &mut Engine) {
        let state = &mut self.all[host as usize];
        engine.kernel.schedule(state.timer, None);
        state.scheduled = None;
        state.endpoint.on_timeout(engine.now, &mut engine.obs);
        self.touch(host);
    }

    /// A packet came to a host; false if it is no segment.
    #[inline(always)]
    pub fn receive(&mut self, host: u32, id: PacketId, medium: &mut Medium) -> bool {
        let packet = medium.packets.get_mut(id);
        let (src, ecn) = (packet.src, packet.ecn);
        let Body::Tcp(segment) = &mut packet.body else {
            return false;
        };
        let state = &mut self.all[host as usize];
        let address = |node: NodeIndex| medium.node_addresses[node.0 as usize];
        let ends = state.ends(src);
        let ends = ends.unwrap_or_else(|| (address(src), state.address));
        let Engine { now, obs, .. } = &mut medium.engine;
        state.endpoint.receive(*now, ends, ecn, segment, obs);
        medium.packets.remove(id);
        self.touch(host);
        true
    }

    /// A segment of a real program came to a host.
    pub fn receive_real(
        &mut self,
        host: u32,
        (from, ecn): (Ipv4Addr, Ecn),
        mut segment: TcpSegment,
        engine: &mut Engine,
    ) {
        let state = &mut self.all[host as usize];
        let ends = (from, state.address);
        state
            .endpoint
            .receive(engine.now, ends, ecn, &mut segment, &mut engine.obs);
        self.touch(host);
    }

    /// Lets a host say what it has to say. True if its users have to hear something first: then it is to be settled again.
    #[inline]
    pub fn settle(&mut self, host: u32, medium: &mut Medium) -> bool {
        loop {
            // What arrived is read before anything is sent, as a user process would be woken first.
            while let Some(event) = self.all[host as usize].endpoint.poll_event() {
                self.event(host, event, &medium.engine);
                if !self.upcalls.is_empty() {
                    return true;
                }
            }
            // A segment is made where it stays: it is large, and there are many.
            let (id, segment) = medium.packets.reserve();
            let state = &mut self.all[host as usize];
            let Engine { now, obs, .. } = &mut medium.engine;
            let Some((_, dst, ecn)) = state.endpoint.poll_segment(*now, segment, obs) else {
                medium.packets.remove(id);
                break;
            };
            state.send_segment(id, dst, ecn, medium);
        }
        let state = &mut self.all[host as usize];
        let Engine { now, kernel, .. } = &mut medium.engine;
        let next = state.endpoint.next_timeout().map(|at| at.max(*now));
        if next != state.scheduled {
            kernel.schedule(state.timer, next);
            state.scheduled = next;
        }
        false
    }

    fn event(&mut self, host: u32, event: TcpEvent, engine: &Engine) {
        let state = &mut self.all[host as usize];
        match event {
            TcpEvent::Incoming(port) => {
                while let Some((id, peer)) = self.all[host as usize].endpoint.accept(port) {
                    self.accepted(host, id, peer, port);
                }
            }
            TcpEvent::Connected(id) => match state.user(id) {
                User::Sender(_) | User::Source(_) => self.pump(host, id),
                User::Conversation {
                    slot, number, conn, ..
                } => self.tell(slot, number, AppInput::Established { conn }),
                _ => {}
            },
            TcpEvent::Readable(id) => {
                let bytes = state.endpoint.discard(id).unwrap_or(0) as u64;
                match state.user(id) {
                    User::Receiver(flow) => self.received[flow as usize] += bytes,
                    User::Conversation {
                        slot,
                        number,
                        conn,
                        end,
                    } => self.tell(slot, number, AppInput::Received { conn, end, bytes }),
                    _ => {}
                }
            }
            TcpEvent::Writable(id) => self.pump(host, id),
            TcpEvent::PeerClosed(id) => match state.user(id) {
                User::Receiver(flow) => {
                    self.upcalls.push(Upcall::Completed(flow));
                    self.shut(host, id);
                }
                User::Sink(transfer) => {
                    self.upcalls.push(Upcall::Arrived(transfer));
                    self.shut(host, id);
                }
                User::Conversation {
                    slot,
                    number,
                    conn,
                    end,
                } => self.tell(slot, number, AppInput::Ended { conn, end }),
                _ => self.shut(host, id),
            },
            TcpEvent::Closed(id) => {
                self.release(host, id, End::InOrder);
                let _ = self.all[host as usize].endpoint.close(engine.now, id);
                self.touch(host);
            }
            // The connection is gone already: nothing can be done to it when its user hears of it.
            TcpEvent::Failed(id, _) => {
                if let User::Source(transfer) = state.user(id) {
                    self.upcalls.push(Upcall::GaveUp(transfer));
                }
                self.release(host, id, End::Failed);
            }
        }
    }

    fn tell(&mut self, slot: u32, number: u64, input: AppInput) {
        self.upcalls.push(Upcall::Tells {
            slot,
            number,
            input,
        });
    }

    /// Releases a connection; its user hears of it.
    fn release(&mut self, host: u32, id: ConnId, how: End) {
        let state = &mut self.all[host as usize];
        let user = state.user(id);
        state.detach(id);
        match user {
            User::Sender(flow) => {
                let counts = state.endpoint.counts(id);
                self.upcalls.push(Upcall::Closes(flow, counts, how));
            }
            User::Conversation {
                slot,
                number,
                conn,
                end,
            } => {
                let side = Side {
                    slot,
                    number,
                    conn,
                    end,
                };
                self.upcalls.push(match how {
                    End::InOrder => Upcall::Closed(side),
                    End::Failed => Upcall::Failed(side),
                });
            }
            User::Receiver(_) | User::Source(_) | User::Sink(_) | User::Nobody => {}
        }
    }

    fn accepted(&mut self, host: u32, id: ConnId, peer: SocketAddrV4, port: u16) {
        let state = &mut self.all[host as usize];
        let user = state.expected.remove(&(peer, port));
        state.attach(id, user.unwrap_or(User::Nobody));
        match user {
            Some(User::Conversation {
                slot,
                number,
                conn,
                end,
            }) => {
                let side = Side {
                    slot,
                    number,
                    conn,
                    end,
                };
                self.upcalls.push(Upcall::Joined(side, host, id));
            }
            Some(_) => {}
            None => self.shut(host, id),
        }
    }

    /// Opens a connection; both its sides have their users from now on. Port 0 of the peer: it chooses one.
    pub fn connect(
        &mut self,
        (from, from_port): (u32, u16),
        (to, to_port): (u32, u16),
        users: (User, User),
        medium: &mut Medium,
    ) -> Option<ConnId> {
        let local = self.all[from as usize].address;
        let remote = self.all[to as usize].address;
        let server = &mut self.all[to as usize];
        let to_port = match to_port {
            0 => server.own_port(),
            port => port,
        };
        let client = &mut self.all[from as usize];
        let (local, remote) = (
            SocketAddrV4::new(local, from_port),
            SocketAddrV4::new(remote, to_port),
        );
        let now = medium.engine.now;
        let id = client.endpoint.connect(now, local, remote).ok()?;
        client.attach(id, users.0);
        let local = client.endpoint.info(id)?.local;
        let node = self.all[to as usize].node;
        if medium.is_elsewhere(node) {
            medium.announce((to, node), local, to_port, users.1);
        } else {
            self.expect(to, local, to_port, users.1);
        }
        self.touch(from);
        Some(id)
    }

    /// [Connects](Self::connect): both sides are there immediately, and no packet has been sent.
    pub fn establish(
        &mut self,
        (from, from_port): (u32, u16),
        (to, to_port): (u32, u16),
        users: (User, User),
        medium: &mut Medium,
    ) -> Option<ConnId> {
        let touched = self.touched.len();
        let id = self.connect((from, from_port), (to, to_port), users, medium)?;
        let mut ends = self
            .all
            .get_disjoint_mut([from as usize, to as usize])
            .ok()?;
        let [client, server] = &mut ends;
        client
            .endpoint
            .establish(id, &mut server.endpoint, medium.engine.now)
            .ok()?;
        for host in [from, to] {
            self.touch(host);
            while self.settle(host, medium) {}
        }
        // The two have nothing more to say; others may have.
        for host in self.touched.drain(touched..) {
            self.all[host as usize].is_touched = false;
        }
        Some(id)
    }

    /// Registers the user of an expected connection from a peer to one of a host's ports.
    pub fn expect(&mut self, host: u32, peer: SocketAddrV4, port: u16, user: User) {
        let state = &mut self.all[host as usize];
        // It may listen there already.
        let _ = state.endpoint.listen(port, BACKLOG);
        state.expected.insert((peer, port), user);
    }

    /// Queues bytes on a connection; `u64::MAX`: without end.
    pub fn write(&mut self, host: u32, id: ConnId, bytes: u64) {
        if let Some(socket) = self.all[host as usize].sockets.get_mut(id.index()) {
            socket.unsent = socket.unsent.saturating_add(bytes);
            self.pump(host, id);
        }
    }

    /// Nothing more will be written after what was.
    pub fn shut(&mut self, host: u32, id: ConnId) {
        if let Some(socket) = self.all[host as usize].sockets.get_mut(id.index()) {
            socket.shut = true;
            if socket.unsent == u64::MAX {
                socket.unsent = 0;
            }
            self.pump(host, id);
        }
    }

    fn pump(&mut self, host: u32, id: ConnId) {
        let state = &mut self.all[host as usize];
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
