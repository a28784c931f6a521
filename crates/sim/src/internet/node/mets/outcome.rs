//! What a run of METS nodes gave.

use layercast_core::{RequestId, Status, Time};
use layercast_mets::switch::Switch;
use layercast_mets::{ReceiverSummary, Source};

use super::stations::Stations;
use crate::internet::series::QueueState;
use crate::summary::{
    AnswerSummary, FilterSummary, FlowSummary, HostSummary, QueueSummary, SimSummary,
};

impl Stations<'_> {
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

    /// The names of the ports of its directions of peerings.
    pub fn port_names(&self) -> impl Iterator<Item = String> + '_ {
        let name = |node: usize| &*self.net.nodes[node].name;
        let wires = self.wires.iter();
        wires.map(move |wire| format!("{}->{}", name(wire.from), name(wire.to)))
    }

    /// What these ports are now, for a series, and the bytes that each has sent; `None` where another one has the queue.
    pub fn port_states(&self) -> impl Iterator<Item = Option<(QueueState, u64)>> + '_ {
        self.wires.iter().map(|wire| {
            let switch = self.nodes[wire.from].switch()?;
            let mut ports = self.net.nodes[wire.from].own_ports();
            let (_, port) = ports.find(|(_, port)| port.link == wire.link)?;
            let (waiting, stats) = switch.waiting_at(port.id)?;
            let dropped = stats.dropped();
            let state = QueueState {
                waiting: waiting.into(),
                bytes: None,
                dropped: dropped.base + dropped.e1 + dropped.e2 + stats.adapter_dropped,
                lost: wire.data.stats.lost - wire.data.down,
                down: wire.data.down,
                marked: stats.marked,
            };
            Some((state, stats.bytes_out))
        })
    }

    /// Everything counted so far.
    pub fn summary(&self, now: Time) -> SimSummary {
        let net = &*self.net;
        let flows = net.flows.iter().enumerate().map(|(place, flow)| {
            let numbers = 0..net.receivers.len();
            let receivers = numbers.filter(|&number| net.receivers[number].flow == place);
            FlowSummary {
                name: flow.name.clone(),
                composition: flow.config.flow.spec.composition,
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
                link: wire.data.stats,
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
            sim_seconds: now.since(Time::ZERO).as_secs_f64(),
            wall_seconds: 0.0,
            events: self.counts.events,
            packet_hops: self.counts.packet_hops,
            cell_hops: self.counts.cell_hops,
            wire_errors: self.counts.wire_errors,
            signal_octets: self.counts.signal_octets,
            flows: flows.collect(),
            queues: queues.collect(),
            filters: filters.collect(),
            hosts: hosts.collect(),
        }
    }
}
