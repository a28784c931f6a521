//! Parities of contents: what makes them, what restores contents from them, and how many of them suffice.

mod blocks;
mod odds;
mod restore;

use bytes::Bytes;

pub(crate) use blocks::{Block, Blocks, Gathered, contents, parity_octets};
pub use blocks::{MAX_BLOCKS, MAX_CONTENTS};
pub(crate) use odds::{enough, extra, more_than};
pub use restore::{MAX_KEPT, MAX_KEPT_OCTETS, MAX_OPEN};
pub(crate) use restore::{Restore, Restored};

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
