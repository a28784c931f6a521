//! What a run gives.

use layercast_core::{Observer, Time};
use layercast_switch::{LinkStats, PortStats};
use layercast_transport::mets::{ReceiverSummary, SourceStats};
use serde::Serialize;

use crate::host::{HostStats, ReceivingHost};
use crate::world::World;

/// The result of a run. Two runs of the same scenario and seed differ in `wall_seconds` only.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SimSummary {
    /// Name of the scenario.
    pub scenario: String,
    /// Seed of the run.
    pub seed: u64,
    /// Seconds simulated.
    pub sim_seconds: f64,
    /// Seconds it took: zero, until whoever has a clock fills it in.
    pub wall_seconds: f64,
    /// Events of the kernel.
    pub events: u64,
    /// Packets (AAL5 frames or datagrams) that arrived at the end of a link.
    pub packet_hops: u64,
    /// Cells that arrived at the end of a link; none where links carry datagrams.
    pub cell_hops: u64,
    /// PDUs and signals that did not survive `wire_check`.
    pub wire_errors: u64,
    /// Flows and their receivers.
    pub flows: Vec<FlowSummary>,
    /// Port queues and what lies behind them.
    pub queues: Vec<QueueSummary>,
    /// Hosts whose receiving side costs something.
    pub hosts: Vec<HostSummary>,
}

/// A flow and its receivers.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct FlowSummary {
    /// Its name.
    pub name: String,
    /// What the source did.
    pub source: SourceStats,
    /// What the receivers saw.
    pub receivers: Vec<ReceiverSummary>,
}

/// A direction of a link: the queue in front of it and the line behind.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct QueueSummary {
    /// The sending node.
    pub node: String,
    /// The receiving node.
    pub port: String,
    /// The queue.
    #[serde(flatten)]
    pub queue: PortStats,
    /// The line.
    pub link: LinkStats,
}

/// A receiving host.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct HostSummary {
    /// Its name.
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

impl<O: Observer> World<'_, O> {
    /// Everything counted so far.
    pub fn summary(&self) -> SimSummary {
        let net = self.net;
        let flows = net.flows.iter().enumerate().map(|(place, flow)| {
            let wanted = net.receivers.iter().zip(&self.sinks);
            let receivers = wanted.filter(|(receiver, _)| receiver.flow == place);
            let source = self.sources[place].machine.as_ref();
            FlowSummary {
                name: flow.name.clone(),
                source: source.map(|source| source.stats()).unwrap_or_default(),
                receivers: receivers.map(|(_, sink)| sink.log.finish()).collect(),
            }
        });
        let queues = self.wires.iter().map(|wire| {
            let (from, to) = (&net.nodes[wire.from].name, &net.nodes[wire.to].name);
            let switch = self.nodes[wire.from].switch.as_ref();
            let queue = switch.and_then(|switch| switch.stats().ports.remove(to));
            QueueSummary {
                node: from.clone(),
                port: to.clone(),
                queue: queue.unwrap_or_default(),
                link: wire.data.stats(),
            }
        });
        let hosts = net
            .nodes
            .iter()
            .zip(&self.nodes)
            .filter_map(|(node, state)| {
                state.receiving.as_ref().map(|host| HostSummary {
                    node: node.name.clone(),
                    stats: ReceivingHost::stats(host),
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
            hosts: hosts.collect(),
        }
    }
}
