use std::path::PathBuf;

use thiserror::Error;

/// Why a scenario cannot be run; every message names the field and its value.
#[derive(Debug, Error)]
pub enum ScenarioError {
    /// The file cannot be read.
    #[error("{}: {error}", path.display())]
    Read {
        /// The scenario or clip.
        path: PathBuf,
        /// What the system says.
        error: std::io::Error,
    },
    /// The text is no scenario; the message shows the line.
    #[error("{0}")]
    Toml(#[from] toml::de::Error),
    /// The value is no scenario.
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    /// A value out of its range.
    #[error("{field} is {value}: expected {accepted}")]
    Value {
        /// Path of the field, like `link[2].rate`.
        field: String,
        /// What it says.
        value: String,
        /// What would do.
        accepted: String,
    },
    /// A name that nothing has.
    #[error("{field}: there is no {what} {name:?}; there is {}", known.join(", "))]
    Unknown {
        /// Path of the field.
        field: String,
        /// `"node"` or `"flow"`.
        what: &'static str,
        /// The name.
        name: String,
        /// The names there are.
        known: Vec<String>,
    },
    /// A name, link or fault that is there twice.
    #[error("{field}: {what} {name:?} is there already")]
    Duplicate {
        /// Path of the field.
        field: String,
        /// What it is the name of.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A receiver that its flow cannot reach.
    #[error("{field}: no way through switches from {from:?} to {to:?} for flow {flow:?}")]
    NoRoute {
        /// Path of the field.
        field: String,
        /// The flow.
        flow: String,
        /// Its source.
        from: String,
        /// The node of the receiver.
        to: String,
    },
    /// A clip that cannot be used.
    #[error("{field}: {error}")]
    Clip {
        /// Path of the field.
        field: String,
        /// What is wrong with it.
        error: layercast_media::MediaError,
    },
    /// A flow, policy or machine configuration that contradicts itself.
    #[error("{field}: {error}")]
    Config {
        /// Path of the field.
        field: String,
        /// What is wrong with it.
        error: String,
    },
}

impl ScenarioError {
    pub(super) fn value(
        field: impl Into<String>,
        value: impl ToString,
        accepted: impl Into<String>,
    ) -> ScenarioError {
        ScenarioError::Value {
            field: field.into(),
            value: value.to_string(),
            accepted: accepted.into(),
        }
    }
}
