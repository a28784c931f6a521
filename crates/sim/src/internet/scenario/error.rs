use std::fmt;
use std::path::PathBuf;

use crate::line::line_of;
use crate::scenario::read::Misread;

/// Why a scenario cannot be run: where, what it says, and what would do.
#[derive(Debug)]
pub struct ScenarioError {
    /// Line in the file, from 1; none if the scenario did not come from TOML.
    pub line: Option<usize>,
    /// Path of the field, such as `link[2].rate`; empty if the text is no TOML or JSON.
    pub field: String,
    /// What is wrong with it.
    pub problem: Problem,
}

/// What is wrong with a field.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// A file cannot be read.
    #[error("cannot read {}: {error}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// What the system says.
        error: std::io::Error,
    },
    /// The text is no scenario: the syntax, an unknown field or a value of the wrong kind.
    #[error("{0}")]
    Syntax(String),
    /// A value out of its range.
    #[error("it is {value}; expected {accepted}")]
    Value {
        /// What it says.
        value: String,
        /// What would do.
        accepted: String,
    },
    /// A field that is needed here.
    #[error("it is missing; {0}")]
    Missing(String),
    /// A field that has no meaning here.
    #[error("it means nothing here; {0}")]
    Needless(String),
    /// A name that nothing has.
    #[error("there is no {what} {name:?}{hint}")]
    Unknown {
        /// Such as `"host"`.
        what: &'static str,
        /// The name.
        name: String,
        /// What has a similar name, or, if there are few, all names.
        hint: String,
    },
    /// Something that is of another kind than is needed.
    #[error("{name:?} is a {is}; expected {accepted}")]
    Kind {
        /// The name.
        name: String,
        /// What it is.
        is: &'static str,
        /// What would do.
        accepted: &'static str,
    },
    /// A name, address or link that is there twice.
    #[error("{what} {name} is there already, in {first}; choose another or remove one")]
    Duplicate {
        /// What it is.
        what: &'static str,
        /// Its name.
        name: String,
        /// Where it is first.
        first: String,
    },
    /// A link from a node to itself.
    #[error("the link goes from {0:?} to itself; its ends must differ")]
    Loop(String),
    /// A host that has no attachment, or more than one.
    #[error("{0}")]
    Attachment(String),
    /// Two nodes that no links join.
    #[error(
        "no way leads from {from:?} to {to:?}; add a [[link]] between their parts of the network"
    )]
    NoPath {
        /// One.
        from: String,
        /// The other.
        to: String,
    },
    /// Lists that should have the same length.
    #[error("{left} names on one side and {right} on the other; expected as many, or one")]
    Lengths {
        /// Of the first.
        left: usize,
        /// Of the second.
        right: usize,
    },
    /// More than a run can hold.
    #[error("that makes {count} {what}; at most {most} are possible")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many, or a lower bound.
        count: u64,
        /// The bound.
        most: u64,
    },
    /// A TCP, workload or policy that contradicts itself.
    #[error("{0}")]
    Config(String),
}

impl ScenarioError {
    pub(crate) fn misread(Misread { line, field, what }: Misread) -> ScenarioError {
        ScenarioError {
            line,
            field,
            problem: Problem::Syntax(what),
        }
    }

    pub(crate) fn new(field: impl ToString, problem: Problem) -> ScenarioError {
        ScenarioError {
            line: None,
            field: field.to_string(),
            problem,
        }
    }

    pub(crate) fn value(
        field: impl ToString,
        value: impl ToString,
        accepted: impl Into<String>,
    ) -> ScenarioError {
        let (value, accepted) = (value.to_string(), accepted.into());
        ScenarioError::new(field, Problem::Value { value, accepted })
    }

    /// With the line of its field in `text`, the TOML that the scenario was read from.
    pub fn located(mut self, text: &str) -> ScenarioError {
        self.line = self.line.or_else(|| line_of(text, &self.field));
        self
    }

    /// The error without its line.
    pub fn message(&self) -> String {
        match self.field.is_empty() {
            true => self.problem.to_string(),
            false => format!("{}: {}", self.field, self.problem),
        }
    }
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        f.write_str(&self.message())
    }
}

impl std::error::Error for ScenarioError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.problem {
            Problem::Read { error, .. } => Some(error),
            _ => None,
        }
    }
}
