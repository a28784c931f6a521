//! The deterministic simulator: it runs the machines of the protocol crates against simulated
//! links and hosts, and knows nothing of their protocols.
//!
//! A [`scenario::Scenario`] becomes a [`scenario::Network`] of configured machines; a
//! [`Simulation`] moves values between them in the order of the event kernel. The same scenario and
//! seed give the same bytes.
//!
//! ```
//! use layercast_sim::internet::Internet;
//! use layercast_sim::internet::scenario::Scenario;
//!
//! let text = r#"
//!     schema = "internet/1"
//!     name = "bottleneck"
//!     run = { duration = "5s" }
//!     topology = { kind = "dumbbell", pairs = 1, access = { rate = "100 Mbit/s", delay = "1ms" }, trunk = { rate = "10 Mbit/s", delay = "10ms", queue = "60 packets" } }
//!     flow = [{ from = "left1", to = "right1" }]
//! "#;
//! let network = Scenario::from_toml(text, ".".as_ref()).unwrap().resolve().unwrap();
//! let report = Internet::new(&network).unwrap().run(&mut ());
//! assert!((8e6..10e6).contains(&report.flows[0].goodput_bps));
//! ```

// The golden corpus names the crate as all tests outside of it do.
#[cfg(test)]
extern crate self as layercast_sim;

mod calendar;
#[cfg(test)]
#[path = "../tests/all/common/mod.rs"]
mod common;
pub mod file;
pub mod group;
pub mod internet;
mod kernel;
mod line;
pub mod overload;
mod place;
pub mod scenario;
mod summary;
#[cfg(test)]
mod tests;
mod text;
mod ties;

pub use internet::{Outputs, Simulation};
pub use layercast_link::host::HostStats;
pub use summary::{FlowSummary, HostSummary, QueueSummary, SimSummary};
