//! The tests of the crate in one program: linking a program for each file takes longer than running most of them.

mod aal5;
mod internet;
mod replay;
mod roundtrip;
mod signal;
mod tshark;
mod xtp;

mod samples {
    pub mod internet;
    pub mod pdus;
    pub mod signals;
    pub mod xtp;
}

#[path = "../../../../fuzz/src/internet.rs"]
mod internet_checks;
#[path = "../../../../fuzz/src/wire.rs"]
mod wire_checks;
#[path = "../../../../fuzz/src/xtp.rs"]
mod xtp_checks;
