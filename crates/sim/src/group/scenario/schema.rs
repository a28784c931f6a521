//! The scenario file as it is written; the comments here are what an editor shows.

mod session;
mod tree;

use layercast_core::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::session::{MonitorSpec, ProfileName, RepairName, SessionSpec, WeakSpec};
pub use self::tree::{BranchSpec, CodeSpec, CrossTrafficSpec, GroupHostSpec};
use crate::internet::scenario::{Text, above_zero_to, up_to};
use crate::scenario::form;
use crate::scenario::limits::MOST_TITLE;

/// The version of the schema.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub enum GroupVersion {
    /// A group, version 1.
    #[serde(rename = "group/1")]
    Group1,
}

/// A scenario of reliable multicast (docs/src/reference/multicast-simulator.md): one sender, a tree of links, receivers at its ends.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Layercast multicast scenario")]
pub struct GroupScenario {
    /// Must be "group/1".
    pub schema: GroupVersion,
    /// For titles and file names.
    #[schemars(extend("minLength" = 1, "maxLength" = MOST_TITLE, "pattern" = form::TITLE))]
    pub name: String,
    /// How long to simulate, and how.
    #[serde(default)]
    pub run: GroupRunSpec,
    /// The session: a profile and overrides of it.
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
    /// TCP connections that share links with the group.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cross: Vec<CrossTrafficSpec>,
    /// Events at receivers.
    #[serde(rename = "fault", default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<FaultSpec>,
}

/// The run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GroupRunSpec {
    /// Largest simulated time; the result is partial beyond.
    #[schemars(extend("pattern" = above_zero_to(8_640_000)))]
    pub duration: Text<Span>,
    /// Seed of every random stream.
    pub seed: u64,
    /// Largest number of events; the result is partial beyond.
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

/// Packets of an application.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StreamSpec {
    /// Number of packets.
    #[schemars(range(min = 1, max = 100_000_000))]
    pub packets: u64,
    /// Time between packets.
    #[schemars(extend("pattern" = above_zero_to(600)))]
    pub interval: Text<Span>,
    /// Processing time of a packet at a receiver.
    #[schemars(extend("pattern" = up_to(600)))]
    pub service: Text<Span>,
    /// Packets that a receiver buffers for its process; default: the sender's window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer: Option<u32>,
}

/// Events at receivers.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FaultSpec {
    /// Time.
    pub at: Text<Span>,
    /// Numbers of the receivers, from 1 in the order of the tree: "7" or "1..10".
    pub receivers: String,
    /// Kind of event.
    pub what: FaultName,
    /// Of "service": processing time of each packet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = up_to(600)))]
    pub service: Option<Text<Span>>,
}

/// What happens to a receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FaultName {
    /// It cannot receive data and reports so.
    Busy,
    /// It can receive data again.
    Ready,
    /// It fails.
    Kill,
    /// It restarts with its stored data.
    Resume,
    /// It restarts without data.
    Restart,
    /// The processing time of a packet changes.
    Service,
}
