//! XTP end to end: two hosts in virtual time.

mod golden;
mod hostile;
mod multicast;
mod net;
#[path = "../common/pair.rs"]
mod pair;
mod schedules;
mod services;
mod streams;
#[path = "../common/golden.rs"]
mod trace;
