use layercast_core::{FrameRate, Layer};

use super::header::State;
use super::obu::{DELIMITER, is_whole, kind, obus};
use crate::Picture;
use crate::map::{Map, Split, by_temporal};
use crate::sets::MAX_SET;

/// What a temporal unit is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Unit {
    /// A receiver can start here: it has a key frame that is shown, and a sequence header came.
    pub is_start: bool,
    /// Others may refer to a frame of it, or that is not known.
    pub is_reference: bool,
    /// Its temporal layer, if its OBUs name one.
    pub temporal: Option<u8>,
    /// It brings a sequence header.
    has_sequence: bool,
}

impl Unit {
    /// Reads a temporal unit; `None` if it has no frame, or is cut.
    pub fn read(data: &[u8], state: &mut State) -> Option<Unit> {
        let mut unit = Unit {
            is_start: false,
            is_reference: false,
            temporal: None,
            has_sequence: false,
        };
        let mut has_frame = false;
        if !is_whole(data) {
            return None;
        }
        for obu in obus(data) {
            unit.has_sequence |= obu.kind == kind::SEQUENCE;
            let read = state.take(&obu);
            if !matches!(obu.kind, kind::FRAME | kind::FRAME_HEADER) {
                continue;
            }
            has_frame = true;
            unit.is_start |= read.is_some_and(|it| it.is_start);
            unit.is_reference |= read.is_none_or(|it| it.fills != 0);
            // All are of one layer (7.5); a stream that breaks that is cut by the lowest.
            unit.temporal = match (unit.temporal, obu.ids) {
                (Some(known), Some((temporal, _))) => Some(known.min(temporal)),
                (known, ids) => known.or(ids.map(|(temporal, _)| temporal)),
            };
        }
        has_frame.then_some(unit)
    }

    /// How it is coded, as its headers show.
    pub fn picture(self) -> Picture {
        match self.is_reference {
            _ if self.is_start => Picture::I,
            true => Picture::P,
            false => Picture::B,
        }
    }

    /// The unit with a temporal delimiter in front, sizes in all OBUs, and at a start the last sequence header if it brings
    /// none of its own.
    pub fn completed(self, data: &[u8], sequence: &[u8]) -> Vec<u8> {
        let mut out = DELIMITER.to_vec();
        if self.is_start && !self.has_sequence {
            out.extend_from_slice(sequence);
        }
        let kept = |it: &super::obu::Obu| !matches!(it.kind, kind::DELIMITER | kind::PADDING);
        obus(data).filter(kept).for_each(|it| it.write(&mut out));
        out
    }
}

/// The last sequence header of a temporal unit, as it is put into another.
pub(crate) fn sequence_of(data: &[u8]) -> Option<Vec<u8>> {
    let is_believed =
        |it: &super::obu::Obu| it.kind == kind::SEQUENCE && it.payload.len() <= MAX_SET;
    let sequence = obus(data).filter(is_believed).last()?;
    let mut out = Vec::new();
    sequence.write(&mut out);
    Some(out)
}

/// Gives temporal units their layers.
///
/// A frame refers to frames of its temporal layer and of lower ones (6.4.1, `operating_point_idc`): the highest two are E2 and
/// E1, all below BL. Where there are none, a unit of which no frame fills a place for references is one that others do not
/// refer to: a decoder keeps nothing of it, neither samples nor probabilities.
#[derive(Debug)]
pub(crate) struct Layers {
    map: Map,
    rate: FrameRate,
    top: u8,
    split: Split,
}

impl Layers {
    /// Of a stream at this rate, whose highest temporal layer is `top`.
    pub fn new(map: Map, rate: FrameRate, top: u8) -> Layers {
        Layers {
            map,
            rate,
            top,
            split: Split::default(),
        }
    }

    /// The highest temporal layer is this or a higher one.
    pub fn rise(&mut self, top: u8) {
        self.top = self.top.max(top);
    }

    /// Whether frames have temporal layers.
    pub fn are_temporal(&self) -> bool {
        self.top > 0
    }

    /// The layer that carries a unit, which is the next one in decoding order.
    pub fn layer(&mut self, unit: Unit) -> Layer {
        if unit.is_start {
            self.split.reference();
            return Layer::Base;
        }
        match self.map {
            Map::Ipb if unit.is_reference => Layer::E1,
            Map::Ipb => Layer::E2,
            Map::Temporal => by_temporal(unit.temporal.unwrap_or(0), self.top),
            Map::Auto if self.top > 0 => by_temporal(unit.temporal.unwrap_or(0), self.top),
            _ if unit.is_reference => {
                self.split.reference();
                Layer::Base
            }
            _ => self.split.droppable(Some(self.rate), true),
        }
    }
}
