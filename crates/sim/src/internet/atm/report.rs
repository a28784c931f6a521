use layercast_atm::mapper::MapperStats;
use layercast_core::Time;

use super::backbone::Backbone;
use super::port::Port;
use crate::internet::report::{AdapterReport, AtmReport, CellQueueReport};
use crate::internet::series::QueueState;

impl Backbone {
    /// A direction of a link, by the port that sends there.
    pub(super) fn port_name(&self, port: u32) -> String {
        let ports = &self.fabric.ports;
        let name = |port: &Port| self.nodes[port.node as usize].name.as_str();
        let from = &ports[port as usize];
        format!("{}->{}", name(from), name(&ports[from.peer as usize]))
    }

    /// What its queues are now, for a series, and the cells that each has sent.
    pub fn states(&self) -> impl Iterator<Item = (QueueState, u64)> + '_ {
        (0..self.fabric.ports.len() as u32).map(|n| {
            let (stats, len) = self.queue(n);
            let state = QueueState {
                waiting: len.into(),
                bytes: None,
                dropped: stats.received - stats.sent - u64::from(len),
                lost: 0,
                down: 0,
                marked: 0,
            };
            (state, stats.sent)
        })
    }

    /// The names of its queues.
    pub fn queue_names(&self) -> impl Iterator<Item = String> + '_ {
        (0..self.fabric.ports.len() as u32).map(|n| self.port_name(n))
    }

    /// What it did until now.
    pub fn report(&self, now: Time) -> AtmReport {
        let ports = &self.fabric.ports;
        let queues = ports.iter().zip(0..).map(|(port, n)| {
            let (stats, len) = self.queue(n);
            let seconds = now.as_secs_f64();
            let sending = stats.sent as f64 * port.cell_time.as_secs_f64();
            CellQueueReport {
                name: self.port_name(n),
                received: stats.received,
                sent: stats.sent,
                dropped: stats.received - stats.sent - u64::from(len),
                drops: stats.dropped,
                levels: stats.levels(),
                max_len: stats.max_len,
                utilisation: if seconds > 0.0 {
                    sending / seconds
                } else {
                    0.0
                },
            }
        });
        let reassemblers = &self.fabric.reassemblers;
        let adapters =
            self.nodes
                .iter()
                .zip(reassemblers)
                .zip(0..)
                .filter_map(|((node, reassembler), n)| {
                    let adapter = node.adapter.as_ref()?;
                    let MapperStats {
                        requests,
                        elevated,
                        peak_requests,
                        ready,
                        hits,
                        misses,
                        fallbacks,
                        fallback_hits,
                        failures,
                        bound,
                        cached,
                        max_circuits,
                        ..
                    } = adapter.mapper.stats();
                    let frames = reassembler.as_ref()?.stats();
                    let sent = self.fabric.frames.sent(n);
                    Some(AdapterReport {
                        router: node.name.clone(),
                        requests,
                        elevated,
                        peak_requests,
                        ready,
                        hits,
                        misses,
                        fallbacks,
                        fallback_hits,
                        failures,
                        circuits: (bound + cached) as u64,
                        max_circuits: max_circuits as u64,
                        frames_sent: sent.frames,
                        frames_lost: sent.frames_lost,
                        cells_sent: sent.cells,
                        cells_lost: sent.cells_lost,
                        frames: frames.complete,
                        damaged: frames.damaged,
                        expired: frames.expired,
                    })
                });
        AtmReport {
            queues: queues.collect(),
            adapters: adapters.collect(),
            contracts: self.contract_reports(),
            unknown_vc: self.fabric.unknown_vc,
            packets_discarded: self.discarded,
            frames_under_way: self.fabric.frames.len() as u64,
        }
    }
}
