use layercast_protect::LinkKey;
use ring::rand::{SecureRandom, SystemRandom};

/// A new key for the datagrams of a link, with the number `id` modulo 16.
pub(crate) fn link_key(id: u8) -> LinkKey {
    let mut secret = [0; 32];
    // Without randomness there is no protection, and nothing to go on with.
    SystemRandom::new()
        .fill(&mut secret)
        .expect("the system has randomness");
    LinkKey::new(id, secret)
}
