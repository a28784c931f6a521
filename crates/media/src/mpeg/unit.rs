use super::headers::{
    PICTURE_CODING_EXTENSION, PictureCoding, PictureHeader, SEQUENCE_EXTENSION, Sequence,
    extension_id,
};
use super::startcode::{code, start_codes};

/// The headers of one access unit, as a receiver needs them to put it into a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct AccessUnit {
    pub sequence: Option<Sequence>,
    /// The GOP header, if there is one.
    pub gop: Option<GopHeader>,
    pub picture: PictureHeader,
    pub coding: Option<PictureCoding>,
}

/// A GOP header: where it begins in the access unit, and its `closed_gop` flag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct GopHeader {
    pub at: usize,
    pub closed: bool,
}

const CLOSED_GOP: u8 = 0x40;

impl GopHeader {
    /// Sets `closed_gop` in the GOP header that begins `data`.
    pub fn set_closed(data: &mut [u8]) {
        if let Some(flags) = data.get_mut(7) {
            *flags |= CLOSED_GOP;
        }
    }
}

impl AccessUnit {
    /// Reads the headers up to the first slice; `None` if they are not those of one picture that a
    /// decoder can work with.
    pub fn scan(data: &[u8]) -> Option<AccessUnit> {
        let (mut sequence, mut gop, mut picture, mut coding) = (None::<Sequence>, None, None, None);
        for (at, code) in start_codes(data) {
            let header = &data[at..];
            match code {
                code::SEQUENCE => sequence = Some(Sequence::parse(header).ok()?),
                code::GOP => {
                    let closed = header.get(7)? & CLOSED_GOP != 0;
                    gop = Some(GopHeader { at, closed });
                }
                code::PICTURE if picture.is_none() => {
                    picture = Some(PictureHeader::parse(header).ok()?);
                }
                code::PICTURE => return None,
                code::EXTENSION => match (extension_id(header)?, &mut sequence) {
                    (SEQUENCE_EXTENSION, Some(sequence)) => sequence.extend(header).ok()?,
                    (PICTURE_CODING_EXTENSION, _) => {
                        coding = Some(PictureCoding::parse(header).ok()?);
                    }
                    _ => (),
                },
                code::SLICE_FIRST..=code::SLICE_LAST => {
                    return Some(AccessUnit {
                        sequence,
                        gop,
                        picture: picture?,
                        coding,
                    });
                }
                code::SEQUENCE_END => return None,
                _ => (),
            }
        }
        None
    }
}
