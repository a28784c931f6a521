//! FEC for RTP by SMPTE 2022-1 (Pro-MPEG Code of Practice 3 release 2): L columns and D rows of media packets, a parity packet
//! for each column and, if wanted, for each row. It is what FFmpeg (`prompeg`) and GStreamer (`rtpst2022-1-fecenc`) speak.

mod header;
mod receiver;
mod sender;
#[cfg(test)]
mod tests;

use serde::Serialize;
use thiserror::Error;

pub use header::{SmpteHeader, SmpteHeaderError};
pub use receiver::{SmpteReceiver, SmpteReceiverConfig, SmpteReceiverStats};
pub use sender::{SmptePacket, SmpteSender};

/// Most columns and most rows; more media packets in a block do not fit the window of receivers.
const MAX_SIDE: u8 = 20;
/// Octets of an RTP header without contributing sources, and of the FEC header behind it.
const RTP: usize = 12;
const HEADER: usize = 16;

/// Which stream a parity packet is of: those of columns go to the port of the media + 2, those of rows to + 4.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SmpteStream {
    /// Parities of columns: every L-th packet.
    Columns,
    /// Parities of rows: L packets that follow each other.
    Rows,
}

impl SmpteStream {
    /// How far its port is from that of the media.
    pub const fn port_offset(self) -> u16 {
        match self {
            SmpteStream::Columns => 2,
            SmpteStream::Rows => 4,
        }
    }
}

/// The block of a sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SmpteConfig {
    /// L, 1 to 20.
    pub columns: u8,
    /// D, 4 to 20.
    pub rows: u8,
    /// Rows have parities, too.
    pub with_rows: bool,
}

/// Reason why there is no such block.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum SmpteConfigError {
    /// The number of columns or rows is out of range.
    #[error(
        "{columns} columns and {rows} rows: a block has 1 to 20 columns and 4 to 20 rows, as SMPTE 2022-1 allows"
    )]
    Size {
        /// L.
        columns: u8,
        /// D.
        rows: u8,
    },
    /// Row parities of one column would repeat each packet.
    #[error(
        "row parities of {0} columns: rows need 4 columns or more, as SMPTE 2022-1 has it; send column parities alone"
    )]
    Rows(u8),
}

impl SmpteConfig {
    /// Checks the values.
    ///
    /// # Errors
    /// The number of columns or rows is out of range.
    pub fn validate(&self) -> Result<(), SmpteConfigError> {
        let &SmpteConfig {
            columns,
            rows,
            with_rows,
        } = self;
        match (1..=MAX_SIDE).contains(&columns) && (4..=MAX_SIDE).contains(&rows) {
            true if with_rows && columns < 4 => Err(SmpteConfigError::Rows(columns)),
            true => Ok(()),
            false => Err(SmpteConfigError::Size { columns, rows }),
        }
    }
}

/// What is protected of an RTP packet: bits of its header, its length behind the fixed header, and that.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
struct Recovery {
    /// P, X, CC of the first octet, and M and payload type, as they are in the header.
    flags: [u8; 2],
    timestamp: u32,
    length: u16,
    body: Vec<u8>,
}

impl Recovery {
    fn clear(&mut self) {
        self.flags = [0; 2];
        (self.timestamp, self.length) = (0, 0);
        self.body.clear();
    }

    /// Adds a media packet, header and all.
    fn add(&mut self, packet: &[u8]) {
        let Some((head, body)) = packet.split_first_chunk::<RTP>() else {
            return;
        };
        self.flags[0] ^= head[0] & 0x3F;
        self.flags[1] ^= head[1];
        self.timestamp ^= u32::from_be_bytes([head[4], head[5], head[6], head[7]]);
        self.length ^= body.len() as u16;
        if self.body.len() < body.len() {
            self.body.resize(body.len(), 0);
        }
        crate::xor::xor_into(&mut self.body, body);
    }
}

/// The sequence number of an RTP packet; `None` if it is none, too long, or RTCP.
fn sequence(packet: &[u8]) -> Option<u16> {
    let head = packet.first_chunk::<RTP>()?;
    let is_media = head[0] >> 6 == 2 && !(192..=223).contains(&head[1]);
    let fits = packet.len() - RTP <= usize::from(u16::MAX);
    (is_media && fits).then(|| u16::from_be_bytes([head[2], head[3]]))
}
