use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// SHA-256 of a certificate in DER: the identity of a node, whatever name it gives itself.
///
/// As text it is base64url without padding, 43 characters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Fingerprint([u8; 32]);

/// Why a text is no fingerprint.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("{}", no_key("fingerprint", *length))]
pub struct FingerprintError {
    /// Characters of the text.
    pub length: usize,
}

/// That a text of `length` characters is not the base64url of 32 octets, which `what` is.
pub(crate) fn no_key(what: &str, length: usize) -> String {
    const LENGTH: usize = 43;
    match length {
        LENGTH => format!(
            "these {LENGTH} characters are no {what}: one of them is none of base64url (A-Z, a-z, 0-9, - and _), or is not the \
             one that was printed; copy it again"
        ),
        _ => format!(
            "{length} characters are no {what}, which has {LENGTH} of base64url (A-Z, a-z, 0-9, - and _)"
        ),
    }
}

impl Fingerprint {
    /// The fingerprint of a certificate in DER.
    pub fn of(certificate: &[u8]) -> Fingerprint {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest(&SHA256, certificate).as_ref());
        Fingerprint(bytes)
    }

    /// The same in hexadecimal with colons, as browsers and openssl show it.
    pub fn in_hexadecimal(&self) -> String {
        let octets: Vec<String> = self.0.iter().map(|it| format!("{it:02X}")).collect();
        octets.join(":")
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&URL_SAFE_NO_PAD.encode(self.0))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

impl FromStr for Fingerprint {
    type Err = FingerprintError;

    fn from_str(text: &str) -> Result<Fingerprint, FingerprintError> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok();
        let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
        bytes.map(Fingerprint).ok_or_else(|| FingerprintError {
            length: text.chars().count(),
        })
    }
}

impl TryFrom<String> for Fingerprint {
    type Error = FingerprintError;

    fn try_from(text: String) -> Result<Fingerprint, FingerprintError> {
        text.parse()
    }
}

impl From<Fingerprint> for String {
    fn from(fingerprint: Fingerprint) -> String {
        fingerprint.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_fingerprint_reads_back() {
        let fingerprint = Fingerprint::of(b"a certificate");
        let text = fingerprint.to_string();
        assert_eq!(text.len(), 43);
        assert_eq!(text.parse(), Ok(fingerprint));
        assert_eq!(format!("{fingerprint:?}"), format!("Fingerprint({text})"));
        // As serde writes and reads it.
        let written = String::from(fingerprint);
        assert_eq!(written, text);
        assert_eq!(Fingerprint::try_from(written), Ok(fingerprint));
        assert_ne!(Fingerprint::of(b"another"), fingerprint);
    }

    #[test]
    fn what_is_no_fingerprint_is_refused() {
        let long = "A".repeat(44);
        for text in ["", "AAAA", "not base64 at all!", &long] {
            let length = text.len();
            assert_eq!(
                text.parse::<Fingerprint>(),
                Err(FingerprintError { length }),
                "{text}"
            );
        }
    }
}
