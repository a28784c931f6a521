//! Groups in the simulator: their tests in one program.

mod common;
mod cross;
mod faults;
mod scale;
mod scenarios;
mod star;
mod times;
mod tree;
