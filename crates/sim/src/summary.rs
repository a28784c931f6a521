//! What a run gives.

use layercast_core::{CellRate, RequestId, Status, Time};
use layercast_link::{LinkRepairStats, LinkStats, MeasuredStats, PortStats};
use layercast_mets::switch::{FilterStats, Switch};
use layercast_mets::{ReceiverSummary, Source, SourceStats};
use serde::Serialize;

use crate::world::World;
use layercast_link::host::HostStats;

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

/// A flow and its receivers.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct FlowSummary {
    /// Name of the flow.
    pub name: String,
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

impl World<'_> {
    /// What a receiver saw.
    fn received(&self, receiver: usize) -> ReceiverSummary {
        ReceiverSummary {
            repair: self.sink(receiver).and_then(|it| it.stats().repair),
            ..self.sinks[receiver].log.finish()
        }
    }

    /// How the requests about a flow ended.
    fn answers(&self, flow: usize) -> Vec<AnswerSummary> {
        let answer =
            |receiver: Option<&str>, (at, id, status): &(Time, RequestId, Status)| AnswerSummary {
                t: at.as_secs_f64(),
                request: id.0,
                receiver: receiver.map(str::to_owned),
                code: status.code(),
                detail: status.to_string(),
            };
        let source = self.sources[flow].answers.iter();
        let mut answers: Vec<AnswerSummary> = source.map(|entry| answer(None, entry)).collect();
        let sinks = self.net.receivers.iter().zip(&self.sinks);
        for (receiver, sink) in sinks.filter(|(receiver, _)| receiver.flow == flow) {
            let entries = sink.answers.iter();
            answers.extend(entries.map(|entry| answer(Some(&receiver.name), entry)));
        }
        answers.sort_by(|a, b| a.t.total_cmp(&b.t));
        answers
    }

    /// Everything counted so far.
    pub fn summary(&self) -> SimSummary {
        let net = &*self.net;
        let flows = net.flows.iter().enumerate().map(|(place, flow)| {
            let numbers = 0..net.receivers.len();
            let receivers = numbers.filter(|&number| net.receivers[number].flow == place);
            FlowSummary {
                name: flow.name.clone(),
                source: self.source(place).map(Source::stats).unwrap_or_default(),
                receivers: receivers.map(|number| self.received(number)).collect(),
                answers: self.answers(place),
            }
        });
        let queues = self.wires.iter().map(|wire| {
            let (from, to) = (&net.nodes[wire.from].name, &net.nodes[wire.to].name);
            let switch = self.nodes[wire.from].switch();
            // The first link of a multicast group has the queue of all.
            let mut ports = net.nodes[wire.from].own_ports();
            let port = ports.find(|(_, port)| port.link == wire.link);
            let mut stats = switch.map(Switch::stats).unwrap_or_default();
            let (queue, admission) = port
                .map(|(_, port)| &port.config.name)
                .map(|name| (stats.ports.remove(name), stats.admission.remove(name)))
                .unwrap_or_default();
            let reserved = switch
                .zip(port)
                .map(|(it, (_, port))| it.reserved_on(port.id));
            QueueSummary {
                reserved: reserved.unwrap_or_default(),
                node: from.clone(),
                port: to.clone(),
                queue: queue.unwrap_or_default(),
                link: wire.data.stats(),
                admission,
                repair: wire.repair.stats(),
            }
        });
        let hosts = net
            .nodes
            .iter()
            .zip(&self.nodes)
            .filter_map(|(node, state)| {
                let stats = state.station.as_ref()?.received()?;
                Some(HostSummary {
                    node: node.name.clone(),
                    stats,
                })
            });
        let filters = net.nodes.iter().zip(&self.nodes).flat_map(|(node, state)| {
            let stats = state.switch().map(|switch| switch.stats().filters);
            let filters = stats.unwrap_or_default().into_iter();
            filters.map(|(branch, stats)| FilterSummary {
                node: node.name.clone(),
                branch,
                stats,
            })
        });
        SimSummary {
            scenario: net.name.clone(),
            seed: net.seed,
            sim_seconds: self.now.since(Time::ZERO).as_secs_f64(),
            wall_seconds: 0.0,
            events: self.counts.events,
            packet_hops: self.counts.packet_hops,
            cell_hops: self.counts.cell_hops,
            wire_errors: self.counts.wire_errors,
            flows: flows.collect(),
            queues: queues.collect(),
            filters: filters.collect(),
            hosts: hosts.collect(),
        }
    }
}
