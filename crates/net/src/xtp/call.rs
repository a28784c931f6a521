use std::io;
use std::net::IpAddr;
use std::path::PathBuf;

use layercast_xtp::remote::Parting;
use layercast_xtp::{XtpError, XtpFailure};
use thiserror::Error;

/// Why a call of an [`XtpHost`](super::XtpHost) or what came of it failed.
#[derive(Clone, Debug, Error)]
pub enum XtpCallError {
    /// The machine refused the call.
    #[error(transparent)]
    Refused(#[from] XtpError),
    /// The association broke off.
    #[error(transparent)]
    Failed(#[from] XtpFailure),
    /// The daemon has nothing more to do with us.
    #[error(transparent)]
    Parted(#[from] Parting),
    /// No daemon serves the path, or it refuses us.
    #[error("{path}: {1}; `layercast xtpd {path}` starts a daemon there, for processes of the same user", path = .0.display())]
    NoDaemon(PathBuf, io::ErrorKind),
    /// XTP over IP itself needs privileges.
    #[error(
        "XTP over IP at {0} takes CAP_NET_RAW, which root has; over UDP, or by a daemon that has it, anybody may"
    )]
    NoRight(IpAddr),
    /// The socket is of no use any more.
    #[error("socket: {0}")]
    Socket(io::ErrorKind),
}

impl From<io::Error> for XtpCallError {
    fn from(error: io::Error) -> XtpCallError {
        XtpCallError::Socket(error.kind())
    }
}
