//! The tests of the crate in one program: linking a program for each file takes longer than running most of them.

mod amplification;
mod auto_rate;
mod common;
mod delivery;
mod failures;
mod fast_start;
mod files;
mod live;
mod multicast;
mod parity;
mod partial_order;
mod relay;
mod renditions;
mod repair;
mod sealed;
mod security;
mod tunnel;
mod xtp;
mod xtp_coalescer;
mod xtp_control;
mod xtp_daemon;
mod xtp_group;
mod xtp_host;
