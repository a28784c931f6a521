use core::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4};

use bytes::{Buf, Bytes};
use serde::{Deserialize, Serialize};

use super::{XtpError, XtpService};

const NULL: u8 = 0;
const IPV4: u8 = 1;
const IPV6: u8 = 6;
const PORTS: u8 = 129;
const SPEC: u8 = 1;

/// Destination and source of a FIRST or JCNTL (specs/xtp.md 2.2).
///
/// Unused bytes of the formats are sent as 0 and ignored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum XtpAddress {
    /// None. tshark misreads the segment after it: send it only where no dissector is used.
    Null,
    /// IPv4 addresses and ports.
    Ipv4 {
        /// Destination.
        dst: SocketAddrV4,
        /// Source.
        src: SocketAddrV4,
    },
    /// IPv6 addresses and ports, which we understand but never send (specs/xtp.md 2.3, rule 4).
    Ipv6 {
        /// Destination.
        dst: (Ipv6Addr, u16),
        /// Source.
        src: (Ipv6Addr, u16),
    },
    /// Ports only, in a private format: the addresses are those of the IP header (specs/xtp.md 2.3, rule 4).
    Ports {
        /// Destination.
        dst: u16,
        /// Source.
        src: u16,
    },
    /// A format that is not known here, or a known one of another length.
    Other {
        /// Its number.
        format: u8,
        /// What follows it.
        bytes: Bytes,
    },
}

impl XtpAddress {
    /// Number of the format.
    pub fn format(&self) -> u8 {
        match self {
            XtpAddress::Null => NULL,
            XtpAddress::Ipv4 { .. } => IPV4,
            XtpAddress::Ipv6 { .. } => IPV6,
            XtpAddress::Ports { .. } => PORTS,
            XtpAddress::Other { format, .. } => *format,
        }
    }

    /// Whether its format is known and its length is not that of the format.
    pub fn is_malformed(&self) -> bool {
        matches!(self, XtpAddress::Other { format, .. } if known_address(*format).is_some())
    }

    /// Bytes it takes.
    pub fn encoded_len(&self) -> usize {
        match self {
            XtpAddress::Other { bytes, .. } => 4 + bytes.len(),
            known => known_address(known.format()).unwrap_or(8),
        }
    }

    pub(super) fn encode_into(&self, out: &mut Vec<u8>) {
        let end = out.len() + self.encoded_len();
        head(out, self.encoded_len(), [0, self.format()]);
        match self {
            XtpAddress::Null => {}
            XtpAddress::Ipv4 { dst, src } => {
                out.extend_from_slice(&dst.ip().octets());
                out.extend_from_slice(&src.ip().octets());
                ports(out, dst.port(), src.port());
            }
            XtpAddress::Ipv6 { dst, src } => {
                out.extend_from_slice(&dst.0.octets());
                out.extend_from_slice(&src.0.octets());
                ports(out, dst.1, src.1);
            }
            XtpAddress::Ports { dst, src } => ports(out, *dst, *src),
            XtpAddress::Other { bytes, .. } => out.extend_from_slice(bytes),
        }
        out.resize(end, 0);
    }

    /// Takes an address segment off `bytes`.
    pub(super) fn decode(bytes: &mut Bytes) -> Result<XtpAddress, XtpError> {
        let ([_, format], mut body) = segment("address", bytes)?;
        if known_address(format) != Some(4 + body.len()) {
            return Ok(XtpAddress::Other {
                format,
                bytes: body,
            });
        }
        Ok(match format {
            IPV4 => {
                let (dst, src) = (ipv4(&mut body), ipv4(&mut body));
                XtpAddress::Ipv4 {
                    dst: SocketAddrV4::new(dst, body.get_u16()),
                    src: SocketAddrV4::new(src, body.get_u16()),
                }
            }
            IPV6 => {
                let (dst, src) = (body.get_u128().into(), body.get_u128().into());
                XtpAddress::Ipv6 {
                    dst: (dst, body.get_u16()),
                    src: (src, body.get_u16()),
                }
            }
            PORTS => XtpAddress::Ports {
                dst: body.get_u16(),
                src: body.get_u16(),
            },
            _ => XtpAddress::Null,
        })
    }
}

/// What a stream may carry: bytes and bytes per second, 0 where nothing is said (specs/xtp.md 2.2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug, Serialize, Deserialize)]
pub struct XtpTrafficSpec {
    /// Most user bytes of a packet.
    pub max_data: u32,
    /// Bytes per second that the sender of this can take.
    pub in_rate: u32,
    /// Bytes in a row that it can take.
    pub in_burst: u32,
    /// Bytes per second that it will send.
    pub out_rate: u32,
    /// Bytes in a row that it will send.
    pub out_burst: u32,
}

/// The traffic segment of FIRST, TCNTL and JCNTL (specs/xtp.md 2.2).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum XtpTraffic {
    /// A service without numbers.
    Unspecified(XtpService),
    /// A service and its numbers.
    Spec(XtpService, XtpTrafficSpec),
    /// A format that is not known here, or a known one of another length.
    Other {
        /// The service.
        service: XtpService,
        /// Number of the format.
        format: u8,
        /// What follows it.
        bytes: Bytes,
    },
}

impl XtpTraffic {
    /// The service.
    pub fn service(&self) -> XtpService {
        match self {
            XtpTraffic::Unspecified(service) | XtpTraffic::Spec(service, _) => *service,
            XtpTraffic::Other { service, .. } => *service,
        }
    }

    /// The numbers; all 0 where there are none.
    pub fn spec(&self) -> XtpTrafficSpec {
        match self {
            XtpTraffic::Spec(_, spec) => *spec,
            _ => XtpTrafficSpec::default(),
        }
    }

    /// Whether its format is known and its length is not that of the format.
    pub fn is_malformed(&self) -> bool {
        matches!(self, XtpTraffic::Other { format, .. } if known_traffic(*format).is_some())
    }

    /// Bytes it takes.
    pub fn encoded_len(&self) -> usize {
        match self {
            XtpTraffic::Unspecified(_) => 8,
            XtpTraffic::Spec(..) => 24,
            XtpTraffic::Other { bytes, .. } => 4 + bytes.len(),
        }
    }

    pub(super) fn encode_into(&self, out: &mut Vec<u8>) {
        let service = self.service().0;
        let mut start = |format| head(out, self.encoded_len(), [service, format]);
        match self {
            XtpTraffic::Unspecified(_) => {
                start(NULL);
                out.extend_from_slice(&[0; 4]);
            }
            XtpTraffic::Spec(_, spec) => {
                start(SPEC);
                let ends = [spec.in_rate, spec.in_burst, spec.out_rate, spec.out_burst];
                for field in [spec.max_data].into_iter().chain(ends) {
                    out.extend_from_slice(&field.to_be_bytes());
                }
            }
            XtpTraffic::Other { format, bytes, .. } => {
                start(*format);
                out.extend_from_slice(bytes);
            }
        }
    }

    /// Takes a traffic segment off `bytes`.
    pub(super) fn decode(bytes: &mut Bytes) -> Result<XtpTraffic, XtpError> {
        let ([service, format], mut body) = segment("traffic", bytes)?;
        let service = XtpService(service);
        if known_traffic(format) != Some(4 + body.len()) {
            return Ok(XtpTraffic::Other {
                service,
                format,
                bytes: body,
            });
        }
        if format == NULL {
            return Ok(XtpTraffic::Unspecified(service));
        }
        let spec = XtpTrafficSpec {
            max_data: body.get_u32(),
            in_rate: body.get_u32(),
            in_burst: body.get_u32(),
            out_rate: body.get_u32(),
            out_burst: body.get_u32(),
        };
        Ok(XtpTraffic::Spec(service, spec))
    }
}

/// The length of an address of a known format.
fn known_address(format: u8) -> Option<usize> {
    match format {
        NULL => Some(8),
        IPV4 | PORTS => Some(16),
        IPV6 => Some(40),
        _ => None,
    }
}

/// The length of a traffic segment of a known format.
fn known_traffic(format: u8) -> Option<usize> {
    match format {
        NULL => Some(8),
        SPEC => Some(24),
        _ => None,
    }
}

/// Takes a segment that begins with its length off `bytes`: the two bytes after the length, and the rest.
fn segment(what: &'static str, bytes: &mut Bytes) -> Result<([u8; 2], Bytes), XtpError> {
    let there = bytes.len();
    let Some(&[high, low, a, b]) = bytes.first_chunk::<4>() else {
        return Err(XtpError::Segment {
            what,
            said: 4,
            there,
        });
    };
    let said = usize::from(u16::from_be_bytes([high, low]));
    if !(4..=there).contains(&said) {
        return Err(XtpError::Segment { what, said, there });
    }
    let mut segment = bytes.split_to(said);
    segment.advance(4);
    Ok(([a, b], segment))
}

fn head(out: &mut Vec<u8>, len: usize, kind: [u8; 2]) {
    out.extend_from_slice(&(len as u16).to_be_bytes());
    out.extend_from_slice(&kind);
}

fn ports(out: &mut Vec<u8>, dst: u16, src: u16) {
    out.extend_from_slice(&dst.to_be_bytes());
    out.extend_from_slice(&src.to_be_bytes());
}

fn ipv4(bytes: &mut Bytes) -> Ipv4Addr {
    Ipv4Addr::from_bits(bytes.get_u32())
}
