//! Hosts that are real programs: their packets come in as bytes, and go out as they would be on the wire.
//!
//! Packets that were cut on the way are put together before they leave, as all packets here are where they go: the
//! parts of one are on the way as long as it is, and no timer of the other side decides on them.

use std::collections::VecDeque;

use bytes::Bytes;
use layercast_core::Time;
use layercast_tcp::Ecn;
use layercast_wire::{
    IcmpMessage, IpBody, IpError, Ipv4Packet, PROTOCOL_ICMP, PROTOCOL_TCP, PROTOCOL_UDP, Payload,
    TcpSegment,
};
use serde::Serialize;
use thiserror::Error;

use super::icmp;
use super::tcp::TcpHosts;
use crate::internet::engine::PacketId;
use crate::internet::medium::packet::Body;
use crate::internet::medium::{Cause, Medium};
use crate::internet::network::NodeIndex;

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
    /// The node is not [attached](crate::internet::Internet::attach).
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
pub(crate) struct External {
    /// For each node.
    attached: Vec<bool>,
    out: VecDeque<Delivery>,
    /// Bytes of those.
    waiting: u64,
    pub counts: ExternalCounts,
}

impl External {
    /// None yet, of this many nodes.
    pub fn new(nodes: usize) -> External {
        External {
            attached: vec![false; nodes],
            out: VecDeque::new(),
            waiting: 0,
            counts: ExternalCounts::default(),
        }
    }

    /// From now on a host is a real program.
    pub fn attach(&mut self, node: NodeIndex) {
        self.attached[node.0 as usize] = true;
    }

    fn is_attached(&self, node: NodeIndex) -> bool {
        self.attached.get(node.0 as usize) == Some(&true)
    }

    /// A real program sends a packet, while there may be this many. What does not enter is counted.
    pub fn inject(
        &mut self,
        node: NodeIndex,
        bytes: Bytes,
        most: usize,
        medium: &mut Medium,
    ) -> Result<(), Refused> {
        let accepted = self.accept(node, bytes, most, medium);
        let counts = &mut self.counts;
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
        let known = medium.addresses.find(packet.dst);
        let dst = known.or_else(|| medium.routes.gateway(node));
        let id = medium.packets.add_real(node, dst.unwrap_or(node), packet);
        match dst {
            Some(_) => medium.depart(node, id),
            None => {
                let failed = medium.fails(node, id, Cause::Net);
                medium.keep(failed);
            }
        }
        Ok(())
    }

    fn accept(
        &self,
        node: NodeIndex,
        bytes: Bytes,
        most: usize,
        medium: &Medium,
    ) -> Result<Ipv4Packet, Refused> {
        if !self.is_attached(node) {
            return Err(Refused::NotAttached(node.0));
        }
        let packet = Ipv4Packet::decode_outer(bytes)?;
        let (src, dst) = (packet.src, packet.dst);
        if dst.is_multicast() || dst.is_broadcast() || dst.is_unspecified() || dst.is_loopback() {
            return Err(Refused::Group(dst));
        }
        if src != medium.node_addresses[node.0 as usize] {
            return Err(Refused::Source(src));
        }
        // A length that no part of a packet may have (RFC 791 3.1).
        let end = usize::from(packet.fragment_offset) * 8 + packet.encoded_len();
        if packet.ttl == 0 || end > usize::from(u16::MAX) {
            let (said, there) = (end, packet.encoded_len());
            return Err(IpError::Length { said, there }.into());
        }
        let all = medium.packets.real_bytes() + packet.encoded_len() as u64;
        if medium.packets.len() >= most || all > MAX_BYTES {
            return Err(Refused::Full);
        }
        Ok(packet)
    }

    /// The next packet that came to a host which is a real program.
    pub fn poll(&mut self) -> Option<Delivery> {
        let delivery = self.out.pop_front()?;
        self.waiting -= delivery.packet.encoded_len() as u64;
        Some(delivery)
    }

    /// Hands out a whole packet if its host is a real program.
    pub fn hand_out(&mut self, node: NodeIndex, id: PacketId, medium: &mut Medium) -> bool {
        if !self.is_attached(node) {
            return false;
        }
        let (at, packet) = (medium.engine.now, medium.on_wire(id));
        medium.packets.lose(id);
        let bytes = packet.encoded_len() as u64;
        if self.waiting + bytes > MAX_BYTES {
            self.counts.full += 1;
            return true;
        }
        self.waiting += bytes;
        self.counts.delivered += 1;
        self.counts.delivered_bytes += bytes;
        self.out.push_back(Delivery { at, node, packet });
        true
    }

    /// A real packet came to a simulated host or router.
    pub fn answer(
        &mut self,
        at: NodeIndex,
        from: NodeIndex,
        packet: Ipv4Packet,
        tcp: &mut TcpHosts,
        medium: &mut Medium,
    ) {
        medium.packets.was_taken(&packet);
        let host = medium.nodes[at.0 as usize].host;
        let own = medium.node_addresses[at.0 as usize];
        if packet.dst != own {
            return self.refuse(at, from, Cause::Host, &packet, medium);
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
            medium.drops.not_mine += 1;
            return;
        }
        match (*protocol, host) {
            (PROTOCOL_ICMP, _) => match IcmpMessage::decode(data.clone()) {
                Ok(message) if message.kind == IcmpMessage::ECHO => {
                    send(at, from, icmp::echo(&packet, message), medium);
                }
                _ => medium.drops.not_mine += 1,
            },
            (PROTOCOL_TCP, Some(host)) => match TcpSegment::decode(packet.src, own, data.clone()) {
                Ok(segment) => {
                    let from = medium.node_addresses[from.0 as usize];
                    let ecn = Ecn::of_tos(packet.tos);
                    tcp.receive_real(host, (from, ecn), segment, &mut medium.engine);
                }
                Err(_) => medium.drops.not_mine += 1,
            },
            (PROTOCOL_UDP, _) => {
                self.refuse(at, from, Cause::Port, &packet, medium);
            }
            _ => {
                self.refuse(at, from, Cause::Protocol, &packet, medium);
            }
        }
    }

    /// A packet ended at a node: its sender hears of it.
    pub fn fails(&mut self, at: NodeIndex, id: PacketId, cause: Cause, medium: &mut Medium) {
        let packet = medium.packets.get(id);
        let from = packet.src;
        let about = match packet.body {
            Body::Fragment { group, .. } => medium.whole_on_wire(group),
            _ => medium.on_wire(id),
        };
        medium.packets.lose(id);
        self.notify(at, from, cause, &about, medium);
    }

    /// A node does not take a packet, which is counted; its sender hears of it.
    fn refuse(
        &mut self,
        at: NodeIndex,
        from: NodeIndex,
        cause: Cause,
        about: &Ipv4Packet,
        medium: &mut Medium,
    ) {
        medium.count(cause);
        self.notify(at, from, cause, about, medium);
    }

    /// Notifies the sender of a packet of its fate, if that is permitted.
    fn notify(
        &mut self,
        at: NodeIndex,
        from: NodeIndex,
        cause: Cause,
        about: &Ipv4Packet,
        medium: &mut Medium,
    ) {
        let own = medium.node_addresses[at.0 as usize];
        if let Some(error) = icmp::error(own, cause, about) {
            self.counts.errors_told += 1;
            send(at, from, error, medium);
        }
    }
}

fn send(at: NodeIndex, to: NodeIndex, packet: Ipv4Packet, medium: &mut Medium) {
    let id = medium.packets.add_real(at, to, packet);
    medium.depart(at, id);
}
