use layercast_core::{Rate, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::internet::scenario::{Bytes, Text};

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
    #[schemars(range(min = 1, max = 100_000_000))]
    pub packets: Option<u64>,
    /// Octets of payload of a packet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packet_size: Option<u16>,
    /// Rate of data, payload counted; the profile layercast needs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Text<Rate>>,
    /// The rate is controlled by monitor bits, instead (specs/rmtp-large-scale.md 2.5).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub monitor: Option<MonitorSpec>,
    /// How losses are repaired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repair: Option<RepairName>,
    /// Union: below this share of receivers repairs are sent to each alone; 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1))]
    pub unicast_below: Option<f64>,
    /// Parity: parities behind each block in the first pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proactive: Option<u16>,
    /// Source packets of a block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block: Option<u16>,
    /// Mean time between answers, where they are spread; "0s" with profile frm: simultaneously.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delta: Option<Text<Span>>,
    /// Layercast: range of the back-off of those that lack something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread: Option<Text<Span>>,
    /// Layercast: up to this number of receivers, all are polled and no answer is suppressed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suppress_above: Option<u32>,
    /// Receivers detect the end of a pass themselves and answer over a range given in the announcement (RMTP's
    /// drafts: RBOT); false: a poll ends each pass, with a range for those still awaited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unasked: Option<bool>,
    /// Complete receivers are released after each pass, and confirm it (RMTP's REL and RACK).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goodbye: Option<bool>,
    /// Turn-around time: how long answers are awaited beyond their back-off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tat: Option<Text<Span>>,
    /// Surplus of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alpha: Option<Text<Span>>,
    /// Contingency factor: answers are waited for k largest round trips; above 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 1_000), extend("exclusiveMinimum" = 1))]
    pub k: Option<f64>,
    /// Streams: the list is evaluated as soon as all have answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_complete: Option<bool>,
    /// Streams: packets are kept until every receiver has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<u32>,
    /// Streams: what is received is released, not only what the process has taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release_on_received: Option<bool>,
    /// How often a silent receiver is polled again.
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
    /// The sender knows its receivers or aggregators beforehand; else it accepts those that answer. Missing:
    /// with profile rmtp and with aggregators, unless some may come late.
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
        #[schemars(range(min = 0, max = 1))]
        missing: f64,
        /// Polls that one may leave unanswered.
        polls: u32,
    },
}
