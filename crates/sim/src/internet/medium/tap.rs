//! Packets as they are on the wire, for those that want to look at them.

use core::net::{Ipv4Addr, SocketAddrV4};

use layercast_core::Time;
use layercast_wire::{
    Carriage, Cell, Interface, IpBody, Ipv4Packet, PROTOCOL_XTP, Payload, UdpDatagram, XtpPacket,
};

use super::Medium;
use super::addresses::group_address;
use super::packet::{Body, Carrier, IP_HEADER, METS_PORT, Packet, Packets};
use crate::internet::engine::PacketId;
use crate::internet::network::NodeIndex;
use crate::internet::report::Watch;

/// A packet that a pipe took.
#[derive(Debug)]
pub(crate) struct Captured {
    pub at: Time,
    pub pipe: u32,
    pub packet: Ipv4Packet,
}

impl Medium<'_> {
    /// The links, each direction apart, the LANs, and each direction of each ATM link whose cells are captured.
    pub fn interfaces(&self) -> impl Iterator<Item = Interface> {
        let interface = |name: String, carriage| {
            let nobody = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);
            Interface {
                name,
                description: String::new(),
                carriage,
                source: nobody,
                destination: nobody,
                snap_len: 0,
            }
        };
        let pipes = self.pipes.iter().map(|pipe| pipe.name().to_owned());
        let ports = self
            .backbone
            .iter()
            .flat_map(|backbone| backbone.seen_ports());
        pipes
            .map(move |name| interface(name, Carriage::Datagrams))
            .chain(ports.map(move |name| interface(name, Carriage::Cells)))
    }

    /// Tells of packets and cells in the order of time.
    pub(crate) fn hand_over_captured<W: Watch>(&mut self, watch: &mut W) {
        let Some(mut packets) = self.captured.take() else {
            return;
        };
        let mut waiting = packets.drain(..).peekable();
        let pipes = self.pipes.len() as u32;
        let packet = |watch: &mut W, it: Captured| watch.packet(it.at, it.pipe, &it.packet);
        let on_wire = OnWire::of(&self.packets, &self.node_addresses);
        let circuit = |id| on_wire.on_circuit(id);
        let seen = |at, port, cell: &Cell| {
            while let Some(it) = waiting.next_if(|it| it.at <= at) {
                packet(watch, it);
            }
            watch.cell(at, pipes + port, cell);
        };
        if let Some(backbone) = self.backbone.as_deref_mut() {
            backbone.cells_seen(circuit, seen);
        }
        waiting.for_each(|it| packet(watch, it));
        self.captured = Some(packets);
    }

    /// Keeps a packet for the watcher.
    pub(crate) fn see(&mut self, pipe: u32, id: PacketId) {
        let packet = self.on_wire(id);
        let at = self.engine.now;
        if let Some(captured) = &mut self.captured {
            captured.push(Captured { at, pipe, packet });
        }
    }

    /// A packet whose transmission begins now.
    pub(crate) fn on_wire(&self, id: PacketId) -> Ipv4Packet {
        let on_wire = OnWire::of(&self.packets, &self.node_addresses);
        on_wire.packet(self.packets.get(id))
    }

    /// A packet that was cut, as if it were not.
    pub(crate) fn whole_on_wire(&self, group: u32) -> Ipv4Packet {
        let on_wire = OnWire::of(&self.packets, &self.node_addresses);
        on_wire.packet(self.packets.whole(group))
    }
}

/// What packets are on the wire depends on others: parts refer to the packet that was cut.
struct OnWire<'a> {
    packets: &'a Packets,
    addresses: &'a [Ipv4Addr],
}

impl<'a> OnWire<'a> {
    fn of(packets: &'a Packets, addresses: &'a [Ipv4Addr]) -> OnWire<'a> {
        OnWire { packets, addresses }
    }

    /// A packet whose transmission begins now.
    fn packet(&self, packet: &Packet) -> Ipv4Packet {
        let ttl = packet.ttl;
        match &packet.body {
            Body::Real(real) => Ipv4Packet {
                ttl,
                tos: packet.ecn.in_tos(real.tos),
                ..Ipv4Packet::clone(real)
            },
            Body::Fragment { group, offset } => {
                let whole = self.packets.whole(*group);
                let data = packet.bytes - IP_HEADER;
                let more = offset + data < whole.bytes - IP_HEADER;
                let body = self.part(whole, *offset, data);
                let id = match &whole.body {
                    Body::Real(real) => real.id,
                    _ => self.packets.identification(*group),
                };
                let whole = self.packet(whole);
                Ipv4Packet {
                    id,
                    ttl,
                    tos: packet.ecn.in_tos(whole.tos),
                    more_fragments: more || whole.more_fragments,
                    fragment_offset: whole.fragment_offset + (offset / 8) as u16,
                    body,
                    ..whole
                }
            }
            body => {
                let address = |node: NodeIndex| self.addresses[node.0 as usize];
                let src = address(packet.src);
                let dst = match body {
                    Body::Group(_, flow) => group_address(*flow),
                    _ => address(packet.dst),
                };
                Ipv4Packet {
                    ttl,
                    tos: packet.ecn.in_tos(packet.dscp.as_tos()),
                    dont_fragment: false,
                    ..Ipv4Packet::new(src, dst, content(packet, body))
                }
            }
        }
    }

    /// A packet as a circuit of the backbone carries it: XTP over AAL5 alone has no IP header.
    fn on_circuit(&self, id: PacketId) -> Vec<u8> {
        let packet = self.packets.get(id);
        let mut octets = Vec::with_capacity(packet.bytes as usize);
        match &packet.body {
            Body::Xtp(xtp, carrier) if *carrier != Carrier::IP => xtp.encode_into(&mut octets),
            // What does not fit into 16 bits was never sent.
            _ => drop(self.packet(packet).encode_into(&mut octets)),
        }
        // The size in the model; tests check that the encoding has this length.
        debug_assert_eq!(octets.len(), packet.bytes as usize);
        octets.resize(packet.bytes as usize, 0);
        octets
    }

    /// Some of the data of a packet, its transport header among them.
    fn part(&self, whole: &Packet, offset: u32, data: u32) -> IpBody {
        let whole = self.packet(whole);
        let mut bytes = Vec::new();
        // What does not fit into 16 bits was never sent.
        let encoded = whole.encode_into(&mut bytes).is_ok();
        let from = (IP_HEADER + offset) as usize;
        let bytes = bytes.get(from..from + data as usize).filter(|_| encoded);
        IpBody::Other {
            protocol: whole.body.protocol(),
            payload: Payload::Bytes(bytes.unwrap_or_default().to_vec().into()),
        }
    }
}

fn xtp(packet: &XtpPacket) -> IpBody {
    let mut bytes = Vec::new();
    packet.encode_into(&mut bytes);
    IpBody::Other {
        protocol: PROTOCOL_XTP,
        payload: Payload::Bytes(bytes.into()),
    }
}

fn content(packet: &Packet, body: &Body) -> IpBody {
    match body {
        Body::Tcp(segment) => IpBody::Tcp(segment.clone()),
        Body::Udp(datagram) => IpBody::Udp(UdpDatagram {
            src_port: datagram.ports.0,
            dst_port: datagram.ports.1,
            checksum: true,
            payload: Payload::Zeros(packet.bytes.saturating_sub(28)),
        }),
        Body::Mets(datagram, _) => {
            let mut octets = Vec::with_capacity(datagram.encoded_len());
            datagram.encode_into(&mut octets);
            IpBody::Udp(UdpDatagram {
                src_port: METS_PORT,
                dst_port: METS_PORT,
                checksum: true,
                payload: Payload::Bytes(octets.into()),
            })
        }
        Body::Xtp(packet, _) => xtp(packet),
        Body::Group(packet, _) => xtp(packet),
        Body::Real(_) | Body::Fragment { .. } | Body::Free => IpBody::Other {
            protocol: 0,
            payload: Payload::Zeros(packet.bytes.saturating_sub(IP_HEADER)),
        },
    }
}
