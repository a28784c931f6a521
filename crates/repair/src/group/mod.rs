//! Repair on a link to a multicast group: one [`GroupRepairer`] feeds several [`GroupRequester`]s.
//!
//! Members lose different datagrams. The sending end makes parities of what any of them lacks; each parity restores one
//! datagram at every member, whichever that member lacks.

mod block;
mod holes;
mod member;
mod repairer;
mod requester;

use bytes::Bytes;

pub use block::MAX_BLOCKS;
pub use holes::MAX_HOLES;
pub use member::LEFT_ABOVE;
pub use repairer::{GroupConfig, GroupInput, GroupRepairer, MAX_MEMBERS, MemberId};
pub use requester::{
    FEEDBACK_BPS, GroupRequester, MAX_KEPT, MAX_KEPT_OCTETS, MAX_OPEN, MemberConfig,
};

/// How contents become octets, and octets contents: parities are made of octets.
#[derive(Debug)]
pub struct Codec<T> {
    /// The octets of a content, the same at both ends.
    pub encode: fn(&T) -> Bytes,
    /// How many octets that are.
    pub len: fn(&T) -> usize,
    /// The content of octets; `None` if they are none.
    pub decode: fn(Bytes) -> Option<T>,
}

impl<T> Clone for Codec<T> {
    fn clone(&self) -> Codec<T> {
        *self
    }
}

impl<T> Copy for Codec<T> {}

/// What a datagram carries behind its header.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Carried<T> {
    /// A content.
    Item(T),
    /// A parity of contents.
    Parity(Bytes),
}
