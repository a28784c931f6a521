//! A composite workload: which applications start where, how often, and with which partners.

mod arrivals;
mod schema;

pub use arrivals::{Arrival, Composite, Population, PopulationError, Site};
pub use schema::{Workload, WorkloadError};

pub(crate) use schema::{App, Choose, Model, Placement, Process, Role};

#[cfg(test)]
mod tests;
