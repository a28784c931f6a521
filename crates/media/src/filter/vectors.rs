use super::headers::PictureParameters;
use crate::Picture;
use crate::mpeg::bits::{BitReader, BitSink};
use crate::mpeg::vlc::{mb, put_motion, take_motion};

/// `frame_motion_type` of field, frame and dual prime prediction (ISO/IEC 13818-2 table 6-17).
const FIELD: u8 = 1;
pub(super) const FRAME: u8 = 2;
const DUAL_PRIME: u8 = 3;

/// What vectors are predicted from (7.6.3): first and second vector, forward and backward,
/// horizontal and vertical.
#[derive(Default, Debug)]
pub(super) struct Predictors([[[i32; 2]; 2]; 2]);

impl Predictors {
    /// Of the first forward vector.
    pub fn forward(&self) -> [i32; 2] {
        self.0[0][0]
    }

    /// Macroblocks of such a picture were skipped.
    pub fn skipped(&mut self, picture: Picture) {
        if picture == Picture::P {
            *self = Predictors::default();
        }
    }
}

/// Takes all vectors of a macroblock, and the marker behind concealment vectors.
pub(super) fn take_vectors(
    bits: &mut BitReader,
    predictors: &mut Predictors,
    parameters: &PictureParameters,
    flags: u8,
    motion_type: u8,
) -> Option<()> {
    if flags & mb::INTRA != 0 {
        if !parameters.concealment_vectors {
            *predictors = Predictors::default();
            return Some(());
        }
        take_direction(bits, predictors, parameters, 0, FRAME)?;
        return (bits.take(1)? == 1).then_some(());
    }
    if parameters.kind == Picture::P && flags & mb::FORWARD == 0 {
        *predictors = Predictors::default();
    }
    let motion_type = if parameters.frame_only {
        FRAME
    } else {
        motion_type
    };
    for (direction, bit) in [(0, mb::FORWARD), (1, mb::BACKWARD)] {
        if flags & bit != 0 {
            take_direction(bits, predictors, parameters, direction, motion_type)?;
        }
    }
    Some(())
}

/// Takes the vectors of one direction (6.2.5.2, 7.6.3.1).
fn take_direction(
    bits: &mut BitReader,
    predictors: &mut Predictors,
    parameters: &PictureParameters,
    direction: usize,
    motion_type: u8,
) -> Option<()> {
    let vectors = match motion_type {
        FIELD => 2,
        FRAME | DUAL_PRIME => 1,
        _ => return None,
    };
    for vector in 0..vectors {
        if motion_type == FIELD {
            bits.skip(1)?; // motion_vertical_field_select
        }
        for component in 0..2 {
            let r_size = r_size(parameters.f_code[direction][component])?;
            let difference = take_motion(bits, r_size)?;
            if motion_type == DUAL_PRIME && bits.take(1)? == 1 {
                bits.skip(1)?; // dmvector is not zero
            }
            // Vertical vectors of fields count field lines, predictors frame lines.
            let shift = u32::from(component == 1 && motion_type != FRAME);
            let predictor = &mut predictors.0[vector][direction][component];
            *predictor = wrap((*predictor >> shift) + difference, r_size) << shift;
        }
    }
    if vectors == 1 {
        predictors.0[1][direction] = predictors.0[0][direction];
    }
    Some(())
}

/// Puts a forward vector of zero, predicted from `predictor`.
pub(super) fn put_zero_vector(
    sink: &mut impl BitSink,
    parameters: &PictureParameters,
    predictor: [i32; 2],
) {
    for (f_code, predictor) in parameters.f_code[0].into_iter().zip(predictor) {
        // A predictor is not zero only where a vector was read with a legal f_code.
        let r_size = r_size(f_code).unwrap_or(0);
        put_motion(sink, r_size, wrap(-predictor, r_size));
    }
}

fn r_size(f_code: u8) -> Option<u32> {
    (1..=9).contains(&f_code).then(|| u32::from(f_code) - 1)
}

/// Brings a vector component back into its range.
fn wrap(vector: i32, r_size: u32) -> i32 {
    let half = 16 << r_size;
    (vector + half).rem_euclid(2 * half) - half
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mpeg::bits::BitWriter;

    #[test]
    fn a_zero_vector_is_read_as_zero_whatever_it_is_predicted_from() {
        for f_code in 1..=9u8 {
            let half = 16 << (f_code - 1);
            let mut parameters = PictureParameters::new(Picture::P);
            parameters.f_code = [[f_code; 2]; 2];
            for predictor in [0, 1, -1, 7, -half, half - 1, half / 2] {
                let predictor = [predictor, -predictor - 1];
                let mut writer = BitWriter::default();
                put_zero_vector(&mut writer, &parameters, predictor);
                let bytes = writer.finish();
                let mut predictors = Predictors([[predictor; 2]; 2]);
                let mut bits = BitReader::new(&bytes, 0);
                take_direction(&mut bits, &mut predictors, &parameters, 0, FRAME).unwrap();
                assert_eq!(predictors.forward(), [0, 0]);
            }
        }
    }
}
