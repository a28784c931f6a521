use layercast_core::FrameRate;

use super::bits::BitReader;
use crate::Picture;

/// What the sequence header and, for MPEG-2, the sequence extension say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Sequence {
    pub width: u32,
    pub height: u32,
    pub frame_rate: FrameRate,
    /// A sequence extension follows: MPEG-2.
    pub mpeg2: bool,
    /// MPEG-2 only: all pictures are progressive frames.
    pub progressive: bool,
    /// MPEG-2 only: 4:2:0 chroma.
    pub chroma_420: bool,
}

/// The frame rates of `frame_rate_code` 1 to 8 (ISO/IEC 13818-2 table 6-4).
const FRAME_RATES: [(u32, u32); 8] = [
    (24_000, 1_001),
    (24, 1),
    (25, 1),
    (30_000, 1_001),
    (30, 1),
    (50, 1),
    (60_000, 1_001),
    (60, 1),
];

/// Largest height in MPEG-1: slice start codes count 175 macroblock rows.
const MPEG1_MAX_HEIGHT: u32 = 175 * 16;

/// The length of the sequence header whose start code begins `data`, quantiser matrices included.
pub(crate) fn sequence_header_len(data: &[u8]) -> Option<usize> {
    let mut len = 12;
    if data.get(11)? & 0x02 != 0 {
        len += 64;
    }
    if data.get(len - 1)? & 0x01 != 0 {
        len += 64;
    }
    (data.len() >= len).then_some(len)
}

/// Length of a sequence extension, start code included.
pub(crate) const SEQUENCE_EXTENSION_LEN: usize = 10;

impl Sequence {
    /// Reads the sequence header that begins `data` (start code included); `Err` names what is wrong.
    pub fn parse(data: &[u8]) -> Result<Sequence, &'static str> {
        let header = data.get(4..12).ok_or("a whole sequence header")?;
        let mut bits = BitReader::new(header, 0);
        let mut take = |n| bits.take(n).unwrap_or(0);
        let (width, height) = (take(12), take(12));
        let _aspect = take(4);
        let rate = take(4);
        let _bit_rate = take(18);
        if take(1) != 1 {
            return Err("the marker bit of a sequence header");
        }
        if width == 0 || height == 0 {
            return Err("a picture size above zero in the sequence header");
        }
        let (num, den) = *(rate as usize)
            .checked_sub(1)
            .and_then(|i| FRAME_RATES.get(i))
            .ok_or("a frame rate code from 1 to 8 in the sequence header")?;
        Ok(Sequence {
            width,
            height,
            frame_rate: FrameRate { num, den },
            mpeg2: false,
            progressive: true,
            chroma_420: true,
        })
    }

    /// Adds the sequence extension that begins `data` (start code included).
    pub fn extend(&mut self, data: &[u8]) -> Result<(), &'static str> {
        let body = data
            .get(4..SEQUENCE_EXTENSION_LEN)
            .ok_or("a whole sequence extension")?;
        let mut bits = BitReader::new(body, 12);
        let mut take = |n| bits.take(n).unwrap_or(0);
        self.progressive = take(1) == 1;
        self.chroma_420 = take(2) == 1;
        self.width = self.width & 0xFFF | take(2) << 12;
        self.height = self.height & 0xFFF | take(2) << 12;
        let _bit_rate = take(12);
        if take(1) != 1 {
            return Err("the marker bit of a sequence extension");
        }
        let _vbv_and_low_delay = take(9);
        if !self.mpeg2 {
            self.frame_rate.num *= take(2) + 1;
            self.frame_rate.den *= take(5) + 1;
        }
        self.mpeg2 = true;
        Ok(())
    }

    /// Whether slice start codes can number every macroblock row.
    pub fn height_is_legal(&self) -> bool {
        self.mpeg2 || self.height <= MPEG1_MAX_HEIGHT
    }

    /// Macroblocks in a row.
    pub fn mb_width(&self) -> u32 {
        self.width.div_ceil(16)
    }

    /// Macroblock rows of a frame picture (ISO/IEC 13818-2, 6.3.3).
    pub fn mb_height(&self) -> u32 {
        if self.progressive {
            self.height.div_ceil(16)
        } else {
            2 * self.height.div_ceil(32)
        }
    }
}

/// `picture_coding_type` (ISO/IEC 13818-2 table 6-12); the last one is of D pictures, which MPEG-1 alone has.
pub(crate) const INTRA: u8 = 1;
pub(crate) const PREDICTED: u8 = 2;
pub(crate) const BIDIRECTIONAL: u8 = 3;
pub(crate) const DC_INTRA: u8 = 4;

/// `picture_coding_type` in the second octet behind the start code of a picture.
pub(crate) fn coding_type(octet: u8) -> u8 {
    octet >> 3 & 7
}

/// The coding type and display position of a picture header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PictureHeader {
    pub kind: Picture,
    pub temporal_reference: u16,
}

impl PictureHeader {
    /// Reads the picture header that begins `data` (start code included).
    pub fn parse(data: &[u8]) -> Result<PictureHeader, &'static str> {
        let &[a, b, _, _] = data
            .get(4..8)
            .and_then(|header| header.first_chunk())
            .ok_or("a whole picture header")?;
        let kind = match coding_type(b) {
            INTRA => Picture::I,
            PREDICTED => Picture::P,
            BIDIRECTIONAL => Picture::B,
            DC_INTRA => return Err("an I, P or B picture (D pictures are not supported)"),
            _ => return Err("a picture coding type I, P or B"),
        };
        Ok(PictureHeader {
            kind,
            temporal_reference: u16::from(a) << 2 | u16::from(b >> 6),
        })
    }

    /// Writes another temporal reference into the picture header that begins `data`.
    pub fn set_temporal_reference(data: &mut [u8], reference: u16) {
        if let Some([a, b]) = data.get_mut(4..6) {
            *a = (reference >> 2) as u8;
            *b = *b & 0x3F | (reference << 6) as u8;
        }
    }
}

/// Which part of a frame a picture is (ISO/IEC 13818-2 table 6-14).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Structure {
    TopField,
    BottomField,
    Frame,
}

/// What matters here of a picture coding extension.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PictureCoding {
    pub structure: Structure,
    pub top_field_first: bool,
}

impl PictureCoding {
    /// Reads the picture coding extension that begins `data` (start code included).
    pub fn parse(data: &[u8]) -> Result<PictureCoding, &'static str> {
        let &[structure, first] = data
            .get(6..8)
            .and_then(|bytes| bytes.first_chunk())
            .ok_or("a whole picture coding extension")?;
        let structure = match structure & 3 {
            1 => Structure::TopField,
            2 => Structure::BottomField,
            3 => Structure::Frame,
            _ => return Err("a picture structure of field or frame"),
        };
        Ok(PictureCoding {
            structure,
            top_field_first: first & 0x80 != 0,
        })
    }
}

/// The identifier of the extension that begins `data`, start code included.
pub(crate) fn extension_id(data: &[u8]) -> Option<u8> {
    data.get(4).map(|byte| byte >> 4)
}

/// `extension_start_code_identifier` of the sequence extension.
pub(crate) const SEQUENCE_EXTENSION: u8 = 1;
/// `extension_start_code_identifier` of the picture coding extension.
pub(crate) const PICTURE_CODING_EXTENSION: u8 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    // Headers written by ffmpeg for testsrc2, 176x144 at 25 frames/s.
    const SEQUENCE: [u8; 12] = [0, 0, 1, 0xB3, 0x0b, 0, 0x90, 0x13, 0xff, 0xff, 0xe0, 0x18];
    const EXTENSION: [u8; 10] = [0, 0, 1, 0xB5, 0x14, 0x8a, 0, 1, 0, 0];
    const CODING: [u8; 9] = [0, 0, 1, 0xB5, 0x8f, 0xff, 0xf3, 0x41, 0x80];

    #[test]
    fn headers_of_a_real_stream_are_read() {
        let mut sequence = Sequence::parse(&SEQUENCE).unwrap();
        assert_eq!((sequence.width, sequence.height), (176, 144));
        assert_eq!(sequence.frame_rate, FrameRate { num: 25, den: 1 });
        assert!(!sequence.mpeg2);
        assert_eq!(extension_id(&EXTENSION), Some(SEQUENCE_EXTENSION));
        sequence.extend(&EXTENSION).unwrap();
        assert!(sequence.mpeg2 && sequence.progressive && sequence.chroma_420);
        assert_eq!((sequence.mb_width(), sequence.mb_height()), (11, 9));
        let coding = PictureCoding::parse(&CODING).unwrap();
        assert_eq!(coding.structure, Structure::Frame);
        assert!(!coding.top_field_first);
    }

    #[test]
    fn quantiser_matrices_lengthen_the_sequence_header() {
        let mut data = [0u8; 160];
        assert_eq!(sequence_header_len(&data), Some(12));
        data[11] = 1;
        assert_eq!(sequence_header_len(&data), Some(76));
        data[11] = 2;
        assert_eq!(sequence_header_len(&data), Some(76));
        data[75] = 1;
        assert_eq!(sequence_header_len(&data), Some(140));
        assert_eq!(sequence_header_len(&data[..139]), None);
    }

    #[test]
    fn a_patched_temporal_reference_reads_back_and_keeps_the_type() {
        let mut picture = [0, 0, 1, 0, 0x00, 0x0f, 0xff, 0xf8];
        let before = PictureHeader::parse(&picture).unwrap();
        assert_eq!((before.kind, before.temporal_reference), (Picture::I, 0));
        PictureHeader::set_temporal_reference(&mut picture, 1_023);
        let after = PictureHeader::parse(&picture).unwrap();
        assert_eq!((after.kind, after.temporal_reference), (Picture::I, 1_023));
    }

    #[test]
    fn interlaced_frames_have_an_even_number_of_rows() {
        let mut sequence = Sequence::parse(&SEQUENCE).unwrap();
        sequence.progressive = false;
        assert_eq!(sequence.mb_height(), 10);
    }
}
