use std::ops::Range;

use bytes::Bytes;
use layercast_core::{FrameRate, Media};

use super::headers::{
    PICTURE_CODING_EXTENSION, PictureCoding, PictureHeader, SEQUENCE_EXTENSION,
    SEQUENCE_EXTENSION_LEN, Sequence, Structure, extension_id, sequence_header_len,
};
use super::startcode::{code, start_codes};
use crate::{Frame, MediaError, Picture};

/// A video elementary stream cut into frames.
pub(crate) struct Stream {
    pub codec: Media,
    pub width: u32,
    pub height: u32,
    pub frame_rate: FrameRate,
    pub frames: Vec<Frame>,
    /// Where an incomplete last picture begins.
    pub truncated: Option<u64>,
}

/// The access unit being read: headers, then one picture.
struct Unit {
    start: usize,
    has_sequence: bool,
    has_gop: bool,
    picture: Option<PictureHeader>,
    coding: Option<PictureCoding>,
    last_slice: Option<u8>,
}

/// A first field that waits for its second.
struct Field {
    start: usize,
    end: usize,
    /// A sequence header had to be put before it.
    bare: bool,
    structure: Structure,
    temporal_reference: u16,
}

struct Parser<'a> {
    data: &'a Bytes,
    /// The sequence of the whole stream, from the first picture on.
    sequence: Option<Sequence>,
    /// The last sequence header: what it says, and where it begins.
    header: Option<(Sequence, usize)>,
    /// The last sequence header and sequence extension, to be put before a bare I picture.
    header_bytes: Vec<u8>,
    unit: Option<Unit>,
    field: Option<Field>,
    frames: Vec<Frame>,
    /// Highest slice row of the previous picture, by which a truncated last picture is recognised.
    previous_last_slice: u8,
}

/// Cuts a video elementary stream into access units; frames are slices of `data`.
///
/// Starts at the first sequence header; leading P and B pictures, which nothing can decode, are skipped. A last
/// picture without its last slice, or any last picture if `data` are known to be `cut`, is left out and
/// reported in `truncated`; otherwise a cut inside the very last slice is not detectable without decoding.
pub(crate) fn parse(data: &Bytes, cut: bool) -> Result<Stream, MediaError> {
    let mut parser = Parser {
        data,
        sequence: None,
        header: None,
        header_bytes: Vec::new(),
        unit: None,
        field: None,
        frames: Vec::new(),
        previous_last_slice: 0,
    };
    for (at, code) in start_codes(data) {
        parser.start_code(at, code)?;
    }
    let truncated = parser.end_of_data(cut);
    let no_picture = MediaError::Truncated {
        offset: data.len() as u64,
        expected: match parser.header {
            None => "a sequence header (00 00 01 B3)",
            Some(_) => "a complete I picture",
        },
    };
    let Some(sequence) = parser.sequence.filter(|_| !parser.frames.is_empty()) else {
        return Err(no_picture);
    };
    Ok(Stream {
        codec: if sequence.mpeg2 {
            Media::Mpeg2
        } else {
            Media::Mpeg1
        },
        width: sequence.width,
        height: sequence.height,
        frame_rate: sequence.frame_rate,
        frames: parser.frames,
        truncated,
    })
}

impl Parser<'_> {
    fn start_code(&mut self, at: usize, code: u8) -> Result<(), MediaError> {
        if self.header.is_none() && code != code::SEQUENCE {
            return Ok(());
        }
        match code {
            code::SEQUENCE => {
                self.close(at);
                self.unit_at(at).has_sequence = true;
                self.sequence_header(at)
            }
            code::GOP => {
                self.close(at);
                self.unit_at(at).has_gop = true;
                Ok(())
            }
            code::PICTURE => {
                self.close(at);
                self.picture_header(at)
            }
            code::SLICE_FIRST..=code::SLICE_LAST => self.slice(at, code),
            code::EXTENSION => self.extension(at),
            code::SEQUENCE_END => {
                self.close(at);
                self.unit = None;
                Ok(())
            }
            // User data and reserved codes belong to the surrounding unit.
            _ => Ok(()),
        }
    }

    /// The unit being read, begun at `at` if there is none.
    fn unit_at(&mut self, at: usize) -> &mut Unit {
        self.unit.get_or_insert(Unit {
            start: at,
            has_sequence: false,
            has_gop: false,
            picture: None,
            coding: None,
            last_slice: None,
        })
    }

    fn sequence_header(&mut self, at: usize) -> Result<(), MediaError> {
        let bytes = &self.data[at..];
        let Some(len) = sequence_header_len(bytes) else {
            return Ok(()); // cut at the end of the file, as the unit will tell
        };
        let sequence = Sequence::parse(bytes).map_err(|expected| malformed(at, expected))?;
        self.header = Some((sequence, at));
        self.header_bytes.clear();
        self.header_bytes.extend_from_slice(&bytes[..len]);
        Ok(())
    }

    fn extension(&mut self, at: usize) -> Result<(), MediaError> {
        let bytes = &self.data[at..];
        let Some(unit) = &mut self.unit else {
            return Ok(());
        };
        if bytes.len() < SEQUENCE_EXTENSION_LEN {
            return Ok(()); // cut at the end of the file, as the unit will tell
        }
        let before_picture = unit.picture.is_none();
        match extension_id(bytes) {
            Some(SEQUENCE_EXTENSION) if before_picture && unit.has_sequence => {
                if let Some((sequence, _)) = &mut self.header
                    && !sequence.mpeg2
                {
                    sequence
                        .extend(bytes)
                        .map_err(|expected| malformed(at, expected))?;
                    self.header_bytes
                        .extend_from_slice(&bytes[..SEQUENCE_EXTENSION_LEN]);
                }
                Ok(())
            }
            Some(PICTURE_CODING_EXTENSION) if !before_picture && unit.last_slice.is_none() => {
                let coding =
                    PictureCoding::parse(bytes).map_err(|expected| malformed(at, expected))?;
                unit.coding = Some(coding);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn picture_header(&mut self, at: usize) -> Result<(), MediaError> {
        let Some((sequence, header_at)) = self.header else {
            return Ok(());
        };
        if !sequence.height_is_legal() {
            let expected = "at most 175 macroblock rows in MPEG-1";
            return Err(malformed(header_at, expected));
        }
        if *self.sequence.get_or_insert(sequence) != sequence {
            let expected = "the same picture size, rate and coding as in the first sequence header";
            return Err(malformed(header_at, expected));
        }
        let bytes = &self.data[at..];
        if bytes.len() < 8 {
            self.unit_at(at);
            return Ok(()); // cut at the end of the file, as the unit will tell
        }
        let picture = PictureHeader::parse(bytes).map_err(|expected| malformed(at, expected))?;
        let unit = self.unit_at(at);
        if unit.picture.is_some() {
            return Err(malformed(at, "slices before the next picture header"));
        }
        unit.picture = Some(picture);
        Ok(())
    }

    fn slice(&mut self, at: usize, code: u8) -> Result<(), MediaError> {
        match &mut self.unit {
            Some(unit) if unit.picture.is_some() => {
                unit.last_slice = unit.last_slice.max(Some(code));
                Ok(())
            }
            _ => Err(malformed(at, "a picture header before the slice")),
        }
    }

    /// Ends the unit at `end` if it holds a whole picture.
    fn close(&mut self, end: usize) {
        let Some(unit) = self.unit.take_if(|unit| unit.last_slice.is_some()) else {
            return;
        };
        let Some(picture) = unit.picture else { return };
        self.previous_last_slice = unit.last_slice.unwrap_or(0);
        let structure = unit.coding.map_or(Structure::Frame, |it| it.structure);
        if let Some(first) = self.field.take() {
            let pair = structure != Structure::Frame
                && structure != first.structure
                && picture.temporal_reference == first.temporal_reference
                && first.end == unit.start
                && !unit.has_gop
                && !unit.has_sequence;
            if pair {
                self.join_second_field(&first, end);
                return;
            }
        }
        if self.frames.is_empty() && picture.kind != Picture::I {
            return;
        }
        let bare = picture.kind == Picture::I && !unit.has_sequence;
        let data = self.unit_data(unit.start..end, bare);
        self.frames.push(Frame::new(picture.kind, data));
        if structure != Structure::Frame {
            self.field = Some(Field {
                start: unit.start,
                end,
                bare,
                structure,
                temporal_reference: picture.temporal_reference,
            });
        }
    }

    fn join_second_field(&mut self, first: &Field, end: usize) {
        let data = self.unit_data(first.start..end, first.bare);
        if let Some(frame) = self.frames.last_mut() {
            *frame = Frame::new(frame.picture, data);
        }
    }

    /// The bytes of a unit, behind the last sequence header if it has none but needs one.
    fn unit_data(&self, range: Range<usize>, bare: bool) -> Bytes {
        let bytes = self.data.slice(range);
        if bare {
            Bytes::from([&self.header_bytes[..], &bytes].concat())
        } else {
            bytes
        }
    }

    /// The slice by which a last picture is taken for complete: that of the picture before, or of
    /// the last macroblock row if it is the only one.
    fn expected_last_slice(&self, unit: &Unit) -> u8 {
        if !self.frames.is_empty() {
            return self.previous_last_slice;
        }
        let rows = self.sequence.map_or(0, |sequence| sequence.mb_height());
        let field = |coding: PictureCoding| coding.structure != Structure::Frame;
        let rows = if unit.coding.is_some_and(field) {
            rows / 2
        } else {
            rows
        };
        // Above 2800 lines slice codes count to 128 again and again.
        rows.min(128) as u8
    }

    /// Ends the last unit at the end of the data; gives where it begins if it is incomplete.
    fn end_of_data(&mut self, cut: bool) -> Option<u64> {
        let len = self.data.len();
        let unit = self.unit.as_ref()?;
        let start = unit.start as u64;
        let complete = !cut
            && unit
                .last_slice
                .is_some_and(|last| last >= self.expected_last_slice(unit));
        if !complete {
            return Some(start);
        }
        self.close(len);
        // A first field without its second.
        self.field.as_ref()?;
        self.frames.pop();
        Some(start)
    }
}

fn malformed(at: usize, expected: &'static str) -> MediaError {
    MediaError::Malformed {
        offset: at as u64,
        expected,
    }
}
