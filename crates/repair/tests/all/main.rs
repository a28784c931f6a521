//! Tests of the machines of repair through their public interface.

mod channel;
mod clock;
mod codec;
mod group;
mod path;
mod properties;
mod reachable;
mod replay;
