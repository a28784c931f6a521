//! TCP end to end: two hosts in virtual time.

mod adversary;
mod control;
mod ecn;
#[path = "../../../bytestream/tests/common/flying.rs"]
mod flying;
mod golden;
mod hostile;
mod matrix;
mod net;
#[path = "../../../bytestream/tests/common/pair.rs"]
mod pair;
mod rack;
mod recovery;
#[path = "../../../bytestream/tests/common/golden.rs"]
mod trace;
