//! XTP of the hosts that have flows of it.

use core::net::SocketAddr;
use std::collections::BTreeMap;

use layercast_core::{Machine, Stream, Time};
use layercast_wire::XtpPacket;
use layercast_xtp::{
    ContextId, Endpoint, SendOptions, XtpConfig, XtpCounts, XtpDatagram, XtpEvent, XtpFailure,
    XtpSocket,
};
use rand_core::RngCore;

use super::stream::hand_over;
use super::tcp::End;
use crate::internet::engine::{Engine, Source};
use crate::internet::medium::Medium;
use crate::internet::medium::addresses::{flow_of, group_address};
use crate::internet::medium::packet::{Body, Carrier, IP_HEADER};
use crate::internet::network::{NodeIndex, Traffic};
use crate::kernel::SourceId;

/// Contexts of a host, and those not yet accepted: we accept immediately.
const MOST: usize = 1 << 20;
/// The ports of a flow identify it: this number at the receiver for each of the sender.
const PORTS: u32 = 30_000;
const FIRST_PORT: u16 = 10_000;

/// The XTP of a host.
#[derive(Debug)]
struct XtpHost {
    node: NodeIndex,
    endpoint: Endpoint,
    timer: SourceId,
    /// The user of each context.
    users: BTreeMap<ContextId, User>,
    is_touched: bool,
}

/// One side of a flow.
#[derive(Clone, Copy, Debug)]
struct User {
    flow: u32,
    /// Bytes to be sent yet; `u64::MAX`: without end.
    left: u64,
    sends: bool,
    /// Nothing will be sent after these.
    shut: bool,
    /// Bytes of a full packet.
    packet: u32,
}

impl User {
    /// One that only receives.
    fn receiver(flow: u32) -> User {
        User {
            flow,
            left: 0,
            sends: false,
            shut: true,
            packet: 0,
        }
    }
}

/// The ports of a flow at its sender and at its receivers.
fn ports(flow: u32) -> (u16, u16) {
    (
        FIRST_PORT + (flow / PORTS) as u16,
        FIRST_PORT + (flow % PORTS) as u16,
    )
}

/// What happened to a flow and is for its user to know.
#[derive(Clone, Debug)]
pub(crate) enum XtpUpcall {
    /// A host has been invited to the group.
    Invited(u32),
    /// A receiver has joined: it gets everything from a byte on.
    Joined(u32, u64),
    /// A receiver got some bytes.
    Received(u32, u64),
    /// A receiver has everything.
    Completed(u32),
    /// A receiver failed.
    Failed(u32, XtpFailure),
    /// The transmitter continues without a receiver.
    Dropped(u32, SocketAddr),
    /// The context of the sender is about to go, or failed; this is what it counted.
    Closes(u32, Option<XtpCounts>, End),
}

/// The XTP of all hosts that have it.
#[derive(Debug, Default)]
pub(crate) struct XtpHosts {
    /// By the numbers of the hosts.
    all: BTreeMap<u32, XtpHost>,
    /// Those that have been touched and may have something to say.
    touched: Vec<u32>,
    /// For the users of a host, in the order in which it happened.
    pub upcalls: Vec<XtpUpcall>,
}

impl XtpHosts {
    /// Gives a host XTP, if it has none.
    pub fn give(
        &mut self,
        (host, node): (u32, NodeIndex),
        name: &str,
        seed: u64,
        engine: &mut Engine,
    ) {
        self.all.entry(host).or_insert_with(|| {
            let mut secret = [0; 32];
            Stream::new(seed, &format!("xtp/{name}")).fill_bytes(&mut secret);
            XtpHost {
                node,
                endpoint: Endpoint::new(MOST, name, &secret),
                timer: engine.add(Source::Xtp(host), name),
                users: BTreeMap::new(),
                is_touched: false,
            }
        });
    }

    /// A flow of XTP starts, between these hosts.
    pub fn open(
        &mut self,
        n: u32,
        traffic: &Traffic,
        (from, to): (u32, u32),
        medium: &Medium,
    ) -> Option<ContextId> {
        let ports = ports(n);
        let (bytes, config, local, remote) = match traffic {
            Traffic::Xtp {
                bytes,
                config,
                delivery,
            } => {
                let carrier = Carrier::of(*delivery, n);
                let receiver = self.all.get_mut(&to)?;
                // Another flow may have the port, too.
                let _ = receiver.endpoint.listen(ports.1, MOST, (**config).clone());
                let local = self.socket(from, carrier, ports.0, medium)?;
                let remote = self.socket(to, carrier, ports.1, medium)?;
                (bytes, config, local, remote)
            }
            Traffic::XtpMulticast { bytes, config, .. } => {
                let net = SocketAddr::new(group_address(n).into(), Carrier::IP.0);
                let remote = XtpSocket { net, port: ports.1 };
                let local = self.socket(from, Carrier::IP, ports.0, medium)?;
                (bytes, config, local, remote)
            }
            Traffic::Bulk(_) | Traffic::Datagrams { .. } => return None,
        };
        let sender = self.all.get_mut(&from)?;
        let now = medium.engine.now;
        let id = sender.endpoint.connect(now, local, remote, config).ok()?;
        let user = User {
            flow: n,
            left: bytes.unwrap_or(u64::MAX),
            sends: true,
            shut: bytes.is_some(),
            packet: config.max_data,
        };
        sender.users.insert(id, user);
        self.pump(from, id);
        Some(id)
    }

    /// A host waits for the invitation to the group of a flow.
    pub fn listen(&mut self, flow: u32, host: u32, config: &XtpConfig) {
        if let Some(xtp) = self.all.get_mut(&host) {
            // Another flow may have the port, too.
            let _ = xtp.endpoint.listen(ports(flow).1, MOST, config.clone());
        }
    }

    /// A host asks the sender of a flow to be let into its group.
    pub fn join(
        &mut self,
        flow: u32,
        (sender, host): (u32, u32),
        config: &XtpConfig,
        medium: &Medium,
    ) {
        let port = ports(flow).1;
        let local = self.socket(host, Carrier::IP, port, medium);
        let remote = self.socket(sender, Carrier::IP, port, medium);
        if let (Some(local), Some(remote)) = (local, remote)
            && let Some(xtp) = self.all.get_mut(&host)
            && let Ok(id) = xtp.endpoint.join(medium.engine.now, local, remote, config)
        {
            xtp.users.insert(id, User::receiver(flow));
            self.touch(host);
        }
    }

    fn socket(&self, host: u32, carrier: Carrier, port: u16, medium: &Medium) -> Option<XtpSocket> {
        let node = self.all.get(&host)?.node;
        let address = medium.node_addresses[node.0 as usize];
        let net = SocketAddr::new(address.into(), carrier.0);
        Some(XtpSocket { net, port })
    }

    /// Nothing more is sent but what was.
    pub fn stop(&mut self, host: u32, id: ContextId) {
        let user = self.all.get_mut(&host).and_then(|it| it.users.get_mut(&id));
        if let Some(user) = user {
            (user.left, user.shut) = (0, true);
            self.pump(host, id);
        }
    }

    /// What a context did so far, if it is still there.
    pub fn counts(&self, host: u32, id: ContextId) -> Option<XtpCounts> {
        let info = self.all.get(&host)?.endpoint.info(id);
        info.map(|info| info.counts)
    }

    fn pump(&mut self, host: u32, id: ContextId) {
        let Some(XtpHost {
            endpoint, users, ..
        }) = self.all.get_mut(&host)
        else {
            return;
        };
        let Some(user) = users.get_mut(&id).filter(|user| user.sends) else {
            return;
        };
        // Whole packets, so that none has to be cut.
        hand_over(&mut user.left, u64::from(user.packet), |data| {
            endpoint.send(id, data, &SendOptions::default())
        });
        if user.shut && user.left == 0 {
            // One that is over has closed already.
            let _ = endpoint.close_write(id);
        }
        self.touch(host);
    }

    fn touch(&mut self, host: u32) {
        if let Some(xtp) = self.all.get_mut(&host)
            && !std::mem::replace(&mut xtp.is_touched, true)
        {
            self.touched.push(host);
        }
    }

    /// Whether a host is touched.
    #[inline(always)]
    pub fn is_touched(&self) -> bool {
        !self.touched.is_empty()
    }

    /// A touched host, which is to be [settled](Self::settle).
    pub fn next_touched(&mut self) -> Option<u32> {
        let host = self.touched.pop()?;
        if let Some(xtp) = self.all.get_mut(&host) {
            xtp.is_touched = false;
        }
        Some(host)
    }

    /// A timer of the XTP of a host is due.
    pub fn wake(&mut self, host: u32, engine: &mut Engine) {
        if let Some(xtp) = self.all.get_mut(&host) {
            engine.kernel.schedule(xtp.timer, None);
            xtp.endpoint.on_timeout(engine.now, &mut engine.obs);
            self.touch(host);
        }
    }

    /// A packet arrived where it goes.
    pub fn take(
        &mut self,
        host: u32,
        ends: (NodeIndex, NodeIndex),
        packet: XtpPacket,
        carrier: Carrier,
        medium: &mut Medium,
    ) {
        let address = |node: NodeIndex| {
            SocketAddr::new(medium.node_addresses[node.0 as usize].into(), carrier.0)
        };
        let (src, dst) = (address(ends.0), address(ends.1));
        let Some(xtp) = self.all.get_mut(&host) else {
            medium.drops.not_mine += 1;
            return;
        };
        let datagram = XtpDatagram { src, dst, packet };
        let Engine { now, obs, .. } = &mut medium.engine;
        xtp.endpoint.handle(*now, datagram, obs);
        self.touch(host);
    }

    /// Lets the XTP of a host say what it has to say. True if its users have to hear something first: then it is to be settled
    /// again.
    pub fn settle(&mut self, host: u32, medium: &mut Medium) -> bool {
        let now = medium.engine.now;
        loop {
            // What arrived is read before anything is sent, as of TCP.
            while let Some(event) = self
                .all
                .get_mut(&host)
                .and_then(|it| it.endpoint.poll_event())
            {
                self.event(host, event, now);
                if !self.upcalls.is_empty() {
                    return true;
                }
            }
            let Some(xtp) = self.all.get_mut(&host) else {
                return false;
            };
            let Some(datagram) = xtp.endpoint.poll_transmit(now, &mut medium.engine.obs) else {
                let next = xtp.endpoint.next_timeout().map(|at| at.max(now));
                medium.engine.kernel.schedule(xtp.timer, next);
                return false;
            };
            send(xtp.node, datagram, medium);
        }
    }

    fn event(&mut self, host: u32, event: XtpEvent, now: Time) {
        let Some(XtpHost {
            endpoint, users, ..
        }) = self.all.get_mut(&host)
        else {
            return;
        };
        let upcalls = &mut self.upcalls;
        let flow_of_user = |id: &ContextId| users.get(id).map(|user| (user.flow, user.sends));
        match event {
            XtpEvent::Incoming(port) => {
                while let Some((id, peer)) = endpoint.accept(port) {
                    let (high, low) = (peer.port.wrapping_sub(FIRST_PORT), port - FIRST_PORT);
                    let flow = u32::from(high) * PORTS + u32::from(low);
                    users.insert(id, User::receiver(flow));
                    upcalls.push(XtpUpcall::Invited(flow));
                }
            }
            XtpEvent::Readable(id) => {
                let mut bytes = 0;
                while let Ok(Some(chunk)) = endpoint.receive(id, usize::MAX) {
                    bytes += chunk.data.len() as u64;
                }
                if let Some((flow, false)) = flow_of_user(&id) {
                    upcalls.push(XtpUpcall::Received(flow, bytes));
                }
            }
            XtpEvent::Writable(id) => self.pump(host, id),
            XtpEvent::PeerClosed(id) => {
                if let Some((flow, false)) = flow_of_user(&id) {
                    upcalls.push(XtpUpcall::Completed(flow));
                }
                // The receiver has nothing to say.
                let _ = endpoint.close_write(id);
            }
            XtpEvent::Closed(id) | XtpEvent::Failed(id, _) => {
                match (flow_of_user(&id), event) {
                    (Some((flow, true)), _) => {
                        let counts = endpoint.info(id).map(|info| info.counts);
                        let how = match event {
                            XtpEvent::Failed(..) => End::Failed,
                            _ => End::InOrder,
                        };
                        upcalls.push(XtpUpcall::Closes(flow, counts, how));
                    }
                    (Some((flow, false)), XtpEvent::Failed(_, why)) => {
                        upcalls.push(XtpUpcall::Failed(flow, why));
                    }
                    _ => {}
                }
                users.remove(&id);
                let _ = endpoint.close(now, id);
            }
            XtpEvent::Joined(id, first) => {
                if let Some((flow, _)) = flow_of_user(&id) {
                    upcalls.push(XtpUpcall::Joined(flow, first));
                }
            }
            XtpEvent::ReceiverLost(id, who, _) => {
                if let Some((flow, _)) = flow_of_user(&id) {
                    upcalls.push(XtpUpcall::Dropped(flow, who));
                }
            }
            // The flow does not act on them.
            XtpEvent::Connected(_)
            | XtpEvent::Delivered(..)
            | XtpEvent::Settled(_)
            | XtpEvent::ReaderGone(..)
            | XtpEvent::Traffic(_)
            | XtpEvent::TrafficRefused(_)
            | XtpEvent::ReceiverJoined(..)
            | XtpEvent::ReceiverDone(..)
            | XtpEvent::NoReceivers(_) => {}
        }
    }
}

/// Puts a packet of a node on its way.
fn send(node: NodeIndex, datagram: XtpDatagram, medium: &mut Medium) {
    let packet = datagram.packet;
    let dst = match datagram.dst {
        SocketAddr::V4(dst) if dst.ip().is_multicast() => {
            return match flow_of(*dst.ip()) {
                Some(flow) => medium.send_to_group(node, flow, packet),
                None => medium.drops.no_route += 1,
            };
        }
        SocketAddr::V4(dst) => medium.addresses.find(*dst.ip()),
        SocketAddr::V6(_) => None,
    };
    let Some(dst) = dst else {
        medium.drops.no_route += 1;
        return;
    };
    let carrier = Carrier(datagram.dst.port());
    let below = if carrier == Carrier::IP { IP_HEADER } else { 0 };
    let bytes = below + packet.encoded_len() as u32;
    let body = Body::Xtp(Box::new(packet), carrier);
    medium.originate((node, dst), bytes, body);
}
