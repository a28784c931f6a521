use std::fmt;

use ring::hmac::{HMAC_SHA256, Key, sign};

/// Secrets out of one random seed: HMAC-SHA256 of a counter.
///
/// A machine that needs a key now and then is given a seed when it is made, so that it needs no source
/// of randomness of its own and a simulation repeats itself.
pub struct Random {
    key: Key,
    drawn: u64,
}

impl Random {
    /// Secrets that follow from `seed`, which must be random and used once.
    pub fn new(seed: &[u8; 32]) -> Random {
        Random {
            key: Key::new(HMAC_SHA256, seed),
            drawn: 0,
        }
    }

    /// The next 32 octets.
    pub fn draw(&mut self) -> [u8; 32] {
        let mut out = [0; 32];
        out.copy_from_slice(sign(&self.key, &self.drawn.to_be_bytes()).as_ref());
        self.drawn += 1;
        out
    }
}

impl fmt::Debug for Random {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Random({} drawn)", self.drawn)
    }
}
