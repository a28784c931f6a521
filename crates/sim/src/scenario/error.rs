use std::path::PathBuf;

use thiserror::Error;

use super::read::Misread;
use crate::line::line_of;

/// Why a scenario cannot be run; every message names the field and its value.
#[derive(Debug, Error)]
pub enum ScenarioError {
    /// A file cannot be read.
    #[error("{}cannot read {}: {error}",
            if field.is_empty() { String::new() } else { format!("{field}: ") }, path.display())]
    Read {
        /// Path of the field that names it; empty for the scenario itself.
        field: String,
        /// The scenario or clip.
        path: PathBuf,
        /// What the system says.
        error: std::io::Error,
    },
    /// The text is no scenario: the syntax, an unknown field or a value of the wrong kind.
    #[error("{}{}{what}", line.map_or(String::new(), |line| format!("line {line}: ")),
            if field.is_empty() { String::new() } else { format!("{field}: ") })]
    Text {
        /// Line in the file, from 1.
        line: Option<usize>,
        /// Path of the field; empty if the syntax is wrong.
        field: String,
        /// The cause and the accepted values.
        what: String,
    },
    /// A value out of its range.
    #[error("{field} is {value}: expected {accepted}")]
    Value {
        /// Path of the field, like `link[2].rate`.
        field: String,
        /// What it says.
        value: String,
        /// What would do.
        accepted: String,
        /// Paths of the other fields that it is compared with, if it is valid by itself.
        others: Vec<String>,
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

impl From<Misread> for ScenarioError {
    fn from(Misread { line, field, what }: Misread) -> ScenarioError {
        ScenarioError::Text { line, field, what }
    }
}

impl ScenarioError {
    /// The path of the field that is wrong; empty if there is none.
    pub fn field(&self) -> &str {
        match self {
            ScenarioError::Read { field, .. }
            | ScenarioError::Text { field, .. }
            | ScenarioError::Value { field, .. }
            | ScenarioError::Unknown { field, .. }
            | ScenarioError::Duplicate { field, .. }
            | ScenarioError::NoRoute { field, .. }
            | ScenarioError::Clip { field, .. }
            | ScenarioError::Config { field, .. } => field,
        }
    }

    /// The line of the error in `text`, the TOML that the scenario was read from.
    pub fn line(&self, text: &str) -> Option<usize> {
        match self {
            ScenarioError::Text { line, .. } => *line,
            error => line_of(text, error.field()),
        }
    }

    /// Paths of the fields that the value is compared with: the value alone is valid.
    pub fn compared_with(&self) -> &[String] {
        match self {
            ScenarioError::Value { others, .. } => others,
            _ => &[],
        }
    }

    /// The error without its line.
    pub fn message(&self) -> String {
        match self {
            ScenarioError::Text { field, what, .. } if field.is_empty() => what.clone(),
            ScenarioError::Text { field, what, .. } => format!("{field}: {what}"),
            error => error.to_string(),
        }
    }

    pub(super) fn value(
        field: impl Into<String>,
        value: impl ToString,
        accepted: impl Into<String>,
    ) -> ScenarioError {
        ScenarioError::Value {
            field: field.into(),
            value: value.to_string(),
            accepted: accepted.into(),
            others: Vec::new(),
        }
    }

    /// A value that does not fit those of other fields.
    pub(super) fn relation<const N: usize>(
        field: impl Into<String>,
        value: impl ToString,
        accepted: impl Into<String>,
        others: [String; N],
    ) -> ScenarioError {
        ScenarioError::Value {
            field: field.into(),
            value: value.to_string(),
            accepted: accepted.into(),
            others: others.into(),
        }
    }
}
