//! XTP end to end: two hosts in virtual time.

#[path = "../../../bytestream/tests/common/flying.rs"]
mod flying;
mod golden;
mod hostile;
mod multicast;
mod net;
#[path = "../../../bytestream/tests/common/pair.rs"]
mod pair;
mod remote;
mod schedules;
mod services;
mod streams;
#[path = "../../../bytestream/tests/common/golden.rs"]
mod trace;
#[path = "../../../wire/tests/common/tshark.rs"]
mod tshark;
