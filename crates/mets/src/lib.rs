//! A METS node as one machine.
//!
//! A [`Station`] holds the machines of one node: a switch with the sources on its inner side, or the sinks of a host on
//! its one link, with the pacer and the costs of the host. It moves what they say to one another. A driver gives it
//! the input of its links and sends its output: `sim` in virtual time, `net` on sockets.

mod host;
mod route;
mod station;

pub use host::{HostConfig, SentCells, circuit};
pub use station::{Part, Station, StationConfig, StationEvent, StationStats};

/// The input of a station: it has the links of a switch.
pub type StationInput = layercast_switch::SwitchInput;
/// The output of a station: PDUs and signals on its links.
pub type StationTransmit = layercast_switch::SwitchTransmit;
