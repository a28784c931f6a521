//! Frames of AV1, VP8 and VP9 as they come one by one: from the packets of RTP, or from a pipe.

use bytes::Bytes;
use layercast_core::{Media, Serial};

use crate::map::{DEFAULT_RATE, Map};
use crate::vpx::{self, Unit};
use crate::{Frame, av1, vp9};

/// Longest frame: what a METS frame holds, with room for headers that are put into it.
pub(crate) const MAX_FRAME: usize = (1 << 24) - 4_096;

/// Gives the frames of a stream their layers as they come, and leaves out what cannot be decoded.
///
/// Frames do not say to which ones they refer. So it begins at a frame that receivers can start at, and after a loss again.
#[derive(Debug)]
pub(crate) struct BareFrames {
    codec: Media,
    map: Map,
    state: av1::State,
    /// The last sequence header of AV1.
    sequence: Vec<u8>,
    av1: av1::Layers,
    vpx: vpx::Layers,
    vp9: vp9::References,
    /// Frames of VP8 or VP9 came with the numbers of their temporal layers.
    has_ids: bool,
    last: Option<Serial>,
    /// Whether what is to come refers to nothing that is missing.
    is_whole: bool,
    /// The first frame whose place makes it one of the highest layer though others refer to it.
    misplaced: Option<usize>,
    /// Frames that were left out since they, or what they refer to, are damaged or missing.
    pub incomplete: u64,
}

impl BareFrames {
    /// For AV1, VP8 or VP9, with layers as `map` says.
    pub fn new(codec: Media, map: Map) -> BareFrames {
        let mut vpx = vpx::Layers::default();
        vpx.map = map;
        BareFrames {
            codec,
            map,
            state: av1::State::default(),
            sequence: Vec::new(),
            av1: av1::Layers::new(map, DEFAULT_RATE, 0),
            vpx,
            vp9: vp9::References::default(),
            has_ids: false,
            last: None,
            is_whole: false,
            misplaced: None,
            incomplete: 0,
        }
    }

    /// What it reads.
    pub fn codec(&self) -> Media {
        self.codec
    }

    /// Something is missing before the next frame.
    pub fn lose(&mut self) {
        self.is_whole = false;
    }

    /// The frame with the number `seq` of those that came or may be missing, and the temporal layer that its container names.
    /// `None` if it cannot be decoded, or before the first that can.
    pub fn frame(&mut self, data: &[u8], seq: Serial, temporal: Option<u8>) -> Option<Frame> {
        let is_next = self.last.is_none_or(|last| seq == last.plus(1));
        let has_begun = self.last.is_some();
        self.is_whole &= is_next;
        let frame = match data.len() <= MAX_FRAME {
            true => self.read(data, temporal),
            false => None,
        };
        let Some(frame) = frame.filter(|it| self.is_whole || it.gop_start) else {
            // Until the first start nothing is missing.
            if has_begun {
                self.incomplete += 1;
                self.last = Some(seq);
            }
            self.is_whole = false;
            return None;
        };
        self.is_whole = true;
        self.last = Some(seq);
        Some(frame)
    }

    fn read(&mut self, data: &[u8], temporal: Option<u8>) -> Option<Frame> {
        if self.codec == Media::Av1 {
            return self.av1(data);
        }
        let is_vp9 = self.codec == Media::Vp9;
        let unit = match is_vp9 {
            true => Unit::vp9(data).filter(|_| self.vp9.has_parts(data))?,
            false => Unit::vp8(data)?,
        };
        self.has_ids |= temporal.is_some();
        let by_id = matches!(self.map, Map::Auto | Map::Temporal);
        let by_place = self.vpx.layer(unit, is_vp9);
        let layer = match (temporal.filter(|_| by_id && !unit.is_start), by_place) {
            (Some(temporal), _) => vpx::by_id(temporal),
            (None, Ok(layer)) => layer,
            (None, Err(place)) => {
                self.misplaced.get_or_insert(place);
                layercast_core::Layer::Base
            }
        };
        Some(Frame {
            layer,
            gop_start: unit.is_start,
            ..Frame::new(unit.picture(), Bytes::copy_from_slice(data))
        })
    }

    fn av1(&mut self, data: &[u8]) -> Option<Frame> {
        let unit = av1::Unit::read(data, &mut self.state)?;
        if let Some(sequence) = av1::sequence_of(data) {
            self.sequence = sequence;
        }
        let format = self.state.sequence.as_ref()?;
        let declared = format.temporal_layers.map_or(0, |layers| layers - 1);
        self.av1.rise(declared.max(unit.temporal.unwrap_or(0)));
        Some(Frame {
            layer: self.av1.layer(unit),
            gop_start: unit.is_start,
            ..Frame::new(
                unit.picture(),
                Bytes::from(unit.completed(data, &self.sequence)),
            )
        })
    }

    /// Why the map does not fit what came.
    pub fn misfit(&self) -> Option<String> {
        let name = self.codec.name();
        if let Some(place) = self.misplaced {
            return Some(vpx::misplaced(self.map, place));
        }
        let fits = match self.map {
            Map::Auto | Map::Ipb => true,
            Map::Split => self.codec == Media::Av1,
            Map::Temporal if self.codec == Media::Av1 => self.av1.are_temporal(),
            Map::Temporal => self.has_ids,
            Map::Vp8Ts3 => self.codec == Media::Vp8,
            Map::Vp9Ts3 => self.codec == Media::Vp9,
        };
        (!fits).then(|| self.map.misfit(name))
    }
}

#[cfg(test)]
mod tests {
    use layercast_core::Layer;
    use proptest::prelude::*;

    use super::*;

    const KEY: [u8; 10] = [0x10, 0, 0, 0x9D, 0x01, 0x2A, 176, 0, 144, 0];
    const INTER: [u8; 3] = [0x11, 0, 0];

    #[test]
    fn after_a_loss_it_begins_again_at_a_key_frame() {
        let mut frames = BareFrames::new(Media::Vp8, Map::Auto);
        let mut take = |seq: u32, data: &[u8], temporal| {
            frames
                .frame(data, Serial(seq), temporal)
                .map(|it| (it.layer, it.gop_start))
        };
        assert_eq!(take(0, &INTER, None), None);
        assert_eq!(take(1, &KEY, Some(0)), Some((Layer::Base, true)));
        assert_eq!(take(2, &INTER, Some(2)), Some((Layer::E2, false)));
        assert_eq!(take(3, &INTER, Some(1)), Some((Layer::E1, false)));
        assert_eq!(take(5, &INTER, Some(0)), None);
        assert_eq!(take(6, &INTER, Some(0)), None);
        assert_eq!(take(7, &KEY, None), Some((Layer::Base, true)));
        // What cannot be read may be one that others refer to. Nor can a frame that ends within its header: 4 octets of 5 follow.
        assert_eq!(take(8, &[], None), None);
        assert_eq!(take(9, &INTER, None), None);
        assert_eq!(take(10, &KEY, None), Some((Layer::Base, true)));
        assert_eq!(take(11, &[0xB1, 0, 0, 1, 2, 3, 4], None), None);
        assert_eq!(take(12, &INTER, None), None);
        assert_eq!(frames.incomplete, 6);
        assert_eq!(frames.misfit(), None);
        let temporal = BareFrames::new(Media::Vp8, Map::Temporal).misfit();
        assert!(temporal.is_some_and(|it| it.contains("temporal layers")));
        assert!(BareFrames::new(Media::Vp9, Map::Vp8Ts3).misfit().is_some());
    }

    proptest! {
        #[test]
        fn any_bytes_are_safe(all in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 1..20)) {
            for codec in [Media::Av1, Media::Vp8, Media::Vp9] {
                let mut frames = BareFrames::new(codec, Map::Auto);
                for (seq, data) in all.iter().enumerate() {
                    frames.frame(data, Serial(seq as u32), data.first().copied());
                }
                frames.misfit();
            }
        }
    }
}
