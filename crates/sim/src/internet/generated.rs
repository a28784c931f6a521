//! What became of the transfers of a generator.

use layercast_core::{Span, Time};
use serde::Serialize;

use super::network::NodeIndex;

/// A transfer of a generator.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Transfer {
    /// The host that sends.
    pub from: NodeIndex,
    /// The host that receives.
    pub to: NodeIndex,
    /// Its length.
    pub bytes: u64,
    /// When it began.
    pub start: Time,
    /// When its receiver had all.
    pub end: Option<Time>,
    /// How long it takes at the rate of the path, in an empty network and without a handshake; none over a backbone.
    pub ideal: Option<Span>,
    /// Segments retransmitted until its end.
    pub retransmitted: u32,
    /// Retransmission timeouts until its end.
    pub timeouts: u32,
}

impl Transfer {
    /// Its completion time in seconds.
    pub fn seconds(&self) -> Option<f64> {
        let end = self.end?;
        Some(end.since(self.start).as_secs_f64())
    }

    /// Its completion time as a multiple of the ideal one.
    pub fn slowdown(&self) -> Option<f64> {
        let ideal = self.ideal.filter(|&ideal| ideal > Span::ZERO)?;
        Some(self.seconds()? / ideal.as_secs_f64())
    }
}

/// The transfers of a generator that began after the warm-up.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct GeneratorReport {
    /// Name of the generator.
    pub name: String,
    /// Transfers that began.
    pub started: u64,
    /// Of these, transfers whose receiver has all.
    pub completed: u64,
    /// Transfers that did not begin because the sender had no free port.
    pub refused: u64,
    /// Connections that failed.
    pub failed: u64,
    /// Bytes of the transfers that began.
    pub bytes: u64,
    /// Segments retransmitted.
    pub retransmitted: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Completion times in seconds; `None` if no transfer is complete.
    pub completion: Option<Spread>,
    /// Completion times as multiples of the ideal ones; `None` if no transfer is complete.
    pub slowdown: Option<Spread>,
    /// The same by length.
    pub sizes: Vec<SizeReport>,
    /// The transfers, in the order of their starts.
    #[serde(skip)]
    pub transfers: Vec<Transfer>,
}

/// Transfers of similar length.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SizeReport {
    /// Greatest length in bytes; those of the bin before are shorter. `None`: no bound.
    pub to_bytes: Option<u64>,
    /// Transfers that began.
    pub started: u64,
    /// Of these, transfers whose receiver has all.
    pub completed: u64,
    /// Completion times in seconds.
    pub completion: Option<Spread>,
    /// Completion times as multiples of the ideal ones.
    pub slowdown: Option<Spread>,
}

/// Mean and percentiles; each percentile is one of the values.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Spread {
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
}

impl Spread {
    /// That of these values; none of none.
    fn of(values: impl Iterator<Item = f64>) -> Option<Spread> {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        Some(Spread {
            p50: quantile(&values, 50)?,
            p95: quantile(&values, 95)?,
            p99: quantile(&values, 99)?,
            mean: values.iter().sum::<f64>() / values.len() as f64,
        })
    }
}

impl GeneratorReport {
    /// Of these transfers, with `refused` and `failed` as counted, in bins up to these lengths.
    pub(super) fn new(
        name: &str,
        bins: &[u64],
        (refused, failed): (u64, u64),
        transfers: Vec<Transfer>,
    ) -> GeneratorReport {
        let bin = |to: Option<u64>, above: u64| {
            let is_in = |it: &&Transfer| it.bytes > above && to.is_none_or(|to| it.bytes <= to);
            let these = || transfers.iter().filter(is_in);
            SizeReport {
                to_bytes: to,
                started: these().count() as u64,
                completed: these().filter(|it| it.end.is_some()).count() as u64,
                completion: Spread::of(these().filter_map(Transfer::seconds)),
                slowdown: Spread::of(these().filter_map(Transfer::slowdown)),
            }
        };
        let tops = bins.iter().copied().map(Some).chain([None]);
        let bottoms = [0].into_iter().chain(bins.iter().copied());
        let sizes = tops.zip(bottoms).map(|(to, above)| bin(to, above));
        let all = bin(None, 0);
        let sum = |of: fn(&Transfer) -> u64| transfers.iter().map(of).sum();
        GeneratorReport {
            name: name.to_owned(),
            started: all.started,
            completed: all.completed,
            refused,
            failed,
            bytes: sum(|it| it.bytes),
            retransmitted: sum(|it| it.retransmitted.into()),
            timeouts: sum(|it| it.timeouts.into()),
            completion: all.completion,
            slowdown: all.slowdown,
            sizes: sizes.filter(|it| it.started > 0).collect(),
            transfers,
        }
    }
}

/// The value that a given percentage of the samples does not exceed: an order statistic
/// (specs/insane-simulator.md 2.11).
pub(super) fn quantile(sorted: &[f64], percent: usize) -> Option<f64> {
    let place = (sorted.len() * percent).div_ceil(100);
    sorted.get(place.checked_sub(1)?).copied()
}
