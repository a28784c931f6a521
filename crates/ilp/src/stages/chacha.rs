//! ChaCha20 and Poly1305 (RFC 8439), by the libraries of RustCrypto.

use chacha20::cipher::{KeyIvInit, StreamCipher, StreamCipherSeek};
use poly1305::universal_hash::{KeyInit, UniversalHash};

use super::Keys;
use crate::stage::{MAX_RESULT, Stage, load, store};

/// The key stream of one ADU from block `block` on.
fn stream(keys: &Keys, adu: u64, block: u64) -> chacha20::ChaCha20 {
    let mut cipher = chacha20::ChaCha20::new(&keys.key.into(), &keys.of_adu(adu).into());
    cipher.seek(64 * block);
    cipher
}

/// ChaCha20 from block 1 on: block 0 is the key of [`Poly1305`].
pub struct ChaCha20 {
    keys: Keys,
    cipher: chacha20::ChaCha20,
}

impl ChaCha20 {
    /// With its key and nonce.
    #[must_use]
    pub fn new(keys: &Keys) -> ChaCha20 {
        ChaCha20 {
            keys: keys.clone(),
            cipher: stream(keys, 0, 1),
        }
    }
}

impl Stage for ChaCha20 {
    const NAME: &'static str = "chacha20";
    const WORDS: usize = 16;
    const STATE_WORDS: usize = 16;
    const INSTR_PER_WORD: u32 = 62;
    const READS_ONLY: bool = false;
    const LIBRARY_LOOP: bool = true;

    fn begin(&mut self, adu: u64) {
        self.cipher = stream(&self.keys, adu, 1);
    }
    #[inline(always)]
    fn fwd(&mut self, unit: &mut [u32]) {
        let mut block = [0; 64];
        store(unit, &mut block);
        self.cipher.apply_keystream(&mut block);
        load(&block, unit);
    }
    fn fwd_run(&mut self, octets: &mut [u8]) {
        self.cipher.apply_keystream(octets);
    }
    fn inv_run(&mut self, octets: &mut [u8]) {
        self.cipher.apply_keystream(octets);
    }
}

/// Poly1305 over the octets, with a one-time key for each ADU: block 0 of its key stream (RFC 8439, 2.6).
pub struct Poly1305 {
    keys: Keys,
    state: poly1305::Poly1305,
}

impl Poly1305 {
    /// With the key and the nonce of the cipher beside it.
    #[must_use]
    pub fn new(keys: &Keys) -> Poly1305 {
        Poly1305 {
            keys: keys.clone(),
            state: one_time(keys, 0),
        }
    }
}

fn one_time(keys: &Keys, adu: u64) -> poly1305::Poly1305 {
    let mut key = [0; 32];
    stream(keys, adu, 0).apply_keystream(&mut key);
    poly1305::Poly1305::new(&key.into())
}

impl Stage for Poly1305 {
    const NAME: &'static str = "poly1305";
    const WORDS: usize = 4;
    const STATE_WORDS: usize = 10;
    const INSTR_PER_WORD: u32 = 15;
    const RESULT_WORDS: usize = 4;
    const READS_ONLY: bool = true;
    const LIBRARY_LOOP: bool = true;

    fn begin(&mut self, adu: u64) {
        self.state = one_time(&self.keys, adu);
    }
    #[inline(always)]
    fn fwd(&mut self, unit: &mut [u32]) {
        let mut block = [0; 16];
        store(unit, &mut block);
        self.state.update(&[block.into()]);
    }
    fn finish(&mut self) -> [u32; MAX_RESULT] {
        let mut words = [0; 4];
        load(&self.state.clone().finalize(), &mut words);
        words
    }
    fn fwd_run(&mut self, octets: &mut [u8]) {
        let (blocks, _) = poly1305::Block::slice_as_chunks(octets);
        self.state.update(blocks);
    }
    fn inv_run(&mut self, octets: &mut [u8]) {
        self.fwd_run(octets);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str) -> Vec<u8> {
        let digits: String = text.split_whitespace().collect();
        let octet = |at| u8::from_str_radix(&digits[at..at + 2], 16).expect("hexadecimal");
        (0..digits.len()).step_by(2).map(octet).collect()
    }

    #[test]
    fn chacha20_of_the_rfc() {
        // RFC 8439, 2.4.2, up to the end of the first block.
        let keys = Keys {
            key: std::array::from_fn(|at| at as u8),
            nonce: [0, 0, 0, 0, 0, 0, 0, 0x4a, 0, 0, 0, 0],
        };
        let text = b"Ladies and Gentlemen of the class of '99: If I could offer you o";
        let wanted = hex(
            "6e2e359a2568f98041ba0728dd0d6981e97e7aec1d4360c20a27afccfd9fae0b
             f91b65c5524733ab8f593dabcd62b3571639d624e65152ab8f530c359f0861d8",
        );
        let mut unit = [0; 16];
        load(text, &mut unit);
        let mut stage = ChaCha20::new(&keys);
        stage.begin(0);
        stage.fwd(&mut unit);
        let mut block = [0; 64];
        store(&unit, &mut block);
        assert_eq!(block.to_vec(), wanted);
        let mut run = text.to_vec();
        stage.begin(0);
        stage.fwd_run(&mut run);
        assert_eq!(run, wanted);
        // Another ADU has another key stream.
        stage.begin(1);
        stage.fwd_run(&mut run);
        assert_ne!(run, text.to_vec());
    }

    #[test]
    fn poly1305_of_the_rfc() {
        // RFC 8439, 2.5.2 has 34 octets; A.3, vector 3 with 16 octets of 0 behind has whole blocks. Vector 7.
        let key: [u8; 32] = std::array::from_fn(|at| u8::from(at == 0));
        let mut stage = Poly1305::new(&Keys {
            key: [0; 32],
            nonce: [0; 12],
        });
        stage.state = poly1305::Poly1305::new(&key.into());
        let text = hex(
            "FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF F0FFFFFFFFFFFFFFFFFFFFFFFFFFFFFF 11000000000000000000000000000000",
        );
        let (mut whole, mut unit) = (text, [0; 4]);
        load(&whole[..16], &mut unit);
        stage.fwd(&mut unit);
        stage.fwd_run(&mut whole[16..]);
        assert_eq!(stage.finish(), [0x0500_0000, 0, 0, 0]);
    }

    #[test]
    fn the_one_time_key_of_the_rfc() {
        // RFC 8439, 2.6.2.
        let keys = Keys {
            key: std::array::from_fn(|at| 0x80 + at as u8),
            nonce: [0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7],
        };
        let mut key = [0; 32];
        stream(&keys, 0, 0).apply_keystream(&mut key);
        let wanted = hex("8ad5a08b905f81cc815040274ab29471a833b637e3fd0da508dbb8e2fdd1a646");
        assert_eq!(key.to_vec(), wanted);
    }
}
