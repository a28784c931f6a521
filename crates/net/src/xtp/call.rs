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
    #[error(
        "cannot reach the XTP daemon at {path}: {why}; `layercast xtpd {path}` starts a daemon there, for processes of the same user",
        path = .0.display(),
        why = why(*.1)
    )]
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

/// Why nothing was reached at a path.
fn why(kind: io::ErrorKind) -> String {
    match kind {
        io::ErrorKind::NotFound => "no such file".to_owned(),
        io::ErrorKind::ConnectionRefused => "the process that had it is gone".to_owned(),
        kind => kind.to_string(),
    }
}

impl From<io::Error> for XtpCallError {
    fn from(error: io::Error) -> XtpCallError {
        XtpCallError::Socket(error.kind())
    }
}
