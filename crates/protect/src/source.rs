use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use thiserror::Error;

/// Public Ed25519 key of a source: the identity of a flow's origin. As text base64url, 43 characters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceKey(pub [u8; 32]);

/// A text that is no [`SourceKey`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("an Ed25519 public key is 43 characters of base64url")]
pub struct SourceKeyError;

/// A source or the holder of a token, able to sign: an Ed25519 key pair (RFC 8032).
pub struct Signer {
    pair: Ed25519KeyPair,
}

impl Signer {
    /// The signer with this secret seed, which must be random.
    pub fn from_seed(seed: &[u8; 32]) -> Signer {
        let pair = Ed25519KeyPair::from_seed_unchecked(seed);
        Signer {
            pair: pair.expect("32 octets are a seed of Ed25519"),
        }
    }

    /// Its public key.
    pub fn public(&self) -> SourceKey {
        let mut key = [0; 32];
        key.copy_from_slice(self.pair.public_key().as_ref());
        SourceKey(key)
    }

    /// Signs `message`; `domain` keeps signatures for one purpose from being used for another.
    pub fn sign(&self, domain: &str, message: &[u8]) -> [u8; 64] {
        let mut signature = [0; 64];
        signature.copy_from_slice(self.pair.sign(&tagged(domain, message)).as_ref());
        signature
    }
}

impl SourceKey {
    /// Whether the holder of the secret signed `message` for the purpose `domain`.
    pub fn verifies(&self, domain: &str, message: &[u8], signature: &[u8]) -> bool {
        let key = UnparsedPublicKey::new(&ED25519, &self.0);
        key.verify(&tagged(domain, message), signature).is_ok()
    }
}

fn tagged(domain: &str, message: &[u8]) -> Vec<u8> {
    // A zero never occurs in a domain, so that none is the beginning of another.
    [domain.as_bytes(), &[0], message].concat()
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signer({})", self.public())
    }
}

impl fmt::Display for SourceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&URL_SAFE_NO_PAD.encode(self.0))
    }
}

impl fmt::Debug for SourceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SourceKey({self})")
    }
}

impl FromStr for SourceKey {
    type Err = SourceKeyError;

    fn from_str(text: &str) -> Result<SourceKey, SourceKeyError> {
        let octets = URL_SAFE_NO_PAD.decode(text).map_err(|_| SourceKeyError)?;
        Ok(SourceKey(octets.try_into().map_err(|_| SourceKeyError)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str) -> Vec<u8> {
        let digits = text.as_bytes().chunks(2);
        let octet = |pair: &[u8]| u8::from_str_radix(core::str::from_utf8(pair).unwrap(), 16);
        digits.map(|pair| octet(pair).unwrap()).collect()
    }

    #[test]
    fn the_key_pair_is_that_of_rfc_8032() {
        // Section 7.1, test 1.
        let seed = hex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60");
        let public = hex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a");
        let signer = Signer::from_seed(&seed.try_into().unwrap());
        assert_eq!(signer.public().0, public[..]);
        assert_eq!(signer.public().to_string().parse(), Ok(signer.public()));
    }

    #[test]
    fn a_signature_is_for_one_message_and_one_purpose() {
        let signer = Signer::from_seed(&[7; 32]);
        let signature = signer.sign("a", b"bc");
        let key = signer.public();
        assert!(key.verifies("a", b"bc", &signature));
        assert!(!key.verifies("ab", b"c", &signature));
        assert!(!key.verifies("a", b"bd", &signature));
        assert!(
            !Signer::from_seed(&[8; 32])
                .public()
                .verifies("a", b"bc", &signature)
        );
        assert!(!key.verifies("a", b"bc", &signature[..63]));
    }
}
