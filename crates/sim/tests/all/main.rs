//! The tests of the crate in one program: linking a program for each file takes longer than running most of them.

mod adaptation;
mod agreed;
mod capture;
mod common;
mod cores;
mod demo;
mod determinism;
mod e5;
mod edge_cases;
mod fast_start;
mod faults;
mod golden;
mod hosts;
mod internet_attach;
mod internet_errors;
mod internet_scenarios;
mod layers;
mod measured;
mod narrowing;
mod pacing;
mod renditions;
mod renegotiation;
mod repair;
mod replay;
mod reservations;
mod restarts;
mod scenario_errors;
mod scenario_places;
mod schema_verdicts;
mod security;
mod stranger;
#[path = "../../../wire/tests/common/tshark.rs"]
mod tshark;
