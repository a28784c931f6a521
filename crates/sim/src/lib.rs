//! The deterministic simulator: it runs the machines of `transport` and `switch` against simulated
//! links and hosts, and knows nothing of their protocols.
//!
//! A [`scenario::Scenario`] becomes a network of configured machines; a run moves values between
//! them in the order of the event kernel. The same scenario and seed give the same bytes.

mod kernel;
pub mod scenario;
