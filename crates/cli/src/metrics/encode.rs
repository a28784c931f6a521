//! The Prometheus text format, version 0.0.4.

use std::collections::BTreeSet;
use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, prometheus_text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use serde_json::Value;

use super::families;
use super::place::{Labels, samples};

/// What a command says of itself, as metrics.
pub fn text(state: Value) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(State(state)));
    let mut text = String::new();
    prometheus_text::encode(&mut text, &registry)?;
    Ok(text)
}

/// The JSON of a command.
#[derive(Debug)]
struct State(Value);

impl Collector for State {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        for family in families::all() {
            let mut found = Vec::new();
            // Two of the same labels would make the whole answer invalid: the first one counts.
            let mut seen: BTreeSet<Labels> = BTreeSet::new();
            samples(&self.0, family.at, &mut |labels, value| {
                if seen.insert(labels.clone()) {
                    found.push((labels.clone(), value * family.scale));
                }
            });
            if found.is_empty() {
                continue;
            }
            let kind = match family.is_counter {
                true => MetricType::Counter,
                false => MetricType::Gauge,
            };
            let mut metric = encoder.encode_descriptor(family.name, family.help, None, kind)?;
            for (labels, value) in found {
                let sample = metric.encode_family(&labels)?;
                match family.is_counter {
                    true => ConstCounter::new(value).encode(sample)?,
                    false => ConstGauge::new(value).encode(sample)?,
                }
            }
        }
        Ok(())
    }
}
