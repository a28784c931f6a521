//! TCP end to end: two hosts in virtual time.

mod adversary;
mod golden;
mod hostile;
mod matrix;
mod net;
#[path = "../common/pair.rs"]
mod pair;
#[path = "../common/golden.rs"]
mod trace;
