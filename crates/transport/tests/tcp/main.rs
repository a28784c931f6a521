//! TCP end to end: two hosts in virtual time.

mod adversary;
#[path = "../common/flying.rs"]
mod flying;
mod golden;
mod hostile;
mod matrix;
mod net;
#[path = "../common/pair.rs"]
mod pair;
#[path = "../common/golden.rs"]
mod trace;
