//! The small machines of quality of service: flow scheduler, shaper, jitter filter, flow monitor,
//! fair share, demand probe and admission arithmetic (specs/mets.md 2.4 to 2.11).
//!
//! Each is a plain struct driven by `now` arguments and owned by a machine of `transport` or
//! `switch`; none knows of the others.
//!
//! ```
//! use layercast_core::{CellRate, FlowId};
//! use layercast_qos::{Demand, Want, fair_share};
//!
//! // 900 cells/s for a flow that wants 100 and two that want all they can get.
//! let want = |flow, rate| Demand { flow: FlowId(flow), want: Want::Rate(CellRate(rate)) };
//! let mut grants = Vec::new();
//! let rest = fair_share(CellRate(900), &[want(1, 100), want(2, 5_000), want(3, 5_000)], &mut grants);
//! assert_eq!(grants.iter().map(|grant| grant.rate.0).collect::<Vec<_>>(), [100, 400, 400]);
//! assert_eq!(rest, CellRate(0));
//! ```

mod admission;
mod alarm;
mod deadlines;
mod fair_share;
mod histogram;
mod jitter;
mod jitter_config;
mod metric;
mod monitor;
mod outage;
mod pair;
mod policer;
mod probe;
mod rate_probe;
mod recent;
mod scheduler;
mod shaper;
mod stall;
mod timestamp;
mod zone_rule;

pub use admission::{AdmissionLimits, DelayBudget, HostCost};
pub use alarm::{Alarms, Raised};
pub use deadlines::DeadlineWindow;
pub use fair_share::{Demand, Grant, Want, fair_share};
pub use histogram::DelayHistogram;
pub use jitter::{JitterEvent, JitterFilter, MoveCause, Playout};
pub use jitter_config::{GUARD, JitterConfig, LOSSY_LEAST, Margin};
pub use metric::{DelayMetric, LayerMetric, LossCount, QosMetric};
pub use monitor::FlowMonitor;
pub use pair::{LevelPair, Merge};
pub use policer::{NoBucket, Probed, TokenBucket, token_bucket};
pub use probe::{Advice, DemandProbe, ProbeConfig, ProbeMode};
pub use rate_probe::RateProbe;
pub use scheduler::{FlowScheduler, LiveTime, Released, SchedulerConfig, SchedulerEvent};
pub use shaper::{
    BucketError, BucketParams, CATCH_UP, PEAK_FACTOR, SerialHead, SerialPacer, SerialQueue, Shaper,
    ShaperConfig, ShaperError, ShaperStats, queue_bound,
};
pub use timestamp::{SignedSpan, SourceTime, TimestampUnwrapper};
pub use zone_rule::{Cause, Load, Seen, Verdict, ZoneRule};
