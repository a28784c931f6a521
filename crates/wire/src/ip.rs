use core::net::Ipv4Addr;

use bytes::Bytes;
use thiserror::Error;

use crate::checksum::Checksum;
use crate::tcp::PROTOCOL_TCP;
use crate::udp::PROTOCOL_UDP;
use crate::{Payload, TcpSegment, UdpDatagram};

/// Bytes of an IPv4 header without options.
pub const IPV4_HEADER: usize = 20;

/// An IPv4 packet without options (RFC 791).
///
/// Packets with options are refused: common stacks do not send them, routers drop them (RFC 7126), and without
/// them each value has exactly one encoding.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ipv4Packet {
    /// Where it comes from.
    pub src: Ipv4Addr,
    /// Where it goes to.
    pub dst: Ipv4Addr,
    /// Type of service: DSCP and ECN.
    pub tos: u8,
    /// Identification, shared by the fragments of a packet.
    pub id: u16,
    /// Hops it may still make.
    pub ttl: u8,
    /// Whether routers must drop it rather than fragment it.
    pub dont_fragment: bool,
    /// Whether fragments follow this one.
    pub more_fragments: bool,
    /// Where the data of this fragment starts, in units of 8 bytes, below 2^13.
    pub fragment_offset: u16,
    /// What it carries.
    pub body: IpBody,
}

/// What an IPv4 packet carries.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum IpBody {
    /// A TCP segment.
    Tcp(TcpSegment),
    /// A UDP datagram.
    Udp(UdpDatagram),
    /// Another protocol, or a fragment of any.
    Other {
        /// Protocol number.
        protocol: u8,
        /// The bytes after the IP header.
        payload: Payload,
    },
}

/// Why bytes are not a packet of IPv4, TCP or UDP, or why a value has no bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum IpError {
    /// Shorter than the header.
    #[error("{0} bytes are shorter than the header")]
    Short(usize),
    /// Not version 4.
    #[error("IP version {0} is not 4")]
    Version(u8),
    /// IP options are not supported.
    #[error("IPv4 header of {0} bytes; options are not supported")]
    Options(usize),
    /// A length that contradicts the bytes that are there.
    #[error("length field {said} does not fit {there} bytes")]
    Length {
        /// What the header says.
        said: usize,
        /// What there is.
        there: usize,
    },
    /// Damaged on the way.
    #[error("{0} checksum is wrong")]
    Checksum(&'static str),
    /// A TCP option of impossible length.
    #[error("TCP option {kind} at {at} has an impossible length")]
    TcpOption {
        /// Its number.
        kind: u8,
        /// Its place in the option field.
        at: usize,
    },
    /// More than 16 bits can count.
    #[error("{0} bytes are more than an IPv4 packet can carry")]
    TooLong(usize),
}

impl IpBody {
    /// Protocol number.
    pub fn protocol(&self) -> u8 {
        match self {
            IpBody::Tcp(_) => PROTOCOL_TCP,
            IpBody::Udp(_) => PROTOCOL_UDP,
            IpBody::Other { protocol, .. } => *protocol,
        }
    }

    /// Bytes after the IP header.
    pub fn encoded_len(&self) -> usize {
        match self {
            IpBody::Tcp(segment) => segment.encoded_len(),
            IpBody::Udp(datagram) => datagram.encoded_len(),
            IpBody::Other { payload, .. } => payload.len(),
        }
    }
}

impl Ipv4Packet {
    /// A whole packet that may not be fragmented, with 64 hops to go.
    pub fn new(src: Ipv4Addr, dst: Ipv4Addr, body: IpBody) -> Ipv4Packet {
        Ipv4Packet {
            src,
            dst,
            tos: 0,
            id: 0,
            ttl: 64,
            dont_fragment: true,
            more_fragments: false,
            fragment_offset: 0,
            body,
        }
    }

    /// Bytes that [`encode_into`](Self::encode_into) appends.
    pub fn encoded_len(&self) -> usize {
        IPV4_HEADER + self.body.encoded_len()
    }

    /// Whether it is a part of a packet only.
    pub fn is_fragment(&self) -> bool {
        self.more_fragments || self.fragment_offset != 0
    }

    /// Appends the packet; one above 65535 bytes is refused, and nothing is appended.
    pub fn encode_into(&self, out: &mut Vec<u8>) -> Result<(), IpError> {
        let len = self.encoded_len();
        let Ok(total) = u16::try_from(len) else {
            return Err(IpError::TooLong(len));
        };
        let flags = u16::from(self.dont_fragment) << 14
            | u16::from(self.more_fragments) << 13
            | self.fragment_offset & 0x1fff;
        let mut head = [0; IPV4_HEADER];
        head[0] = 0x45;
        head[1] = self.tos;
        head[2..4].copy_from_slice(&total.to_be_bytes());
        head[4..6].copy_from_slice(&self.id.to_be_bytes());
        head[6..8].copy_from_slice(&flags.to_be_bytes());
        head[8] = self.ttl;
        head[9] = self.body.protocol();
        head[12..16].copy_from_slice(&self.src.octets());
        head[16..20].copy_from_slice(&self.dst.octets());
        let sum = Checksum::default().bytes(&head).finish();
        head[10..12].copy_from_slice(&sum.to_be_bytes());
        let start = out.len();
        out.extend_from_slice(&head);
        match &self.body {
            IpBody::Tcp(segment) => segment.encode_into(self.src, self.dst, out),
            IpBody::Udp(datagram) => datagram.encode_into(self.src, self.dst, out)?,
            IpBody::Other { payload, .. } => payload.append_to(out),
        }
        debug_assert_eq!(out.len() - start, len);
        Ok(())
    }

    /// Decodes a packet; bytes beyond its own length are padding of the link.
    ///
    /// Payloads share the memory of `bytes`. A fragment stays [`IpBody::Other`], whatever it is
    /// part of.
    pub fn decode(bytes: Bytes) -> Result<Ipv4Packet, IpError> {
        let mut packet = Ipv4Packet::decode_outer(bytes)?;
        if let IpBody::Other { protocol, payload } = &packet.body
            && let Payload::Bytes(body) = payload
            && !packet.is_fragment()
        {
            let (src, dst) = (packet.src, packet.dst);
            match *protocol {
                PROTOCOL_TCP => {
                    packet.body = IpBody::Tcp(TcpSegment::decode(src, dst, body.clone())?);
                }
                PROTOCOL_UDP => {
                    packet.body = IpBody::Udp(UdpDatagram::decode(src, dst, body.clone())?);
                }
                _ => {}
            }
        }
        Ok(packet)
    }

    /// Decodes no more than a router looks at, the IP header: the body is [`IpBody::Other`], whatever it is.
    pub fn decode_outer(bytes: Bytes) -> Result<Ipv4Packet, IpError> {
        let Some(head) = bytes.first_chunk::<IPV4_HEADER>() else {
            return Err(IpError::Short(bytes.len()));
        };
        if head[0] >> 4 != 4 {
            return Err(IpError::Version(head[0] >> 4));
        }
        match usize::from(head[0] & 15) * 4 {
            IPV4_HEADER => {}
            len => return Err(IpError::Options(len)),
        }
        if Checksum::default().bytes(head).finish() != 0 {
            return Err(IpError::Checksum("IPv4 header"));
        }
        let field = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
        let address = |at: usize| Ipv4Addr::new(head[at], head[at + 1], head[at + 2], head[at + 3]);
        let total = usize::from(field(2));
        if !(IPV4_HEADER..=bytes.len()).contains(&total) {
            return Err(IpError::Length {
                said: total,
                there: bytes.len(),
            });
        }
        let (src, dst, protocol) = (address(12), address(16), head[9]);
        Ok(Ipv4Packet {
            src,
            dst,
            tos: head[1],
            id: field(4),
            ttl: head[8],
            dont_fragment: field(6) & 0x4000 != 0,
            more_fragments: field(6) & 0x2000 != 0,
            fragment_offset: field(6) & 0x1fff,
            body: IpBody::Other {
                protocol,
                payload: bytes.slice(IPV4_HEADER..total).into(),
            },
        })
    }
}
