use std::fmt;

use layercast_core::{FlowId, Layer, Level, Serial};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, Tag, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Salt};
use thiserror::Error;

/// Authentication tag of the cipher.
const TAG: usize = 16;
/// Octets that sealing adds to the media of a packet: the tag, and the epoch.
pub const MEDIA_OVERHEAD: usize = TAG + 1;

/// The keys of the layers of a flow during one epoch, up to some layer.
///
/// Each layer has a key of its own, so that a member that may have the base layer cannot read more
/// than that, whatever reaches it.
#[derive(Clone, PartialEq, Eq)]
pub struct GroupKey {
    epoch: u32,
    keys: Vec<[u8; 32]>,
}

/// Where in a flow a packet belongs: never twice the same under one key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// The flow.
    pub flow: FlowId,
    /// Number of the frame.
    pub seq: Serial,
    /// Where in the frame it begins.
    pub offset: u32,
}

/// Seals and opens the media of one epoch.
///
/// Sealed media are `[ciphertext][tag, 16 octets][epoch modulo 256]`, AES-256-GCM with the METS header as
/// additional data: switches can read it, but a change is detected.
pub struct MediaCipher {
    epoch: u32,
    keys: [Option<LessSafeKey>; 3],
}

/// Why media do not open.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum MediaError {
    /// Too short to be sealed.
    #[error("media of {0} octets are not sealed")]
    NotSealed(usize),
    /// Of another epoch, or of a layer whose key we do not have.
    #[error("no key for it")]
    NoKey,
    /// Somebody else made it, or changed it.
    #[error("its authentication tag is wrong")]
    Forged,
}

impl GroupKey {
    /// The keys of all layers in `epoch`, out of a random secret.
    pub fn new(epoch: u32, secret: &[u8; 32]) -> GroupKey {
        let salt = Salt::new(HKDF_SHA256, b"layercast group key 1").extract(secret);
        let key = |layer: Layer| {
            let info = [layer as u8];
            let mut key = [0; 32];
            // Fails only for outputs longer than 255 hashes.
            if let Ok(okm) = salt.expand(&[&info], HKDF_SHA256) {
                let _ = okm.fill(&mut key);
            }
            key
        };
        GroupKey {
            epoch,
            keys: Layer::ALL.into_iter().map(key).collect(),
        }
    }

    /// The keys of the layers of `level` only.
    pub fn up_to(&self, level: Level) -> GroupKey {
        let layers = Layer::ALL
            .into_iter()
            .filter(|&layer| level.includes(layer));
        GroupKey {
            epoch: self.epoch,
            keys: self.keys.iter().zip(layers).map(|(key, _)| *key).collect(),
        }
    }

    /// The epoch.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Its keys, from the base layer up.
    pub(crate) fn keys(&self) -> &[[u8; 32]] {
        &self.keys
    }

    pub(crate) fn of_keys(epoch: u32, keys: Vec<[u8; 32]>) -> GroupKey {
        GroupKey { epoch, keys }
    }
}

impl fmt::Debug for GroupKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "GroupKey(epoch {}, {} layers)",
            self.epoch,
            self.keys.len()
        )
    }
}

impl MediaCipher {
    /// The cipher of an epoch.
    pub fn new(key: &GroupKey) -> MediaCipher {
        let cipher = |layer: Layer| {
            let key = key.keys.get(layer as usize)?;
            Some(LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key).ok()?))
        };
        MediaCipher {
            epoch: key.epoch,
            keys: Layer::ALL.map(cipher),
        }
    }

    /// The epoch.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// The epoch of sealed media, modulo 256.
    pub fn epoch_of(sealed: &[u8]) -> Option<u8> {
        (sealed.len() > MEDIA_OVERHEAD).then(|| sealed.last().copied())?
    }

    /// Seals `media` in place; gives what to append.
    pub fn seal(
        &self,
        layer: Layer,
        place: Place,
        header: &[u8],
        media: &mut [u8],
    ) -> Result<[u8; MEDIA_OVERHEAD], MediaError> {
        let key = self.keys[layer as usize]
            .as_ref()
            .ok_or(MediaError::NoKey)?;
        let tag = key
            .seal_in_place_separate_tag(nonce(place), Aad::from(header), media)
            .map_err(|_| MediaError::NotSealed(media.len()))?;
        let mut trailer = [0; MEDIA_OVERHEAD];
        trailer[..TAG].copy_from_slice(tag.as_ref());
        trailer[TAG] = self.epoch as u8;
        Ok(trailer)
    }

    /// Opens sealed media in place; gives how many octets of media there are.
    pub fn open(
        &self,
        layer: Layer,
        place: Place,
        header: &[u8],
        sealed: &mut [u8],
    ) -> Result<usize, MediaError> {
        let not_sealed = MediaError::NotSealed(sealed.len());
        let (media, trailer) = sealed
            .split_last_chunk_mut::<MEDIA_OVERHEAD>()
            .filter(|(media, _)| !media.is_empty())
            .ok_or(not_sealed)?;
        let [tag @ .., epoch] = *trailer;
        let key = self.keys[layer as usize].as_ref();
        let key = key
            .filter(|_| epoch == self.epoch as u8)
            .ok_or(MediaError::NoKey)?;
        key.open_in_place_separate_tag(nonce(place), Aad::from(header), Tag::from(tag), media, 0..)
            .map(|media| media.len())
            .map_err(|_| MediaError::Forged)
    }
}

impl fmt::Debug for MediaCipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MediaCipher(epoch {})", self.epoch)
    }
}

fn nonce(place: Place) -> Nonce {
    let mut nonce = [0; NONCE_LEN];
    nonce[..4].copy_from_slice(&place.flow.0.to_be_bytes());
    nonce[4..8].copy_from_slice(&place.seq.0.to_be_bytes());
    nonce[8..].copy_from_slice(&place.offset.to_be_bytes());
    Nonce::assume_unique_for_key(nonce)
}
