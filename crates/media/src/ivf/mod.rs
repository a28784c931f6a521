//! IVF, the file format of libvpx and libaom: a header, and frames of one time unit each.

mod clip;
mod disorder;
mod frames;
mod reader;
mod resync;
mod units;
mod writer;

use layercast_core::FrameRate;

pub(crate) use clip::{DAMAGED, codec_of, damaged, parse, parse_obus};
pub(crate) use reader::IvfReader;
pub use units::IvfUnits;
pub(crate) use writer::PictureWriter;

const MAGIC: &[u8; 4] = b"DKIF";
const HEADER: usize = 32;
const FRAME_HEADER: usize = 12;
/// Ticks a second in files that are written.
const HZ: u32 = 90_000;

/// What the header of a file says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    pub fourcc: [u8; 4],
    pub width: u32,
    pub height: u32,
    /// Ticks per second.
    pub clock: FrameRate,
}

impl Header {
    /// Reads the header; gives where the frames begin.
    pub fn read(data: &[u8]) -> Option<(Header, usize)> {
        let header: &[u8; HEADER] = data.first_chunk()?;
        let word = |at: usize| u32::from(u16::from_le_bytes([header[at], header[at + 1]]));
        let long = |at: usize| word(at) | word(at + 2) << 16;
        if !header.starts_with(MAGIC) {
            return None;
        }
        let header = Header {
            fourcc: [header[8], header[9], header[10], header[11]],
            width: word(12),
            height: word(14),
            clock: FrameRate {
                num: long(16).max(1),
                den: long(20).max(1),
            },
        };
        Some((header, (word(6) as usize).max(HEADER)))
    }

    /// Appends the header of a file whose length is not known.
    pub fn write(fourcc: [u8; 4], (width, height): (u32, u32), out: &mut Vec<u8>) {
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&[0, 0, HEADER as u8, 0]);
        out.extend_from_slice(&fourcc);
        out.extend_from_slice(&(width as u16).to_le_bytes());
        out.extend_from_slice(&(height as u16).to_le_bytes());
        out.extend_from_slice(&HZ.to_le_bytes());
        out.extend_from_slice(&1u32.to_le_bytes());
        out.extend_from_slice(&[0; 8]);
    }
}

/// Appends a frame at a time in ticks of 90 kHz.
fn put(frame: &[u8], ticks: u64, out: &mut Vec<u8>) {
    let len = u32::try_from(frame.len()).unwrap_or(u32::MAX);
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(&ticks.to_le_bytes());
    out.extend_from_slice(frame);
}
