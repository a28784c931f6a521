use std::io;
use std::net::SocketAddr;

use layercast::net::IdentityError;
use thiserror::Error;

/// Why pages cannot be served.
#[derive(Debug, Error)]
pub enum WebError {
    /// The address is taken, or is none of this host.
    #[error("cannot serve pages at {address}: {source}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// The certificate and its key are of no use.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The token is too short to protect anything, or cannot be in a URL.
    #[error(
        "the token of viewers is to have 16 characters or more, of letters, digits and - . _ ~"
    )]
    Token,
}
