use bytes::{Buf, Bytes};
use layercast_core::Serial;
use thiserror::Error;

use super::{XtpBody, XtpKey, XtpOptions};
use crate::checksum::Checksum;

/// Bytes of an XTP header.
pub const XTP_HEADER: usize = 32;
/// The protocol number of XTP.
pub const PROTOCOL_XTP: u8 = 36;

const VERSION: u8 = 1;

/// A packet of XTP 4.0 (specs/xtp.md 2.1).
///
/// A decoder ignores reserved bits and bytes, so a packet that came from bytes encodes to the same
/// packet, not always to the same bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct XtpPacket {
    /// Names the context it is for.
    pub key: XtpKey,
    /// Option bits.
    pub options: XtpOptions,
    /// Priority, if SORT is set: less is more urgent.
    pub sort: u16,
    /// Value of the synchronizing handshake.
    pub sync: Serial,
    /// Number of the first byte of the data; without data, of the next byte to be sent.
    pub seq: u64,
    /// What follows the header.
    pub body: XtpBody,
}

/// Why bytes are not an XTP packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum XtpError {
    /// Shorter than the header.
    #[error("{0} bytes are shorter than the header of XTP")]
    Short(usize),
    /// Not XTP 4.0.
    #[error("XTP version {0} is not 1")]
    Version(u8),
    /// A length that is not that of the packet.
    #[error("XTP says {said} bytes after the header, there are {there}")]
    Length {
        /// What the header says.
        said: u32,
        /// What there is.
        there: usize,
    },
    /// Damaged on the way.
    #[error("XTP checksum is wrong")]
    Checksum,
    /// A packet format that nothing is assigned to.
    #[error("XTP packet format {0} is not known")]
    Format(u8),
    /// A body that has not the length of its format.
    #[error("{there} bytes are no body of XTP packet format {format}")]
    Body {
        /// Number of the format.
        format: u8,
        /// Bytes after the header.
        there: usize,
    },
    /// A segment that does not fit into the packet.
    #[error("{what} segment of {said} bytes, {there} are there")]
    Segment {
        /// Which.
        what: &'static str,
        /// What it says, or has at least.
        said: usize,
        /// What there is.
        there: usize,
    },
    /// A tag is announced and not there.
    #[error("{0} bytes of data cannot begin with a tag of 8")]
    Tag(usize),
}

impl XtpPacket {
    /// Bytes that [`encode_into`](Self::encode_into) appends.
    pub fn encoded_len(&self) -> usize {
        XTP_HEADER + self.body.encoded_len()
    }

    /// The tag before the data, if there is one.
    pub fn tag(&self) -> Option<[u8; 8]> {
        let mut tag = [0; 8];
        let data = self.body.data().filter(|data| data.len() >= tag.len())?;
        data.copy_to(&mut tag);
        self.options.has(XtpOptions::BTAG).then_some(tag)
    }

    /// Appends header and body, of less than 2^32 bytes.
    pub fn encode_into(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let options = self.options.0 & XtpOptions::ALL.0;
        let command = options << 8 | u32::from(VERSION << 5 | self.body.format());
        out.extend_from_slice(&self.key.0.to_be_bytes());
        out.extend_from_slice(&command.to_be_bytes());
        out.extend_from_slice(&(self.body.encoded_len() as u32).to_be_bytes());
        out.extend_from_slice(&[0; 2]);
        out.extend_from_slice(&self.sort.to_be_bytes());
        out.extend_from_slice(&self.sync.0.to_be_bytes());
        out.extend_from_slice(&self.seq.to_be_bytes());
        self.body.encode_into(out);
        let sum = sum_over(self.options, &out[start..]).finish();
        out[start + 16..start + 18].copy_from_slice(&sum.to_be_bytes());
    }

    /// Decodes a packet that fills `bytes`; data share their memory.
    pub fn decode(bytes: Bytes) -> Result<XtpPacket, XtpError> {
        let Some(head) = bytes.first_chunk::<XTP_HEADER>() else {
            return Err(XtpError::Short(bytes.len()));
        };
        let there = bytes.len() - XTP_HEADER;
        let mut fields = &head[..];
        let key = XtpKey(fields.get_u64());
        let command = fields.get_u32();
        let said = fields.get_u32();
        let _ = fields.get_u16();
        let (sort, sync, seq) = (fields.get_u16(), fields.get_u32(), fields.get_u64());
        let (version, format) = (command as u8 >> 5, command as u8 & 0x1f);
        if version != VERSION {
            return Err(XtpError::Version(version));
        }
        if said as usize != there {
            return Err(XtpError::Length { said, there });
        }
        let options = XtpOptions(command >> 8 & XtpOptions::ALL.0);
        if sum_over(options, &bytes).finish() != 0 {
            return Err(XtpError::Checksum);
        }
        let packet = XtpPacket {
            key,
            options,
            sort,
            sync: Serial(sync),
            seq,
            body: XtpBody::decode(format, bytes.slice(XTP_HEADER..))?,
        };
        match packet.body.data() {
            Some(data) if options.has(XtpOptions::BTAG) && data.len() < 8 => {
                Err(XtpError::Tag(data.len()))
            }
            _ => Ok(packet),
        }
    }
}

/// The checksum of what is protected of a packet.
fn sum_over(options: XtpOptions, bytes: &[u8]) -> Checksum {
    match options.has(XtpOptions::NOCHECK) {
        true => Checksum::default().bytes(&bytes[..XTP_HEADER]),
        false => Checksum::default().bytes(bytes),
    }
}
