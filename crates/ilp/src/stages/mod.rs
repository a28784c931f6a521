//! The stages of the library (specs/ilp-code-generation.md 2.10).

mod aes_ctr;
mod chacha;
mod crc;
mod plain;
mod safer;

pub use aes_ctr::AesCtr;
pub use chacha::{ChaCha20, Poly1305};
pub use crc::{Crc32Aal5, Crc32c};
pub use plain::{ByteSwap, Checksum, Copy, Parity, Pes};
pub use safer::{Safer, SaferKeys};

use crate::stage::{AnyStage, Shape, shape};

/// What ciphers are keyed with. A direction of a connection has one of its own.
#[derive(Clone, PartialEq, Eq)]
pub struct Keys {
    /// Key; ciphers with shorter keys take its first octets.
    pub key: [u8; 32],
    /// What the number of an ADU is mixed into; ciphers with shorter ones take its first octets.
    pub nonce: [u8; 12],
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Keys(..)")
    }
}

impl Keys {
    /// The first `N` octets of the key.
    #[must_use]
    pub fn short<const N: usize>(&self) -> [u8; N] {
        std::array::from_fn(|at| self.key[at])
    }

    /// The nonce of one ADU: its number is mixed into the last eight octets, as in TLS 1.3.
    #[must_use]
    pub fn of_adu(&self, adu: u64) -> [u8; 12] {
        let mut nonce = self.nonce;
        for (octet, number) in nonce[4..].iter_mut().zip(adu.to_be_bytes()) {
            *octet ^= number;
        }
        nonce
    }
}

/// A stage of the library.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// What is fixed.
    pub shape: Shape,
    /// What it does, in words.
    pub about: &'static str,
    /// Makes one.
    pub make: fn(&Keys) -> Box<dyn AnyStage>,
}

/// All stages of the library.
pub const LIBRARY: &[Entry] = &[
    Entry {
        shape: shape::<Copy>(),
        about: "moves the octets",
        make: |_| Box::new(Copy),
    },
    Entry {
        shape: shape::<ByteSwap>(),
        about: "turns the octets of each word round, as XDR does on a little-endian host",
        make: |_| Box::new(ByteSwap),
    },
    Entry {
        shape: shape::<Checksum>(),
        about: "Internet checksum (RFC 1071)",
        make: |_| Box::new(Checksum::default()),
    },
    Entry {
        shape: shape::<Crc32Aal5>(),
        about: "CRC-32 of AAL5 (ITU-T I.363.5)",
        make: |_| Box::new(Crc32Aal5::default()),
    },
    Entry {
        shape: shape::<Crc32c>(),
        about: "CRC-32C (RFC 3720)",
        make: |_| Box::new(Crc32c::default()),
    },
    Entry {
        shape: shape::<Parity>(),
        about: "exclusive or of all words",
        make: |_| Box::new(Parity::default()),
    },
    Entry {
        shape: shape::<Pes>(),
        about: "trivial cipher of the 1993 experiments; protects nothing",
        make: |_| Box::new(Pes::default()),
    },
    Entry {
        shape: shape::<Safer>(),
        about: "SAFER K-64, six rounds, ECB; for reproduction only",
        make: |keys| Box::new(Safer::new(keys.short(), 6)),
    },
    Entry {
        shape: shape::<AesCtr>(),
        about: "AES-128 in counter mode (RFC 3686)",
        make: |keys| Box::new(AesCtr::new(keys)),
    },
    Entry {
        shape: shape::<ChaCha20>(),
        about: "ChaCha20 (RFC 8439)",
        make: |keys| Box::new(ChaCha20::new(keys)),
    },
    Entry {
        shape: shape::<Poly1305>(),
        about: "Poly1305 with the one-time key of RFC 8439, 2.6; a message authentication code",
        make: |keys| Box::new(Poly1305::new(keys)),
    },
];

/// The stage of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Entry> {
    LIBRARY.iter().find(|entry| entry.shape.name == name)
}
