use std::collections::BTreeMap;

use layercast_core::Time;
use layercast_workload::app::Record;
use serde::Serialize;

use super::generated::quantile;
use super::network::Network;
use super::report::{Report, Sample, Watch};

/// A report with what the applications measured, as programs read it (docs/src/reference/json.md).
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Summary {
    /// Name of the scenario.
    pub scenario: String,
    /// Seed of the run.
    pub seed: u64,
    /// Real time of the run; the only value that differs between two runs.
    pub wall_seconds: f64,
    /// Flows and queues.
    #[serde(flatten)]
    pub report: Report,
    /// Measurements of applications, by application and kind.
    pub measurements: Vec<Measurement>,
}

/// The measurements of one kind.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Measurement {
    /// Name of the application.
    pub application: String,
    /// The quantity, such as `ftp.file`.
    pub name: &'static str,
    /// Number of measurements.
    pub count: usize,
    /// Median in seconds; `None` if the quantity is not a time.
    pub p50: Option<f64>,
    /// 90th percentile in seconds; `None` if the quantity is not a time.
    pub p90: Option<f64>,
    /// Datagrams of audio and video.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream: Option<StreamTotals>,
}

/// Datagrams of all streams of an application.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct StreamTotals {
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams received.
    pub received: u64,
    /// Of these, datagrams that arrived too late.
    pub overdue: u64,
}

/// Collects measurements; all times are kept, eight bytes each.
#[derive(Debug)]
pub struct Measurements {
    from: Time,
    names: Vec<String>,
    kinds: BTreeMap<(u32, &'static str), Kind>,
}

#[derive(Debug, Default)]
struct Kind {
    count: usize,
    seconds: Vec<f64>,
    stream: Option<StreamTotals>,
}

impl Measurements {
    /// None yet of this network; what is before the end of its warm-up will not count.
    pub fn new(network: &Network) -> Measurements {
        let workload = network.workload.iter();
        let names = workload.flat_map(|population| population.workload.apps());
        Measurements {
            from: Time::ZERO.saturating_add(network.warm_up),
            names: names.map(str::to_owned).collect(),
            kinds: BTreeMap::new(),
        }
    }

    /// One more.
    pub fn add(&mut self, sample: &Sample) {
        if sample.at < self.from {
            return;
        }
        let key = (sample.application, sample.record.name());
        let kind = self.kinds.entry(key).or_default();
        kind.count += 1;
        kind.seconds
            .extend(sample.record.took().map(|took| took.as_secs_f64()));
        if let Record::Stream {
            sent,
            received,
            overdue,
            ..
        } = sample.record
        {
            let stream = kind.stream.get_or_insert_default();
            stream.sent += sent;
            stream.received += received;
            stream.overdue += overdue;
        }
    }

    /// All of them, by application and kind.
    pub fn finish(self) -> Vec<Measurement> {
        let names = self.names;
        let kinds = self.kinds.into_iter();
        let all = kinds.map(|((application, name), mut kind)| {
            kind.seconds.sort_by(f64::total_cmp);
            let application = names.get(application as usize).cloned();
            Measurement {
                application: application.unwrap_or_default(),
                name,
                count: kind.count,
                p50: quantile(&kind.seconds, 50),
                p90: quantile(&kind.seconds, 90),
                stream: kind.stream,
            }
        });
        all.collect()
    }
}

impl Watch for Measurements {
    fn sample(&mut self, sample: &Sample) {
        self.add(sample);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_order_statistics() {
        assert_eq!(quantile(&[], 50), None);
        assert_eq!(quantile(&[7.0], 90), Some(7.0));
        let ten: Vec<f64> = (1..=10).map(f64::from).collect();
        assert_eq!(
            (quantile(&ten, 50), quantile(&ten, 90)),
            (Some(5.0), Some(9.0))
        );
        let eleven: Vec<f64> = (1..=11).map(f64::from).collect();
        assert_eq!(
            (quantile(&eleven, 50), quantile(&eleven, 90)),
            (Some(6.0), Some(10.0))
        );
    }
}
