//! What works, but not as the author of a scenario may think.

use std::collections::BTreeSet;
use std::fmt;

use layercast_core::{CELL_PAYLOAD, CellRate};
use layercast_wire::{Carriage, METS_HEADER};

use super::network::{Flow, Network};

/// A configuration that works, but not as its author may think.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Warning {
    /// The token buckets of the flows to one host let through more than it takes in: cells of many
    /// frames then mix and overflow together (specs/mets.md 4.9).
    AboveDrain {
        /// The host.
        node: String,
        /// Flows to it.
        flows: usize,
        /// What their buckets let through in one burst.
        rate: CellRate,
        /// What it takes in.
        drain: CellRate,
    },
    /// The queue of a link has not even room for one packet of a flow, so frames of more octets never pass.
    QueueBelowPacket {
        /// The places of the links.
        links: Vec<usize>,
        /// The smallest of their queues, in cells.
        queue: u32,
        /// The largest packet of a flow, in cells.
        packet: u32,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warning::AboveDrain {
                node,
                flows,
                rate,
                drain,
            } => write!(
                f,
                "{node} takes in {} cells/s, but the buckets of its {flows} flows let through {}: frames \
                 will be lost together; use a smaller b, fewer flows or shaping = \"serial\"",
                drain.0, rate.0
            ),
            Warning::QueueBelowPacket {
                links,
                queue,
                packet,
            } => {
                let links: Vec<String> = links.iter().map(|it| format!("link[{it}]")).collect();
                write!(
                    f,
                    "the queue of {} has room for {queue} {} of 48 octets, but a packet takes up to {packet}: larger packets are dropped, and \
                     with them the base layer; give at least queue = \"{packet} cells\"",
                    links.join(", "),
                    if *queue == 1 { "cell" } else { "cells" },
                )
            }
        }
    }
}

impl Flow {
    /// The largest packet of its base layer, in cells.
    fn packet(&self) -> u32 {
        let frames = self.clip.frames.iter();
        let largest = frames.map(|frame| frame.size).max().unwrap_or(0);
        let octets = METS_HEADER + largest.min(self.config.mtu_payload) as usize;
        octets.div_ceil(CELL_PAYLOAD) as u32
    }
}

impl Network {
    /// What its author should know before it runs.
    pub fn warnings(&self) -> Vec<Warning> {
        let hosts = self.nodes.iter().filter_map(|node| {
            let receivers = node.receivers.iter().map(|&place| &self.receivers[place]);
            let drains = receivers.clone().map(|receiver| receiver.config.drain);
            let drain = drains.filter(|drain| drain.0 > 0).min()?;
            let flows: BTreeSet<usize> = receivers.map(|receiver| receiver.flow).collect();
            let rates = flows
                .iter()
                .filter_map(|&flow| self.flows[flow].config.bucket_rate());
            let rate = rates.fold(CellRate(0), CellRate::saturating_add);
            (rate > drain).then(|| Warning::AboveDrain {
                node: node.name.clone(),
                flows: flows.len(),
                rate,
                drain,
            })
        });
        hosts.chain(self.queue_below_packet()).collect()
    }

    /// Cells come one by one, datagrams as a whole.
    fn queue_below_packet(&self) -> Option<Warning> {
        let packet = self.flows.iter().map(Flow::packet).max()?;
        let ports = self.nodes.iter().flat_map(|node| &node.ports);
        let short = ports.filter(|port| port.config.queue.limit < packet);
        let short: Vec<_> = short
            .filter(|_| self.carriage == Carriage::Datagrams)
            .collect();
        let queue = short.iter().map(|port| port.config.queue.limit).min()?;
        let links: BTreeSet<usize> = short.iter().map(|port| port.link).collect();
        Some(Warning::QueueBelowPacket {
            links: links.into_iter().collect(),
            queue,
            packet,
        })
    }
}
