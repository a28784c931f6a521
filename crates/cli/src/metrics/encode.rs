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

use super::families::{self, Family};
use super::place::{Labels, samples};

/// What a command says of itself, as metrics.
pub fn text(state: Value) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(State(state)));
    let mut text = String::new();
    prometheus_text::encode(&mut text, &registry)?;
    Ok(text)
}

/// The samples of what a command says: for each its name with labels, as in the text format, and its value.
pub fn samples_of(state: &Value) -> Vec<(String, f64)> {
    let mut all = Vec::new();
    for family in families::all() {
        for (labels, value) in family_samples(family, state) {
            let quoted = |text: &str| {
                let text = text.replace('\\', r"\\").replace('\n', r"\n");
                format!("\"{}\"", text.replace('"', "\\\""))
            };
            let labels = labels.iter();
            let labels: Vec<String> = labels
                .map(|(key, text)| format!("{key}={}", quoted(text)))
                .collect();
            let labels = match labels.is_empty() {
                true => String::new(),
                false => format!("{{{}}}", labels.join(",")),
            };
            all.push((family.full_name() + &labels, value));
        }
    }
    all
}

/// The samples of one metric, in its unit. Two of the same labels would make the whole answer invalid: the first one counts.
fn family_samples<'a>(family: &Family, state: &'a Value) -> Vec<(Labels<'a>, f64)> {
    let mut found = Vec::new();
    let mut seen: BTreeSet<Labels> = BTreeSet::new();
    samples(state, family.at, &mut |labels, value| {
        if seen.insert(labels.clone()) {
            found.push((labels.clone(), value * family.scale));
        }
    });
    found
}

/// The JSON of a command.
#[derive(Debug)]
struct State(Value);

impl Collector for State {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        for family in families::all() {
            let found = family_samples(family, &self.0);
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
