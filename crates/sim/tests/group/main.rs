//! Groups in the simulator: their tests in one program.

mod common;
mod faults;
mod scenarios;
mod star;
mod tree;
