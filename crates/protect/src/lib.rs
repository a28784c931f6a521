//! Protection of a flow without I/O: keys and random bytes come in from the caller, sealed bytes go out.
//!
//! Two layers (docs/security.md). The *link* layer authenticates and encrypts every datagram between two
//! neighbours; it is taken off and put on again at every hop.
//!
//! | | |
//! |---|---|
//! | [`LinkSealer`], [`LinkOpener`] | every datagram of a link: sealed by one neighbour, opened by the other |
//! | [`ReplayWindow`] | each of them once |
//! | [`Fingerprint`] | whose certificate it is |
//! | [`JoinUrl`] | where a flow is, and what it takes to get it |

mod identity;
mod link;
mod replay;
mod url;

pub use identity::{Fingerprint, FingerprintError};
pub use link::{
    Exhausted, GRACE, LINK_OVERHEAD, LinkKey, LinkKeyError, LinkOpener, LinkSealer, OpenError,
    REKEY_AFTER, SEAL_LIMIT,
};
pub use replay::ReplayWindow;
pub use url::{Expect, JoinUrl, UrlError};
