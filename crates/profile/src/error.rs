//! What is wrong with a profile or a table.

use thiserror::Error;

use crate::mapping::MappingError;

/// Why a profile cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum ProfileError {
    /// The text is no profile or table: TOML, a field or its value.
    #[error("{0}")]
    Text(String),
    /// A value that is not possible.
    #[error("{field}: {what}")]
    Value {
        /// The field, with its stream.
        field: String,
        /// What is wrong with it, and what is possible.
        what: String,
    },
    /// A stream cannot be mapped to the network.
    #[error("stream {stream}: {error}")]
    Mapping {
        /// The stream.
        stream: String,
        /// The reason.
        error: MappingError,
    },
}

impl ProfileError {
    /// A value of a stream.
    pub(crate) fn value(stream: &str, field: &str, what: impl Into<String>) -> ProfileError {
        ProfileError::Value {
            field: format!("stream {stream}, {field}"),
            what: what.into(),
        }
    }
}
