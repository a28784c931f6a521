//! Internetworks: hosts with TCP and UDP, routers, links, shared media, applications.
//!
//! A [`Network`] says what there is; an [`Internet`] runs it and gives a [`Report`]. All of TCP and of the
//! applications are the machines of `tcp`, `xtp` and `workload`; here they get addresses, routes, queues
//! and time.

mod atm;
mod check;
mod components;
pub mod discipline;
mod engine;
mod error;
mod generated;
mod limit;
mod measure;
mod medium;
mod network;
mod node;
mod parallel;
#[cfg(test)]
mod random;
mod report;
pub mod scenario;
mod series;
mod users;
mod world;

pub use error::NetworkError;
pub use generated::{GeneratorReport, SizeReport, Spread, Transfer};
pub use measure::{Measurement, Measurements, StreamTotals, Summary};
pub use network::*;
pub use node::external::{Delivery, ExternalCounts, Refused};
pub use node::mets::Outputs;
pub use parallel::{Division, Indivisible};
pub use report::{
    AdapterReport, ApplicationReport, AtmReport, BandReport, CellQueueReport, ClassReport,
    ContractReport, DisciplineReport, FlowReport, MetsReport, NodeDrops, PathReport, PeeringReport,
    Progress, QueueReport, ReceiverReport, Report, Sample, SojournReport, Stopped, Watch,
};
pub use series::{Point, PointKind, PointSink, QueueState, TcpState};
pub use world::{Internet, Simulation};
