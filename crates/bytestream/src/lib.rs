//! What transports of byte streams share.
//!
//! - [`Chain`]: a queue of bytes, real or counted, addressed by offset: send and receive buffers.
//! - [`Reassembly`]: what arrived beyond a hole.
//! - [`Line`]: a queue that has one item most of the time.
//! - [`Slots`]: the places of the connections of an endpoint, found by name and woken by time.

mod chain;
mod line;
mod reassembly;
mod slots;

pub use chain::Chain;
pub use line::Line;
pub use reassembly::Reassembly;
pub use slots::{SlotId, Slots, Timed};
