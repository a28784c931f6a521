use bytes::{Buf, Bytes};
use layercast_core::Serial;

use super::{XtpAddress, XtpDiagCode, XtpDiagValue, XtpError, XtpKey, XtpTraffic};
use crate::Payload;

const CONTROL: usize = 20;
const TRAFFIC_CONTROL: usize = 32;
const SPAN: usize = 16;

/// What follows the header of an XTP packet (specs/xtp.md 2.2).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum XtpBody {
    /// Data, with BTAG after eight bytes of tag.
    Data(Payload),
    /// Status.
    Cntl(XtpControl),
    /// Opens an association.
    First {
        /// Destination and source.
        address: XtpAddress,
        /// What is proposed.
        traffic: XtpTraffic,
        /// Data, as in a packet of data.
        data: Payload,
    },
    /// Status with what arrived out of order.
    Ecntl {
        /// Status.
        control: XtpControl,
        /// Half-open ranges of bytes that arrived beyond `rseq`; the decoder does not check them.
        spans: Vec<(u64, u64)>,
    },
    /// Status with a key and what is proposed.
    Tcntl {
        /// Status.
        control: XtpControl,
        /// The sender's own key.
        xkey: XtpKey,
        /// What is proposed.
        traffic: XtpTraffic,
    },
    /// The join of XTP 4.0, which 4.0b does without: the bytes are not looked at.
    Join(Bytes),
    /// Joins a multicast association, or lets in.
    Jcntl {
        /// Status.
        control: XtpControl,
        /// The sender's own key.
        xkey: XtpKey,
        /// Destination and source.
        address: XtpAddress,
        /// What is proposed.
        traffic: XtpTraffic,
    },
    /// Tells what went wrong.
    Diag {
        /// What.
        code: XtpDiagCode,
        /// Why.
        value: XtpDiagValue,
        /// The same for people.
        message: Bytes,
    },
}

/// The status of a receiver (specs/xtp.md 2.2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct XtpControl {
    /// Everything before this byte has arrived.
    pub rseq: u64,
    /// Bytes before this one may be sent.
    pub alloc: u64,
    /// The highest synchronizing value seen.
    pub echo: Serial,
}

impl XtpBody {
    /// Number of the packet format.
    pub fn format(&self) -> u8 {
        match self {
            XtpBody::Data(_) => 0,
            XtpBody::Cntl(_) => 1,
            XtpBody::First { .. } => 2,
            XtpBody::Ecntl { .. } => 3,
            XtpBody::Tcntl { .. } => 5,
            XtpBody::Join(_) => 6,
            XtpBody::Jcntl { .. } => 7,
            XtpBody::Diag { .. } => 8,
        }
    }

    /// Bytes after the header.
    pub fn encoded_len(&self) -> usize {
        match self {
            XtpBody::Data(data) => data.len(),
            XtpBody::Cntl(_) => CONTROL,
            XtpBody::First {
                address,
                traffic,
                data,
            } => address.encoded_len() + traffic.encoded_len() + data.len(),
            XtpBody::Ecntl { spans, .. } => CONTROL + 4 + SPAN * spans.len(),
            XtpBody::Tcntl { traffic, .. } => TRAFFIC_CONTROL + traffic.encoded_len(),
            XtpBody::Join(bytes) => bytes.len(),
            XtpBody::Jcntl {
                address, traffic, ..
            } => TRAFFIC_CONTROL + address.encoded_len() + traffic.encoded_len(),
            XtpBody::Diag { message, .. } => 8 + message.len(),
        }
    }

    /// The data it carries, if its kind can carry any.
    pub fn data(&self) -> Option<&Payload> {
        match self {
            XtpBody::Data(data) | XtpBody::First { data, .. } => Some(data),
            _ => None,
        }
    }

    /// The status it carries.
    pub fn control(&self) -> Option<&XtpControl> {
        match self {
            XtpBody::Cntl(control)
            | XtpBody::Ecntl { control, .. }
            | XtpBody::Tcntl { control, .. }
            | XtpBody::Jcntl { control, .. } => Some(control),
            _ => None,
        }
    }

    pub(super) fn encode_into(&self, out: &mut Vec<u8>) {
        match self {
            XtpBody::Data(data) => data.append_to(out),
            XtpBody::Cntl(control) => control.encode_into(out),
            XtpBody::First {
                address,
                traffic,
                data,
            } => {
                address.encode_into(out);
                traffic.encode_into(out);
                data.append_to(out);
            }
            XtpBody::Ecntl { control, spans } => {
                control.encode_into(out);
                out.extend_from_slice(&(spans.len() as u32).to_be_bytes());
                for edge in spans.iter().flat_map(|&(left, right)| [left, right]) {
                    out.extend_from_slice(&edge.to_be_bytes());
                }
            }
            XtpBody::Tcntl {
                control,
                xkey,
                traffic,
            } => {
                control.encode_with_key(*xkey, out);
                traffic.encode_into(out);
            }
            XtpBody::Join(bytes) => out.extend_from_slice(bytes),
            XtpBody::Jcntl {
                control,
                xkey,
                address,
                traffic,
            } => {
                control.encode_with_key(*xkey, out);
                address.encode_into(out);
                traffic.encode_into(out);
            }
            XtpBody::Diag {
                code,
                value,
                message,
            } => {
                out.extend_from_slice(&code.0.to_be_bytes());
                out.extend_from_slice(&value.0.to_be_bytes());
                out.extend_from_slice(message);
            }
        }
    }

    pub(super) fn decode(format: u8, mut bytes: Bytes) -> Result<XtpBody, XtpError> {
        let there = bytes.len();
        let fits = |fits: bool| match fits {
            true => Ok(()),
            false => Err(XtpError::Body { format, there }),
        };
        Ok(match format {
            0 => XtpBody::Data(bytes.into()),
            1 => {
                fits(there == CONTROL)?;
                XtpBody::Cntl(XtpControl::decode(&mut bytes))
            }
            2 => XtpBody::First {
                address: XtpAddress::decode(&mut bytes)?,
                traffic: XtpTraffic::decode(&mut bytes)?,
                data: bytes.into(),
            },
            3 => {
                fits(there >= CONTROL + 4)?;
                let control = XtpControl::decode(&mut bytes);
                let count = u64::from(bytes.get_u32());
                fits(bytes.len() as u64 == count * SPAN as u64)?;
                let (edges, _) = bytes.as_chunks::<8>();
                let edges = edges.iter().map(|&edge| u64::from_be_bytes(edge));
                let spans = edges.clone().step_by(2).zip(edges.skip(1).step_by(2));
                XtpBody::Ecntl {
                    control,
                    spans: spans.collect(),
                }
            }
            5 => {
                fits(there >= TRAFFIC_CONTROL)?;
                let (control, xkey) = XtpControl::decode_with_key(&mut bytes);
                let traffic = XtpTraffic::decode(&mut bytes)?;
                fits(bytes.is_empty())?;
                XtpBody::Tcntl {
                    control,
                    xkey,
                    traffic,
                }
            }
            6 => XtpBody::Join(bytes),
            7 => {
                fits(there >= TRAFFIC_CONTROL)?;
                let (control, xkey) = XtpControl::decode_with_key(&mut bytes);
                let address = XtpAddress::decode(&mut bytes)?;
                let traffic = XtpTraffic::decode(&mut bytes)?;
                fits(bytes.is_empty())?;
                XtpBody::Jcntl {
                    control,
                    xkey,
                    address,
                    traffic,
                }
            }
            8 => {
                fits(there >= 8)?;
                XtpBody::Diag {
                    code: XtpDiagCode(bytes.get_u32()),
                    value: XtpDiagValue(bytes.get_u32()),
                    message: bytes,
                }
            }
            format => return Err(XtpError::Format(format)),
        })
    }
}

impl XtpControl {
    fn encode_into(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.rseq.to_be_bytes());
        out.extend_from_slice(&self.alloc.to_be_bytes());
        out.extend_from_slice(&self.echo.0.to_be_bytes());
    }

    fn encode_with_key(&self, xkey: XtpKey, out: &mut Vec<u8>) {
        self.encode_into(out);
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&xkey.0.to_be_bytes());
    }

    /// Takes it off `bytes`, which are enough.
    fn decode(bytes: &mut Bytes) -> XtpControl {
        XtpControl {
            rseq: bytes.get_u64(),
            alloc: bytes.get_u64(),
            echo: Serial(bytes.get_u32()),
        }
    }

    fn decode_with_key(bytes: &mut Bytes) -> (XtpControl, XtpKey) {
        let control = XtpControl::decode(bytes);
        bytes.advance(4);
        (control, XtpKey(bytes.get_u64()))
    }
}
