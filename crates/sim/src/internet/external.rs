//! Hosts that are real programs: their packets come in as bytes, and go out as they would be on the wire.
//!
//! Packets that were cut on the way are put together before they leave, as all packets here are where they go: the
//! parts of one are on the way as long as it is, and no timer of the other side decides on them.

use std::collections::VecDeque;

use bytes::Bytes;
use layercast_core::Time;
use layercast_wire::{
    IcmpMessage, IpBody, IpError, Ipv4Packet, PROTOCOL_ICMP, PROTOCOL_TCP, PROTOCOL_UDP, Payload,
    TcpSegment,
};
use serde::Serialize;
use thiserror::Error;

use super::icmp;
use super::network::NodeIndex;
use super::packet::{Body, PacketId};
use super::world::Internet;

/// Bytes of real packets that may be in the network; the same limit holds for those not yet fetched.
const MAX_BYTES: u64 = 256 << 20;

/// A packet that came to a host which is a real program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Delivery {
    /// When.
    pub at: Time,
    /// The host.
    pub node: NodeIndex,
    /// As it is on the wire.
    pub packet: Ipv4Packet,
}

/// Why a packet of a real program did not enter the network.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum Refused {
    /// The node is not [attached](Internet::attach).
    #[error("node {0} is not attached to a program")]
    NotAttached(u32),
    /// It is no IPv4 packet, or a damaged one.
    #[error("{0}")]
    Malformed(#[from] IpError),
    /// It does not come from the address of the host (RFC 2827).
    #[error("the packet says that it comes from {0}")]
    Source(core::net::Ipv4Addr),
    /// The destination is a group or a broadcast address; only single hosts are simulated.
    #[error("nothing is modelled of packets to {0}")]
    Group(core::net::Ipv4Addr),
    /// There are more packets under way than the budget allows.
    #[error("too many packets are under way")]
    Full,
}

/// What went in and out where hosts are real programs.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct ExternalCounts {
    /// Packets that entered the network.
    pub injected: u64,
    /// Bytes of these packets.
    pub injected_bytes: u64,
    /// Packets delivered to programs.
    pub delivered: u64,
    /// Bytes of these packets.
    pub delivered_bytes: u64,
    /// Packets of another version of IP; dropped.
    pub not_ipv4: u64,
    /// Malformed packets, and packets with options; dropped.
    pub malformed: u64,
    /// Packets with a source address that is not that of the host; dropped.
    pub wrong_source: u64,
    /// Packets to multicast groups; dropped.
    pub group: u64,
    /// Packets dropped because a limit of packets in flight or in the queue to a program was reached.
    pub full: u64,
    /// ICMP errors that nodes sent.
    pub errors_told: u64,
}

/// The hosts that are real programs.
#[derive(Debug)]
pub(super) struct External {
    /// For each node.
    attached: Vec<bool>,
    out: VecDeque<Delivery>,
    /// Bytes of those.
    waiting: u64,
    counts: ExternalCounts,
}

impl External {
    fn is_attached(&self, node: NodeIndex) -> bool {
        self.attached.get(node.0 as usize) == Some(&true)
    }
}

impl Internet {
    /// From now on a host is a real program: packets to it are handed out, its packets are
    /// [injected](Self::inject).
    ///
    /// False if the node is not a host.
    pub fn attach(&mut self, node: NodeIndex) -> bool {
        let state = self.nodes.get(node.0 as usize);
        if state.is_none_or(|state| state.host.is_none()) {
            return false;
        }
        let external = self.external.get_or_insert_with(|| {
            Box::new(External {
                attached: vec![false; self.nodes.len()],
                out: VecDeque::new(),
                waiting: 0,
                counts: ExternalCounts::default(),
            })
        });
        external.attached[node.0 as usize] = true;
        true
    }

    /// A real program sends an IPv4 packet; it enters the network at `at`, but not after what happens next there.
    ///
    /// What does not enter is counted.
    pub fn inject(&mut self, at: Time, node: NodeIndex, bytes: Bytes) -> Result<(), Refused> {
        let next = self.next_event();
        self.now = self.now.max(next.map_or(at, |next| at.min(next)));
        let accepted = self.accept(node, bytes);
        let Some(external) = self.external.as_deref_mut() else {
            return Err(Refused::NotAttached(node.0));
        };
        let counts = &mut external.counts;
        let packet = match accepted {
            Ok(packet) => packet,
            Err(refused) => {
                match &refused {
                    Refused::Malformed(IpError::Version(_)) => counts.not_ipv4 += 1,
                    Refused::Malformed(_) => counts.malformed += 1,
                    Refused::Source(_) => counts.wrong_source += 1,
                    Refused::Group(_) => counts.group += 1,
                    Refused::Full => counts.full += 1,
                    Refused::NotAttached(_) => {}
                }
                return Err(refused);
            }
        };
        counts.injected += 1;
        counts.injected_bytes += packet.encoded_len() as u64;
        // The first router says that there is no such address; without one the host itself does.
        let known = self.addresses.find(packet.dst);
        let dst = known.or_else(|| self.routes.gateway(node));
        let id = self.packets.add_real(node, dst.unwrap_or(node), packet);
        match dst {
            Some(_) => self.depart(node, id),
            None => self.no_route(node, id),
        }
        Ok(())
    }

    fn accept(&self, node: NodeIndex, bytes: Bytes) -> Result<Ipv4Packet, Refused> {
        let external = self.external.as_deref();
        if !external.is_some_and(|it| it.is_attached(node)) {
            return Err(Refused::NotAttached(node.0));
        }
        let packet = Ipv4Packet::decode_outer(bytes)?;
        let (src, dst) = (packet.src, packet.dst);
        if dst.is_multicast() || dst.is_broadcast() || dst.is_unspecified() || dst.is_loopback() {
            return Err(Refused::Group(dst));
        }
        if src != self.node_addresses[node.0 as usize] {
            return Err(Refused::Source(src));
        }
        // A length that no part of a packet may have (RFC 791 3.1).
        let end = usize::from(packet.fragment_offset) * 8 + packet.encoded_len();
        if packet.ttl == 0 || end > usize::from(u16::MAX) {
            let (said, there) = (end, packet.encoded_len());
            return Err(IpError::Length { said, there }.into());
        }
        let all = self.packets.real_bytes() + packet.encoded_len() as u64;
        if self.packets.len() >= self.budget.packets as usize || all > MAX_BYTES {
            return Err(Refused::Full);
        }
        Ok(packet)
    }

    /// The next packet that came to a host which is a real program.
    pub fn poll_external(&mut self) -> Option<Delivery> {
        let external = self.external.as_deref_mut()?;
        let delivery = external.out.pop_front()?;
        external.waiting -= delivery.packet.encoded_len() as u64;
        Some(delivery)
    }

    /// What went in and out so far, warm-up included.
    pub fn external_counts(&self) -> ExternalCounts {
        let external = self.external.as_deref();
        external.map_or(ExternalCounts::default(), |it| it.counts)
    }

    /// Hands out a whole packet if its host is a real program.
    pub(super) fn hand_out(&mut self, node: NodeIndex, id: PacketId) -> bool {
        let external = self.external.as_deref();
        if !external.is_some_and(|it| it.is_attached(node)) {
            return false;
        }
        let (at, packet) = (self.now, self.on_wire(self.packets.get(id)));
        self.packets.lose(id);
        if let Some(external) = self.external.as_deref_mut() {
            let bytes = packet.encoded_len() as u64;
            if external.waiting + bytes > MAX_BYTES {
                external.counts.full += 1;
                return true;
            }
            external.waiting += bytes;
            external.counts.delivered += 1;
            external.counts.delivered_bytes += bytes;
            external.out.push_back(Delivery { at, node, packet });
        }
        true
    }

    /// A real packet came to a simulated host or router.
    pub(super) fn answer(
        &mut self,
        at: NodeIndex,
        host: Option<u32>,
        from: NodeIndex,
        packet: Ipv4Packet,
    ) {
        self.packets.was_taken(&packet);
        let own = self.node_addresses[at.0 as usize];
        if packet.dst != own {
            self.drops.no_route += 1;
            return self.notify(at, from, icmp::Cause::Host, &packet);
        }
        let IpBody::Other {
            protocol,
            payload: Payload::Bytes(data),
        } = &packet.body
        else {
            return;
        };
        if packet.is_fragment() {
            // Nothing here waits for the rest of it.
            self.drops.not_mine += 1;
            return;
        }
        match (*protocol, host) {
            (PROTOCOL_ICMP, _) => match IcmpMessage::decode(data.clone()) {
                Ok(message) if message.kind == IcmpMessage::ECHO => {
                    self.send_real(at, from, icmp::echo(&packet, message));
                }
                _ => self.drops.not_mine += 1,
            },
            (PROTOCOL_TCP, Some(host)) => match TcpSegment::decode(packet.src, own, data.clone()) {
                Ok(mut segment) => {
                    let ends = (self.node_addresses[from.0 as usize], own);
                    let endpoint = &mut self.hosts[host as usize].endpoint;
                    endpoint.receive(self.now, ends, &mut segment, &mut self.obs);
                    self.touch(host);
                }
                Err(_) => self.drops.not_mine += 1,
            },
            (PROTOCOL_UDP, _) => {
                self.drops.not_mine += 1;
                self.notify(at, from, icmp::Cause::Port, &packet);
            }
            _ => {
                self.drops.not_mine += 1;
                self.notify(at, from, icmp::Cause::Protocol, &packet);
            }
        }
    }

    /// Whether a packet may not be cut.
    pub(super) fn must_stay_whole(&self, id: PacketId) -> bool {
        matches!(&self.packets.get(id).body, Body::Real(packet) if packet.dont_fragment)
    }

    /// A packet that may not be cut is too big for the next link (RFC 1191).
    pub(super) fn too_big(&mut self, at: NodeIndex, id: PacketId, mtu: u32) {
        self.drops.too_big += 1;
        self.complain(at, id, icmp::Cause::TooBig(mtu));
    }

    /// A packet has made all its hops.
    pub(super) fn expired(&mut self, at: NodeIndex, id: PacketId) {
        self.drops.ttl += 1;
        self.complain(at, id, icmp::Cause::Expired);
    }

    /// There is no way to where a packet goes.
    pub(super) fn no_route(&mut self, at: NodeIndex, id: PacketId) {
        self.drops.no_route += 1;
        self.complain(at, id, icmp::Cause::Net);
    }

    /// Drops a packet; the sender of a real packet is notified of the cause.
    fn complain(&mut self, at: NodeIndex, id: PacketId, cause: icmp::Cause) {
        let packet = self.packets.get(id);
        let about = match packet.body {
            Body::Real(_) => Some(packet),
            // Of parts only the first is answered (RFC 1122 3.2.2).
            Body::Fragment { group, offset: 0 } => Some(self.packets.whole(group)),
            _ => None,
        };
        let about = about.filter(|packet| matches!(packet.body, Body::Real(_)));
        let (from, about) = (packet.src, about.map(|packet| self.on_wire(packet)));
        self.packets.lose(id);
        if let Some(about) = about {
            self.notify(at, from, cause, &about);
        }
    }

    /// Notifies the sender of a packet of its fate, if that is permitted.
    fn notify(&mut self, at: NodeIndex, from: NodeIndex, cause: icmp::Cause, about: &Ipv4Packet) {
        let own = self.node_addresses[at.0 as usize];
        let Some(error) = icmp::error(own, cause, about) else {
            return;
        };
        if let Some(external) = self.external.as_deref_mut() {
            external.counts.errors_told += 1;
        }
        self.send_real(at, from, error);
    }

    fn send_real(&mut self, at: NodeIndex, to: NodeIndex, packet: Ipv4Packet) {
        let id = self.packets.add_real(at, to, packet);
        self.depart(at, id);
    }
}

/// The ports that a packet has in its bytes, if it has any: the first data of TCP and UDP.
pub(super) fn ports(packet: &Ipv4Packet) -> (u16, u16) {
    let has_ports = matches!(packet.body.protocol(), PROTOCOL_TCP | PROTOCOL_UDP);
    match &packet.body {
        IpBody::Other {
            payload: Payload::Bytes(data),
            ..
        } if has_ports && packet.fragment_offset == 0 => match data.first_chunk() {
            Some(&[a, b, c, d]) => (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])),
            None => (0, 0),
        },
        _ => (0, 0),
    }
}
