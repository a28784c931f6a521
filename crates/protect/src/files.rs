//! The datagrams of a file transfer, sealed with a key that its sender and its receivers share.

use std::fmt;

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, Tag, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Prk, Salt};

use crate::link::OpenError;
use crate::replay::ReplayWindow;

/// Octets of the salt of a session.
pub const FILES_SALT: usize = 16;
/// Octets of an authentication tag.
pub const FILES_TAG: usize = 16;
/// Datagrams under one key: below the confidentiality limit of AES-GCM, 2^28 packets of 2^11 octets (RFC 9001,
/// appendix B.1.1). The number of the key is the counter divided by this, so that both ends change it together.
const OF_ONE_KEY: u64 = 1 << 27;

/// The key that the sender and the receivers of files share.
#[derive(Clone)]
pub struct FilesKey([u8; 32]);

/// The secrets of one session of a sender: one for what the sender says, one for each life of each receiver.
///
/// They follow from the shared key, the number of the session and a random salt of the sender (HKDF-SHA256, RFC 5869),
/// so that no two sessions have a secret in common.
#[derive(Clone)]
pub struct FilesSession(Secret);

/// The author of a message in a session. Each has a key of its own, with which each counter is used once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Speaker {
    /// The sender.
    Sender,
    /// A receiver: its member number, and a random number that is new in each life.
    Receiver {
        /// Its member number.
        member: u64,
        /// Of this life.
        life: u64,
    },
}

#[derive(Clone, Copy)]
struct Secret([u8; 32]);

impl Secret {
    fn prk(&self) -> Prk {
        Prk::new_less_safe(HKDF_SHA256, &self.0)
    }

    fn derive(&self, info: &[&[u8]]) -> Secret {
        let mut out = [0; 32];
        // Fails only for outputs longer than 255 hashes.
        if let Ok(okm) = self.prk().expand(info, HKDF_SHA256) {
            let _ = okm.fill(&mut out);
        }
        Secret(out)
    }

    /// The cipher of a key number.
    fn cipher(&self, number: u64) -> Option<LessSafeKey> {
        let key = self.derive(&[b"key", &number.to_be_bytes()]);
        Some(LessSafeKey::new(
            UnboundKey::new(&AES_256_GCM, &key.0).ok()?,
        ))
    }
}

impl FilesKey {
    /// The shared key `secret`.
    pub fn new(secret: [u8; 32]) -> FilesKey {
        FilesKey(secret)
    }

    /// The secrets of a session; `salt` is random and new in each.
    pub fn session(&self, session: u64, salt: &[u8; FILES_SALT]) -> FilesSession {
        let prk = Salt::new(HKDF_SHA256, b"layercast files 1").extract(&self.0);
        let mut out = [0; 32];
        let session = session.to_be_bytes();
        if let Ok(okm) = prk.expand(&[b"session", &session, salt], HKDF_SHA256) {
            let _ = okm.fill(&mut out);
        }
        FilesSession(Secret(out))
    }
}

impl FilesSession {
    fn secret(&self, speaker: Speaker) -> Secret {
        match speaker {
            Speaker::Sender => self.0.derive(&[b"sender"]),
            Speaker::Receiver { member, life } => {
                let (member, life) = (member.to_be_bytes(), life.to_be_bytes());
                self.0.derive(&[b"receiver", &member, &life])
            }
        }
    }

    /// Seals what `speaker` says: one sealer for each speaker, ever.
    pub fn sealer(&self, speaker: Speaker) -> FilesSealer {
        FilesSealer {
            secret: self.secret(speaker),
            counter: 0,
            key: None,
        }
    }

    /// Opens what `speaker` says.
    pub fn opener(&self, speaker: Speaker) -> FilesOpener {
        FilesOpener {
            secret: self.secret(speaker),
            keys: [None, None],
            window: ReplayWindow::default(),
        }
    }
}

/// Seals datagrams: `[header][ciphertext][tag, 16 octets]`, AES-256-GCM with the header as additional data.
///
/// The nonce is the counter, which begins at 0 and grows by one with each datagram. The key belongs to one speaker in
/// one session, and to one life of it, so a nonce is used once.
pub struct FilesSealer {
    secret: Secret,
    counter: u64,
    key: Option<(u64, LessSafeKey)>,
}

impl FilesSealer {
    /// The counter of the next datagram, for its header.
    pub fn counter(&self) -> u64 {
        self.counter
    }

    /// Seals `bytes` from `content` on, with those from `header` to there as additional data, and appends the tag.
    ///
    /// # Errors
    /// The cipher refuses; nothing may be sent.
    pub fn seal(
        &mut self,
        bytes: &mut Vec<u8>,
        header: usize,
        content: usize,
    ) -> Result<(), OpenError> {
        debug_assert!(header <= content && content <= bytes.len());
        let number = self.counter / OF_ONE_KEY;
        if self.key.as_ref().is_none_or(|(at, _)| *at != number) {
            self.key = self.secret.cipher(number).map(|key| (number, key));
        }
        let Some((_, key)) = &self.key else {
            return Err(OpenError::Forged);
        };
        let (head, content) = bytes[header..].split_at_mut(content - header);
        let tag = key
            .seal_in_place_separate_tag(nonce(self.counter), Aad::from(&*head), content)
            .map_err(|_| OpenError::Forged)?;
        bytes.extend_from_slice(tag.as_ref());
        self.counter += 1;
        Ok(())
    }
}

/// Opens datagrams of one speaker, each once, whatever their order.
pub struct FilesOpener {
    secret: Secret,
    /// The keys of the highest number that opened something, and of the one before.
    keys: [Option<(u64, LessSafeKey)>; 2],
    window: ReplayWindow,
}

impl FilesOpener {
    /// Opens `sealed` in place, which is ciphertext and tag; gives the content.
    ///
    /// # Errors
    /// It is too short, not of this speaker, or was opened before.
    pub fn open<'a>(
        &mut self,
        counter: u64,
        header: &[u8],
        sealed: &'a mut [u8],
    ) -> Result<&'a [u8], OpenError> {
        let len = sealed.len();
        let (content, tag) = sealed
            .split_last_chunk_mut::<FILES_TAG>()
            .ok_or(OpenError::NotSealed { len })?;
        if !self.window.is_fresh(counter) {
            return Err(OpenError::Replayed { counter });
        }
        let number = counter / OF_ONE_KEY;
        let known = self.keys.iter().flatten().any(|(at, _)| *at == number);
        // A key of another number is kept only once it has opened something.
        let mut made = None;
        if !known {
            made = self.secret.cipher(number);
        }
        let kept = self.keys.iter().flatten().find(|(at, _)| *at == number);
        let key = kept.map(|(_, key)| key).or(made.as_ref());
        let key = key.ok_or(OpenError::Forged)?;
        key.open_in_place_separate_tag(
            nonce(counter),
            Aad::from(header),
            Tag::from(*tag),
            content,
            0..,
        )
        .map_err(|_| OpenError::Forged)?;
        if let Some(key) = made {
            self.keys.swap(0, 1);
            self.keys[0] = Some((number, key));
        }
        self.window.accept(counter);
        Ok(content)
    }
}

fn nonce(counter: u64) -> Nonce {
    let mut nonce = [0; NONCE_LEN];
    nonce[NONCE_LEN - 8..].copy_from_slice(&counter.to_be_bytes());
    Nonce::assume_unique_for_key(nonce)
}

impl fmt::Debug for FilesKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FilesKey")
    }
}

impl fmt::Debug for FilesSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FilesSession")
    }
}

impl fmt::Debug for FilesSealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FilesSealer(counter {})", self.counter)
    }
}

impl fmt::Debug for FilesOpener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FilesOpener")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMBER: Speaker = Speaker::Receiver { member: 7, life: 9 };

    fn session(key: u8, number: u64, salt: u8) -> FilesSession {
        FilesKey::new([key; 32]).session(number, &[salt; FILES_SALT])
    }

    fn sealed(sealer: &mut FilesSealer, content: &[u8]) -> (u64, Vec<u8>) {
        let counter = sealer.counter();
        let mut bytes = b"head".to_vec();
        bytes.extend_from_slice(content);
        sealer.seal(&mut bytes, 0, 4).unwrap();
        (counter, bytes[4..].to_vec())
    }

    #[test]
    fn content_comes_back_once_and_does_not_show() {
        let session = session(1, 2, 3);
        for speaker in [Speaker::Sender, MEMBER] {
            let (mut sealer, mut opener) = (session.sealer(speaker), session.opener(speaker));
            let (first, one) = sealed(&mut sealer, b"the content");
            let (second, two) = sealed(&mut sealer, b"the content");
            assert!(one != two && !one.windows(7).any(|it| it == b"content"));
            for (counter, bytes) in [(second, &two), (first, &one)] {
                let opened = opener
                    .open(counter, b"head", &mut bytes.clone())
                    .map(<[u8]>::to_vec);
                assert_eq!(opened.unwrap(), b"the content");
                let again = opener.open(counter, b"head", &mut bytes.clone()).map(drop);
                assert_eq!(again, Err(OpenError::Replayed { counter }));
            }
        }
    }

    #[test]
    fn nobody_else_opens_it_and_no_octet_can_be_changed() {
        let (counter, bytes) = sealed(&mut session(1, 2, 3).sealer(MEMBER), b"content");
        let other = Speaker::Receiver {
            member: 7,
            life: 10,
        };
        for (session, speaker) in [
            (session(9, 2, 3), MEMBER),
            (session(1, 9, 3), MEMBER),
            (session(1, 2, 9), MEMBER),
            (session(1, 2, 3), other),
            (session(1, 2, 3), Speaker::Sender),
        ] {
            let opened = session
                .opener(speaker)
                .open(counter, b"head", &mut bytes.clone())
                .map(drop);
            assert_eq!(opened, Err(OpenError::Forged));
        }
        let mut opener = session(1, 2, 3).opener(MEMBER);
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert!(opener.open(counter, b"head", &mut changed).is_err());
        }
        assert!(opener.open(counter, b"Head", &mut bytes.clone()).is_err());
        assert!(
            opener
                .open(counter + 1, b"head", &mut bytes.clone())
                .is_err()
        );
        assert!(
            opener
                .open(counter, b"head", &mut bytes[..15].to_vec())
                .is_err()
        );
        assert!(opener.open(counter, b"head", &mut bytes.clone()).is_ok());
    }

    #[test]
    fn the_key_changes_at_both_ends_before_its_limit() {
        let session = session(1, 2, 3);
        let mut sealer = session.sealer(Speaker::Sender);
        let mut opener = session.opener(Speaker::Sender);
        sealer.counter = OF_ONE_KEY - 1;
        let (last, one) = sealed(&mut sealer, b"of the first key");
        let (next, two) = sealed(&mut sealer, b"of the second");
        assert_eq!(
            (last + 1, sealer.key.as_ref().map(|it| it.0)),
            (next, Some(1))
        );
        assert!(opener.open(next, b"head", &mut two.clone()).is_ok());
        assert!(opener.open(last, b"head", &mut one.clone()).is_ok());
    }

    #[test]
    fn octets_before_the_header_stay_and_are_not_authenticated() {
        let session = session(1, 2, 3);
        let mut bytes = b"before headcontent".to_vec();
        session.sealer(MEMBER).seal(&mut bytes, 7, 11).unwrap();
        assert_eq!(&bytes[..11], b"before head");
        let mut opener = session.opener(MEMBER);
        let opened = opener.open(0, b"head", &mut bytes[11..]);
        assert_eq!(opened.unwrap(), b"content");
    }

    #[test]
    fn secrets_do_not_show_in_debug_output() {
        let session = session(1, 2, 3);
        let mut sealer = session.sealer(MEMBER);
        sealed(&mut sealer, b"content");
        for (shown, expected) in [
            (format!("{:?}", FilesKey::new([1; 32])), "FilesKey"),
            (format!("{session:?}"), "FilesSession"),
            (format!("{sealer:?}"), "FilesSealer(counter 1)"),
            (format!("{:?}", session.opener(MEMBER)), "FilesOpener"),
        ] {
            assert_eq!(shown, expected);
        }
    }

    #[test]
    fn a_forged_counter_displaces_no_key() {
        let session = session(1, 2, 3);
        let mut sealer = session.sealer(Speaker::Sender);
        let mut opener = session.opener(Speaker::Sender);
        let (counter, bytes) = sealed(&mut sealer, b"one");
        assert!(opener.open(counter, b"head", &mut bytes.clone()).is_ok());
        assert!(
            opener
                .open(OF_ONE_KEY * 9, b"head", &mut bytes.clone())
                .is_err()
        );
        let (counter, bytes) = sealed(&mut sealer, b"two");
        assert!(opener.open(counter, b"head", &mut bytes.clone()).is_ok());
    }
}
