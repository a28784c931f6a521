use std::ops::Range;

use super::FilterError;
use super::headers::{Headers, PictureParameters};
use super::quant::{self, ALTERNATE, Matrices, ZIG_ZAG};
use super::vectors::{Predictors, take_vectors};
use crate::mpeg::bits::BitReader;
use crate::mpeg::coefficients::{Step, take_dc};
use crate::mpeg::headers::Sequence;
use crate::mpeg::startcode::{code, start_codes};
use crate::mpeg::vlc::{mb, take_increment, take_pattern, take_type};

/// A picture read down to where each coefficient ends; offsets are bits of the access unit.
#[derive(Default, Debug)]
pub(super) struct CodedPicture {
    pub parts: Vec<Part>,
    pub macroblocks: Vec<Macroblock>,
    pub blocks: Vec<Block>,
    pub coefficients: Vec<Coefficient>,
}

/// A piece of the access unit.
#[derive(Debug)]
pub(super) enum Part {
    /// Whole bytes that stay as they are.
    Raw(Range<usize>),
    /// A slice.
    Slice {
        parameters: PictureParameters,
        /// The bits before the first macroblock.
        header: Range<usize>,
        quantiser: u8,
        macroblocks: Range<usize>,
    },
}

/// A macroblock that is not skipped.
#[derive(Debug)]
pub(super) struct Macroblock {
    /// Address relative to the macroblock before.
    pub increment: u32,
    /// A sum of [`mb`] bits.
    pub flags: u8,
    /// `frame_motion_type`; 0 where there is none.
    pub motion_type: u8,
    pub dct_type: u8,
    /// Code of the quantiser in force.
    pub quantiser: u8,
    /// The bits of its vectors.
    pub motion: Range<usize>,
    /// What a forward vector of it is predicted from.
    pub predictor: [i32; 2],
    pub blocks: Range<usize>,
}

/// A coded block.
#[derive(Debug)]
pub(super) struct Block {
    /// Which of the six.
    pub index: u8,
    /// Where it begins.
    pub start: usize,
    /// Where its coefficients begin, but for the DC coefficient of intra blocks.
    pub body: usize,
    pub coefficients: Range<usize>,
}

/// A coefficient, but for the DC coefficient of intra blocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Coefficient {
    /// Where its code ends.
    pub end: usize,
    /// In scan order.
    pub position: u8,
    /// Square of the dequantised value.
    pub energy: u32,
}

impl CodedPicture {
    /// Reads an access unit; `headers` are those of the stream so far, and are brought forward.
    pub fn read(&mut self, data: &[u8], headers: &mut Headers) -> Result<(), FilterError> {
        self.parts.clear();
        self.macroblocks.clear();
        self.blocks.clear();
        self.coefficients.clear();
        headers.picture = None;
        let mut starts = start_codes(data).peekable();
        let first = starts.peek().map_or(data.len(), |&(at, _)| at);
        self.parts.push(Part::Raw(0..first));
        let mut pictures = 0;
        while let Some((at, start)) = starts.next() {
            let end = starts.peek().map_or(data.len(), |&(next, _)| next);
            if matches!(start, code::SLICE_FIRST..=code::SLICE_LAST) {
                self.slice(&data[..end], at, headers)?;
                continue;
            }
            pictures += u32::from(start == code::PICTURE);
            if pictures > 1 {
                return Err(FilterError::malformed(at, "one picture"));
            }
            headers.read(&data[..end], at, start)?;
            self.parts.push(Part::Raw(at..end));
        }
        Ok(())
    }

    fn slice(&mut self, data: &[u8], at: usize, headers: &Headers) -> Result<(), FilterError> {
        let (sequence, parameters) = headers.slice_parameters(at)?;
        let mut bits = BitReader::new(data, (at + 4) * 8);
        let header = slice_header(&mut bits, &sequence);
        let quantiser = header.ok_or(FilterError::malformed(at, "a whole slice header"))?;
        let first = self.macroblocks.len();
        let header = at * 8..bits.at();
        let mut reader = SliceReader {
            bits,
            picture: self,
            parameters,
            matrices: &headers.matrices,
            quantiser,
            predictors: Predictors::default(),
        };
        let total = sequence.mb_width() * sequence.mb_height();
        let mut address = 0u32;
        // Fewer zeros cannot be what is left of a byte, more begin no macroblock.
        while reader.bits.peek() >> 9 != 0 {
            let here = reader.bits.at();
            let malformed = |expected| FilterError::malformed(here / 8, expected);
            let increment = reader
                .macroblock()
                .ok_or(malformed("a macroblock of legal codes"))?;
            address = address.saturating_add(increment);
            if address > total {
                return Err(malformed("a macroblock inside the picture"));
            }
        }
        let rest = data.get(reader.bits.at() / 8 + 1..).unwrap_or_default();
        if rest.iter().any(|&byte| byte != 0) {
            let expected = "only zeros behind the last macroblock";
            return Err(FilterError::malformed(reader.bits.at() / 8, expected));
        }
        let macroblocks = first..self.macroblocks.len();
        if macroblocks.is_empty() {
            return Err(FilterError::malformed(at, "macroblocks in the slice"));
        }
        self.parts.push(Part::Slice {
            parameters,
            header,
            quantiser,
            macroblocks,
        });
        Ok(())
    }
}

/// Reads a slice header behind its start code; gives the quantiser code.
fn slice_header(bits: &mut BitReader, sequence: &Sequence) -> Option<u8> {
    if sequence.mpeg2 && sequence.height > 2_800 {
        bits.skip(3)?;
    }
    let quantiser = bits.take(5)? as u8;
    // intra_slice_flag with intra_slice and reserved_bits has the form of extra_information_slice.
    while bits.take(1)? == 1 {
        bits.skip(8)?;
    }
    (quantiser != 0).then_some(quantiser)
}

struct SliceReader<'a> {
    bits: BitReader<'a>,
    picture: &'a mut CodedPicture,
    parameters: PictureParameters,
    matrices: &'a Matrices,
    quantiser: u8,
    predictors: Predictors,
}

impl SliceReader<'_> {
    /// Reads a macroblock (ISO/IEC 13818-2, 6.2.5); gives its address increment.
    fn macroblock(&mut self) -> Option<u32> {
        let parameters = self.parameters;
        let increment = take_increment(&mut self.bits)?;
        let flags = take_type(&mut self.bits, parameters.kind)?;
        let is = |bit| flags & bit != 0;
        if increment > 1 {
            self.predictors.skipped(parameters.kind);
        }
        let mut motion_type = 0;
        if !parameters.frame_only && is(mb::FORWARD | mb::BACKWARD) {
            motion_type = self.bits.take(2)? as u8;
        }
        let mut dct_type = 0;
        if !parameters.frame_only && is(mb::INTRA | mb::PATTERN) {
            dct_type = self.bits.take(1)? as u8;
        }
        if is(mb::QUANT) {
            self.quantiser = self.bits.take(5)? as u8;
            if self.quantiser == 0 {
                return None;
            }
        }
        let predictor = self.predictors.forward();
        let start = self.bits.at();
        take_vectors(
            &mut self.bits,
            &mut self.predictors,
            &parameters,
            flags,
            motion_type,
        )?;
        let motion = start..self.bits.at();
        let pattern = if is(mb::INTRA) {
            0b11_1111
        } else if is(mb::PATTERN) {
            take_pattern(&mut self.bits)?
        } else {
            0
        };
        let first = self.picture.blocks.len();
        for index in 0..6 {
            if pattern & 0b10_0000 >> index != 0 {
                self.block(index, is(mb::INTRA))?;
            }
        }
        self.picture.macroblocks.push(Macroblock {
            increment,
            flags,
            motion_type,
            dct_type,
            quantiser: self.quantiser,
            motion,
            predictor,
            blocks: first..self.picture.blocks.len(),
        });
        Some(increment)
    }

    /// Reads a block (6.2.6).
    fn block(&mut self, index: u8, intra: bool) -> Option<()> {
        let start = self.bits.at();
        // The place of the last coefficient, counted from 1.
        let mut place = 0;
        if intra {
            take_dc(&mut self.bits, index < 4)?;
            place = 1;
        }
        let body = self.bits.at();
        let coding = self.parameters.coding(intra);
        let scale = quant::scale(self.quantiser, self.parameters.non_linear_scale);
        let scan = if self.parameters.alternate_scan {
            &ALTERNATE
        } else {
            &ZIG_ZAG
        };
        let weights = if intra {
            &self.matrices.intra
        } else {
            &self.matrices.non_intra
        };
        let first = self.picture.coefficients.len();
        while let Step::Level { run, magnitude } = coding.take(&mut self.bits, place == 0)? {
            let position = place + run;
            let weight = weights[usize::from(*scan.get(usize::from(position))?)];
            place = position + 1;
            self.picture.coefficients.push(Coefficient {
                end: self.bits.at(),
                position,
                energy: quant::energy(intra, magnitude, weight, scale),
            });
        }
        self.picture.blocks.push(Block {
            index,
            start,
            body,
            coefficients: first..self.picture.coefficients.len(),
        });
        Some(())
    }
}
