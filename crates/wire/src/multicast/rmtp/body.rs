use super::list::LAST_SEQ;
use super::{RmtpError, RmtpForm, RmtpList, RmtpOption};
use crate::Payload;

/// What a packet of RMTP says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RmtpBody {
    /// DT, server: data.
    Data(RmtpData),
    /// ACK, receiver: has all of it.
    Ack {
        /// The pass after which.
        round: u8,
    },
    /// NACK, receiver: lacks something.
    Nack {
        /// The pass after which.
        round: u8,
        /// Another NACK of this round follows (ours).
        more: bool,
        /// What; at least one.
        missing: RmtpList,
    },
    /// BUSY, receiver: cannot take data now.
    Busy,
    /// RRDY, receiver: can take data again, and lacks these.
    Ready(RmtpList),
    /// ABORT, both: it is over.
    Abort,
    /// POLL, server: has heard nothing.
    Poll,
    /// CONN, server: a connection begins.
    Connect(RmtpConnect),
    /// CACK, receiver: takes part, or not.
    Accept {
        /// Whether.
        yes: bool,
        /// Options, from V2 on.
        options: Vec<RmtpOption>,
    },
    /// REL, server: over for those that are complete.
    Release,
    /// RACK, receiver: has heard of it.
    Released,
    /// FREPO, receiver: packets counted between the monitor bits (V2).
    Count {
        /// The packet with the start bit.
        start: u16,
        /// The packet with the stop bit.
        stop: u16,
        /// How many.
        received: u32,
    },
    /// SUSP, server: wait, it continues after the others are served (V2).
    Suspend,
}

/// Flags of a data packet of RMTP.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct RmtpFlags(pub u8);

impl RmtpFlags {
    /// Of a separate retransmission.
    pub const SEPARATE: RmtpFlags = RmtpFlags(0x80);
    /// Last of its pass.
    pub const LAST: RmtpFlags = RmtpFlags(0x40);
    /// Counting begins (V2).
    pub const START: RmtpFlags = RmtpFlags(0x02);
    /// Counting ends (V2).
    pub const STOP: RmtpFlags = RmtpFlags(0x01);

    /// Whether all of `flag` are set.
    pub const fn has(self, flag: RmtpFlags) -> bool {
        self.0 & flag.0 == flag.0
    }

    pub(super) const fn known_in(self, form: RmtpForm) -> RmtpFlags {
        RmtpFlags(self.0 & if form.is_v2() { 0xc3 } else { 0xc0 })
    }
}

/// Data.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RmtpData {
    /// Number of the packet, from 1 to 65534.
    pub seq: u16,
    /// Flags.
    pub flags: RmtpFlags,
    /// Number of the pass, 0 for the first.
    pub round: u8,
    /// Which part of the object; 0 in forms without parts.
    pub part: u16,
    /// A block, of which the last is padded with zeros.
    pub payload: Payload,
}

/// A connection begins.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RmtpConnect {
    /// Octets of the object, or of this part of it; at least 1.
    pub size: u32,
    /// Blocks, each one data packet: as many as the object needs, at most 65534.
    pub blocks: u16,
    /// Octets of a block.
    pub block: u16,
    /// Options.
    pub options: Vec<RmtpOption>,
}

impl RmtpConnect {
    /// A connection for `size` octets in blocks of `block`, without options.
    ///
    /// Errors: nothing to send, blocks of no octet, or more than 65534 blocks.
    pub fn new(size: u32, block: u16) -> Result<RmtpConnect, RmtpError> {
        let blocks = match block {
            0 => 0,
            block => size.div_ceil(u32::from(block)),
        };
        let blocks = u16::try_from(blocks).unwrap_or(u16::MAX);
        match (1..=LAST_SEQ).contains(&blocks) {
            true => Ok(RmtpConnect {
                size,
                blocks,
                block,
                options: Vec::new(),
            }),
            false => Err(RmtpError::Sizes {
                size,
                blocks,
                block,
            }),
        }
    }
}

impl RmtpBody {
    /// Number of the type.
    pub fn kind(&self) -> u16 {
        match self {
            RmtpBody::Data(_) => 1,
            RmtpBody::Ack { .. } => 2,
            RmtpBody::Nack { .. } => 3,
            RmtpBody::Busy => 4,
            RmtpBody::Ready(_) => 5,
            RmtpBody::Abort => 6,
            RmtpBody::Poll => 7,
            RmtpBody::Connect(_) => 8,
            RmtpBody::Accept { .. } => 9,
            RmtpBody::Release => 10,
            RmtpBody::Released => 11,
            RmtpBody::Count { .. } => 12,
            RmtpBody::Suspend => 14,
        }
    }

    pub(super) fn is_kind(kind: u16, form: RmtpForm) -> bool {
        (1..=11).contains(&kind) || form.is_v2() && matches!(kind, 12 | 14)
    }

    pub(super) fn encoded_len(&self, form: RmtpForm) -> usize {
        match self {
            RmtpBody::Data(data) => form.data_head() - form.head() + data.payload.len(),
            RmtpBody::Ack { .. } => 1,
            RmtpBody::Nack { missing, .. } => nack_head(form) + 2 * missing.symbols(),
            RmtpBody::Ready(missing) => 2 * missing.symbols(),
            RmtpBody::Connect(connect) => 10 + len_of(&connect.options),
            RmtpBody::Accept { options, .. } if form.is_v2() => 2 + len_of(options),
            RmtpBody::Accept { .. } => 2,
            RmtpBody::Count { .. } => 8,
            _ => 0,
        }
    }

    pub(super) fn encode_into(&self, form: RmtpForm, out: &mut Vec<u8>) {
        match self {
            RmtpBody::Data(data) => {
                out.extend_from_slice(&data.seq.to_be_bytes());
                out.extend_from_slice(&[data.flags.known_in(form).0, data.round]);
                if form.has_parts() {
                    out.extend_from_slice(&data.part.to_be_bytes());
                }
                data.payload.append_to(out);
            }
            RmtpBody::Ack { round } => out.push(*round),
            RmtpBody::Nack {
                round,
                more,
                missing,
            } => {
                out.extend_from_slice(&[*round, u8::from(*more) << 7]);
                if form == RmtpForm::Paper96 {
                    out.extend_from_slice(&(missing.symbols() as u16).to_be_bytes());
                }
                missing.encode_into(out);
            }
            RmtpBody::Ready(missing) => missing.encode_into(out),
            RmtpBody::Connect(connect) => {
                out.extend_from_slice(&[form.version(), 0]);
                out.extend_from_slice(&connect.size.to_be_bytes());
                out.extend_from_slice(&connect.blocks.to_be_bytes());
                out.extend_from_slice(&connect.block.to_be_bytes());
                connect.options.iter().for_each(|it| it.encode_into(out));
            }
            RmtpBody::Accept { yes, options } => {
                out.extend_from_slice(&u16::from(!yes).to_be_bytes());
                if form.is_v2() {
                    options.iter().for_each(|it| it.encode_into(out));
                }
            }
            RmtpBody::Count {
                start,
                stop,
                received,
            } => {
                out.extend_from_slice(&start.to_be_bytes());
                out.extend_from_slice(&stop.to_be_bytes());
                out.extend_from_slice(&received.to_be_bytes());
            }
            _ => {}
        }
    }
}

/// Octets of a NACK between head and list.
pub(super) const fn nack_head(form: RmtpForm) -> usize {
    match form {
        RmtpForm::Paper96 => 4,
        _ => 2,
    }
}

fn len_of(options: &[RmtpOption]) -> usize {
    options.iter().map(RmtpOption::encoded_len).sum()
}
