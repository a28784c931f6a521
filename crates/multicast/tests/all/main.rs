//! The tests of the crate in one program.

mod net;
mod object;
mod stream;
