//! The scenario file as it is written; the comments here are what an editor shows.

mod session;
mod tree;

use layercast_core::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::session::{MonitorSpec, ProfileName, RepairName, SessionSpec, WeakSpec};
pub use self::tree::{BranchSpec, CodeSpec, CrossTrafficSpec, GroupHostSpec};
use crate::internet::scenario::{Text, above_zero, above_zero_to};

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
    #[schemars(extend("pattern" = above_zero_to(8_640_000)))]
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

/// Packets of an application.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StreamSpec {
    /// How many.
    #[schemars(range(min = 1, max = 100_000_000))]
    pub packets: u64,
    /// Time between them.
    #[schemars(extend("pattern" = above_zero()))]
    pub interval: Text<Span>,
    /// What the process at a receiver needs for each.
    pub service: Text<Span>,
    /// Packets that a receiver holds for its process; missing: as many as the sender's window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer: Option<u32>,
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
    /// It dies and starts again with what it had.
    Resume,
    /// It dies and starts again with nothing.
    Restart,
    /// Its process needs another time for each packet of a stream.
    Service,
}
