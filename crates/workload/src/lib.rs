//! Application workloads (specs/insane-workloads.md): what telnet, FTP, HTTP, mail, news, audio and video
//! programs ask of a network, as machines without sockets and clocks, and the distributions they draw
//! from.

pub mod analyze;
pub mod app;
mod circuits;
mod composite;
pub mod dist;
mod offered;

pub use circuits::CircuitTotals;
pub use composite::{
    Arrival, Composite, Population, PopulationError, Site, Workload, WorkloadError,
};
pub use offered::{AppTotals, Closed, Offered, OfferedConfig, Seen, offered};
