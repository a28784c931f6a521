//! XTP of the hosts that have flows of it.

use core::net::SocketAddr;
use std::collections::BTreeMap;

use layercast_core::{Machine, Stream};
use layercast_wire::XtpPacket;
use layercast_xtp::{
    ContextId, Endpoint, SendOptions, XtpCounts, XtpDatagram, XtpEvent, XtpSocket,
};
use rand_core::RngCore;

use super::addresses::{flow_of, group_address};
use super::network::{NodeIndex, Traffic};
use super::packet::{Body, Carrier, IP_HEADER, NO_STEP, Packet, TTL};
use super::source::Source;
use super::stream::hand_over;
use super::world::Internet;
use crate::kernel::SourceId;

/// Contexts of a host, and those not yet accepted: we accept immediately.
pub(super) const MOST: usize = 1 << 20;
/// The ports of a flow identify it: this number at the receiver for each of the sender.
const PORTS: u32 = 30_000;
const FIRST_PORT: u16 = 10_000;

/// The XTP of a host.
#[derive(Debug)]
pub(super) struct XtpHost {
    pub(super) endpoint: Endpoint,
    timer: SourceId,
    /// The user of each context.
    pub(super) users: BTreeMap<ContextId, User>,
}

/// One side of a flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct User {
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
    pub(super) fn receiver(flow: u32) -> User {
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
pub(super) fn ports(flow: u32) -> (u16, u16) {
    (
        FIRST_PORT + (flow / PORTS) as u16,
        FIRST_PORT + (flow % PORTS) as u16,
    )
}

impl Internet {
    /// Gives a host XTP, if it has none.
    pub(super) fn give_xtp(&mut self, host: u32, name: &str, seed: u64) {
        if self.hosts[host as usize].xtp.is_some() {
            return;
        }
        let mut secret = [0; 32];
        Stream::new(seed, &format!("xtp/{name}")).fill_bytes(&mut secret);
        let timer = self.source(Source::Xtp(host));
        self.hosts[host as usize].xtp = Some(Box::new(XtpHost {
            endpoint: Endpoint::new(MOST, name, &secret),
            timer,
            users: BTreeMap::new(),
        }));
    }

    pub(super) fn xtp(&mut self, host: u32) -> Option<&mut XtpHost> {
        self.hosts[host as usize].xtp.as_deref_mut()
    }

    /// A flow of XTP starts.
    pub(super) fn open_xtp(&mut self, n: u32, (from, to): (u32, u32)) -> Option<ContextId> {
        let now = self.now;
        let ports = ports(n);
        let (bytes, config, local, remote) = match self.flows[n as usize].traffic().clone() {
            Traffic::Xtp {
                bytes,
                config,
                delivery,
            } => {
                let carrier = Carrier::of(delivery, n);
                // Another flow may have the port, too.
                let _ = self
                    .xtp(to)?
                    .endpoint
                    .listen(ports.1, MOST, (*config).clone());
                let local = self.xtp_socket(from, carrier, ports.0);
                (bytes, config, local, self.xtp_socket(to, carrier, ports.1))
            }
            Traffic::XtpMulticast { bytes, config, .. } => {
                let net = SocketAddr::new(group_address(n).into(), Carrier::IP.0);
                let remote = XtpSocket { net, port: ports.1 };
                let local = self.xtp_socket(from, Carrier::IP, ports.0);
                (bytes, config, local, remote)
            }
            Traffic::Bulk(_) | Traffic::Datagrams { .. } => return None,
        };
        let sender = self.xtp(from)?;
        let id = sender.endpoint.connect(now, local, remote, &config).ok()?;
        let user = User {
            flow: n,
            left: bytes.unwrap_or(u64::MAX),
            sends: true,
            shut: bytes.is_some(),
            packet: config.max_data,
        };
        sender.users.insert(id, user);
        self.pump_xtp(from, id);
        Some(id)
    }

    pub(super) fn xtp_socket(&self, host: u32, carrier: Carrier, port: u16) -> XtpSocket {
        let node = self.hosts[host as usize].node;
        let address = self.node_addresses[node.0 as usize];
        XtpSocket {
            net: SocketAddr::new(address.into(), carrier.0),
            port,
        }
    }

    /// Nothing more is sent but what was.
    pub(super) fn stop_xtp(&mut self, host: u32, id: ContextId) {
        if let Some(user) = self.xtp(host).and_then(|it| it.users.get_mut(&id)) {
            (user.left, user.shut) = (0, true);
            self.pump_xtp(host, id);
        }
    }

    /// What a context did so far, if it is still there.
    pub(super) fn xtp_counts(&self, host: u32, id: ContextId) -> Option<XtpCounts> {
        let xtp = self.hosts[host as usize].xtp.as_deref()?;
        xtp.endpoint.info(id).map(|info| info.counts)
    }

    fn pump_xtp(&mut self, host: u32, id: ContextId) {
        let Some(XtpHost {
            endpoint, users, ..
        }) = self.xtp(host)
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

    /// A timer of the XTP of a host is due.
    pub(super) fn wake_xtp(&mut self, host: u32) {
        let now = self.now;
        if let Some(xtp) = self.hosts[host as usize].xtp.as_deref_mut() {
            xtp.endpoint.on_timeout(now, &mut self.obs);
            self.touch(host);
        }
    }

    /// A packet arrived where it goes.
    pub(super) fn take_xtp(
        &mut self,
        host: u32,
        ends: (NodeIndex, NodeIndex),
        packet: XtpPacket,
        carrier: Carrier,
    ) {
        let now = self.now;
        let address = |node: NodeIndex| {
            SocketAddr::new(self.node_addresses[node.0 as usize].into(), carrier.0)
        };
        let (src, dst) = (address(ends.0), address(ends.1));
        let Some(xtp) = self.hosts[host as usize].xtp.as_deref_mut() else {
            self.drops.not_mine += 1;
            return;
        };
        let datagram = XtpDatagram { src, dst, packet };
        xtp.endpoint.handle(now, datagram, &mut self.obs);
        self.touch(host);
    }

    /// Lets the XTP of a host say what it has to say.
    pub(super) fn settle_xtp(&mut self, host: u32) {
        let now = self.now;
        loop {
            // What arrived is read before anything is sent, as of TCP.
            while let Some(event) = self.xtp(host).and_then(|it| it.endpoint.poll_event()) {
                self.xtp_event(host, event);
            }
            let xtp = self.hosts[host as usize].xtp.as_deref_mut();
            let datagram = xtp.and_then(|it| it.endpoint.poll_transmit(now, &mut self.obs));
            let Some(datagram) = datagram else {
                break;
            };
            self.send_xtp(host, datagram);
        }
        if let Some(xtp) = self.xtp(host) {
            let next = xtp.endpoint.next_timeout().map(|at| at.max(now));
            let timer = xtp.timer;
            self.kernel.schedule(timer, next);
        }
    }

    fn send_xtp(&mut self, host: u32, datagram: XtpDatagram) {
        let dst = match datagram.dst {
            SocketAddr::V4(dst) if dst.ip().is_multicast() => {
                return match flow_of(*dst.ip()) {
                    Some(flow) => self.send_to_group(host, flow, datagram.packet),
                    None => self.drops.no_route += 1,
                };
            }
            SocketAddr::V4(dst) => self.addresses.find(*dst.ip()),
            SocketAddr::V6(_) => None,
        };
        let Some(dst) = dst else {
            self.drops.no_route += 1;
            return;
        };
        let packet = datagram.packet;
        let carrier = Carrier(datagram.dst.port());
        let below = if carrier == Carrier::IP { IP_HEADER } else { 0 };
        self.originate(Packet {
            src: self.hosts[host as usize].node,
            dst,
            bytes: below + packet.encoded_len() as u32,
            step: NO_STEP,
            ttl: TTL,
            body: Body::Xtp(Box::new(packet), carrier),
        });
    }

    fn xtp_event(&mut self, host: u32, event: XtpEvent) {
        let now = self.now;
        let Some(XtpHost {
            endpoint, users, ..
        }) = self.xtp(host)
        else {
            return;
        };
        let flow_of_user = |id: &ContextId| users.get(id).map(|user| (user.flow, user.sends));
        match event {
            XtpEvent::Incoming(port) => {
                let mut flows = Vec::new();
                while let Some((id, peer)) = endpoint.accept(port) {
                    let (high, low) = (peer.port.wrapping_sub(FIRST_PORT), port - FIRST_PORT);
                    let flow = u32::from(high) * PORTS + u32::from(low);
                    users.insert(id, User::receiver(flow));
                    flows.push(flow);
                }
                for flow in flows {
                    self.member_invited(flow, host);
                }
            }
            XtpEvent::Readable(id) => {
                let mut bytes = 0;
                while let Ok(Some(chunk)) = endpoint.receive(id, usize::MAX) {
                    bytes += chunk.data.len() as u64;
                }
                if let Some((flow, false)) = flow_of_user(&id) {
                    self.flow_received(flow, bytes);
                    self.member_received(flow, host, bytes);
                }
            }
            XtpEvent::Writable(id) => self.pump_xtp(host, id),
            XtpEvent::PeerClosed(id) => {
                let flow = flow_of_user(&id);
                // The receiver has nothing to say.
                let _ = endpoint.close_write(id);
                if let Some((flow, false)) = flow {
                    self.receiver_completed(flow, host);
                }
            }
            XtpEvent::Closed(id) | XtpEvent::Failed(id, _) => {
                match (flow_of_user(&id), event) {
                    (Some((flow, true)), _) => self.flow_closes(flow),
                    (Some((flow, false)), XtpEvent::Failed(_, why)) => {
                        self.member_failed(flow, host, why);
                    }
                    _ => {}
                }
                if let Some(xtp) = self.xtp(host) {
                    xtp.users.remove(&id);
                    let _ = xtp.endpoint.close(now, id);
                }
            }
            XtpEvent::Joined(id, first) => {
                if let Some((flow, _)) = flow_of_user(&id) {
                    self.member_joined(flow, host, first);
                }
            }
            XtpEvent::ReceiverLost(id, who, _) => {
                if let Some((flow, _)) = flow_of_user(&id) {
                    self.member_dropped(flow, who);
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
