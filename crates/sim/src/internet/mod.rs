//! Internetworks: hosts with TCP and UDP, routers, links, shared media, applications.
//!
//! A [`Network`] says what there is; an [`Internet`] runs it and gives a [`Report`]. All of TCP and of the
//! applications are the machines of `transport` and `workload`; here they get addresses, routes, queues
//! and time.

mod addresses;
mod ahead;
mod apps;
mod atm;
mod build;
mod capture;
mod check;
mod classes;
mod components;
mod division;
mod error;
mod external;
mod flows;
mod forward;
mod group;
mod hop;
mod hosts;
mod icmp;
mod inbox;
mod measure;
mod mets;
mod network;
mod packet;
mod parallel;
mod paths;
mod pipe;
#[cfg(test)]
mod random;
mod report;
mod routes;
pub mod scenario;
mod share;
mod source;
mod stream;
mod table;
mod trace;
mod tree;
mod world;
mod xtp;

pub use division::{Division, Indivisible};
pub use error::NetworkError;
pub use external::{Delivery, ExternalCounts, Refused};
pub use measure::{Measurement, Measurements, StreamTotals, Summary};
pub use network::*;
pub use report::{
    AdapterReport, ApplicationReport, AtmReport, CellQueueReport, ClassReport, ContractReport,
    FlowReport, MetsReport, NodeDrops, PathReport, PeeringReport, Progress, QueueReport,
    ReceiverReport, Report, Sample, Stopped, Watch,
};
pub use world::Internet;
