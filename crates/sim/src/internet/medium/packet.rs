use std::sync::Arc;

use layercast_core::{Time, prefetch};
use layercast_tcp::Ecn;
use layercast_wire::{
    IpBody, Ipv4Packet, PROTOCOL_TCP, PROTOCOL_UDP, PROTOCOL_XTP, Payload, TcpSegment, XtpPacket,
};
use layercast_workload::app::Media;

use super::ecmp::{Conversation, FlowMark};
use super::peered::Peered;
use super::user::Owner;
use crate::internet::discipline::Dscp;
use crate::internet::engine::PacketId;
use crate::internet::network::{NodeIndex, XtpDelivery};

/// What carries packets of XTP between two hosts: IP, the circuit they share, or one that a flow has for itself.
///
/// To the machine it is a part of the address, as a UDP port would be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Carrier(pub u16);

impl Carrier {
    /// What routers see of its packets: those with the same carrier share a circuit (specs/xtp.md 2.15).
    pub fn conversation(self) -> Conversation {
        Conversation {
            protocol: PROTOCOL_XTP,
            ports: (self.0, self.0),
        }
    }

    pub const IP: Carrier = Carrier(0);
    pub const SHARED: Carrier = Carrier(1);
    const FIRST_OWN: u16 = 2;

    pub fn of(delivery: XtpDelivery, flow: u32) -> Carrier {
        match delivery {
            XtpDelivery::Ip => Carrier::IP,
            XtpDelivery::HostPair => Carrier::SHARED,
            // Flows of the same number here share one, if they are between the same hosts.
            XtpDelivery::Context => {
                let own = flow % u32::from(u16::MAX - Carrier::FIRST_OWN);
                Carrier(Carrier::FIRST_OWN + own as u16)
            }
        }
    }
}

/// No step: where a packet goes is asked at each node.
pub(crate) const NO_STEP: u32 = u32::MAX;
/// Hops a packet may make (RFC 1700).
pub(crate) const TTL: u8 = 64;
/// Bytes of an IP header without options.
pub(crate) const IP_HEADER: u32 = 20;

/// The UDP port of the METS nodes, at both ends.
pub(crate) const METS_PORT: u16 = 4_900;
/// What routers see of a peering of METS nodes.
pub(crate) const METS: Conversation = Conversation::udp((METS_PORT, METS_PORT));

/// How many packets before its turn one is loaded, where many have theirs one after the other.
pub(crate) const AHEAD: usize = 8;

/// An IP packet under way. It stays where it is: links and queues pass its number on.
///
/// What nodes on its way look at lies together, on a line of its own: in large networks each costs a load from memory.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Packet {
    pub src: NodeIndex,
    pub dst: NodeIndex,
    /// With all headers.
    pub bytes: u32,
    /// Its next step on its [path](super::paths), or [`NO_STEP`]: nodes look for the way then.
    pub step: u32,
    /// What its routers tell its flow by.
    pub flow: FlowMark,
    pub ttl: u8,
    /// Whether it may be marked, and whether it was.
    pub ecn: Ecn,
    /// Its class.
    pub dscp: Dscp,
    pub body: Body,
}

#[derive(Clone, Debug)]
pub(crate) enum Body {
    /// No packet is here now.
    Free,
    Tcp(TcpSegment),
    Udp(Datagram),
    /// With the [carrier](Carrier) it goes by.
    Xtp(Box<XtpPacket>, Carrier),
    /// One to the group of a flow, on its way to the next node.
    Group(Arc<XtpPacket>, u32),
    /// Of a METS node to its neighbour, in this direction of a peering; both ports are [`METS_PORT`].
    Mets(Peered, u32),
    /// A packet with all its bytes, as real programs send them.
    Real(Box<Ipv4Packet>),
    /// A part of the packet of a group, from this byte of its data on.
    Fragment {
        group: u32,
        offset: u32,
    },
}

impl Body {
    /// What routers see of the flow of a packet. A part of one that was cut has no ports.
    pub fn conversation(&self) -> Conversation {
        match self {
            Body::Tcp(segment) => Conversation::tcp((segment.src_port, segment.dst_port)),
            Body::Udp(datagram) => Conversation::udp(datagram.ports),
            Body::Mets(..) => METS,
            Body::Xtp(_, carrier) => carrier.conversation(),
            Body::Real(packet) => Conversation {
                protocol: packet.body.protocol(),
                ports: ports(packet),
            },
            // Packets to a group have their own tree, parts are marked as what they are parts of.
            Body::Group(..) | Body::Fragment { .. } | Body::Free => Conversation {
                protocol: 0,
                ports: (0, 0),
            },
        }
    }
}

/// A UDP datagram.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Datagram {
    pub owner: Owner,
    pub sent: Time,
    /// Of the sender and of the receiver.
    pub ports: (u16, u16),
    /// What its application header says it is.
    pub media: Option<Media>,
}

/// A packet that was cut: it arrives when all its parts have.
#[derive(Debug)]
struct Group {
    whole: PacketId,
    /// Parts neither arrived nor lost.
    alive: u32,
    lost: bool,
    /// Tells its parts from those of other packets (RFC 791 3.2).
    identification: u16,
}

/// All packets under way.
#[derive(Debug, Default)]
pub(crate) struct Packets {
    all: Vec<Packet>,
    free: Vec<PacketId>,
    groups: Vec<Group>,
    free_groups: Vec<u32>,
    /// Packets that were cut.
    cut: u64,
    /// Bytes of those that carry them.
    real_bytes: u64,
}

impl Packets {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len() - self.free.len()
    }

    #[inline(always)]
    pub fn add(&mut self, packet: Packet) -> PacketId {
        match self.free.pop() {
            Some(id) => {
                self.all[id.0 as usize] = packet;
                id
            }
            None => {
                self.all.push(packet);
                PacketId(self.all.len() as u32 - 1)
            }
        }
    }

    /// Many packets are added one after the other: the place of one that has its turn soon is loaded.
    #[inline]
    pub fn prepare_places(&self) {
        if let Some(place) = self.free.len().checked_sub(AHEAD) {
            self.prepare_body(self.free[place]);
        }
    }

    /// A place for a segment, which becomes a packet or is [removed](Self::remove).
    #[inline(always)]
    pub fn reserve(&mut self) -> (PacketId, &mut TcpSegment) {
        let id = match self.free.pop() {
            Some(id) => id,
            None => self.add(Packet {
                src: NodeIndex(0),
                dst: NodeIndex(0),
                bytes: 0,
                step: NO_STEP,
                flow: FlowMark::default(),
                ttl: 0,
                ecn: Ecn::NotCapable,
                dscp: Dscp::default(),
                body: Body::Free,
            }),
        };
        let body = &mut self.all[id.0 as usize].body;
        if !matches!(body, Body::Tcp(_)) {
            *body = Body::Tcp(TcpSegment::default());
        }
        match body {
            Body::Tcp(segment) => (id, segment),
            _ => unreachable!("it was made one"),
        }
    }

    /// Adds a copy of a packet, unless it is a part of one that was cut.
    pub fn copy(&mut self, id: PacketId) -> Option<PacketId> {
        let packet = self.get(id);
        let body = match &packet.body {
            Body::Fragment { .. } => return None,
            body => body.clone(),
        };
        let copy = Packet { body, ..*packet };
        if let Body::Real(real) = &copy.body {
            self.real_bytes += real.encoded_len() as u64;
        }
        Some(self.add(copy))
    }

    pub fn get(&self, id: PacketId) -> &Packet {
        &self.all[id.0 as usize]
    }

    /// The packet of this number, or another one that has its place now; `None` if the number was never used.
    pub fn find(&self, id: PacketId) -> Option<&Packet> {
        self.all.get(id.0 as usize)
    }

    /// A packet will be passed on soon.
    #[inline]
    pub fn prepare(&self, id: PacketId) {
        if let Some(packet) = self.all.get(id.0 as usize) {
            prefetch(&packet.src);
        }
    }

    /// A packet will be received soon.
    #[inline]
    pub fn prepare_body(&self, id: PacketId) {
        if let Some(packet) = self.all.get(id.0 as usize) {
            prefetch(packet);
        }
    }

    pub fn get_mut(&mut self, id: PacketId) -> &mut Packet {
        &mut self.all[id.0 as usize]
    }

    /// Takes a packet out for good.
    #[inline]
    pub fn take(&mut self, id: PacketId) -> Body {
        self.free.push(id);
        std::mem::replace(&mut self.all[id.0 as usize].body, Body::Free)
    }

    /// Takes a packet out for good, with all that is said about it.
    pub fn take_whole(&mut self, id: PacketId) -> Packet {
        let body = self.take(id);
        Packet {
            body,
            ..*self.get(id)
        }
    }

    /// Forgets a packet that arrived, or was cut. What it carried stays until another one has its place.
    #[inline]
    pub fn remove(&mut self, id: PacketId) {
        self.free.push(id);
    }

    /// Forgets a packet that got lost, and with the last part of one the whole of it.
    pub fn lose(&mut self, id: PacketId) {
        match self.take(id) {
            Body::Fragment { group, .. } => {
                self.groups[group as usize].lost = true;
                self.settle(group);
            }
            Body::Real(packet) => self.was_taken(&packet),
            _ => {}
        }
    }

    /// Adds a packet with all its bytes.
    pub fn add_real(&mut self, src: NodeIndex, dst: NodeIndex, packet: Ipv4Packet) -> PacketId {
        let bytes = packet.encoded_len() as u32;
        self.real_bytes += u64::from(bytes);
        let (from, to, ttl) = (packet.src, packet.dst, packet.ttl);
        let (ecn, dscp) = (Ecn::of_tos(packet.tos), Dscp::of_tos(packet.tos));
        let body = Body::Real(Box::new(packet));
        self.add(Packet {
            src,
            dst,
            bytes,
            step: NO_STEP,
            flow: body.conversation().mark(from, to),
            ttl,
            ecn,
            dscp,
            body,
        })
    }

    /// The directions of peerings of all packets of METS nodes.
    pub fn mets(&self) -> impl Iterator<Item = u32> {
        self.all.iter().filter_map(|packet| match packet.body {
            Body::Mets(_, wire) => Some(wire),
            _ => None,
        })
    }

    /// A packet with all its bytes has left for good.
    pub fn was_taken(&mut self, packet: &Ipv4Packet) {
        self.real_bytes -= packet.encoded_len() as u64;
    }

    /// Bytes of all packets that carry them.
    pub fn real_bytes(&self) -> u64 {
        self.real_bytes
    }

    /// Cuts a packet into parts of at most `mtu` bytes (RFC 791 2.3); they are in `parts` in order.
    pub fn cut(&mut self, id: PacketId, mtu: u32, parts: &mut Vec<PacketId>) {
        let Packet {
            src,
            dst,
            bytes,
            step: next,
            flow,
            ttl,
            ecn,
            dscp,
            ref body,
        } = *self.get(id);
        let step = (mtu - IP_HEADER) / 8 * 8;
        let data = bytes - IP_HEADER;
        let count = data.div_ceil(step);
        // A part that is cut again belongs to the same packet.
        let (group, start) = match *body {
            Body::Fragment { group, offset } => {
                self.remove(id);
                self.groups[group as usize].alive += count - 1;
                (group, offset)
            }
            _ => (self.group(id, count), 0),
        };
        parts.clear();
        for part in 0..count {
            let bytes = IP_HEADER + step.min(data - part * step);
            let body = Body::Fragment {
                group,
                offset: start + part * step,
            };
            parts.push(self.add(Packet {
                src,
                dst,
                bytes,
                step: next,
                flow,
                ttl,
                ecn,
                dscp,
                body,
            }));
        }
    }

    fn group(&mut self, whole: PacketId, alive: u32) -> u32 {
        let group = Group {
            whole,
            alive,
            lost: false,
            identification: self.cut as u16,
        };
        self.cut += 1;
        match self.free_groups.pop() {
            Some(place) => {
                self.groups[place as usize] = group;
                place
            }
            None => {
                self.groups.push(group);
                self.groups.len() as u32 - 1
            }
        }
    }

    /// The identification of the packet of which a group has the parts.
    pub fn identification(&self, group: u32) -> u16 {
        self.groups[group as usize].identification
    }

    /// The packet of which a group has the parts.
    pub fn whole(&self, group: u32) -> &Packet {
        self.get(self.groups[group as usize].whole)
    }

    /// A part arrived where the packet goes: gives the packet if it was the last one, and none is lost.
    #[inline]
    pub fn join(&mut self, id: PacketId) -> Option<PacketId> {
        let part = self.get(id);
        let Body::Fragment { group, .. } = part.body else {
            return Some(id);
        };
        // A mark of one is a mark of the whole (RFC 3168 5.3).
        if part.ecn == Ecn::Congested {
            let whole = self.groups[group as usize].whole;
            self.get_mut(whole).ecn = Ecn::Congested;
        }
        self.remove(id);
        self.settle(group)
    }

    fn settle(&mut self, place: u32) -> Option<PacketId> {
        let group = &mut self.groups[place as usize];
        group.alive -= 1;
        if group.alive > 0 {
            return None;
        }
        let (whole, lost) = (group.whole, group.lost);
        self.free_groups.push(place);
        if lost {
            self.lose(whole);
            return None;
        }
        Some(whole)
    }
}

/// The ports that a packet has in its bytes, if it has any: the first data of TCP and UDP. Parts of one have none.
pub(crate) fn ports(packet: &Ipv4Packet) -> (u16, u16) {
    let has_ports = matches!(packet.body.protocol(), PROTOCOL_TCP | PROTOCOL_UDP);
    let is_whole = packet.fragment_offset == 0 && !packet.more_fragments;
    match &packet.body {
        IpBody::Other {
            payload: Payload::Bytes(data),
            ..
        } if has_ports && is_whole => match data.first_chunk() {
            Some(&[a, b, c, d]) => (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])),
            None => (0, 0),
        },
        _ => (0, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(bytes: u32) -> Packet {
        let owner = Owner::Flow(0);
        let body = Body::Udp(Datagram {
            owner,
            sent: Time::ZERO,
            ports: (1, 2),
            media: None,
        });
        Packet {
            src: NodeIndex(0),
            dst: NodeIndex(1),
            bytes,
            step: NO_STEP,
            flow: FlowMark::default(),
            ttl: 9,
            ecn: Ecn::Capable0,
            dscp: Dscp::default(),
            body,
        }
    }

    #[test]
    fn parts_carry_every_byte_and_make_the_packet_again() {
        let (mut packets, mut parts, mut again) = (Packets::default(), Vec::new(), Vec::new());
        let whole = packets.add(packet(4_020));
        packets.cut(whole, 1_500, &mut parts);
        let sizes = |ids: &[PacketId], packets: &Packets| -> Vec<u32> {
            ids.iter().map(|&id| packets.get(id).bytes).collect()
        };
        assert_eq!(sizes(&parts, &packets), [1_500, 1_500, 1_060]);
        packets.cut(parts[0], 576, &mut again);
        assert_eq!(sizes(&again, &packets), [572, 572, 396]);
        assert_eq!(packets.join(again[2]), None);
        assert_eq!(packets.join(parts[2]), None);
        assert_eq!(packets.join(again[0]), None);
        assert_eq!(packets.join(parts[1]), None);
        assert_eq!(packets.join(again[1]), Some(whole));
        packets.take(whole);
        assert_eq!(packets.len(), 0);
    }

    #[test]
    fn a_mark_of_a_part_is_one_of_the_packet() {
        let (mut packets, mut parts) = (Packets::default(), Vec::new());
        let mut joined = |marked: Option<usize>| {
            let whole = packets.add(packet(4_020));
            packets.cut(whole, 1_500, &mut parts);
            for (n, &part) in parts.iter().enumerate() {
                assert_eq!(packets.get(part).ecn, Ecn::Capable0);
                if marked == Some(n) {
                    packets.get_mut(part).ecn = Ecn::Congested;
                }
                packets.join(part);
            }
            let ecn = packets.get(whole).ecn;
            packets.take(whole);
            ecn
        };
        assert_eq!(joined(None), Ecn::Capable0);
        assert!((0..3).all(|n| joined(Some(n)) == Ecn::Congested));
    }

    #[test]
    fn parts_of_packets_that_follow_each_other_are_told_apart() {
        let (mut packets, mut parts) = (Packets::default(), Vec::new());
        let seen = [(); 3].map(|()| {
            let whole = packets.add(packet(4_020));
            packets.cut(whole, 1_500, &mut parts);
            let Body::Fragment { group, .. } = packets.get(parts[0]).body else {
                panic!("a part");
            };
            let seen = packets.identification(group);
            // The place of the group is free again.
            parts.iter().for_each(|&part| packets.lose(part));
            seen
        });
        assert_eq!(seen, [0, 1, 2]);
    }

    #[test]
    fn with_one_part_lost_nothing_arrives_and_nothing_stays() {
        let (mut packets, mut parts) = (Packets::default(), Vec::new());
        for lost in 0..3 {
            let whole = packets.add(packet(4_020));
            packets.cut(whole, 1_500, &mut parts);
            for (n, &part) in parts.iter().enumerate() {
                if n == lost {
                    packets.lose(part);
                } else {
                    assert_eq!(packets.join(part), None);
                }
            }
            assert_eq!(packets.len(), 0);
        }
    }
}
