//! The tests of the crate in one program: linking a program for each file takes longer than running most of them.

mod common;
mod end_to_end;
mod hostile;
mod machine;
mod net;
mod tokens;
