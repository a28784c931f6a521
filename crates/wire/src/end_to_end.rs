use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::{Refusal, SignalError};

/// Most bytes of one control message of an application.
pub const MAX_APP: usize = 16 * 1024;
/// Most bytes of a proof, of a request for a key or of the answer.
pub const MAX_PROOF: usize = 2 * 1024;

/// What a member tells the source of a flow; switches pass it on unread.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Upward {
    /// The control socket (specs/mets.md 2.2).
    App(Control),
    /// The key of the group is wanted.
    KeyRequest {
        /// The proof of a token, or a public key where no token is needed.
        request: Opaque,
    },
}

/// What the source of a flow tells one member; switches pass it on unread.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Downward {
    /// The control socket (specs/mets.md 2.2).
    App(Control),
    /// The key of the group, sealed for the member.
    KeyGrant {
        /// Signed by the source.
        grant: Opaque,
    },
    /// The key is not for the member, or not any more.
    KeyDenied {
        /// What it is missing.
        refusal: Refusal,
    },
}

/// One direction of a control socket (specs/mets.md 2.2): numbered messages, taken in order and once.
///
/// Every hop is reliable, but a hop may break with a message on it; so both ends count.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "part", rename_all = "snake_case")]
pub enum Control {
    /// A message of the application.
    Data {
        /// Names the counter: a sender that started again has another.
        session: u32,
        /// Number of the message in its session.
        number: u32,
        /// The first message that was not answered yet: where a receiver that knows nothing begins.
        oldest: u32,
        /// The message, at most [`MAX_APP`] bytes.
        data: Opaque,
    },
    /// Every message before `next` was taken by the application.
    Taken {
        /// The session of the sender that is answered.
        session: u32,
        /// The message that is expected.
        next: u32,
    },
}

/// Bytes that only the ends of a path understand; URL-safe base64 without padding (RFC 4648, 5) in
/// a line.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Opaque(pub Bytes);

/// The source of a flow whose media are sealed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Identity {
    /// Public Ed25519 key of the source.
    pub key: Opaque,
    /// Its signature over [`FlowInfo::signed_part`](crate::FlowInfo::signed_part).
    pub signature: Opaque,
    /// Whether members need a token of the source.
    #[serde(default)]
    pub tokens: bool,
}

impl Identity {
    pub(crate) fn check(&self) -> Result<(), SignalError> {
        self.key.check("key", 32)?;
        self.signature.check("signature", 64)
    }
}

impl Upward {
    pub(crate) fn check(&self) -> Result<(), SignalError> {
        match self {
            Upward::App(control) => control.check(),
            Upward::KeyRequest { request } => request.check("request", MAX_PROOF),
        }
    }
}

impl Downward {
    pub(crate) fn check(&self) -> Result<(), SignalError> {
        match self {
            Downward::App(control) => control.check(),
            Downward::KeyGrant { grant } => grant.check("grant", MAX_PROOF),
            Downward::KeyDenied { refusal } => crate::signal::name("node", &refusal.node),
        }
    }
}

impl Control {
    fn check(&self) -> Result<(), SignalError> {
        match self {
            Control::Data { data, .. } => data.check("data", MAX_APP),
            Control::Taken { .. } => Ok(()),
        }
    }
}

impl Opaque {
    pub(crate) fn check(&self, field: &'static str, bound: usize) -> Result<(), SignalError> {
        match self.0.len() <= bound {
            true => Ok(()),
            false => Err(SignalError::Text {
                field,
                problem: "is too long",
            }),
        }
    }
}

impl From<Bytes> for Opaque {
    fn from(bytes: Bytes) -> Opaque {
        Opaque(bytes)
    }
}

impl From<Vec<u8>> for Opaque {
    fn from(bytes: Vec<u8>) -> Opaque {
        Opaque(bytes.into())
    }
}

impl fmt::Debug for Opaque {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Opaque({} bytes)", self.0.len())
    }
}

impl Serialize for Opaque {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&URL_SAFE_NO_PAD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Opaque {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Opaque, D::Error> {
        struct Text;
        impl de::Visitor<'_> for Text {
            type Value = Opaque;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("URL-safe base64 without padding")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Opaque, E> {
                let bytes = URL_SAFE_NO_PAD.decode(text).map_err(E::custom)?;
                Ok(Opaque(bytes.into()))
            }
        }
        deserializer.deserialize_str(Text)
    }
}
