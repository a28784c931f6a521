//! TCP as a sans-I/O machine: an [`Endpoint`] is the TCP of a host, with all its connections.
//!
//! ```text
//! write -> send buffer -> windows, Nagle, recovery -> poll_transmit -> IP
//! handle <- IP: checks -> acknowledgement -> reassembly -> receive buffer -> read
//! ```
//!
//! Segments are made when they are asked for, so nothing queues between the machine and its link.
//! Data are [`Payload`](layercast_wire::Payload)s: real bytes, or counted zeros in a simulator.
//! Old stacks and new ones differ by [`TcpConfig`] only; see docs/src/reference/tcp.md.

mod config;
mod congestion;
mod connection;
mod control;
mod cubic;
mod dctcp;
mod ecn;
mod endpoint;
mod event;
mod hystart;
mod linux;
mod rtt;
mod scoreboard;
mod table;
mod ticks;

pub use config::{LossDetection, Profile, Quirks, SlowStart, TcpConfig, TcpConfigError, Variant};
pub use connection::State;
pub use control::{Acked, CongestionControl, ControlFactory, Window};
pub use ecn::{Echo, Ecn, EcnMode};
pub use endpoint::Endpoint;
pub use event::{ConnId, Failure, TcpCounts, TcpError, TcpEvent, TcpInfo, TcpPacket, TcpStats};
