use std::collections::VecDeque;

use bytes::BytesMut;
use layercast_core::Layer;
use layercast_protect::{GroupKey, MEDIA_OVERHEAD, MediaCipher, MediaError, Place};
use layercast_wire::{MetsHeader, Payload};

/// Epochs whose media can be opened: the one in use, and the one before or after it.
const EPOCHS: usize = 2;
/// Least media in a sealed packet other than the last of its frame, as sources are checked.
const LEAST_MEDIA: u32 = 64 - MEDIA_OVERHEAD as u32;

/// Opens the media of a sealed flow.
#[derive(Default, Debug)]
pub(crate) struct Opener {
    /// Newest first.
    epochs: VecDeque<MediaCipher>,
    /// Something came that no key opens: there may be a newer one.
    pub wants_key: bool,
}

impl Opener {
    /// Takes a key into use; gives whether it is newer than those at hand.
    pub fn add(&mut self, key: &GroupKey) -> bool {
        let newest = self.epochs.front().map(MediaCipher::epoch);
        if newest.is_some_and(|newest| key.epoch() <= newest) {
            return false;
        }
        let low = key.epoch() as u8;
        self.epochs.retain(|old| old.epoch() as u8 != low);
        self.epochs.truncate(EPOCHS - 1);
        self.epochs.push_front(MediaCipher::new(key));
        self.wants_key = false;
        true
    }

    /// Whether there is a key at all.
    pub fn has_key(&self) -> bool {
        !self.epochs.is_empty()
    }

    /// Opens the media of a packet; gives them and the number of their epoch.
    pub fn open(
        &mut self,
        layer: Layer,
        header: &MetsHeader,
        payload: Payload,
    ) -> Result<(Payload, u32), MediaError> {
        let mut sealed = match payload {
            // In place if no other reference to the datagram exists.
            Payload::Bytes(bytes) => bytes
                .try_into_mut()
                .unwrap_or_else(|shared| BytesMut::from(&shared[..])),
            Payload::Zeros(len) => BytesMut::zeroed(len as usize),
        };
        let low = MediaCipher::epoch_of(&sealed).ok_or(MediaError::NotSealed(sealed.len()))?;
        let mut epochs = self.epochs.iter();
        let cipher = epochs.find(|cipher| cipher.epoch() as u8 == low);
        let place = Place {
            flow: header.flow,
            seq: header.seq,
            offset: header.offset,
        };
        let opened = cipher.ok_or(MediaError::NoKey).and_then(|cipher| {
            let len = cipher.open(layer, place, &header.fixed().encode(), &mut sealed)?;
            Ok((len, cipher.epoch()))
        });
        // A layer that we may not have is no reason to ask.
        let capped = cipher.is_some() && opened == Err(MediaError::NoKey);
        self.wants_key |= opened.is_err() && !capped;
        let (len, epoch) = opened?;
        sealed.truncate(len);
        Ok((Payload::Bytes(sealed.freeze()), epoch))
    }

    /// Most bytes that a frame of `max_frame` bytes has when it is sealed.
    pub fn sealed_frame(max_frame: u32) -> u32 {
        let packets = max_frame / LEAST_MEDIA + 1;
        max_frame.saturating_add(packets.saturating_mul(MEDIA_OVERHEAD as u32))
    }
}
