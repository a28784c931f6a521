//! XTP on sockets: the machine of `transport` over UDP and over IP itself, for one task and for many.

mod association;
mod carrier;
mod channel;
mod daemon;
mod host;
mod node;
mod raw;

pub use association::XtpAssociation;
pub(crate) use channel::XtpDoor;
pub use channel::{XtpChannel, XtpHalf};
pub use daemon::XtpDaemon;
pub use host::{XtpCallError, XtpHost, XtpListener, XtpRegistered};
pub use node::XtpNode;
