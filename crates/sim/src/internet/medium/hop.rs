//! From a node to the next.

use crate::internet::network::NodeIndex;

/// Where a packet goes next: out of an interface, to a node at its other side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Hop {
    pub interface: Interface,
    pub next: NodeIndex,
}

/// Something a node sends on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Interface {
    /// A link or LAN, by its number among the pipes.
    Pipe(u32),
    /// An adapter, by its number among the nodes of the backbone.
    Atm(u32),
}
