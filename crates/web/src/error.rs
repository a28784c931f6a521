use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

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
    /// Accepting connections failed.
    #[error("cannot serve pages: {0}")]
    Serve(io::Error),
    /// A certificate or its key is of no use.
    #[error("{}: {problem}", path.display())]
    Certificate {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// No certificate can be made.
    #[error("cannot make a certificate: {0}")]
    SelfSigned(String),
    /// The token is too short to protect anything.
    #[error("the token of viewers has {0} characters: 16 or more are needed")]
    ShortToken(usize),
}
