//! Protocol data units and their bytes, network byte order (specs/partial-order-transport.md 2.6).
//!
//! ```text
//! version:4 type:4 | flags:8 | flow:16 | connection:32 | stamp:32 | body
//! ```

use bytes::{Buf, BufMut, Bytes, BytesMut};
use layercast_core::Serial;

/// Version of the layout.
pub const VERSION: u8 = 1;
/// Bytes of the header.
pub const HEADER: usize = 12;
/// Bytes of a DATA PDU before its payload.
pub const DATA_HEADER: usize = HEADER + 4;
/// Bytes of an OPEN PDU before its configuration.
pub const OPEN_HEADER: usize = HEADER + 8;
/// Bytes of an ACK_RES or FNACK PDU before its list.
pub const LIST_HEADER: usize = HEADER + 8;

const ACK: u8 = 0x01;
const AGAIN: u8 = 0x02;
const SKIP: u8 = 0x10;
const SENT: u8 = 0x20;
const KNOWN_FLAGS: u8 = ACK | AGAIN | SKIP | SENT;

/// What a receiver says about a flow: all SDUs up to `last` arrived or are settled, except those listed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// The highest number received; one less than the initial number if none was.
    pub last: Serial,
    /// Numbers to send again.
    pub list: Vec<Serial>,
}

/// Why a connection is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[repr(u8)]
pub enum Reject {
    /// The receiver does not know the connection; it may have restarted.
    #[error("the receiver does not know the connection; open a new one")]
    Unknown = 1,
    /// The receiver cannot read the OPEN, or its order or tolerances are invalid.
    #[error("the receiver cannot read the order or the flows of the connection")]
    Invalid = 2,
    /// The receiver has no room for the windows of the connection.
    #[error("the receiver has no room for the connection; use fewer flows or smaller windows")]
    Resources = 3,
    /// The program at the other end ended the connection without CLOSE.
    #[error("the other end ended the connection before it was closed")]
    Ended = 4,
}

/// A protocol data unit without its header fields `flow`, `connection` and `stamp`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Body {
    /// One SDU.
    Data {
        /// Number of the SDU.
        number: Serial,
        /// Whether an ACK_RES is wanted.
        ack: bool,
        /// Whether it was sent before.
        again: bool,
        /// Whether the number has no SDU, because its flow pauses.
        skip: bool,
        /// The next number of each flow when this PDU was sent first; empty if the connection does not infer.
        sent: Vec<Serial>,
        /// The SDU.
        payload: Bytes,
    },
    /// Asks for an ACK_RES.
    AckReq {
        /// The highest number sent; `None` in the paper's form.
        highest: Option<Serial>,
    },
    /// Answers an Ack bit or an ACK_REQ.
    AckRes(Report),
    /// Asks for SDUs on the receiver's own initiative.
    Fnack(Report),
    /// Opens the connection.
    Open {
        /// The token of the last RETRY; 0: none came.
        token: u64,
        /// See [`Config`](crate::Config).
        config: Bytes,
    },
    /// Accepts it; most unacknowledged SDUs of each flow.
    OpenAck(Vec<u16>),
    /// Ends the connection; the next number of each flow.
    Close(Vec<Serial>),
    /// All SDUs of the connection are settled.
    CloseAck,
    /// The sender does not hold the listed SDUs any more.
    Gone(Vec<Serial>),
    /// The connection is refused, or one end gives it up.
    Reject(Reject),
    /// Asks for another OPEN with this token, which proves that the sender receives at its address.
    Retry(u64),
}

/// A protocol data unit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pdu {
    /// Index of the flow; 0 if the PDU is of all flows.
    pub flow: u16,
    /// Number of the connection, chosen by the sender.
    pub connection: u32,
    /// Clock of the sender in microseconds, echoed in ACK_RES and FNACK; 0: none.
    pub stamp: u32,
    /// What it says.
    pub body: Body,
}

/// Why bytes are no PDU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PduError {
    /// Too short for its type or its list.
    #[error("the PDU is too short for its type or its list")]
    Short,
    /// Another version of the layout.
    #[error("version {0} of the PDU is not supported")]
    Version(u8),
    /// An unknown type, flag or reason.
    #[error("the PDU has an unknown type, flag or reason")]
    Unknown,
    /// Bytes behind the end of a PDU of fixed size.
    #[error("the PDU is longer than its type or its list")]
    Long,
}

impl Pdu {
    /// Appends the bytes of the PDU.
    pub fn encode(&self, out: &mut BytesMut) {
        let flag = |bit: u8, is_set: bool| if is_set { bit } else { 0 };
        let (kind, flags) = match &self.body {
            Body::Data {
                ack,
                again,
                skip,
                sent,
                ..
            } => {
                let marks = flag(ACK, *ack) | flag(AGAIN, *again);
                (1, marks | flag(SKIP, *skip) | flag(SENT, !sent.is_empty()))
            }
            Body::AckReq { .. } => (2, 0),
            Body::AckRes(_) => (3, 0),
            Body::Fnack(_) => (4, 0),
            Body::Open { .. } => (5, 0),
            Body::OpenAck(_) => (6, 0),
            Body::Close(_) => (7, 0),
            Body::CloseAck => (8, 0),
            Body::Gone(_) => (9, 0),
            Body::Reject(_) => (10, 0),
            Body::Retry(_) => (11, 0),
        };
        out.put_u8((VERSION << 4) | kind);
        out.put_u8(flags);
        out.put_u16(self.flow);
        out.put_u32(self.connection);
        out.put_u32(self.stamp);
        match &self.body {
            Body::Data {
                number,
                sent,
                payload,
                ..
            } => {
                out.put_u32(number.0);
                if !sent.is_empty() {
                    out.put_u8(sent.len() as u8);
                    sent.iter().for_each(|it| out.put_u32(it.0));
                }
                out.put_slice(payload);
            }
            Body::AckReq { highest } => {
                if let Some(highest) = highest {
                    out.put_u32(highest.0);
                }
            }
            Body::AckRes(report) | Body::Fnack(report) => {
                out.put_u32(report.last.0);
                put_list(out, &report.list);
            }
            Body::Gone(list) | Body::Close(list) => put_list(out, list),
            Body::Open { token, config } => {
                out.put_u64(*token);
                out.put_slice(config);
            }
            Body::Retry(token) => out.put_u64(*token),
            Body::OpenAck(windows) => {
                out.put_u16(windows.len() as u16);
                windows.iter().for_each(|&it| out.put_u16(it));
            }
            Body::CloseAck => {}
            Body::Reject(reason) => out.put_u8(*reason as u8),
        }
    }

    /// Reads a PDU; total over all bytes.
    pub fn decode(mut bytes: Bytes) -> Result<Pdu, PduError> {
        if bytes.len() < HEADER {
            return Err(PduError::Short);
        }
        let first = bytes.get_u8();
        let flags = bytes.get_u8();
        let flow = bytes.get_u16();
        let connection = bytes.get_u32();
        let stamp = bytes.get_u32();
        if first >> 4 != VERSION {
            return Err(PduError::Version(first >> 4));
        }
        let kind = first & 0x0f;
        if flags & !KNOWN_FLAGS != 0 || (kind != 1 && flags != 0) {
            return Err(PduError::Unknown);
        }
        let body = match kind {
            1 => {
                let number = Serial(bytes.try_get_u32().map_err(|_| PduError::Short)?);
                let sent = if flags & SENT != 0 {
                    vector(&mut bytes)?
                } else {
                    Vec::new()
                };
                let body = Body::Data {
                    number,
                    sent,
                    ack: flags & ACK != 0,
                    again: flags & AGAIN != 0,
                    skip: flags & SKIP != 0,
                    payload: bytes,
                };
                return Ok(Pdu {
                    flow,
                    connection,
                    stamp,
                    body,
                });
            }
            2 if bytes.is_empty() => Body::AckReq { highest: None },
            2 => {
                let highest = bytes.try_get_u32().map_err(|_| PduError::Short)?;
                Body::AckReq {
                    highest: Some(Serial(highest)),
                }
            }
            3 | 4 => {
                let last = Serial(bytes.try_get_u32().map_err(|_| PduError::Short)?);
                let report = Report {
                    last,
                    list: list(&mut bytes)?,
                };
                if kind == 3 {
                    Body::AckRes(report)
                } else {
                    Body::Fnack(report)
                }
            }
            5 => {
                let token = bytes.try_get_u64().map_err(|_| PduError::Short)?;
                return Ok(Pdu {
                    flow,
                    connection,
                    stamp,
                    body: Body::Open {
                        token,
                        config: bytes,
                    },
                });
            }
            6 => {
                let count = bytes.try_get_u16().map_err(|_| PduError::Short)?;
                if bytes.len() < 2 * usize::from(count) {
                    return Err(PduError::Short);
                }
                Body::OpenAck((0..count).map(|_| bytes.get_u16()).collect())
            }
            7 => Body::Close(list(&mut bytes)?),
            8 => Body::CloseAck,
            9 => Body::Gone(list(&mut bytes)?),
            10 => Body::Reject(match bytes.try_get_u8().map_err(|_| PduError::Short)? {
                1 => Reject::Unknown,
                2 => Reject::Invalid,
                3 => Reject::Resources,
                4 => Reject::Ended,
                _ => return Err(PduError::Unknown),
            }),
            11 => Body::Retry(bytes.try_get_u64().map_err(|_| PduError::Short)?),
            _ => return Err(PduError::Unknown),
        };
        if bytes.is_empty() {
            Ok(Pdu {
                flow,
                connection,
                stamp,
                body,
            })
        } else {
            Err(PduError::Long)
        }
    }
}

fn put_list(out: &mut BytesMut, list: &[Serial]) {
    out.put_u16(list.len() as u16);
    out.put_u16(0);
    list.iter().for_each(|it| out.put_u32(it.0));
}

/// A list whose length is checked before anything is allocated for it.
fn list(bytes: &mut Bytes) -> Result<Vec<Serial>, PduError> {
    let count = bytes.try_get_u16().map_err(|_| PduError::Short)?;
    bytes.try_get_u16().map_err(|_| PduError::Short)?;
    if bytes.len() < 4 * usize::from(count) {
        return Err(PduError::Short);
    }
    Ok((0..count).map(|_| Serial(bytes.get_u32())).collect())
}

/// The next numbers of all flows; a vector has at least one.
fn vector(bytes: &mut Bytes) -> Result<Vec<Serial>, PduError> {
    let count = usize::from(bytes.try_get_u8().map_err(|_| PduError::Short)?);
    if bytes.len() < 4 * count {
        return Err(PduError::Short);
    }
    if count == 0 {
        return Err(PduError::Unknown);
    }
    Ok((0..count).map(|_| Serial(bytes.get_u32())).collect())
}
