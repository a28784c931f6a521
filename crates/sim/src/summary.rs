//! What a run gives.

use layercast_core::{CellRate, Composition};
use layercast_link::host::HostStats;
use layercast_link::{LinkRepairStats, LinkStats, MeasuredStats, PortStats};
use layercast_mets::switch::FilterStats;
use layercast_mets::{ReceiverSummary, SourceStats};
use serde::Serialize;

/// The result of a run. Two runs of the same scenario and seed differ in `wall_seconds` only.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SimSummary {
    /// Name of the scenario.
    pub scenario: String,
    /// Seed of the run.
    pub seed: u64,
    /// Simulated time in seconds.
    pub sim_seconds: f64,
    /// Real time of the run, in seconds.
    pub wall_seconds: f64,
    /// Events of the simulator.
    pub events: u64,
    /// Packets (AAL5 frames or datagrams) that arrived at the end of a link.
    pub packet_hops: u64,
    /// Cells that arrived at the end of a link; 0 where links carry datagrams.
    pub cell_hops: u64,
    /// PDUs and signals that changed by encoding and decoding (`wire_check`).
    pub wire_errors: u64,
    /// Octets of all signals that arrived at the end of a link; only counted with `wire_check`.
    #[serde(skip_serializing_if = "is_zero")]
    pub signal_octets: u64,
    /// Flows and their receivers.
    pub flows: Vec<FlowSummary>,
    /// Port queues and the links behind them.
    pub queues: Vec<QueueSummary>,
    /// Filters in switches.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub filters: Vec<FilterSummary>,
    /// Hosts with a cost profile.
    pub hosts: Vec<HostSummary>,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// A flow and its receivers.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct FlowSummary {
    /// Name of the flow.
    pub name: String,
    /// What its layers are to each other.
    #[serde(skip_serializing_if = "Composition::is_additive")]
    pub composition: Composition,
    /// Counters of the source.
    pub source: SourceStats,
    /// The receivers.
    pub receivers: Vec<ReceiverSummary>,
    /// The results of requests, in the order of the answers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<AnswerSummary>,
}

/// The result of a request.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct AnswerSummary {
    /// Time in seconds.
    pub t: f64,
    /// Number of the request, in the order of time.
    pub request: u32,
    /// Receiver that made the request; `None` for the server.
    pub receiver: Option<String>,
    /// Result: `OK`, `EADMIT` and others.
    pub code: &'static str,
    /// The result as text.
    pub detail: String,
}

/// A direction of a link: the queue of the sending node and the link behind it.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct QueueSummary {
    /// Name of the sending node.
    pub node: String,
    /// Name of the receiving node.
    pub port: String,
    /// Cells/s reserved for base layers at the end of the run.
    pub reserved: CellRate,
    /// The queue.
    #[serde(flatten)]
    pub queue: PortStats,
    /// The link behind the queue.
    pub link: LinkStats,
    /// How base layers are admitted on the link by measurement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admission: Option<MeasuredStats>,
    /// What the end of the sending node repaired and requested, on a link with repair.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repair: Option<LinkRepairStats>,
}

/// A filter in a switch.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct FilterSummary {
    /// Name of the switch.
    pub node: String,
    /// The flow, and the neighbour of the branch.
    pub branch: String,
    /// What it did.
    #[serde(flatten)]
    pub stats: FilterStats,
}

/// A receiving host.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct HostSummary {
    /// Name of the host.
    pub node: String,
    /// What it did.
    #[serde(flatten)]
    pub stats: HostStats,
}

impl SimSummary {
    /// The receiver called `name`.
    pub fn receiver(&self, name: &str) -> Option<&ReceiverSummary> {
        let mut receivers = self.flows.iter().flat_map(|flow| &flow.receivers);
        receivers.find(|receiver| receiver.name == name)
    }
}
