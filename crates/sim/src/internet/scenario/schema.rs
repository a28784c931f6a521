//! The scenario file as it is written; the comments here are what an editor shows.

use core::net::Ipv4Addr;
use std::collections::BTreeMap;
use std::path::PathBuf;

use layercast_core::{Rate, Span};
use layercast_link::Outages;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::atm::AtmSpec;
use super::attach::AttachSpec;
use super::contract::ContractSpec;
use super::contracts::HostContractSpec;
use super::discipline::DisciplineSpec;
use super::generate::GenerateSpec;
use super::mets::MetsSpec;
use super::quantity::Bytes;
use super::tcp::TcpSpec;
use super::topology::TopologySpec;
use super::xtp::XtpSpec;
use crate::internet::discipline::Dscp;
use crate::internet::network::{Budget, CpuCost, Law, Limit, Red, SizeLaw};
use crate::scenario::limits::MOST_TITLE;
use crate::scenario::{GilbertSpec, JitterSpec, Ties, form};
use crate::text::{Text, above_zero_to, up_to};

/// The version of the schema.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub enum Version {
    /// An internetwork, version 1.
    #[serde(rename = "internet/1")]
    Internet1,
}

/// A scenario of the internetwork simulator (docs/src/reference/simulator.md): hosts, routers, links, LANs, an ATM
/// backbone, and what the hosts send. Names may hold ranges: `"host{1..200}"` is 200 names.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Layercast internetwork scenario")]
pub struct Scenario {
    /// Must be "internet/1".
    pub schema: Version,
    /// For titles and file names.
    #[schemars(extend("minLength" = 1, "maxLength" = MOST_TITLE, "pattern" = form::TITLE))]
    pub name: String,
    /// How long to simulate, and how.
    pub run: RunSpec,
    /// TCP configurations by name; `default` is for the hosts that name none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tcp: BTreeMap<String, TcpSpec>,
    /// A ready-made network; hosts, routers and links can be added to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology: Option<TopologySpec>,
    /// Hosts: each has one link or LAN.
    #[serde(rename = "host", default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<HostSpec>,
    /// Routers.
    #[serde(rename = "router", default, skip_serializing_if = "Vec::is_empty")]
    pub routers: Vec<RouterSpec>,
    /// Full-duplex links.
    #[serde(rename = "link", default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<LinkSpec>,
    /// Shared media.
    #[serde(rename = "lan", default, skip_serializing_if = "Vec::is_empty")]
    pub lans: Vec<LanSpec>,
    /// The ATM backbone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub atm: Option<AtmSpec>,
    /// TCP connections and streams of datagrams.
    #[serde(rename = "flow", default, skip_serializing_if = "Vec::is_empty")]
    pub flows: Vec<FlowSpec>,
    /// What makes many TCP transfers that have no name.
    #[serde(rename = "generate", default, skip_serializing_if = "Vec::is_empty")]
    pub generators: Vec<GenerateSpec>,
    /// What the cells of all packets from a host to another may do on the backbone.
    #[serde(rename = "contract", default, skip_serializing_if = "Vec::is_empty")]
    pub contracts: Vec<HostContractSpec>,
    /// METS nodes at hosts and routers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mets: Option<MetsSpec>,
    /// Applications on many hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<WorkloadSpec>,
    /// Hosts that are real programs when the scenario is emulated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attach: Vec<AttachSpec>,
    /// Where relative paths of files start.
    #[serde(skip)]
    pub base_dir: PathBuf,
}

/// The run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunSpec {
    /// Simulated time, at most 100 days.
    #[schemars(extend("pattern" = above_zero_to(8_640_000)))]
    pub duration: Text<Span>,
    /// Time at the start that does not count in the results.
    #[serde(default = "zero")]
    pub warm_up: Text<Span>,
    /// Seed of every random stream.
    #[serde(default = "one")]
    pub seed: u64,
    /// Order of events of the same instant.
    #[serde(default)]
    pub ties: Ties,
    /// A run that reaches one of these bounds stops with a partial result.
    #[serde(default)]
    pub budget: BudgetSpec,
}

/// Limits of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BudgetSpec {
    /// Events.
    #[schemars(range(min = 1))]
    pub events: u64,
    /// Packets in the network.
    #[schemars(range(min = 1))]
    pub packets: u32,
}

impl Default for BudgetSpec {
    fn default() -> BudgetSpec {
        let Budget { events, packets } = Budget::default();
        BudgetSpec { events, packets }
    }
}

/// A host, or several with a range in its name.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostSpec {
    /// Unique; `"host{1..200}"` makes 200.
    #[schemars(extend("minLength" = 1, "pattern" = form::NAMES))]
    pub name: String,
    /// IPv4 address of the first, the others follow; default: the next free one of 10.0.0.0/8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<Ipv4Addr>,
    /// A table [tcp.NAME], or a profile: bsd44lite, sunos413, solaris, tick10, modern.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp: Option<String>,
    /// Processing time of packets.
    #[serde(default, skip_serializing_if = "CpuSpec::is_free")]
    pub cpu: CpuSpec,
}

/// A router, or several with a range in its name. It forwards along shortest paths by hops.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RouterSpec {
    /// Unique.
    #[schemars(extend("minLength" = 1, "pattern" = form::NAMES))]
    pub name: String,
    /// IPv4 address of all its interfaces; default: the next free one of 10.0.0.0/8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<Ipv4Addr>,
    /// Processing time of packets.
    #[serde(default, skip_serializing_if = "CpuSpec::is_free")]
    pub cpu: CpuSpec,
}

/// Processing times of a FIFO processor.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CpuSpec {
    /// For each arriving packet, including the interrupt.
    #[schemars(extend("pattern" = up_to(1)))]
    pub per_packet: Text<Span>,
    /// For each byte of an arriving packet.
    #[schemars(extend("pattern" = up_to(1)))]
    pub per_byte: Text<Span>,
    /// For each cell of an arriving packet.
    #[schemars(extend("pattern" = up_to(1)))]
    pub per_cell: Text<Span>,
    /// For each packet that the node itself sends.
    #[schemars(extend("pattern" = up_to(1)))]
    pub per_sent: Text<Span>,
    /// For each byte of such a packet.
    #[schemars(extend("pattern" = up_to(1)))]
    pub per_sent_byte: Text<Span>,
    /// Each time is drawn uniformly from this fraction below it to this fraction above; 0 to 1.
    #[schemars(range(min = 0, max = 1))]
    pub jitter: f64,
    /// Largest number of waiting packets; further packets are dropped. Default: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<u32>,
}

impl Default for CpuSpec {
    fn default() -> CpuSpec {
        CpuSpec {
            per_packet: zero(),
            per_byte: zero(),
            per_cell: zero(),
            per_sent: zero(),
            per_sent_byte: zero(),
            jitter: 0.0,
            queue: None,
        }
    }
}

impl CpuSpec {
    fn is_free(&self) -> bool {
        *self == CpuSpec::default()
    }

    pub(super) fn cost(self) -> CpuCost {
        CpuCost {
            per_packet: self.per_packet.0,
            per_byte: self.per_byte.0,
            per_cell: self.per_cell.0,
            per_sent: self.per_sent.0,
            per_sent_byte: self.per_sent_byte.0,
            jitter: self.jitter,
            queue: self.queue,
        }
    }
}

/// Rate, delay and queue of a link.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend(
    "if" = { "required": ["discipline"], "properties": { "discipline": { "type": "object" } } },
    "then" = { "properties": { "red": { "type": "null" }, "mark": { "type": "null" } } }
))]
pub struct LineSpec {
    /// Rate of IP packets, headers included.
    pub rate: Text<Rate>,
    /// Propagation delay.
    #[schemars(extend("pattern" = up_to(3_600)))]
    pub delay: Text<Span>,
    /// Queue, without the packet in transmission.
    #[serde(default = "queue")]
    pub queue: Text<Limit>,
    /// Random early detection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub red: Option<RedSpec>,
    /// Marks ECN-capable packets that find more than this in the queue, as DCTCP needs it: "65 packets" or "97 kB".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<Text<Limit>>,
    /// Queue discipline, in place of FIFO order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discipline: Option<DisciplineSpec>,
    /// Probability that a packet is lost.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1))]
    pub loss: f64,
    /// Losses in bursts, in place of loss.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gilbert: Option<GilbertSpec>,
    /// Delay variation. Packets keep their order without reorder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter: Option<JitterSpec>,
    /// Whether packets may overtake each other.
    #[serde(default, skip_serializing_if = "is_false")]
    pub reorder: bool,
    /// Probability that a packet arrives twice.
    #[serde(default, skip_serializing_if = "is_never")]
    #[schemars(range(min = 0, max = 1))]
    pub duplicate: f64,
    /// When the link is down: packets that arrive at its end meanwhile are lost. Routes do not change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub down: Option<Text<Outages>>,
    /// Largest IP packet.
    #[serde(default = "mtu")]
    #[schemars(range(min = 68, max = 65_535))]
    pub mtu: u32,
    /// Differences of the direction from the second end to the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub back: Option<BackSpec>,
}

/// A full-duplex link, or several with ranges in its ends: `["host{1..200}", "router"]` or `["left{1..10}",
/// "right{1..10}"]`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend(
    "if" = { "required": ["discipline"], "properties": { "discipline": { "type": "object" } } },
    "then" = { "properties": { "red": { "type": "null" }, "mark": { "type": "null" } } }
))]
pub struct LinkSpec {
    /// Two hosts or routers.
    pub ends: [String; 2],
    /// Rate of IP packets, headers included.
    pub rate: Text<Rate>,
    /// Propagation delay.
    #[schemars(extend("pattern" = up_to(3_600)))]
    pub delay: Text<Span>,
    /// Queue, without the packet in transmission.
    #[serde(default = "queue")]
    pub queue: Text<Limit>,
    /// Random early detection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub red: Option<RedSpec>,
    /// Marks ECN-capable packets that find more than this in the queue, as DCTCP needs it: "65 packets" or "97 kB".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<Text<Limit>>,
    /// Queue discipline, in place of FIFO order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discipline: Option<DisciplineSpec>,
    /// Probability that a packet is lost.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1))]
    pub loss: f64,
    /// Losses in bursts, in place of loss.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gilbert: Option<GilbertSpec>,
    /// Delay variation. Packets keep their order without reorder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter: Option<JitterSpec>,
    /// Whether packets may overtake each other.
    #[serde(default, skip_serializing_if = "is_false")]
    pub reorder: bool,
    /// Probability that a packet arrives twice.
    #[serde(default, skip_serializing_if = "is_never")]
    #[schemars(range(min = 0, max = 1))]
    pub duplicate: f64,
    /// When the link is down: packets that arrive at its end meanwhile are lost. Routes do not change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub down: Option<Text<Outages>>,
    /// Largest IP packet.
    #[serde(default = "mtu")]
    #[schemars(range(min = 68, max = 65_535))]
    pub mtu: u32,
    /// Differences of the direction from the second end to the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub back: Option<BackSpec>,
}

impl LinkSpec {
    pub(super) fn line(&self) -> LineSpec {
        LineSpec {
            rate: self.rate,
            delay: self.delay,
            queue: self.queue,
            red: self.red,
            mark: self.mark,
            discipline: self.discipline,
            loss: self.loss,
            gilbert: self.gilbert,
            jitter: self.jitter,
            reorder: self.reorder,
            duplicate: self.duplicate,
            down: self.down.clone(),
            mtu: self.mtu,
            back: self.back.clone(),
        }
    }
}

/// Properties of the reverse direction; with `queue`, `red`, `mark` and `discipline` are not inherited.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend(
    "if" = { "required": ["discipline"], "properties": { "discipline": { "type": "object" } } },
    "then" = { "properties": { "red": { "type": "null" }, "mark": { "type": "null" } } }
))]
pub struct BackSpec {
    /// Rate of IP packets, headers included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Text<Rate>>,
    /// Queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<Text<Limit>>,
    /// Random early detection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub red: Option<RedSpec>,
    /// Threshold above which ECN-capable packets are marked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mark: Option<Text<Limit>>,
    /// Queue discipline, in place of FIFO order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub discipline: Option<DisciplineSpec>,
    /// Probability that a packet is lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1))]
    pub loss: Option<f64>,
    /// Losses in bursts, in place of loss.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gilbert: Option<GilbertSpec>,
    /// When this direction is down.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub down: Option<Text<Outages>>,
}

fn is_never(probability: &f64) -> bool {
    *probability == 0.0
}

/// Random early detection (Floyd and Jacobson 1993), in packets.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RedSpec {
    /// Average below which no packet is dropped early.
    #[schemars(extend("exclusiveMinimum" = 0, "exclusiveMaximum" = 1e9))]
    pub min: f64,
    /// Average above which every packet is dropped; with gentle, twice this average.
    #[schemars(extend("exclusiveMinimum" = 0, "exclusiveMaximum" = 1e9))]
    pub max: f64,
    /// Drop probability at max.
    #[serde(default = "max_p")]
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0))]
    pub max_p: f64,
    /// Weight of the newest sample in the average.
    #[serde(default = "weight")]
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0))]
    pub weight: f64,
    /// From max to twice max the probability grows from max_p to 1 (Floyd 2000).
    #[serde(default = "yes")]
    pub gentle: bool,
    /// ECN-capable packets are marked instead of dropped, up to the upper threshold (RFC 3168).
    #[serde(default, skip_serializing_if = "is_false")]
    pub ecn: bool,
}

impl RedSpec {
    pub(super) fn red(self) -> Red {
        Red {
            min: self.min,
            max: self.max,
            max_p: self.max_p,
            weight: self.weight,
            gentle: self.gentle,
            ecn: self.ecn,
        }
    }
}

/// An idealised shared medium: first come, first served, no collisions.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LanSpec {
    /// Unique.
    #[schemars(extend("minLength" = 1, "pattern" = form::NAMES))]
    pub name: String,
    /// Rate of IP packets of all stations together, headers included.
    pub rate: Text<Rate>,
    /// Delay from the end of transmission to the arrival.
    #[serde(default = "latency")]
    #[schemars(extend("pattern" = up_to(3_600)))]
    pub latency: Text<Span>,
    /// Largest IP packet.
    #[serde(default = "mtu")]
    #[schemars(range(min = 68, max = 65_535))]
    pub mtu: u32,
    /// Hosts and routers, also `"host{1..200}"`.
    pub stations: Vec<String>,
}

/// A TCP connection, an XTP stream or a stream of datagrams; with ranges in its ends several.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FlowSpec {
    /// Unique; default: `from->to`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minLength" = 1, "pattern" = form::TITLE))]
    pub name: Option<String>,
    /// The host that sends.
    pub from: String,
    /// The host that receives.
    pub to: String,
    /// Start.
    #[serde(default = "zero")]
    pub start: Text<Span>,
    /// A random time, uniform from 0 to this, by which it starts later.
    #[serde(default = "zero", skip_serializing_if = "is_zero")]
    pub start_jitter: Text<Span>,
    /// With ranges: time between the starts of consecutive flows.
    #[serde(default = "zero", skip_serializing_if = "is_zero")]
    pub stagger: Text<Span>,
    /// End of sending; default: the end of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<Text<Span>>,
    /// Length of a TCP or XTP transfer; default: unlimited data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Bytes>,
    /// TCP of its two hosts: a table [tcp.NAME], or a profile; also in a topology.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp: Option<String>,
    /// The connection exists at the beginning of the run: no handshake.
    #[serde(default, skip_serializing_if = "is_false")]
    pub established: bool,
    /// Class of its packets in both directions, for the discipline "priority". XTP flows of two hosts have the same.
    #[serde(default = "best_effort", skip_serializing_if = "is_best_effort")]
    pub dscp: Text<Dscp>,
    /// XTP instead of TCP; {} for the defaults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub xtp: Option<XtpSpec>,
    /// UDP datagrams instead of TCP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datagrams: Option<DatagramSpec>,
    /// Contract of its cells on the backbone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contract: Option<ContractSpec>,
}

/// Times and sizes of datagrams.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DatagramSpec {
    /// Time between the starts of consecutive datagrams.
    pub gap: Text<Law>,
    /// Size of the IP packets, including 28 bytes of headers.
    pub size: Text<SizeLaw>,
    /// Time of sending between pauses; without `on` and `off` there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<Text<Law>>,
    /// Length of a pause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub off: Option<Text<Law>>,
}

/// Telnet, FTP, HTTP, mail, news, audio and video between the hosts of several sites.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkloadSpec {
    /// "mah96", or a file such as "mine.toml" (docs/src/reference/workloads.md).
    #[serde(rename = "use")]
    pub source: String,
    /// The sites of users and servers; the topology "xunet" has its own.
    #[serde(rename = "site", default, skip_serializing_if = "Vec::is_empty")]
    pub sites: Vec<SiteSpec>,
}

/// Hosts of one site.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SiteSpec {
    /// Hosts of users; also `"host{1..200}"`.
    pub workstations: Vec<String>,
    /// Servers, the most popular first; the first of all sites rank before the second of any.
    pub servers: Vec<String>,
}

pub(super) fn zero() -> Text<Span> {
    Text(Span::ZERO)
}
pub(super) fn is_zero(span: &Text<Span>) -> bool {
    span.0 == Span::ZERO
}
pub(super) fn best_effort() -> Text<Dscp> {
    Text(Dscp::default())
}
pub(super) fn is_best_effort(dscp: &Text<Dscp>) -> bool {
    dscp.0 == Dscp::default()
}
pub(super) fn is_false(value: &bool) -> bool {
    !value
}
fn one() -> u64 {
    1
}
fn queue() -> Text<Limit> {
    Text(Limit::Packets(1_000))
}
pub(super) fn mtu() -> u32 {
    1_500
}
fn latency() -> Text<Span> {
    Text(Span::from_us(10))
}
fn max_p() -> f64 {
    0.1
}
fn weight() -> f64 {
    0.002
}
fn yes() -> bool {
    true
}
