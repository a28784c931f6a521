//! Protection of a flow without I/O: keys and random bytes come in from the caller, sealed bytes go out.
//!
//! Two layers (docs/src/explanation/security.md). The *link* layer authenticates and encrypts every datagram between two
//! neighbours; it is taken off and put on again at every hop. The *group* layer protects the media of a flow
//! between its source and its members; switches between them forward media that they cannot read.
//!
//! | | |
//! |---|---|
//! | [`LinkSealer`], [`LinkOpener`] | every datagram of a link: sealed by one neighbour, opened by the other |
//! | [`ReplayWindow`] | each of them once |
//! | [`Fingerprint`] | whose certificate it is |
//! | [`Signer`], [`SourceKey`] | the identity of a flow's source |
//! | [`Token`], [`Proof`] | permission to join it, presented without disclosing the secret |
//! | [`grant`], [`open_grant`] | the key of a group, handed to one member past the switches |
//! | [`GroupKey`], [`MediaCipher`] | the media of a flow, sealed by its source and opened by its members |
//! | [`FilesKey`], [`FilesSession`] | the datagrams of files to many receivers, under a key that all of them share |
//! | [`JoinUrl`] | where a flow is, and what it takes to get it |
//!
//! ```
//! use layercast_protect::{LinkKey, LinkOpener, LinkSealer, OpenError};
//!
//! let key = LinkKey::new(0, [7; 32]);
//! let (mut sealer, mut opener) = (LinkSealer::new(&key), LinkOpener::new(&key));
//! let mut datagram = Vec::new();
//! sealer.seal(&mut datagram, |out| out.extend_from_slice(b"media")).unwrap();
//! let mut replay = datagram.clone();
//! assert_eq!(opener.open(&mut datagram).unwrap(), b"media");
//! assert_eq!(opener.open(&mut replay), Err(OpenError::Replayed { counter: 0 }));
//! ```

mod clock;
mod files;
mod grant;
mod group;
mod identity;
mod link;
mod octets;
mod random;
mod replay;
mod source;
mod token;
mod url;

pub use clock::{Seed, WallClock};
pub use files::{FILES_SALT, FILES_TAG, FilesKey, FilesOpener, FilesSealer, FilesSession, Speaker};
pub use grant::{ExchangeKey, GrantError, Grantee, grant, open_grant};
pub use group::{GroupKey, MEDIA_OVERHEAD, MediaCipher, MediaError, Place};
pub use identity::{Fingerprint, FingerprintError};
pub use link::{
    Exhausted, GRACE, LINK_OVERHEAD, LinkKey, LinkKeyError, LinkOpener, LinkSealer, OpenError,
    REKEY_AFTER, SEAL_LIMIT,
};
pub use octets::OctetsError;
pub use random::Random;
pub use replay::ReplayWindow;
pub use source::{Signer, SourceKey, SourceKeyError};
pub use token::{
    Claimant, Claims, PROOF_LIFE, PROOF_RENEWAL, PROOF_SKEW, Proof, ProofError, Token, TokenError,
};
pub use url::{Control, Expect, JoinUrl, UrlError, is_host};
