use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use layercast_core::{Span, Time};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, Tag, UnboundKey};
use thiserror::Error;

use crate::replay::ReplayWindow;

/// Upper four bits of the first octet of a sealed datagram; the lower four name the key.
const MARK: u8 = 0xD0;
/// Mark and key, then the counter.
const HEADER: usize = 1 + 8;
/// Authentication tag of the cipher.
const TAG: usize = 16;
/// Octets that sealing adds to a datagram.
pub const LINK_OVERHEAD: usize = HEADER + TAG;
/// Datagrams under one key after which a new one is due.
pub const REKEY_AFTER: u64 = 1 << 27;
/// Datagrams under one key at most: the confidentiality limit of AES-GCM for packets up to 2^11 octets
/// (RFC 9001, appendix B.1.1). Its integrity limit, 2^57 forgeries, is out of reach.
pub const SEAL_LIMIT: u64 = 1 << 28;
/// Between handing over a key and using it. A neighbour that has not read its session channel by then is
/// cut off.
pub const GRACE: Span = Span::from_secs(5);

/// A key for the datagrams of one direction of a link, AES-256-GCM, and its number on the wire.
///
/// The sender chooses it at random and hands it over on the session channel, as text: base64url of number
/// and key. Under one key each counter is used once, so a key must never be used by two sealers.
#[derive(Clone, PartialEq, Eq)]
pub struct LinkKey {
    id: u8,
    secret: [u8; 32],
}

/// Why a text is no link key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("not a link key: 44 characters of base64url that begin with a number below 16")]
pub struct LinkKeyError;

/// Seals the datagrams of one direction of a link.
///
/// A sealed datagram is `[0xD0 | key number][counter, 8 octets][ciphertext][tag, 16 octets]`; the header is
/// authenticated, the nonce is the counter.
pub struct LinkSealer {
    key: LinkKey,
    cipher: LessSafeKey,
    sealed: u64,
    next: Option<(Time, LinkKey)>,
}

/// Opens what the [`LinkSealer`] at the other end sealed: each datagram once, whatever the order.
///
/// It knows the last two keys it was given, so that datagrams under way survive a change.
pub struct LinkOpener {
    newer: Opening,
    older: Option<Opening>,
}

struct Opening {
    id: u8,
    key: LessSafeKey,
    window: ReplayWindow,
}

/// Why a datagram does not open. Nothing of it may be believed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum OpenError {
    /// No sealed datagram at all.
    #[error("datagram of {len} octets is not sealed")]
    NotSealed {
        /// Its length.
        len: usize,
    },
    /// Sealed with a key that was never handed over, or is no longer in use.
    #[error("sealed with the unknown key {id}")]
    UnknownKey {
        /// Number of the key.
        id: u8,
    },
    /// Somebody else made it, or changed it.
    #[error("its authentication tag is wrong")]
    Forged,
    /// Authentic, but it was opened before, or is so old that this is not known.
    #[error("datagram {counter} was opened before")]
    Replayed {
        /// Its counter.
        counter: u64,
    },
}

/// A key has reached its usage limit and must not be used any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("the link key is used up after {SEAL_LIMIT} datagrams")]
pub struct Exhausted;

impl LinkKey {
    /// The key `secret`, which must be random, under the number `id` modulo 16.
    pub fn new(id: u8, secret: [u8; 32]) -> LinkKey {
        let id = id & 0x0F;
        LinkKey { id, secret }
    }

    /// Its number on the wire.
    pub fn id(&self) -> u8 {
        self.id
    }

    /// The text form for the neighbour, to be sent over a confidential channel only.
    pub fn to_text(&self) -> String {
        let mut bytes = [0; 33];
        bytes[0] = self.id;
        bytes[1..].copy_from_slice(&self.secret);
        URL_SAFE_NO_PAD.encode(bytes)
    }

    fn cipher(&self) -> LessSafeKey {
        let key = UnboundKey::new(&AES_256_GCM, &self.secret);
        LessSafeKey::new(key.expect("32 octets are a key of AES-256"))
    }
}

impl FromStr for LinkKey {
    type Err = LinkKeyError;

    fn from_str(text: &str) -> Result<LinkKey, LinkKeyError> {
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| LinkKeyError)?;
        match bytes.split_first() {
            Some((&id, secret)) if id < 16 => {
                let secret = secret.try_into().map_err(|_| LinkKeyError)?;
                Ok(LinkKey { id, secret })
            }
            _ => Err(LinkKeyError),
        }
    }
}

/// Without the secret: keys do not belong into logs.
impl fmt::Debug for LinkKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LinkKey({}, ..)", self.id)
    }
}

impl LinkSealer {
    /// A sealer that begins with `key`.
    pub fn new(key: &LinkKey) -> LinkSealer {
        LinkSealer {
            key: key.clone(),
            cipher: key.cipher(),
            sealed: 0,
            next: None,
        }
    }

    /// Appends to `out` the datagram that `write` appends, sealed. Allocates nothing but room in `out`.
    pub fn seal(
        &mut self,
        out: &mut Vec<u8>,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), Exhausted> {
        if self.is_exhausted() {
            return Err(Exhausted);
        }
        let header = header(self.key.id, self.sealed);
        let start = out.len();
        out.extend_from_slice(&header);
        write(out);
        let body = out.get_mut(start + HEADER..).unwrap_or_default();
        let nonce = nonce(self.sealed);
        match self
            .cipher
            .seal_in_place_separate_tag(nonce, Aad::from(header), body)
        {
            Ok(tag) => {
                out.extend_from_slice(tag.as_ref());
                self.sealed += 1;
                Ok(())
            }
            // Longer than the cipher allows, which is more than any datagram.
            Err(_) => {
                out.truncate(start);
                Err(Exhausted)
            }
        }
    }

    /// Whether the key must not be used any more.
    pub fn is_exhausted(&self) -> bool {
        self.sealed >= SEAL_LIMIT
    }

    /// Whether it is time for another key.
    pub fn wants_key(&self) -> bool {
        self.next.is_none() && self.sealed >= REKEY_AFTER
    }

    /// The key in use.
    pub fn key(&self) -> &LinkKey {
        &self.key
    }

    /// The key that comes into use next, if one was staged.
    pub fn next_key(&self) -> Option<&LinkKey> {
        self.next.as_ref().map(|(_, key)| key)
    }

    /// Takes `key` into use [`GRACE`] after `now`, when it was handed to the neighbour. Not while another
    /// one is staged: the neighbour would forget the key that is still in use.
    pub fn stage(&mut self, now: Time, key: LinkKey) {
        self.next = Some((now.saturating_add(GRACE), key));
    }

    /// Takes a staged key into use if it is time.
    pub fn on_timeout(&mut self, now: Time) {
        if let Some((_, key)) = self.next.take_if(|(at, _)| *at <= now) {
            *self = LinkSealer::new(&key);
        }
    }

    /// When a staged key comes into use.
    pub fn next_timeout(&self) -> Option<Time> {
        self.next.as_ref().map(|(at, _)| *at)
    }
}

impl LinkOpener {
    /// An opener that begins with `key`.
    pub fn new(key: &LinkKey) -> LinkOpener {
        LinkOpener {
            newer: Opening::new(key),
            older: None,
        }
    }

    /// Accepts `key` as well from now on, and no longer the key before the present one. A number that is in
    /// use is given to the new key.
    pub fn add(&mut self, key: &LinkKey) {
        let before = std::mem::replace(&mut self.newer, Opening::new(key));
        self.older = Some(before).filter(|older| older.id != key.id);
    }

    /// Opens a datagram in place and gives what was in it.
    ///
    /// # Errors
    /// It is forged, replayed, or no sealed datagram at all; its octets are then worth nothing.
    pub fn open<'a>(&mut self, datagram: &'a mut [u8]) -> Result<&'a mut [u8], OpenError> {
        let len = datagram.len();
        let not_sealed = OpenError::NotSealed { len };
        let (header, body) = datagram
            .split_first_chunk_mut::<HEADER>()
            .filter(|(header, body)| header[0] & 0xF0 == MARK && body.len() >= TAG)
            .ok_or(not_sealed)?;
        let header = *header;
        let [mark, counter @ ..] = header;
        let counter = u64::from_be_bytes(counter);
        let id = mark & 0x0F;
        let opening = match &mut self.older {
            _ if self.newer.id == id => &mut self.newer,
            Some(older) if older.id == id => older,
            _ => return Err(OpenError::UnknownKey { id }),
        };
        let (cipher_text, tag) = body.split_last_chunk_mut::<TAG>().ok_or(not_sealed)?;
        let tag = Tag::from(*tag);
        let plain = opening
            .key
            .open_in_place_separate_tag(nonce(counter), Aad::from(header), tag, cipher_text, 0..)
            .map_err(|_| OpenError::Forged)?;
        // Only now: what somebody else made up is no replay, and must not move the window.
        match opening.window.accept(counter) {
            true => Ok(plain),
            false => Err(OpenError::Replayed { counter }),
        }
    }
}

impl Opening {
    fn new(key: &LinkKey) -> Opening {
        Opening {
            id: key.id,
            key: key.cipher(),
            window: ReplayWindow::default(),
        }
    }
}

fn header(id: u8, counter: u64) -> [u8; HEADER] {
    let mut header = [MARK | id; HEADER];
    header[1..].copy_from_slice(&counter.to_be_bytes());
    header
}

fn nonce(counter: u64) -> Nonce {
    let mut nonce = [0; NONCE_LEN];
    nonce[NONCE_LEN - 8..].copy_from_slice(&counter.to_be_bytes());
    Nonce::assume_unique_for_key(nonce)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealer(sealed: u64) -> LinkSealer {
        LinkSealer {
            sealed,
            ..LinkSealer::new(&LinkKey::new(1, [7; 32]))
        }
    }

    #[test]
    fn a_key_seals_up_to_its_limit_and_nothing_more() {
        let mut sealer = sealer(SEAL_LIMIT - 1);
        let mut out = Vec::new();
        assert!(!sealer.is_exhausted());
        assert_eq!(sealer.seal(&mut out, |out| out.push(1)), Ok(()));
        assert!(sealer.is_exhausted());
        let len = out.len();
        assert_eq!(sealer.seal(&mut out, |out| out.push(1)), Err(Exhausted));
        assert_eq!(out.len(), len, "nothing leaves under a key that is used up");
        // What was sealed last opens, so the limit is no earlier either.
        let mut opener = LinkOpener::new(sealer.key());
        assert_eq!(opener.open(&mut out).unwrap(), [1]);
        // The next key starts again.
        sealer.stage(Time::ZERO, LinkKey::new(2, [8; 32]));
        sealer.on_timeout(Time::ZERO + GRACE);
        assert_eq!(sealer.seal(&mut out, |out| out.push(1)), Ok(()));
    }

    #[test]
    fn another_key_is_due_well_before_the_limit() {
        assert!(!sealer(REKEY_AFTER - 1).wants_key());
        let mut due = sealer(REKEY_AFTER);
        assert!(due.wants_key());
        due.stage(Time::ZERO, LinkKey::new(2, [8; 32]));
        assert!(!due.wants_key(), "one is staged");
        assert_eq!(due.next_timeout(), Some(Time::ZERO + GRACE));
    }
}
