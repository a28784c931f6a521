//! XTP on sockets: the machine of `transport` over UDP and over IP itself, for one task and for many.

mod address;
mod association;
mod backend;
mod call;
mod carrier;
mod channel;
mod coalescer;
mod daemon;
mod far;
mod host;
mod node;
mod path;
mod pipe;
mod raw;
mod state;

pub use address::{XtpPlace, XtpPlaceError};
pub use association::XtpAssociation;
pub use call::XtpCallError;
pub(crate) use channel::XtpDoor;
pub use channel::{XtpChannel, XtpHalf};
pub use daemon::{XtpDaemon, XtpDaemonEvent};
pub use host::{XtpHost, XtpListener, XtpRegistered};
pub use node::XtpNode;
pub use path::XtpDaemonError;
