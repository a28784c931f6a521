//! Scenarios of internetworks: the file as it is written ([`Scenario`], schema `internet/1`), checked and
//! resolved into a [`Network`](super::Network). docs/src/reference/simulator.md is its manual.

mod atm;
mod attach;
mod build;
mod check;
mod connection;
mod contract;
mod contracts;
mod discipline;
mod error;
mod generate;
mod group;
mod listed;
mod mets;
mod place;
mod population;
mod quantity;
mod range;
mod resolve;
mod schema;
mod tcp;
mod topology;
mod traffic;
mod unread;
mod warnings;
mod xtp;
mod xunet;

use std::path::Path;
use std::sync::LazyLock;

use crate::scenario::read;

pub use atm::{AtmLinkSpec, AtmQueueSpec, AtmSpec, DiscardName, SwitchSpec};
pub use attach::{AttachKind, AttachSpec, Attached, Attachment};
pub(crate) use check::{check_title, unknown};
pub use contract::{ConformanceName, ContractKind, ContractSpec, ShapeName};
pub use contracts::HostContractSpec;
pub use discipline::{
    CoDelSpec, DisciplineSpec, DrrSpec, DualPi2Spec, FqCoDelSpec, PieSpec, PrioritySpec, ShareName,
};
pub use error::{Problem, ScenarioError};
pub use generate::{GenerateSpec, PatternName};
pub use group::GroupSpec;
pub use mets::{MetsSpec, PeeringRate, PeeringSpec};
pub use quantity::{Bytes, BytesOrOff, OrOff};
pub use schema::{
    BackSpec, BudgetSpec, CpuSpec, DatagramSpec, FlowSpec, HostSpec, LanSpec, LineSpec, LinkSpec,
    RedSpec, RouterSpec, RunSpec, Scenario, SiteSpec, Version, WorkloadSpec,
};
pub use tcp::{EcnName, ProfileName, TcpSpec, VariantName};
pub use topology::{Kind, TopologySpec};
pub use warnings::Warning;
pub use xtp::{RetransmissionName, XtpSpec};

pub use crate::text::Text;
pub(crate) use crate::text::{above_zero_to, up_to};

static SCHEMA: LazyLock<serde_json::Value> =
    LazyLock::new(|| schemars::schema_for!(Scenario).to_value());

impl Scenario {
    /// Reads a scenario; relative paths of files start at `base_dir`.
    pub fn from_toml(text: &str, base_dir: &Path) -> Result<Scenario, ScenarioError> {
        let scenario: Scenario =
            read::from_toml(text, Some(&SCHEMA)).map_err(ScenarioError::misread)?;
        Ok(scenario.based_at(base_dir))
    }

    /// Reads a scenario from JSON of the same schema.
    pub fn from_json(text: &str, base_dir: &Path) -> Result<Scenario, ScenarioError> {
        let scenario: Scenario =
            read::from_json(text, Some(&SCHEMA)).map_err(ScenarioError::misread)?;
        Ok(scenario.based_at(base_dir))
    }

    /// Writes it as TOML.
    pub fn to_toml(&self) -> Result<String, ScenarioError> {
        // Each writer of TOML within it would have all fields compiled once more.
        let fields: &dyn erased_serde::Serialize = self;
        toml::to_string(fields)
            .map_err(|error| ScenarioError::new("", Problem::Syntax(error.to_string())))
    }

    /// The JSON Schema of the file, for editors.
    pub fn json_schema() -> serde_json::Value {
        SCHEMA.clone()
    }

    fn based_at(mut self, base_dir: &Path) -> Scenario {
        self.base_dir = base_dir.to_owned();
        self
    }
}

/// Whether the text says that it is a scenario of an internetwork, even if it is broken elsewhere.
pub fn is_internet(text: &str) -> bool {
    says_schema(text, "internet/")
}

/// Whether the text says that it follows a schema of this kind.
pub(crate) fn says_schema(text: &str, kind: &str) -> bool {
    // A byte order mark is no part of the first key.
    let text = text.trim_start_matches('\u{feff}');
    let (table, _) = toml::de::DeTable::parse_recoverable(text);
    let schema = table.get_ref().get("schema");
    let name = schema.and_then(|schema| schema.get_ref().as_str());
    name.is_some_and(|name| name.starts_with(kind))
}
