use layercast_core::{FrameRate, Layer};

use crate::Picture;
use crate::h264::{Inspector, Slice, UnitInfo, nals};
use crate::mpeg::headers::{
    PICTURE_CODING_EXTENSION, PictureCoding, PictureHeader, SEQUENCE_EXTENSION, Sequence,
    Structure, extension_id,
};
use crate::mpeg::startcode::{code, start_codes};

/// What an access unit in a container is to its layer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Coded {
    pub picture: Picture,
    pub layer: Layer,
    pub gop_start: bool,
    /// Of a field: what its other half is known by.
    field: Option<FieldOf>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum FieldOf {
    Mpeg { bottom: bool, reference: u16 },
    H264(Box<Slice>),
}

impl Coded {
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

    /// Whether its other field may follow.
    pub fn is_field(&self) -> bool {
        self.field.is_some()
    }
}

/// Reads access units of one video stream as far as their layer and format.
#[derive(Debug)]
pub(crate) enum VideoInspector {
    Mpeg(Option<Sequence>),
    H264(Box<Inspector>),
    /// Another codec: only random access is known.
    Other,
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
    /// The inspector of a stream type, if it is video.
    pub fn new(kind: u8) -> Option<VideoInspector> {
        match kind {
            stream_type::MPEG1 | stream_type::MPEG2 => Some(VideoInspector::Mpeg(None)),
            stream_type::H264 => Some(VideoInspector::H264(Box::default())),
            stream_type::MPEG4 | stream_type::H265 | stream_type::H266 | stream_type::VC1 => {
                Some(VideoInspector::Other)
            }
            _ => None,
        }
    }

    /// Size and rate, where known.
    pub fn format(&self) -> Option<(u32, u32, Option<FrameRate>)> {
        match self {
            VideoInspector::Mpeg(sequence) => {
                sequence.map(|it| (it.width, it.height, Some(it.frame_rate)))
            }
            VideoInspector::H264(inspector) => {
                let format = inspector.sets.format()?;
                Some((format.width, format.height, format.frame_rate))
            }
            VideoInspector::Other => None,
        }
    }

    /// What the access unit is; `random_access` is what the container says of it. A unit that cannot
    /// be read is kept as base layer.
    pub fn read(&mut self, unit: &[u8], random_access: bool) -> Coded {
        match self {
            VideoInspector::Mpeg(sequence) => mpeg(sequence, unit),
            VideoInspector::H264(inspector) => {
                let mut info = UnitInfo::default();
                for (_, nal) in nals(unit) {
                    inspector.look(nal, &mut info);
                }
                Coded {
                    picture: info.picture(),
                    layer: info.layer(),
                    gop_start: info.gop_start() && info.has_sps,
                    field: info
                        .first
                        .filter(|slice| slice.field.is_some())
                        .map(|slice| FieldOf::H264(Box::new(slice))),
                }
            }
            VideoInspector::Other => Coded {
                picture: if random_access {
                    Picture::I
                } else {
                    Picture::P
                },
                layer: if random_access {
                    Layer::Base
                } else {
                    Layer::E1
                },
                gop_start: random_access,
                field: None,
            },
        }
    }
}

fn mpeg(known: &mut Option<Sequence>, unit: &[u8]) -> Coded {
    let mut sequence: Option<Sequence> = None;
    let mut picture: Option<PictureHeader> = None;
    let mut structure = Structure::Frame;
    for (at, code) in start_codes(unit) {
        let header = &unit[at..];
        match code {
            code::SEQUENCE => sequence = Sequence::parse(header).ok(),
            code::PICTURE if picture.is_none() => picture = PictureHeader::parse(header).ok(),
            code::EXTENSION => match (extension_id(header), &mut sequence) {
                (Some(SEQUENCE_EXTENSION), Some(sequence)) => {
                    // An extension that cannot be read leaves the sequence what it was.
                    let _ = sequence.extend(header);
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
    if sequence.is_some() {
        *known = sequence;
    }
    let kind = picture.map_or(Picture::Data, |picture| picture.kind);
    Coded {
        picture: kind,
        layer: kind.layer(),
        gop_start: kind == Picture::I && sequence.is_some(),
        field: picture
            .filter(|_| structure != Structure::Frame)
            .map(|picture| FieldOf::Mpeg {
                bottom: structure == Structure::BottomField,
                reference: picture.temporal_reference,
            }),
    }
}
