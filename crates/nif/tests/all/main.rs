//! Tests of the network interface framework, as another crate uses it.
#![allow(unexpected_cfgs, reason = "loom is no configuration that cargo knows")]

#[cfg(not(loom))]
mod common;
#[cfg(not(loom))]
mod cpu;
#[cfg(not(loom))]
mod drivers;
#[cfg(not(loom))]
mod edges;
#[cfg(not(loom))]
mod histories;
#[cfg(not(loom))]
mod matrix;
#[cfg(loom)]
mod orders;
#[cfg(not(loom))]
mod ownership;
