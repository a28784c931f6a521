//! Integrated layer processing: stages of data manipulation, run one after another, in one fused loop or in strips, with
//! the same octets, and a planner that says which pays (specs/ilp-hazards.md, specs/ilp-code-generation.md).

// Emitted source names the crate as others do.
extern crate self as layercast_ilp;

pub mod adu;
pub mod calibrate;
mod channel;
pub mod config;
mod error;
pub mod generator;
pub mod harness;
pub mod measure;
mod pipeline;
pub mod planner;
pub mod profile;
pub mod stage;
pub mod stages;
pub mod trial;

pub use adu::{Adu, Bounded};
pub use channel::{Channel, Verified, recv_adu, send_adu};
pub use error::IlpError;
pub use pipeline::{Chain, ChainError, Executor, Pipeline, STRIP, lcm, unit_of};
pub use stage::{AnyStage, Shape, Stage};
pub use stages::Keys;
