use bytes::{Buf, Bytes};

use super::form::{
    ABORT, ACCEPT, COUNT, DATA, EJECT, LEAVE, OPEN, POLL, RELEASE, RELEASED, REPORT, SUSPEND,
};
use super::lists::{get_needs, get_spans};
use super::{
    Accept, Ask, Body, Content, Count, Data, DataFlags, Eject, MAX_LIST, MAX_NAME, MemberId, Needs,
    Object, Open, PacketError, Poll, Reason, Report, State, Symbol, Tally, Terms,
};
use crate::Payload;

/// What is left to be read.
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl Fields<'_> {
    pub(super) fn u8(&mut self) -> Result<u8, PacketError> {
        self.0.try_get_u8().map_err(|_| PacketError::Short)
    }

    pub(super) fn u16(&mut self) -> Result<u16, PacketError> {
        self.0.try_get_u16().map_err(|_| PacketError::Short)
    }

    pub(super) fn u32(&mut self) -> Result<u32, PacketError> {
        self.0.try_get_u32().map_err(|_| PacketError::Short)
    }

    pub(super) fn u64(&mut self) -> Result<u64, PacketError> {
        self.0.try_get_u64().map_err(|_| PacketError::Short)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], PacketError> {
        let mut array = [0; N];
        self.0
            .try_copy_to_slice(&mut array)
            .map_err(|_| PacketError::Short)?;
        Ok(array)
    }

    pub(super) fn member(&mut self) -> Result<MemberId, PacketError> {
        Ok(MemberId(self.u64()?))
    }

    fn reason(&mut self) -> Result<Reason, PacketError> {
        let number = self.u8()?;
        let reason = Reason::ALL.get(usize::from(number));
        reason.copied().ok_or(PacketError::Value("reason"))
    }

    fn symbol(&mut self) -> Result<Symbol, PacketError> {
        match self.u8()? {
            0 => Ok(Symbol::Source(self.u64()?)),
            1 => Ok(Symbol::Parity {
                block: self.u32()?,
                index: self.u32()?,
            }),
            _ => Err(PacketError::Value("symbol")),
        }
    }

    pub(super) fn name(&mut self) -> Result<Bytes, PacketError> {
        let len = usize::from(self.u16()?);
        if len > MAX_NAME {
            return Err(PacketError::Value("length of the name"));
        }
        let (name, rest) = self.0.split_at_checked(len).ok_or(PacketError::Short)?;
        self.0 = rest;
        Ok(Bytes::copy_from_slice(name))
    }

    /// Number of entries of a list.
    pub(super) fn count(&mut self) -> Result<usize, PacketError> {
        match usize::from(self.u16()?) {
            count if count <= MAX_LIST => Ok(count),
            _ => Err(PacketError::List),
        }
    }

    /// Room to make for a list that says it has `count` entries of `size` bytes.
    pub(super) fn room_for(&self, count: usize, size: usize) -> usize {
        count.min(self.0.len() / size)
    }
}

pub(super) fn get_body(
    kind: u8,
    flags: u16,
    fields: &mut Fields<'_>,
    bytes: &Bytes,
) -> Result<Body, PacketError> {
    let known = match kind {
        OPEN => 0b111_1111,
        DATA => u16::from(DataFlags::ALL.0),
        POLL => 0b1111,
        ACCEPT => 0b11,
        REPORT => 1,
        _ => 0,
    };
    if flags & !known != 0 {
        return Err(PacketError::Value("flags"));
    }
    Ok(match kind {
        OPEN => Body::Open(Box::new(get_open(flags, fields)?)),
        ACCEPT => Body::Accept(Accept {
            member: fields.member()?,
            incarnation: fields.u32()?,
            refuses: match fields.0.first() {
                Some(&u8::MAX) => {
                    fields.u8()?;
                    None
                }
                _ => Some(fields.reason()?),
            },
            buffer: fields.u32()?,
            held: fields.u64()?,
            weight: fields.u32()?,
            absent: fields.u32()?,
            hold_us: fields.u32()?,
            stamp: fields.u64()?,
            identity: match flags & 1 {
                0 => None,
                _ => Some(fields.u64()?),
            },
            name: match flags & 2 {
                0 => None,
                _ => Some(fields.name()?),
            },
        }),
        DATA => {
            let (round, symbol) = (fields.u16()?, fields.symbol()?);
            let payload = bytes.slice(bytes.len() - fields.0.len()..);
            fields.0 = &[];
            Body::Data(Data {
                round,
                flags: DataFlags(flags as u8),
                symbol,
                payload: Payload::Bytes(payload),
            })
        }
        POLL => Body::Poll(Box::new(get_poll(flags, fields)?)),
        REPORT => Body::Report(Box::new(get_report(flags, fields)?)),
        COUNT => Body::Count(Count {
            member: fields.member()?,
            round: fields.u16()?,
            start: fields.symbol()?,
            stop: fields.symbol()?,
            received: fields.u32()?,
        }),
        RELEASE => Body::Release {
            round: fields.u16()?,
        },
        RELEASED => Body::Released {
            member: fields.member()?,
        },
        EJECT => Body::Eject(Eject {
            member: fields.member()?,
            reason: fields.reason()?,
            upto: fields.u64()?,
        }),
        SUSPEND => Body::Suspend {
            member: fields.member()?,
        },
        LEAVE => Body::Leave {
            member: fields.member()?,
            reason: fields.reason()?,
        },
        ABORT => Body::Abort {
            reason: fields.reason()?,
        },
        kind => return Err(PacketError::Kind(kind)),
    })
}

fn get_open(flags: u16, fields: &mut Fields<'_>) -> Result<Open, PacketError> {
    let (stamp, packet_size, min_release) = (fields.u64()?, fields.u16()?, fields.u64()?);
    let content = match flags >> 3 & 3 {
        0 => Content::Levels,
        1 => Content::Ranges,
        2 => Content::Counts,
        _ => return Err(PacketError::Value("content")),
    };
    let terms = Terms {
        content,
        in_order: flags & 2 != 0,
        unasked: flags & 4 != 0,
        goodbye: flags & 32 != 0,
        spread_us: fields.u32()?,
        data_wait_ms: fields.u32()?,
        sender_wait_ms: fields.u32()?,
        counters: fields.u16()?,
    };
    if packet_size == 0 {
        return Err(PacketError::Value("packet size"));
    }
    let object = match flags & 1 {
        0 => None,
        _ => Some(get_object(fields)?),
    };
    let proof = match flags & 64 {
        0 => None,
        _ => Some(fields.array()?),
    };
    Ok(Open {
        stamp,
        packet_size,
        min_release,
        terms,
        object,
        proof,
    })
}

fn get_object(fields: &mut Fields<'_>) -> Result<Object, PacketError> {
    let (size, block, scheme) = (fields.u64()?, fields.u16()?, fields.u8()?);
    let digest = fields.array()?;
    if block == 0 {
        return Err(PacketError::Value("block"));
    }
    Ok(Object {
        size,
        block,
        scheme,
        digest,
        name: fields.name()?,
    })
}

fn get_poll(flags: u16, fields: &mut Fields<'_>) -> Result<Poll, PacketError> {
    let mut poll = Poll {
        sync: fields.u32()?,
        round: fields.u16()?,
        stamp: fields.u64()?,
        upto: fields.u64()?,
        sent: fields.u32()?,
        ask: match flags & 1 {
            0 => Ask::Everyone,
            _ => Ask::Needy,
        },
        spread_us: fields.u32()?,
        group: fields.u32()?,
        handshake: flags & 2 != 0,
        closing: flags & 4 != 0,
        separate: flags & 8 != 0,
        ejected: Vec::new(),
        heard: Needs::new(),
    };
    for _ in 0..fields.count()? {
        poll.ejected.push(fields.member()?);
    }
    poll.heard = get_needs(fields)?;
    Ok(poll)
}

fn get_report(flags: u16, fields: &mut Fields<'_>) -> Result<Report, PacketError> {
    Ok(Report {
        member: fields.member()?,
        sync: fields.u32()?,
        round: fields.u16()?,
        stamp: fields.u64()?,
        held_us: fields.u32()?,
        loss: fields.u16()?,
        buffer: fields.u32()?,
        more: flags & 1 != 0,
        tally: Tally {
            alive: fields.u32()?,
            complete: fields.u32()?,
            failed: fields.u32()?,
        },
        state: get_state(fields)?,
    })
}

fn get_state(fields: &mut Fields<'_>) -> Result<State, PacketError> {
    Ok(match fields.u8()? {
        0 => State::Levels {
            received: fields.u64()?,
            delivered: fields.u64()?,
            gaps: get_spans(fields)?,
        },
        1 => State::Complete {
            receipt: fields.array()?,
        },
        2 => State::Missing(get_spans(fields)?),
        3 => State::Need(get_needs(fields)?),
        4 => State::Busy,
        5 => State::Ready(get_spans(fields)?),
        6 => State::Corrupt,
        _ => return Err(PacketError::Value("state")),
    })
}
