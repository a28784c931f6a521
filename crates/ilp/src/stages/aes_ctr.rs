//! AES-128 in counter mode (RFC 3686), by the block cipher of RustCrypto.

use aes::cipher::{BlockCipherEncrypt, KeyInit};

use super::Keys;
use crate::stage::{Stage, load, store};

/// Blocks that are enciphered together where there are many.
const AT_ONCE: usize = 8;

/// AES-128-CTR. The counter block is the nonce of the ADU and a counter from 1 on.
pub struct AesCtr {
    keys: Keys,
    cipher: aes::Aes128Enc,
    counter: u128,
}

impl AesCtr {
    /// With the first 16 octets of the key.
    #[must_use]
    pub fn new(keys: &Keys) -> AesCtr {
        let mut stage = AesCtr {
            keys: keys.clone(),
            cipher: aes::Aes128Enc::new(&keys.short::<16>().into()),
            counter: 0,
        };
        stage.begin(0);
        stage
    }

    /// The next blocks of the key stream.
    #[inline(always)]
    fn next<const N: usize>(&mut self) -> [aes::Block; N] {
        let mut blocks = std::array::from_fn(|at| {
            let counter = self.counter.wrapping_add(at as u128);
            counter.to_be_bytes().into()
        });
        self.counter = self.counter.wrapping_add(N as u128);
        self.cipher.encrypt_blocks(&mut blocks);
        blocks
    }
}

impl Stage for AesCtr {
    const NAME: &'static str = "aes-ctr";
    const WORDS: usize = 4;
    const STATE_WORDS: usize = 4;
    const INSTR_PER_WORD: u32 = 6;
    const READS_ONLY: bool = false;
    const LIBRARY_LOOP: bool = true;

    fn begin(&mut self, adu: u64) {
        let mut block = [0; 16];
        block[..12].copy_from_slice(&self.keys.of_adu(adu));
        self.counter = u128::from_be_bytes(block) + 1;
    }
    #[inline(always)]
    fn fwd(&mut self, unit: &mut [u32]) {
        let [block] = self.next();
        let mut stream = [0; 4];
        load(&block, &mut stream);
        for (word, key) in unit.iter_mut().zip(stream) {
            *word ^= key;
        }
    }
    fn fwd_run(&mut self, octets: &mut [u8]) {
        let mut many = octets.chunks_exact_mut(16 * AT_ONCE);
        for part in &mut many {
            let stream = self.next::<AT_ONCE>();
            for (octet, key) in part.iter_mut().zip(stream.as_flattened_octets()) {
                *octet ^= key;
            }
        }
        let mut unit = [0; 4];
        for part in many.into_remainder().chunks_exact_mut(16) {
            load(part, &mut unit);
            self.fwd(&mut unit);
            store(&unit, part);
        }
    }
    fn inv_run(&mut self, octets: &mut [u8]) {
        self.fwd_run(octets);
    }
}

/// The octets of several blocks in order.
trait Flattened {
    fn as_flattened_octets(&self) -> impl Iterator<Item = u8>;
}

impl<const N: usize> Flattened for [aes::Block; N] {
    #[inline(always)]
    fn as_flattened_octets(&self) -> impl Iterator<Item = u8> {
        self.iter().flat_map(|block| block.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vector_of_the_rfc() {
        // RFC 3686, test vector 2: 32 octets.
        let key = 0x7e24_0678_17fa_e0d7_43d6_ce1f_3253_9163_u128.to_be_bytes();
        let mut keys = Keys {
            key: [0; 32],
            nonce: [0; 12],
        };
        keys.key[..16].copy_from_slice(&key);
        keys.nonce[..4].copy_from_slice(&0x006c_b6db_u32.to_be_bytes());
        keys.nonce[4..].copy_from_slice(&0xc054_3b59_da48_d90b_u64.to_be_bytes());
        let text: Vec<u8> = (0..32).collect();
        let wanted = [
            0x5104_a106_168a_72d9_790d_41ee_8eda_d388_u128,
            0xeb2e_1efc_46da_57c8_fce6_30df_9141_be28,
        ];
        let mut stage = AesCtr::new(&keys);
        let mut run = text.clone();
        stage.fwd_run(&mut run);
        let wanted: Vec<u8> = wanted
            .iter()
            .flat_map(|block| block.to_be_bytes())
            .collect();
        assert_eq!(run, wanted);
        // Many blocks together give what single ones give.
        let (mut many, mut single) = (vec![7; 16 * 21], vec![7; 16 * 21]);
        stage.begin(9);
        stage.fwd_run(&mut many);
        stage.begin(9);
        crate::stage::each_unit(&mut single, 4, false, |unit| stage.fwd(unit));
        assert_eq!(many, single);
    }
}
