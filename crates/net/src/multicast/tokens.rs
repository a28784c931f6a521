use std::net::{IpAddr, SocketAddr};

use crate::random::random_seed;

/// Tokens that only the receiver of packets to an address can know: a keyed hash of address and session, so
/// that no state is needed.
#[derive(Debug)]
pub struct Tokens {
    secret: [u8; 32],
}

impl Tokens {
    /// With a new secret.
    pub fn new() -> Tokens {
        Tokens {
            secret: random_seed().0,
        }
    }

    /// The token of an address in a session.
    pub fn of(&self, address: SocketAddr, session: u64) -> u64 {
        let mut hasher = blake3::Hasher::new_keyed(&self.secret);
        match address.ip() {
            IpAddr::V4(ip) => hasher.update(&ip.octets()),
            IpAddr::V6(ip) => hasher.update(&ip.octets()),
        };
        hasher.update(&address.port().to_be_bytes());
        hasher.update(&session.to_be_bytes());
        let [a, b, c, d, e, f, g, h, ..] = *hasher.finalize().as_bytes();
        u64::from_be_bytes([a, b, c, d, e, f, g, h])
    }
}
