use layercast_protect::{LinkKey, Seed};
use ring::rand::{SecureRandom, SystemRandom};

/// 32 octets of the randomness of the system.
pub fn random_seed() -> Seed {
    let mut secret = [0; 32];
    // Without randomness there is no protection, and nothing to continue with.
    SystemRandom::new()
        .fill(&mut secret)
        .expect("the system has randomness");
    Seed(secret)
}

/// Any number.
pub fn random_number() -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = random_seed().0;
    u64::from_be_bytes([a, b, c, d, e, f, g, h])
}

/// A new key for the datagrams of a link, with the number `id` modulo 16.
pub(crate) fn link_key(id: u8) -> LinkKey {
    LinkKey::new(id, random_seed().0)
}
