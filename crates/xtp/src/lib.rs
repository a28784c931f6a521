//! XTP 4.0 as a sans-I/O machine: an [`Endpoint`] is the XTP of a host, with all its contexts.
//!
//! ```text
//! send -> packets of the stream -> alloc, rate, recovery -> poll_transmit -> IP or UDP
//! handle <- IP or UDP: key -> status -> held ranges -> unread -> receive
//! ```
//!
//! Everything that other transports fix is a switch here, for an association or for a single message: error
//! control, flow control, checksum, which side requests status and when, priority, rate. See
//! docs/src/reference/xtp.md. [`remote`] is for users in other processes than the endpoint.

mod config;
mod context;
mod endpoint;
mod event;
mod incoming;
mod outgoing;
mod rate;
pub mod remote;
mod rtt;
mod status;
mod table;

pub use config::{Ask, RateCounts, Retransmission, XtpConfig, XtpConfigError, XtpGroup, XtpRate};
pub use endpoint::Endpoint;
pub use event::{
    Chunk, ContextId, SendOptions, XtpCounts, XtpDatagram, XtpError, XtpEvent, XtpFailure, XtpInfo,
    XtpSocket, XtpStats,
};
pub use status::ContextStatus;
