//! XTP end to end: two hosts in virtual time.

#[path = "../common/flying.rs"]
mod flying;
mod golden;
mod hostile;
mod multicast;
mod net;
#[path = "../common/pair.rs"]
mod pair;
mod remote;
mod schedules;
mod services;
mod streams;
#[path = "../common/golden.rs"]
mod trace;
#[path = "../../../wire/tests/common/tshark.rs"]
mod tshark;
