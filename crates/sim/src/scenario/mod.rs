//! Scenarios: the file as it is written ([`Scenario`]), and what it means for every machine.

pub(crate) mod admission;
mod clips;
pub(crate) mod defaults;
mod error;
pub(crate) mod form;
mod host;
pub(crate) mod limits;
mod links;
pub(crate) mod names;
mod network;
pub(crate) mod read;
mod receivers;
mod repair;
mod requests;
mod resolve;
mod schema;
mod security;
pub(crate) mod shorthand;
mod topology;
mod tree;
mod warnings;

pub use admission::{Admission, PromiseSpec};
pub use error::ScenarioError;
pub use host::{HostChoice, HostProfile};
pub use layercast_core::quantity as units;
pub use network::{Asked, Fault, Flow, NetLink, Network, Node, Port, Receiver, Request};
pub use repair::LinkRepair;
pub use schema::{
    ClipSpec, DiscardSpec, FaultKind, FaultSpec, FilterSpec, FitSpec, FlowEntry, GilbertSpec,
    JitterSpec, LinkSpec, LossSpec, NodeKind, NodeSpec, PlayoutSpec, RateSpec, ReceiverSpec,
    RequestSpec, Scenario, SecuritySpec, ShapingSpec,
};
pub use warnings::Warning;

pub use crate::ties::Ties;

use std::path::Path;
use std::sync::LazyLock;

use crate::file;

static SCHEMA: LazyLock<serde_json::Value> =
    LazyLock::new(|| schemars::schema_for!(Scenario).to_value());

impl Scenario {
    /// Reads a scenario; relative paths of clips start at `base_dir`.
    ///
    /// Errors have the line, the path of the field, the value and the accepted values.
    pub fn from_toml(text: &str, base_dir: &Path) -> Result<Scenario, ScenarioError> {
        let scenario: Scenario = read::from_toml(text, Some(&SCHEMA))?;
        Ok(scenario.based_at(base_dir))
    }

    /// Reads a scenario from JSON of the same schema.
    pub fn from_json(text: &str, base_dir: &Path) -> Result<Scenario, ScenarioError> {
        let scenario: Scenario = read::from_json(text, Some(&SCHEMA))?;
        Ok(scenario.based_at(base_dir))
    }

    /// Reads the scenario file at `path`; relative paths of clips start at the working directory.
    pub fn load(path: &Path) -> Result<Scenario, ScenarioError> {
        let text = file::read_text(path, file::MAX_TEXT_FILE).map_err(|error| {
            let (field, path) = (String::new(), path.to_owned());
            ScenarioError::Read { field, path, error }
        })?;
        Scenario::from_toml(&text, Path::new(""))
    }

    /// The JSON Schema of a scenario file, for editors and other tools.
    pub fn json_schema() -> serde_json::Value {
        SCHEMA.clone()
    }

    fn based_at(mut self, base_dir: &Path) -> Scenario {
        self.base_dir = base_dir.to_owned();
        self
    }
}
