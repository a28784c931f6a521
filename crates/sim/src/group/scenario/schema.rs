//! The scenario file as it is written; the comments here are what an editor shows.

use layercast_core::{Rate, Span};
use layercast_fec::Scheme;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::internet::scenario::{Bytes, TcpSpec, Text};

/// The version of the schema.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub enum GroupVersion {
    /// A group, version 1.
    #[serde(rename = "group/1")]
    Group1,
}

/// A scenario of reliable multicast (docs/multicast-simulator.md): one sender, a tree of links, receivers at its ends.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Layercast multicast scenario")]
pub struct GroupScenario {
    /// Must be "group/1".
    pub schema: GroupVersion,
    /// For titles and file names.
    pub name: String,
    /// How long to simulate, and how.
    #[serde(default)]
    pub run: GroupRunSpec,
    /// What the sender does: a profile, and what of it is to be different.
    pub session: SessionSpec,
    /// Packets of an application, instead of an object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<StreamSpec>,
    /// The sender's host.
    #[serde(default)]
    pub source: GroupHostSpec,
    /// The tree.
    #[serde(rename = "branch", default)]
    pub branches: Vec<BranchSpec>,
    /// Codes on parts of the tree.
    #[serde(rename = "fec", default, skip_serializing_if = "Vec::is_empty")]
    pub codes: Vec<CodeSpec>,
    /// TCP that shares links with the group.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cross: Vec<CrossTrafficSpec>,
    /// What happens to receivers.
    #[serde(rename = "fault", default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<FaultSpec>,
}

/// The run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GroupRunSpec {
    /// Simulated time, after which it stops with what it has.
    pub duration: Text<Span>,
    /// Seed of every random stream.
    pub seed: u64,
    /// Events, after which it stops with what it has.
    pub events: u64,
    /// Results list every receiver.
    pub per_receiver: bool,
}

impl Default for GroupRunSpec {
    fn default() -> GroupRunSpec {
        GroupRunSpec {
            duration: Text(Span::from_secs(86_400)),
            seed: 1,
            events: 10_000_000_000,
            per_receiver: false,
        }
    }
}

/// A profile of the sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProfileName {
    /// Fully Reliable Multicast: a stream, polled by a timer, repaired by go-back-N; `[stream]` says of what.
    Frm,
    /// RMTP of NTT and IBM: an object in passes, answers after a back-off, the union of what is missing sent again.
    Rmtp,
    /// Layercast's own: repair by fresh parities, answers suppressed where there are many receivers.
    Layercast,
}

/// How losses are repaired.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RepairName {
    /// Everything from the first missing packet on.
    GoBackN,
    /// What anybody misses.
    Union,
    /// Fresh parities.
    Parity,
}

/// What the sender does. What is not said is as in the profile.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionSpec {
    /// The profile.
    pub profile: ProfileName,
    /// Size of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<Bytes>,
    /// Size of the object in packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets: Option<u64>,
    /// Octets of payload of a packet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packet_size: Option<u16>,
    /// Rate of data, payload counted; the profile layercast needs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Text<Rate>>,
    /// The rate is controlled by monitor bits, instead (rmtp-large-scale.md 2.5).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub monitor: Option<MonitorSpec>,
    /// How losses are repaired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repair: Option<RepairName>,
    /// Union: below this share of receivers repairs are sent to each alone; 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unicast_below: Option<f64>,
    /// Parity: parities behind each block in the first pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proactive: Option<u16>,
    /// Source packets of a block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block: Option<u16>,
    /// Mean time between answers, where they are spread; "0s" with profile frm: all at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delta: Option<Text<Span>>,
    /// Layercast: range of the back-off of those who lack something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread: Option<Text<Span>>,
    /// Layercast: up to so many receivers all are asked, and no answer is suppressed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suppress_above: Option<u32>,
    /// Receivers see for themselves that a pass ends, and answer over a range that the announcement told (RMTP's
    /// drafts: RBOT); false: a poll ends each pass, with a range for those who are waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unasked: Option<bool>,
    /// Whoever has everything is told good-bye after each pass, and says good-bye (RMTP's REL and RACK).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goodbye: Option<bool>,
    /// Turn-around time: answers are waited for so long beyond their back-off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tat: Option<Text<Span>>,
    /// Surplus of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alpha: Option<Text<Span>>,
    /// Contingency factor: answers are waited for k largest round trips; above 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub k: Option<f64>,
    /// Streams: the list is evaluated as soon as all have answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_complete: Option<bool>,
    /// Streams: packets kept until everybody has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<u32>,
    /// Streams: what is received is released, not only what the process has taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release_on_received: Option<bool>,
    /// How often who is silent is asked again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tries: Option<u32>,
    /// Passes at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounds: Option<u16>,
    /// What becomes of receivers that hold the others back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weak: Option<WeakSpec>,
    /// Receivers that must be there, at least; missing: all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<u32>,
    /// Receivers by number, from 1, that must be there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub key: Vec<u32>,
    /// The sender knows its receivers or aggregators beforehand; else it takes who answers. Missing: with profile rmtp
    /// and with aggregators, unless some may come late.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listed: Option<bool>,
    /// Receivers may come, or come back, while the session runs.
    #[serde(default)]
    pub late: bool,
    /// How often the session is announced, and how long answers are waited for each time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opening_tries: Option<u32>,
    /// How long answers to the announcement are waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opening_wait: Option<Text<Span>>,
}

/// Rate control by monitor bits.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MonitorSpec {
    /// At the start.
    pub start: Text<Rate>,
    /// At least.
    pub least: Text<Rate>,
    /// At most.
    pub most: Text<Rate>,
    /// Packets of one measurement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets: Option<u32>,
    /// The rate follows TCP's equation for the worst receiver (RFC 4654), not the count of those that lose much.
    #[serde(default)]
    pub friendly: bool,
}

/// What becomes of receivers that hold the others back.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum WeakSpec {
    /// Nothing.
    Keep,
    /// They are expelled if buffers are released too slowly because of them (FRM).
    Eject {
        /// Octets per second.
        min_release: u64,
        /// Over how long.
        interval: Text<Span>,
        /// Rounds in a row in which one was the slowest before it is named.
        slow_rounds: u32,
    },
    /// They are served after the others (RMTP).
    Postpone {
        /// Share of the object: more missing after a pass is too much; 0 to 1.
        missing: f64,
        /// Polls that one may leave unanswered.
        polls: u32,
    },
}

/// Packets of an application.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StreamSpec {
    /// How many.
    pub packets: u64,
    /// Time between them.
    pub interval: Text<Span>,
    /// What the process at a receiver needs for each.
    pub service: Text<Span>,
    /// Packets that a receiver holds for its process; missing: as many as the sender's window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer: Option<u32>,
}

/// A host: a processor that does one thing after the other, and a socket buffer.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GroupHostSpec {
    /// To send a data packet.
    pub send_data: Text<Span>,
    /// To send anything else.
    pub send_control: Text<Span>,
    /// To take a data packet.
    pub take_data: Text<Span>,
    /// To take anything else.
    pub take_control: Text<Span>,
    /// To evaluate the list of receivers, before each poll of the group.
    pub evaluate: Text<Span>,
    /// Receivers that share the host.
    pub receivers: u32,
    /// Socket buffer; missing: no bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buffer: Option<Bytes>,
    /// Octets of it that a datagram takes at least.
    pub charge: u64,
}

impl Default for GroupHostSpec {
    fn default() -> GroupHostSpec {
        let none = Text(Span::ZERO);
        GroupHostSpec {
            send_data: none,
            send_control: none,
            take_data: none,
            take_control: none,
            evaluate: none,
            receivers: 1,
            buffer: None,
            charge: 512,
        }
    }
}

/// Links with what is at their end. A branch without others below it has a receiver at its end.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BranchSpec {
    /// Unique.
    pub name: String,
    /// The branch that it hangs on; missing: the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// How many of it hang on each copy of that.
    #[serde(default = "one")]
    pub count: u32,
    /// Links in a row, 0 to 64.
    #[serde(default = "one")]
    pub hops: u32,
    /// The chance that one link loses a packet on its way down: from 0, below 1.
    #[serde(default)]
    pub loss: f64,
    /// Packets travel in cells of AAL5: loss is that of a cell, a packet is lost with any of its cells, and rate and
    /// queue count the octets of cells.
    #[serde(default)]
    pub cells: bool,
    /// Mean packets of a burst of losses; missing: each is lost on its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<f64>,
    /// The chance that one link loses a packet on its way up: from 0, below 1.
    #[serde(default)]
    pub back_loss: f64,
    /// Propagation delay of the whole row.
    #[serde(default = "zero")]
    pub delay: Text<Span>,
    /// The delay of each copy is uniform between `delay` and this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_to: Option<Text<Span>>,
    /// Rate both ways; missing: packets take no time to be sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Text<Rate>>,
    /// Octets that wait for the link at most, each way.
    #[serde(default = "queue")]
    pub queue: Bytes,
    /// There is a receiver at its end although others are below.
    #[serde(default)]
    pub receiver: bool,
    /// There is an aggregator at its end, for all receivers below that have no other below it.
    #[serde(default)]
    pub aggregator: bool,
    /// The host of its receivers.
    #[serde(default)]
    pub host: GroupHostSpec,
}

/// A code on branches: an encoder at their upper ends, decoders at their lower ends.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CodeSpec {
    /// The branches; where one hangs on the other the code goes on through both.
    pub branches: Vec<String>,
    /// The code.
    #[serde(default = "scheme")]
    #[schemars(with = "String")]
    pub scheme: Scheme,
    /// Source packets of a block.
    pub n: u8,
    /// Parities of a block.
    pub m: u8,
    /// A block that is not full is closed after so long.
    #[serde(default = "flush")]
    pub flush: Text<Span>,
    /// Blocks that are filled in turn.
    #[serde(default = "one_octet")]
    pub interleave: u8,
}

/// TCP connections with data without end, from the upper to the lower end of a branch, until the session is over.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CrossTrafficSpec {
    /// The branch, of which there is one copy.
    pub branch: String,
    /// How many connections.
    #[serde(default = "one")]
    pub flows: u32,
    /// Delay beside that of the branch, each way.
    #[serde(default = "zero")]
    pub delay: Text<Span>,
    /// Their TCP.
    #[serde(default)]
    pub tcp: TcpSpec,
}

/// What happens to receivers.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FaultSpec {
    /// When.
    pub at: Text<Span>,
    /// Numbers of the receivers, from 1 in the order of the tree: "7" or "1..10".
    pub receivers: String,
    /// What.
    pub what: FaultName,
    /// Of "service": the time for each packet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<Text<Span>>,
}

/// What happens to a receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FaultName {
    /// It cannot take data for now, and says so.
    Busy,
    /// It can again.
    Ready,
    /// It dies.
    Kill,
    /// It dies and starts anew with what it had.
    Resume,
    /// It dies and starts anew with nothing.
    Restart,
    /// Its process needs another time for each packet of a stream.
    Service,
}

fn one() -> u32 {
    1
}

fn one_octet() -> u8 {
    1
}

fn zero() -> Text<Span> {
    Text(Span::ZERO)
}

fn queue() -> Bytes {
    Bytes(256 << 10)
}

fn flush() -> Text<Span> {
    Text(Span::from_ms(50))
}

fn scheme() -> Scheme {
    Scheme::ReedSolomon
}
