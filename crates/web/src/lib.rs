//! Flows of Layercast in a browser: a receiver that serves browsers, with a player and a dashboard of nodes, receivers and links.
//!
//! [`Web`] is an HTTP server. Its page has no other origin than itself and loads nothing from elsewhere. A browser shows the token of the
//! URL's fragment once and gets a ticket for what follows ([`access`](crate::Access)).

mod accept;
mod access;
mod board;
mod certificates;
mod error;
mod feed;
mod hub;
mod message;
mod mp4;
mod pages;
mod queue;
mod server;
mod socket;
mod transport;
mod watch;
mod writer;

pub use accept::{Caller, accept};
pub use access::Access;
pub use board::Board;
pub use error::WebError;
pub use feed::{Flow, Trouble, Wanted};
pub use server::{Web, WebConfig};
