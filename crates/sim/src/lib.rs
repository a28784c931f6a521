//! The deterministic simulator: it runs the machines of `transport` and `switch` against simulated
//! links and hosts, and knows nothing of their protocols.
//!
//! A [`scenario::Scenario`] becomes a [`scenario::Network`] of configured machines; a
//! [`Simulation`] moves values between them in the order of the event kernel. The same scenario and
//! seed give the same bytes.

mod calendar;
mod exchange;
pub mod group;
pub mod internet;
mod kernel;
mod node;
pub mod scenario;
mod script;
mod summary;
mod ties;
mod wire_check;
mod wires;
mod world;

pub use layercast_switch::host::HostStats;
pub use summary::{FlowSummary, HostSummary, QueueSummary, SimSummary};
pub use world::Simulation;
