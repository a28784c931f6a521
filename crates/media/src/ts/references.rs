//! Which pictures of a received transport stream can be decoded.

use layercast_core::{Composition, Layer, PerLayer};

use super::codec::VideoCodec;
use super::packet::{Packet, TS_PACKET};
use super::pes::PesHeader;
use super::psi::ProgramMap;
use super::tables::video;
use crate::h264::{self, Inspector, UnitInfo, nals};
use crate::mpeg::unit::AccessUnit;
use crate::{Picture, h265};

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

/// The pictures of MPEG-1/2 video that others refer to.
#[derive(Default, Debug)]
struct Anchors {
    /// Temporal references of the last anchor and, in the same GOP, of the one before it.
    last: Option<u16>,
    before: Option<u16>,
    /// An anchor is missing since the last I picture.
    broken: bool,
    /// B pictures before the last I picture in display order can be decoded.
    leading: bool,
    /// There are P pictures, so that E1 has anchors.
    has_p: bool,
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
            unit: Vec::new(),
        })
    }

    /// Whether these are the pictures of this program still.
    pub fn are_of(&self, map: &ProgramMap) -> bool {
        video(map) == Some((self.codec, self.pid))
    }

    /// Whether a decoder has what the picture in a frame refers to; true of frames without a picture, and of pictures
    /// whose references are not known. The frame is of `layer`; `starts`: receivers can start here; `missing`: frames that
    /// are missing before it.
    pub fn take(
        &mut self,
        packets: &[[u8; TS_PACKET]],
        layer: Layer,
        starts: bool,
        missing: PerLayer<u32>,
    ) -> bool {
        for (of, count) in missing.iter() {
            self.missing[of] = self.missing[of].saturating_add(*count);
        }
        if matches!(self.rule, Rule::Unknown) || !self.read(packets) {
            return true;
        }
        if !self.composition.is_additive() && !self.goes_on_with(layer, starts) {
            return false;
        }
        let (missing, begun) = (self.missing, self.begun);
        let gap_in_e1 = missing.e1 > 0;
        let judged = match &mut self.rule {
            Rule::H264(it) => {
                let (inspector, references) = &mut **it;
                let mut info = UnitInfo::default();
                for (_, nal) in nals(&self.unit) {
                    inspector.look(nal, &mut info);
                }
                let starts = starts && info.gop_start();
                let count = missing.base.saturating_add(missing.e1);
                let slice = info.first.take();
                slice.map(|slice| match (begun, starts) {
                    (true, _) => references.take(&slice, starts, count),
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
        // A frame without a picture header continues the last picture.
        self.decodable
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
        // Each of them may be one that others refer to.
        self.missing = PerLayer {
            e1: self.missing[layer],
            ..PerLayer::default()
        };
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

impl Anchors {
    /// Whether a picture can be decoded.
    fn take(&mut self, unit: &AccessUnit, gap_in_e1: bool) -> bool {
        let reference = unit.picture.temporal_reference;
        // Reference pictures count up to the next GOP, modulo 1024.
        let is_after =
            |last: u16| (reference.wrapping_sub(last) & 1_023) < 512 && reference != last;
        match unit.picture.kind {
            Picture::I => {
                let closed = unit.gop.is_some_and(|gop| gop.closed);
                let was_whole = self.last.is_some() && !self.broken && !(gap_in_e1 && self.has_p);
                self.leading = closed || was_whole;
                self.broken = false;
                self.before = None;
                self.last = Some(reference);
                true
            }
            Picture::P => {
                self.has_p = true;
                let is_second_field = self.last == Some(reference);
                let is_next = self.last.is_some_and(is_after);
                self.broken |= gap_in_e1 || !(is_next || is_second_field);
                if !is_second_field {
                    self.before = self.last.replace(reference);
                }
                !self.broken
            }
            Picture::B | Picture::Data => {
                self.broken |= gap_in_e1 && self.has_p;
                // Of an anchor that is missing, with the pictures that precede it in display order.
                let is_ahead = self.last.is_none_or(is_after);
                let is_behind = self.before.is_some_and(|before| !is_after(before));
                let can_lead = self.before.is_some() || self.leading;
                !self.broken && !is_ahead && !is_behind && can_lead
            }
        }
    }
}
