//! The tests of the crate in one program.

mod chaos;
mod forms;
mod net;
mod object;
mod stream;
