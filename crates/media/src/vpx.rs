//! VP8 (RFC 6386) and VP9 (VP9 Bitstream & Decoding Process Specification): what the frame headers show.

use layercast_core::Layer;

use crate::map::Map;
use crate::mpeg::bits::BitReader;
use crate::{Picture, vp8};

/// What a frame, or a superframe of VP9, is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Unit {
    pub is_start: bool,
    /// Others refer to it, or that is not known.
    pub is_reference: bool,
    /// Width and height that a key frame names.
    pub size: Option<(u32, u32)>,
}

impl Unit {
    /// Reads a frame of VP8; `None` if it is none, or lacks a part.
    pub fn vp8(data: &[u8]) -> Option<Unit> {
        Unit::vp8_tag(data).filter(|_| vp8::has_parts(data))
    }

    /// Reads what begins a frame of VP8 (9.1); `None` if it does not.
    pub fn vp8_tag(data: &[u8]) -> Option<Unit> {
        const START: [u8; 3] = [0x9D, 0x01, 0x2A];
        let is_start = data.first()? & 1 == 0;
        let size = match (is_start, data) {
            (true, [_, _, _, a, b, c, w, wide, h, high, ..]) if [*a, *b, *c] == START => {
                let of = |low: u8, high: u8| u32::from(low) | u32::from(high & 0x3F) << 8;
                Some((of(*w, *wide), of(*h, *high)))
            }
            (true, _) => return None,
            (false, _) => None,
        };
        Some(Unit {
            is_start,
            is_reference: true,
            size,
        })
    }

    /// Reads a frame of VP9, or several in a superframe (Annex B); `None` if it is none.
    pub fn vp9(data: &[u8]) -> Option<Unit> {
        let mut rest = data;
        let mut whole: Option<Unit> = None;
        for len in superframe(data) {
            let (frame, after) = rest.split_at_checked(len)?;
            rest = after;
            let read = vp9_frame(frame)?;
            whole = Some(match whole {
                None => read,
                Some(first) => Unit {
                    is_reference: first.is_reference | read.is_reference,
                    ..first
                },
            });
        }
        whole
    }

    pub fn picture(self) -> Picture {
        match self.is_reference {
            _ if self.is_start => Picture::I,
            true => Picture::P,
            false => Picture::B,
        }
    }
}

/// Lengths of the frames of a superframe; of any other frame its own.
pub(crate) fn superframe(data: &[u8]) -> Vec<usize> {
    let whole = vec![data.len()];
    let Some(&marker) = data.last().filter(|it| **it & 0xE0 == 0xC0) else {
        return whole;
    };
    let (bytes, frames) = (
        usize::from(marker >> 3 & 3) + 1,
        usize::from(marker & 7) + 1,
    );
    let index = 2 + bytes * frames;
    let Some(index) = data.len().checked_sub(index).map(|at| &data[at..]) else {
        return whole;
    };
    if index[0] != marker {
        return whole;
    }
    let sizes = index[1..index.len() - 1].chunks(bytes);
    let size = |it: &[u8]| {
        it.iter()
            .rev()
            .fold(0, |sum, &byte| sum << 8 | usize::from(byte))
    };
    sizes.map(size).collect()
}

/// Puts frames together to a superframe (Annex B), those of superframes too; nothing if they are too many or too large.
pub(crate) fn joined<'a>(frames: impl Iterator<Item = &'a [u8]>) -> Option<Vec<u8>> {
    const MOST: usize = 8;
    let (mut out, mut lens) = (Vec::new(), Vec::new());
    for frame in frames {
        let inner = superframe(frame);
        out.extend_from_slice(frame.get(..inner.iter().sum())?);
        lens.extend(inner);
    }
    if !(1..=MOST).contains(&lens.len()) {
        return None;
    }
    let marker = 0xC0 | 3 << 3 | (lens.len() - 1) as u8;
    out.push(marker);
    for len in lens {
        out.extend_from_slice(&u32::try_from(len).ok()?.to_le_bytes());
    }
    out.push(marker);
    Some(out)
}

fn profile_in(bits: &mut BitReader) -> Option<u32> {
    const MARKER: u32 = 2;
    let is_frame = bits.take(2)? == MARKER;
    let profile = bits.take(1)? | bits.take(1)? << 1;
    is_frame.then_some(profile)
}

/// The profile of a frame of VP9.
pub(crate) fn vp9_profile(data: &[u8]) -> Option<u32> {
    profile_in(&mut BitReader::new(data, 0))
}

/// The uncompressed header (6.2) of one frame, up to what is needed.
pub(crate) fn vp9_frame(data: &[u8]) -> Option<Unit> {
    const SYNC: u32 = 0x49_8342;
    const RGB: u32 = 7;
    let bits = &mut BitReader::new(data, 0);
    let profile = profile_in(bits)?;
    if profile == 3 {
        bits.skip(1)?;
    }
    let mut unit = Unit {
        is_start: false,
        is_reference: false,
        size: None,
    };
    if bits.flag()? {
        // A frame that is shown again.
        return Some(unit);
    }
    unit.is_start = !bits.flag()?;
    let (is_shown, is_resilient) = (bits.flag()?, bits.flag()?);
    let has_odd_planes = profile & 1 == 1;
    if unit.is_start {
        if bits.take(24)? != SYNC {
            return None;
        }
        if profile >= 2 {
            bits.skip(1)?;
        }
        match bits.take(3)? {
            RGB => bits.skip(u32::from(has_odd_planes))?,
            _ => bits.skip(if has_odd_planes { 4 } else { 1 })?,
        }
        unit.size = Some((bits.take(16)? + 1, bits.take(16)? + 1));
        unit.is_reference = true;
        return Some(unit);
    }
    let is_intra = !is_shown && bits.flag()?;
    if !is_resilient {
        bits.skip(2)?;
    }
    // Frames without resilience hand on probabilities and motion vectors too.
    unit.is_reference = is_intra || !is_resilient || bits.take(8)? != 0;
    Some(unit)
}

/// Gives frames their layers. No frame names its temporal layer: without a map all are BL, with one it is that of the frame's
/// place in the stream.
#[derive(Default, Debug)]
pub(crate) struct Layers {
    pub map: Map,
    /// Frames so far.
    count: usize,
}

/// Three temporal layers as libvpx makes them with a period of four.
const THREE: [Layer; 4] = [Layer::Base, Layer::E2, Layer::E1, Layer::E2];

/// That a frame cannot be of the layer that a map by place gives it.
pub(crate) fn misplaced(map: Map, place: usize) -> String {
    format!(
        "--map {map} does not fit: others refer to frame {place}, which its place makes one of the highest layer; \
         give --map auto, or encode it with ffmpeg -lag-in-frames 0 -error-resilient 1 and the -ts-parameters of three \
         layers from its first frame on"
    )
}

/// The layer of a temporal layer whose number comes with the frame: of how many there are nothing is known.
pub(crate) fn by_id(temporal: u8) -> Layer {
    match temporal {
        0 => Layer::Base,
        1 => Layer::E1,
        _ => Layer::E2,
    }
}

impl Layers {
    /// The layer of the next frame; `Err` if it cannot be of that which its place says.
    pub fn layer(&mut self, unit: Unit, is_vp9: bool) -> Result<Layer, usize> {
        let place = self.count;
        self.count += 1;
        match self.map {
            _ if unit.is_start => Ok(Layer::Base),
            Map::Vp8Ts3 | Map::Vp9Ts3 => match THREE[place % THREE.len()] {
                Layer::E2 if is_vp9 && unit.is_reference => Err(place),
                layer => Ok(layer),
            },
            Map::Ipb => Ok(Layer::E1),
            _ => Ok(Layer::Base),
        }
    }
}
