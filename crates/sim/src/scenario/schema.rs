//! The scenario file: one schema as TOML, as a Python dict and as these structs.

use std::path::PathBuf;

use layercast_atm::SharedPolicy;
use layercast_core::{CellRate, Composition, Level, QosPolicy, Rate, Span};
use layercast_link::{Discard, RateSchedule};
use layercast_media::{FilterRule, Synthetic};
use layercast_mets::switch::Lowering;
use layercast_mets::{ParityConfig, PlayoutConfig};
use layercast_qos::{Merge, ProbeMode};
use layercast_wire::{Carriage, Mark};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::admission::{self, Admission, PromiseSpec};
use super::defaults;
use super::form::{self, time_to};
use super::host::HostChoice;
use super::limits::{MOST_FRAMES, MOST_HEADROOM, MOST_MARGIN, MOST_NAME, MOST_SPARE};
use super::repair::LinkRepair;
use super::shorthand::{word_or_table, word_or_table_out};
use super::units::{QueueSize, text, text_opt};
use crate::text::{Text, above_zero};
use crate::ties::Ties;

/// How media are protected from end to end (docs/src/explanation/security.md).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SecuritySpec {
    /// Whether receivers need a token. Receivers of the scenario have one, except with `token = false`.
    #[serde(default = "defaults::yes")]
    pub tokens: bool,
}

/// A network, its flows and receivers, and faults.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(
    title = "Layercast scenario of layered flows",
    extend("required" = ["name", "duration", "node"])
)]
pub struct Scenario {
    /// Name in titles and file names.
    #[schemars(extend("minLength" = 1, "maxLength" = MOST_NAME, "pattern" = form::NAME))]
    pub name: String,
    /// Seed of every random stream of the run.
    #[serde(default = "defaults::seed")]
    pub seed: u64,
    /// Simulated time.
    #[serde(with = "text")]
    #[schemars(with = "Text<Span>", extend("pattern" = time_to(form::DAY)))]
    pub duration: Span,
    /// The units on links.
    #[serde(default = "defaults::carriage")]
    #[schemars(schema_with = "form::carriage")]
    pub carriage: Carriage,
    /// Era of the QoS adapter.
    #[serde(default = "defaults::era", with = "text")]
    #[schemars(with = "Text<Span>", extend("pattern" = time_to(form::DAY)))]
    pub era: Span,
    /// RES interval of switches and sources.
    #[serde(default = "defaults::res_interval", with = "text")]
    #[schemars(with = "Text<Span>", extend("pattern" = time_to(form::DAY)))]
    pub res_interval: Span,
    /// Whether every PDU and signal is encoded and decoded at every hop.
    #[serde(default)]
    pub wire_check: bool,
    /// Whether a receiver that joins between two GOP starts gets the running GOP from its start on, with the rate that
    /// its link has left; on links of datagrams.
    #[serde(default)]
    pub fast_start: bool,
    /// Order of events of the same instant.
    #[serde(default)]
    pub ties: Ties,
    /// Which cell of a frame carries the AAL5 end mark.
    #[serde(default = "defaults::aal5_mark")]
    #[schemars(schema_with = "form::aal5_mark")]
    pub aal5_mark: Mark,
    /// How joins are tested against the capacity of links, processors and hosts. With `false` every base layer is
    /// granted and sources send all their frames: for experiments with overload.
    #[serde(default)]
    #[schemars(schema_with = "admission::schema")]
    pub admission: Admission,
    /// What links promise their base layers with `admission = "measured"`.
    #[serde(default, skip_serializing_if = "PromiseSpec::is_default")]
    pub promise: PromiseSpec,
    /// When a lower level takes effect.
    #[serde(default)]
    #[schemars(schema_with = "form::lowering")]
    pub lowering: Lowering,
    /// Sealed media and tokens; default: media in the clear.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub security: Option<SecuritySpec>,
    /// How switches merge the demands of several branches.
    #[serde(default)]
    #[schemars(schema_with = "form::merge")]
    pub merge: Merge,
    /// Processing costs of hosts and switches without their own.
    #[serde(default)]
    pub host: HostChoice,
    /// Time until neighbours detect a change of a node or link.
    #[serde(default = "defaults::detection", with = "text")]
    #[schemars(with = "Text<Span>")]
    pub detection: Span,
    /// Hosts and switches.
    #[serde(rename = "node", default)]
    #[schemars(length(min = 1))]
    pub nodes: Vec<NodeSpec>,
    /// Links between two nodes each.
    #[serde(rename = "link", default)]
    pub links: Vec<LinkSpec>,
    /// Media flows.
    #[serde(rename = "flow", default)]
    pub flows: Vec<FlowEntry>,
    /// Receivers.
    #[serde(rename = "receiver", default)]
    pub receivers: Vec<ReceiverSpec>,
    /// Filters in switches.
    #[serde(rename = "filter", default)]
    pub filters: Vec<FilterSpec>,
    /// Faults.
    #[serde(rename = "fault", default)]
    pub faults: Vec<FaultSpec>,
    /// Requests of applications to the management interface.
    #[serde(rename = "request", default, skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<RequestSpec>,
    /// Where relative paths of clips start; not part of the file.
    #[serde(skip)]
    pub base_dir: PathBuf,
}

/// A host or a switch.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeSpec {
    /// Unique.
    #[schemars(extend("minLength" = 1, "maxLength" = MOST_NAME, "pattern" = form::NAME))]
    pub name: String,
    /// Its kind.
    pub kind: NodeKind,
    /// Its processing costs; default: those of the scenario.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostChoice>,
}

/// What a node is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum NodeKind {
    /// Forwards flows.
    Switch,
    /// Has sources or receivers.
    Host,
}

/// A link; its parameters hold for both directions.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkSpec {
    /// One end.
    pub a: String,
    /// The other end.
    pub b: String,
    /// Its rate.
    #[serde(
        deserialize_with = "word_or_table",
        serialize_with = "word_or_table_out"
    )]
    pub rate: RateSpec,
    /// When it has another share of that rate, counted from the start of the scenario, in both directions.
    #[serde(default, with = "text_opt", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Text<RateSchedule>>")]
    pub schedule: Option<RateSchedule>,
    /// Propagation delay.
    #[serde(default, with = "text")]
    #[schemars(with = "Text<Span>")]
    pub delay: Span,
    /// Queue of each port.
    #[serde(default = "defaults::queue", with = "text")]
    #[schemars(with = "Text<QueueSize>", extend("pattern" = form::queue()))]
    pub queue: QueueSize,
    /// Fraction of the queue above which a switch marks congestion. Hosts do not mark.
    #[serde(default = "defaults::efci")]
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0))]
    pub efci: f64,
    /// What a full queue discards: whole frames of high layers early (`layers`), or by class, as the policies of a shared buffer
    /// do: the base layer is class I, E1 class P, E2 class B.
    #[serde(default, skip_serializing_if = "DiscardSpec::is_default")]
    pub discard: DiscardSpec,
    /// Fraction of the rate that base layers may reserve.
    #[serde(default = "defaults::bl_share")]
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0))]
    pub bl_share: f64,
    /// Capacity that the adapter distributes; default: the rate.
    #[serde(default, with = "text_opt", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Text<CellRate>>", extend("pattern" = form::cell_rate()))]
    pub adapt_capacity: Option<CellRate>,
    /// Whether the adapter divides the rate among the flows. With `false` each flow has all layers that its receivers want, and the
    /// queue alone decides what is lost.
    #[serde(default = "defaults::yes", skip_serializing_if = "Clone::clone")]
    pub adapt: bool,
    /// Loss process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<LossSpec>,
    /// Delay variation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter: Option<JitterSpec>,
    /// Whether jitter may change the order of PDUs.
    #[serde(default)]
    pub reorder: bool,
    /// Probability that a PDU arrives twice.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1))]
    pub duplicate: f64,
    /// Loss probability of RES and ADAPT, in addition to other loss.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1))]
    pub adapter_loss: f64,
    /// Repair of losses at both ends; a multicast group has parities upon requests whatever the means are. Datagrams only.
    #[serde(default)]
    #[schemars(schema_with = "form::repair")]
    pub repair: LinkRepair,
    /// Multicast group: the links of `a` with the same name are one port of `a`. A datagram to it is sent once; each link
    /// delays it and loses it on its own. `b` is a host of receivers. Datagrams only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multicast: Option<String>,
}

/// What a full queue discards.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DiscardSpec {
    /// New frames of E2 above half of the queue, of E1 above three quarters, and the rest of frames that lost a unit.
    #[default]
    Layers,
    /// The unit that arrives.
    Fifo,
    /// The youngest unit of E1 and E2, for one of the base layer.
    Clp,
    /// The youngest unit of the lowest class below that of the one that arrives.
    Exclp,
    /// The same; and frames from the threshold of their class on.
    ExclpEpd,
    /// The same; and what refers to a frame that lost a unit.
    Dependent,
    /// The same; and before frames of E2, whole GOPs of each flow in turn.
    WholeGops,
    /// The unit that arrives, from the threshold of its class on.
    Thresholds,
    /// The unit that arrives, if the part of its class is full.
    Dedicated,
}

impl DiscardSpec {
    /// All, from the one that knows least to the one that knows most, and two others.
    pub const ALL: [DiscardSpec; 9] = [
        DiscardSpec::Fifo,
        DiscardSpec::Layers,
        DiscardSpec::Clp,
        DiscardSpec::Exclp,
        DiscardSpec::ExclpEpd,
        DiscardSpec::Dependent,
        DiscardSpec::WholeGops,
        DiscardSpec::Thresholds,
        DiscardSpec::Dedicated,
    ];

    /// For `serde`: whether it is left out of files.
    pub fn is_default(&self) -> bool {
        *self == DiscardSpec::Layers
    }

    /// Its name in files.
    pub fn name(self) -> &'static str {
        self.discard().classes.map_or("layers", SharedPolicy::name)
    }

    /// As a port takes it.
    pub fn discard(self) -> Discard {
        let classes = match self {
            DiscardSpec::Layers => None,
            DiscardSpec::Fifo => Some(SharedPolicy::Fifo),
            DiscardSpec::Clp => Some(SharedPolicy::Clp),
            DiscardSpec::Exclp => Some(SharedPolicy::ExClp),
            DiscardSpec::ExclpEpd => Some(SharedPolicy::ExClpEpd),
            DiscardSpec::Dependent => Some(SharedPolicy::Dependent),
            DiscardSpec::WholeGops => Some(SharedPolicy::WholeGops),
            DiscardSpec::Thresholds => Some(SharedPolicy::Thresholds),
            DiscardSpec::Dedicated => Some(SharedPolicy::Dedicated),
        };
        Discard {
            classes,
            ..Discard::default()
        }
    }
}

/// The rate of a link: a figure, or what a flow needs.
#[derive(Clone, PartialEq, Debug)]
pub enum RateSpec {
    /// A rate in bit/s.
    Fixed(Rate),
    /// What a flow needs at some level, and some more.
    Fits(FitSpec),
}

/// A link rate that fits a flow.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FitSpec {
    /// The flow.
    pub fits: String,
    /// The level that must fit.
    #[schemars(schema_with = "form::level")]
    pub level: Level,
    /// Spare rate, as a fraction.
    #[serde(default)]
    #[schemars(range(min = 0, max = MOST_SPARE))]
    pub spare: f64,
}

/// How PDUs get lost on a link.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LossSpec {
    /// Independent losses with this probability.
    Bernoulli(#[schemars(range(min = 0, max = 1))] f64),
    /// In bursts.
    Gilbert(GilbertSpec),
}

/// The Gilbert-Elliott channel: two states, changing at each PDU.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GilbertSpec {
    /// Probability of going from good to bad.
    #[schemars(range(min = 0, max = 1))]
    pub p_gb: f64,
    /// Probability of going from bad to good.
    #[schemars(range(min = 0, max = 1))]
    pub p_bg: f64,
    /// Loss probability in the good state.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1))]
    pub good: f64,
    /// Loss probability in the bad state.
    #[serde(default = "defaults::one")]
    #[schemars(range(min = 0, max = 1))]
    pub bad: f64,
}

/// Delay variation on a link.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum JitterSpec {
    /// Uniform between zero and this.
    Uniform(
        #[serde(with = "text")]
        #[schemars(with = "Text<Span>")]
        Span,
    ),
    /// The absolute value of a normal variable with this standard deviation.
    Normal(
        #[serde(with = "text")]
        #[schemars(with = "Text<Span>")]
        Span,
    ),
}

/// A media flow.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FlowEntry {
    /// Unique.
    #[schemars(extend("minLength" = 1, "maxLength" = MOST_NAME, "pattern" = form::NAME))]
    pub name: String,
    /// The host of the source.
    pub source: String,
    /// The media.
    pub clip: ClipSpec,
    /// Frames per second; required for a synthetic clip or a trace. A video file has its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = MOST_FRAMES), extend("exclusiveMinimum" = 0))]
    pub frame_rate: Option<f64>,
    /// What the layers are to each other. Of a file with `"alternative"` the programs of the transport stream are the
    /// renditions. Of a synthetic clip or a trace each level has all pictures, at 12, 36 and 100 % of their sizes.
    #[serde(default, skip_serializing_if = "Composition::is_additive")]
    #[schemars(schema_with = "form::composition")]
    pub composition: Composition,
    /// The highest layer that is sent at all.
    #[serde(default = "defaults::full")]
    #[schemars(schema_with = "form::level")]
    pub top: Level,
    /// Time of the first frame.
    #[serde(default, with = "text")]
    #[schemars(with = "Text<Span>")]
    pub start: Span,
    /// End of the flow; default: the end of the clip, or never for a synthetic one.
    #[serde(default, with = "text_opt", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Text<Span>>", extend("pattern" = above_zero()))]
    pub stop: Option<Span>,
    /// Whether the start is moved by a seeded uniform draw over one GOP.
    #[serde(default)]
    pub random_phase: bool,
    /// Whether the start is moved so that the flows of this source with `stagger` share a frame
    /// period evenly.
    #[serde(default)]
    pub stagger: bool,
    /// How much more than measured the flow declares for each layer, as a fraction, as `serve` does for live streams.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(range(min = 0, max = MOST_HEADROOM))]
    pub headroom: f64,
    /// Bound of the end-to-end delay, at least 1 ms; it sets the playout delay.
    #[serde(default, with = "text_opt", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Text<Span>>", extend("pattern" = time_to(form::DELAY)))]
    pub delay_max: Option<Span>,
    /// How the source smooths its frames.
    #[serde(
        default,
        deserialize_with = "word_or_table",
        serialize_with = "word_or_table_out"
    )]
    pub shaping: ShapingSpec,
    /// QoS policy: reaction to scarce and to available bandwidth.
    #[serde(default)]
    #[schemars(with = "form::Policy")]
    pub policy: QosPolicy,
    /// Its core switch: the name of a switch, or `"auto"` for the one nearest to the source and to the receivers
    /// that have joined when the flow starts. Default: joins follow the path of the advertisement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core: Option<String>,
    /// Parities for its base layer: `"6+2"`, `"reed-solomon:20+4"`, or `"auto"`: as the reported loss requires
    /// (docs/src/reference/fec.md). Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("pattern" = form::protection()))]
    pub protect_base: Option<ParityConfig>,
}

fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

/// Where the frames of a flow come from.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ClipSpec {
    /// A clip with the statistics of the measurements of 1996.
    Synthetic(#[schemars(schema_with = "form::synthetic")] Synthetic),
    /// An MPEG-1 or MPEG-2 video file.
    File(PathBuf),
    /// A trace file: `frame_no type bytes`.
    Trace(PathBuf),
}

/// How the source smooths its frames.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum ShapingSpec {
    /// Token bucket at a multiple of the mean rate of the enabled layers.
    PeakFactor(f64),
    /// Token bucket with these parameters.
    Bucket {
        /// Depth in cells.
        b: u32,
        /// Milliseconds between refreshes.
        p: u32,
    },
    /// All flows of the host through one pacer, frame after frame, at the rate that their receivers
    /// take in; the default bucket while that is not known.
    Serial,
    /// Frames leave as they are dispatched.
    Off,
}

/// A receiver of a flow.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReceiverSpec {
    /// Unique; the name of the node if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minLength" = 1, "maxLength" = MOST_NAME, "pattern" = form::NAME))]
    pub name: Option<String>,
    /// Its host.
    pub node: String,
    /// The flow.
    pub flow: String,
    /// The preferred level.
    #[serde(default = "defaults::full")]
    #[schemars(schema_with = "form::level")]
    pub level: Level,
    /// Time of the join.
    #[serde(default, with = "text")]
    #[schemars(with = "Text<Span>")]
    pub join: Span,
    /// Time of the leave.
    #[serde(default, with = "text_opt", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Text<Span>>", extend("pattern" = above_zero()))]
    pub leave: Option<Span>,
    /// When it increases its demand after congestion.
    #[serde(default)]
    #[schemars(schema_with = "form::probe")]
    pub probe: ProbeMode,
    /// Rate that its host accepts, all its flows together; default: from the costs of the host; `"0 cells/s"`:
    /// no limit.
    #[serde(default, with = "text_opt", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Text<CellRate>>")]
    pub drain: Option<CellRate>,
    /// Whether frames that lost cells are filled with zeros and played.
    #[serde(default)]
    pub repair: bool,
    /// Parameters of the jitter filter.
    #[serde(default)]
    pub playout: PlayoutSpec,
    /// Its policy; default: that of the flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<form::Policy>")]
    pub policy: Option<QosPolicy>,
    /// Whether it has a token of the source of its flow, if the scenario requires tokens.
    #[serde(default = "defaults::yes")]
    pub token: bool,
}

/// Parameters of the jitter filter.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PlayoutSpec {
    /// Fixed playout delay; overrides the `delay_max` of the flow.
    #[serde(with = "text_opt", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Text<Span>>")]
    pub delay: Option<Span>,
    /// Largest estimated playout delay.
    #[serde(with = "text_opt", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Text<Span>>")]
    pub longest: Option<Span>,
    /// Gain of the mean delay.
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0))]
    pub a: f64,
    /// Gain of the mean deviation.
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0))]
    pub beta: f64,
    /// Fixed margin in mean deviations; the paper's is 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = MOST_MARGIN), extend("exclusiveMinimum" = 0))]
    pub r: Option<f64>,
    /// Without `r`: target for late frames, in thousandths.
    pub target_late_permille: u16,
    /// Clean GOPs after which the playout point is pulled in (K).
    pub hold_gops: u32,
    /// Whether the target is computed from recent delays, not from mean and deviation.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub quantile: bool,
    /// Whether frames delayed by a stall do not change the playout delay.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub spares_stalls: bool,
}

/// A filter in a switch, for the branches of a flow.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FilterSpec {
    /// The switch.
    pub node: String,
    /// The flow.
    pub flow: String,
    /// The neighbour of the branch; default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// `"keep:I"`, `"keep:IP"`, `"thin:1/2"`, `"low-pass:10"` or `"drs"`.
    #[schemars(with = "String", extend("pattern" = form::rule()))]
    pub rule: FilterRule,
}

/// A fault, or its end.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend(
    "if" = { "properties": { "kind": { "enum": ["kill", "stop", "restart"] } } },
    "then" = { "required": ["node"], "properties": { "link": { "type": "null" } } },
    "else" = { "required": ["link"], "properties": { "node": { "type": "null" } } }
))]
pub struct FaultSpec {
    /// Its time.
    #[serde(with = "text")]
    #[schemars(with = "Text<Span>")]
    pub at: Span,
    /// Its kind.
    pub kind: FaultKind,
    /// The node that is killed, stopped or restarted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The two ends of the link that goes down or up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<[String; 2]>,
}

/// A request of an application (`changeQoS`).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RequestSpec {
    /// Its time.
    #[serde(with = "text")]
    #[schemars(with = "Text<Span>")]
    pub at: Span,
    /// The flow of the requesting server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<String>,
    /// The requesting receiver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receiver: Option<String>,
    /// The request.
    #[schemars(with = "form::Asked")]
    pub option: serde_json::Value,
}

/// Kinds of faults.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// The node fails: it ends immediately, and loses all state.
    Kill,
    /// The node is stopped: it leaves the flows of other nodes and says so to its neighbours, and ends when they have heard it.
    Stop,
    /// The node starts with empty state; killed first if it runs.
    Restart,
    /// The link drops everything.
    LinkDown,
    /// The link works again.
    LinkUp,
}

impl FaultKind {
    /// The kind as scenarios write it.
    pub fn word(self) -> &'static str {
        match self {
            FaultKind::Kill => "kill",
            FaultKind::Stop => "stop",
            FaultKind::Restart => "restart",
            FaultKind::LinkDown => "link_down",
            FaultKind::LinkUp => "link_up",
        }
    }
}

impl Default for PlayoutSpec {
    fn default() -> PlayoutSpec {
        let PlayoutConfig {
            delay,
            longest,
            a,
            beta,
            r,
            target_late_permille,
            hold_gops,
            quantile,
            spares_stalls,
            ..
        } = PlayoutConfig::default();
        PlayoutSpec {
            delay,
            longest,
            a,
            beta,
            r,
            target_late_permille,
            hold_gops,
            quantile,
            spares_stalls,
        }
    }
}

impl From<PlayoutSpec> for PlayoutConfig {
    fn from(spec: PlayoutSpec) -> PlayoutConfig {
        PlayoutConfig {
            delay: spec.delay,
            longest: spec.longest,
            a: spec.a,
            beta: spec.beta,
            r: spec.r,
            target_late_permille: spec.target_late_permille,
            hold_gops: spec.hold_gops,
            quantile: spec.quantile,
            spares_stalls: spec.spares_stalls,
            ..PlayoutConfig::default()
        }
    }
}

impl Default for ShapingSpec {
    fn default() -> ShapingSpec {
        ShapingSpec::PeakFactor(layercast_qos::PEAK_FACTOR)
    }
}

impl ReceiverSpec {
    /// The name of the receiver, which is that of its node if it has none of its own.
    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.node)
    }
}
