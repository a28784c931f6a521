//! The tests that need no other processes in real time, in one program: linking a program for each file takes longer than
//! running most of them.

mod architecture;
mod cells;
mod commands;
mod common;
mod edge;
mod fec;
mod full_disk;
mod input;
mod inputs_refused;
mod internet;
mod outputs;
mod sweep;
#[path = "../../../wire/tests/common/tshark.rs"]
mod tshark;
mod workload;
mod xtpd;
