use super::picture::{Block, CodedPicture, Macroblock};
use crate::mpeg::bits::BitCounter;
use crate::mpeg::vlc::mb;

/// Bisections of lambda (specs/mets.md 2.13).
const BISECTIONS: u32 = 15;
/// Where lambda is searched, as a power of two of squared sample differences per bit: below, one bit
/// is worth the smallest coefficient, above, not even the largest block.
const LOG_LAMBDA: (f64, f64) = (-8.0, 32.0);

impl CodedPicture {
    /// Keeps the first `k` places of the scan in every block.
    pub fn low_pass(&self, k: u8, keep: &mut Vec<u8>) {
        keep.clear();
        keep.extend(self.blocks.iter().map(|block| {
            let coefficients = &self.coefficients[block.coefficients.clone()];
            coefficients.partition_point(|it| it.position < k) as u8
        }));
    }

    /// Keeps nothing that can be dropped; gives the bits of the result.
    pub fn bare(&self, data: &[u8], keep: &mut Vec<u8>) -> usize {
        keep.clear();
        keep.resize(self.blocks.len(), 0);
        let mut counter = BitCounter::default();
        self.write(data, keep, &mut counter);
        counter.0
    }

    /// Keeps what costs the least distortion within `budget` bits; gives the bits of the result,
    /// which are more than `budget` only if there is nothing left to drop.
    pub fn shape(&self, data: &[u8], budget: usize, keep: &mut Vec<u8>) -> usize {
        let size = |keep: &[u8]| {
            let mut counter = BitCounter::default();
            self.write(data, keep, &mut counter);
            counter.0
        };
        self.low_pass(64, keep);
        let whole = size(keep);
        if whole <= budget {
            return whole;
        }
        let mut fuller = keep.clone();
        keep.fill(0);
        let mut bits = size(keep);
        if bits > budget {
            return bits;
        }
        let mut trial = Vec::with_capacity(keep.len());
        let (mut low, mut high) = LOG_LAMBDA;
        for _ in 0..BISECTIONS {
            let middle = (low + high) / 2.0;
            self.breakpoints(middle.exp2(), &mut trial);
            let tried = size(&trial);
            if tried > budget {
                low = middle;
                std::mem::swap(&mut fuller, &mut trial);
            } else {
                (high, bits) = (middle, tried);
                std::mem::swap(keep, &mut trial);
            }
        }
        // Many coefficients are equal, so the size jumps where lambda passes what they are worth.
        // Between the two sides of the last jump any block is as good as any other: take as many as fit.
        let (mut fits, mut exceeds) = (0, keep.len());
        while exceeds - fits > 1 {
            let middle = (fits + exceeds) / 2;
            trial.clone_from(keep);
            trial[..middle].copy_from_slice(&fuller[..middle]);
            let tried = size(&trial);
            if tried > budget {
                exceeds = middle;
            } else {
                (fits, bits) = (middle, tried);
            }
        }
        keep[..fits].copy_from_slice(&fuller[..fits]);
        bits
    }

    /// For each block the breakpoint of least D + `lambda` R.
    pub fn breakpoints(&self, lambda: f64, keep: &mut Vec<u8>) {
        keep.clear();
        for macroblock in &self.macroblocks {
            let blocks = &self.blocks[macroblock.blocks.clone()];
            keep.extend(
                blocks
                    .iter()
                    .map(|it| self.breakpoint(macroblock, it, lambda)),
            );
        }
    }

    fn breakpoint(&self, macroblock: &Macroblock, block: &Block, lambda: f64) -> u8 {
        // An intra block has its end of block in any case.
        let end_of_block = if macroblock.flags & mb::INTRA != 0 {
            0
        } else {
            2
        };
        let (mut kept, mut least) = (0, 0.0);
        let mut gain = 0.0;
        let coefficients = &self.coefficients[block.coefficients.clone()];
        for (index, coefficient) in coefficients.iter().enumerate() {
            gain += f64::from(coefficient.energy);
            let bits = (coefficient.end - block.body + end_of_block) as f64;
            let cost = lambda * bits - gain;
            if cost < least {
                (kept, least) = (index + 1, cost);
            }
        }
        kept as u8
    }
}
