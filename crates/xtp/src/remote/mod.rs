//! XTP for users in other processes than the endpoint (specs/xtp.md 2.14: the daemon and its shared queues), sans I/O.
//!
//! ```text
//! user -> Link -> Request, data -> Server -> Endpoint
//! user <- Link <- Report, data  <- Server <- Endpoint
//! ```
//!
//! A [`Server`] serves many users with one [`Endpoint`](super::Endpoint); a [`Link`] is what each has instead of an endpoint.
//! Neither knows the protocol: they move octets and calls between bounded queues. What a user sends waits in a queue of
//! [`QUEUE`] bytes for each context, for which it has credit; what it receives takes up the window of the context until the user
//! has taken it. So nothing that was accepted is lost for want of room, and a user who does not read holds up its peers alone.

mod client;
mod frames;
mod link;
mod message;
mod server;
mod slot;

pub use client::ClientStats;
pub use frames::{Frames, MAX_DATA, MAX_FRAME, has_frame, take_frame};
pub use link::{Changed, Link};
pub use message::{Answer, FrameError, Parting, Question, Report, Request, VERSION};
pub use server::{Server, ServerLimits, ServerStats, farewell};
pub use slot::QUEUE;
