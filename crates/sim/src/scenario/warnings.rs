//! What works, but not as the author of a scenario may think.

use std::collections::BTreeSet;
use std::fmt;

use layercast_core::CellRate;

use super::network::Network;

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
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Warning::AboveDrain {
            node,
            flows,
            rate,
            drain,
        } = self;
        write!(
            f,
            "{node} takes in {} cells/s, but the buckets of its {flows} flows let through {}: frames \
             will be lost together; use a smaller b, fewer flows or shaping = \"serial\"",
            drain.0, rate.0
        )
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
        hosts.collect()
    }
}
