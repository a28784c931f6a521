//! Packets as they are on the wire, for those who want to look at them.

use layercast_core::Time;
use layercast_wire::{IpBody, Ipv4Packet, PROTOCOL_XTP, Payload, UdpDatagram, XtpPacket};

use super::group::group_address;
use super::packet::{Body, IP_HEADER, Packet, PacketId};
use super::pipe::Pipe;
use super::{Internet, NodeIndex};

/// A packet that a pipe took.
#[derive(Debug)]
pub(super) struct Captured {
    pub at: Time,
    pub pipe: u32,
    pub packet: Ipv4Packet,
}

impl Internet {
    /// The links, each direction apart, and the LANs.
    pub fn interfaces(&self) -> impl Iterator<Item = &str> {
        self.pipes.iter().map(Pipe::name)
    }

    /// From now on the watcher is told of every packet that a link or LAN takes, as it goes on the wire. Data
    /// are zeros, and there is no framing; those of LANs and links only, cells are not captured.
    pub fn capture(&mut self) {
        self.captured.get_or_insert_default();
    }

    /// Keeps a packet for the watcher.
    pub(super) fn see(&mut self, pipe: u32, id: PacketId) {
        let packet = self.on_wire(self.packets.get(id));
        let at = self.now;
        if let Some(captured) = &mut self.captured {
            captured.push(Captured { at, pipe, packet });
        }
    }

    /// A packet as it goes on the wire now.
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
                    _ => *group as u16,
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
        Body::Xtp(packet, _) => xtp(packet),
        Body::Group(packet, _) => xtp(packet),
        Body::Real(_) | Body::Fragment { .. } | Body::Free => IpBody::Other {
            protocol: 0,
            payload: Payload::Zeros(packet.bytes.saturating_sub(IP_HEADER)),
        },
    }
}
