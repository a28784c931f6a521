use super::FilterError;
use super::quant::{Matrices, raster};
use crate::Picture;
use crate::mpeg::bits::BitReader;
use crate::mpeg::coefficients::Coding;
use crate::mpeg::headers::{
    PICTURE_CODING_EXTENSION, PictureCoding, PictureHeader, SEQUENCE_EXTENSION, Sequence,
    Structure, extension_id,
};
use crate::mpeg::startcode::code;

/// `extension_start_code_identifier` of the quantiser matrix extension.
const QUANT_MATRIX_EXTENSION: u8 = 3;
/// `extension_start_code_identifier` of the sequence scalable extension.
const SCALABLE_EXTENSION: u8 = 5;

/// What the headers read so far say about the slices to come.
#[derive(Clone, Debug, Default)]
pub(super) struct Headers {
    pub sequence: Option<Sequence>,
    pub matrices: Matrices,
    pub picture: Option<PictureParameters>,
}

/// What the headers of a picture say about its slices.
#[derive(Clone, Copy, Debug)]
pub(super) struct PictureParameters {
    pub kind: Picture,
    /// Forward and backward, horizontal and vertical.
    pub f_code: [[u8; 2]; 2],
    /// All macroblocks are predicted and transformed by frame; always so in MPEG-1.
    pub frame_only: bool,
    pub concealment_vectors: bool,
    pub non_linear_scale: bool,
    pub alternate_scan: bool,
    /// Table B.15 in intra blocks.
    pub intra_vlc_format: bool,
    /// A picture coding extension was read.
    extended: bool,
}

impl PictureParameters {
    /// How the coefficients of a block are coded.
    pub fn coding(&self, intra: bool) -> Coding {
        Coding {
            mpeg2: self.extended,
            table_one: intra && self.intra_vlc_format,
        }
    }
}

impl Headers {
    /// Reads whatever begins at `at` with this start code, other than a slice.
    pub fn read(&mut self, data: &[u8], at: usize, start: u8) -> Result<(), FilterError> {
        let header = data.get(at..).unwrap_or_default();
        let malformed = |expected| FilterError::malformed(at, expected);
        match start {
            code::SEQUENCE => {
                self.sequence = Some(Sequence::parse(header).map_err(malformed)?);
                self.picture = None;
                self.matrices = Matrices::default();
                // The flag of the intra matrix is the last but one bit of the fixed part.
                self.load_matrices(BitReader::new(header, 94))
                    .ok_or(malformed("whole quantiser matrices"))
            }
            code::PICTURE => {
                self.picture = None;
                let kind = PictureHeader::parse(header).map_err(malformed)?.kind;
                self.picture = PictureParameters::read(kind, header);
                self.picture
                    .map(|_| ())
                    .ok_or(malformed("a whole picture header"))
            }
            code::EXTENSION => self.extension(header, at),
            _ => Ok(()),
        }
    }

    fn extension(&mut self, header: &[u8], at: usize) -> Result<(), FilterError> {
        let malformed = |expected| FilterError::malformed(at, expected);
        match (extension_id(header), &mut self.picture) {
            (Some(SEQUENCE_EXTENSION), None) => match &mut self.sequence {
                Some(sequence) => sequence.extend(header).map_err(malformed),
                None => Ok(()),
            },
            (Some(SCALABLE_EXTENSION), None) => {
                Err(FilterError::Unsupported("a scalable extension"))
            }
            (Some(QUANT_MATRIX_EXTENSION), _) => self
                .load_matrices(BitReader::new(header, 36))
                .ok_or(malformed("whole quantiser matrices")),
            (Some(PICTURE_CODING_EXTENSION), Some(picture)) => {
                let coding = PictureCoding::parse(header).map_err(malformed)?;
                if coding.structure != Structure::Frame {
                    return Err(FilterError::Unsupported("field pictures"));
                }
                picture
                    .extend(header)
                    .ok_or(malformed("a whole picture coding extension"))
            }
            _ => Ok(()),
        }
    }

    /// Reads the flag and content of the intra and of the non-intra matrix.
    fn load_matrices(&mut self, mut bits: BitReader) -> Option<()> {
        for matrix in [&mut self.matrices.intra, &mut self.matrices.non_intra] {
            if bits.take(1)? == 1 {
                let mut zig_zag = [0; 64];
                for weight in &mut zig_zag {
                    *weight = bits.take(8)? as u8;
                }
                *matrix = raster(&zig_zag);
            }
        }
        Some(())
    }

    /// The parameters of the picture that a slice at `at` belongs to.
    pub fn slice_parameters(
        &self,
        at: usize,
    ) -> Result<(Sequence, PictureParameters), FilterError> {
        let sequence = self.sequence.ok_or(FilterError::NoSequence)?;
        let expected = "a picture header before the slice";
        let picture = self.picture.ok_or(FilterError::malformed(at, expected))?;
        if !sequence.chroma_420 {
            return Err(FilterError::Unsupported("chroma other than 4:2:0"));
        }
        if sequence.mpeg2 != picture.extended {
            let expected = "a picture coding extension in MPEG-2, and only there";
            return Err(FilterError::malformed(at, expected));
        }
        Ok((sequence, picture))
    }
}

impl PictureParameters {
    /// A picture of MPEG-1 without vectors.
    pub const fn new(kind: Picture) -> PictureParameters {
        PictureParameters {
            kind,
            f_code: [[0; 2]; 2],
            frame_only: true,
            concealment_vectors: false,
            non_linear_scale: false,
            alternate_scan: false,
            intra_vlc_format: false,
            extended: false,
        }
    }

    /// Reads the codes of the vectors from the picture header that begins `header`.
    fn read(kind: Picture, header: &[u8]) -> Option<PictureParameters> {
        let mut picture = PictureParameters::new(kind);
        // Behind the start code, temporal_reference, type and vbv_delay.
        let mut bits = BitReader::new(header, 32 + 29);
        let directions = match kind {
            Picture::I | Picture::Data => 0,
            Picture::P => 1,
            Picture::B => 2,
        };
        for f_code in picture.f_code.iter_mut().take(directions) {
            let _full_pel = bits.take(1)?;
            *f_code = [bits.take(3)? as u8; 2];
        }
        Some(picture)
    }

    /// Adds the picture coding extension that begins `header`.
    fn extend(&mut self, header: &[u8]) -> Option<()> {
        let mut bits = BitReader::new(header, 36);
        for f_code in self.f_code.as_flattened_mut() {
            *f_code = bits.take(4)? as u8;
        }
        bits.skip(2 + 2 + 1)?; // intra_dc_precision, picture_structure, top_field_first
        let mut flag = || Some(bits.take(1)? == 1);
        self.frame_only = flag()?;
        self.concealment_vectors = flag()?;
        self.non_linear_scale = flag()?;
        self.intra_vlc_format = flag()?;
        self.alternate_scan = flag()?;
        self.extended = true;
        Some(())
    }
}
