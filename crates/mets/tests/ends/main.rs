//! The tests of the crate in one program: linking a program for each file takes longer than running most of them.

mod adaptation;
#[path = "../common/bounds.rs"]
mod bounds;
mod common;
mod control;
mod delivery;
mod hostile;
mod live;
mod manage;
mod negotiation;
mod parity;
mod policy;
mod protection;
mod serial;
mod zones;
