use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::Level;

/// What the transport does on its own, and what it tells the user (specs/mets.md 2.9).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MaintMode {
    /// Maintains the flow; no periodic signals.
    Maint,
    /// Maintains the flow and signals periodically.
    #[default]
    Monitor,
    /// Only signals; does not maintain.
    Signal,
}

/// How the flow follows the bandwidth (specs/mets.md 2.2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AdaptMode {
    /// Not at all.
    None,
    /// Whole enhancement layers are added and removed.
    #[default]
    Discrete,
    /// A rate-shaping filter follows a real-valued rate.
    Continuous,
}

/// A filter that can be put into a flow (specs/mets.md 2.13).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FilterKind {
    /// Jitter filter at the receiver.
    Jitter,
    /// Picture dropping.
    PictureDrop,
    /// Keep the first k of 64 DCT coefficients.
    LowPass(u8),
    /// Dynamic rate shaping.
    Drs,
}

/// What happens when bandwidth gets scarce (specs/mets.md 2.3).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnScarce {
    /// Tell the user only; the end systems drop nothing on their own.
    Inform,
    /// Drop the highest enhancement layer.
    #[default]
    DropLayer,
    /// Put in a filter.
    Filter(FilterKind),
    /// Give up the flow.
    Disconnect,
}

/// What happens when bandwidth becomes available (specs/mets.md 2.3).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnPlenty {
    /// Never raise.
    Ignore,
    /// Tell the user and raise only after its answer.
    Inform,
    /// Ask for the next enhancement layer.
    #[default]
    AddLayer,
}

/// A figure the flow monitor keeps (specs/mets.md 2.7).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Metric {
    /// Lost frames in permille.
    Loss,
    /// Frames dropped because they came after their deadline.
    Late,
    /// Mean one-way delay in microseconds.
    Delay,
    /// Jitter in microseconds.
    Jitter,
    /// Cells per second.
    Rate,
}

/// The side of the threshold on which an alarm fires.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum AlarmOp {
    /// When the metric rises above the threshold.
    #[serde(rename = ">")]
    Above,
    /// When the metric falls below the threshold.
    #[serde(rename = "<")]
    Below,
}

/// An alarm on a metric: fires once per crossing (specs/mets.md 2.9).
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Alarm {
    /// The metric watched.
    pub metric: Metric,
    /// Above or below.
    pub op: AlarmOp,
    /// In the unit of the metric.
    pub threshold: f64,
    /// Over how long the metric is taken, in milliseconds.
    pub window_ms: u32,
    /// How far the metric must come back before the alarm is armed again.
    pub hysteresis: f64,
    /// Whether the alarm is removed once it fired.
    pub oneshot: bool,
}

/// What the system should do when the flow specification cannot be met, or when more is possible
/// (specs/mets.md 2.3).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct QosPolicy {
    /// Maintain, signal, or both.
    pub mode: MaintMode,
    /// How the flow follows the bandwidth.
    pub adapt: AdaptMode,
    /// When bandwidth gets scarce.
    pub on_scarce: OnScarce,
    /// When bandwidth becomes available.
    pub on_plenty: OnPlenty,
    /// Never ask for less.
    pub min_level: Level,
    /// Never ask for more.
    pub max_level: Level,
    /// Filters in use.
    pub filters: Vec<FilterKind>,
    /// Period of `QoSMetric` signals in milliseconds.
    pub signal_period_ms: u32,
    /// Alarms.
    pub events: Vec<Alarm>,
    /// Missed deadlines in a window of 24 that raise MISSED_DEADLINE.
    pub missed_deadline_threshold: u8,
    /// Late frames in a GOP that move the playout point.
    pub late_threshold: u8,
}

/// A policy that contradicts itself; names the field.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("QoS policy: {field} {problem}")]
pub struct PolicyError {
    /// The offending field.
    pub field: &'static str,
    /// What is wrong with it.
    pub problem: &'static str,
}

impl Default for QosPolicy {
    fn default() -> QosPolicy {
        QosPolicy {
            mode: MaintMode::Monitor,
            adapt: AdaptMode::Discrete,
            on_scarce: OnScarce::DropLayer,
            on_plenty: OnPlenty::AddLayer,
            min_level: Level::BASE,
            max_level: Level::FULL,
            filters: vec![FilterKind::Jitter],
            signal_period_ms: 1_000,
            events: Vec::new(),
            missed_deadline_threshold: 3,
            late_threshold: 1,
        }
    }
}

impl QosPolicy {
    /// Checks the fields against each other.
    pub fn validate(&self) -> Result<(), PolicyError> {
        let fail = |field, problem| Err(PolicyError { field, problem });
        if self.min_level > self.max_level {
            return fail("min_level", "is above max_level");
        }
        if self.signal_period_ms == 0 {
            return fail("signal_period_ms", "must not be zero");
        }
        if self.missed_deadline_threshold == 0 || self.late_threshold == 0 {
            return fail(
                "late_threshold",
                "and missed_deadline_threshold must not be zero",
            );
        }
        if self.events.len() > QosPolicy::MAX_ALARMS {
            return fail("events", "are more than 64");
        }
        self.events.iter().try_for_each(Alarm::validate)?;
        QosPolicy::check_filters(&self.filters)
    }

    /// Most alarms a flow may have.
    pub const MAX_ALARMS: usize = 64;

    /// Checks a choice of filters: each kind once, with parameters that can be meant.
    pub fn check_filters(filters: &[FilterKind]) -> Result<(), PolicyError> {
        let fail = |problem| {
            let field = "filters";
            Err(PolicyError { field, problem })
        };
        let kind = std::mem::discriminant::<FilterKind>;
        for (at, filter) in filters.iter().enumerate() {
            if filters[..at]
                .iter()
                .any(|other| kind(other) == kind(filter))
            {
                return fail("name one kind twice");
            }
            if matches!(filter, FilterKind::LowPass(k) if !(1..=64).contains(k)) {
                return fail("keep a number of coefficients that is not in 1..=64");
            }
        }
        Ok(())
    }
}

impl Alarm {
    /// Checks its figures.
    pub fn validate(&self) -> Result<(), PolicyError> {
        if !self.threshold.is_finite() || !self.hysteresis.is_finite() || self.hysteresis < 0.0 {
            return Err(PolicyError {
                field: "events",
                problem: "have a threshold or hysteresis that is no number",
            });
        }
        Ok(())
    }

    /// Whether both watch the same side of the same metric: of such only one is attached.
    pub fn same_watch(&self, other: &Alarm) -> bool {
        (self.metric, self.op) == (other.metric, other.op)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_those_of_the_spec() {
        let policy = QosPolicy::default();
        assert_eq!(policy.validate(), Ok(()));
        assert_eq!(policy.filters, [FilterKind::Jitter]);
        let inverted = QosPolicy {
            min_level: Level::FULL,
            max_level: Level::E1,
            ..policy
        };
        assert_eq!(inverted.validate().unwrap_err().field, "min_level");
    }
}
