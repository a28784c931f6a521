use std::io;

use layercast_transport::xtp::remote::Parting;
use layercast_transport::xtp::{XtpError, XtpFailure};
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
    /// The socket is of no use any more.
    #[error("socket: {0}")]
    Socket(io::ErrorKind),
}

impl From<io::Error> for XtpCallError {
    fn from(error: io::Error) -> XtpCallError {
        XtpCallError::Socket(error.kind())
    }
}
