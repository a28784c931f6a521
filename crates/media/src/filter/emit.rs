use super::headers::PictureParameters;
use super::picture::{CodedPicture, Macroblock, Part};
use super::vectors::{FRAME, put_zero_vector};
use crate::mpeg::bits::BitSink;
use crate::mpeg::vlc::{mb, put_increment, put_pattern, put_type};

impl CodedPicture {
    /// Writes the access unit again with the first `keep[i]` coefficients of block `i`.
    ///
    /// A block of a predicted macroblock that keeps none is no longer coded. If that leaves none of
    /// its blocks coded, the macroblock gets a type that says so, or is skipped where that means the
    /// same; the next coded one then brings its quantiser.
    pub fn write(&self, data: &[u8], keep: &[u8], sink: &mut impl BitSink) {
        for part in &self.parts {
            match part {
                Part::Raw(bytes) => sink.copy(data, bytes.start * 8, bytes.end * 8),
                Part::Slice {
                    parameters,
                    header,
                    quantiser,
                    macroblocks,
                } => {
                    sink.copy(data, header.start, header.end);
                    let mut writer = SliceWriter {
                        picture: self,
                        data,
                        keep,
                        parameters,
                        quantiser: *quantiser,
                        skipped: 0,
                    };
                    let macroblocks = &self.macroblocks[macroblocks.clone()];
                    let last = macroblocks.len().saturating_sub(1);
                    for (index, macroblock) in macroblocks.iter().enumerate() {
                        let may_skip = index != 0 && index != last;
                        writer.macroblock(macroblock, may_skip, sink);
                    }
                    sink.align();
                }
            }
        }
    }
}

struct SliceWriter<'a> {
    picture: &'a CodedPicture,
    data: &'a [u8],
    keep: &'a [u8],
    parameters: &'a PictureParameters,
    /// In force in what was written.
    quantiser: u8,
    /// Address increments of macroblocks now skipped.
    skipped: u32,
}

impl SliceWriter<'_> {
    fn macroblock(&mut self, macroblock: &Macroblock, may_skip: bool, sink: &mut impl BitSink) {
        let mut flags = macroblock.flags;
        let mut pattern = 0;
        if flags & mb::PATTERN != 0 {
            pattern = self.pattern(macroblock);
            if pattern == 0 {
                flags &= !(mb::PATTERN | mb::QUANT);
            }
        }
        // Not predicted by a vector, and now without a coefficient: what a skipped one is in a P
        // picture, but the first and last of a slice may not be skipped (6.3.16).
        let still = flags == 0;
        if still && may_skip {
            self.skipped = self.skipped.saturating_add(macroblock.increment);
            return;
        }
        if still {
            flags = mb::FORWARD;
        }
        if flags & (mb::INTRA | mb::PATTERN) != 0 && macroblock.quantiser != self.quantiser {
            flags |= mb::QUANT;
        }
        put_increment(sink, self.skipped.saturating_add(macroblock.increment));
        self.skipped = 0;
        put_type(sink, self.parameters.kind, flags);
        if !self.parameters.frame_only {
            if flags & (mb::FORWARD | mb::BACKWARD) != 0 {
                let coded = u32::from(macroblock.motion_type);
                sink.put(if still { u32::from(FRAME) } else { coded }, 2);
            }
            if flags & (mb::INTRA | mb::PATTERN) != 0 {
                sink.put(u32::from(macroblock.dct_type), 1);
            }
        }
        if flags & mb::QUANT != 0 {
            self.quantiser = macroblock.quantiser;
            sink.put(u32::from(self.quantiser), 5);
        }
        if still {
            put_zero_vector(sink, self.parameters, macroblock.predictor);
        } else {
            sink.copy(self.data, macroblock.motion.start, macroblock.motion.end);
        }
        if flags & mb::PATTERN != 0 {
            put_pattern(sink, pattern);
        }
        if flags & (mb::INTRA | mb::PATTERN) != 0 {
            self.blocks(macroblock, flags & mb::INTRA != 0, sink);
        }
    }

    /// Which blocks of a predicted macroblock keep a coefficient.
    fn pattern(&self, macroblock: &Macroblock) -> u8 {
        let blocks = macroblock.blocks.clone();
        let kept = blocks.filter(|&block| self.keep[block] > 0);
        kept.fold(0, |pattern, block| {
            pattern | 0b10_0000 >> self.picture.blocks[block].index
        })
    }

    fn blocks(&self, macroblock: &Macroblock, intra: bool, sink: &mut impl BitSink) {
        let (end_of_block, len) = self.parameters.coding(intra).end_of_block();
        for index in macroblock.blocks.clone() {
            let block = &self.picture.blocks[index];
            let coefficients = &self.picture.coefficients[block.coefficients.clone()];
            let end = match usize::from(self.keep[index]) {
                0 if intra => block.body,
                0 => continue,
                kept => coefficients.get(kept - 1).map_or(block.body, |it| it.end),
            };
            sink.copy(self.data, block.start, end);
            sink.put(end_of_block, len);
        }
    }
}
