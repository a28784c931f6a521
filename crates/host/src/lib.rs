//! Simulated hosts: a network interface ([`layercast_nif`]), a processor, TCP, and applications.
//!
//! [`jitter`] is a host that shows a video beside file transfers, with the protocols in an interrupt handler or in threads of
//! several kinds; [`transfer`] is a bulk transfer between two hosts with the costs of a stack; [`buffers`] is two clients of
//! one driver (specs/network-interface-framework.md 4).

pub mod buffers;
mod events;
pub mod jitter;
mod line;
mod nic;
pub mod transfer;

pub use line::Network;
