use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{
    AdaptMode, Alarm, FilterKind, FlowId, FlowSpec, GroupId, Layer, LayerRate, PolicyError,
    QosPolicy, Refusal, SpecError,
};

/// The number of a management request, echoed in its answer; the user chooses it.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct RequestId(pub u32);

/// What `changeQoS` asks for: exactly one of the eight options of the interface, with its structure
/// (specs/mets.md 2.2).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QosOption {
    /// Renegotiate: a new flow specification.
    FlowSpec(FlowSpec),
    /// A new policy, with its mode, adaptation, filters and alarms.
    QosPolicy(QosPolicy),
    /// Maintain the flow, no periodic signals.
    Maint,
    /// Maintain the flow and signal periodically.
    Monitor,
    /// Signal periodically only.
    Signal,
    /// How the flow follows the bandwidth.
    Adapt(AdaptMode),
    /// Select these filters and no others.
    Filter(Vec<FilterKind>),
    /// Attach an alarm; one of the same metric and side is replaced, and removed if the new
    /// window is zero.
    Event(Alarm),
}

/// How a request ended: an Ack if [`Status::Ok`], else a Nak, after which nothing has changed
/// (specs/mets.md 2.2).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Done.
    Ok,
    /// The structure contradicts itself.
    Invalid {
        /// The offending field.
        field: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The media socket was not registered.
    NotRegistered,
    /// A node has too little of something.
    Admit(Refusal),
    /// The policy of the flow forbids it.
    Policy {
        /// The field that asks for too much.
        field: String,
        /// What is allowed.
        problem: String,
    },
    /// Another request is outstanding.
    Busy,
    /// There is no such filter for this flow in this place.
    NoFilter(FilterKind),
    /// No answer came in time.
    TimedOut,
    /// The flow is closed.
    Closed,
}

/// Where a group stands (specs/mets.md 2.2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GroupState {
    /// Takes frames and members.
    Open,
    /// Closing: what is queued is sent until the grace time is over.
    Draining,
    /// Everything was sent, and is on its way.
    Lingering,
    /// Over.
    Closed,
}

/// The role of a participant in a group.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Sends the media.
    Source,
    /// Receives them.
    Sink,
}

/// Why a member leaves (specs/mets.md 2.2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LeaveReason {
    /// The user has had enough.
    #[default]
    User,
    /// Its policy gives the flow up when bandwidth is scarce.
    Policy,
    /// Its host fails or is switched off.
    Failure,
}

/// One layer of a flow, as the layer table of a group lists it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LayerEntry {
    /// Which.
    pub layer: Layer,
    /// Its frame type on the wire, mean, peak and burst.
    pub rate: LayerRate,
}

/// What `getGroupInfo` tells (specs/mets.md 2.2).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct GroupInfo {
    /// Name of the group.
    pub name: String,
    /// The group.
    pub group: GroupId,
    /// Its flow.
    pub flow: FlowId,
    /// The node it comes from.
    pub server: String,
    /// What it needs.
    pub spec: FlowSpec,
    /// What to do when that cannot be had.
    pub policy: QosPolicy,
    /// The layers that have a rate.
    pub layers: Vec<LayerEntry>,
    /// Its core switch; `None` until one is chosen.
    pub core: Option<String>,
    /// Its circuit on the first link, where links carry cells.
    pub svc: Option<u16>,
    /// Members known here.
    pub members: u32,
    /// Where it stands.
    pub state: GroupState,
}

impl GroupInfo {
    /// The layer table of a flow specification: layers without a rate are not used.
    pub fn layer_table(spec: &FlowSpec) -> Vec<LayerEntry> {
        let used = spec.layers.iter().filter(|(_, rate)| rate.mean.0 > 0);
        used.map(|(layer, rate)| LayerEntry { layer, rate: *rate })
            .collect()
    }
}

impl QosOption {
    /// Name of the option as the interface has it.
    pub fn name(&self) -> &'static str {
        match self {
            QosOption::FlowSpec(_) => "flowSpec",
            QosOption::QosPolicy(_) => "QoSPolicy",
            QosOption::Maint => "maint",
            QosOption::Monitor => "monitor",
            QosOption::Signal => "signal",
            QosOption::Adapt(_) => "adapt",
            QosOption::Filter(_) => "filter",
            QosOption::Event(_) => "event",
        }
    }

    /// Checks the structure of the option.
    pub fn validate(&self) -> Result<(), Status> {
        match self {
            QosOption::FlowSpec(spec) => spec.validate().map_err(Status::from),
            QosOption::QosPolicy(policy) => policy.validate().map_err(Status::from),
            QosOption::Event(alarm) => alarm.validate().map_err(Status::from),
            QosOption::Filter(filters) => QosPolicy::check_filters(filters).map_err(Status::from),
            QosOption::Maint | QosOption::Monitor | QosOption::Signal | QosOption::Adapt(_) => {
                Ok(())
            }
        }
    }
}

impl Status {
    /// Whether the request was granted.
    pub fn is_ok(&self) -> bool {
        *self == Status::Ok
    }

    /// Its code as the interface has it.
    pub fn code(&self) -> &'static str {
        match self {
            Status::Ok => "OK",
            Status::Invalid { .. } => "EINVAL",
            Status::NotRegistered => "ENOTREG",
            Status::Admit(_) => "EADMIT",
            Status::Policy { .. } => "EPOLICY",
            Status::Busy => "EBUSY",
            Status::NoFilter(_) => "ENOFILTER",
            Status::TimedOut => "ETIMEDOUT",
            Status::Closed => "ECLOSED",
        }
    }
}

impl From<SpecError> for Status {
    fn from(error: SpecError) -> Status {
        Status::Invalid {
            field: error.field.into(),
            problem: error.problem,
        }
    }
}

impl From<PolicyError> for Status {
    fn from(error: PolicyError) -> Status {
        Status::Invalid {
            field: error.field.into(),
            problem: error.problem.into(),
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Status::Ok => write!(f, "done"),
            Status::Invalid { field, problem } | Status::Policy { field, problem } => {
                write!(f, "{field} {problem}")
            }
            Status::NotRegistered => write!(f, "the media socket is not registered"),
            Status::Admit(refusal) => write!(f, "{refusal}"),
            Status::Busy => write!(f, "another request is outstanding"),
            Status::NoFilter(kind) => write!(f, "no filter {kind:?} for this flow here"),
            Status::TimedOut => write!(f, "no answer came in time"),
            Status::Closed => write!(f, "the flow is closed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AlarmOp, CellRate, Metric, PerLayer};

    fn alarm() -> Alarm {
        Alarm {
            metric: Metric::Loss,
            op: AlarmOp::Above,
            threshold: 10.0,
            window_ms: 1_000,
            hysteresis: 1.0,
            oneshot: false,
        }
    }

    #[test]
    fn a_structure_that_contradicts_itself_names_its_field() {
        let code = |option: QosOption| option.validate().map_err(|status| status.to_string());
        assert_eq!(code(QosOption::Event(alarm())), Ok(()));
        let status = QosOption::FlowSpec(FlowSpec {
            max_frame: 0,
            ..FlowSpec::default()
        })
        .validate()
        .unwrap_err();
        assert_eq!(status.code(), "EINVAL");
        assert!(matches!(status, Status::Invalid { field, .. } if field == "max_frame"));
        let nan = QosOption::Event(Alarm {
            threshold: f64::NAN,
            ..alarm()
        });
        assert!(code(nan).unwrap_err().starts_with("events"));
        let coefficients = QosOption::Filter(vec![FilterKind::LowPass(65)]);
        assert!(code(coefficients).unwrap_err().starts_with("filters"));
        let twice = QosOption::Filter(vec![FilterKind::Drs, FilterKind::Drs]);
        assert!(code(twice).unwrap_err().starts_with("filters"));
    }

    #[test]
    fn the_layer_table_lists_the_layers_in_use() {
        let rate = |mean| LayerRate {
            mean: CellRate(mean),
            ..LayerRate::default()
        };
        let spec = FlowSpec {
            layers: PerLayer {
                base: rate(480),
                e1: rate(960),
                e2: rate(0),
            },
            ..FlowSpec::default()
        };
        let table = GroupInfo::layer_table(&spec);
        let layers: Vec<Layer> = table.iter().map(|entry| entry.layer).collect();
        assert_eq!(layers, [Layer::Base, Layer::E1]);
    }

    #[test]
    fn options_and_answers_are_plain_json() {
        let text = serde_json::to_string(&QosOption::Adapt(AdaptMode::Continuous)).unwrap();
        assert_eq!(text, r#"{"adapt":"continuous"}"#);
        let option: QosOption = serde_json::from_str(r#""maint""#).unwrap();
        assert_eq!(option, QosOption::Maint);
        let answer = Status::NoFilter(FilterKind::LowPass(8));
        let text = serde_json::to_string(&answer).unwrap();
        assert_eq!(serde_json::from_str::<Status>(&text).unwrap(), answer);
    }
}
