use layercast_core::{FrameRate, Layer};

use crate::h264::{Inspector, Slice, UnitInfo, behind_delimiter, nals};
use crate::mpeg::headers::{
    PICTURE_CODING_EXTENSION, PictureCoding, PictureHeader, SEQUENCE_EXTENSION,
    SEQUENCE_EXTENSION_LEN, Sequence, Structure, extension_id, sequence_header_len,
};
use crate::mpeg::startcode::{code, start_codes};
use crate::{Map, Picture, h265};

/// What an access unit in a container is to its layer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Coded {
    pub picture: Picture,
    pub layer: Layer,
    pub gop_start: bool,
    /// What a start needs and does not bring: parameter sets, or the sequence header.
    pub missing: Option<Missing>,
    /// Of a field: what its other half is known by.
    field: Option<FieldOf>,
}

/// Headers that have to be put into an access unit so that receivers can start at it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Missing {
    /// Where, in bytes of its elementary stream.
    pub at: usize,
    pub headers: Vec<u8>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum FieldOf {
    Mpeg { bottom: bool, reference: u16 },
    H264(Box<Slice>),
}

impl Coded {
    /// A unit of which the container says alone whether receivers can start at it.
    pub fn by_access(random_access: bool) -> Coded {
        let picture = match random_access {
            true => Picture::I,
            false => Picture::P,
        };
        Coded {
            picture,
            layer: picture.layer(),
            gop_start: random_access,
            missing: None,
            field: None,
        }
    }

    /// Whether this is the second field of the frame that `first` began.
    pub fn completes(&self, first: &Coded) -> bool {
        match (&self.field, &first.field) {
            (
                Some(FieldOf::Mpeg { bottom, reference }),
                Some(FieldOf::Mpeg {
                    bottom: other,
                    reference: same,
                }),
            ) => bottom != other && reference == same && !self.gop_start,
            (Some(FieldOf::H264(second)), Some(FieldOf::H264(first))) => second.pairs_with(first),
            _ => false,
        }
    }

    /// Both its fields are there.
    pub fn complete(&mut self) {
        self.field = None;
    }

    /// Whether its other field may follow.
    pub fn is_field(&self) -> bool {
        self.field.is_some()
    }
}

/// Reads access units of one video stream as far as their layer and format.
#[derive(Debug)]
pub(crate) enum VideoInspector {
    Mpeg(Box<MpegInspector>),
    H264(Box<Inspector>),
    H265(Box<h265::Layers>),
    /// Another codec: only random access is known.
    Other,
}

/// What has to be known of MPEG-1/2 video before an access unit.
#[derive(Default, Debug)]
pub(crate) struct MpegInspector {
    sequence: Option<Sequence>,
    /// The last sequence header and its sequence extension.
    header: Vec<u8>,
    /// A first field that waits for its second: whether it is the bottom one, and its temporal reference.
    first_field: Option<(bool, u16)>,
}

/// Stream types of a program map (table 2-34).
pub(crate) mod stream_type {
    pub const MPEG1: u8 = 0x01;
    pub const MPEG2: u8 = 0x02;
    pub const MPEG4: u8 = 0x10;
    pub const H264: u8 = 0x1B;
    pub const H265: u8 = 0x24;
    pub const H266: u8 = 0x33;
    pub const VC1: u8 = 0xEA;
}

impl VideoInspector {
    /// The inspector of H.264.
    pub fn h264(map: Map) -> VideoInspector {
        let mut inspector = Inspector::default();
        inspector.map = map;
        VideoInspector::H264(Box::new(inspector))
    }

    /// The inspector of H.265.
    pub fn h265(map: Map) -> VideoInspector {
        let mut layers = h265::Layers::default();
        layers.map = map;
        VideoInspector::H265(Box::new(layers))
    }

    /// The inspector of MPEG-1/2 video.
    pub fn mpeg() -> VideoInspector {
        VideoInspector::Mpeg(Box::default())
    }

    /// Size and rate, where known.
    pub fn format(&self) -> Option<(u32, u32, Option<FrameRate>)> {
        match self {
            VideoInspector::Mpeg(inspector) => inspector
                .sequence
                .map(|it| (it.width, it.height, Some(it.frame_rate))),
            VideoInspector::H264(inspector) => {
                let format = inspector.sets.format()?;
                Some((format.width, format.height, format.frame_rate))
            }
            VideoInspector::H265(layers) => {
                let (width, height) = layers.size?;
                Some((width, height, None))
            }
            VideoInspector::Other => None,
        }
    }

    /// The pictures per second that the container shows: what the map of H.265 goes by.
    pub fn set_rate(&mut self, rate: Option<FrameRate>) {
        if let VideoInspector::H265(layers) = self {
            layers.rate = rate;
        }
    }

    /// What the access unit is; `random_access` is what the container says of it. A unit that cannot
    /// be read is kept as base layer.
    pub fn read(&mut self, unit: &[u8], random_access: bool) -> Coded {
        match self {
            VideoInspector::Mpeg(inspector) => inspector.read(unit),
            VideoInspector::H264(inspector) => {
                let mut info = UnitInfo::default();
                for (_, nal) in nals(unit) {
                    inspector.look(nal, &mut info);
                }
                Coded {
                    picture: info.picture(),
                    layer: inspector.layer(&info),
                    gop_start: info.gop_start(),
                    missing: inspector.headers(&info).map(|headers| Missing {
                        at: behind_delimiter(unit),
                        headers,
                    }),
                    field: info
                        .first
                        .filter(|slice| slice.field.is_some())
                        .map(|slice| FieldOf::H264(Box::new(slice))),
                }
            }
            VideoInspector::H265(layers) => match h265::Unit::read(unit) {
                Some(read) => {
                    if read.has_sets() {
                        layers.size = h265::size_in(unit).or(layers.size);
                    }
                    Coded {
                        picture: read.picture(),
                        layer: layers.layer(read),
                        gop_start: read.is_start(),
                        missing: None,
                        field: None,
                    }
                }
                None => Coded::by_access(random_access),
            },
            VideoInspector::Other => Coded::by_access(random_access),
        }
    }

    /// Whether pictures name temporal layers; `None` of codecs that have none.
    pub fn has_temporal_layers(&self) -> Option<bool> {
        match self {
            VideoInspector::H264(inspector) => Some(inspector.has_temporal_layers()),
            VideoInspector::H265(layers) => Some(layers.has_temporal_layers()),
            VideoInspector::Mpeg(_) | VideoInspector::Other => None,
        }
    }
}

impl MpegInspector {
    fn read(&mut self, unit: &[u8]) -> Coded {
        let mut sequence: Option<(Sequence, Vec<u8>)> = None;
        let mut gop = false;
        let mut picture: Option<PictureHeader> = None;
        let mut structure = Structure::Frame;
        for (at, code) in start_codes(unit) {
            let header = &unit[at..];
            match code {
                code::SEQUENCE => {
                    let len = sequence_header_len(header).unwrap_or(header.len());
                    let read = Sequence::parse(header).ok();
                    sequence = read.map(|read| (read, header[..len].to_vec()));
                }
                code::GOP => gop = true,
                code::PICTURE if picture.is_none() => picture = PictureHeader::parse(header).ok(),
                code::EXTENSION => match (extension_id(header), &mut sequence) {
                    // An extension that cannot be read leaves the sequence what it was.
                    (Some(SEQUENCE_EXTENSION), Some((sequence, bytes))) => {
                        let read = !sequence.mpeg2 && sequence.extend(header).is_ok();
                        let len = if read { SEQUENCE_EXTENSION_LEN } else { 0 };
                        bytes.extend_from_slice(&header[..len]);
                    }
                    (Some(PICTURE_CODING_EXTENSION), _) => {
                        structure = PictureCoding::parse(header)
                            .map_or(Structure::Frame, |coding| coding.structure);
                    }
                    _ => {}
                },
                code::SLICE_FIRST..=code::SLICE_LAST => break,
                _ => {}
            }
        }
        let has_sequence = sequence.is_some();
        if let Some((sequence, header)) = sequence {
            (self.sequence, self.header) = (Some(sequence), header);
        }
        let kind = picture.map_or(Picture::Data, |picture| picture.kind);
        let field = picture
            .filter(|_| structure != Structure::Frame)
            .map(|picture| {
                (
                    structure == Structure::BottomField,
                    picture.temporal_reference,
                )
            });
        let first = self.first_field.take();
        let second = matches!((first, field), (Some((a, n)), Some((b, m))) if a != b && n == m)
            && !has_sequence
            && !gop;
        self.first_field = field.filter(|_| !second);
        let starts = kind == Picture::I && !second && self.sequence.is_some();
        Coded {
            picture: kind,
            layer: kind.layer(),
            gop_start: starts,
            missing: (starts && !has_sequence).then(|| Missing {
                at: 0,
                headers: self.header.clone(),
            }),
            field: field.map(|(bottom, reference)| FieldOf::Mpeg { bottom, reference }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::h264::nal;

    #[test]
    fn parameter_sets_in_a_unit_of_their_own_are_put_behind_the_delimiter_of_the_start() {
        let stream = include_bytes!("../../../../fuzz/corpus/h264/b");
        let of = |kinds: &[u8]| -> Vec<u8> {
            let mut unit = vec![0, 0, 0, 1, nal::DELIMITER, 0xF0];
            let mut taken = Vec::new();
            for (_, unit_nal) in nals(stream) {
                let kind = nal::kind(unit_nal);
                if kinds.contains(&kind) && !taken.contains(&kind) {
                    taken.push(kind);
                    unit.extend_from_slice(&[0, 0, 1]);
                    unit.extend_from_slice(unit_nal);
                }
            }
            unit
        };
        let mut inspector = VideoInspector::h264(Map::Auto);
        let start = of(&[nal::IDR]);
        assert!(
            !inspector.read(&start, true).gop_start,
            "nothing is known yet"
        );
        let sets = of(&[nal::SPS, nal::PPS]);
        let apart = inspector.read(&sets, false);
        assert_eq!((apart.picture, apart.gop_start), (Picture::Data, false));
        let coded = inspector.read(&start, false);
        assert!(coded.gop_start && coded.picture == Picture::I);
        let missing = coded.missing.expect("parameter sets");
        assert_eq!(missing.at, 6);
        let kinds: Vec<u8> = nals(&missing.headers)
            .map(|(_, it)| nal::kind(it))
            .collect();
        assert_eq!(kinds, [nal::SPS, nal::PPS]);
        let whole = of(&[nal::SPS, nal::PPS, nal::IDR]);
        assert_eq!(inspector.read(&whole, false).missing, None);
    }

    #[test]
    fn layers_show_before_the_first_parameter_sets() {
        let stream = include_bytes!("../../../../fuzz/corpus/h264/b");
        let units = |with_sets: bool| -> Vec<(Picture, Layer)> {
            let mut inspector = VideoInspector::h264(Map::Auto);
            let mut read = Vec::new();
            for (_, unit_nal) in nals(stream) {
                let is_set = matches!(nal::kind(unit_nal), nal::SPS | nal::PPS);
                if is_set && !with_sets {
                    continue;
                }
                let coded = inspector.read(&[&[0, 0, 1], unit_nal].concat(), false);
                if matches!(nal::kind(unit_nal), nal::SLICE | nal::IDR) {
                    assert!(with_sets || !coded.gop_start);
                    read.push((coded.picture, coded.layer));
                }
            }
            read
        };
        let known = units(true);
        for picture in [Picture::I, Picture::P, Picture::B] {
            assert!(known.iter().any(|(it, _)| *it == picture), "{known:?}");
        }
        assert_eq!(units(false), known);
    }
}
