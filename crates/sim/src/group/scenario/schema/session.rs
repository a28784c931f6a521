use layercast_core::{Rate, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::internet::scenario::{Bytes, Text, up_to};

/// A profile of the sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProfileName {
    /// Fully Reliable Multicast: a stream, polled by a timer, repaired by go-back-N; needs `[stream]`.
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
    /// The union of missing packets.
    Union,
    /// Fresh parities.
    Parity,
}

/// The session. Missing keys have the value of the profile.
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
    /// Rate of payload; required by profile layercast.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Text<Rate>>,
    /// Rate control by monitor bits instead of a fixed rate (specs/rmtp-large-scale.md 2.5).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub monitor: Option<MonitorSpec>,
    /// How losses are repaired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repair: Option<RepairName>,
    /// Union: fraction of receivers below which repairs are sent by unicast; 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1))]
    pub unicast_below: Option<f64>,
    /// Parity: parities behind each block in the first pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proactive: Option<u16>,
    /// Source packets of a block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block: Option<u16>,
    /// Mean time between answers; "0s" with profile frm: immediate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = up_to(600)))]
    pub delta: Option<Text<Span>>,
    /// Layercast: back-off range of incomplete receivers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = up_to(600)))]
    pub spread: Option<Text<Span>>,
    /// Layercast: group size up to which all are polled and no answer is suppressed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suppress_above: Option<u32>,
    /// Receivers detect the end of a pass and answer within a range of the announcement (RBOT of RMTP's drafts);
    /// false: a poll with a range ends each pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unasked: Option<bool>,
    /// Complete receivers are released after each pass and confirm (REL and RACK of RMTP).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goodbye: Option<bool>,
    /// Turn-around time: time to wait for answers beyond their back-off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = up_to(600)))]
    pub tat: Option<Text<Span>>,
    /// Margin of the time to wait for answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = up_to(600)))]
    pub alpha: Option<Text<Span>>,
    /// Contingency factor: the deadline of answers is k times the largest round trip; above 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 1_000), extend("exclusiveMinimum" = 1))]
    pub k: Option<f64>,
    /// Streams: a round ends as soon as all have answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_complete: Option<bool>,
    /// Streams: window in packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<u32>,
    /// Streams: packets are released when received, not when the process has read them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release_on_received: Option<bool>,
    /// Repeated polls of a silent member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tries: Option<u32>,
    /// Largest number of passes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounds: Option<u16>,
    /// Treatment of receivers that delay the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weak: Option<WeakSpec>,
    /// Least number of receivers that must complete; default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<u32>,
    /// Receivers, by number from 1, that must complete.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub key: Vec<u32>,
    /// The sender knows its members in advance; otherwise it accepts those that answer. Default: with profile rmtp
    /// and with aggregators, unless `late`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listed: Option<bool>,
    /// Receivers may join, or rejoin, during the session.
    #[serde(default)]
    pub late: bool,
    /// Number of announcements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opening_tries: Option<u32>,
    /// Time to wait for answers to an announcement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = up_to(600)))]
    pub opening_wait: Option<Text<Span>>,
}

/// Rate control by monitor bits.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MonitorSpec {
    /// First rate.
    pub start: Text<Rate>,
    /// Lowest rate.
    pub least: Text<Rate>,
    /// Highest rate.
    pub most: Text<Rate>,
    /// Packets of one measurement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets: Option<u32>,
    /// The rate follows the TCP equation for the slowest receiver (RFC 4654), not the number of receivers with
    /// losses.
    #[serde(default)]
    pub friendly: bool,
}

/// Treatment of receivers that delay the others.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum WeakSpec {
    /// None.
    Keep,
    /// They are expelled if they delay the release of buffers (FRM).
    Eject {
        /// Octets per second.
        min_release: u64,
        /// Time of the measurement.
        #[schemars(extend("pattern" = up_to(600)))]
        interval: Text<Span>,
        /// Consecutive rounds as the slowest before a member is named.
        slow_rounds: u32,
    },
    /// They are served after the others (RMTP).
    Postpone {
        /// Largest missing fraction of the object after a pass; 0 to 1.
        #[schemars(range(min = 0, max = 1))]
        missing: f64,
        /// Polls that may stay unanswered.
        polls: u32,
    },
}
