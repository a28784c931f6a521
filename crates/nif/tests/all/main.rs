//! Tests of the network interface framework, as another crate uses it.

mod common;
mod cpu;
mod drivers;
mod edges;
mod histories;
mod matrix;
mod ownership;
