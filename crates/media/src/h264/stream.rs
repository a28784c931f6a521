use bytes::Bytes;
use layercast_core::{Layer, Media};

use super::annexb::{frames, nals, put};
use super::layers::{Inspector, Part, UnitInfo};
use super::nal;
use crate::map::{DEFAULT_RATE, Map};
use crate::mpeg::es::Stream;
use crate::sets::{MAX_BYTES as MAX_SETS_BYTES, no_frame};
use crate::{Frame, MediaError};

/// Longest access unit: what a METS frame holds, with room for parameter sets and start codes.
pub(crate) const MAX_UNIT: usize = (1 << 24) - MAX_SETS_BYTES - 64;

/// A whole access unit, both fields of a frame in one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Unit {
    /// In Annex B form. A unit to start at carries its parameter sets.
    pub data: Vec<u8>,
    pub info: UnitInfo,
    pub layer: Layer,
}

/// Cuts a stream of NAL units into access units by their own syntax (7.4.1.2.4).
#[derive(Default, Debug)]
pub(crate) struct Cutter {
    pub inspector: Inspector,
    /// What came so far of the unit being read.
    data: Vec<u8>,
    info: UnitInfo,
    /// NAL units before a slice that is to say to which unit they belong, with start codes; before them
    /// a delimiter.
    held: Vec<u8>,
    delimiter: Vec<u8>,
    held_info: UnitInfo,
    /// Units given up because they are longer than any frame may be.
    pub too_long: u64,
}

impl Cutter {
    /// Takes a NAL unit without its start code; gives the unit before it, if it begins a new one.
    ///
    /// Of several delimiters before a slice the first is kept, and of those inside a picture none: a
    /// delimiter stands only at the beginning of an access unit.
    pub fn push(&mut self, unit: &[u8]) -> Option<Unit> {
        let len = self.data.len() + self.held.len() + self.delimiter.len();
        if len + unit.len() > MAX_UNIT {
            self.too_long += 1;
            self.clear();
            return None;
        }
        let part = self.inspector.part(unit);
        let holds = !self.held.is_empty() || !self.delimiter.is_empty();
        match &part {
            Part::Slice(slice) => {
                let done = match self.info.continues_with(slice) {
                    true => None,
                    false => self.finish(),
                };
                if self.data.is_empty() {
                    self.info = std::mem::take(&mut self.held_info);
                    std::mem::swap(&mut self.data, &mut self.delimiter);
                } else {
                    self.held_info = UnitInfo::default();
                }
                self.delimiter.clear();
                self.data.append(&mut self.held);
                self.inspector.add(unit, part, &mut self.info);
                put(unit, self.data.is_empty(), &mut self.data);
                return done;
            }
            Part::Delimiter => {
                if !holds {
                    put(unit, true, &mut self.delimiter);
                }
            }
            Part::Filler if holds => put(unit, false, &mut self.held),
            Part::Front => {
                let set = matches!(nal::kind(unit), nal::SPS | nal::PPS);
                put(unit, set || !holds, &mut self.held);
            }
            Part::Filler | Part::Rest | Part::End if !self.data.is_empty() => {
                put(unit, false, &mut self.data);
            }
            // Nothing is known of what it belongs to.
            Part::Filler | Part::Rest | Part::End => {}
            // What stood before it belonged to it.
            Part::Unread => {
                self.held.clear();
                self.delimiter.clear();
                self.held_info = UnitInfo::default();
            }
        }
        self.inspector.add(unit, part, &mut self.held_info);
        None
    }

    /// Returns the unit being read, if it has a slice; units before the slice are kept.
    pub fn finish(&mut self) -> Option<Unit> {
        if self.data.is_empty() {
            return None;
        }
        let (data, info) = (
            std::mem::take(&mut self.data),
            std::mem::take(&mut self.info),
        );
        let layer = self.inspector.layer(&info);
        Some(self.inspector.completed(Unit { data, info, layer }))
    }

    /// Forgets the unit being read: a part of it is missing.
    pub fn clear(&mut self) {
        self.data.clear();
        self.held.clear();
        self.delimiter.clear();
        self.info = UnitInfo::default();
        self.held_info = UnitInfo::default();
    }
}

impl Inspector {
    /// Puts the parameter sets before a unit that receivers start at, if it does not bring its own.
    pub fn completed(&self, mut unit: Unit) -> Unit {
        if let Some(headers) = self.headers(&unit.info) {
            let at = behind_delimiter(&unit.data);
            unit.data.splice(at..at, headers);
        }
        unit
    }
}

/// Where parameter sets can be put into an access unit: behind its delimiter, if it begins with one.
pub(crate) fn behind_delimiter(unit: &[u8]) -> usize {
    let mut nals = nals(unit);
    match nals.next() {
        Some((at, nal)) if nal::kind(nal) == nal::DELIMITER => at + nal.len(),
        _ => 0,
    }
}

impl Unit {
    /// The unit as a frame.
    pub fn into_frame(self) -> Frame {
        Frame {
            layer: self.layer,
            gop_start: self.info.gop_start(),
            ..Frame::new(self.info.picture(), Bytes::from(self.data))
        }
    }
}

/// Cuts an Annex B byte stream into frames, with layers as `map` says. Starts at the first unit that a receiver can start
/// at.
pub(crate) fn parse(data: &[u8], map: Map) -> Result<Stream, MediaError> {
    let mut cutter = Cutter::default();
    cutter.inspector.map = map;
    let frames = frames(data, |nal| {
        let unit = match nal {
            Some(nal) => cutter.push(nal),
            None => cutter.finish(),
        };
        unit.map(Unit::into_frame)
    });
    let inspector = &cutter.inspector;
    let format = inspector.sets.format().filter(|_| !frames.is_empty());
    let Some(format) = format else {
        let sets = &inspector.sets;
        let unread = (inspector.unread(), sets.unread());
        let expected = match sets.are_complete() {
            false => "a sequence parameter set",
            true => "an IDR picture, or an I picture with a recovery point",
        };
        return Err(no_frame(
            "H.264",
            data.len(),
            sets.are_complete(),
            unread,
            expected,
        ));
    };
    if map == Map::Temporal && !inspector.has_temporal_layers() {
        let problem = map.misfit("this H.264 stream");
        return Err(MediaError::Unusable { problem });
    }
    Ok(Stream {
        codec: Media::H264,
        width: format.width,
        height: format.height,
        frame_rate: format.frame_rate.unwrap_or(DEFAULT_RATE),
        frames,
        truncated: None,
    })
}
