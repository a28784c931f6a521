//! SAFER K-64 (Massey 1993), to reproduce the experiments of 1996 (specs/ilp-code-generation.md 2.10). It is broken: no
//! product uses it.

use crate::stage::Stage;

/// Powers of 45 modulo 257, and their logarithms.
const TABLES: ([u8; 256], [u8; 256]) = {
    let (mut exp, mut log) = ([0; 256], [0; 256]);
    let (mut power, mut at) = (1_u32, 0);
    while at < 256 {
        exp[at] = power as u8;
        log[(power & 0xff) as usize] = at as u8;
        power = power * 45 % 257;
        at += 1;
    }
    (exp, log)
};
static EXP: [u8; 256] = TABLES.0;
static LOG: [u8; 256] = TABLES.1;

/// Most rounds of a key schedule.
const MAX_ROUNDS: usize = 12;

/// Octets 1, 4, 5 and 8 of a block, which are mixed by exclusive or first.
const XOR: [bool; 8] = [true, false, false, true, true, false, false, true];

/// The pairs of the three layers of pseudo-Hadamard transforms.
const PAIRS: [[(usize, usize); 4]; 3] = [
    [(0, 1), (2, 3), (4, 5), (6, 7)],
    [(0, 2), (4, 6), (1, 3), (5, 7)],
    [(0, 4), (1, 5), (2, 6), (3, 7)],
];

/// Where the octets of a block are after a round.
const ORDER: [usize; 8] = [0, 4, 1, 5, 2, 6, 3, 7];

/// The keys of all rounds.
#[derive(Clone)]
pub struct SaferKeys {
    rounds: usize,
    keys: [[u8; 8]; 2 * MAX_ROUNDS + 1],
}

impl SaferKeys {
    /// The key schedule for 1 to 12 rounds.
    ///
    /// # Panics
    ///
    /// With another number of rounds.
    #[must_use]
    pub fn new(key: [u8; 8], rounds: usize) -> SaferKeys {
        assert!((1..=MAX_ROUNDS).contains(&rounds), "{rounds} rounds");
        let mut keys = [[0; 8]; 2 * MAX_ROUNDS + 1];
        keys[0] = key;
        let mut running = key;
        for i in 2..=2 * rounds + 1 {
            running = running.map(|octet| octet.rotate_left(3));
            keys[i - 1] = std::array::from_fn(|j| {
                let bias = EXP[usize::from(EXP[(9 * i + j + 1) % 256])];
                running[j].wrapping_add(bias)
            });
        }
        SaferKeys { rounds, keys }
    }

    /// Enciphers one block.
    #[inline]
    pub fn encrypt(&self, block: &mut [u8; 8]) {
        for round in 0..self.rounds {
            let (first, second) = (&self.keys[2 * round], &self.keys[2 * round + 1]);
            for j in 0..8 {
                block[j] = match XOR[j] {
                    true => EXP[usize::from(block[j] ^ first[j])].wrapping_add(second[j]),
                    false => LOG[usize::from(block[j].wrapping_add(first[j]))] ^ second[j],
                };
            }
            for (x, y) in PAIRS.into_iter().flatten() {
                block[y] = block[y].wrapping_add(block[x]);
                block[x] = block[x].wrapping_add(block[y]);
            }
            let before = *block;
            *block = ORDER.map(|from| before[from]);
        }
        let last = &self.keys[2 * self.rounds];
        for j in 0..8 {
            block[j] = match XOR[j] {
                true => block[j] ^ last[j],
                false => block[j].wrapping_add(last[j]),
            };
        }
    }

    /// Deciphers one block.
    #[inline]
    pub fn decrypt(&self, block: &mut [u8; 8]) {
        let last = &self.keys[2 * self.rounds];
        for j in 0..8 {
            block[j] = match XOR[j] {
                true => block[j] ^ last[j],
                false => block[j].wrapping_sub(last[j]),
            };
        }
        for round in (0..self.rounds).rev() {
            let before = *block;
            for (at, from) in ORDER.into_iter().enumerate() {
                block[from] = before[at];
            }
            for (x, y) in PAIRS.into_iter().rev().flatten() {
                block[x] = block[x].wrapping_sub(block[y]);
                block[y] = block[y].wrapping_sub(block[x]);
            }
            let (first, second) = (&self.keys[2 * round], &self.keys[2 * round + 1]);
            for j in 0..8 {
                block[j] = match XOR[j] {
                    true => LOG[usize::from(block[j].wrapping_sub(second[j]))] ^ first[j],
                    false => EXP[usize::from(block[j] ^ second[j])].wrapping_sub(first[j]),
                };
            }
        }
    }
}

/// SAFER K-64 as a stage, in ECB as the macro of the paper has no chaining.
#[derive(Clone)]
pub struct Safer {
    keys: SaferKeys,
}

impl Safer {
    /// With a key, and 1 to 12 rounds.
    ///
    /// # Panics
    ///
    /// With another number of rounds.
    #[must_use]
    pub fn new(key: [u8; 8], rounds: usize) -> Safer {
        Safer {
            keys: SaferKeys::new(key, rounds),
        }
    }
}

/// The octets of two words.
#[inline(always)]
fn block(unit: &[u32]) -> [u8; 8] {
    (u64::from(unit[0]) << 32 | u64::from(unit[1])).to_be_bytes()
}

#[inline(always)]
fn put(unit: &mut [u32], block: [u8; 8]) {
    let both = u64::from_be_bytes(block);
    unit[0] = (both >> 32) as u32;
    unit[1] = both as u32;
}

impl Stage for Safer {
    const NAME: &'static str = "safer-k64";
    const WORDS: usize = 2;
    const STATE_WORDS: usize = 0;
    const INSTR_PER_WORD: u32 = 240;
    const READS_ONLY: bool = false;

    #[inline(always)]
    fn fwd(&mut self, unit: &mut [u32]) {
        let mut octets = block(unit);
        self.keys.encrypt(&mut octets);
        put(unit, octets);
    }
    #[inline(always)]
    fn inv(&mut self, unit: &mut [u32]) {
        let mut octets = block(unit);
        self.keys.decrypt(&mut octets);
        put(unit, octets);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors() {
        let key = [8, 7, 6, 5, 4, 3, 2, 1];
        let text = [1, 2, 3, 4, 5, 6, 7, 8];
        for (key, rounds, text, wanted) in [
            ([0; 8], 6, [0; 8], 0x0328_08c9_0ee7_ab7f_u64),
            (key, 6, text, 0xc8f2_9cdd_8778_3ed9),
            ([0; 8], 6, text, 0x7d28_0386_33b9_2eb4),
            (key, 1, text, 0x2c69_1ffd_cda6_e965),
        ] {
            let keys = SaferKeys::new(key, rounds);
            let mut block = text;
            keys.encrypt(&mut block);
            assert_eq!(u64::from_be_bytes(block), wanted, "{key:?} {rounds}");
            keys.decrypt(&mut block);
            assert_eq!(block, text);
        }
    }
}
