//! The tests of the crate as one program.

mod aggregate;
mod allocations;
mod chaos;
mod digest;
mod edges;
mod forms;
mod hostile;
mod lossy;
mod net;
mod object;
mod observe;
mod policy;
mod rate;
#[path = "../../../../fuzz/src/receive.rs"]
mod receive_checks;
mod replay;
mod stream;
mod trace;
mod weak;
