//! Which pictures of a received transport stream can be decoded.

use layercast_core::{Composition, Layer, PerLayer};

use super::codec::VideoCodec;
use super::packet::{Packet, TS_PACKET};
use super::pes::PesHeader;
use super::psi::ProgramMap;
use super::tables::video;
use crate::h264::{self, Inspector, UnitInfo, nals};
use crate::h265;
use crate::mpeg::anchors::Anchors;
use crate::mpeg::unit::AccessUnit;

/// Follows the references between the pictures of the video of a program.
#[derive(Debug)]
pub(super) struct References {
    codec: VideoCodec,
    pid: u16,
    rule: Rule,
    /// What the layers are to each other; of renditions, the one whose pictures come.
    composition: Composition,
    rendition: Layer,
    /// Frames that are missing before the next picture.
    missing: PerLayer<u32>,
    /// A picture to start at came.
    begun: bool,
    /// The last picture can be decoded.
    decodable: bool,
    /// Of pictures whose references are not known, one was damaged since the last start.
    torn: bool,
    /// The elementary stream of a frame.
    unit: Vec<u8>,
}

#[derive(Debug)]
enum Rule {
    H264(Box<(Inspector, h264::References)>),
    H265(Box<h265::References>),
    Mpeg(Anchors),
    /// Another codec: its references are not known.
    Unknown,
}

impl Rule {
    fn of(codec: VideoCodec) -> Rule {
        match codec {
            VideoCodec::H264 => Rule::H264(Box::default()),
            VideoCodec::H265 => Rule::H265(Box::default()),
            VideoCodec::Mpeg1 | VideoCodec::Mpeg2 => Rule::Mpeg(Anchors::default()),
            _ => Rule::Unknown,
        }
    }
}

impl References {
    /// The video of a program; nothing is known of its pictures so far.
    pub fn of(map: &ProgramMap, composition: Composition) -> Option<References> {
        let (codec, pid) = video(map)?;
        Some(References {
            codec,
            pid,
            rule: Rule::of(codec),
            composition,
            rendition: Layer::Base,
            missing: PerLayer::default(),
            begun: false,
            decodable: true,
            torn: false,
            unit: Vec::new(),
        })
    }

    /// Whether these are the pictures of this program still.
    pub fn are_of(&self, map: &ProgramMap) -> bool {
        video(map) == Some((self.codec, self.pid))
    }

    /// Whether a decoder has what the picture in a frame refers to; true of frames without a picture, and of pictures
    /// whose references are not known. The frame is of `layer`; `starts`: receivers can start here; `missing`: frames that
    /// are missing before it; `damaged`: so is something of it.
    pub fn take(
        &mut self,
        packets: &[[u8; TS_PACKET]],
        (layer, starts): (Layer, bool),
        missing: PerLayer<u32>,
        damaged: bool,
    ) -> bool {
        for (of, count) in missing.iter() {
            self.missing[of] = self.missing[of].saturating_add(*count);
        }
        if matches!(self.rule, Rule::Unknown) || !self.read(packets) {
            self.torn = !starts && (self.torn || damaged);
            return !self.torn || !self.has_video(packets);
        }
        if !self.composition.is_additive() && !self.goes_on_with(layer, starts) {
            return false;
        }
        let begun = self.begun;
        // Each missing picture of a rendition may be one that others refer to, or a start; those of other renditions are no loss.
        let missing = match self.composition.is_additive() {
            true => self.missing,
            false => PerLayer {
                base: self.missing[layer],
                ..PerLayer::default()
            },
        };
        let gap_in_e1 = missing.e1 > 0 || missing.base > 0 && !self.composition.is_additive();
        let mut is_reference = true;
        let judged = match &mut self.rule {
            Rule::H264(it) => {
                let (inspector, references) = &mut **it;
                let mut info = UnitInfo::default();
                for (_, nal) in nals(&self.unit) {
                    inspector.look(nal, &mut info);
                }
                let starts = starts && info.gop_start();
                let missing = h264::Missing {
                    all: missing.base.saturating_add(missing.e1),
                    base: missing.base,
                };
                let slice = info.first.take();
                is_reference = slice.as_ref().is_none_or(|it| it.reference);
                slice.map(|slice| match (begun, starts) {
                    (true, _) => references.take(&slice, starts, missing),
                    (false, true) => {
                        references.begin(&slice);
                        true
                    }
                    (false, false) => true,
                })
            }
            Rule::H265(references) => references.take(&self.unit).map(|it| it.decodable),
            Rule::Mpeg(anchors) => {
                let unit = AccessUnit::scan(&self.unit);
                unit.map(|unit| anchors.take(&unit, gap_in_e1))
            }
            Rule::Unknown => None,
        };
        if let Some(judged) = judged {
            self.decodable = judged;
            self.begun |= starts;
            self.missing = PerLayer::default();
        }
        if damaged {
            self.lose(is_reference);
        }
        // A frame without a picture header continues the last picture.
        self.decodable
    }

    /// The last picture is damaged, to which others refer if it `is_reference`, and with it there may be the rest of another one.
    fn lose(&mut self, is_reference: bool) {
        self.decodable = false;
        let of = match self.composition.is_additive() {
            true => Layer::Base,
            false => self.rendition,
        };
        self.missing[of] = self.missing[of].saturating_add(1);
        match &mut self.rule {
            // Numbers tell whether another one is missing.
            Rule::H264(_) if !is_reference => {}
            Rule::H264(it) => it.1.lose(),
            Rule::H265(references) => references.lose(),
            Rule::Mpeg(anchors) => anchors.lose(),
            Rule::Unknown => {}
        }
    }

    fn has_video(&self, packets: &[[u8; TS_PACKET]]) -> bool {
        let mut packets = packets.iter().filter_map(|it| Packet::new(it));
        packets.any(|it| it.pid() == self.pid)
    }

    /// Pictures of a rendition refer to no others: a change to another one is a start. `false`: pictures of another one come
    /// whose start is missing.
    fn goes_on_with(&mut self, layer: Layer, starts: bool) -> bool {
        if self.rendition != layer {
            if !starts {
                // Nothing of what was there before continues either.
                (self.begun, self.decodable) = (true, false);
                let own = &mut self.missing[self.rendition];
                *own = own.saturating_add(1);
                return false;
            }
            self.rendition = layer;
            self.rule = Rule::of(self.codec);
            (self.begun, self.missing) = (false, PerLayer::default());
        }
        true
    }

    /// Reads the elementary stream of the video in a frame; `false`: there is none that can be read.
    fn read(&mut self, packets: &[[u8; TS_PACKET]]) -> bool {
        self.unit.clear();
        for bytes in packets {
            let Some(packet) = Packet::new(bytes).filter(|it| it.pid() == self.pid) else {
                continue;
            };
            if packet.scrambled() {
                return false;
            }
            let payload = packet.payload();
            let header = match packet.starts() {
                true => PesHeader::parse(payload).map_or(0, |header| header.len),
                false => 0,
            };
            let stream = payload.get(header..).unwrap_or_default();
            self.unit.extend_from_slice(stream);
        }
        !self.unit.is_empty()
    }
}
