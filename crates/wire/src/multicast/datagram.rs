//! What a datagram of a file transfer is: a packet of the engine, a check of a path, or either of them sealed.
//!
//! ```text
//! 0x02  a packet                                              (form.rs)
//! 0xE0  | kind | session (u64) | token (u64)                  check of a path
//! 0xE1  | kind | session (u64) | counter (u64) | rest         sealed: ciphertext and tag follow
//! ```
//!
//! The rest is a salt of 16 octets if the kind is 1, member (u64) and life (u64) if it is 2, and nothing if it is 0.

use bytes::Bytes;

use super::parse::Fields;
use super::{MemberId, Packet, PacketError};

const PATH: u8 = 0xE0;
const SEALED: u8 = 0xE1;
/// Octets of a check of a path.
pub const PATH_LEN: usize = 18;
/// Octets of a tag behind sealed content.
const TAG: usize = 16;
/// Octets that sealing adds to a data packet.
pub const SEALED_OVERHEAD: usize = 18 + TAG;

/// What is in a datagram that is not sealed, or was opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Datagram {
    /// A packet of the engine.
    Packet(Packet),
    /// A check of a path.
    Path(PathCheck),
}

/// Whether an address receives what is sent to it, as QUIC asks (RFC 9000, 8.2), and what answers it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathCheck {
    /// The session it belongs to.
    pub session: u64,
    /// What it says.
    pub body: PathBody,
}

/// What a check of a path says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PathBody {
    /// Asks for the token to be sent back.
    Challenge(u64),
    /// Sends the token back.
    Response(u64),
    /// The receiver cannot open the session: it has no key, or another one; or it has a key and the session none.
    /// It is in the clear and proves nothing.
    OtherKey,
}

/// The header of a sealed datagram. It is authenticated, but not encrypted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SealedHead {
    /// The session.
    pub session: u64,
    /// Number of the datagram among those of its speaker, the nonce of the cipher.
    pub counter: u64,
    /// The sealing party.
    pub by: SealedBy,
}

/// The party that sealed a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SealedBy {
    /// The sender.
    Sender,
    /// The sender, which announces the session: with the salt of its keys.
    Announcement([u8; 16]),
    /// A receiver.
    Receiver {
        /// Its member number.
        member: MemberId,
        /// Tells its lives apart: random.
        life: u64,
    },
}

impl Datagram {
    /// Decodes what fills `bytes`.
    ///
    /// # Errors
    /// It is neither.
    pub fn decode(bytes: &Bytes) -> Result<Datagram, PacketError> {
        match bytes.first() {
            Some(&PATH) => PathCheck::decode(bytes).map(Datagram::Path),
            _ => Packet::decode(bytes).map(Datagram::Packet),
        }
    }
}

impl PathCheck {
    /// Appends it.
    pub fn encode_into(&self, out: &mut Vec<u8>) {
        let (kind, token) = match self.body {
            PathBody::Challenge(token) => (0, token),
            PathBody::Response(token) => (1, token),
            PathBody::OtherKey => (2, 0),
        };
        out.extend_from_slice(&[PATH, kind]);
        out.extend_from_slice(&self.session.to_be_bytes());
        out.extend_from_slice(&token.to_be_bytes());
    }

    fn decode(bytes: &[u8]) -> Result<PathCheck, PacketError> {
        let mut fields = Fields(bytes);
        let (_, kind) = (fields.u8()?, fields.u8()?);
        let (session, token) = (fields.u64()?, fields.u64()?);
        let body = match (kind, token) {
            (0, token) => PathBody::Challenge(token),
            (1, token) => PathBody::Response(token),
            (2, 0) => PathBody::OtherKey,
            (2, _) => return Err(PacketError::Value("token")),
            (kind, _) => return Err(PacketError::Kind(kind)),
        };
        match fields.0.len() {
            0 => Ok(PathCheck { session, body }),
            left => Err(PacketError::Long(left)),
        }
    }
}

impl SealedHead {
    /// Whether a datagram claims to be sealed.
    pub fn is_sealed(bytes: &[u8]) -> bool {
        bytes.first() == Some(&SEALED)
    }

    /// Octets that [`encode_into`](Self::encode_into) appends.
    pub fn encoded_len(&self) -> usize {
        18 + match self.by {
            SealedBy::Sender => 0,
            SealedBy::Announcement(_) | SealedBy::Receiver { .. } => 16,
        }
    }

    /// Octets that sealing adds.
    pub fn overhead(&self) -> usize {
        self.encoded_len() + TAG
    }

    /// Appends it.
    pub fn encode_into(&self, out: &mut Vec<u8>) {
        let kind = match self.by {
            SealedBy::Sender => 0,
            SealedBy::Announcement(_) => 1,
            SealedBy::Receiver { .. } => 2,
        };
        out.extend_from_slice(&[SEALED, kind]);
        out.extend_from_slice(&self.session.to_be_bytes());
        out.extend_from_slice(&self.counter.to_be_bytes());
        match self.by {
            SealedBy::Sender => {}
            SealedBy::Announcement(salt) => out.extend_from_slice(&salt),
            SealedBy::Receiver { member, life } => {
                out.extend_from_slice(&member.0.to_be_bytes());
                out.extend_from_slice(&life.to_be_bytes());
            }
        }
    }

    /// The header of a sealed datagram; the ciphertext begins behind it, at [`encoded_len`](Self::encoded_len).
    ///
    /// # Errors
    /// It is none.
    pub fn decode(bytes: &[u8]) -> Result<SealedHead, PacketError> {
        let mut fields = Fields(bytes);
        let (mark, kind) = (fields.u8()?, fields.u8()?);
        if mark != SEALED {
            return Err(PacketError::Version(mark));
        }
        let (session, counter) = (fields.u64()?, fields.u64()?);
        let by = match kind {
            0 => SealedBy::Sender,
            1 => SealedBy::Announcement(fields.array()?),
            2 => SealedBy::Receiver {
                member: fields.member()?,
                life: fields.u64()?,
            },
            kind => return Err(PacketError::Kind(kind)),
        };
        match fields.0.len() < TAG {
            true => Err(PacketError::Short),
            false => Ok(SealedHead {
                session,
                counter,
                by,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn body() -> impl Strategy<Value = PathBody> {
        prop_oneof![
            any::<u64>().prop_map(PathBody::Challenge),
            any::<u64>().prop_map(PathBody::Response),
            Just(PathBody::OtherKey),
        ]
    }

    fn by() -> impl Strategy<Value = SealedBy> {
        prop_oneof![
            Just(SealedBy::Sender),
            any::<[u8; 16]>().prop_map(SealedBy::Announcement),
            any::<(u64, u64)>().prop_map(|(member, life)| SealedBy::Receiver {
                member: MemberId(member),
                life,
            }),
        ]
    }

    proptest! {
        #[test]
        fn checks_of_paths_come_back(session: u64, body in body()) {
            let check = PathCheck { session, body };
            let mut out = Vec::new();
            check.encode_into(&mut out);
            prop_assert_eq!(out.len(), PATH_LEN);
            prop_assert_eq!(Datagram::decode(&out.clone().into()), Ok(Datagram::Path(check)));
            out.push(0);
            prop_assert!(Datagram::decode(&out.into()).is_err());
        }

        #[test]
        fn heads_of_sealed_datagrams_come_back(session: u64, counter: u64, by in by()) {
            let head = SealedHead { session, counter, by };
            let mut out = Vec::new();
            head.encode_into(&mut out);
            prop_assert_eq!(out.len(), head.encoded_len());
            prop_assert!(SealedHead::decode(&out).is_err(), "there is no tag");
            out.extend_from_slice(&[0; TAG]);
            prop_assert_eq!(SealedHead::decode(&out), Ok(head));
        }

        #[test]
        fn anything_is_decoded_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..60), first: bool) {
            let mut bytes = bytes;
            if let Some(octet) = bytes.first_mut() {
                *octet = if first { PATH } else { SEALED };
            }
            let _ = SealedHead::decode(&bytes);
            let _ = Datagram::decode(&bytes.into());
        }
    }
}
