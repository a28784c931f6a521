use bytes::Bytes;
use layercast_core::{FrameRate, Media};

use super::annexb::{nals, put};
use super::layers::{Inspector, Part, UnitInfo};
use super::nal;
use crate::mpeg::es::Stream;
use crate::{Frame, MediaError};

/// Frames per second of a stream that names none.
const DEFAULT_RATE: FrameRate = FrameRate { num: 25, den: 1 };
/// Longest access unit: what a METS frame holds.
const MAX_UNIT: usize = (1 << 24) - 1;

/// A whole access unit, both fields of a frame in one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Unit {
    /// In Annex B form. A unit to start at carries its parameter sets.
    pub data: Vec<u8>,
    pub info: UnitInfo,
}

/// Cuts a stream of NAL units into access units.
#[derive(Default, Debug)]
pub(crate) struct Cutter {
    pub inspector: Inspector,
    /// What came so far of the unit being read.
    data: Vec<u8>,
    info: UnitInfo,
    /// NAL units before a slice that is to say to which unit they belong, with start codes.
    held: Vec<u8>,
    held_info: UnitInfo,
    /// Units given up because they are longer than any frame may be.
    pub too_long: u64,
}

impl Cutter {
    /// Takes a NAL unit without its start code; gives the unit before it, if it begins a new one.
    pub fn push(&mut self, unit: &[u8]) -> Option<Unit> {
        if self.data.len() + self.held.len() + unit.len() > MAX_UNIT {
            self.too_long += 1;
            self.clear();
            return None;
        }
        match self.inspector.part(unit) {
            Part::Slice(slice) => {
                let continues = self
                    .info
                    .first
                    .as_ref()
                    .is_some_and(|first| slice.same_picture(first) || slice.pairs_with(first));
                let done = match continues {
                    true => None,
                    false => self.finish(),
                };
                if self.data.is_empty() {
                    self.info = std::mem::take(&mut self.held_info);
                    std::mem::swap(&mut self.data, &mut self.held);
                } else {
                    self.held_info = UnitInfo::default();
                    self.data.append(&mut self.held);
                }
                self.inspector.look(unit, &mut self.info);
                put(unit, self.data.is_empty(), &mut self.data);
                done
            }
            Part::Front => {
                self.inspector.look(unit, &mut self.held_info);
                let set = matches!(nal::kind(unit), nal::SPS | nal::PPS);
                put(unit, set || self.held.is_empty(), &mut self.held);
                None
            }
            Part::Rest | Part::End if !self.data.is_empty() => {
                put(unit, false, &mut self.data);
                None
            }
            // Nothing is known of what it belongs to.
            Part::Rest | Part::End => None,
        }
    }

    /// Gives the unit being read, if it has a slice; what stands before a slice is kept.
    pub fn finish(&mut self) -> Option<Unit> {
        if self.data.is_empty() {
            return None;
        }
        let (data, info) = (
            std::mem::take(&mut self.data),
            std::mem::take(&mut self.info),
        );
        Some(self.inspector.completed(Unit { data, info }))
    }

    /// Forgets the unit being read: a part of it is missing.
    pub fn clear(&mut self) {
        self.data.clear();
        self.held.clear();
        self.info = UnitInfo::default();
        self.held_info = UnitInfo::default();
    }
}

impl Inspector {
    /// Puts the parameter sets before a unit that receivers start at, if it does not bring its own.
    pub fn completed(&self, mut unit: Unit) -> Unit {
        if !unit.info.gop_start() || unit.info.has_sps {
            return unit;
        }
        let mut data = Vec::with_capacity(unit.data.len() + 128);
        let mut sets = Some(self.sets.all());
        for (_, nal) in nals(&unit.data) {
            // An access unit delimiter stays first.
            if nal::kind(nal) != nal::DELIMITER {
                for set in sets.take().into_iter().flatten() {
                    put(set, true, &mut data);
                }
            }
            put(nal, data.is_empty(), &mut data);
        }
        unit.data = data;
        unit
    }
}

impl Unit {
    /// The unit as a frame.
    pub fn into_frame(self) -> Frame {
        Frame {
            layer: self.info.layer(),
            gop_start: self.info.gop_start(),
            ..Frame::new(self.info.picture(), Bytes::from(self.data))
        }
    }
}

/// Cuts an Annex B byte stream into frames. Starts at the first unit that a receiver can start at.
pub(crate) fn parse(data: &[u8]) -> Result<Stream, MediaError> {
    let mut cutter = Cutter::default();
    let mut frames = Vec::new();
    let mut add = |unit: Unit| {
        if !frames.is_empty() || unit.info.gop_start() {
            frames.push(unit.into_frame());
        }
    };
    for (_, nal) in nals(data) {
        if let Some(unit) = cutter.push(nal) {
            add(unit);
        }
    }
    if let Some(unit) = cutter.finish() {
        add(unit);
    }
    let Some(format) = cutter.inspector.sets.format() else {
        return Err(MediaError::Truncated {
            offset: data.len() as u64,
            expected: "a sequence parameter set",
        });
    };
    if frames.is_empty() {
        return Err(MediaError::Truncated {
            offset: data.len() as u64,
            expected: "an IDR picture with its parameter sets",
        });
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
