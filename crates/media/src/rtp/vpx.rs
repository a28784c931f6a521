//! VP8 (RFC 7741) and VP9 (RFC 9628) in RTP: pieces of frames behind a descriptor.

use layercast_core::{Media, Serial};

use super::pictures::{Fit, Parts};
use crate::Map;
use crate::bare::{BareFrames, MAX_FRAME};
use crate::live::{Stamp, TimedFrame};
use crate::vpx::{self, Unit};

/// Picture numbers that are sent have 15 bits.
const LONG_ID: u16 = 0x8000;

/// A piece of a frame, and what its descriptor says.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Piece<'a> {
    /// It is the first of a picture, of VP9 of its lowest spatial layer.
    begins_picture: bool,
    /// It is the first, or the last, of a frame; VP8 does not say which is the last.
    begins: bool,
    ends: bool,
    temporal: Option<u8>,
    data: &'a [u8],
}

/// Reads the number of a picture, of one octet or two.
fn skip_id(data: &[u8]) -> Option<&[u8]> {
    let long = data.first()? & 0x80 != 0;
    data.get(1 + usize::from(long)..)
}

impl Piece<'_> {
    fn read(payload: &[u8], is_vp9: bool) -> Option<Piece<'_>> {
        let piece = match is_vp9 {
            true => vp9(payload)?,
            false => vp8(payload)?,
        };
        (!piece.data.is_empty()).then_some(piece)
    }
}

/// RFC 7741, 4.2.
fn vp8(payload: &[u8]) -> Option<Piece<'_>> {
    let (&first, mut rest) = payload.split_first()?;
    let mut temporal = None;
    if first & 0x80 != 0 {
        let (&has, after) = rest.split_first()?;
        rest = after;
        if has & 0x80 != 0 {
            rest = skip_id(rest)?;
        }
        if has & 0x40 != 0 {
            rest = rest.get(1..)?;
        }
        if has & 0x30 != 0 {
            let (&ids, after) = rest.split_first()?;
            rest = after;
            temporal = (has & 0x20 != 0).then_some(ids >> 6);
        }
    }
    let begins = first & 0x17 == 0x10;
    Some(Piece {
        begins_picture: begins,
        begins,
        ends: false,
        temporal,
        data: rest,
    })
}

/// RFC 9628, 4.2.
fn vp9(payload: &[u8]) -> Option<Piece<'_>> {
    let (&first, mut rest) = payload.split_first()?;
    let has = |bit: u8| first & bit != 0;
    let (is_predicted, is_flexible) = (has(0x40), has(0x10));
    let mut ids = None;
    if has(0x80) {
        rest = skip_id(rest)?;
    }
    if has(0x20) {
        let (&layers, after) = rest.split_first()?;
        ids = Some((layers >> 5, layers >> 1 & 7));
        rest = match is_flexible {
            true => after,
            false => after.get(1..)?,
        };
    }
    if is_predicted && is_flexible {
        // Up to three references, each with a bit that says whether another one follows.
        for _ in 0..3 {
            let (&reference, after) = rest.split_first()?;
            rest = after;
            if reference & 1 == 0 {
                break;
            }
        }
    }
    if has(0x02) {
        rest = skip_structure(rest)?;
    }
    let begins = has(0x08);
    Some(Piece {
        begins_picture: begins && ids.is_none_or(|(_, spatial)| spatial == 0),
        begins,
        ends: has(0x04),
        temporal: ids.map(|(temporal, _)| temporal),
        data: rest,
    })
}

/// The scalability structure (RFC 9628, 4.2.1).
fn skip_structure(data: &[u8]) -> Option<&[u8]> {
    let (&first, mut rest) = data.split_first()?;
    if first & 0x10 != 0 {
        rest = rest.get(4 * (usize::from(first >> 5) + 1)..)?;
    }
    if first & 0x08 != 0 {
        let (&pictures, after) = rest.split_first()?;
        rest = after;
        for _ in 0..pictures {
            let (&picture, after) = rest.split_first()?;
            rest = after.get(usize::from(picture >> 2 & 3)..)?;
        }
    }
    Some(rest)
}

/// Whether a payload is one of VP8, and whether it shows that for certain: a key frame begins.
pub(super) fn shows_vp8(payload: &[u8]) -> Option<bool> {
    const RESERVED: u8 = 0x48;
    let piece = Piece::read(payload, false).filter(|_| payload[0] & RESERVED == 0)?;
    Some(piece.begins && Unit::vp8_tag(piece.data)?.is_start)
}

/// The same of VP9.
pub(super) fn shows_vp9(payload: &[u8]) -> Option<bool> {
    let piece = Piece::read(payload, true)?;
    Some(piece.begins && vpx::vp9_frame(piece.data)?.is_start)
}

/// Puts frames together.
#[derive(Debug)]
pub(crate) struct VpxParts {
    pub frames: BareFrames,
    is_vp9: bool,
    /// The frames of a picture: of VP9 one for each spatial layer. Where those that are whole end.
    picture: Vec<u8>,
    ends: Vec<usize>,
    temporal: Option<u8>,
    damaged: bool,
    malformed: u64,
}

/// A picture, and its temporal layer if it names one.
#[derive(Debug)]
pub(crate) struct VpxUnit {
    data: Vec<u8>,
    temporal: Option<u8>,
}

impl VpxParts {
    /// Of VP8 or VP9.
    pub fn new(codec: Media, map: Map) -> VpxParts {
        VpxParts {
            frames: BareFrames::new(codec, map),
            is_vp9: codec == Media::Vp9,
            picture: Vec::new(),
            ends: Vec::new(),
            temporal: None,
            damaged: false,
            malformed: 0,
        }
    }

    /// Octets behind the last whole frame of the picture.
    fn is_open(&self) -> bool {
        self.ends.last().copied().unwrap_or(0) < self.picture.len()
    }

    /// The picture as one frame.
    fn joined(&mut self) -> Option<Vec<u8>> {
        let data = std::mem::take(&mut self.picture);
        let ends = std::mem::take(&mut self.ends);
        if ends.len() < 2 {
            return Some(data);
        }
        let mut start = 0;
        let frames = ends
            .iter()
            .map(|&end| &data[std::mem::replace(&mut start, end)..end]);
        vpx::joined(frames)
    }
}

impl Parts for VpxParts {
    type Unit = VpxUnit;

    fn holds_picture(&self, payload: &[u8]) -> bool {
        Piece::read(payload, self.is_vp9).is_some()
    }

    fn fit(&self, payload: &[u8]) -> Fit {
        let shown = match self.is_vp9 {
            true => shows_vp9(payload),
            false => shows_vp8(payload),
        };
        shown.map_or(Fit::Odd, |_| Fit::Fits)
    }

    fn begins_picture(&self, payload: &[u8]) -> bool {
        Piece::read(payload, self.is_vp9).is_some_and(|it| it.begins_picture)
    }

    fn push(&mut self, payload: &[u8], _: &mut Vec<VpxUnit>) {
        let Some(piece) = Piece::read(payload, self.is_vp9) else {
            self.malformed += 1;
            self.damaged = true;
            return;
        };
        // A piece behind one that is missing, or a frame behind one that has no end.
        let is_first = self.picture.is_empty();
        let follows = match self.is_vp9 {
            true => piece.begins != self.is_open() && (piece.begins_picture || !is_first),
            false => piece.begins == is_first,
        };
        if !follows || self.picture.len() + piece.data.len() > MAX_FRAME {
            self.damaged = true;
            return;
        }
        self.picture.extend_from_slice(piece.data);
        if piece.ends {
            self.ends.push(self.picture.len());
        }
        if is_first {
            self.temporal = piece.temporal;
        }
    }

    fn lose(&mut self) {
        self.damaged = true;
    }

    fn lose_front(&mut self) {
        // The first piece of a picture says that it is.
    }

    fn end_unit(&mut self, units: &mut Vec<VpxUnit>) -> bool {
        let is_cut = self.is_vp9 && self.is_open();
        if std::mem::take(&mut self.damaged) || is_cut {
            self.picture.clear();
            self.ends.clear();
            return true;
        }
        if self.picture.is_empty() {
            return false;
        }
        let temporal = self.temporal;
        match self.joined() {
            Some(data) => units.push(VpxUnit { data, temporal }),
            None => return true,
        }
        false
    }

    fn frame(&mut self, unit: VpxUnit, seq: Serial, stamp: Stamp) -> Option<TimedFrame> {
        let frame = self.frames.frame(&unit.data, seq, unit.temporal)?;
        Some(TimedFrame {
            frame,
            stamp: Some(stamp),
            arrived: None,
        })
    }

    fn lose_last(&mut self) {
        self.frames.lose();
    }

    fn malformed(&self) -> u64 {
        self.malformed
    }
}

/// Cuts a frame into payloads of at most `most` bytes. `id` is the number of the picture; `send` also gets whether it is the
/// last.
pub(super) fn packetise(
    frame: &[u8],
    is_vp9: bool,
    id: u16,
    most: usize,
    mut send: impl FnMut(&[u8], bool),
) {
    const LONGEST: usize = 8;
    let [high, low] = (id | LONG_ID).to_be_bytes();
    let unit = match is_vp9 {
        true => Unit::vp9(frame),
        false => Unit::vp8(frame),
    };
    let is_start = unit.is_some_and(|it| it.is_start);
    let mut payload = Vec::with_capacity(most);
    let count = frame.len().div_ceil(most - LONGEST);
    for (index, piece) in frame.chunks(most - LONGEST).enumerate() {
        let (first, last) = (index == 0, index + 1 == count);
        let flag = |set: bool, bit: u8| if set { bit } else { 0 };
        payload.clear();
        match is_vp9 {
            true => {
                let size = unit.and_then(|it| it.size).filter(|_| first && is_start);
                let flags = flag(!is_start, 0x40)
                    | flag(first, 0x08)
                    | flag(last, 0x04)
                    | flag(size.is_some(), 0x02);
                payload.extend_from_slice(&[0x80 | flags, high, low]);
                if let Some((width, height)) = size {
                    payload.push(0x10);
                    payload.extend_from_slice(&(width as u16).to_be_bytes());
                    payload.extend_from_slice(&(height as u16).to_be_bytes());
                }
            }
            false => payload.extend_from_slice(&[0x80 | flag(first, 0x10), 0x80, high, low]),
        }
        payload.extend_from_slice(piece);
        send(&payload, last);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A picture with its temporal layer.
    type Picture = (Vec<u8>, Option<u8>);

    fn parts(codec: Media, payloads: &[&[u8]]) -> (Vec<Picture>, bool) {
        let mut parts = VpxParts::new(codec, Map::Auto);
        let mut units = Vec::new();
        payloads.iter().for_each(|it| parts.push(it, &mut units));
        let is_damaged = parts.end_unit(&mut units);
        let of = |it: VpxUnit| (it.data, it.temporal);
        (units.into_iter().map(of).collect(), is_damaged)
    }

    #[test]
    fn descriptors_are_read_as_the_rfcs_have_them() {
        // RFC 7741, 4.5: the first and the second packet of a key frame; with a picture number of 15 bits; with temporal layers.
        let of_vp8 = |payload: &[u8]| {
            let it = vp8(payload).expect("a descriptor");
            (it.begins, it.temporal, it.data.len())
        };
        assert_eq!(of_vp8(&[0x90, 0x80, 0x11, 7]), (true, None, 1));
        assert_eq!(of_vp8(&[0x80, 0x80, 0x91, 0x11, 7]), (false, None, 1));
        assert_eq!(
            of_vp8(&[0x90, 0xE0, 0x91, 0x11, 5, 0x60, 7]),
            (true, Some(1), 1)
        );
        assert_eq!(of_vp8(&[0x11, 7]), (false, None, 1));
        let of_vp9 = |payload: &[u8]| {
            let it = vp9(payload).expect("a descriptor");
            (
                it.begins_picture,
                it.begins,
                it.ends,
                it.temporal,
                it.data.len(),
            )
        };
        assert_eq!(of_vp9(&[0x0C, 7]), (true, true, true, None, 1));
        // Layers, of which the spatial one is not the lowest, and the number of the base frame.
        assert_eq!(
            of_vp9(&[0xA8, 0x91, 0x11, 0x42, 9, 7]),
            (false, true, false, Some(2), 1)
        );
        // Flexible, with two references.
        assert_eq!(
            of_vp9(&[0xF4, 0x11, 0x20, 3, 4, 7, 8]),
            (false, false, true, Some(1), 2)
        );
        // A structure with two sizes, and two pictures of which one has a reference.
        let structure = [0x0E, 0x38, 0, 9, 0, 9, 0, 9, 0, 9, 2, 0x04, 1, 0x20, 7];
        assert_eq!(of_vp9(&structure), (true, true, true, None, 1));
        for cut in 0..structure.len() {
            assert!(Piece::read(&structure[..cut], true).is_none());
        }
    }

    #[test]
    fn a_picture_without_one_of_its_pieces_is_none() {
        let vp8 = |payloads: &[&[u8]]| parts(Media::Vp8, payloads);
        assert_eq!(
            vp8(&[&[0x10, 1], &[0, 2]]),
            (vec![(vec![1, 2], None)], false)
        );
        assert_eq!(vp8(&[&[0, 2], &[0, 3]]), (vec![], true));
        let vp9 = |payloads: &[&[u8]]| parts(Media::Vp9, payloads);
        assert_eq!(
            vp9(&[&[0x08, 1], &[0, 2], &[0x04, 3]]),
            (vec![(vec![1, 2, 3], None)], false)
        );
        assert_eq!(vp9(&[&[0x08, 1], &[0, 2]]), (vec![], true));
        assert_eq!(vp9(&[&[0, 2], &[0x04, 3]]), (vec![], true));
        assert_eq!(vp9(&[&[0x0C, 1], &[0x04, 3]]), (vec![], true));
        assert_eq!(vp9(&[]), (vec![], false));
    }

    #[test]
    fn spatial_layers_are_a_superframe() {
        let payloads: [&[u8]; 3] = [
            &[0x2C, 0x00, 0, 1],
            &[0x28, 0x02, 0, 2],
            &[0x24, 0x02, 0, 3],
        ];
        let (units, _) = parts(Media::Vp9, &payloads);
        let marker = 0xC0 | 3 << 3 | 1;
        let expected = vec![1, 2, 3, marker, 1, 0, 0, 0, 2, 0, 0, 0, marker];
        assert_eq!(vpx::superframe(&expected), [1, 2]);
        assert_eq!(units, [(expected, Some(0))]);
    }

    proptest! {
        #[test]
        fn what_is_cut_comes_together_again(
            frame in prop::collection::vec(any::<u8>(), 1..5_000), is_vp9 in any::<bool>(), id in any::<u16>()
        ) {
            let codec = if is_vp9 { Media::Vp9 } else { Media::Vp8 };
            let mut sent = Vec::new();
            packetise(&frame, is_vp9, id, 1_000, |payload, last| {
                assert!(payload.len() <= 1_000);
                sent.push((payload.to_vec(), last));
            });
            let lasts = sent.iter().filter(|it| it.1).count();
            prop_assert!(lasts == 1 && sent.last().is_some_and(|it| it.1));
            let payloads: Vec<&[u8]> = sent.iter().map(|it| &it.0[..]).collect();
            prop_assert_eq!(parts(codec, &payloads), (vec![(frame, None)], false));
        }

        #[test]
        fn any_payload_is_safe(
            payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..30)
        ) {
            for codec in [Media::Vp8, Media::Vp9] {
                let mut parts = VpxParts::new(codec, Map::Auto);
                let mut units = Vec::new();
                for payload in &payloads {
                    shows_vp8(payload);
                    shows_vp9(payload);
                    parts.begins_picture(payload);
                    parts.push(payload, &mut units);
                }
                parts.end_unit(&mut units);
            }
        }
    }
}
