use bytes::{Buf, Bytes, TryGetError};
use thiserror::Error;

use super::FrmBody;

/// Octets before the fields of a packet's kind.
pub const FRM_HEADER: usize = 12;
/// Version of this form.
pub const FRM_VERSION: u8 = 1;

/// A packet of FRM (specs/fully-reliable-multicast.md 2.1).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FrmPacket {
    /// The session it belongs to.
    pub session: u64,
    /// What it says.
    pub body: FrmBody,
}

/// Why bytes are not a packet of FRM, or a packet has no bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum FrmError {
    /// It ends too early.
    #[error("the packet of FRM ends before its fields do")]
    Short,
    /// Another version.
    #[error("version {0} of FRM is not {FRM_VERSION}")]
    Version(u8),
    /// A kind that nothing is assigned to.
    #[error("kind {0} of FRM packet is not known")]
    Kind(u8),
    /// A length that is not that of the packet.
    #[error("FRM says {said} octets, there are {there}")]
    Length {
        /// What the header says.
        said: u16,
        /// What there is.
        there: usize,
    },
    /// More octets than the header can say.
    #[error("{0} octets are too long for FRM")]
    Long(usize),
    /// A list or a name is longer than its count can say.
    #[error("{0} entries are too many for the {1} of an FRM packet")]
    Many(usize, &'static str),
    /// A field with a value that it cannot have.
    #[error("{0} of an FRM packet has a value that it cannot have")]
    Value(&'static str),
    /// Gaps that are not in order, or lie outside of what can be missing.
    #[error("gaps of an FRM receiver are not in order")]
    Gaps,
}

impl From<TryGetError> for FrmError {
    fn from(_: TryGetError) -> FrmError {
        FrmError::Short
    }
}

impl FrmPacket {
    /// Appends the packet.
    ///
    /// Errors: it is longer than 65535 octets, or a list longer than its count can say; nothing is appended.
    pub fn encode_into(&self, out: &mut Vec<u8>) -> Result<(), FrmError> {
        let start = out.len();
        out.extend_from_slice(&[FRM_VERSION, self.body.kind(), 0, 0]);
        out.extend_from_slice(&self.session.to_be_bytes());
        let done = self.body.encode_into(out).and_then(|()| {
            let len = out.len() - start;
            let said = u16::try_from(len).map_err(|_| FrmError::Long(len))?;
            out[start + 2..start + 4].copy_from_slice(&said.to_be_bytes());
            Ok(())
        });
        if done.is_err() {
            out.truncate(start);
        }
        done
    }

    /// Decodes a packet that fills `bytes`; data share their memory.
    pub fn decode(mut bytes: Bytes) -> Result<FrmPacket, FrmError> {
        let there = bytes.len();
        let (version, kind) = (bytes.try_get_u8()?, bytes.try_get_u8()?);
        let (said, session) = (bytes.try_get_u16()?, bytes.try_get_u64()?);
        if version != FRM_VERSION {
            return Err(FrmError::Version(version));
        }
        if usize::from(said) != there {
            return Err(FrmError::Length { said, there });
        }
        let body = FrmBody::decode(kind, &mut bytes)?;
        match bytes.is_empty() {
            true => Ok(FrmPacket { session, body }),
            false => Err(FrmError::Length { said, there }),
        }
    }
}
