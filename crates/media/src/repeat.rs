use crate::Picture;
use crate::mpeg::bits::{BitSink, BitWriter};
use crate::mpeg::headers::{PictureHeader, Sequence};
use crate::mpeg::startcode::code;
use crate::mpeg::vlc::put_increment;

/// Which reference a repeat picture copies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Repeat {
    /// A P picture that copies the anchor before it, and is an anchor itself.
    P,
    /// A B picture that copies the anchor displayed before it.
    Forward,
    /// A B picture that copies the anchor displayed after it.
    Backward,
}

/// Pictures that repeat another one, ready made for one sequence.
///
/// In each slice, one per macroblock row, the first and last macroblock have a zero motion vector
/// and no coefficients, and all between are skipped: the shortest legal picture.
#[derive(Debug)]
pub(crate) struct Repeats {
    sequence: Sequence,
    top_field_first: bool,
    p: Vec<u8>,
    forward: Vec<u8>,
    backward: Vec<u8>,
}

impl Repeats {
    /// Makes the pictures; `top_field_first` as in the pictures around them.
    pub fn new(sequence: Sequence, top_field_first: bool) -> Repeats {
        let make = |repeat| picture(&sequence, repeat, top_field_first);
        Repeats {
            p: make(Repeat::P),
            forward: make(Repeat::Forward),
            backward: make(Repeat::Backward),
            sequence,
            top_field_first,
        }
    }

    /// Whether they were made for these parameters.
    pub fn fits(&self, sequence: &Sequence, top_field_first: bool) -> bool {
        self.sequence == *sequence && self.top_field_first == top_field_first
    }

    /// Appends one picture with this temporal reference.
    pub fn write(&self, repeat: Repeat, temporal_reference: u16, out: &mut Vec<u8>) {
        let at = out.len();
        out.extend_from_slice(match repeat {
            Repeat::P => &self.p,
            Repeat::Forward => &self.forward,
            Repeat::Backward => &self.backward,
        });
        PictureHeader::set_temporal_reference(&mut out[at..], temporal_reference);
    }
}

impl Repeat {
    const fn kind(self) -> Picture {
        match self {
            Repeat::P => Picture::P,
            _ => Picture::B,
        }
    }
}

/// A macroblock with a zero motion vector and no coefficients (tables B.3, B.4 and B.10).
fn still_macroblock(bits: &mut BitWriter, repeat: Repeat) {
    match repeat {
        Repeat::P => bits.put(0b001, 3),
        Repeat::Forward => bits.put(0b0010, 4),
        Repeat::Backward => bits.put(0b010, 3),
    }
    bits.put(0b11, 2);
}

fn picture(sequence: &Sequence, repeat: Repeat, top_field_first: bool) -> Vec<u8> {
    let mut bits = BitWriter::default();
    picture_header(&mut bits, sequence.mpeg2, repeat);
    if sequence.mpeg2 {
        coding_extension(&mut bits, sequence, repeat, top_field_first);
    }
    // Above 2800 lines the row needs three more bits (ISO/IEC 13818-2, 6.2.4).
    let tall = sequence.mpeg2 && sequence.height > 2_800;
    for row in 0..sequence.mb_height() {
        let low = if tall { row & 0x7F } else { row };
        bits.start_code(code::SLICE_FIRST + low as u8);
        if tall {
            bits.put(row >> 7, 3);
        }
        bits.put(1, 5); // quantiser_scale, unused
        bits.put(0, 1); // extra_bit_slice
        put_increment(&mut bits, 1);
        still_macroblock(&mut bits, repeat);
        if sequence.mb_width() > 1 {
            put_increment(&mut bits, sequence.mb_width() - 1);
            still_macroblock(&mut bits, repeat);
        }
    }
    bits.finish()
}

fn picture_header(bits: &mut BitWriter, mpeg2: bool, repeat: Repeat) {
    // MPEG-2 says 7 here and has its codes in the extension.
    let f_code = if mpeg2 { 7 } else { 1 };
    bits.start_code(code::PICTURE);
    bits.put(0, 10); // temporal_reference, written later
    bits.put(if repeat.kind() == Picture::P { 2 } else { 3 }, 3);
    bits.put(0xFFFF, 16); // vbv_delay: variable bit rate
    bits.put(f_code, 4); // full_pel_forward_vector 0, forward_f_code
    if repeat.kind() == Picture::B {
        bits.put(f_code, 4); // the same backward
    }
    bits.put(0, 1); // extra_bit_picture
}

fn coding_extension(
    bits: &mut BitWriter,
    sequence: &Sequence,
    repeat: Repeat,
    top_field_first: bool,
) {
    bits.start_code(code::EXTENSION);
    bits.put(8, 4);
    bits.put(0x11, 8); // f_code forward
    let backward = if repeat.kind() == Picture::B {
        0x11
    } else {
        0xFF
    };
    bits.put(backward, 8);
    bits.put(0, 2); // intra_dc_precision
    bits.put(3, 2); // frame picture
    bits.put(u32::from(top_field_first && !sequence.progressive), 1);
    bits.put(1, 1); // frame_pred_frame_dct
    bits.put(0, 5); // concealment, q_scale_type, intra_vlc_format, alternate_scan, repeat_first_field
    bits.put(u32::from(sequence.chroma_420), 1); // chroma_420_type, as progressive_frame
    bits.put(1, 1); // progressive_frame
    bits.put(0, 1); // composite_display_flag
}

#[cfg(test)]
mod tests {
    use layercast_core::FrameRate;

    use super::*;
    use crate::mpeg::startcode::start_codes;

    #[test]
    fn a_repeat_has_one_slice_in_each_row_and_its_temporal_reference() {
        let sequence = Sequence {
            width: 4_096,
            height: 3_000,
            frame_rate: FrameRate { num: 25, den: 1 },
            mpeg2: true,
            progressive: true,
            chroma_420: true,
        };
        let mut out = vec![0xFF];
        Repeats::new(sequence, false).write(Repeat::P, 1_023, &mut out);
        let header = PictureHeader::parse(&out[1..]).unwrap();
        assert_eq!(
            (header.kind, header.temporal_reference),
            (Picture::P, 1_023)
        );
        let slices = start_codes(&out).filter(|(_, code)| (1..=0xAF).contains(code));
        assert_eq!(slices.count(), 188);
    }
}
