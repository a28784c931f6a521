use bytes::{Buf, Bytes};
use thiserror::Error;

use super::{RmtpBody, RmtpForm};

/// A packet of RMTP (specs/rmtp-large-scale.md 2.1).
///
/// A decoder ignores reserved bits and puts lists in order, so a packet that came from bytes encodes to the same
/// packet, not always to the same bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RmtpPacket {
    /// The connection it belongs to; 0 in the form of 1996, which has none.
    pub connection: u16,
    /// What it says.
    pub body: RmtpBody,
}

/// Why bytes are not a packet of RMTP, or a packet cannot be said in a form.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum RmtpError {
    /// Shorter than what all packets begin with.
    #[error("{0} octets are shorter than the head of RMTP")]
    Short(usize),
    /// A length that is not that of the packet.
    #[error("RMTP says {said} octets, there are {there}")]
    Length {
        /// What the head says.
        said: u16,
        /// What there is.
        there: usize,
    },
    /// More octets than the head can say.
    #[error("{0} octets are too long for RMTP")]
    Long(usize),
    /// A type that is not assigned in this form.
    #[error("RMTP packet type {0} is not known in this form")]
    Kind(u16),
    /// A body that has not the length of its type.
    #[error("{there} octets are no body of RMTP packet type {kind}")]
    Body {
        /// Number of the type.
        kind: u16,
        /// Octets after the head.
        there: usize,
    },
    /// A number that no packet has.
    #[error("{0} is no number of a data packet of RMTP")]
    Seq(u16),
    /// A range in a list that is reversed, or one of whose ends is no number of a packet.
    #[error("{0} to {1} is no range of data packets of RMTP")]
    Range(u16, u16),
    /// A list of half symbols.
    #[error("{0} octets are no list of RMTP")]
    Odd(usize),
    /// A list with another count than it says.
    #[error("RMTP says {said} symbols, there are {there}")]
    Symbols {
        /// What it says.
        said: u16,
        /// What there is.
        there: usize,
    },
    /// Something is said to be missing, and nothing is.
    #[error("a NACK of RMTP names nothing that is missing")]
    Nothing,
    /// Another version.
    #[error("RMTP version {0} is not that of this form")]
    Version(u8),
    /// Sizes that contradict each other.
    #[error("{size} octets are not {blocks} blocks of {block} octets in RMTP")]
    Sizes {
        /// Octets of the message.
        size: u32,
        /// Blocks.
        blocks: u16,
        /// Octets of a block.
        block: u16,
    },
    /// An answer to CONN that is neither yes nor no.
    #[error("response {0} to an RMTP connection is neither yes nor no")]
    Response(u16),
    /// An option that does not fit: its type, and the length of its value.
    #[error("option {0} of RMTP cannot have {1} octets")]
    Option(u16, usize),
    /// Data without an octet.
    #[error("a data packet of RMTP is empty")]
    Empty,
}

impl RmtpPacket {
    /// Octets in `form`.
    pub fn encoded_len(&self, form: RmtpForm) -> usize {
        form.head() + self.body.encoded_len(form)
    }

    /// Appends the packet in `form`, which leaves out what it has not: connection, part, monitor bits.
    ///
    /// Errors: the form does not know this kind, or the packet is longer than 65535 octets; nothing is appended.
    pub fn encode_into(&self, form: RmtpForm, out: &mut Vec<u8>) -> Result<(), RmtpError> {
        let kind = self.body.kind();
        if !RmtpBody::is_kind(kind, form) {
            return Err(RmtpError::Kind(kind));
        }
        let len = self.encoded_len(form);
        let said = u16::try_from(len).map_err(|_| RmtpError::Long(len))?;
        out.extend_from_slice(&kind.to_be_bytes());
        out.extend_from_slice(&said.to_be_bytes());
        if form != RmtpForm::Paper96 {
            out.extend_from_slice(&self.connection.to_be_bytes());
        }
        self.body.encode_into(form, out);
        Ok(())
    }

    /// Decodes a packet in `form` that fills `bytes`; data share their memory.
    pub fn decode(form: RmtpForm, mut bytes: Bytes) -> Result<RmtpPacket, RmtpError> {
        let there = bytes.len();
        if there < form.head() {
            return Err(RmtpError::Short(there));
        }
        let (kind, said) = (bytes.get_u16(), bytes.get_u16());
        if usize::from(said) != there {
            return Err(RmtpError::Length { said, there });
        }
        let connection = match form {
            RmtpForm::Paper96 => 0,
            _ => bytes.get_u16(),
        };
        match RmtpBody::is_kind(kind, form) {
            true => RmtpBody::decode(kind, form, bytes).map(|body| RmtpPacket { connection, body }),
            false => Err(RmtpError::Kind(kind)),
        }
    }
}
