//! The tests of the crate in one program: linking a program for each file takes longer than running most of them.

mod admission;
mod alternative;
#[path = "../common/bounds.rs"]
mod bounds;
mod carried;
mod common;
mod cores;
mod end_to_end;
mod flows;
mod hostile;
mod listing;
mod machine;
mod measured;
mod negotiation;
mod net;
mod random;
mod tokens;
mod ways;
