use layercast_core::Layer;
use serde::{Deserialize, Serialize};

use super::psi::StreamEntry;
use super::units::Syntax;
use super::video::{Coded, VideoInspector, stream_type};
use crate::{Map, Picture};

/// The codec of the video in a transport stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum VideoCodec {
    /// MPEG-1 video (ISO/IEC 11172-2).
    Mpeg1,
    /// MPEG-2 video (ISO/IEC 13818-2).
    Mpeg2,
    /// MPEG-4 part 2 (ISO/IEC 14496-2).
    Mpeg4,
    /// H.264 (ISO/IEC 14496-10).
    H264,
    /// H.265 (ISO/IEC 23008-2).
    H265,
    /// H.266 (ISO/IEC 23090-3).
    H266,
    /// VC-1 (SMPTE ST 421).
    Vc1,
    /// AVS, AVS2 or AVS3.
    Avs,
    /// Dirac (SMPTE ST 2042).
    Dirac,
    /// AV1.
    Av1,
    /// VP8.
    Vp8,
    /// VP9.
    Vp9,
    /// Video whose codec the tables of the stream do not name.
    Unnamed,
}

/// Stream types of other video codecs (table 2-34, and registrations of SMPTE and AVS).
const AVS: u8 = 0x42;
const DIRAC: u8 = 0xD1;
const AVS2: u8 = 0xD2;
const AVS3: u8 = 0xD4;
/// PES packets with private data: a registration descriptor names the codec.
const PRIVATE: u8 = 0x06;

impl VideoCodec {
    /// The codec of a stream, if it is video.
    pub(crate) fn of(stream: &StreamEntry) -> Option<VideoCodec> {
        Some(match stream.kind {
            stream_type::MPEG1 => VideoCodec::Mpeg1,
            stream_type::MPEG2 => VideoCodec::Mpeg2,
            stream_type::MPEG4 => VideoCodec::Mpeg4,
            stream_type::H264 => VideoCodec::H264,
            stream_type::H265 => VideoCodec::H265,
            stream_type::H266 => VideoCodec::H266,
            stream_type::VC1 => VideoCodec::Vc1,
            AVS | AVS2 | AVS3 => VideoCodec::Avs,
            DIRAC => VideoCodec::Dirac,
            PRIVATE => match &stream.format? {
                b"HEVC" => VideoCodec::H265,
                b"VVC " => VideoCodec::H266,
                b"VC-1" => VideoCodec::Vc1,
                b"AV01" => VideoCodec::Av1,
                b"VP08" | b"VP80" => VideoCodec::Vp8,
                b"VP09" | b"VP90" => VideoCodec::Vp9,
                b"drac" => VideoCodec::Dirac,
                b"AVSV" | b"AVS2" | b"AVS3" => VideoCodec::Avs,
                _ => return None,
            },
            _ => return None,
        })
    }

    /// Whether what decodes `other` decodes it too: decoders of MPEG-2 video do so of MPEG-1 video (ISO/IEC 13818-2, 8), and
    /// multiplexers name one for the other.
    pub(crate) fn continues(self, other: VideoCodec) -> bool {
        let is_mpeg = |it: VideoCodec| it.syntax() == Syntax::Mpeg;
        self == other || is_mpeg(self) && is_mpeg(other)
    }

    /// What reads its access units.
    pub(crate) fn inspector(self, map: Map) -> VideoInspector {
        match self {
            VideoCodec::Mpeg1 | VideoCodec::Mpeg2 => VideoInspector::mpeg(),
            VideoCodec::H264 => VideoInspector::h264(map),
            VideoCodec::H265 => VideoInspector::h265(map),
            _ => VideoInspector::Other,
        }
    }

    /// Whether a map fits what is known of its pictures.
    pub(crate) fn fits(self, map: Map) -> bool {
        let names_references = matches!(self, VideoCodec::H264 | VideoCodec::H265);
        !map.needs_references() || names_references && !map.is_by_place()
    }

    /// The syntax of its access units.
    pub(crate) fn syntax(self) -> Syntax {
        match self {
            VideoCodec::Mpeg1 | VideoCodec::Mpeg2 => Syntax::Mpeg,
            VideoCodec::Mpeg4 => Syntax::Mpeg4,
            VideoCodec::H264 => Syntax::H264,
            VideoCodec::H265 => Syntax::H265,
            _ => Syntax::Opaque,
        }
    }

    /// Whether its pictures are distinguished: without that only key frames and others are.
    pub fn is_layered(self) -> bool {
        self.syntax() != Syntax::Opaque
    }

    /// Its name as the standards have it.
    pub fn name(self) -> &'static str {
        match self {
            VideoCodec::Mpeg1 => "MPEG-1 video",
            VideoCodec::Mpeg2 => "MPEG-2 video",
            VideoCodec::Mpeg4 => "MPEG-4 part 2 video",
            VideoCodec::H264 => "H.264",
            VideoCodec::H265 => "H.265",
            VideoCodec::H266 => "H.266",
            VideoCodec::Vc1 => "VC-1",
            VideoCodec::Avs => "AVS",
            VideoCodec::Dirac => "Dirac",
            VideoCodec::Av1 => "AV1",
            VideoCodec::Vp8 => "VP8",
            VideoCodec::Vp9 => "VP9",
            VideoCodec::Unnamed => {
                "video of a codec that the tables of the stream do not name (VP8, VP9, AV1 or another)"
            }
        }
    }

    /// The headline of a transport stream with it.
    pub fn short(self) -> &'static str {
        match self {
            VideoCodec::Unnamed => "MPEG-TS with unnamed video",
            other => other.name(),
        }
    }

    /// What an access unit of a codec without an inspector of its own is; `known` is what the container says.
    pub(crate) fn refine(self, unit: &[u8], mut known: Coded) -> Coded {
        let read = match self {
            VideoCodec::Mpeg4 => mpeg4(unit),
            _ => None,
        };
        if let Some(picture) = read {
            known.gop_start |= picture == Picture::I;
            known.layer = match known.gop_start {
                true => Layer::Base,
                false => picture.layer(),
            };
            known.picture = picture;
        }
        known
    }
}

/// The kind of a picture of MPEG-4 part 2 by `vop_coding_type` (6.3.5): no other refers to B pictures.
fn mpeg4(unit: &[u8]) -> Option<Picture> {
    let at = memchr::memmem::find(unit, &[0, 0, 1, 0xB6])?;
    Some(match unit.get(at + 4)? >> 6 {
        0 => Picture::I,
        2 => Picture::B,
        _ => Picture::P,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_of_h265_and_mpeg4_have_kinds() {
        let read = |codec: VideoCodec, unit: &[u8]| {
            let mut inspector = codec.inspector(Map::Ipb);
            let coded = codec.refine(unit, inspector.read(unit, false));
            (coded.picture, coded.layer, coded.gop_start)
        };
        let h265 = |kind: u8, temporal: u8| {
            read(
                VideoCodec::H265,
                &[0, 0, 0, 1, 0x46, 1, 0, 0, 1, kind << 1, temporal, 0x80],
            )
        };
        assert_eq!(h265(19, 1), (Picture::I, Layer::Base, true));
        assert_eq!(h265(21, 1), (Picture::I, Layer::Base, true));
        assert_eq!(h265(1, 1), (Picture::P, Layer::E1, false));
        assert_eq!(h265(0, 1), (Picture::B, Layer::E2, false));
        assert_eq!(h265(1, 4), (Picture::B, Layer::E2, false));
        let vop = |kind: u8| read(VideoCodec::Mpeg4, &[0, 0, 1, 0xB6, kind << 6]);
        assert_eq!(vop(0), (Picture::I, Layer::Base, true));
        assert_eq!(vop(1), (Picture::P, Layer::E1, false));
        assert_eq!(vop(2), (Picture::B, Layer::E2, false));
        assert_eq!(
            read(VideoCodec::Vc1, &[0; 9]),
            (Picture::P, Layer::E1, false)
        );
    }

    #[test]
    fn private_streams_are_named_by_their_registration() {
        let stream = |format: Option<&[u8; 4]>| StreamEntry {
            kind: 0x06,
            pid: 9,
            format: format.copied(),
            language: None,
            dvb: None,
        };
        assert_eq!(
            VideoCodec::of(&stream(Some(b"AV01"))),
            Some(VideoCodec::Av1)
        );
        assert_eq!(VideoCodec::of(&stream(Some(b"AC-3"))), None);
        assert_eq!(VideoCodec::of(&stream(None)), None);
    }
}
