//! Scenarios of groups: the file as it is written ([`GroupScenario`], schema `group/1`), checked and resolved into
//! a [`Group`](super::Group). docs/src/reference/multicast-simulator.md is its manual.

mod cross;
mod resolve;
mod schema;
mod session;
mod tree;

pub use schema::{
    BranchSpec, CodeSpec, CrossTrafficSpec, FaultName, FaultSpec, GroupHostSpec, GroupRunSpec,
    GroupScenario, GroupVersion, MonitorSpec, ProfileName, RepairName, SessionSpec, StreamSpec,
    WeakSpec,
};

use std::sync::LazyLock;

use crate::internet::scenario::{ScenarioError, says_schema};
use crate::scenario::read;

static SCHEMA: LazyLock<serde_json::Value> =
    LazyLock::new(|| schemars::schema_for!(GroupScenario).to_value());

impl GroupScenario {
    /// Reads a scenario.
    pub fn from_toml(text: &str) -> Result<GroupScenario, ScenarioError> {
        read::from_toml(text, Some(&SCHEMA)).map_err(ScenarioError::misread)
    }

    /// Reads a scenario from JSON of the same schema.
    pub fn from_json(text: &str) -> Result<GroupScenario, ScenarioError> {
        read::from_json(text, Some(&SCHEMA)).map_err(ScenarioError::misread)
    }

    /// The JSON Schema of the file, for editors.
    pub fn json_schema() -> serde_json::Value {
        SCHEMA.clone()
    }
}

/// Whether the text says that it is a scenario of a group, even if it is broken elsewhere.
pub fn is_group(text: &str) -> bool {
    says_schema(text, "group/")
}
