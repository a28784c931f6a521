//! The tests of the crate in one program.

mod aggregate;
mod allocations;
mod chaos;
mod edges;
mod forms;
mod net;
mod object;
mod policy;
mod stream;
mod trace;
