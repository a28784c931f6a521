use bytes::Bytes;
use layercast_core::{Layer, Media};

use super::layers::{Layers, Unit};
use super::nal;
use super::params::ParameterSets;
use crate::h264::annexb::{frames, nals, put};
use crate::h264::stream::MAX_UNIT;
use crate::map::{DEFAULT_RATE, Map};
use crate::mpeg::es::Stream;
use crate::sets::no_frame;
use crate::{Frame, MediaError};

/// A whole access unit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct AccessUnit {
    /// In Annex B form. A unit to start at carries its parameter sets.
    pub data: Vec<u8>,
    pub unit: Unit,
    pub layer: Layer,
    /// A receiver can start here: it is a random access picture, and the parameter sets are there.
    pub gop_start: bool,
}

/// Cuts a stream of NAL units into access units (7.4.2.4.4).
#[derive(Default, Debug)]
pub(crate) struct Cutter {
    pub layers: Layers,
    pub sets: ParameterSets,
    /// What came so far of the unit being read, and whether its first slice segment came.
    data: Vec<u8>,
    has_first: bool,
    /// NAL units that stand before the first slice segment of the next unit, with start codes.
    held: Vec<u8>,
    /// Slice segments of pictures that could not be given since parameter sets are missing.
    pub unread: u64,
    /// Units given up because they are longer than any frame may be.
    pub too_long: u64,
}

impl Cutter {
    /// Takes a NAL unit without its start code; gives the unit before it, if it begins a new one.
    pub fn push(&mut self, unit: &[u8]) -> Option<AccessUnit> {
        let (kind, extension) = nal::head(unit)?;
        if self.data.len() + self.held.len() + unit.len() > MAX_UNIT {
            self.too_long += 1;
            self.clear();
            return None;
        }
        match kind {
            0..=nal::LAST_PICTURE if extension == 0 => self.slice(unit),
            nal::VPS..=nal::PPS if extension == 0 => {
                self.sets.take(unit);
                put(unit, true, &mut self.held);
                None
            }
            // A delimiter stands only at the beginning.
            nal::DELIMITER if extension == 0 => {
                if self.held.is_empty() {
                    put(unit, true, &mut self.held);
                }
                None
            }
            // SEI before the picture, and what is reserved or not specified there.
            nal::PREFIX_SEI | 41..=44 | 48..=55 => {
                put(unit, self.held.is_empty(), &mut self.held);
                None
            }
            // Filler, the end of a sequence, SEI behind the picture, and extensions go with what is before them.
            _ => {
                match (self.held.is_empty(), self.data.is_empty()) {
                    (false, _) if !matches!(kind, nal::END_OF_SEQUENCE | nal::END_OF_STREAM) => {
                        put(unit, false, &mut self.held);
                    }
                    (_, false) => put(unit, false, &mut self.data),
                    // Nothing is known of what it belongs to.
                    _ => {}
                }
                None
            }
        }
    }

    fn slice(&mut self, unit: &[u8]) -> Option<AccessUnit> {
        let is_first = unit.get(2).is_some_and(|byte| byte & 0x80 != 0);
        let done = match is_first {
            true => self.finish(),
            false => None,
        };
        if !is_first && !self.has_first {
            // The beginning of its picture is missing.
            self.held.clear();
            return done;
        }
        self.has_first = true;
        self.data.append(&mut self.held);
        put(unit, self.data.is_empty(), &mut self.data);
        done
    }

    /// Returns the unit being read, if it has a picture; units that stand before the next one are kept.
    pub fn finish(&mut self) -> Option<AccessUnit> {
        self.has_first = false;
        let data = std::mem::take(&mut self.data);
        let unit = Unit::read(&data)?;
        if self.layers.rate.is_none() {
            let format = self.sets.format();
            self.layers.rate = format.map(|it| it.rate.unwrap_or(DEFAULT_RATE));
        }
        let layer = self.layers.layer(unit);
        let gop_start = unit.is_start() && self.sets.are_complete();
        self.unread += u64::from(!self.sets.are_complete());
        let mut unit = AccessUnit {
            data,
            unit,
            layer,
            gop_start,
        };
        if gop_start && !unit.unit.brings_sets() {
            self.complete(&mut unit.data);
        }
        Some(unit)
    }

    /// Puts the parameter sets into a unit that receivers start at.
    fn complete(&self, data: &mut Vec<u8>) {
        let mut headers = Vec::new();
        for set in self.sets.all() {
            put(set, true, &mut headers);
        }
        let first = nals(data).next();
        let at = match first {
            Some((at, unit)) if nal::head(unit) == Some((nal::DELIMITER, 0)) => at + unit.len(),
            _ => 0,
        };
        data.splice(at..at, headers);
    }

    /// Forgets the unit being read: a part of it is missing.
    pub fn clear(&mut self) {
        self.data.clear();
        self.held.clear();
        self.has_first = false;
    }
}

impl AccessUnit {
    /// The unit as a frame.
    pub fn into_frame(self) -> Frame {
        Frame {
            layer: self.layer,
            gop_start: self.gop_start,
            ..Frame::new(self.unit.picture(), Bytes::from(self.data))
        }
    }
}

/// Cuts an Annex B byte stream into frames, with layers as `map` says. Starts at the first unit that a receiver can start
/// at.
pub(crate) fn parse(data: &[u8], map: Map) -> Result<Stream, MediaError> {
    let mut cutter = Cutter::default();
    cutter.layers.map = map;
    let frames = frames(data, |nal| {
        let unit = match nal {
            Some(nal) => cutter.push(nal),
            None => cutter.finish(),
        };
        unit.map(AccessUnit::into_frame)
    });
    let format = cutter.sets.format().filter(|_| !frames.is_empty());
    let Some(format) = format else {
        let sets = &cutter.sets;
        let unread = (cutter.unread, sets.unread());
        let expected = match sets.are_complete() {
            false => "a video, a sequence and a picture parameter set",
            true => "a random access picture (IDR, CRA or BLA)",
        };
        return Err(no_frame(
            "H.265",
            data.len(),
            sets.are_complete(),
            unread,
            expected,
        ));
    };
    if map == Map::Temporal && !cutter.layers.has_temporal_layers() {
        let problem = map.misfit("this H.265 stream");
        return Err(MediaError::Unusable { problem });
    }
    Ok(Stream {
        codec: Media::H265,
        width: format.width,
        height: format.height,
        frame_rate: format.rate.unwrap_or(DEFAULT_RATE),
        frames,
        truncated: None,
    })
}
