//! The scenario file: one schema as TOML, as a Python dict and as these structs.

use std::path::PathBuf;

use layercast_core::{CellRate, Level, QosPolicy, Rate, Span};
use layercast_media::{FilterRule, Synthetic};
use layercast_qos::{Merge, ProbeMode};
use layercast_switch::Lowering;
use layercast_transport::mets::{ParityConfig, PlayoutConfig};
use layercast_wire::{Carriage, Mark};
use serde::{Deserialize, Serialize};

use super::defaults;
use super::host::HostChoice;
use super::shorthand::{word_or_table, word_or_table_out};
use super::units::{QueueSize, text, text_opt};

/// How media are protected from end to end (docs/src/explanation/security.md).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SecuritySpec {
    /// Whether receivers need a token; those of the scenario have one, but for those with
    /// `token = false`.
    #[serde(default = "defaults::yes")]
    pub tokens: bool,
}

/// A network, its flows and receivers, and the faults in it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// For titles and file names.
    pub name: String,
    /// Seed of every random stream of the run.
    #[serde(default = "defaults::seed")]
    pub seed: u64,
    /// Length of the run.
    #[serde(with = "text")]
    pub duration: Span,
    /// What the links carry.
    #[serde(default = "defaults::carriage")]
    pub carriage: Carriage,
    /// Era of the QoS adapter (specs/mets.md 2.11).
    #[serde(default = "defaults::era", with = "text")]
    pub era: Span,
    /// RES interval of switches and sources (specs/mets.md 2.11).
    #[serde(default = "defaults::res_interval", with = "text")]
    pub res_interval: Span,
    /// Whether every PDU and signal is encoded and decoded at every hop.
    #[serde(default)]
    pub wire_check: bool,
    /// What decides between events of the same instant.
    #[serde(default)]
    pub ties: Ties,
    /// Which cell of a frame carries the AAL5 end mark (specs/mets.md 6.2).
    #[serde(default = "defaults::aal5_mark")]
    pub aal5_mark: Mark,
    /// Whether joins are tested against links, processors and hosts (specs/mets.md 2.10). Without, every
    /// base layer is granted and sources send what they have: for experiments with overload.
    #[serde(default = "defaults::yes")]
    pub admission: bool,
    /// When a lower level takes effect (specs/mets.md 2.12).
    #[serde(default)]
    pub lowering: Lowering,
    /// Sealed media and tokens; missing: media in the clear.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub security: Option<SecuritySpec>,
    /// How switches merge the demands of several branches (specs/mets.md 6.2).
    #[serde(default)]
    pub merge: Merge,
    /// Costs of hosts and switches that name none of their own.
    #[serde(default)]
    pub host: HostChoice,
    /// How long neighbours take to see that a node or link is gone or back.
    #[serde(default = "defaults::detection", with = "text")]
    pub detection: Span,
    /// Hosts and switches.
    #[serde(rename = "node", default)]
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
    /// Filters in switches (specs/mets.md 2.11, 2.13).
    #[serde(rename = "filter", default)]
    pub filters: Vec<FilterSpec>,
    /// What fails, and when.
    #[serde(rename = "fault", default)]
    pub faults: Vec<FaultSpec>,
    /// What applications ask of the management interface, and when.
    #[serde(rename = "request", default, skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<RequestSpec>,
    /// Where relative paths of clips start; not part of the file.
    #[serde(skip)]
    pub base_dir: PathBuf,
}

/// What decides between events of the same instant.
#[derive(
    Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Ties {
    /// A seeded draw: no order is favoured forever.
    #[default]
    Random,
    /// The event that was scheduled first.
    Fifo,
}

/// A host or a switch.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeSpec {
    /// Unique.
    pub name: String,
    /// What it is.
    pub kind: NodeKind,
    /// Its costs, if not those of the scenario.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostChoice>,
}

/// What a node is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeKind {
    /// Relays flows.
    Switch,
    /// Has sources or receivers.
    Host,
}

/// A link; its parameters hold for both directions.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkSpec {
    /// One end.
    pub a: String,
    /// The other end.
    pub b: String,
    /// How fast it is.
    #[serde(
        deserialize_with = "word_or_table",
        serialize_with = "word_or_table_out"
    )]
    pub rate: RateSpec,
    /// Propagation delay.
    #[serde(default, with = "text")]
    pub delay: Span,
    /// Queue of each port.
    #[serde(default = "defaults::queue", with = "text")]
    pub queue: QueueSize,
    /// Fraction of the queue above which a switch marks congestion; hosts never do.
    #[serde(default = "defaults::efci")]
    pub efci: f64,
    /// Fraction of the rate that base layers may reserve.
    #[serde(default = "defaults::bl_share")]
    pub bl_share: f64,
    /// Capacity the adapter shares out, if not the rate (specs/mets.md 4.8).
    #[serde(default, with = "text_opt", skip_serializing_if = "Option::is_none")]
    pub adapt_capacity: Option<CellRate>,
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
    pub duplicate: f64,
    /// Probability that RES or ADAPT is lost, beside other loss.
    #[serde(default)]
    pub adapter_loss: f64,
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
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FitSpec {
    /// The flow.
    pub fits: String,
    /// The level it shall fit at.
    pub level: Level,
    /// How much more, as a fraction.
    #[serde(default)]
    pub spare: f64,
}

/// How PDUs get lost on a link.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LossSpec {
    /// Each on its own with this probability.
    Bernoulli(f64),
    /// In bursts.
    Gilbert(GilbertSpec),
}

/// The Gilbert-Elliott channel: two states, changing at each PDU.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GilbertSpec {
    /// Probability of going from good to bad.
    pub p_gb: f64,
    /// Probability of going from bad to good.
    pub p_bg: f64,
    /// Loss probability in the good state.
    #[serde(default)]
    pub good: f64,
    /// Loss probability in the bad state.
    #[serde(default = "defaults::one")]
    pub bad: f64,
}

/// Delay variation on a link.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JitterSpec {
    /// Uniform between zero and this.
    Uniform(#[serde(with = "text")] Span),
    /// The absolute value of a normal variable with this standard deviation.
    Normal(#[serde(with = "text")] Span),
}

/// A media flow.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowEntry {
    /// Unique.
    pub name: String,
    /// The host it comes from.
    pub source: String,
    /// What is sent.
    pub clip: ClipSpec,
    /// Frames per second of a synthetic clip or a trace; files carry their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame_rate: Option<f64>,
    /// The highest layer that is sent at all.
    #[serde(default = "defaults::full")]
    pub top: Level,
    /// When the first frame is sent.
    #[serde(default, with = "text")]
    pub start: Span,
    /// When the flow ends; else with its clip, or never for a synthetic one.
    #[serde(default, with = "text_opt", skip_serializing_if = "Option::is_none")]
    pub stop: Option<Span>,
    /// Whether the start is moved by a seeded uniform draw over one GOP (specs/mets.md 3.2).
    #[serde(default)]
    pub random_phase: bool,
    /// Whether the start is moved so that the flows of this source with `stagger` share a frame
    /// period evenly (specs/mets.md 8).
    #[serde(default)]
    pub stagger: bool,
    /// Bound of the end-to-end delay; if given it is the playout delay (specs/mets.md 2.8).
    #[serde(default, with = "text_opt", skip_serializing_if = "Option::is_none")]
    pub delay_max: Option<Span>,
    /// How the source smooths its frames (specs/mets.md 2.5).
    #[serde(
        default,
        deserialize_with = "word_or_table",
        serialize_with = "word_or_table_out"
    )]
    pub shaping: ShapingSpec,
    /// What to do when the flow cannot be had, or more can.
    #[serde(default)]
    pub policy: QosPolicy,
    /// Its core switch (specs/mets.md 2.10): the name of one, or `"auto"` for the one nearest the source and
    /// the receivers that are there when it starts. Without, joins go the way the advertisement came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core: Option<String>,
    /// Parities for its base layer: `"6+2"`, `"reed-solomon:20+4"`, or `"auto"` for as many as the
    /// loss that receivers report asks for (docs/src/reference/fec.md). Without, none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protect_base: Option<ParityConfig>,
}

/// Where the frames of a flow come from.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClipSpec {
    /// One of the clips of specs/mets.md 3.2.
    Synthetic(Synthetic),
    /// An MPEG-1 or MPEG-2 video file.
    File(PathBuf),
    /// A trace file: `frame_no type bytes`.
    Trace(PathBuf),
}

/// How the source smooths its frames (specs/mets.md 2.5).
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
    /// take in; the default bucket while that is not known (specs/mets.md 8).
    Serial,
    /// Frames leave as they are dispatched.
    Off,
}

/// A receiver of a flow.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReceiverSpec {
    /// Unique; the name of the node if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The host it is on.
    pub node: String,
    /// The flow it wants.
    pub flow: String,
    /// The level it prefers.
    #[serde(default = "defaults::full")]
    pub level: Level,
    /// When it comes.
    #[serde(default, with = "text")]
    pub join: Span,
    /// When it goes.
    #[serde(default, with = "text_opt", skip_serializing_if = "Option::is_none")]
    pub leave: Option<Span>,
    /// How it raises its demand after congestion (specs/mets.md 2.11).
    #[serde(default)]
    pub probe: ProbeMode,
    /// What its host says it takes in, all its flows together, if not what its costs allow
    /// (specs/mets.md 8); 0 is not to say.
    #[serde(default, with = "text_opt", skip_serializing_if = "Option::is_none")]
    pub drain: Option<CellRate>,
    /// Whether frames that lost cells are filled with zeros and played (specs/mets.md 2.6).
    #[serde(default)]
    pub repair: bool,
    /// Parameters of the jitter filter.
    #[serde(default)]
    pub playout: PlayoutSpec,
    /// Its policy, if not that of the flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<QosPolicy>,
    /// Whether it has a token of the source of its flow, where the scenario asks for tokens.
    #[serde(default = "defaults::yes")]
    pub token: bool,
}

/// Parameters of the jitter filter (specs/mets.md 2.8).
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PlayoutSpec {
    /// Fixed playout delay; overrides the `delay_max` of the flow.
    #[serde(with = "text_opt", skip_serializing_if = "Option::is_none")]
    pub delay: Option<Span>,
    /// Most that an estimated playout delay may be.
    #[serde(with = "text_opt", skip_serializing_if = "Option::is_none")]
    pub longest: Option<Span>,
    /// Gain of the mean delay.
    pub a: f64,
    /// Gain of the mean deviation.
    pub beta: f64,
    /// Fixed margin in mean deviations; the paper's is 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub r: Option<f64>,
    /// Share of frames that may come late, if there is no `r`.
    pub target_late_permille: u16,
    /// Clean GOPs after which the playout point is pulled in (K).
    pub hold_gops: u32,
    /// Whether that share is aimed at by the delays of the last frames, not by mean and deviation.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub quantile: bool,
    /// Whether frames held up by a stall leave the playout delay alone.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub spares_stalls: bool,
}

/// A filter in a switch, for the branches of a flow.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FilterSpec {
    /// The switch.
    pub node: String,
    /// The flow.
    pub flow: String,
    /// The neighbour the branch leads to; all if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// `"keep:I"`, `"keep:IP"`, `"thin:1/2"`, `"low-pass:10"` or `"drs"`.
    pub rule: FilterRule,
}

/// Something that goes wrong, or right again.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultSpec {
    /// When.
    #[serde(with = "text")]
    pub at: Span,
    /// What.
    pub kind: FaultKind,
    /// The node that is killed or restarted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The two ends of the link that goes down or up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<[String; 2]>,
}

/// A request of an application (`changeQoS`, specs/mets.md 2.2).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestSpec {
    /// When.
    #[serde(with = "text")]
    pub at: Span,
    /// The flow whose server asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<String>,
    /// The receiver that asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receiver: Option<String>,
    /// What: `"maint"`, `{ adapt = "none" }`, `{ flow_spec = { delay_max_ms = 200 } }`, ...; of a
    /// flow specification what is not said stays as it is.
    pub option: serde_json::Value,
}

/// A fault, or its repair.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// The node stops and loses all state.
    Kill,
    /// The node starts with empty state; killed first if it runs.
    Restart,
    /// Nothing passes the link any more.
    LinkDown,
    /// The link works again.
    LinkUp,
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
