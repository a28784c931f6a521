use layercast_core::DataClass;

use super::start_codes::{StartCodes, Syntax};
use super::{Findings, PictureClassifier, Role, UnitClass};
use crate::av1::classes::{Av1Units, Obus};
use crate::mpeg::headers::{BIDIRECTIONAL, DC_INTRA, INTRA, PREDICTED, coding_type};
use crate::mpeg::sniff::{Form, sniff};
use crate::mpeg::startcode::code;
use crate::ts::VideoCodec;
use crate::{Picture, h264, h265};

/// MPEG-1 and MPEG-2 video.
#[derive(Default, Debug)]
pub(crate) struct Mpeg {
    /// Of the picture that slices belong to.
    class: DataClass,
    unknown_types: u64,
}

impl Syntax for Mpeg {
    /// The code and two octets: a slice begins with its quantiser scale, a picture with its type.
    const HEAD: usize = 3;

    fn unit(&mut self, head: &[u8]) -> UnitClass {
        match *head {
            [code::PICTURE, _, second] => {
                self.class = match coding_type(second) {
                    INTRA | DC_INTRA => DataClass::Intra,
                    PREDICTED => DataClass::Predicted,
                    BIDIRECTIONAL => DataClass::Bidirectional,
                    _ => {
                        self.unknown_types += 1;
                        DataClass::Intra
                    }
                };
                UnitClass::system(Role::Picture(self.class))
            }
            [code::SLICE_FIRST..=code::SLICE_LAST, ..] => UnitClass::data(false, self.class),
            [code::SEQUENCE | code::GOP, ..] => UnitClass::system(Role::Front),
            _ => UnitClass::system(Role::Rest),
        }
    }

    fn unknown_types(&self) -> u64 {
        self.unknown_types
    }
}

/// H.264: a picture that no other refers to is of class B, whatever its slices are.
#[derive(Debug)]
pub(crate) struct H264;

impl Syntax for H264 {
    /// The header of the NAL unit, and the elements of a slice header up to its type: five octets for 2^16 macroblocks.
    const HEAD: usize = 6;

    fn unit(&mut self, head: &[u8]) -> UnitClass {
        use h264::nal;
        let class = |kind: Option<Picture>| match kind {
            _ if !nal::is_reference(head) => DataClass::Bidirectional,
            Some(Picture::I) => DataClass::Intra,
            _ => DataClass::Predicted,
        };
        match nal::kind(head) {
            nal::IDR => {
                let begins = h264::early_slice(head).is_none_or(|slice| slice.top);
                UnitClass::data(begins, DataClass::Intra)
            }
            nal::SLICE | nal::PARTITION_A => {
                let slice = h264::early_slice(head);
                let begins = slice.is_some_and(|slice| slice.top);
                UnitClass::data(begins, class(slice.map(|slice| slice.kind)))
            }
            nal::SLICE..=nal::PARTITION_C => UnitClass::data(false, class(None)),
            nal::EXTENSION | nal::FILLER => UnitClass::data(false, DataClass::Bidirectional),
            nal::SEI..=nal::DELIMITER | nal::PREFIX..=nal::RESERVED_18 => {
                UnitClass::system(Role::Front)
            }
            _ => UnitClass::system(Role::Rest),
        }
    }
}

/// H.265: a picture of a higher temporal layer, or that no other of its layer refers to, is of class B.
#[derive(Debug)]
pub(crate) struct H265;

impl Syntax for H265 {
    /// The header of the NAL unit, and the beginning of that of the slice segment.
    const HEAD: usize = 6;

    fn unit(&mut self, head: &[u8]) -> UnitClass {
        use h265::nal;
        const FIRST_SEGMENT: u8 = 0x80;
        let Some((kind, layer)) = nal::head(head) else {
            return UnitClass::system(Role::Rest);
        };
        match kind {
            // Of a scalable or multiview extension.
            0..=nal::LAST_PICTURE if layer > 0 => UnitClass::data(false, DataClass::Bidirectional),
            0..=nal::LAST_PICTURE => {
                let temporal = head.get(1).map_or(0, |octet| (octet & 7).saturating_sub(1));
                let class = class_of(h265::picture_of(kind, temporal));
                let begins = head.get(2).is_some_and(|octet| octet & FIRST_SEGMENT != 0);
                UnitClass::data(begins, class)
            }
            nal::FILLER => UnitClass::data(false, DataClass::Bidirectional),
            nal::END_OF_SEQUENCE | nal::END_OF_STREAM | nal::SUFFIX_SEI => {
                UnitClass::system(Role::Rest)
            }
            _ => UnitClass::system(Role::Front),
        }
    }
}

/// The class of data of a picture.
pub(crate) fn class_of(picture: Picture) -> DataClass {
    match picture {
        Picture::I => DataClass::Intra,
        Picture::P => DataClass::Predicted,
        Picture::B => DataClass::Bidirectional,
        Picture::Data => DataClass::System,
    }
}

/// The classifier of one video.
#[derive(Debug)]
pub(crate) enum VideoClassifier {
    Mpeg(StartCodes<Mpeg>),
    H264(StartCodes<H264>),
    H265(StartCodes<H265>),
    /// OBUs behind start codes, as transport streams have them.
    Av1(Box<StartCodes<Av1Units>>),
    /// OBUs with their sizes.
    Obus(Box<Obus>),
}

impl VideoClassifier {
    /// The classifier of a video in a transport stream; `None` of a codec whose pictures are not distinguished.
    pub fn of(codec: VideoCodec) -> Option<VideoClassifier> {
        Some(match codec {
            VideoCodec::Mpeg1 | VideoCodec::Mpeg2 => {
                VideoClassifier::Mpeg(StartCodes::new(Mpeg::default()))
            }
            VideoCodec::H264 => VideoClassifier::H264(StartCodes::new(H264)),
            VideoCodec::H265 => VideoClassifier::H265(StartCodes::new(H265)),
            VideoCodec::Av1 => VideoClassifier::Av1(Box::new(StartCodes::new(Av1Units::default()))),
            _ => return None,
        })
    }

    /// The classifier of an elementary stream without a container, by its first octets.
    pub fn of_stream(data: &[u8]) -> Option<VideoClassifier> {
        match sniff(data).ok()? {
            Form::Elementary => VideoClassifier::of(VideoCodec::Mpeg2),
            Form::H264 => VideoClassifier::of(VideoCodec::H264),
            Form::H265 => VideoClassifier::of(VideoCodec::H265),
            Form::Obu if crate::av1::is_section_5(data) => {
                Some(VideoClassifier::Obus(Box::default()))
            }
            _ => None,
        }
    }
}

/// Calls a method of whichever classifier it is.
macro_rules! each {
    ($it:expr, $classifier:ident => $call:expr) => {
        match $it {
            VideoClassifier::Mpeg($classifier) => $call,
            VideoClassifier::H264($classifier) => $call,
            VideoClassifier::H265($classifier) => $call,
            VideoClassifier::Av1($classifier) => $call,
            VideoClassifier::Obus($classifier) => $call,
        }
    };
}

impl PictureClassifier for VideoClassifier {
    fn push(&mut self, octets: &[u8], out: &mut impl Findings) {
        each!(self, it => it.push(octets, out));
    }

    fn gap(&mut self) {
        each!(self, it => it.gap());
    }

    fn class(&self) -> DataClass {
        each!(self, it => it.class())
    }

    fn unknown_types(&self) -> u64 {
        each!(self, it => it.unknown_types())
    }
}
