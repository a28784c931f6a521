use super::equations::Equations;
use crate::xor::xor_into;

/// Recovers missing symbols by elimination over GF(2). It keeps its working memory.
#[derive(Default, Debug)]
pub(super) struct Solver {
    /// The missing symbols of data of the system.
    unknown: Vec<u16>,
    /// Rows of the system: bits of the unknown symbols, and the octets that their XOR is.
    bits: Vec<u64>,
    octets: Vec<u8>,
    /// Octets of one row.
    spare: Vec<u8>,
}

impl Solver {
    /// Solves one system of a block: `octets` and `is_there` are data and parities. Cells that are determined are put, and are
    /// there then.
    pub fn solve(
        &mut self,
        of: &Equations,
        system: usize,
        octets: &mut [u8],
        is_there: &mut [bool],
    ) {
        let (size, per_cell) = (of.symbol(), of.per_cell());
        let is_known = |symbol: u16| is_there[usize::from(symbol) / per_cell];
        self.unknown.clear();
        for &parity in of.system(system) {
            let missing = of.terms(parity).iter().filter(|&&term| !is_known(term));
            self.unknown.extend(missing);
        }
        if self.unknown.is_empty() {
            return;
        }
        self.unknown.sort_unstable();
        self.unknown.dedup();
        let words = self.unknown.len().div_ceil(64);
        self.bits.clear();
        self.octets.clear();
        for &parity in of.system(system) {
            let place = of.place(parity);
            if !is_there[place / per_cell] {
                continue;
            }
            let row = self.bits.len();
            self.bits.resize(row + words, 0);
            let begin = self.octets.len();
            self.octets
                .extend_from_slice(&octets[place * size..][..size]);
            for &term in of.terms(parity) {
                match self.unknown.binary_search(&term) {
                    Ok(bit) => self.bits[row + bit / 64] ^= 1 << (bit % 64),
                    Err(_) => xor_into(
                        &mut self.octets[begin..],
                        &octets[usize::from(term) * size..][..size],
                    ),
                }
            }
        }
        self.eliminate(words, size);
        self.put(words, of, octets, is_there);
    }

    /// Brings the rows to reduced echelon form.
    fn eliminate(&mut self, words: usize, size: usize) {
        let rows = self.bits.len() / words;
        let mut next = 0;
        for bit in 0..self.unknown.len() {
            let (word, mask) = (bit / 64, 1_u64 << (bit % 64));
            let Some(pivot) = (next..rows).find(|row| self.bits[row * words + word] & mask != 0)
            else {
                continue;
            };
            self.swap(pivot, next, words, size);
            let spare = &mut self.spare;
            spare.clear();
            spare.extend_from_slice(&self.octets[next * size..][..size]);
            for row in (0..rows).filter(|&row| row != next) {
                if self.bits[row * words + word] & mask == 0 {
                    continue;
                }
                for at in 0..words {
                    self.bits[row * words + at] ^= self.bits[next * words + at];
                }
                xor_into(&mut self.octets[row * size..][..size], spare);
            }
            next += 1;
        }
    }

    fn swap(&mut self, a: usize, b: usize, words: usize, size: usize) {
        if a == b {
            return;
        }
        for at in 0..words {
            self.bits.swap(a * words + at, b * words + at);
        }
        for at in 0..size {
            self.octets.swap(a * size + at, b * size + at);
        }
    }

    /// Puts the cells all of whose symbols are determined.
    fn put(&mut self, words: usize, of: &Equations, octets: &mut [u8], is_there: &mut [bool]) {
        let (size, per_cell) = (of.symbol(), of.per_cell());
        let mut determined = 0;
        let mut cell = usize::MAX;
        // Rows are in the order of their first unknown symbol, and those of a cell follow each other.
        for (row, bits) in self.bits.chunks_exact(words).enumerate() {
            let ones: u32 = bits.iter().map(|word| word.count_ones()).sum();
            if ones != 1 {
                continue;
            }
            let bit = bits.iter().zip(0..).find(|(word, _)| **word != 0);
            let Some(bit) = bit.map(|(word, at)| at * 64 + word.trailing_zeros() as usize) else {
                continue;
            };
            let symbol = usize::from(self.unknown[bit]);
            if symbol / per_cell != cell {
                (cell, determined) = (symbol / per_cell, 0);
            }
            octets[symbol * size..][..size].copy_from_slice(&self.octets[row * size..][..size]);
            determined += 1;
            if determined == per_cell {
                is_there[cell] = true;
            }
        }
    }
}
