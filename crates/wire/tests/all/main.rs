//! The tests of the crate in one program: linking a program for each file takes longer than running most of them.

mod aal5;
mod capture;
mod frm;
mod frm_link;
mod internet;
mod replay;
mod rmtp;
mod rmtp_link;
mod roundtrip;
mod signal;
mod xtp;

mod samples {
    pub mod frm;
    pub mod internet;
    pub mod pdus;
    pub mod rmtp;
    pub mod signals;
    pub mod xtp;

    /// Octets written as hexadecimal digits, with spaces.
    pub fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b' ').collect();
        let pair =
            |pair: &[u8]| u8::from_str_radix(core::str::from_utf8(pair).unwrap(), 16).unwrap();
        digits.chunks(2).map(pair).collect()
    }
}

#[path = "../common/tshark.rs"]
mod tshark;

#[path = "../../../../fuzz/src/internet.rs"]
mod internet_checks;
#[path = "../../../../fuzz/src/multicast.rs"]
mod multicast_checks;
#[path = "../../../../fuzz/src/wire.rs"]
mod wire_checks;
#[path = "../../../../fuzz/src/xtp.rs"]
mod xtp_checks;
