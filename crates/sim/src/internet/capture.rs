//! Packets as they are on the wire, for those that want to look at them.

use core::net::{Ipv4Addr, SocketAddrV4};

use layercast_core::Time;
use layercast_wire::{
    Carriage, Interface, IpBody, Ipv4Packet, PROTOCOL_XTP, Payload, UdpDatagram, XtpPacket,
};

use super::addresses::group_address;
use super::atm::Backbone;
use super::mets;
use super::network::NodeIndex;
use super::packet::{Body, Carrier, IP_HEADER, Packet, PacketId};
use super::report::Watch;
use super::world::Internet;

/// A packet that a pipe took.
#[derive(Debug)]
pub(super) struct Captured {
    pub at: Time,
    pub pipe: u32,
    pub packet: Ipv4Packet,
}

impl Internet {
    /// What there is to capture, in the order of the numbers that a watcher gets: the links, each direction
    /// apart, and the LANs; then, if [cells are captured](Internet::capture_cells), each direction of each ATM
    /// link.
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
        let ports = self.atm.iter().flat_map(|backbone| backbone.seen_ports());
        pipes
            .map(move |name| interface(name, Carriage::Datagrams))
            .chain(ports.map(move |name| interface(name, Carriage::Cells)))
    }

    /// From now on the watcher gets every packet that a link or LAN takes, when its transmission begins. Data
    /// are zeros, and there is no framing.
    pub fn capture(&mut self) {
        self.captured.get_or_insert_default();
    }

    /// The same, and every cell when its transmission on an ATM link begins. Cells then move one by one, which
    /// takes longer and gives the same results. Once there have been cells it is too late: returns false, and
    /// no cell is reported.
    pub fn capture_cells(&mut self) -> bool {
        self.capture();
        self.atm.as_deref_mut().is_none_or(Backbone::see)
    }

    /// Tells of packets and cells in the order of time.
    pub(super) fn hand_over_captured<W: Watch>(&mut self, watch: &mut W) {
        let Some(mut packets) = self.captured.take() else {
            return;
        };
        let mut waiting = packets.drain(..).peekable();
        let pipes = self.pipes.len() as u32;
        let packet = |watch: &mut W, it: Captured| watch.packet(it.at, it.pipe, &it.packet);
        self.cells_seen(|at, port, cell| {
            while let Some(it) = waiting.next_if(|it| it.at <= at) {
                packet(watch, it);
            }
            watch.cell(at, pipes + port, cell);
        });
        waiting.for_each(|it| packet(watch, it));
        self.captured = Some(packets);
    }

    /// Keeps a packet for the watcher.
    pub(super) fn see(&mut self, pipe: u32, id: PacketId) {
        let packet = self.on_wire(self.packets.get(id));
        let at = self.now;
        if let Some(captured) = &mut self.captured {
            captured.push(Captured { at, pipe, packet });
        }
    }

    /// A packet whose transmission begins now.
    pub(super) fn on_wire(&self, packet: &Packet) -> Ipv4Packet {
        let ttl = packet.ttl;
        match &packet.body {
            Body::Real(real) => Ipv4Packet {
                ttl,
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
                let whole = self.on_wire(whole);
                Ipv4Packet {
                    id,
                    ttl,
                    more_fragments: more || whole.more_fragments,
                    fragment_offset: whole.fragment_offset + (offset / 8) as u16,
                    body,
                    ..whole
                }
            }
            body => {
                let address = |node: NodeIndex| self.node_addresses[node.0 as usize];
                let src = address(packet.src);
                let dst = match body {
                    Body::Group(_, flow) => group_address(*flow),
                    _ => address(packet.dst),
                };
                Ipv4Packet {
                    ttl,
                    dont_fragment: false,
                    ..Ipv4Packet::new(src, dst, content(packet, body))
                }
            }
        }
    }

    /// A packet as a circuit of the backbone carries it: XTP over AAL5 alone has no IP header.
    pub(super) fn on_circuit(&self, packet: &Packet) -> Vec<u8> {
        let mut octets = Vec::with_capacity(packet.bytes as usize);
        match &packet.body {
            Body::Xtp(xtp, carrier) if *carrier != Carrier::IP => xtp.encode_into(&mut octets),
            // What does not fit into 16 bits was never sent.
            _ => drop(self.on_wire(packet).encode_into(&mut octets)),
        }
        octets
    }

    /// Some of the data of a packet, its transport header among them.
    fn part(&self, whole: &Packet, offset: u32, data: u32) -> IpBody {
        let whole = self.on_wire(whole);
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
        Body::Mets(framed, _) => {
            let mut octets = Vec::with_capacity(framed.encoded_len());
            framed.encode_into(&mut octets);
            IpBody::Udp(UdpDatagram {
                src_port: mets::PORT,
                dst_port: mets::PORT,
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
