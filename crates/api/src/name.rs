use layercast_core::NodeId;
use std::hash::{BuildHasher, Hasher, RandomState};

/// A number that no other node in the network has: there is no authority that assigns them, so it is drawn at
/// random.
fn draw() -> u32 {
    // The keys of a hasher are the one source of randomness that needs no library.
    (RandomState::new().build_hasher().finish() as u32).max(1)
}

/// A number for a node.
pub(crate) fn node_id() -> NodeId {
    NodeId(draw())
}

/// A name for a node that was given none.
pub(crate) fn node_name(kind: &str) -> String {
    format!("{kind}-{:08x}", draw())
}
