//! Whether a frame of VP9 has the parts that its header tells of (VP9 Bitstream & Decoding Process Specification, 6.1 to 6.4).

use crate::mpeg::bits::BitReader;
use crate::vpx::superframe;

/// Widths of the frames that others refer to: how many tiles a frame has follows from its width.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct References {
    widths: [u32; 8],
}

/// What follows the uncompressed header.
struct Parts {
    /// Where the compressed header begins, and its octets.
    header: (usize, usize),
    tiles: u32,
}

impl References {
    /// Whether a frame, or each one of a superframe, has its compressed header, and its tiles but the last as far as they say their size.
    /// Of the last tile only decoding tells.
    pub fn has_parts(&mut self, data: &[u8]) -> bool {
        let mut rest = data;
        superframe(data).into_iter().all(|len| {
            let Some((frame, after)) = rest.split_at_checked(len) else {
                return false;
            };
            rest = after;
            self.is_whole(frame).unwrap_or(false)
        })
    }

    fn is_whole(&mut self, frame: &[u8]) -> Option<bool> {
        let Some(parts) = self.header(frame)? else {
            // A frame that is shown again has nothing else.
            return Some(true);
        };
        let (at, len) = parts.header;
        let mut rest = frame.get(at + len..).filter(|_| len > 0)?;
        for _ in 1..parts.tiles {
            let (size, after) = rest.split_first_chunk()?;
            rest = after.get(u32::from_be_bytes(*size) as usize..)?;
        }
        Some(!rest.is_empty())
    }

    /// Reads the uncompressed header (6.2).
    fn header(&mut self, frame: &[u8]) -> Option<Option<Parts>> {
        let bits = &mut BitReader::new(frame, 0);
        bits.skip(2)?;
        let profile = bits.take(1)? | bits.take(1)? << 1;
        if profile == 3 {
            bits.skip(1)?;
        }
        if bits.flag()? {
            return Some(None);
        }
        let is_key = !bits.flag()?;
        let (is_shown, is_resilient) = (bits.flag()?, bits.flag()?);
        let (width, refreshed);
        if is_key {
            bits.skip(24)?;
            color_config(bits, profile)?;
            (width, refreshed) = (frame_size(bits)?, 0xFF);
            render_size(bits)?;
        } else {
            let is_intra = !is_shown && bits.flag()?;
            if !is_resilient {
                bits.skip(2)?;
            }
            if is_intra {
                bits.skip(24)?;
                if profile > 0 {
                    color_config(bits, profile)?;
                }
                refreshed = bits.take(8)?;
                width = frame_size(bits)?;
                render_size(bits)?;
            } else {
                refreshed = bits.take(8)?;
                let mut found = None;
                let mut indices = [0; 3];
                for index in &mut indices {
                    *index = bits.take(3)? as usize;
                    bits.skip(1)?;
                }
                for index in indices {
                    if bits.flag()? {
                        found = Some(self.widths[index]);
                        break;
                    }
                }
                width = match found {
                    Some(width) => width,
                    None => frame_size(bits)?,
                };
                render_size(bits)?;
                bits.skip(1)?;
                if !bits.flag()? {
                    bits.skip(2)?;
                }
            }
        }
        if !is_resilient {
            bits.skip(2)?;
        }
        bits.skip(2)?;
        loop_filter(bits)?;
        quantization(bits)?;
        segmentation(bits)?;
        let tiles = tiles(bits, width)?;
        let len = bits.take(16)? as usize;
        for (slot, width_of) in self.widths.iter_mut().enumerate() {
            if refreshed >> slot & 1 == 1 {
                *width_of = width;
            }
        }
        Some(Some(Parts {
            header: (bits.at().div_ceil(8), len),
            tiles,
        }))
    }
}

fn color_config(bits: &mut BitReader, profile: u32) -> Option<()> {
    const RGB: u32 = 7;
    let has_odd_planes = profile & 1 == 1;
    if profile >= 2 {
        bits.skip(1)?;
    }
    match bits.take(3)? {
        RGB => bits.skip(u32::from(has_odd_planes)),
        _ => bits.skip(if has_odd_planes { 4 } else { 1 }),
    }
}

/// The width of the frame.
fn frame_size(bits: &mut BitReader) -> Option<u32> {
    let width = bits.take(16)? + 1;
    bits.skip(16)?;
    Some(width)
}

fn render_size(bits: &mut BitReader) -> Option<()> {
    match bits.flag()? {
        true => bits.skip(32),
        false => Some(()),
    }
}

/// Passes over a value of this many bits, if a flag says that it is there.
fn optional(bits: &mut BitReader, len: u32) -> Option<()> {
    match bits.flag()? {
        true => bits.skip(len),
        false => Some(()),
    }
}

fn loop_filter(bits: &mut BitReader) -> Option<()> {
    bits.skip(6 + 3)?;
    if bits.flag()? && bits.flag()? {
        // Of four references and two modes.
        for _ in 0..4 + 2 {
            optional(bits, 7)?;
        }
    }
    Some(())
}

fn quantization(bits: &mut BitReader) -> Option<()> {
    bits.skip(8)?;
    (0..3).try_for_each(|_| optional(bits, 5))
}

fn segmentation(bits: &mut BitReader) -> Option<()> {
    /// Bits of the features of a segment, signs included.
    const FEATURES: [u32; 4] = [9, 7, 2, 0];
    if !bits.flag()? {
        return Some(());
    }
    if bits.flag()? {
        (0..7).try_for_each(|_| optional(bits, 8))?;
        if bits.flag()? {
            (0..3).try_for_each(|_| optional(bits, 8))?;
        }
    }
    if bits.flag()? {
        bits.skip(1)?;
        for _ in 0..8 {
            FEATURES.iter().try_for_each(|&len| optional(bits, len))?;
        }
    }
    Some(())
}

/// How many tiles there are (6.2.13 and 7.2.13).
fn tiles(bits: &mut BitReader, width: u32) -> Option<u32> {
    const WIDEST: u32 = 64;
    const NARROWEST: u32 = 4;
    let columns = width.div_ceil(64);
    let mut log2 = 0;
    while WIDEST << log2 < columns {
        log2 += 1;
    }
    let mut most = 1;
    while columns >> most >= NARROWEST {
        most += 1;
    }
    most -= 1;
    while log2 < most && bits.flag()? {
        log2 += 1;
    }
    let mut rows = bits.take(1)?;
    if rows == 1 {
        rows += bits.take(1)?;
    }
    Some(1 << (log2 + rows))
}
