use std::io;
use std::net::SocketAddr;

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
    /// A certificate or its key is of no use.
    #[error("{0}")]
    Certificate(String),
    /// No certificate can be made.
    #[error("cannot make a certificate: {0}")]
    SelfSigned(String),
    /// The token is too short to protect anything, or cannot be in a URL.
    #[error(
        "the token of viewers is to have 16 characters or more, of letters, digits and - . _ ~"
    )]
    Token,
}
