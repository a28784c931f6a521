use bytes::{Buf, Bytes};
use layercast_core::Serial;

use super::{FrmBody, FrmControl, FrmData, FrmEcho, FrmError, FrmFlags, FrmInit, FrmReply};
use crate::multicast::{MemberId, Reason};

/// Answer of a receiver that takes part; any other is the reason why it does not.
const ACCEPTS: u8 = 255;

impl FrmBody {
    pub(super) fn encode_into(&self, out: &mut Vec<u8>) -> Result<(), FrmError> {
        match self {
            FrmBody::Init(init) => init.encode_into(out)?,
            FrmBody::Reply(reply) => {
                out.extend_from_slice(&reply.member.0.to_be_bytes());
                out.extend_from_slice(&reply.incarnation.to_be_bytes());
                out.push(reply.refuses.map_or(ACCEPTS, |reason| reason as u8));
                out.extend_from_slice(&reply.buffer.to_be_bytes());
                out.extend_from_slice(&reply.stamp.to_be_bytes());
            }
            FrmBody::Data(data) => {
                out.extend_from_slice(&data.seq.0.to_be_bytes());
                let flags = data.flags.0 & (FrmFlags::END.0 | FrmFlags::AGAIN.0);
                let coded = data.code.map_or(0, |_| FrmFlags::CODED.0);
                out.push(flags | coded);
                out.extend_from_slice(data.code.as_ref().map_or(&[], |code| &code[..]));
                data.payload.append_to(out);
            }
            FrmBody::Control(control) => {
                out.extend_from_slice(&control.sync.0.to_be_bytes());
                out.extend_from_slice(&control.stamp.to_be_bytes());
                for number in [control.lseq.0, control.sent, control.spread_us] {
                    out.extend_from_slice(&number.to_be_bytes());
                }
                out.push(control.flags.0 & (FrmFlags::HANDSHAKE.0 | FrmFlags::CLOSE.0));
                put_count(control.ejected.len(), "ejected", out)?;
                for member in &control.ejected {
                    out.extend_from_slice(&member.0.to_be_bytes());
                }
            }
            FrmBody::Echo(echo) => {
                out.extend_from_slice(&echo.member.0.to_be_bytes());
                out.extend_from_slice(&echo.sync.0.to_be_bytes());
                out.extend_from_slice(&echo.stamp.to_be_bytes());
                for number in [echo.rseq.0, echo.dseq.0, echo.buffers, echo.rate] {
                    out.extend_from_slice(&number.to_be_bytes());
                }
                out.extend_from_slice(&echo.loss.to_be_bytes());
                put_count(echo.gaps.len(), "gaps", out)?;
                for edge in echo.gaps.iter().flat_map(|&(from, to)| [from, to]) {
                    out.extend_from_slice(&edge.0.to_be_bytes());
                }
            }
            FrmBody::Leave { member, reason } => {
                out.extend_from_slice(&member.0.to_be_bytes());
                out.push(*reason as u8);
            }
            FrmBody::Eject {
                member,
                reason,
                mindseq,
            } => {
                out.extend_from_slice(&member.0.to_be_bytes());
                out.push(*reason as u8);
                out.extend_from_slice(&mindseq.0.to_be_bytes());
            }
            FrmBody::Release { reason } => out.push(*reason as u8),
        }
        Ok(())
    }

    pub(super) fn decode(kind: u8, bytes: &mut Bytes) -> Result<FrmBody, FrmError> {
        Ok(match kind {
            1 => FrmBody::Init(Box::new(FrmInit::decode(bytes)?)),
            2 => FrmBody::Reply(FrmReply {
                member: MemberId(bytes.try_get_u64()?),
                incarnation: bytes.try_get_u32()?,
                refuses: match bytes.try_get_u8()? {
                    ACCEPTS => None,
                    number => Some(reason(number)?),
                },
                buffer: bytes.try_get_u32()?,
                stamp: bytes.try_get_u64()?,
            }),
            3 => {
                let seq = Serial(bytes.try_get_u32()?);
                let flags = flags(bytes.try_get_u8()?, 7)?;
                let coded = flags.has(FrmFlags::CODED);
                let code = coded.then(|| bytes.try_get_u64()).transpose()?;
                let payload = bytes.split_off(0).into();
                FrmBody::Data(FrmData {
                    seq,
                    flags: FrmFlags(flags.0 & !FrmFlags::CODED.0),
                    code: code.map(u64::to_be_bytes),
                    payload,
                })
            }
            4 => {
                let (sync, stamp) = (Serial(bytes.try_get_u32()?), bytes.try_get_u64()?);
                let lseq = Serial(bytes.try_get_u32()?);
                let (sent, spread_us) = (bytes.try_get_u32()?, bytes.try_get_u32()?);
                let flags = flags(bytes.try_get_u8()?, 3)?;
                let ejected = list(bytes, 8, |bytes| Ok(MemberId(bytes.try_get_u64()?)))?;
                FrmBody::Control(FrmControl {
                    sync,
                    stamp,
                    lseq,
                    sent,
                    spread_us,
                    flags,
                    ejected,
                })
            }
            5 => FrmBody::Echo(Box::new(decode_echo(bytes)?)),
            6 => FrmBody::Leave {
                member: MemberId(bytes.try_get_u64()?),
                reason: reason(bytes.try_get_u8()?)?,
            },
            7 => FrmBody::Eject {
                member: MemberId(bytes.try_get_u64()?),
                reason: reason(bytes.try_get_u8()?)?,
                mindseq: Serial(bytes.try_get_u32()?),
            },
            8 => FrmBody::Release {
                reason: reason(bytes.try_get_u8()?)?,
            },
            kind => return Err(FrmError::Kind(kind)),
        })
    }
}

fn decode_echo(bytes: &mut Bytes) -> Result<FrmEcho, FrmError> {
    let echo = FrmEcho {
        member: MemberId(bytes.try_get_u64()?),
        sync: Serial(bytes.try_get_u32()?),
        stamp: bytes.try_get_u64()?,
        rseq: Serial(bytes.try_get_u32()?),
        dseq: Serial(bytes.try_get_u32()?),
        buffers: bytes.try_get_u32()?,
        rate: bytes.try_get_u32()?,
        loss: bytes.try_get_u16()?,
        gaps: list(bytes, 8, |bytes| {
            Ok((Serial(bytes.try_get_u32()?), Serial(bytes.try_get_u32()?)))
        })?,
    };
    if echo.dseq.is_after(echo.rseq) {
        return Err(FrmError::Value("dseq"));
    }
    let mut end = echo.rseq;
    for &(from, to) in &echo.gaps {
        // The first gap begins at rseq; gaps that touch would be one.
        let behind = from.is_after(end) || from == echo.rseq && end == echo.rseq;
        if !behind || !to.is_after(from) {
            return Err(FrmError::Gaps);
        }
        end = to;
    }
    Ok(echo)
}

fn put_count(count: usize, of: &'static str, out: &mut Vec<u8>) -> Result<(), FrmError> {
    let count = u16::try_from(count).map_err(|_| FrmError::Many(count, of))?;
    out.extend_from_slice(&count.to_be_bytes());
    Ok(())
}

/// A count, followed by that number of entries of `size` octets; memory is allocated only for entries that are
/// present.
fn list<T>(
    bytes: &mut Bytes,
    size: usize,
    entry: impl Fn(&mut Bytes) -> Result<T, FrmError>,
) -> Result<Vec<T>, FrmError> {
    let count = usize::from(bytes.try_get_u16()?);
    if bytes.len() < count * size {
        return Err(FrmError::Short);
    }
    (0..count).map(|_| entry(bytes)).collect()
}

fn flags(flags: u8, known: u8) -> Result<FrmFlags, FrmError> {
    match flags & !known {
        0 => Ok(FrmFlags(flags)),
        _ => Err(FrmError::Value("flags")),
    }
}

fn reason(number: u8) -> Result<Reason, FrmError> {
    let reason = Reason::ALL.get(usize::from(number));
    reason.copied().ok_or(FrmError::Value("reason"))
}
