//! Layercast from C: the sockets of METS as descriptors (specs/mets.md 2.2), in `include/layercast.h`.
//!
//! No panic crosses the border, and a descriptor that is none gives `LC_EINVAL`: descriptors are
//! numbers that are looked up, never pointers. What C hands over as pointers is read and written in
//! `memory.rs` only.
#![allow(
    non_camel_case_types,
    reason = "the names are those of the header, in the manner of C"
)]

mod management;
mod memory;
mod queue;
mod sink;
mod socket;
mod source;
mod status;
mod stream;
mod types;

pub use management::*;
pub use sink::*;
pub use socket::{lc_close, lc_poll_fd, lc_socket};
pub use source::*;
pub use status::*;
pub use stream::{
    LC_ENDED, LC_SERVED, lc_serve_options, lc_serve_options_default, lc_serve_stream,
    lc_stream_wait,
};
pub use types::*;
