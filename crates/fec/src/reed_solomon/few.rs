//! Recovers few missing sources without the transform over the whole field that the crate's decoder needs for each
//! block.
//!
//! The code is linear: the difference between the received parities and the parities of the present sources is the
//! parity of the missing sources alone. So e parities are e equations for e missing sources; their coefficients are
//! the parities of blocks in which all but one source are zero. Since the code is MDS, every such system can be
//! solved.

use bytes::Bytes;
use reed_solomon_simd::engine::tables::{self, ExpLog};
use reed_solomon_simd::engine::{DefaultEngine, Engine, GF_MODULUS, GfElement};
use reed_solomon_simd::rate::{LowRateEncoder, RateEncoder};

use super::encoder;
use crate::code::{lost, present};
use crate::unit::write;

/// Octets that the engine multiplies together: 32 words of the field, first their low octets, then their high ones.
const CHUNK: usize = 64;
/// Largest number of missing sources: each needs one word for its coefficients.
pub const MOST: usize = CHUNK / 2;
/// A shard in the form of the engine.
type Shard = Vec<[u8; CHUNK]>;

/// Solves for few missing sources; keeps working memory for the next block.
#[derive(Default)]
pub struct Few {
    /// Encoder of coefficients, for blocks of one chunk.
    unknown: Option<LowRateEncoder<DefaultEngine>>,
    lacking: Vec<Shard>,
    product: Shard,
    sum: Shard,
}

impl Few {
    /// Returns the missing sources with their units, from as many parities; `None` if impossible. `unit` is the
    /// length of a parity.
    pub fn solve(
        &mut self,
        known: &mut Option<LowRateEncoder<DefaultEngine>>,
        (payloads, unit): (&[Option<Bytes>], &mut [u8]),
        parities: &[(usize, Bytes)],
    ) -> Option<Vec<(usize, Vec<u8>)>> {
        let missing: Vec<usize> = lost(payloads).collect();
        let used = parities.get(..missing.len())?;
        let last = used.iter().map(|it| it.0).max()?;
        self.lack(known, (payloads, unit), used, last)?;
        let inverse = self.inverse(payloads.len(), &missing, used, last)?;
        let log = &tables::get_exp_log().log;
        let engine = DefaultEngine::new();
        let mut units = Vec::with_capacity(missing.len());
        for (row, &source) in inverse.chunks(missing.len()).zip(&missing) {
            self.sum.fill([0; CHUNK]);
            for (&factor, lacking) in row.iter().zip(&self.lacking) {
                if factor == 0 {
                    continue;
                }
                self.product.copy_from_slice(lacking);
                engine.mul(&mut self.product, log[usize::from(factor)]);
                add(&mut self.sum, &self.product);
            }
            let mut octets = vec![0; unit.len()];
            unpack(&self.sum, &mut octets);
            units.push((source, octets));
        }
        Some(units)
    }

    /// The differences between the received parities and those of the present sources.
    fn lack(
        &mut self,
        slot: &mut Option<LowRateEncoder<DefaultEngine>>,
        (payloads, unit): (&[Option<Bytes>], &mut [u8]),
        used: &[(usize, Bytes)],
        last: usize,
    ) -> Option<()> {
        let encoder = encoder(slot, payloads.len(), last + 1, unit.len())?;
        let mut next = 0;
        for (source, payload) in present(payloads) {
            unit.fill(0);
            for _ in next..source {
                encoder.add_original_shard(&*unit).ok()?;
            }
            write(payload, unit);
            encoder.add_original_shard(&*unit).ok()?;
            next = source + 1;
        }
        unit.fill(0);
        for _ in next..payloads.len() {
            encoder.add_original_shard(&*unit).ok()?;
        }
        let result = encoder.encode().ok()?;
        let chunks = unit.len().div_ceil(CHUNK);
        self.sum.resize(chunks, [0; CHUNK]);
        self.product.resize(chunks, [0; CHUNK]);
        self.lacking
            .resize_with(used.len().max(self.lacking.len()), Vec::new);
        for ((index, parity), lacking) in used.iter().zip(&mut self.lacking) {
            lacking.resize(chunks, [0; CHUNK]);
            pack(parity, lacking);
            pack(result.recovery(*index)?, &mut self.product);
            add(lacking, &self.product);
        }
        Some(())
    }

    /// The factors of the differences, one row for each missing source.
    fn inverse(
        &mut self,
        n: usize,
        missing: &[usize],
        used: &[(usize, Bytes)],
        last: usize,
    ) -> Option<Vec<GfElement>> {
        let field = tables::get_exp_log();
        let one = field.exp[0].to_le_bytes();
        let encoder = encoder(&mut self.unknown, n, last + 1, CHUNK)?;
        // Each missing source has a word in which it alone is one.
        let mut words = missing.iter().enumerate().peekable();
        for source in 0..n {
            let mut shard = [0; CHUNK];
            if let Some((word, _)) = words.next_if(|it| *it.1 == source) {
                (shard[word], shard[word + CHUNK / 2]) = (one[0], one[1]);
            }
            encoder.add_original_shard(shard).ok()?;
        }
        let result = encoder.encode().ok()?;
        let mut matrix = Vec::with_capacity(used.len() * missing.len());
        for (index, _) in used {
            let shard = result.recovery(*index)?;
            let words = (0..missing.len()).map(|it| [shard[it], shard[it + CHUNK / 2]]);
            matrix.extend(words.map(GfElement::from_le_bytes));
        }
        invert(field, matrix, missing.len())
    }
}

/// Inverts a square matrix given by rows; `None` if it is singular.
fn invert(field: &ExpLog, mut matrix: Vec<GfElement>, size: usize) -> Option<Vec<GfElement>> {
    let times = |a: GfElement, b: GfElement| match b {
        0 => 0,
        b => tables::mul(a, field.log[usize::from(b)], &field.exp, &field.log),
    };
    let mut inverse = vec![0; size * size];
    (0..size).for_each(|at| inverse[at * size + at] = field.exp[0]);
    for at in 0..size {
        let pivot = (at..size).find(|row| matrix[row * size + at] != 0)?;
        for column in 0..size {
            matrix.swap(at * size + column, pivot * size + column);
            inverse.swap(at * size + column, pivot * size + column);
        }
        let log = field.log[usize::from(matrix[at * size + at])];
        let factor = field.exp[usize::from((GF_MODULUS - log) % GF_MODULUS)];
        for column in at * size..(at + 1) * size {
            matrix[column] = times(matrix[column], factor);
            inverse[column] = times(inverse[column], factor);
        }
        for row in (0..size).filter(|&row| row != at) {
            let factor = matrix[row * size + at];
            for column in 0..size {
                matrix[row * size + column] ^= times(matrix[at * size + column], factor);
                inverse[row * size + column] ^= times(inverse[at * size + column], factor);
            }
        }
    }
    Some(inverse)
}

fn add(sum: &mut [[u8; CHUNK]], other: &[[u8; CHUNK]]) {
    let octets = sum.as_flattened_mut().iter_mut();
    octets.zip(other.as_flattened()).for_each(|(a, b)| *a ^= b);
}

/// Converts the octets of a shard to chunks; in a last partial chunk the first half are low octets, the second high
/// ones.
fn pack(octets: &[u8], shard: &mut [[u8; CHUNK]]) {
    let (full, rest) = octets.as_chunks::<CHUNK>();
    shard[..full.len()].copy_from_slice(full);
    if !rest.is_empty() {
        let last = &mut shard[full.len()];
        last.fill(0);
        let (low, high) = rest.split_at(rest.len() / 2);
        last[..low.len()].copy_from_slice(low);
        last[CHUNK / 2..][..high.len()].copy_from_slice(high);
    }
}

/// Converts chunks to the octets of a shard.
fn unpack(shard: &[[u8; CHUNK]], octets: &mut [u8]) {
    let (full, rest) = octets.as_chunks_mut::<CHUNK>();
    full.copy_from_slice(&shard[..full.len()]);
    if !rest.is_empty() {
        let last = &shard[full.len()];
        let half = rest.len() / 2;
        let (low, high) = rest.split_at_mut(half);
        low.copy_from_slice(&last[..half]);
        high.copy_from_slice(&last[CHUNK / 2..][..high.len()]);
    }
}
