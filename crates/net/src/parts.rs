use std::collections::BTreeMap;

use layercast_wire::{NodeReport, PartKind, PartReport};
use serde::Serialize;
use serde_json::Value;

use crate::config::NodeSummary;

impl NodeSummary {
    /// What a node tells others of itself, without its parts.
    pub fn report(&self) -> NodeReport {
        NodeReport {
            udp: self.udp,
            malformed: self.malformed,
            channels: self.channels,
            timers: self.timers.report(),
            switch: self.switch.report(),
        }
    }

    /// What it tells others of its parts.
    pub fn parts(&self) -> Vec<PartReport> {
        let mut parts = Vec::new();
        add(&mut parts, PartKind::Port, &self.switch.ports);
        add(&mut parts, PartKind::Filter, &self.switch.filters);
        add(&mut parts, PartKind::Admission, &self.switch.admission);
        add(&mut parts, PartKind::Source, &self.sources);
        add(&mut parts, PartKind::Link, &self.links);
        add(&mut parts, PartKind::Repair, &self.repairs);
        parts
    }
}

fn add<T: Serialize>(parts: &mut Vec<PartReport>, kind: PartKind, all: &BTreeMap<String, T>) {
    parts.extend(all.iter().map(|(name, counters)| PartReport {
        kind,
        name: name.clone(),
        // Counters have no form that is not JSON.
        counters: serde_json::to_value(counters).unwrap_or(Value::Null),
    }));
}
