use memchr::memmem;

use super::startcode::{code, start_codes};
use crate::MediaError;
use crate::foreign::{self, Foreign, Remedy};
use crate::ts::framing;
use crate::{av1, ivf};

/// Start codes looked at to tell MPEG-4 part 2 from H.264: more than the headers before its first picture.
const MPEG4_CODES: usize = 16;

/// Bytes in which the beginning of a stream is looked for, in octets.
const GARBAGE: usize = 256 * 1_024;
/// Consecutive sync bytes that identify a transport stream.
pub(crate) const SYNC_BYTES: usize = 5;

/// The forms in which video comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    Elementary,
    Program,
    /// H.264 in Annex B form.
    H264,
    /// H.265 in Annex B form.
    H265,
    /// IVF file of a codec that is served.
    Ivf,
    /// OBUs of AV1.
    Obu,
    /// MPEG transport stream.
    Transport,
}

/// Tells an elementary stream from a program stream, and names anything else.
pub(crate) fn sniff(data: &[u8]) -> Result<Form, MediaError> {
    if data.is_empty() {
        return Err(MediaError::Empty);
    }
    if framing::is_aligned(data) {
        return Ok(Form::Transport);
    }
    if ivf::Header::read(data).is_some_and(|(it, _)| ivf::codec_of(it.fourcc).is_some()) {
        return Ok(Form::Ivf);
    }
    if av1::is_section_5(data) || av1::is_annex_b(data) {
        return Ok(Form::Obu);
    }
    // Before start codes: the size of a box can look like one.
    if let Some(known) = foreign::container(data) {
        return Err(named(known));
    }
    let zeros = data.iter().take_while(|&&byte| byte == 0).count();
    let offset = zeros.saturating_sub(2) as u64;
    let foreign = |looks_like, remedy| MediaError::Foreign {
        offset,
        looks_like,
        remedy,
    };
    if zeros == data.len() {
        return Err(foreign("nothing but zero bytes", Remedy::NOTHING));
    }
    if zeros < 2 || data[zeros] != 1 {
        return behind_garbage(data);
    }
    match data.get(zeros + 1).copied() {
        None => Err(MediaError::Truncated {
            offset: data.len() as u64,
            expected: "a whole start code",
        }),
        Some(code::SEQUENCE | code::GOP | code::PICTURE) if is_video(data) => Ok(Form::Elementary),
        Some(code::PACK) => Ok(Form::Program),
        Some(code::GOP) => Err(MediaError::Malformed {
            offset,
            expected: "a sequence header (00 00 01 B3) before the group of pictures",
        }),
        Some(code::VIDEO_FIRST..=code::VIDEO_LAST) => Err(foreign(
            "bare PES packets without a pack header",
            Remedy::copied(None),
        )),
        Some(code) if is_h265(code, data) => Ok(Form::H265),
        Some(code) if is_mpeg4(code, data) => {
            Err(foreign("MPEG-4 part 2 video", Remedy::copied(None)))
        }
        Some(code) if code & 0x80 == 0 && (1..=21).contains(&(code & 31)) => Ok(Form::H264),
        Some(_) => Err(foreign(
            "an unknown stream with start codes",
            Remedy::NOTHING,
        )),
    }
}

/// A sequence header somewhere makes the start codes those of MPEG-1/2 video.
fn is_video(data: &[u8]) -> bool {
    memmem::find(data, &[0, 0, 1, code::SEQUENCE]).is_some()
}

/// Whether these are NAL units of H.265, of which `first` is the first byte.
///
/// It begins with a parameter set or a delimiter, or, as after a recording that began anywhere, has a VPS and an SPS
/// further on. A VPS is of a type that H.264 does not use.
fn is_h265(first: u8, data: &[u8]) -> bool {
    const SETS_AND_DELIMITER: [u8; 4] = [0x40, 0x42, 0x44, 0x46];
    let front = &data[..data.len().min(GARBAGE)];
    let has = |nal: &[u8; 5]| memmem::find(front, nal).is_some();
    SETS_AND_DELIMITER.contains(&first)
        || first & 0x81 == 0 && has(&[0, 0, 1, 0x40, 1]) && has(&[0, 0, 1, 0x42, 1])
}

/// Whether these are start codes of MPEG-4 part 2 (ISO/IEC 14496-2, table 6-3), of which `first` is the
/// first.
///
/// Codes of its object headers (0x00 to 0x2F) are NAL unit headers of H.264 too. Codes from 0x80 on never are:
/// there `forbidden_zero_bit` is set.
fn is_mpeg4(first: u8, data: &[u8]) -> bool {
    const OBJECTS: u8 = 0x2F;
    let sequence_object_or_picture = |code| matches!(code, 0xB0 | 0xB5 | 0xB6);
    let no_nal_unit = first & 31 == 0;
    match first {
        0xB0 | 0xB6 => true,
        0..=OBJECTS => {
            let mut codes = start_codes(data).take(MPEG4_CODES);
            no_nal_unit || codes.any(|(_, code)| sequence_object_or_picture(code))
        }
        _ => false,
    }
}

/// Whether the first bytes of an input are those of a format that [`Clip`](crate::Clip) reads.
///
/// # Errors
/// They are not, or there are too few of them.
pub fn recognise(first: &[u8]) -> Result<(), MediaError> {
    sniff(first).map(drop)
}

/// Whether `data` begin with an MPEG transport stream, whatever stands before its first packet.
pub fn is_transport_stream(data: &[u8]) -> bool {
    sniff(data) == Ok(Form::Transport)
}

/// Whether `data` begin a stream that is read as it comes: a transport stream, or IVF with a codec that is served.
pub fn comes_live(data: &[u8]) -> bool {
    matches!(sniff(data), Ok(Form::Transport | Form::Ivf))
}

/// A stream whose first bytes are none of it, as after a recording that began anywhere.
fn behind_garbage(data: &[u8]) -> Result<Form, MediaError> {
    let front = &data[..data.len().min(GARBAGE)];
    if framing::find(front, SYNC_BYTES).is_some() {
        return Ok(Form::Transport);
    }
    if memmem::find(front, &[0, 0, 1, code::PACK]).is_some() {
        return Ok(Form::Program);
    }
    Err(foreign::identify(data).map_or(
        MediaError::Foreign {
            offset: 0,
            looks_like: "none of the known formats",
            remedy: Remedy::NOTHING,
        },
        named,
    ))
}

fn named(known: Foreign) -> MediaError {
    MediaError::Foreign {
        offset: 0,
        looks_like: known.what,
        remedy: known.remedy,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looks_like(data: &[u8]) -> &'static str {
        match sniff(data) {
            Err(MediaError::Foreign { looks_like, .. }) => looks_like,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn foreign_files_are_named() {
        assert_eq!(
            looks_like(b"\0\0\0\x18ftypmp42"),
            "an MP4 or QuickTime file"
        );
        assert_eq!(
            looks_like(b"\0\0\x01\x20ftypisom"),
            "an MP4 or QuickTime file"
        );
        assert_eq!(
            looks_like(b"\x1A\x45\xDF\xA3...."),
            "a WebM or Matroska file"
        );
        let mut ts = vec![0; 376];
        (ts[0], ts[188]) = (0x47, 0x47);
        assert_eq!(sniff(&ts), Ok(Form::Transport));
        assert_eq!(sniff(b"\0\0\0\x01\x67\x64\0\x1f"), Ok(Form::H264));
        assert_eq!(sniff(b"\0\0\0\x01\x40\x01\x0c"), Ok(Form::H265));
        // Slices of a recording that began anywhere: TRAIL_N, TRAIL_R, IDR.
        for header in [0x00, 0x02, 0x26] {
            let slice = [0, 0, 0, 1, header, 1, 0xD0, 0, 0, 0];
            let sets = b"\x01\x40\x01\x0c\x01\0\0\0\x01\x42\x01\x01";
            assert_eq!(sniff(&[&slice[..], sets].concat()), Ok(Form::H265));
        }
        assert_eq!(looks_like(b"\0\0\x01\xB0\x01"), "MPEG-4 part 2 video");
        for headers in [
            &b"\0\0\x01\x00\0\0\x01\x20\x08\xC8\0\0\x01\xB6\x10"[..],
            b"\0\0\x01\x21\x08\xC8\0\0\x01\xB6\x10",
            b"\0\0\x01\x27\x08\xC8\0\0\x01\xB5\x10",
        ] {
            assert_eq!(looks_like(headers), "MPEG-4 part 2 video");
        }
        // Parameter sets and slices of any nal_ref_idc.
        for header in [0x07, 0x27, 0x47, 0x67, 0x25, 0x21, 0x28, 0x09] {
            let stream = [0, 0, 0, 1, header, 0x42, 0, 0x1F, 0, 0, 1, header];
            assert_eq!(sniff(&stream), Ok(Form::H264), "{header:#x}");
        }
        assert!(looks_like(b"1 I 1000\n").starts_with("text"));
        assert_eq!(looks_like(&[0; 10]), "nothing but zero bytes");
        assert_eq!(sniff(b""), Err(MediaError::Empty));
    }

    #[test]
    fn a_foreign_file_tells_the_command_that_helps() {
        let text = sniff(b"hello").unwrap_err().to_string();
        assert!(text.contains("at byte 0") && text.contains("*.trace"));
    }
}
